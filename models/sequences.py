"""Variant: ordered sequences of up to 8 of 24 tokens, short ones preferred."""

from typing import Any

from plot_attractors.runs import registry

length_prior = registry.load("models", "length_prior")
Config, load_data, build = length_prior.Config, length_prior.load_data, length_prior.build

SEQUENCES = {"language.groups": (1,) * 24, "language.max_length": 8, "language.ordered": True}
FEW = {"language.groups": (1,) * 6, "language.max_length": 3}
PRESETS: dict[str, dict[str, Any]] = {
    "full": SEQUENCES,  # 31,500,832,224 sequences
    "demo": SEQUENCES,
    "smoke": {**length_prior.PRESETS["smoke"], **SEQUENCES, **FEW},
}
