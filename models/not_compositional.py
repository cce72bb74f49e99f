"""Hard-coded floor: a random sentence for every combination of features; tokens mean nothing."""

from __future__ import annotations

from typing import Any

from plot_attractors import baselines
from plot_attractors.baselines import HardCoded
from plot_attractors.data import DataSet
from plot_attractors.runs import registry

fully_compositional = registry.load("models", "fully_compositional")

Config = fully_compositional.Config
PRESETS: dict[str, dict[str, Any]] = fully_compositional.PRESETS


def build(config: Any, data: DataSet) -> HardCoded:
    """The language of the fully compositional baseline, sentences at random (baseline NC)."""
    recognise = baselines.recogniser(data)
    language = baselines.feature_language(recognise)
    return HardCoded(language, recognise, baselines.random_sentences(language, recognise.values))
