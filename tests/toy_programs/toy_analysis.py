"""Predictions beside the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import torch

TITLE = "Predictions <of the line>"
CAPTIONS = {
    "predictions": "Predictions against the data; on the line they agree & nothing is left."
}


@dataclass(frozen=True)
class Config:
    draws: int = 16


def measure(run: Any, config: Config) -> dict[str, pd.DataFrame]:
    x, y = run.data.batch(config.draws)
    with torch.no_grad():
        predicted = run.model(x)
    error = float(((predicted - y) ** 2).mean())
    summary = pd.DataFrame({"split": ["train"], "error": [error], "n": [config.draws]})
    points = pd.DataFrame({"x": y.numpy(), "predicted": predicted.numpy()})
    return {"summary.csv": summary, "points.csv": points}


def draw(tables: dict[str, Any]) -> dict[str, Any]:
    figure, axes = plt.subplots(figsize=(2, 2))
    axes.plot(tables["points.csv"]["x"], tables["points.csv"]["predicted"], ".")
    return {"predictions": figure}
