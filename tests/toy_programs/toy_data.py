"""Points on a straight line with noise: the smallest program that is a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

KIND = "line"


@dataclass(frozen=True)
class Config:
    columns: int = 3  # of the inputs
    noise: float = 0.1  # of the outputs


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "demo": {"columns": 2}, "smoke": {"columns": 1}}


class Data:
    def __init__(self, config: Config) -> None:
        self.config, self.slope = config, torch.randn(config.columns)

    def batch(self, n: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, self.config.columns)
        return x, x @ self.slope + self.config.noise * torch.randn(n)


def load(config: Config) -> Data:
    return Data(config)
