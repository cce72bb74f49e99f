"""Several processes that train one model, as ``torchrun`` starts them (data parallel).

Parameters are equal in all processes. Each makes its share of a batch from inputs and noise of its
own, and gradients are averaged before every update. Without ``torchrun`` there is one process, and
nothing here does anything.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = [
    "average", "average_", "average_gradients", "broadcast", "device_of", "from_first", "joined",
    "launched", "per_rank", "rank", "seed", "size",
]  # fmt: skip

APART = 1e-3  # relative difference of parameters beyond which they were not updated alike

T = TypeVar("T")


def launched() -> tuple[int, int]:
    """Rank of this process and number of processes that ``torchrun`` has started; (0, 1) without
    it.
    """
    if not dist.is_available() or not dist.is_torchelastic_launched():
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def rank() -> int:
    """Number of this process, from 0: the first one writes the run."""
    return dist.get_rank() if _together() else 0


def size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if _together() else 1


def per_rank(n: int) -> int:
    """The share of each process in n things: n itself with one process, rounded up with more, so
    that all shares are equal, and the mean of their means is the mean.

    >>> per_rank(64)
    64
    """
    return -(-n // size())


def device_of(device: torch.device) -> torch.device:
    """The GPU of this process, one each, where ``cuda`` is asked for.

    Raises ValueError where a machine has fewer GPUs than processes.
    """
    if launched()[1] == 1 or device.type != "cuda":
        return device
    local, here = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if torch.cuda.device_count() < here:
        raise ValueError(
            f"{here} processes need a GPU each, and there are {torch.cuda.device_count()}: give "
            "torchrun a smaller --nproc-per-node"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


@contextlib.contextmanager
def joined(device: torch.device) -> Iterator[None]:
    """Together with the other processes, by NCCL on GPUs and by Gloo on processors."""
    if launched()[1] == 1 or dist.is_initialized():
        yield
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def seed(seed: int, position: int) -> None:
    """Seed the random numbers of all processes but the first, each anew after so many updates."""
    if rank():
        state = np.random.SeedSequence([seed, rank(), position]).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0]) >> 1)


def from_first(make: Callable[[], T]) -> T:
    """What the first process makes, or the error that it raises, in all processes."""
    if size() == 1:
        return make()
    found: list[Any] = [None, None]
    if rank() == 0:
        try:
            found[0] = make()
        except Exception as error:
            found[1] = error
    dist.broadcast_object_list(found)
    if found[1] is not None:
        raise found[1]
    return found[0]  # type: ignore[no-any-return]


def average(values: Mapping[str, float]) -> dict[str, float]:
    """The mean over processes of numbers by name, the same names in all of them."""
    if size() == 1:
        return dict(values)
    cuda = dist.get_backend() == "nccl"
    found = torch.tensor(list(values.values()), dtype=torch.float64).to("cuda" if cuda else "cpu")
    dist.all_reduce(found)
    return dict(zip(values, (found / size()).tolist(), strict=True))


def average_(tensor: Tensor) -> Tensor:
    """The mean over processes, in the place of a tensor."""
    if size() > 1:
        dist.all_reduce(tensor)
        tensor /= size()
    return tensor


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """The mean of gradients over processes; a parameter without one in any process has none."""
    if size() == 1:
        return
    own = list(parameters)
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in own]
    has = torch.tensor([p.grad is not None for p in own]).to(parts[0])
    flat = average_(torch.cat([has, *(part.flatten() for part in parts)]))
    sizes = [len(own), *(part.numel() for part in parts)]
    has, *means = flat.split(sizes)
    for parameter, of_any, mean in zip(own, has.tolist(), means, strict=True):
        if of_any:
            parameter.grad = mean.view_as(parameter)


def broadcast(*modules: nn.Module, alike: bool = False) -> None:
    """Parameters and buffers of the first process, in all of them.

    Raises RuntimeError where they must be `alike` before, and are not.
    """
    for module in modules if size() > 1 else ():
        for name, tensor in module.state_dict().items():
            first = tensor.detach().clone()
            dist.broadcast(first, 0)
            if alike and not torch.allclose(tensor, first, rtol=APART, atol=APART):
                raise RuntimeError(
                    f"{name} is not the same in all processes: every update must go through "
                    "training.clipped_update"
                )
            tensor.detach().copy_(first)


def _together() -> bool:
    return dist.is_available() and dist.is_initialized()
