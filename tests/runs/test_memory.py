"""A run that asks for more memory than there is ends in a sentence, and no process is killed."""

from __future__ import annotations

import sys

import pytest
import torch

from plot_attractors.runs import memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")


def test_what_is_not_free_is_refused_with_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    assert (memory.free_memory() or 0) > 2**20
    before = resource.getrlimit(resource.RLIMIT_AS)
    monkeypatch.setattr(memory, "free_memory", lambda: 2**30)
    with pytest.raises(
        MemoryError, match=r"asks for 5\.0 GiB more of memory, and 1\.0 GiB were free"
    ):
        with memory.within_memory():
            torch.empty(5 * 2**30, dtype=torch.uint8)
    with pytest.raises(MemoryError, match="asks for more of memory"), memory.within_memory():
        bytearray(5 * 2**30)
    with pytest.raises(RuntimeError, match="something else"), memory.within_memory():
        raise RuntimeError("something else")
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    with memory.within_memory():
        assert torch.ones(3).sum() == 3
