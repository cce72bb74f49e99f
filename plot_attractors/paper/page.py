"""The page of the paper: its figures and numbers in its order, ours beside them."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pandas as pd

from plot_attractors.measures.registry import PAPER_DATA
from plot_attractors.paper.plan import MODELS
from plot_attractors.paper.results import ATTRACTORS, DECODABILITY, NUMBERS, RESULTS, Number, Plot
from plot_attractors.report import builder, findings, pictures, reproduce
from plot_attractors.report.builder import (
    Block,
    Code,
    Figure,
    Image,
    Page,
    Part,
    Section,
    Table,
    Text,
)
from plot_attractors.report.sections import about
from plot_attractors.report.tables import fixed, text
from plot_attractors.runs import Run, registry
from plot_attractors.runs.analyze import draw_figures
from plot_attractors.runs.numbers import minutes, numbers
from plot_attractors.runs.sweep import Training, lacking

__all__ = ["Cell", "write_page"]

INTRODUCTION = (
    "Figures and numbers of “Discrete, compositional, and symbolic representations through "
    "attractor dynamics” in the paper's order, and what this library finds in their place. Numbers "
    "are medians over seeds, with the least and the greatest, and all are in numbers.csv; figures "
    "are those of the first seed. Models have their default inference: that of attractors is not "
    "the paper's detailed balance. The paper has no Bayesian language of thought; that here is "
    "given the primitives of its grammar, and a colour is one word, which composition by channels "
    "cannot build."
)
NAMES = {"hbv": "Hierarchical binary vectors", "dsprites": "Coloured sprites"}
SIDE_BY_SIDE = "side_by_side"
SIDE_BY_SIDE_CAPTION = (
    "Ours, all models: features decoded from sentences that a model samples (orange) and from "
    "sentences composed for one feature after the other (blue). Bars are medians over seeds, lines "
    "go from the least to the greatest. Errors are root mean squares of size, x and y: lower is "
    "better. A missing bar is a number that is not there yet."
)


class Cell(NamedTuple):
    """A number of a model, of each seed that has it."""

    number: Number
    model: str
    values: Mapping[int, float]

    @property
    def summary(self) -> tuple[float, float, float]:
        """Median, least and greatest."""
        known = list(self.values.values()) or [math.nan]
        return median(known), min(known), max(known)


def write_page(
    out: Path, runs: Sequence[Training], preset: str, failed: Mapping[str, str] | None = None
) -> Path:
    """Write ``index.html``, ``numbers.csv`` and the figure of all models of what there is; the path
    of the page. `failed` are runs by name, and why.
    """
    cells, problems = _collect([run for run in runs if run.trained])
    rows = [
        {
            "data": c.number.data, "number": c.number.metric.name, "title": c.number.metric.heading,
            "model": c.model, "paper": c.number.paper.get(c.model), "seed": seed, "value": value,
        }
        for c in cells for seed, value in c.values.items()
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(out / "numbers.csv", index=False)
    warned = findings.short(preset) + _missing(runs, failed or {}) + problems
    sections = [
        Section("What was fitted", [Text(INTRODUCTION), _fitted(runs)]),
        Section("Numbers", [block for data in PAPER_DATA for block in _numbers(data, cells)]),
        *_results(out, runs, cells),
        Section("How to make this page", _reproduce(out, runs, preset)),
    ]
    page = Page("The paper, measured here", [(told, "") for told in warned], [], sections)
    return builder.write(page, out / "index.html")


def _collect(runs: Sequence[Training]) -> tuple[list[Cell], list[str]]:
    """The cells of all numbers, and a sentence on every table that cannot be read."""
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    problems = []
    for training in runs:
        data, model = training.arguments["data"], _model(training)
        metrics = {n.metric.name: n.metric for n in NUMBERS if n.data == data and model in n.models}
        try:
            values = numbers(Run(training.path), metrics)
        except ValueError as error:
            problems.append(f"{error}.")
            continue
        for name, value in values.items():
            if not math.isnan(value):
                found.setdefault((str(data), name, model), {})[training.arguments["seed"]] = value
    return [
        Cell(number, model, found.get((number.data, number.metric.name, model), {}))
        for number in NUMBERS
        for model in number.models
    ], problems


def _model(run: Training) -> str:
    return run.name.split("-")[1]


def _missing(runs: Sequence[Training], failed: Mapping[str, str]) -> list[str]:
    """Sentences on what of the runs is not there, and why not."""
    sentences = [f"Failed: {name}: {reason}." for name, reason in failed.items()]
    unfitted = ", ".join(run.name for run in runs if not run.trained)
    sentences += [f"Not fitted yet, or not to the end: {unfitted}."] if unfitted else []
    for run in (run for run in runs if run.trained):
        if lacked := lacking(run):
            sentences.append(f"{run.name} lacks {', '.join(lacked)}.")
    return sentences


def _fitted(runs: Sequence[Training]) -> Table:
    """The models, and on either data set by whom they were fitted, how often, and how long."""
    rows = []
    for name, model in MODELS.items():
        described = registry.describe(registry.find("models", model.program))
        cells: list[str | tuple[str, ...]] = [(model.title, described)]
        for data in PAPER_DATA:
            own = [r for r in runs if (r.arguments["data"], _model(r)) == (data, name)]
            done = [Run(run.path) for run in own if run.trained]
            cells.append("–")
            if done:
                took = fixed(median(map(minutes, done)), ".1f")
                many = f"{len(done)} of {len(own)} seeds, {took} minutes (median)"
                cells[-1] = f"{done[0].program_name}, by {done[0].inference_name}", many
        rows.append(cells)
    return Table(rows, ["", *NAMES.values()])


def _numbers(data: str, cells: Sequence[Cell]) -> list[Block]:
    """The numbers of a data set, with a column for each model."""
    rows: list[list[str | tuple[str, ...]]] = []
    for number in NUMBERS:
        if number.data == data:
            own = {cell.model: cell for cell in cells if cell.number is number}
            shown = [_cell(own[model]) if model in own else "" for model in MODELS]
            rows.append([number.metric.heading, *shown])
    return [Text(NAMES[data]), Table(rows, ["", *(model.title for model in MODELS.values())])]


def _cell(cell: Cell) -> tuple[str, ...]:
    """Our median, what it is over, and the paper's value."""
    form, paper = cell.number.metric.format, cell.number.paper.get(cell.model)
    middle, least, greatest = (fixed(value, form) for value in cell.summary)
    spread = f"{least} to {greatest}, {len(cell.values)} seeds" if len(cell.values) > 1 else ""
    said = "" if paper is None else f"paper: {paper}".replace("−inf", "−∞")
    return middle, spread, said


