"""Coloured sprites (Section *dSprites*), drawn on the fly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.data import ColouredSprites
from plot_attractors.ranges import Side, setting

KIND = "dsprites"  # presets of other programs may be for data of this kind


@dataclass(frozen=True)
class Config:
    side: Side = setting(32, "pixels of an image's side")
    hold_out: bool = setting(True, "keep the paper's held-out sets from training")


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "smoke": {"side": 16}}


def load(config: Config) -> ColouredSprites:
    """Images of sprites; ValueError as of `ColouredSprites`."""
    return ColouredSprites(side=config.side, hold_out=config.hold_out)
