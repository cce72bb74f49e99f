"""Analyses with few inputs and draws, for tests that make all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plot_attractors.evaluation import probes
from plot_attractors.runs import registry

__all__ = ["SETTINGS", "SMALL", "shrink"]

SETTINGS = {
    "calibration": {
        "inputs": 8,
        "draws": 64,
        "wide_inputs": 32,
        "wide_draws": 8,
        "weight_draws": 32,
    },
    "diagnostics": {"inputs": 8, "draws": 30, "wide_inputs": 40},
    "diversity": {"inputs": 8, "draws": 32},
    "information_loss": {"inputs": 40, "draws": 16},
}

SMALL = {
    "basins": {
        "INPUTS": 40,
        "RANDOM": 20,
        "DRAWS": 16,
        "ITERATIONS": 20,
        "CONTROLS": 200,
        "PIXELS": 40,
        "SLICE": 10,
    },
    "neighbours": {"INPUTS": 64, "TRAJECTORIES": 200},
    "perturbation": {"INPUTS": 64, "TRAJECTORIES": 200, "NORM_STARTS": 50},
    "trajectories": {"DRAWS": 10},
    "compare_language_of_thought": {"INPUTS": 60, "DRAWS": 8},
    "composition": {"INPUTS": 200, "SHUFFLES": 2},
    "decodability": {"INPUTS": 200},
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
