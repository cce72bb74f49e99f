"""Predictions beside the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import torch

TITLE = "Predictions <of the line>"
CAPTIONS = {
    "predictions": "Predictions against the data; on the line they agree & nothing is left."
}


def analyze(run: Any, out: Path) -> None:
    x, y = run.data.batch(16)
    with torch.no_grad():
        predicted = run.model(x)
    error = float(((predicted - y) ** 2).mean())
    pd.DataFrame({"split": ["train"], "error": [error], "n": [16]}).to_csv(
        out / "summary.csv", index=False
    )
    figure, axes = plt.subplots(figsize=(2, 2))
    axes.plot(y, predicted, ".")
    figure.savefig(out / "predictions.png")
    figure.savefig(out / "predictions.svg")
    plt.close(figure)
