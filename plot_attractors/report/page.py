"""The page of a report: runs side by side, as one HTML file that needs nothing else."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from plot_attractors.durations import duration
from plot_attractors.measures.registry import PAPER_DATA, Metric
from plot_attractors.report import findings, pictures, reproduce, tables
from plot_attractors.report.sections import (
    Block,
    anchor,
    first_views,
    leading_figure,
    sections,
)
from plot_attractors.runs import Run, pretrained, registry
from plot_attractors.runs.variants import (
    Variant,
    all_runs,
    differing,
    fitted_name,
    group,
    labels,
    name_of,
    settings_of,
)

__all__ = ["LARGEST_PAGE", "contents", "document", "report", "warnings", "write"]

LARGEST_PAGE = 14_000_000  # bytes; figures are kept less finely above

Variants = Sequence[Variant]
Entry = tuple[str, str, Sequence[tuple[str, str]]]  # anchor and title, and those of its parts
Numbers = Mapping[Path, Mapping[str, float]]  # metrics by the path of a run


def report(run_paths: str | Path | Iterable[str | Path], out: str | Path | None = None) -> Path:
    """Write one self-contained HTML file about one run or several, and return its path.

    Runs that differ in the seed only are one variant, with means and standard deviations over
    seeds; variants are columns. There are: what was asked and found, warnings, what was fitted, the
    headline numbers beside the paper's, of each analysis every figure with the caption that its
    program's ``CAPTIONS`` gives, its interactive view and its tables, what is missing and why, and
    the commands and versions to reproduce it.

    By default `out` is ``report.html`` in the directory of the only run, of a model in the package
    in its copy ``./pretrained-NAME``. Above `LARGEST_PAGE` bytes
    figures are kept less finely, in four steps. Raises ValueError for no run, a directory that
    holds none, a run whose data were changed, or several runs and no `out`.
    """
    paths = [run_paths] if isinstance(run_paths, str | Path) else list(run_paths)
    if not paths:
        raise ValueError("a report is of one run at least, and none was given")
    runs = [Run(path) for path in paths]
    for run in runs:
        run.check_data()
    if out is None:
        if len(runs) > 1:
            raise ValueError("a report of several runs needs a file to go to: give --out")
        runs = [Run(pretrained.writable(runs[0].path))]
        out = runs[0].path / "report.html"
    variants = group(runs)
    head, foot = _head(variants), _foot(variants)
    return write(Path(out), lambda detail: _page(variants, head, sections(variants, detail), foot))


def write(out: Path, page: Callable[[pictures.Detail], str]) -> Path:
    """Write a page with the finest figures with which it is small enough."""
    content = b""
    for detail in pictures.DETAILS:
        content = page(detail).encode(errors="replace")  # of paths that are no UTF-8
        if len(content) <= LARGEST_PAGE:
            break
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(content)
    return out


def _page(variants: Variants, head: str, sections: Mapping[str, Sequence[Block]], foot: str) -> str:
    body = []
    for section, parts in sections.items():
        if parts:
            body.append(f'<section id="{anchor(section)}">\n<h2>{escape(section)}</h2>')
            for part in parts:
                heading = "" if part.title == section else f"<h3>{escape(part.title)}</h3>\n"
                body.append(f'<article id="{part.anchor}">\n{heading}{part.html}\n</article>')
            body.append("</section>")
    none = ['<p class="soft">No analyses yet.</p>']
    width = min(62 + 36 * (len(variants) - 1), 140)
    return document(_title(variants), [head, _contents(sections), *(body or none), foot], width)


def document(title: str, body: Sequence[str], width: int) -> str:
    """A whole page, at most `width` rem wide, that fetches nothing; `body` is HTML already."""
    from plot_attractors.analysis import style

    palette = {"blue": style.BLUE, "orange": style.ORANGE, "crimson": style.CRIMSON}
    palette |= {"grey": style.GREY}
    palette |= {f"class{k}": colour for k, colour in enumerate(style.CLASS_COLOURS)}
    root = "".join(f"--{name}: {colour}; " for name, colour in palette.items())
    root += f"--width: {width}rem;"
    policy = "default-src 'none'; img-src data:; "
    policy += "style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    files = (Path(__file__).with_name(name) for name in ("style.css", "viewer.js"))
    style_sheet, script = (file.read_text(encoding="utf-8") for file in files)
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>',
            f"<title>{escape(title)}</title>",
            f"<style>\n:root {{ {root} }}\n{style_sheet}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            *body,
            f"<script>\n{script}</script>\n</body>\n</html>\n",
        ]
    )


def _title(variants: Variants) -> str:
    runs = all_runs(variants)
    if len(variants) > 1:
        return f"{len(runs)} runs of {len(variants)} variants"
    count = "a run" if len(runs) == 1 else f"{len(runs)} runs"
    return f"{fitted_name(runs[0])}: {count}"


def _contents(sections: Mapping[str, Sequence[Block]]) -> str:
    entries: list[Entry] = [("headlines", "Headline numbers", [])]
    for section, parts in sections.items():
        if parts:
            inner = [(part.anchor, part.title) for part in parts if part.title != section]
            entries.append((anchor(section), section, inner))
    entries += [("missing", "What is missing", []), ("reproduce", "How to reproduce this", [])]
    return contents(entries)


def contents(entries: Iterable[Entry]) -> str:
    """The list of the sections of a page."""

    def item(target: str, text: str, inner: str = "") -> str:
        return f'<li><a href="#{target}">{escape(text)}</a>{inner}</li>'

    items = ""
    for target, text, below in entries:
        inner = "".join(item(*entry) for entry in below)
        items += item(target, text, f"<ul>{inner}</ul>" if inner else "")
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def warnings(sentences: Mapping[str, Sequence[str]], runs: int) -> str:
    """What a reader should know first: sentences, with the names of the runs that each is about
    unless all are.
    """
    if not sentences:
        return ""
    head = '<div class="warnings" role="note"><strong>Before you read on</strong>'
    return f"{head}{_sentences(sentences, runs)}</div>"


# Warnings, what was fitted, headline numbers.


def _head(variants: Variants) -> str:
    results = {run.path: findings.numbers(run) for run in all_runs(variants)}
    numbers = {path: of_run for path, (of_run, _) in results.items()}
    named = labels(all_runs(variants))
    warned: dict[str, list[str]] = {}
    for run in all_runs(variants):
        own, problem = results[run.path]
        for sentence in [*findings.warnings(run, own), *([problem] if problem else [])]:
            warned.setdefault(sentence, []).append(named[run.path])
    parts = [
        _summary(variants, numbers),
        warnings(warned, len(results)),
        first_views(variants),
        _terms(variants, numbers),
        _program("Data", "datasets", dict.fromkeys(v.first.data_name for v in variants)),
        _program("Model", "models", dict.fromkeys(v.first.program_name for v in variants)),
        _program("Inference", "inference", dict.fromkeys(v.first.inference_name for v in variants)),
        _fitted(variants),
        '<section id="headlines">\n<h2>Headline numbers</h2>',
        _headlines(variants, numbers),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _summary(variants: Variants, numbers: Numbers) -> str:
    """Of one variant: what was asked and found, of its first run."""
    if len(variants) > 1:
        return ""
    first = variants[0].first
    told = findings.summary(first, numbers[first.path])
    lines = "".join(f"<p>{escape(text)}</p>" for text in told)
    return f'<section id="summary">\n{lines}\n</section>'


def _terms(variants: Variants, numbers: Numbers) -> str:
    """Of one variant: the figure that shows what was found, and, folded, what the terms mean."""
    if len(variants) > 1:
        return ""
    first = variants[0].first
    meanings = findings.terms(first, numbers[first.path])
    defined = "".join(
        f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in meanings.items()
    )
    folded = f'<details><summary>Terms</summary><dl class="terms">{defined}</dl></details>'
    return leading_figure(first, pictures.DETAILS[1]) + (folded if defined else "")


def _program(what: str, kind: registry.Kind, programs: Iterable[str]) -> str:
    lines = []
    for program in programs:
        try:
            described = registry.describe(registry.find(kind, program))
        except ValueError:  # a user's file that is gone
            described = ""
        rest = f": {escape(described)}" if described else ""
        lines.append(f"<strong>{escape(name_of(program))}</strong>{rest}")
    return f"<p>{what} {'<br/>'.join(lines)}</p>"


def _sentences(sentences: Mapping[str, Sequence[str]], runs: int) -> str:
    """A list of sentences, each with the names of the runs that it is about unless all are."""
    items = []
    for sentence, names in sentences.items():
        names_of_runs = (
            "" if len(names) == runs else f" <small>({escape(', '.join(names))})</small>"
        )
        items.append(f"<li>{escape(sentence)}{names_of_runs}</li>")
    return f"<ul>{''.join(items)}</ul>"


def _fitted(variants: Variants) -> str:
    """The runs, their settings, and how long they were trained."""
    named = labels(all_runs(variants))
    settings = [settings_of(variant.first) for variant in variants]

    def row(key: str) -> tuple[str, list[Any]]:
        return key, [table.get(key) for table in settings]

    def each(fact: Callable[[Run], str]) -> list[str]:
        """A fact of every run of a variant, once where they agree."""
        return [", ".join(dict.fromkeys(map(fact, variant.runs))) for variant in variants]

    plural = "s" if len(named) > len(variants) else ""
    facts = [
        (f"run{plural}", each(lambda run: named[run.path])),
        row("preset"),
        (f"seed{plural}", each(lambda run: str(run.seed))),
        ("updates", each(_updates)),
        ("duration", each(_duration)),
    ]
    heads = [variant.name for variant in variants] if len(variants) > 1 else []
    different, every = differing(settings), dict.fromkeys(k for table in settings for k in table)
    parts = [tables.by_variant(heads, facts)]
    for keys, what in ((different, "settings that differ"), (every, "settings")):
        if keys:
            table = tables.by_variant(heads, [row(key) for key in keys])
            summary = f"<summary>{len(keys)} {what}</summary>"
            parts.append(f'<details class="long">{summary}{table}</details>')
    return "\n".join(parts)


def _updates(run: Run) -> str:
    try:
        position, total = run.position
    except ValueError:
        return "none"
    return str(position) if position >= total else f"{position} of {total}"


def _duration(run: Run) -> str:
    seconds = run.environment.get("seconds")
    return duration(seconds) if isinstance(seconds, int | float) else "unknown"


def _headlines(variants: Variants, numbers: Numbers) -> str:
    """The metrics that some run has, beside the paper's; those of every seed are folded."""

    def values(metric: Metric, runs: Iterable[Run]) -> list[float]:
        return [numbers[run.path][metric.name] for run in runs]

    runs, named = all_runs(variants), labels(all_runs(variants))
    shown = [m for m in findings.HEADLINES if not all(map(math.isnan, values(m, runs)))]
    if not shown:
        return '<p class="soft">None yet: the analyses that give them are missing.</p>'
    data = {findings.data_of(variant.first) for variant in variants}
    paper = data.pop() if len(data) == 1 else None  # whose data set all were trained on
    several = len(runs) > len(variants)
    heads = [variant.name for variant in variants]
    if len(variants) == 1:
        heads = ["mean ± sd" if several else "this run"]
    top = ['<th class="metric"></th>', *(f"<th>{escape(head)}</th>" for head in heads)]
    top += [f'<th class="text">paper, {PAPER_DATA[paper]}</th>'] if paper else []
    rows = []
    for metric in shown:
        name = f"{escape(metric.heading)}<small>{escape(metric.formula)}</small>"
        cells = [f'<td class="metric">{name}</td>']
        for variant in variants:
            cell = tables.spread(values(metric, variant.runs), metric.format)
            total = findings.total_of(metric.name, variant.first)
            total_text = "" if total is None or cell == "–" else f" of {total:,}"
            cells.append(f"<td>{cell}{total_text}</td>")
        cells += [f'<td class="text">{metric.paper.get(paper, "–")}</td>'] if paper else []
        rows.append("".join(cells))
    table = tables.html_table(top, rows, tall=True)
    if not several:
        return table
    every = [(m.title, [tables.fixed(v, m.format) for v in values(m, runs)]) for m in shown]
    of_runs = tables.by_variant([named[run.path] for run in runs], every)
    return f"{table}<details><summary>Every run</summary>{of_runs}</details>"


