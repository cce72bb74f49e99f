"""The page: the paper's figures and numbers in its order, ours beside them."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import pandas as pd

from plot_attractors.measures.registry import Paper
from plot_attractors.paper.fits import ATTRACTORS, DATA, MODELS
from plot_attractors.paper.plan import PlannedRun, finished
from plot_attractors.paper.results import NOT_REPRODUCED, OURS, RESULTS, Plot, Result, of_paper
from plot_attractors.paper.tables import Cell, collect, runs_table, write
from plot_attractors.report import pictures, reproduce
from plot_attractors.report.page import Entry, contents, document, warnings
from plot_attractors.report.page import write as write_document
from plot_attractors.report.pictures import Detail
from plot_attractors.report.sections import anchor, captioned, image
from plot_attractors.report.tables import by_variant, fixed, html_table
from plot_attractors.runs import Run, registry
from plot_attractors.runs.analyze import about, condition
from plot_attractors.runs.jobs import inapplicable, lacking

__all__ = ["FIGURES", "write_page"]

NAMES = {"hbv": "Hierarchical binary vectors", "dsprites": "Coloured sprites"}
FIGURES = "figures"
SIDE_BY_SIDE = "side_by_side"
SIDE_BY_SIDE_CAPTION = (
    "Ours, all models: features decoded from sentences that a model samples (orange) and from "
    "sentences composed for one feature after the other (blue). Bars are medians over seeds, lines "
    "go from the least to the greatest. Errors are of size, x and y, in units of their variance: 1 "
    "for a guess, lower is better. A missing bar is a number that is not there yet."
)
WIDTH = 62  # rem
SHORT = {
    "smoke": "The preset smoke takes seconds a fit: it shows that all parts work, on a smaller "
    "tree and smaller images. No number of it means anything, beside the paper's or other ones.",
    "demo": "The preset demo trains for minutes what the preset full trains for longer, and its "
    "analyses draw fewer samples: numbers are rough.",
}


def write_page(
    out: Path, runs: Sequence[PlannedRun], preset: str, failures: Sequence[str] = ()
) -> Path:
    """Write ``index.html``, ``tables/`` and ``figures/`` of what there is; the path of the page."""
    cells, problems = collect(runs)
    table = runs_table(runs)
    write(out / "tables", cells, table)
    _draw_side_by_side(out / FIGURES, cells)
    warned = [SHORT[preset]] if preset in SHORT else []
    warned += [f"Failed: {failure}." for failure in failures] + problems + _missing(runs)
    told = warnings(dict.fromkeys(warned, ()), 0)
    top = [_intro(preset, runs), told, _contents(), _fitted(table), _overview(cells)]
    foot = [_not_reproduced(), _reproduce(out, runs, preset)]

    def page(detail: Detail) -> str:
        body = [*top, *_sections(out, runs, cells, detail), *foot]
        return document("The paper, measured here", body, WIDTH)

    return write_document(out / "index.html", page)


# What stands above the results.


def _intro(preset: str, runs: Sequence[PlannedRun]) -> str:
    distinct = list(dict.fromkeys(run.seed for run in runs))
    seeds = ("seed " if len(distinct) == 1 else "seeds ") + ", ".join(map(str, distinct))
    return (
        "<p>Figures and numbers of <cite>Discrete, compositional, and symbolic representations "
        "through attractor dynamics</cite> in the paper's order, and what this library finds in "
        f"their place. Preset {escape(preset)}, {escape(seeds)}. Numbers are medians over "
        "seeds, with the least and the greatest; figures are those of the first seed. All numbers "
        "are in the folder tables beside this page.</p>"
    )


def _missing(runs: Sequence[PlannedRun]) -> list[str]:
    """Sentences on what of the runs is not there, and why not."""
    unfitted = [run for run in runs if not finished(run.path)]
    names = ", ".join(run.name for run in unfitted)
    sentences = [f"Not fitted yet, or not to the end: {names}."] if names else []
    for run in runs:
        if run in unfitted:
            continue
        for name in inapplicable(run.path):
            sentences.append(f"{run.name}: {condition(registry.load('analyses', name), name)}.")
        if lacked := lacking(run.path, run.analyses):
            sentences.append(f"{run.name} lacks {', '.join(lacked)}.")
    return sentences


def _contents() -> str:
    entries: list[Entry] = [
        ("fitted", "What was fitted", []), ("numbers", "The paper's numbers beside ours", []),
    ]  # fmt: skip
    for section in dict.fromkeys(result.section for result in RESULTS):
        own = [(r.key, f"{r.place}: {r.title}") for r in RESULTS if r.section == section]
        entries.append((anchor(section), section, own))
    entries += [
        ("not-reproduced", "What is not reproduced", []),
        ("reproduce", "How to make this page", []),
    ]
    return contents(entries)


def _fitted(table: pd.DataFrame) -> str:
    """The models, and on either data set by whom they were fitted, how often, and how long."""
    rows = []
    for name, model in MODELS.items():
        cells = [f"{escape(model.title)}<small>{escape(model.note)}</small>"]
        for data in DATA:
            chosen = table[(table["data"] == data) & (table["model"] == name)]
            done = chosen[chosen["finished"]]
            if done.empty:
                cells.append("–")
                continue
            minutes = fixed(float(done["minutes"].median()), ".1f")
            many = f"{minutes} minutes"
            if len(chosen) > 1:
                many = f"{len(done)} of {len(chosen)} seeds, {minutes} minutes (median)"
            program = f"{done['program'].iloc[0]}, by {done['inference'].iloc[0]}"
            cells.append(f"{escape(program)}<small>{many}</small>")
        if cells[1:] != ["–"] * len(DATA):
            rows.append("".join(f'<td class="metric">{cell}</td>' for cell in cells))
    head = [f'<th class="metric">{name}</th>' for name in ("", *(NAMES[data] for data in DATA))]
    return (
        f'<section id="fitted">\n<h2>What was fitted</h2>\n{html_table(head, rows, tall=True)}\n'
        "</section>"
    )


def _overview(cells: Sequence[Cell]) -> str:
    """The numbers of which the paper gives a value."""
    known = [cell for cell in cells if isinstance(cell.paper, Paper)]
    return (
        '<section id="numbers">\n<h2>The paper’s numbers beside ours</h2>\n'
        "<p>Every number that the paper's text gives. What it only shows in a picture stands in "
        f"words below.</p>\n{_by_data(known)}\n</section>"
    )


# Results.


def _sections(
    out: Path, runs: Sequence[PlannedRun], cells: Sequence[Cell], detail: Detail
) -> list[str]:
    parts = []
    for section in dict.fromkeys(result.section for result in RESULTS):
        parts.append(f'<section id="{anchor(section)}">\n<h2>{escape(section)}</h2>')
        own = [result for result in RESULTS if result.section == section]
        parts += [_result(out, runs, result, cells, detail) for result in own]
        parts.append("</section>")
    return parts


def _result(
    out: Path, runs: Sequence[PlannedRun], result: Result, cells: Sequence[Cell], detail: Detail
) -> str:
    own = [cell for cell in cells if cell.result is result]
    says = result.says
    if result.place != OURS:
        section = result.section.removeprefix("Results: ")
        says = f"In the paper: {section}, {_small(result.place)}. It says: {says}"
    parts = [
        f'<article id="{result.key}">\n<h3>{escape(f"{result.place}: {result.title}")}</h3>',
        f'<p class="soft">{escape(says)}</p>',
        f"<p>How to read it: {escape(result.reading)}</p>",
    ]
    if own:
        parts.append(_by_data(own))
    if result.side_by_side and (out / FIGURES / f"{SIDE_BY_SIDE}.png").is_file():
        drawn = image(out / FIGURES, SIDE_BY_SIDE, detail)
        parts.append(captioned(drawn, SIDE_BY_SIDE_CAPTION))
    parts += [_figure(runs, shown, detail) for shown in result.shown]
    return "\n".join([*parts, "</article>"])


def _figure(runs: Sequence[PlannedRun], shown: Plot, detail: Detail) -> str:
    """A figure of the first seed that was asked for."""
    own = (run for run in runs if (run.data, run.model) == (shown.data, ATTRACTORS))
    first = next(own, None)
    folder = None if first is None else first.path / "analyses" / shown.analysis
    title = f"{NAMES[shown.data]}, attractor model"
    if folder is None or not folder.is_dir() or shown.stem not in pictures.stems(folder):
        return f'<p class="soft">{escape(title)}: there is no figure of {shown.analysis} yet.</p>'
    assert first is not None
    caption = escape(about(folder)[1].get(shown.stem, ""))
    return (
        f"<figure><h4>{escape(title)}, seed {first.seed}</h4>{image(folder, shown.stem, detail)}"
        f"<details><summary>What the figure shows</summary><p>{caption}</p></details></figure>"
    )


def _small(place: str) -> str:
    return "in the text" if place == "Text" else place


def _by_data(cells: Sequence[Cell]) -> str:
    """A table for each data set: a row for each number, with a column for each model if several."""
    parts = []
    for data in DATA:
        own = [cell for cell in cells if cell.number.data == data]
        if own:
            parts.append(f"<h4>{NAMES[data]}</h4>{_table(own)}")
    return "\n".join(parts)


def _table(cells: Sequence[Cell]) -> str:
    """Our medians over what they spread over, and the paper's value: below, or in its column."""
    models = list(dict.fromkeys(cell.model for cell in cells))
    names = list(dict.fromkeys(cell.number.name for cell in cells))
    by_place = {(cell.number.name, cell.model): cell for cell in cells}
    spread = any(len(cell.known) > 1 for cell in cells)
    heads = [escape(MODELS[model].title) for model in models]
    if len(models) == 1:
        heads = ["paper", "ours, median"]
    rows = []
    for name in names:
        own = [by_place.get((name, model)) for model in models]
        first = next(cell for cell in own if cell is not None)
        if len(models) == 1:
            value, _, below = _of_paper(first).partition(" [")
            texts = [_stacked(value or "–", below and f"[{below}"), _stacked(*_ours(first, spread))]
        else:
            texts = [_stacked("–") if cell is None else _both(cell, spread) for cell in own]
        heading = escape(first.number.metric.heading)
        rows.append(f'<td class="metric">{heading}</td>{"".join(texts)}')
    head = ['<th class="metric"></th>', *(f'<th class="wrap">{name}</th>' for name in heads)]
    return html_table(head, rows, tall=True)


