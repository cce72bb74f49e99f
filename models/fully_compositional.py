"""Hard-coded ceiling: a token for every outcome of a feature, so that paths are spelled out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from plot_attractors import baselines
from plot_attractors.baselines import Data, DataConfig, HardCoded, RecognisableVectors


@dataclass(frozen=True)
class Config(DataConfig):
    # of the tree's exemplars, draw those alone that Bayes' rule takes for their class
    recognisable: bool = True

    INFERENCE: ClassVar[str] = "hard_coded"

    def inert(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        of_tree = {} if self.data == "hbv" else {"recognisable": "it is of the tree's exemplars"}
        return super().inert() | of_tree


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
