"""What is fitted for the paper: the models of its comparisons as a sweep, and how small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plot_attractors.measures.registry import PAPER_DATA
from plot_attractors.paper.results import ALL, ATTRACTORS, EC, THOUGHT, VQVAE, analyses_of
from plot_attractors.runs import registry, store
from plot_attractors.runs.sweep import Training

__all__ = ["MODELS", "PRESETS", "Model", "Preset", "planned"]


class Model(NamedTuple):
    """A model of the comparisons: its program, with its own default inference."""

    title: str
    program: str


CEILING, FLOOR = ALL[-2:]
MODELS: dict[str, Model] = {
    ATTRACTORS: Model("attractor model", "attractor"),
    VQVAE: Model("VQ-VAE", "vqvae"),
    EC: Model("emergent communication", "emergent_communication"),
    THOUGHT: Model("Bayesian language of thought", "grammar"),
    CEILING: Model("fully compositional", "fully_compositional"),
    FLOOR: Model("not compositional", "not_compositional"),
}


class Preset(NamedTuple):
    """What a preset sets beside the programs' own preset of this name: seeds, and sample sizes of
    analyses.
    """

    seeds: tuple[int, ...]
    sizes: Mapping[str, Mapping[str, Any]] = {}


_FEW = {"decoder_updates": 40, "decoder_inputs": 512}
_SMOKE: dict[str, dict[str, Any]] = {
    "trajectories": {
        "classes": 4, "exemplars": 3, "draws": 10, "viewed": 8, "viewed_held_out": 4,
    },
    "data": {"exemplars": 500},
    "perturbation": {"inputs": 64, "trajectories": 100, "norms": 6, "norm_starts": 50},
    "neighbours": _FEW | {"trajectories": 200},
    "decodability": _FEW | {"inputs": 100},
    "composition": _FEW | {"inputs": 100, "orders": 1, "shuffles": 2},
    "language_measures": {
        "inputs": 100, "resamples": 5, "permutations": 5, "max_pairs": 2000,
    },
    "diversity": _FEW | {"inputs": 8, "draws": 32},
    "information_loss": {"inputs": 200, "lines": 10, "line_draws": 16},
    "compare_language_of_thought": _FEW | {"inputs": 40, "draws": 8},
}  # fmt: skip
PRESETS = {"smoke": Preset((0,), _SMOKE), "full": Preset((0, 1, 2, 3, 4))}


def planned(
    out: Path, preset: str, seeds: Sequence[int] | None = None, only: Sequence[str] = ()
) -> list[Training]:
    """The runs ``out/runs/<data>-<model>-<seed>``, seed by seed, with the analyses of the page.

    `only` names data sets and models, of either all by default. Raises ValueError for an unknown
    preset or word, or where a directory holds a run with other settings.
    """
    if preset not in PRESETS:
        hint = registry.suggestion(preset, PRESETS)
        raise ValueError(f"there is no preset {preset!r}: {hint}these are {', '.join(PRESETS)}")
    for word in only:
        if word not in (known := [*PAPER_DATA, *MODELS]):
            hint = registry.suggestion(word, known)
            raise ValueError(f"there is nothing called {word!r} to choose: {hint}"
                             f"--only takes {', '.join(known)}")  # fmt: skip
    runs = [
        _training(out / "runs" / f"{data}-{model}-{seed}", data, model, preset, seed)
        for seed in seeds or PRESETS[preset].seeds
        for data in [data for data in PAPER_DATA if data in only] or PAPER_DATA
        for model in [model for model in MODELS if model in only] or MODELS
    ]
    for run in runs:
        if (run.path / "config.toml").is_file():
            store.require_same(run.path, run.plan().config)
    return runs


def _training(path: Path, data: str, model: str, preset: str, seed: int) -> Training:
    sizes = PRESETS[preset].sizes
    analyses = {name: sizes.get(name, {}) for name in analyses_of(data, model)}
    arguments = {"program": MODELS[model].program, "data": data, "preset": preset, "seed": seed}
    return Training(path, arguments, analyses=analyses)
