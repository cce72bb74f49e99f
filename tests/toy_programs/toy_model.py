"""A straight line through points with noise: the smallest program that is a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from torch import nn


@dataclass(frozen=True)
class Config:
    activation: Literal["tanh", "relu"] = "tanh"
    clip: float | None = None

    DATA: ClassVar[str] = str(Path(__file__).with_name("toy_data.py"))
    INFERENCE: ClassVar[str] = str(Path(__file__).with_name("toy_inference.py"))


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "demo": {}, "smoke": {}}


def build(config: Config, data: Any) -> nn.Module:
    activation = nn.Tanh() if config.activation == "tanh" else nn.ReLU()
    first, last = nn.Linear(data.config.columns, 4), nn.Linear(4, 1)
    return nn.Sequential(first, activation, nn.Dropout(0.1), last, nn.Flatten(0))
