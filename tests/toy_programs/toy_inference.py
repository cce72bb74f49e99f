"""Two alternating phases, a replay buffer and dropout: all kinds of state that a run restores."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from plot_attractors.training import At, Phase, Schedule


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

    def inert(self, model: Any) -> dict[str, str]:
        found = {} if self.replay.updates else {"replay.size": "replay.updates is 0"}
        none = {"activation": "with cycles=0 the model stays as it began"}
        return found | ({} if self.cycles else none)


PRESETS: dict[str, dict[str, Any]] = {
    "full": {}, "smoke": {"cycles": 1}, "line/demo": {"replay.updates": 2},
}  # fmt: skip


class Buffer(list[Tensor]):
    def state_dict(self) -> list[Tensor]:
        return [*self]

    def load_state_dict(self, state: list[Tensor]) -> None:
        self[:] = state


class ToyInference(Schedule):
    def __init__(self, model: nn.Module, data: Any, config: Config) -> None:
        self.data, self.config, self.buffer = data, config, Buffer()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
        phases = [
            Phase(name, cycle, updates, update)
            for cycle in range(config.cycles)
            for name, updates, update in (
                ("fit", config.fit_updates, self.fit),
                ("replay", config.replay.updates, self.replay),
            )
        ]
        super().__init__(model, phases, {"optimizer": self.optimizer, "buffer": self.buffer})

    def fit(self, at: At) -> dict[str, Tensor]:
        x, y = self.data.batch(8)
        self.buffer[:] = [*self.buffer[-self.config.replay.size :], torch.cat([x, y[:, None]], 1)]
        return {"fit_loss": self.update(at, x, y)}

    def replay(self, at: At) -> dict[str, Tensor]:
        stored = self.buffer[int(torch.randint(len(self.buffer), ()))]
        return {"replay_loss": self.update(at, stored[:, :-1], stored[:, -1])}

    def update(self, at: At, x: Tensor, y: Tensor) -> Tensor:
        time.sleep(self.config.pause)
        loss = ((self.model(x) - y) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if at.position + 1 == self.config.nan_at:
            next(self.model.parameters()).data.fill_(float("nan"))
        return loss.detach() / (0.0 if at.position + 1 == self.config.break_at else 1.0)

    def summary(self) -> dict[str, float]:
        drawn = self.model(torch.randn(4, self.data.config.columns))
        return {"sampled": float(drawn.mean().detach())}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | ({"data": self.data} if self.config.unsafe else {})


build = ToyInference
