"""What tells whether a model's state is still the one that was written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from torch import Tensor, uint8


def digest(state: Mapping[str, Tensor], header: Mapping[str, str]) -> str:
    """SHA-256 of the settings, number of updates and data in a header, and of a state."""
    text = f"{header['config']} {header['position']}{header.get('data', '')}"
    sha = hashlib.sha256(text.encode())
    for name, tensor in sorted(state.items()):
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha.update(tensor.reshape(-1).view(uint8).numpy().tobytes())
    return sha.hexdigest()
