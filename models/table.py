"""The attractor model on a user's own table of 0/1 columns: CSV, Parquet or npz."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from plot_attractors.data import BinaryTable, TableConfig
from plot_attractors.language import pairs_to_fit
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.runs import registry

hbv = registry.load("models", "hbv")


@dataclass(frozen=True)
class Config(hbv.ModelConfig, TableConfig):  # type: ignore[misc, name-defined]
    groups: tuple[
        int, ...
    ] = ()  # sizes of exclusive groups of tokens; empty: pairs, as many as fit the table


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "paper": hbv.PAPER,
    "smoke": hbv.SMALL,
}


def load_data(config: Config) -> BinaryTable:
    """The table, with every complaint that it gives rise to in one sentence."""
    return config.read_table()


def build(config: Config, data: BinaryTable) -> AttractorModel:
    """The same model as for hierarchical binary vectors, the language sized to fit when `groups` is
    empty.
    """
    groups = config.groups or pairs_to_fit(data.distinct)
    model: AttractorModel = hbv.build(replace(config, groups=groups), data)
    return model
