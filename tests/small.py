"""Analyses with few inputs and draws, for tests that make all of them."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.model.networks import InputDecoder
from plot_attractors.runs import registry
from plot_attractors.runs.run import plan


def module_at(path: Path) -> Any:
    """The module of a file, which no package has."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_DECODERS = {"decoder_updates": 100, "decoder_inputs": 500}
SETTINGS: dict[str, dict[str, Any]] = {
    "behaviour": {"inputs": 8, "draws": 8} | _DECODERS,
    "continuum": {"points": 5, "draws": 32, "orders": 4},
    "compare_language_of_thought": {"inputs": 60, "draws": 8} | _DECODERS,
    "composition": {"inputs": 200, "shuffles": 2} | _DECODERS,
    "decodability": {"inputs": 200} | _DECODERS,
    "language_measures": {
        "inputs": 200, "resamples": 5, "permutations": 5, "max_pairs": 20_000,
    },
    "sentences": {
        "exemplars": 4, "draws": 4, "inputs": 60, "held_out_inputs": 20, "image_draws": 8,
        "images": 6,
    },
    "calibration": {"inputs": 3, "draws": 64, "wide_inputs": 16, "wide_draws": 4},
    "data": {"exemplars": 2000},
    "basins": {"inputs": 40, "random_states": 20, "controls": 200},
    "neighbours": {"trajectories": 200} | _DECODERS,
    "perturbation": {"inputs": 64, "trajectories": 200, "norm_starts": 50},
    "trajectories": {"draws": 6, "exemplars": 2, "viewed": 8, "viewed_held_out": 4},
    "diagnostics": {"inputs": 8, "draws": 30},
    "diversity": {"inputs": 8, "draws": 32} | _DECODERS,
    "information_loss": {"inputs": 40, "draws": 16, "lines": 5, "line_draws": 8},
}  # fmt: skip


def measured(name: str, run: Any, **settings: int) -> dict[str, Any]:
    """What an analysis measures of anything that looks like a run."""
    program = registry.load("analyses", name)
    assert program.NEEDS.met(run)
    tables: dict[str, Any] = program.measure(run, program.Config(**settings))
    return tables


@dataclasses.dataclass(eq=False)
class Untrained:
    """What analyses ask of a run."""

    model: Any
    data: Any
    seed: int = 0

    def metrics(self) -> pd.DataFrame:
        return pd.DataFrame()


def as_built(
    program: str, *, data: Any = None, preset: str = "full", settings: Any = None
) -> tuple[Any, Any]:
    """A model as it is before training, and its data; arguments as of `fit`."""
    planned = plan(program, data=data, preset=preset, settings=settings)
    of, configs = planned.programs, planned.configs
    loaded = of.data.load(configs["data"])
    return of.model.build(configs["model"], loaded), loaded


def untrained(name: str = "hbv", data: str | None = None, **settings: Any) -> Untrained:
    """A small model of a program, as it is before training; settings by their dotted names."""
    model, of = as_built(name, data=data, preset="smoke", settings=settings)
    return Untrained(model.eval().requires_grad_(False), of)


class ToNearest(nn.Module):
    """Dynamics that move to the nearest of some embeddings at once, or stay if there are none."""

    def __init__(self, embeddings: Tensor | None = None) -> None:
        super().__init__()
        self.embeddings = embeddings

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
        if self.embeddings is None:
            return Normal(z[..., : context.shape[-1]], 1e-6)
        z = z[..., : self.embeddings.shape[-1]]
        return Normal(self.embeddings[torch.cdist(z, self.embeddings).argmin(-1)], 1e-6)


def random_decoder(run: Untrained) -> None:
    """Give the model a decoder that reads other bits at other embeddings."""
    run.model.decoder = InputDecoder(run.model.latent, run.data.bits, layers=1)
    for parameter in run.model.decoder.parameters():
        parameter.data = torch.randn(parameter.shape)