def _results(out: Path, runs: Sequence[Training], cells: Sequence[Cell]) -> list[Section]:
    """What the paper says and our figures, in its sections."""
    sections: dict[str, list[Part]] = {}
    for result in RESULTS:
        blocks: list[Block] = [Text(f"The paper: {result.says}")]
        blocks += _side_by_side(out, cells) if result.title == DECODABILITY else []
        blocks += [_figure(runs, plot) for plot in result.shown]
        part = Part(builder.anchor(result.title), result.title, blocks)
        sections.setdefault(result.section, []).append(part)
    return [Section(title, parts=parts) for title, parts in sections.items()]


def _figure(runs: Sequence[Training], plot: Plot) -> Block:
    """A figure of the first seed that was asked for."""
    title = f"{NAMES[plot.data]}, attractor model"
    own = (
        run.path for run in runs if (run.arguments["data"], _model(run)) == (plot.data, ATTRACTORS)
    )
    for folder in (path / "analyses" / plot.analysis for path in itertools.islice(own, 1)):
        if folder.is_dir() and plot.stem in pictures.stems(folder):
            image = Image(title, plot.stem, pictures.data_uri(folder, plot.stem))
            return Figure([image], about(plot.analysis)[1].get(plot.stem, ""))
    return Text(f"{title}: there is no figure of {plot.analysis} yet.")


def _side_by_side(out: Path, cells: Sequence[Cell]) -> list[Block]:
    """The paper's figure of all models, from the cells of decoded and of composed features."""
    rows = []
    for cell in cells:
        name = cell.number.metric.name
        base = name.removesuffix("_held_out")
        if base in ("accuracy", "composed", "error", "composed_error"):
            title = MODELS[cell.model].title.replace("Bayesian language", "language")
            measure = "error" if base.endswith("error") else "accuracy"
            panel = PAPER_DATA[cell.number.data], measure, name != base
            rows.append((*panel, base.startswith("composed"), title, *cell.summary))
    names = "data measure held_out composed model median least greatest"
    table = pd.DataFrame(rows, columns=names.split())
    if table["median"].isna().all():
        return []
    from plot_attractors.paper.figure import draw_side_by_side  # matplotlib is slow to import

    draw_figures(lambda: {SIDE_BY_SIDE: draw_side_by_side(table)}, out)
    return [Figure([Image("", SIDE_BY_SIDE, pictures.data_uri(out, SIDE_BY_SIDE))],
                   SIDE_BY_SIDE_CAPTION)]  # fmt: skip


def _reproduce(out: Path, runs: Sequence[Training], preset: str) -> list[Block]:
    seeds = ",".join(map(str, dict.fromkeys(run.arguments["seed"] for run in runs)))
    command = ["plot-attractors", "paper", "--out", out.name, "--preset", preset, "--seeds", seeds]
    fitted = [run.path for run in runs if (run.path / "config.toml").is_file()]
    facts = reproduce.machine(Run(fitted[0])) if fitted else {}
    return [
        Code(shlex.join(command)),
        Text("The same command goes on where it was interrupted. On the CPU, the same versions and "
             "the same number of threads give the same runs."),
        Table([[key, text(value)] for key, value in facts.items()], title="Versions and machine"),
    ]  # fmt: skip
