"""The attractor model on coloured sprites (Section *dSprites*), whose sentences are too many to
list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.data import ColouredSprites, DataSet, SpritesConfig
from plot_attractors.model.attractor import AttractorModel, ImageDecoder
from plot_attractors.runs import registry

hbv = registry.load("models", "hbv")

INFERENCE = "gflownet_em_sampled"


@dataclass(frozen=True)
class ModelConfig(hbv.ModelConfig):  # type: ignore[misc, name-defined]
    """What holds for any images."""

    groups: tuple[int, ...] = (
        1,
    ) * 32  # sizes of exclusive groups of tokens; of one each: any tokens together
    max_length: int | None = 7  # most tokens: 4,514,872 sentences
    length_cost: float = 4.5  # nats that any token costs: few words, and those that say most
    # κ: one that is said in the share p of sentences costs κ log((1 − p) / p) nats more, once
    # inference 'gflownet_em_sampled' has found p, for sentences that factor; until then all cost
    # alike
    odds_cost: float = 0.0
    # p at least: a token costs less where it would else be said less often
    least_share: float = 0.02
    latent: int = 8  # d: colour needs three, place two, shape and size one each
    token_axes: bool = True  # every token moves ẑ_s along one latent axis
    # ε of the fixed first backward step N(ẑ_s, ε²): words for places are 0.2 apart
    epsilon: float = 0.012
    max_step: float = 0.5  # the first step goes to the sentence, and must reach it
    auxiliary_units: int = 256
    fourier_axes: bool = True  # each random Fourier feature sees one latent axis
    fourier_scale: float = 10.0  # along which embeddings lie close together
    discretizer_features: int = 128  # of them in the discretizer
    discretizer_residual: bool = True  # which sees z − ẑ of the partial sentence
    pixel_noise: float = 0.15  # standard deviation of a pixel in P(x | z)


@dataclass(frozen=True)
class Config(ModelConfig, SpritesConfig):
    """Of the attractor model, and of the sprites."""


# The rarer a token, the higher its cost: 4.5 nats a token until shares are known.
PRICES = {"length_cost": 2.0, "odds_cost": 2.0}

# Sentences as diverse as the paper's: in proportion to R^β, by dynamics that see input and time, as
# in its detailed balance; those that see the state alone cannot follow so flat a posterior.
DIVERSE = {**PRICES, "reward_exponent": 0.18, "forward_sees": ("time", "context")}

# The text to the letter, with the ε of the authors' code, and its density N(ẑ_s, σ_s²) in the place
# of a posterior P(s | z_T) over sentences that nobody lists.
PAPER = {
    **hbv.PAPER, "decodability": "density", "latent": 32, "length_cost": 0.0, "token_axes": False, "epsilon": 0.025,
    "max_step": 0.25, "fourier_axes": False, "discretizer_features": 0, "discretizer_residual": False,
}  # fmt: skip

SMALL = {**hbv.SMALL, **PRICES, "side": 16, "groups": (1,) * 6, "max_length": 3}
PRESETS: dict[str, dict[str, Any]] = {
    "full": PRICES,
    "diverse": DIVERSE,
    "demo": PRICES,
    "paper": PAPER,
    "smoke": SMALL,
}


def load_data(config: Config) -> ColouredSprites:
    """Images of sprites, drawn on the fly."""
    return config.read_sprites()


def build(config: ModelConfig, data: DataSet) -> AttractorModel:
    """The parts of Table 1, with networks of images as encoder and decoder."""
    if config.context != "z0":
        raise ValueError(
            "backward dynamics and flows see images through z0 only: leave context at 'z0'"
        )
    decoder = ImageDecoder(config.latent, data.input_shape, config.pixel_noise)
    model: AttractorModel = hbv.build(config, data, decoder)
    if config.odds_cost:
        model.price_by_share(config.odds_cost, config.least_share)
    return model
