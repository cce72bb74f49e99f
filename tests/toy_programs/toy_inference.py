"""Two alternating phases, a replay buffer and dropout: all kinds of state that a run must
restore.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    cycles: int = 3
    fit_updates: int = 7
    replay_updates: int = 4
    learning_rate: float = 0.01
    pause: float = 0.0  # seconds in an update
    break_at: int = -1  # update at which the loss becomes infinite


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "smoke": {"cycles": 1}}


class Phase(NamedTuple):
    name: str
    cycle: int
    updates: int


class ToyInference:
    def __init__(self, model: nn.Module, data: Any, config: Config) -> None:
        self.model, self.data, self.config = model, data, config
        self.optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
        self.buffer: list[Tensor] = []
        self.position = 0
        self.schedule = [
            Phase(name, cycle, updates)
            for cycle in range(config.cycles)
            for name, updates in (("fit", config.fit_updates), ("replay", config.replay_updates))
        ]
        self.total = sum(phase.updates for phase in self.schedule)

    @property
    def done(self) -> bool:
        return self.position >= self.total

    @property
    def phase(self) -> Phase:
        position = self.position
        for phase in self.schedule:
            if position < phase.updates:
                return phase
            position -= phase.updates
        raise IndexError("the schedule has ended")

    def step(self) -> dict[str, float]:
        time.sleep(self.config.pause)
        phase = self.phase
        if phase.name == "fit":
            x, y = self.data.batch(8)
            self.buffer = [*self.buffer[-20:], torch.cat([x, y[:, None]], 1)]
        else:
            stored = self.buffer[int(torch.randint(len(self.buffer), ()))]
            x, y = stored[:, :-1], stored[:, -1]
        loss = ((self.model(x) - y) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.position += 1
        if self.position == self.config.break_at:
            return {"fit_loss": float("inf")}
        return {f"{phase.name}_loss": float(loss.detach())}

    def summary(self) -> dict[str, float]:
        return {
            "sampled": float(self.model(torch.randn(4, self.data.config.columns)).mean().detach())
        }

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "buffer": list(self.buffer),
            "position": self.position,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.buffer = list(state["buffer"])
        self.position = state["position"]


def build(model: nn.Module, data: Any, config: Config) -> ToyInference:
    return ToyInference(model, data, config)
