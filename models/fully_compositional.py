"""Hard-coded ceiling: a token for every outcome of a feature, so that paths are spelled out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors import baselines
from plot_attractors.baselines import Data, DataConfig, HardCoded, RecognisableVectors

INFERENCE = "hard_coded"


@dataclass(frozen=True)
class Config(DataConfig):
    # of the tree's exemplars, draw those alone that Bayes' rule takes for their class
    recognisable: bool = True


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "paper": {},
    "smoke": {"depth": 3, "bits": 16},
}


def load_data(config: Config) -> Data:
    """The data of the other models; of a tree, inputs whose class can be known."""
    c = config
    if c.data == "hbv" and c.recognisable:
        return RecognisableVectors(c.depth, c.bits, c.hold_out, c.hold_out_seed)
    return baselines.load_data(c)


def build(config: Config, data: Data) -> HardCoded:
    """“Red” is A, always (Section *Comparison models*, baseline FC)."""
    recognise = baselines.recogniser(data)
    sentences = baselines.feature_sentences(recognise.features, recognise.values)
    return HardCoded(baselines.feature_language(recognise), recognise, sentences)
