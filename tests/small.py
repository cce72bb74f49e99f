"""Analyses with few inputs and draws, for tests that make all of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.evaluation import probes
from plot_attractors.model.attractor import InputDecoder
from plot_attractors.runs import registry

__all__ = ["SETTINGS", "SMALL", "ToNearest", "Untrained", "random_decoder", "shrink", "untrained"]

# settings of analyses that measure and plot, to be given to `analyze`
SETTINGS: dict[str, dict[str, Any]] = {
    "basins": {
        "inputs": 40,
        "random_states": 20,
        "draws": 16,
        "iterations": 20,
        "controls": 200,
        "pixels": 40,
        "cut_pixels": 10,
    },
    "neighbours": {"inputs": 64, "trajectories": 200},
    "perturbation": {"inputs": 64, "trajectories": 200, "norm_starts": 50},
    "trajectories": {"draws": 10},
}
# constants of the others
SMALL = {
    "diagnostics": {"INPUTS": 8, "DRAWS": 30, "WIDE_INPUTS": 40},
    "information_loss": {"INPUTS": 40, "DRAWS": 16},
    "calibration": {
        "INPUTS": 8,
        "DRAWS": 64,
        "WIDE_INPUTS": 32,
        "WIDE_DRAWS": 8,
        "WEIGHT_DRAWS": 32,
    },
    "compare_language_of_thought": {"INPUTS": 60, "DRAWS": 8},
    "composition": {"INPUTS": 200, "SHUFFLES": 2},
    "decodability": {"INPUTS": 200},
    "diversity": {"INPUTS": 8, "DRAWS": 32},
    "similarity": {
        "INPUTS": 200,
        "RESAMPLES": 5,
        "PERMUTATIONS": 5,
        "MEANING_PERMUTATIONS": 5,
        "MAX_PAIRS": 5000,
    },
    "sentences": {
        "EXEMPLARS": 4,
        "DRAWS": 4,
        "INPUTS": 60,
        "HELD_OUT_INPUTS": 20,
        "IMAGE_DRAWS": 8,
        "IMAGES": 6,
    },
}


def shrink(patch: pytest.MonkeyPatch) -> None:
    """Every analysis that is loaded from now on has the constants of `SMALL`, and decoders train
    for a moment.
    """
    load = registry.load

    def loaded(shelf: registry.Shelf, name: str | Path) -> Any:
        program = load(shelf, name)
        for constant, value in (
            SMALL.get(Path(name).stem, {}).items() if shelf == "analyses" else ()
        ):
            patch.setattr(program, constant, value)
        return program

    patch.setattr(registry, "load", loaded)
    patch.setattr(probes, "UPDATES", 100)


@dataclasses.dataclass(eq=False)
class Untrained:
    """What analyses ask of a run."""

    model: Any
    data: Any
    seed: int = 0


def untrained(name: str = "hbv", **settings: Any) -> Untrained:
    """A small model of a program, as it is before training."""
    program = registry.load("models", name)
    config = program.Config(**{**program.PRESETS["smoke"], **settings})
    data = program.load_data(config)
    return Untrained(program.build(config, data).eval().requires_grad_(False), data)


class ToNearest(nn.Module):
    """Dynamics that move to the nearest of some embeddings at once, or stay if there are none."""

    def __init__(self, embeddings: Tensor | None = None) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
        if self.embeddings is None:
            return Normal(z, 1e-6)
        return Normal(self.embeddings[torch.cdist(z, self.embeddings).argmin(-1)], 1e-6)


def random_decoder(run: Untrained) -> None:
    """Give the model a decoder that reads other bits at other embeddings."""
    run.model.decoder = InputDecoder(run.model.latent, run.data.bits, layers=1)
    for parameter in run.model.decoder.parameters():
        parameter.data = torch.randn(parameter.shape)
