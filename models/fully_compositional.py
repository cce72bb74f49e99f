"""Hard-coded ceiling: a token for every outcome of a feature, so that paths are spelled out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from plot_attractors import baselines
from plot_attractors.baselines import HardCoded
from plot_attractors.data import DataSet


@dataclass(frozen=True)
class Config:
    INFERENCE: ClassVar[str] = "hard_coded"


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    # of the tree, inputs whose class can be known
    **{f"hbv/{name}": {"recognisable": True} for name in ("full", "demo", "smoke")},
}


def build(config: Config, data: DataSet) -> HardCoded:
    """“Red” is A, always (Section *Comparison models*, baseline FC)."""
    recognise = baselines.recogniser(data)
    sentences = baselines.feature_sentences(recognise.features, recognise.values)
    return HardCoded(baselines.feature_language(recognise), recognise, sentences)
