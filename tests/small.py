"""Analyses with few inputs and draws, for tests that make all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plot_attractors.evaluation import probes
from plot_attractors.runs import registry

__all__ = ["SETTINGS", "SMALL", "measured", "shrink"]

# of analyses that are settled through the front door
_DECODERS = {"decoder_updates": 100}
SETTINGS: dict[str, dict[str, int]] = {
    "compare_language_of_thought": {"inputs": 60, "draws": 8} | _DECODERS,
    "composition": {"inputs": 200, "shuffles": 2} | _DECODERS,
    "decodability": {"inputs": 200} | _DECODERS,
    "similarity": {
        "inputs": 200,
        "resamples": 5,
        "permutations": 5,
        "meaning_permutations": 5,
        "max_pairs": 5000,
    },
    "sentences": {
        "exemplars": 4,
        "draws": 4,
        "inputs": 60,
        "held_out_inputs": 20,
        "image_draws": 8,
        "images": 6,
    },
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
}


def measured(name: str, run: Any, **settings: int) -> dict[str, Any]:
    """What an analysis measures of anything that looks like a run."""
    program = registry.load("analyses", name)
    assert program.applies(run)
    tables: dict[str, Any] = program.measure(run, program.Config(**settings))
    return tables


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