def _both(cell: Cell, spread: bool) -> str:
    paper = _of_paper(cell)
    return _stacked(*_ours(cell, spread), paper and f"paper: {paper}")


def _of_paper(cell: Cell) -> str:
    return "" if cell.paper is None else of_paper(cell.paper)


def _ours(cell: Cell, spread: bool) -> tuple[str, str]:
    """The median, and where some number of the table has several seeds what it is of."""
    form, n = cell.number.metric.format, len(cell.known)
    below = "1 seed" if n == 1 and spread else ""
    if n > 1:
        below = f"{fixed(cell.least, form)} to {fixed(cell.greatest, form)}, {n} seeds"
    return fixed(cell.median, form), below


def _stacked(above: str, *below: str) -> str:
    small = "".join(f"<small>{escape(text)}</small>" for text in below if text)
    return f"<td>{escape(above)}{small}</td>"


def _draw_side_by_side(folder: Path, cells: Iterable[Cell]) -> None:
    """The paper's figure of all models, from the cells of decoded and of composed features."""
    rows = []
    for cell in cells:
        name = cell.number.metric.name
        base = name.removesuffix("_held_out")
        if base not in ("accuracy", "composed", "error", "composed_error"):
            continue
        rows.append(
            {
                "panel": "HBV" if cell.number.data == "hbv" else "dSprites",
                "measure": "error" if base.endswith("error") else "accuracy",
                "held_out": name != base,
                "kind": "composed" if base.startswith("composed") else "sampled",
                "model": MODELS[cell.model].title.replace("Bayesian language", "language"),
                "median": cell.median,
                "least": cell.least,
                "greatest": cell.greatest,
            }
        )
    table = pd.DataFrame(rows)
    if all(math.isnan(value) for value in table["median"]):
        return
    from plot_attractors.analysis.style import save, style
    from plot_attractors.paper.figure import draw_side_by_side  # matplotlib is slow to import

    folder.mkdir(parents=True, exist_ok=True)
    with style():
        save(draw_side_by_side(table), folder / SIDE_BY_SIDE)


# What stands below the results.


def _not_reproduced() -> str:
    items = "".join(
        f"<li><strong>{escape(what)}</strong>: {escape(why)}</li>"
        for what, why in NOT_REPRODUCED.items()
    )
    title = "<h2>What is not reproduced</h2>"
    return f'<section id="not-reproduced">\n{title}\n<ul>{items}</ul>\n</section>'


def _reproduce(out: Path, runs: Sequence[PlannedRun], preset: str) -> str:
    seeds = ",".join(map(str, dict.fromkeys(run.seed for run in runs)))
    command = ["plot-attractors", "paper", "--out", out.name, "--preset", preset, "--seeds", seeds]
    fitted = next((Run(run.path) for run in runs if finished(run.path)), None)
    facts = {} if fitted is None else reproduce.machine(fitted)
    rows = [(key, [value]) for key, value in facts.items() if key not in ("started", "ended")]
    return (
        '<section id="reproduce">\n<h2>How to make this page</h2>\n'
        f"<pre><code>{escape(shlex.join(command))}</code></pre>\n"
        '<p class="soft">The same command goes on where it was interrupted. On the CPU, the same '
        "versions and the same number of threads give the same runs.</p>\n"
        f"{by_variant([], rows)}\n</section>"
    )
