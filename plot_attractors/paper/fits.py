"""What the command fits: the models of the paper's comparisons, and how small by preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from plot_attractors.measures.registry import PAPER_DATA

__all__ = [
    "ALL", "ATTRACTORS", "DATA", "EC", "LEARNED", "MODELS", "PRESETS", "THOUGHT", "VQVAE", "Model",
    "Preset",
]  # fmt: skip

DATA = tuple(PAPER_DATA)  # hbv, dsprites


@dataclass(frozen=True)
class Model:
    """A model of the comparisons.

    - ``note``: what a reader has to know of it;
    - ``programs``: by data set, with their own default inference.
    """

    title: str
    note: str
    programs: Mapping[str, str]


ATTRACTORS, VQVAE, EC = "attractors", "vqvae", "emergent_communication"
THOUGHT, CEILING, FLOOR = "language_of_thought", "fully_compositional", "not_compositional"

MODELS: dict[str, Model] = {
    ATTRACTORS: Model(
        "attractor model",
        "ours, with the inference that is its default on these data, not the paper's detailed "
        "balance (docs/results/to-the-letter.md)",
        dict.fromkeys(DATA, "attractor"),
    ),
    VQVAE: Model(
        "VQ-VAE",
        "as the paper's text describes it; the preset modern does better",
        dict.fromkeys(DATA, "vqvae"),
    ),
    EC: Model(
        "emergent communication",
        "Gumbel-Softmax, 49 distractors",
        dict.fromkeys(DATA, "emergent_communication"),
    ),
    THOUGHT: Model(
        "Bayesian language of thought",
        "not in the paper's comparisons: a grammar whose primitives are given, with exact "
        "inference; a colour is one word, which composition by its channels cannot build",
        dict.fromkeys(DATA, "grammar"),
    ),
    CEILING: Model(
        "fully compositional",
        "hard-coded: a token for every value of a feature, of sprites R, G, B, shape, size, x, y",
        dict.fromkeys(DATA, "fully_compositional"),
    ),
    FLOOR: Model(
        "not compositional",
        "hard-coded: a random sentence for every combination of features",
        dict.fromkeys(DATA, "not_compositional"),
    ),
}
LEARNED = (ATTRACTORS, VQVAE, EC)
ALL = (*LEARNED, THOUGHT, CEILING, FLOOR)


# How small.


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
        "inputs": 100, "resamples": 5, "permutations": 5, "code_permutations": 1,
        "max_pairs": 2000,
    },
    "diversity": _FEW | {"inputs": 8, "draws": 32},
    "information_loss": {"inputs": 200, "lines": 10, "line_draws": 16},
    "compare_language_of_thought": _FEW | {"inputs": 40, "draws": 8},
}  # fmt: skip
_DEMO: dict[str, dict[str, Any]] = {  # a third or so of the defaults
    "perturbation": {"trajectories": 400, "norm_starts": 250},
    "neighbours": {"trajectories": 1000},
    "decodability": {"inputs": 1000},
    "composition": {"inputs": 1000, "shuffles": 10},
    "language_measures": {"permutations": 30, "code_permutations": 5},
    "diversity": {"inputs": 40},
    "information_loss": {"inputs": 2000},
    "compare_language_of_thought": {"inputs": 150},
}
PRESETS: dict[str, Preset] = {
    "smoke": Preset((0,), _SMOKE),
    "demo": Preset((0,), _DEMO),
    "full": Preset((0, 1, 2, 3, 4)),
}
