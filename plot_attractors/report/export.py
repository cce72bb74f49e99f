"""Exported runs: the weights of a trained model, its settings, its numbers, and a card about it."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomlkit
from safetensors.torch import save
from torch import Tensor

from plot_attractors.data import digests
from plot_attractors.measures.registry import METRICS, PAPER_DATA, doubts
from plot_attractors.model.state import digest
from plot_attractors.report import findings, reproduce
from plot_attractors.report.tables import fixed
from plot_attractors.runs import Run, pretrained, registry, store
from plot_attractors.runs.numbers import NUMBERS, minutes, numbers
from plot_attractors.runs.run import ATTRACTOR
from plot_attractors.runs.settings import flatten

__all__ = ["export"]

CARD = "card.md"
# of environment.json; the command line and the machine's name for itself are left out
ENVIRONMENT = "python versions processors threads device commit dirty started ended seconds"


def export(run: str | Path | Run, folder: str | Path) -> Path:
    """Write a finished run that was analysed as a small directory, and return its path.

    - ``weights.safetensors``: the model's state (`_pack`); ``config.toml``;
    - ``environment.json``: versions, commit, duration;
    - ``numbers.json``: `METRICS` of the run's analyses by name;
    - ``card.md``: all of that to read, with what the data and the limits are (``limits.toml``).

    Such a directory is opened as any other run, and may be analysed; it cannot be trained further,
    and has no ``metrics.csv``, which the analysis ``training`` needs.

    Raises ValueError for an unfinished run, one without analyses, programs or data in files of
    one's own, which are not in the package, or a folder that holds something else.
    """
    run, folder = run if isinstance(run, Run) else Run(run), Path(folder)
    _refuse(run, folder)
    known = {name: value for name, value in numbers(run).items() if not np.isnan(value)}
    if not known:
        raise ValueError(f"{run.path} has no analyses to tell of: plot-attractors analyze it first")
    state, data = run.model.state_dict(), digests(run.data)
    content = _pack(state, run.config, run.position[0], data)
    kept = {key: run.environment[key] for key in ENVIRONMENT.split() if key in run.environment}
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        store.write(temporary / pretrained.WEIGHTS, content)
        store.write(temporary / "config.toml", tomlkit.dumps(run.config).encode())
        store.write(temporary / "environment.json", json.dumps(kept, indent=2).encode())
        store.write(temporary / NUMBERS, json.dumps({"analyses": known}, indent=2).encode())
        store.write(temporary / CARD, _card(Run(temporary), known, len(content)).encode())
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _refuse(run: Run, folder: Path) -> None:
    position, total = run.position
    if position < total:
        raise ValueError(f"{run.path} is unfinished (update {position} of {total}): resume it")
    if store.has_weights_alone(run.path):
        raise ValueError(f"{run.path} is exported already: copy it")
    if folder.exists() and any(folder.iterdir()) and not store.has_weights_alone(folder):
        raise ValueError(f"{folder} is not empty and holds no exported run: choose another folder")
    for kind, (_, program) in run.programs.items():
        if program not in registry.names(kind):
            raise ValueError(
                f"{run.path} was fitted by a program of your own, {program}, which an exported run "
                "does not hold: only runs of the package's programs can be exported"
            )
    for name, value in flatten(dataclasses.asdict(run.data_config)).items():
        if isinstance(value, Path):
            raise ValueError(
                f"{run.path} reads {name} from {value}, which an exported run does not hold: only "
                "runs whose data a program makes can be exported"
            )


# The card.


def _card(run: Run, known: Mapping[str, float], size: int) -> str:
    texts = tomllib.loads(Path(__file__).with_name("limits.toml").read_text(encoding="utf-8"))
    of_data = texts.get(run.data_name, {}) if run.program_name == ATTRACTOR else {}
    model = registry.describe(registry.find("models", run.program_name))
    inference = registry.describe(registry.find("inference", run.inference_name))
    facts = {
        "data": f"`{run.data_name}`: {registry.describe(registry.find('datasets', run.data_name))}",
        "model": f"`{run.program_name}`: {model}",
        "inference": f"`{run.inference_name}`: {inference}",
        "seed": run.seed,
        "updates": f"{run.position[0]:,}",
        "minutes": fixed(minutes(run), ".1f"),
        "parameters": f"{sum(p.numel() for p in run.model.parameters()):,}",
        "size": f"{size / 1e6:.2f} MB",
    }
    paragraphs = [
        f"# A trained model: {run.program_name} on {run.data_name}, seed {run.seed}",
        "Written by `plot-attractors export`. The directory is opened as any other run. It cannot "
        "be trained further, and has no `metrics.csv`, which the analysis `training` needs.",
        _table(["", ""], ([key, str(value)] for key, value in facts.items())),
        f"Trained by\n\n```sh\n{reproduce.commands(run)[0]}\n```",
        "## Numbers",
        "By analyses of the run before the export.",
        _numbers(run, known),
        " ".join(doubts({**dict.fromkeys(METRICS, math.nan), **known})),
        "## Data",
        of_data.get("data", "Those that the model program makes.").strip(),
        "## Limits",
        of_data.get("limits", "The model knows the data alone that it was trained on.").strip(),
        "## Licence",
        "Apache-2.0, as that of the code.",
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _numbers(run: Run, found: Mapping[str, float]) -> str:
    paper = findings.data_of(run)
    rows = []
    for metric in findings.HEADLINES:
        if metric.name in found:
            beside = [str(metric.paper.get(paper, ""))] if paper else []
            rows.append([metric.heading, fixed(found[metric.name], metric.format), *beside])
    return _table(["", "this run", *([f"paper, {PAPER_DATA[paper]}"] if paper else [])], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], f"|{'|'.join([':--'] * len(head))}|", *lines[1:]])


def _pack(
    state: Mapping[str, Tensor], config: Mapping[str, Any], position: int, data: Mapping[str, Any]
) -> bytes:
    """The file of a model's state, with its settings, the number of updates, and `data.digests` of
    what it was trained on.
    """
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
    header = {"config": json.dumps(config), "position": str(position), "data": json.dumps(data)}
    header["sha256"] = digest(tensors, header)
    return save(tensors, {"format": "pt", **header})  # by convention: of PyTorch
