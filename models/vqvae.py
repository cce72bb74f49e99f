"""VQ-VAE, every token conditioned on the whole input (Section *Comparison models*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from plot_attractors.baselines import VQVAE
from plot_attractors.data import DataSet, is_real
from plot_attractors.language import Language
from plot_attractors.model.networks import input_decoder
from plot_attractors.model.nn import encoding_network
from plot_attractors.ranges import Size, Width, setting

CODEBOOKS = (5, 5, 5, 5, 4, 4, 4)  # of images: the paper has 32 tokens, at most 7 in a sentence


@dataclass(frozen=True)
class Config:
    groups: tuple[Size, ...] = setting(
        (), "of the codebooks; empty: pairs, of images 7 of 32 tokens in all"
    )
    null_code: bool = setting(False, "each codebook may be left out, for short sentences")
    latent: Width = setting(8, "d")
    units: Width = setting(256, "units of encoder and decoder, three layers each")

    INFERENCE: ClassVar[str] = "vqvae"


PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "modern": {"null_code": True},
    "smoke": {"units": 32},
}


def build(config: Config, data: DataSet) -> VQVAE:
    """Queries of the whole input, codebooks, and a decoder of the summed codes."""
    c, shape = config, data.input_shape
    groups = c.groups or (2,) * getattr(data, "pairs", 6) or CODEBOOKS
    return VQVAE(
        Language(groups, min_length=0 if c.null_code else len(groups)),
        c.latent,
        encoder=encoding_network(shape, len(groups) * c.latent, c.units),  # q_1(x), …, q_K(x)
        decoder=input_decoder(c.latent, shape, c.units, is_real(data)),  # P(x | s)
        # P(x | Σ_k q_k(x)), to see what codes lose
        continuous_decoder=input_decoder(c.latent, shape, c.units, is_real(data)),
        null_code=c.null_code,
    )
