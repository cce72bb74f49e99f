"""The attractor model on coloured sprites (Section *dSprites*), with too many sentences to list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from plot_attractors.data import ColouredSprites, DataSet, SpritesConfig
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.networks import ImageDecoder
from plot_attractors.ranges import Cost, Positive, Size, Width
from plot_attractors.runs import registry

hbv = registry.load("models", "hbv")


@dataclass(frozen=True)
class LanguageConfig(hbv.LanguageConfig):  # type: ignore[misc, name-defined]
    groups: tuple[Size, ...] = (1,) * 32  # groups of one: any tokens together
    max_length: Size | None = 7  # 4,514,872 sentences
    length_cost: Cost = 3.466  # nats a token costs: log 32, its code among as many as there are


@dataclass(frozen=True)
class ModelConfig(hbv.ModelConfig):  # type: ignore[misc, name-defined]
    """What holds for any images."""

    language: LanguageConfig = field(default_factory=LanguageConfig)
    latent: Width = 8  # d: colour needs three, place two, shape and size one each
    token_axes: bool = True  # every token moves ẑ_s along one latent axis
    epsilon: Positive = 0.012  # ε of N(ẑ_s, ε²): tokens for places are 0.2 apart
    auxiliary_units: Width = 256
    pixel_noise: Positive = 0.15  # standard deviation of a pixel in P(x | z)

    KIND: ClassVar[str] = "images"
    BUILT: ClassVar[tuple[str, ...]] = (*hbv.ModelConfig.BUILT, "pixel_noise")


@dataclass(frozen=True)
class Config(ModelConfig, SpritesConfig):
    """Of the attractor model, and of the sprites."""


# Sentences as diverse as the paper's: ∝ R^β, by dynamics that see input and time, as in its
# detailed balance; those that see the state alone cannot follow so flat a posterior.
DIVERSE = {"reward.beta": 0.18, "dynamics.sees": ("time", "context")}
# The paper's linear sentence encoder, which begins at tokens with an axis each
# (`training.vocabulary`). Its embeddings lie on no grid: dynamics see input and time, ε is wider.
LINEAR = {
    "token_axes": False, "epsilon": 0.03, "dynamics.sees": ("time", "context"),
}  # fmt: skip
# The text, as in hbv, with the ε of the authors' code, and its density N(ẑ_s, σ_s²) in the place
# of a posterior P(s | z_T) over sentences that nobody lists.
PAPER = {
    **hbv.PAPER, "reward.decodability": "density", "latent": 32, "language.length_cost": 0.0,
    "token_axes": False, "epsilon": 0.025,
}  # fmt: skip
AUTHORS = {
    **PAPER, "language.groups": (1,) * 24, "reward.floor": -80.0, "reward.clamp": "reward",
    "dynamics.start": True,
}  # fmt: skip
SMALL = {**hbv.SMALL, "side": 16, "language.groups": (1,) * 6, "language.max_length": 3}
PRESETS: dict[str, dict[str, Any]] = {
    "full": {}, "diverse": DIVERSE, "linear": LINEAR, "demo": {}, "paper": PAPER,
    "authors": AUTHORS, "smoke": SMALL,
}  # fmt: skip


def load_data(config: Config) -> ColouredSprites:
    """Images of sprites, drawn on the fly."""
    return config.read_sprites()


def build(config: ModelConfig, data: DataSet) -> AttractorModel:
    """The parts of Table 1, with networks of images as encoder and decoder."""
    c = config
    decoder = ImageDecoder(c.latent, data.input_shape, c.pixel_noise)
    axes = c.token_axes or c.dynamics.features > 0  # those of independent components
    model: AttractorModel = hbv.build(c, data, decoder, axes)
    return model
