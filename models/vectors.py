"""The attractor model on a user's own real-valued vectors: npy, npz, CSV or Parquet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from plot_attractors.data import VectorConfig, Vectors
from plot_attractors.runs import registry

hbv = registry.load("models", "hbv")
table = registry.load("models", "table")


@dataclass(frozen=True)
class Config(hbv.ModelConfig, VectorConfig):  # type: ignore[misc, name-defined]
    language: table.LanguageConfig = field(default_factory=table.LanguageConfig)  # type: ignore[name-defined]

    KIND: ClassVar[str] = "vectors"


PRESETS: dict[str, dict[str, Any]] = table.PRESETS


def load_data(config: Config) -> Vectors:
    """The vectors, with every complaint that they give rise to in one sentence."""
    return config.read_vectors()


build = table.build  # whose decoder is Gaussian where inputs are real, its noise learned
