"""An analysis that fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Config:
    draws: int = 16


def measure(run: Any, config: Config) -> Any:
    raise KeyError("no such column")


def draw(tables: Any) -> dict[str, Any]:
    return {}
