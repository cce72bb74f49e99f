"""The attractor model on a user's own images: a folder of files, or an array."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from plot_attractors import shelves
from plot_attractors.attractor import AttractorModel
from plot_attractors.data import ImageSet, read_images

dsprites = shelves.load("models", "dsprites")

INFERENCE = "gflownet_em_sampled"
SOME = 4096  # images, evenly spread, whose mean the decoder starts with


@dataclass(frozen=True)
class Config(dsprites.ModelConfig):  # type: ignore[misc, name-defined]
    images: Path | None = None  # path of the folder, or of an npy or npz file, as in --set images=photos
    side: int = 32  # pixels of an image's side
    table: Path | None = None  # of what is known of the images: a CSV with a row an image
    labels: tuple[str, ...] = ()  # its columns that are features; empty: all
    continuous: tuple[str, ...] = ()  # those among them that are continuous, though their numbers are whole
    ignore: tuple[str, ...] = ()  # columns to leave out
    held_out: str = ""  # column that marks held-out images
    held_out_fraction: float = 0.0  # or the part of the images to hold out
    split_seed: int = 0  # which images held_out_fraction takes
    latent: int = 16  # d, of which the VAE uses what it needs


PRESETS: dict[str, dict[str, Any]] = dsprites.PRESETS


def load_data(config: Config) -> ImageSet:
    """The images, with every complaint that they give rise to in one sentence."""
    c = config
    if c.images is None:
        raise ValueError("Say which images to read: --set images=photos (a folder, or an npy or npz file).")
    return read_images(
        c.images,
        c.table,
        side=c.side,
        labels=c.labels,
        continuous=c.continuous,
        ignore=c.ignore,
        held_out=c.held_out,
        held_out_fraction=c.held_out_fraction,
        seed=c.split_seed,
    )


def build(config: Config, data: ImageSet) -> AttractorModel:
    """The same model as for coloured sprites; the decoder starts with the mean of each channel."""
    model: AttractorModel = dsprites.build(config, data)
    some = data.images[:: max(1, len(data.images) // SOME)].float() / 255
    decoder: Any = model.decoder
    with torch.no_grad():
        half = some.mean((0, 2, 3)).clamp(0.02, 0.98).sqrt().logit()  # of both factors of the mean image
        decoder.generator.growth[-1].bias.copy_(half)
        decoder.gain.bias.copy_(half)
    return model
