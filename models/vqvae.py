"""VQ-VAE, every token conditioned on the whole input (Section *Comparison models*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors import shelves
from plot_attractors.attractor import InputDecoder
from plot_attractors.baselines import VQVAE, DataConfig
from plot_attractors.baselines import load_data as load_data
from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors
from plot_attractors.language import Language
from plot_attractors.nn import MLP

table = shelves.load("models", "table")

INFERENCE = "vqvae"


@dataclass(frozen=True)
class Config(DataConfig):
    groups: tuple[int, ...] = ()  # sizes of the codebooks; empty: pairs, one a level of the tree, or to fit the table
    null_code: bool = False  # each codebook may be left out, so that sentences may be short
    latent: int = 8  # d
    units: int = 256  # of encoder and decoder, three layers each


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "demo": {},
    "paper": {},
    "modern": {"null_code": True},
    "smoke": {"depth": 3, "bits": 16, "units": 32},
}


def build(config: Config, data: HierarchicalBinaryVectors | BinaryTable) -> VQVAE:
    """Queries of the whole input, codebooks, and a decoder of the summed codes."""
    c = config
    pairs = data.depth if isinstance(data, HierarchicalBinaryVectors) else table.pairs_to_fit(data)
    groups = c.groups or (2,) * pairs
    return VQVAE(
        Language(groups, min_length=0 if c.null_code else len(groups)),
        c.latent,
        encoder=MLP(data.bits, len(groups) * c.latent, c.units),  # q_1(x), …, q_K(x)
        decoder=InputDecoder(c.latent, data.bits, c.units),  # P(x | s)
        continuous_decoder=InputDecoder(c.latent, data.bits, c.units),  # P(x | Σ_k q_k(x)), to see what codes lose
        null_code=c.null_code,
    )
