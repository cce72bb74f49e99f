"""Hierarchical binary vectors (the section of that name): exemplars of the nodes of a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.baselines import RecognisableVectors
from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.ranges import Bits, Depth, Seed, setting

KIND = "hbv"  # presets of other programs may be for data of this kind


@dataclass(frozen=True)
class Config:
    depth: Depth = setting(6, "D, generations of the tree")
    bits: Bits = setting(128, "N, bits of a vector")
    hold_out: bool = setting(True, "a prototype a generation from the third on, with all below")
    hold_out_seed: Seed = setting(0, "seed of the prototypes that are held out")
    recognisable: bool = setting(False, "only exemplars that Bayes' rule takes for their class")

    def inert(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        return {} if self.hold_out else {"hold_out_seed": "nothing is held out"}


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "smoke": {"depth": 3, "bits": 16}}


def load(config: Config) -> HierarchicalBinaryVectors:
    """The tree, whose exemplars are drawn on the fly."""
    tree = RecognisableVectors if config.recognisable else HierarchicalBinaryVectors
    return tree(config.depth, config.bits, config.hold_out, config.hold_out_seed)
