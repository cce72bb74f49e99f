"""Analyses with few inputs and draws, for tests that make all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plot_attractors.evaluation import probes
from plot_attractors.runs import registry

__all__ = ["SMALL", "shrink"]

SMALL = {
    "diagnostics": {"INPUTS": 8, "DRAWS": 30, "WIDE_INPUTS": 40},
    "basins": {
        "INPUTS": 40,
        "RANDOM": 20,
        "DRAWS": 16,
        "ITERATIONS": 20,
        "CONTROLS": 200,
        "PIXELS": 40,
        "SLICE": 10,
    },
    "information_loss": {"INPUTS": 40, "DRAWS": 16},
    "calibration": {
        "INPUTS": 8,
        "DRAWS": 64,
        "WIDE_INPUTS": 32,
        "WIDE_DRAWS": 8,
        "WEIGHT_DRAWS": 32,
    },
    "neighbours": {"INPUTS": 64, "TRAJECTORIES": 200},
    "perturbation": {"INPUTS": 64, "TRAJECTORIES": 200, "NORM_STARTS": 50},
    "trajectories": {"DRAWS": 10},
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

    def loaded(shelf: registry.Kind, name: str | Path) -> Any:
        program = load(shelf, name)
        for constant, value in (
            SMALL.get(Path(name).stem, {}).items() if shelf == "analyses" else ()
        ):
            patch.setattr(program, constant, value)
        return program

    patch.setattr(registry, "load", loaded)
    patch.setattr(probes, "UPDATES", 100)
