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
class Replay:
    updates: int = 4  # of a cycle
    size: int = 20  # batches in the buffer


@dataclass(frozen=True)
class Config:
    cycles: int = 3
    fit_updates: int = 7
    replay: Replay = Replay()
    learning_rate: float = 0.01
    pause: float = 0.0  # seconds in an update
    break_at: int = -1  # update at which the loss becomes infinite
    nan_at: int = -1  # update at which a parameter becomes NaN
    unsafe: bool = False  # whether the state holds what torch does not load

    def inert(self, model: Any = None) -> dict[str, str]:
        found = {} if self.replay.updates else {"replay.size": "replay.updates is 0"}
        none = {"activation": "with cycles=0 the model stays as it began"}
        return found | ({} if self.cycles else none)


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "smoke": {"cycles": 1},
    "line/demo": {"replay.updates": 2},
}


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
        updates = {"fit": config.fit_updates, "replay": config.replay.updates}
        self.schedule = [Phase(n, c, u) for c in range(config.cycles) for n, u in updates.items()]

    @property
    def phase(self) -> Phase:
        position = self.position
        for phase in self.schedule:
            if position < phase.updates:
                return phase
            position -= phase.updates
        raise IndexError("the schedule has ended")

    def step(self) -> dict[str, Tensor]:
        time.sleep(self.config.pause)
        phase = self.phase
        if phase.name == "fit":
            x, y = self.data.batch(8)
            kept = self.buffer[-self.config.replay.size :]
            self.buffer = [*kept, torch.cat([x, y[:, None]], 1)]
        else:
            stored = self.buffer[int(torch.randint(len(self.buffer), ()))]
            x, y = stored[:, :-1], stored[:, -1]
        loss = ((self.model(x) - y) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.position += 1
        if self.position == self.config.nan_at:
            next(self.model.parameters()).data.fill_(float("nan"))
        broken = self.position == self.config.break_at
        return {f"{phase.name}_loss": loss.detach() / (0.0 if broken else 1.0)}

    def summary(self) -> dict[str, float]:
        drawn = self.model(torch.randn(4, self.data.config.columns))
        return {"sampled": float(drawn.mean().detach())}

    def state_dict(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "buffer": list(self.buffer),
            "position": self.position,
            **({"data": self.data} if self.config.unsafe else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.buffer = list(state["buffer"])
        self.position = state["position"]


def build(model: nn.Module, data: Any, config: Config) -> ToyInference:
    return ToyInference(model, data, config)
