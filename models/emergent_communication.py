"""Emergent communication: a speaker and a listener, on hierarchical binary vectors or a user's own table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors import shelves
from plot_attractors.baselines import DataConfig, EmergentCommunication, Listener, SpeakerPolicy
from plot_attractors.baselines import load_data as load_data
from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors
from plot_attractors.language import Language
from plot_attractors.nn import MLP

table = shelves.load("models", "table")

INFERENCE = "emergent_communication"


@dataclass(frozen=True)
class Config(DataConfig):
    # the language
    groups: tuple[int, ...] = ()  # sizes of exclusive groups; empty: pairs, one a level of the tree, or to fit a table
    min_length: int = 1  # fewest tokens in a sentence; as many as groups: one of each
    max_length: int | None = None  # most tokens; empty: one of every group
    ordered: bool = False  # sequences with an end token instead of bags of words
    # sizes
    latent: int = 8  # d, of the listener's reading
    units: int = 256  # of all networks


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "demo": {}, "smoke": {"depth": 3, "bits": 16, "units": 32}}


def build(config: Config, data: HierarchicalBinaryVectors | BinaryTable) -> EmergentCommunication:
    """The speaker sees the target; the listener reads its sentence and looks at all candidates."""
    c = config
    pairs = data.depth if isinstance(data, HierarchicalBinaryVectors) else table.pairs_to_fit(data)
    language = Language(c.groups or (2,) * pairs, c.min_length, c.max_length, c.ordered)
    return EmergentCommunication(
        language,
        c.latent,
        speaker=SpeakerPolicy(language, MLP(data.bits, c.units, c.units, layers=2), c.units),  # P(s | x)
        listener=Listener(
            reader=MLP(language.width, c.latent, c.units),  # ẑ_s
            viewer=MLP(data.bits, c.latent, c.units),  # what is compared with it
        ),
    )
