"""The weights of a trained model as one small file, ``weights.safetensors``, without what training
would need to go on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from plot_attractors.runs.pretrained import WEIGHTS

__all__ = ["load", "pack"]


def pack(
    state: Mapping[str, Tensor], config: Mapping[str, Any], position: int, data: Mapping[str, Any]
) -> bytes:
    """The file of a model's state, with its settings, the number of updates, and `data.digests` of
    what it was trained on.
    """
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
    header = {"config": json.dumps(config), "position": str(position), "data": json.dumps(data)}
    header["sha256"] = _digest(header, tensors)
    return save(tensors, {"format": "pt", **header})  # by convention: of PyTorch


def load(path: Path) -> dict[str, Any]:
    """What `store.load_checkpoint` gives, of a directory with weights alone; floats as float32.

    Raises ValueError where the file cannot be read, or holds other numbers than were written.
    """
    file = path / WEIGHTS
    try:
        with safe_open(file, "pt") as archive:
            tensors = {name: archive.get_tensor(name) for name in [*archive.keys()]}
            header = archive.metadata() or {}
        damaged = header["sha256"] != _digest(header, tensors)
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{file} cannot be read as weights of a model: {error}") from error
    if damaged:
        raise ValueError(f"{file} is damaged: it is not what was saved, by its checksum")
    model = {n: t.float() if t.dtype == torch.float16 else t for n, t in tensors.items()}
    position = int(header["position"])
    return {
        "inference": {"model": model},
        "config": header["config"],
        "data": json.loads(header.get("data", "{}")),
        "position": position,
        "total": position,
    }


def _digest(header: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of settings, number of updates, and the names, shapes and numbers of tensors."""
    text = f"{header['config']} {header['position']}{header.get('data', '')}"
    sha = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()
