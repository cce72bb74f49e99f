"""A training without noise: the batches are rows of a fixed list, of which each process takes a
slice, with a phase whose `begin` draws at random.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from plot_attractors import processes
from plot_attractors.training import At, Phase, Schedule, clipped_update

ROWS = 240
CLIP = 0.05  # small: the norm of the mean gradient decides


@dataclass(frozen=True)
class Config:
    updates: int = 12  # of each of two phases
    batch: int = 12
    pause: float = 0.0  # seconds in an update
    own: bool = False  # whether an update goes past clipped_update


PRESETS: dict[str, dict[str, Any]] = {"full": {}}


def build(model: nn.Module, data: Any, c: Config) -> Schedule:
    kept = torch.get_rng_state()
    torch.manual_seed(0)
    x = torch.randn(ROWS, data.config.columns)
    y = x.square().sum(1)
    torch.set_rng_state(kept)
    model.eval()  # no dropout
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, 0.05)

    def update(at: At) -> dict[str, float]:
        time.sleep(c.pause)
        first, share = at.position * c.batch % ROWS, processes.per_rank(c.batch)
        rows = slice(first + processes.rank() * share, first + (processes.rank() + 1) * share)
        loss = (model(x[rows]) - y[rows]).square().mean()
        if c.own:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return {"loss": float(loss.detach())}
        norm = clipped_update(optimizer, parameters, loss, CLIP)
        return {"loss": float(loss.detach()), "norm": norm}

    def begin() -> None:
        """Noise that differs between processes."""
        with torch.no_grad():
            noise = 0.0 if processes.size() == 1 else 0.1 * torch.rand(()) * processes.rank()
            parameters[-1].add_(noise)

    phases = [Phase("one", 0, c.updates, update), Phase("two", 0, c.updates, update, begin)]
    return Schedule(model, phases, {"optimizer": optimizer})
