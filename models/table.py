"""The attractor model on a user's own table of 0/1 columns: CSV, Parquet or npz."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from plot_attractors.data import BinaryTable, TableConfig, Vectors
from plot_attractors.language import pairs_to_fit
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Size
from plot_attractors.runs import registry

hbv = registry.load("models", "hbv")


@dataclass(frozen=True)
class LanguageConfig(hbv.LanguageConfig):  # type: ignore[misc, name-defined]
    groups: tuple[Size, ...] = ()  # sizes of exclusive groups; empty: pairs, as many as fit


@dataclass(frozen=True)
class Config(hbv.ModelConfig, TableConfig):  # type: ignore[misc, name-defined]
    language: LanguageConfig = field(default_factory=LanguageConfig)


PRESETS: dict[str, dict[str, Any]] = {
    "full": {}, "demo": {}, "paper": hbv.PAPER, "authors": hbv.AUTHORS, "smoke": hbv.SMALL,
}  # fmt: skip


def load_data(config: Config) -> BinaryTable:
    """The table, with every complaint that it gives rise to in one sentence."""
    return config.read_table()


def build(config: Config, data: BinaryTable | Vectors) -> AttractorModel:
    """The same model as for hierarchical binary vectors, the language sized to fit the rows."""
    groups = config.language.groups or pairs_to_fit(data.distinct)
    language = replace(config.language, groups=groups)
    model: AttractorModel = hbv.build(replace(config, language=language), data)
    return model
