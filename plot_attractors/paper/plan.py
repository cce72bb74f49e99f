"""What has to be done for the paper: the runs of a choice, and what is left to do of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from plot_attractors.paper.fits import ATTRACTORS, DATA, MODELS, PRESETS
from plot_attractors.paper.results import analyses_of
from plot_attractors.runs import registry, store
from plot_attractors.runs.jobs import lacking
from plot_attractors.runs.sweep import Training

__all__ = ["KINDS", "Selection", "PlannedRun", "choose", "finished", "plan", "work"]

Kind = Literal["fit", "analyze"]
KINDS: tuple[Kind, ...] = ("fit", "analyze")
PAGE = "page"  # beside KINDS: neither of them


class Selection(NamedTuple):
    """The data sets and models of the runs, and what is done with them."""

    data: tuple[str, ...] = DATA
    models: tuple[str, ...] = tuple(MODELS)
    kinds: tuple[Kind, ...] = KINDS


def choose(words: Sequence[str]) -> Selection:
    """The choice that words name: data sets, models, and fit, analyze or page. Words of one sort
    are alternatives, those of different sorts hold together; a sort that none names is whole.

    >>> choose(["hbv", "vqvae", "attractors"])[:2]
    (('hbv',), ('attractors', 'vqvae'))
    """
    known = [*DATA, *MODELS, *KINDS, PAGE]
    for word in words:
        if word not in known:
            raise ValueError(
                f"there is nothing called {word!r} to choose: {registry.suggestion(word, known)}"
                f"--only takes {', '.join(known[:-1])} or {PAGE}"
            )
    kinds: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in words)
    return Selection(
        tuple(data for data in DATA if data in words) or DATA,
        tuple(model for model in MODELS if model in words) or tuple(MODELS),
        kinds or (() if PAGE in words else KINDS),
    )


class PlannedRun(NamedTuple):
    """A model on a data set with a seed, and the directory of its run."""

    data: str
    model: str
    seed: int
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def analyses(self) -> list[str]:
        return analyses_of(self.data, self.model)


def plan(out: Path, preset: str, seeds: Sequence[int], choice: Selection) -> list[PlannedRun]:
    """The runs of a choice, seed by seed; ValueError where a directory holds a run of another
    preset or other settings.
    """
    runs = [
        PlannedRun(data, model, seed, out / "runs" / f"{data}-{model}-{seed}")
        for seed in seeds
        for data in choice.data
        for model in choice.models
    ]
    for run in runs:
        if not (run.path / "config.toml").is_file():
            continue
        there = store.read_config(run.path)["run"]["preset"]
        if there != preset:
            raise ValueError(
                f"{run.path} holds a run of the preset {there}: give --preset {there}, or choose "
                "another directory (--out)"
            )
        if "fit" in choice.kinds:  # a page may be made of what an earlier version has fitted
            store.require_same(run.path, _training(run, preset).plan().config)
    return runs


def _training(run: PlannedRun, preset: str, **more: Any) -> Training:
    name = MODELS[run.model].programs[run.data]
    return Training(run.path, name, None, preset, run.seed, {}, data=run.data, **more)


def finished(path: Path) -> bool:
    """Whether a directory holds a run whose training has ended."""
    done = store.progress(path)
    return done is not None and done[0] >= done[1]


def work(runs: Sequence[PlannedRun], preset: str, kinds: Sequence[Kind]) -> list[Training]:
    """What is left to do of the runs; nothing is analysed that is not fitted."""
    trainings = []
    for run in runs:
        done, analyses = finished(run.path), None
        if "analyze" in kinds:
            sizes = PRESETS[preset].sizes
            analyses = {name: sizes.get(name, {}) for name in run.analyses}
        left = lacking(run.path, analyses or ())
        if (done and not left) or (not done and "fit" not in kinds):
            continue
        draw = run.model == ATTRACTORS  # the page shows no figures of others
        trainings.append(_training(run, preset, analyses=analyses, draw=draw))
    return trainings
