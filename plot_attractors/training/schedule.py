"""Inference as a schedule of phases that can be stopped and resumed after any update."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

__all__ = [
    "At",
    "Phase",
    "Scalar",
    "Schedule",
    "clipped_update",
    "cosine",
    "denormals_are_zero",
    "late_cosine",
    "require_model",
    "set_lr",
]

M = TypeVar("M")

Scalar = float | Tensor


class At(NamedTuple):
    """Where an update is: its number in the schedule and in its phase, and the part of the phase
    that is done (0 to 1).
    """

    position: int
    progress: float
    update: int = 0


@dataclass(frozen=True)
class Phase:
    """`updates` calls of `update`, which returns scalars to record, after one of `begin`.

    A scalar stays a tensor () without gradients where it is one: to read it is to wait for the
    device, which a run does once a row of its metrics. `cycle` counts how often EM has come round.
    All randomness is torch's global generator.
    """

    name: str
    cycle: int
    updates: int
    update: Callable[[At], Mapping[str, Scalar]]
    begin: Callable[[], None] | None = None


class Schedule:
    """Phases one after the other, as of Algorithm 1, and all that must survive a stop.

    Args:
        model: what is trained; its `state_dict` is part of the schedule's.
        phases: those of no updates are left out.
        state: what has a `state_dict` besides, by name: optimizers, buffers.
        summary: slower measurements, now and then.
    """

    def __init__(
        self,
        model: nn.Module,
        phases: Sequence[Phase],
        state: Mapping[str, Any] | None = None,
        summary: Callable[[], dict[str, float]] | None = None,
    ) -> None:
        self.model, self.state, self._summary = model, dict(state or {}), summary
        self.schedule = [phase for phase in phases if phase.updates > 0]
        self._ends = list(accumulate(phase.updates for phase in self.schedule))
        self.position = 0

    @property
    def total(self) -> int:
        """Updates in the whole schedule."""
        return self._ends[-1] if self._ends else 0

    @property
    def done(self) -> bool:
        return self.position >= self.total

    @property
    def _index(self) -> int:
        last = len(self._ends) - 1
        return next(i for i, end in enumerate(self._ends) if self.position < end or i == last)

    @property
    def phase(self) -> Phase:
        """The phase of the next update (the last one when done)."""
        return self.schedule[self._index]

    def step(self) -> Mapping[str, Scalar]:
        """One update of the current phase."""
        phase, left = self.phase, self._ends[self._index] - self.position
        if left == phase.updates and phase.begin is not None:
            phase.begin()
        metrics = phase.update(At(self.position, 1 - left / phase.updates, phase.updates - left))
        self.position += 1
        return metrics

    def summary(self) -> dict[str, float]:
        """Slower measurements; they draw from the random generator, so the caller forks it."""
        return {} if self._summary is None else self._summary()

    def state_dict(self) -> dict[str, Any]:
        own = {"position": self.position, "model": self.model.state_dict()}
        return own | {name: part.state_dict() for name, part in self.state.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.position = state["position"]
        self.model.load_state_dict(state["model"])
        for name, part in self.state.items():
            part.load_state_dict(state[name])


def clipped_update(
    optimizer: torch.optim.Optimizer,
    parameters: Iterable[nn.Parameter],
    loss: Tensor,
    clip: float = 1.0,
) -> None:
    """One gradient step with one global gradient clip."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_([p for p in parameters if p.grad is not None], clip)
    optimizer.step()


def cosine(progress: float, final: float = 0.02) -> float:
    """Learning-rate factor that falls from 1 to `final` as progress goes from 0 to 1."""
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))


def late_cosine(progress: float) -> float:
    """The same factor where it falls in the second half alone."""
    return cosine(max(0.0, 2 * progress - 1))


@contextlib.contextmanager
def denormals_are_zero() -> Iterator[None]:
    """Numbers below 1e-38 count as 0 meanwhile, in this thread and in those that it starts.

    The gradients of saturated pixels are full of them, and processors take many times as long for
    one: an M-update of sprites took twice as long.
    """
    before = float(torch.tensor(1e-40) * 1) == 0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def set_lr(lr: float, *optimizers: torch.optim.Optimizer) -> None:
    """The learning rate of all parameters of these optimizers."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = lr


def require_model(model: Any, kind: type[M]) -> M:
    """The model, or a ValueError where an inference program fits another kind of models."""
    if not isinstance(model, kind):
        raise ValueError(
            f"this inference program fits models of the kind {kind.__name__}, and this model is of "
            f"the kind {type(model).__name__}: leave --inference out, so that the model's own "
            "inference program is taken"
        )
    return model
