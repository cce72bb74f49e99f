"""A straight line through points with noise: the smallest program that is a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    columns: int = 3  # of the inputs
    noise: float = 0.1  # of the outputs
    bias: bool = True
    activation: Literal["tanh", "relu"] = "tanh"
    labels: tuple[str, ...] = ()
    clip: float | None = None

    KIND: ClassVar[str] = "line"
    INFERENCE: ClassVar[str] = str(Path(__file__).with_name("toy_inference.py"))


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "demo": {"columns": 2}, "smoke": {"columns": 1}}


class Batch(NamedTuple):
    x: Tensor
    y: Tensor


class Data:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.slope = torch.randn(config.columns)

    def batch(self, n: int) -> Batch:
        x = torch.randn(n, self.config.columns)
        return Batch(x, x @ self.slope + self.config.noise * torch.randn(n))


def load_data(config: Config) -> Data:
    return Data(config)


def build(config: Config, data: Data) -> nn.Module:
    activation = nn.Tanh() if config.activation == "tanh" else nn.ReLU()
    return nn.Sequential(
        nn.Linear(config.columns, 4, bias=config.bias),
        activation,
        nn.Dropout(0.1),
        nn.Linear(4, 1),
        nn.Flatten(0),
    )
