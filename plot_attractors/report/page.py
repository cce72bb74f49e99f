"""The page of a report: runs side by side, as one HTML file that needs nothing else."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from plot_attractors.measures.registry import PAPER_DATA, Metric
from plot_attractors.report import builder, findings, reproduce, sections
from plot_attractors.report.builder import Block, Code, Page, Section, Table, Text
from plot_attractors.report.tables import spread, text
from plot_attractors.runs import Run, pretrained, registry, store
from plot_attractors.runs.analyze import analyze
from plot_attractors.runs.numbers import kept
from plot_attractors.runs.variants import (
    Variant,
    all_runs,
    differing,
    group,
    labels,
    name_of,
    settings_of,
)

__all__ = ["report"]

Variants = Sequence[Variant]
Numbers = Mapping[Path, Mapping[str, float]]  # metrics by the path of a run


def report(run_paths: str | Path | Iterable[str | Path], out: str | Path | None = None) -> Path:
    """Write one self-contained HTML file about one run or several, and return its path.

    Runs that differ in the seed only are one variant, with means and standard deviations over
    seeds; variants are columns. There are: warnings, interactive views, what was fitted, the
    headline numbers beside the paper's, of each analysis every figure with the caption that its
    program's ``CAPTIONS`` gives and its tables, of the first seed of each variant, what is missing
    and why, and the commands and versions to reproduce it.

    By default `out` is ``report.html`` in the directory of the only run, of a model in the package
    in its copy ``./pretrained-NAME``. Raises ValueError for no run, a directory that holds none,
    data that were changed since, or several runs and no `out`.
    """
    paths = [run_paths] if isinstance(run_paths, str | Path) else list(run_paths)
    if not paths:
        raise ValueError("a report is of one run at least, and none was given")
    runs = [Run(path) for path in paths]
    for run in runs:
        if Path(getattr(run.data_config, "path", ".")).exists():
            _ = run.data  # refuses what was changed since
    if out is None:
        if len(runs) > 1:
            raise ValueError("a report of several runs needs a file to go to: give --out")
        runs = [Run(pretrained.writable(runs[0].path))]
        out = runs[0].path / "report.html"
        if kept(runs[0]) and not (runs[0].path / "analyses").is_dir():
            analyze(runs[0], "trajectories")  # what is seen first
    return builder.write(_page(group(runs)), Path(out))


def _page(variants: Variants) -> Page:
    runs = all_runs(variants)
    found = {run.path: findings.numbers(run) for run in runs}
    numbers = {path: of_run for path, (of_run, _) in found.items()}
    count = "a run" if len(runs) == 1 else f"{len(runs)} runs"
    name, about = _program("datasets", runs[0].data_name)
    data = re.split(r" \(|[:,.]", about)[0] or name
    title = f"{data}: {count} of {name_of(runs[0].program_name)}"
    if len(variants) > 1:
        title = f"{count} of {len(variants)} variants"
    return Page(
        title,
        _told(runs, lambda run: [*findings.warnings(run, numbers[run.path]), *found[run.path][1]]),
        [
            *(Text(findings.trust(numbers[run.path])) for run in runs[: len(runs) == 1]),
            *sections.views(variants),
        ],
        [
            Section("What was fitted", _fitted(variants)),
            Section("Headline numbers", _headlines(variants, numbers)),
            *sections.sections(variants),
            Section("What is missing", _missing(runs)),
            Section("How to reproduce this", _reproduce(runs)),
        ],
        width=min(62 + 36 * (len(variants) - 1), 140),
    )


def _told(runs: Sequence[Run], tell: Callable[[Run], Sequence[str]]) -> list[tuple[str, str]]:
    """Sentences on runs, with the names of the runs that each is about unless all are."""
    named, about = labels(runs), dict[str, list[str]]()
    for run in runs:
        for sentence in tell(run):
            about.setdefault(sentence, []).append(named[run.path])
    every = list(named.values())
    return [(told, "" if names == every else ", ".join(names)) for told, names in about.items()]


def _fitted(variants: Variants) -> list[Block]:
    """The runs, their programs and settings, and how long they were trained."""
    named = labels(all_runs(variants))
    settings = [settings_of(variant.first) for variant in variants]

    def each(fact: Callable[[Run], str]) -> list[str]:
        """A fact of every run of a variant, once where they agree."""
        return [", ".join(dict.fromkeys(map(fact, variant.runs))) for variant in variants]

    kinds: dict[str, registry.Kind] = {
        "data": "datasets", "program": "models", "inference": "inference",
    }  # fmt: skip
    rows: list[list[Any]] = [["runs", *each(lambda run: named[run.path])]]
    for key, kind in kinds.items():
        rows.append([key, *(_program(kind, v.first.config["run"][key]) for v in variants)])
    rows += [
        ["preset", *each(lambda run: run.preset)],
        ["seeds", *each(lambda run: str(run.seed))],
        ["updates", *each(lambda run: " of ".join(map(str, store.progress(run.path) or ["0"])))],
        ["duration", *each(_duration)],
    ]
    head = ["", *(variant.name for variant in variants)] if len(variants) > 1 else []
    every = dict.fromkeys(key for table in settings for key in table)
    blocks: list[Block] = [Table(rows, head)]
    for keys, what in ((differing(settings), "settings that differ"), (every, "settings")):
        if keys:
            values = [[key, *(text(table.get(key)) for table in settings)] for key in keys]
            blocks.append(Table(values, head, f"{len(values)} {what}"))
    return blocks


def _program(kind: registry.Kind, program: str) -> tuple[str, str]:
    try:
        return name_of(program), registry.describe(registry.find(kind, program))
    except ValueError:  # a user's file that is gone
        return name_of(program), ""


def _duration(run: Run) -> str:
    seconds = run.environment.get("seconds")
    return f"{seconds / 60:.1f} minutes" if isinstance(seconds, int | float) else "unknown"


def _headlines(variants: Variants, numbers: Numbers) -> list[Block]:
    """The metrics that some run has, beside the paper's."""

    def values(metric: Metric, runs: Iterable[Run]) -> list[float]:
        return [numbers[run.path][metric.name] for run in runs]

    runs = all_runs(variants)
    shown = [m for m in findings.HEADLINES if not all(map(math.isnan, values(m, runs)))]
    if not shown:
        return [Text("None yet: the analyses that give them are missing.")]
    data = {findings.data_of(variant.first) for variant in variants}
    paper = data.pop() if len(data) == 1 else None  # whose data set all were trained on
    one = "this run" if len(runs) == 1 else "mean ± sd"
    head = ["", *([one] if len(variants) == 1 else [variant.name for variant in variants])]
    rows: list[list[Any]] = []
    for metric in shown:
        cells = [spread(values(metric, variant.runs), metric.format) for variant in variants]
        beside = [str(metric.paper.get(paper, "–"))] if paper else []
        rows.append([(metric.heading, metric.formula.replace("`", "")), *cells, *beside])
    head += [f"paper, {PAPER_DATA[paper]}"] if paper else []
    return [Table(rows, head)]


def _missing(runs: Sequence[Run]) -> list[Block]:
    one = len(runs) == 1
    missing = _told(
        runs, lambda run: findings.missing(run, reproduce.shown_path(run) if one else "RUN")
    )
    return [Text("" if missing else "Nothing: every analysis was made.", missing)]


def _reproduce(runs: Sequence[Run]) -> list[Block]:
    lines = [line for run in runs for line in reproduce.commands(run)]
    paths = map(reproduce.shown_path, runs)
    out = [] if len(runs) == 1 else ["--out", "report.html"]
    lines.append(shlex.join(["plot-attractors", "report", *paths, *out]))
    machines = [reproduce.machine(run) for run in runs]
    keys = dict.fromkeys(key for machine in machines for key in machine)
    named = labels(runs)
    head = ["", *(named[run.path] for run in runs)] if len(runs) > 1 else []
    rows = [[key, *(text(machine.get(key)) for machine in machines)] for key in keys]
    return [
        Code("\n".join(lines)),
        Text("On the CPU, the same versions and the same number of threads give the same run."),
        Table(rows, head, "Versions and machine"),
    ]
