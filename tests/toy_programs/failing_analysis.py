"""An analysis that writes half of its results and fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def analyze(run: Any, out: Path) -> None:
    (out / "summary.csv").write_text("half\n")
    raise KeyError("no such column")
