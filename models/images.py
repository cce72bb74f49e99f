"""The attractor model on a user's own images: a folder of files, or an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from plot_attractors.data import ImageConfig, ImageSet
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Width
from plot_attractors.runs import registry

dsprites = registry.load("models", "dsprites")

SOME = 4096  # training images at most, evenly spread, whose mean the decoder starts with


@dataclass(frozen=True)
class Config(dsprites.ModelConfig, ImageConfig):  # type: ignore[misc, name-defined]
    latent: Width = 16  # d, of which the VAE uses what it needs


PRESETS: dict[str, dict[str, Any]] = dsprites.PRESETS


def load_data(config: Config) -> ImageSet:
    """The images, with every complaint that they give rise to in one sentence."""
    return config.read_images()


def build(config: Config, data: ImageSet) -> AttractorModel:
    """The same model as for coloured sprites; the decoder starts with the mean of each channel."""
    model: AttractorModel = dsprites.build(config, data)
    rows = data.members["train"]
    some = data.images[rows[:: -(-len(rows) // SOME)]].float() / 255
    decoder: Any = model.decoder
    with torch.no_grad():
        half = some.mean((0, 2, 3)).clamp(0.02, 0.98).sqrt().logit()  # of both factors of the mean
        decoder.generator.growth[-1].bias.copy_(half)
        decoder.gain.bias.copy_(half)
    return model
