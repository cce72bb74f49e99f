"""A straight line through points with noise: the smallest program that is a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from torch import nn


@dataclass(frozen=True)
class Config:
    bias: bool = True
    activation: Literal["tanh", "relu"] = "tanh"
    labels: tuple[str, ...] = ()
    clip: float | None = None

    DATA: ClassVar[str] = str(Path(__file__).with_name("toy_data.py"))
    INFERENCE: ClassVar[str] = str(Path(__file__).with_name("toy_inference.py"))


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "demo": {}, "smoke": {}}


def build(config: Config, data: Any) -> nn.Module:
    activation = nn.Tanh() if config.activation == "tanh" else nn.ReLU()
    return nn.Sequential(
        nn.Linear(data.config.columns, 4, bias=config.bias),
        activation,
        nn.Dropout(0.1),
        nn.Linear(4, 1),
        nn.Flatten(0),
    )