# What is missing, and how to reproduce it.


def _foot(variants: Variants) -> str:
    runs, named = all_runs(variants), labels(all_runs(variants))
    one = len(runs) == 1
    missing: dict[str, list[str]] = {}
    for run in runs:
        path = reproduce.shown_path(run) if one else "RUN"
        for sentence in findings.missing_analyses(run, path):
            missing.setdefault(sentence, []).append(named[run.path])
    listed = "<p>Nothing: every analysis was made.</p>"
    if missing:
        listed = _sentences(missing, len(runs))
    lines = [line for run in runs for line in reproduce.commands(run)[: None if one else 2]]
    if not one:
        paths = map(reproduce.shown_path, runs)
        lines += [shlex.join(["plot-attractors", "report", *paths, "--out", "report.html"])]
    commands = escape("\n".join(lines))
    machines = [reproduce.machine(run) for run in runs]
    shown = machines[:1] if all(machine == machines[0] for machine in machines) else machines
    facts = [
        (key, [machine.get(key) for machine in shown])
        for key in dict.fromkeys(key for machine in machines for key in machine)
    ]
    table = tables.by_variant([] if len(shown) == 1 else [named[run.path] for run in runs], facts)
    same = "On the CPU, the same versions and the same number of threads give the same run."
    return "\n".join(
        [
            f'<section id="missing">\n<h2>What is missing</h2>\n{listed}\n</section>',
            '<section id="reproduce">\n<h2>How to reproduce this</h2>',
            f'<pre><code>{commands}</code></pre>\n<p class="soft">{same}</p>',
            f"<h3>Versions and machine</h3>\n{table}\n</section>",
        ]
    )
