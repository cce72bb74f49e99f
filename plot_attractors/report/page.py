"""The page of a report: runs side by side, as one HTML file that needs nothing else."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from plot_attractors.plots import style
from plot_attractors.report import findings, pictures, tables, viewer
from plot_attractors.report.pictures import Detail
from plot_attractors.report.variants import Variant, differing, group, labels, name_of, settings_of
from plot_attractors.runs import Run, registry
from plot_attractors.runs.analyze import PROGRAM_FILE
from plot_attractors.runs.registry import Shelf

__all__ = ["report"]

LARGEST_PAGE = 14_000_000  # bytes; figures are kept less finely above
SHORT_TABLE = 20  # rows that are printed
MOST_DIFFERENCES = 8  # settings beside what was fitted; more are folded

# From the question of the paper to what it was answered with; analyses that are not named stand
# under OTHERS.
OTHERS = "More analyses"
SECTIONS: dict[str, tuple[str, ...]] = {
    "Attractor dynamics": ("trajectories", "perturbation", "neighbours", "basins"),
    "Emergent language": (
        "sentences",
        "information_loss",
        "decodability",
        "composition",
        "similarity",
    ),
    "Diversity": ("diversity",),
    "Beside a Bayesian language of thought": ("compare_language_of_thought",),
    "Calibration and diagnostics": ("calibration", "diagnostics"),
    OTHERS: (),
    "Training": ("training",),
    "Data": ("data",),
}

Numbers = Mapping[Path, Mapping[str, float]]  # headline numbers by the path of a run
Labels = Mapping[Path, str]  # short names by the path of a run


class Part(NamedTuple):
    """An analysis in the page."""

    anchor: str
    title: str
    html: str


def report(run_paths: str | Path | Iterable[str | Path], out: str | Path | None = None) -> Path:
    """Write one self-contained HTML file about one run or several, and return its path.

    Runs that differ in the seed only are one variant, with means and standard deviations over
    seeds; variants are columns. There are: warnings, what was fitted, the headline numbers beside
    the paper's, of each analysis every figure with the caption that its program's ``CAPTIONS``
    gives, its interactive view and its tables, what is missing and why, and the commands and
    versions to reproduce it. The page has 15 MB at most, unless there are so many runs that their
    figures do not fit however coarse.

    Args:
        run_paths: directories of runs.
        out: the file; by default ``report.html`` in the directory of the only run.

    Raises:
        ValueError: no run, a directory that holds none, or several runs and no `out`.
    """
    paths = [run_paths] if isinstance(run_paths, str | Path) else list(run_paths)
    if not paths:
        raise ValueError("a report is of one run at least, and none was given")
    runs = [Run(path) for path in paths]
    if out is None:
        if len(runs) > 1:
            raise ValueError("a report of several runs needs a file to go to: give --out")
        out = runs[0].path / "report.html"
    out = Path(out)
    variants = group(runs)
    head, foot = _head(variants), _foot(variants)
    page = b""
    for detail in pictures.DETAILS:
        page = _page(variants, head, _sections(variants, detail), foot).encode()
        if len(page) <= LARGEST_PAGE:
            break
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(page)
    return out


def _all_runs(variants: Sequence[Variant]) -> list[Run]:
    return [run for variant in variants for run in variant.runs]


def _labels(variants: Sequence[Variant]) -> Labels:
    return labels([run.path for run in _all_runs(variants)])


# The page.


def _page(
    variants: Sequence[Variant], head: str, sections: Mapping[str, Sequence[Part]], foot: str
) -> str:
    title = _title(variants)
    palette = {
        "blue": style.BLUE,
        "orange": style.ORANGE,
        "crimson": style.CRIMSON,
        "grey": style.GREY,
        **{f"class{k}": colour for k, colour in enumerate(style.CLASS_COLOURS)},
    }
    colours = " ".join(f"--{name}: {colour};" for name, colour in palette.items())
    width = f"--width: {min(62 + 36 * (len(variants) - 1), 140)}rem;"
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    )
    body = []
    for section, parts in sections.items():
        if parts:
            body.append(f'<section id="{_anchor(section)}">\n<h2>{escape(section)}</h2>')
            for part in parts:
                heading = "" if part.title == section else f"<h3>{escape(part.title)}</h3>\n"
                body.append(f'<article id="{part.anchor}">\n{heading}{part.html}\n</article>')
            body.append("</section>")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>',
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}"/>',
            f"<title>{escape(title)}</title>",
            f"<style>\n:root "
            f"{{ {colours} {width} }}\n{_asset('style.css')}</style>\n</head>\n<body>",
            f"<h1>{escape(title)}</h1>",
            head,
            _contents(sections),
            *(body or ['<p class="soft">No analyses yet.</p>']),
            foot,
            f"<script>\n{_asset('viewer.js')}</script>\n</body>\n</html>\n",
        ]
    )


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _title(variants: Sequence[Variant]) -> str:
    runs = _all_runs(variants)
    program = name_of(runs[0].program_name)
    if len(runs) == 1:
        return f"{program}: a run"
    return (
        f"{program}: {len(runs)} runs"
        if len(variants) == 1
        else f"{len(runs)} runs of {len(variants)} variants"
    )


def _anchor(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())


def _contents(sections: Mapping[str, Sequence[Part]]) -> str:
    def item(anchor: str, text: str, inner: str = "") -> str:
        return f'<li><a href="#{anchor}">{escape(text)}</a>{inner}</li>'

    items = [item("headlines", "Headline numbers")]
    for section, parts in sections.items():
        if parts:
            inner = "".join(
                item(part.anchor, part.title) for part in parts if part.title != section
            )
            items.append(item(_anchor(section), section, f"<ul>{inner}</ul>" if inner else ""))
    items += [item("missing", "What is missing"), item("reproduce", "How to reproduce this")]
    return f'<nav aria-label="Contents"><ul>{"".join(items)}</ul></nav>'


# Warnings, what was fitted, headline numbers.


def _head(variants: Sequence[Variant]) -> str:
    found = {run.path: findings.numbers(run) for run in _all_runs(variants)}
    numbers = {path: of_run for path, (of_run, _) in found.items()}
    parts = [
        _program("Model", "models", dict.fromkeys(v.first.program_name for v in variants)),
        _program("Inference", "inference", dict.fromkeys(v.first.inference_name for v in variants)),
        _warnings(variants, numbers, {path: problem for path, (_, problem) in found.items()}),
        _fitted(variants, numbers),
        _first_views(variants),
        f'<section id="headlines">\n<h2>Headline numbers</h2>\n{_headlines(variants, numbers)}\n</section>',
    ]
    return "\n".join(part for part in parts if part)


def _program(what: str, shelf: Shelf, programs: Iterable[str]) -> str:
    said = []
    for program in programs:
        try:
            described = registry.describe(registry.find(shelf, program))
        except ValueError:  # a user's file that is gone
            described = ""
        said.append(
            f"<strong>{escape(name_of(program))}</strong>{': ' + escape(described) if described else ''}"
        )
    return f"<p>{what} {'<br/>'.join(said)}</p>"


def _warnings(variants: Sequence[Variant], numbers: Numbers, problems: Mapping[Path, str]) -> str:
    runs, named = _all_runs(variants), _labels(variants)
    said: dict[str, list[str]] = {}
    for run in runs:
        problem = problems[run.path]
        for sentence in [
            *findings.warnings(run, numbers[run.path]),
            *([f"{problem}."] if problem else []),
        ]:
            said.setdefault(sentence, []).append(named[run.path])
    if not said:
        return ""
    return f'<div class="warnings" role="note"><strong>Before you read on</strong>{_sentences(said, len(runs))}</div>'


def _sentences(said: Mapping[str, Sequence[str]], runs: int) -> str:
    """A list of sentences, each with the names of the runs that it is about unless these
    are all.
    """
    items = []
    for sentence, names in said.items():
        of = "" if len(names) == runs else f" <small>({escape(', '.join(names))})</small>"
        items.append(f"<li>{escape(sentence)}{of}</li>")
    return f"<ul>{''.join(items)}</ul>"


def _fitted(variants: Sequence[Variant], numbers: Numbers) -> str:
    """The runs, what they were trained with, how long, and the few numbers that stand for
    the rest.
    """
    named = _labels(variants)
    settings = [settings_of(variant.first) for variant in variants]
    keys = dict.fromkeys(key for table in settings for key in table)
    different = [key for key in differing(settings) if key != "preset"]
    differences = [(key, [table.get(key) for table in settings]) for key in different]
    several = any(len(variant.runs) > 1 for variant in variants)
    facts: list[tuple[str, list[Any]]] = [
        (
            "runs" if several else "run",
            [", ".join(named[run.path] for run in variant.runs) for variant in variants],
        ),
        ("preset", [table["preset"] for table in settings]),
        (
            "seeds" if several else "seed",
            [_each(variant, lambda run: str(run.seed)) for variant in variants],
        ),
        *(differences if len(differences) <= MOST_DIFFERENCES else []),
        ("updates", [_each(variant, _updates) for variant in variants]),
        ("duration", [_each(variant, _duration) for variant in variants]),
        *_in_short(variants, numbers),
    ]
    heads = [variant.name for variant in variants] if len(variants) > 1 else []
    every = tables.by_variant(
        heads, [(key, [table.get(key) for table in settings]) for key in keys]
    )
    apart = ""
    if len(differences) > MOST_DIFFERENCES:
        shown = tables.by_variant(heads, differences)
        apart = f"<details><summary>The {len(differences)} settings that differ</summary>{shown}</details>\n"
    return (
        f"{tables.by_variant(heads, facts)}\n{apart}"
        f'<details class="long"><summary>All {len(keys)} settings</summary>{every}</details>'
    )


def _each(variant: Variant, fact: Callable[[Run], str]) -> str:
    """A fact of every run of a variant, once where they agree."""
    return ", ".join(dict.fromkeys(fact(run) for run in variant.runs))


def _updates(run: Run) -> str:
    try:
        position, total = run.position
    except ValueError:
        return "none"
    return str(position) if position >= total else f"{position} of {total}"


def _duration(run: Run) -> str:
    seconds = run.environment.get("seconds")
    if not isinstance(seconds, int | float):
        return "unknown"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _headlines(variants: Sequence[Variant], numbers: Numbers) -> str:
    paper = _paper(variants)
    several = any(len(variant.runs) > 1 for variant in variants)
    shown = [
        h
        for h in findings.HEADLINES
        if any(not math.isnan(of_run[h.name]) for of_run in numbers.values())
    ]
    if not shown:
        return '<p class="soft">None yet: the analyses that give them are missing.</p>'
    heads = (
        [variant.name for variant in variants]
        if len(variants) > 1
        else ["mean ± sd" if several else "this run"]
    )
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    if paper is not None:
        top += f'<th class="text">paper, {escape(findings.PAPER_DATA[paper])}</th>'
    rows = []
    for h in shown:
        cells = "".join(_headline(h, variant, numbers, _labels(variants)) for variant in variants)
        if paper is not None:
            cells += f'<td class="text">{escape(h.paper.get(paper, "–"))}</td>'
        name = f'<td class="said">{escape(h.name)}<small>{escape(h.meaning)}</small></td>'
        rows.append(f"<tr>{name}{cells}</tr>")
    table = (
        f'<div class="wide tall"><table><thead><tr><th class="said"></th>{top}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    if not several:
        return table
    runs, named = _all_runs(variants), _labels(variants)
    every = [
        (h.name, [tables.fixed(numbers[run.path][h.name], h.decimals) for run in runs])
        for h in shown
    ]
    of_runs = tables.by_variant([named[run.path] for run in runs], every)
    return f"{table}<details><summary>Every run</summary>{of_runs}</details>"


def _in_short(variants: Sequence[Variant], numbers: Numbers) -> list[tuple[str, list[Any]]]:
    """Rows of the first numbers to look at, with the paper's in brackets."""
    paper = _paper(variants)
    rows: list[tuple[str, list[Any]]] = []
    for h in findings.HEADLINES:
        if h.source not in findings.IN_SHORT or all(
            math.isnan(of_run[h.name]) for of_run in numbers.values()
        ):
            continue
        theirs = f" (paper: {h.paper[paper]})" if paper is not None and paper in h.paper else ""
        said = [_spread(h, variant, numbers) for variant in variants]
        rows.append((h.name, [f"{text}{theirs if len(variants) == 1 else ''}" for text in said]))
    return rows


def _paper(variants: Sequence[Variant]) -> findings.Data | None:
    """The data set of the paper that all variants were trained on, if any."""
    data = {findings.data_of(variant.first) for variant in variants}
    return next(iter(data)) if len(data) == 1 else None


def _spread(headline: findings.Headline, variant: Variant, numbers: Numbers) -> str:
    return tables.spread(
        [numbers[run.path][headline.name] for run in variant.runs], headline.decimals
    )


def _headline(
    headline: findings.Headline, variant: Variant, numbers: Numbers, named: Labels
) -> str:
    values = [numbers[run.path][headline.name] for run in variant.runs]
    said = _spread(headline, variant, numbers)
    total = findings.total_of(headline, variant.first)
    if total is not None and said != "–":
        said += f" of {total:,}"
    title = ""
    if len(values) > 1:
        each = zip(variant.runs, values, strict=True)
        shown = ", ".join(
            f"{named[run.path]}: {tables.fixed(value, headline.decimals)}" for run, value in each
        )
        title = f' title="{escape(shown, quote=True)}"'
    return f"<td{title}>{escape(said)}</td>"


# Analyses.


def _sections(variants: Sequence[Variant], detail: Detail) -> dict[str, list[Part]]:
    names = _names(variants)
    named = {name for members in SECTIONS.values() for name in members}
    sections = {}
    for section, members in SECTIONS.items():
        chosen = (
            [n for n in names if n not in named]
            if section == OTHERS
            else [n for n in members if n in names]
        )
        sections[section] = [_analysis(name, variants, detail) for name in chosen]
    return sections


def _names(variants: Sequence[Variant]) -> list[str]:
    """Analyses that some run has, sorted."""
    folders = [path for run in _all_runs(variants) for path in (run.path / "analyses").glob("*")]
    return sorted(
        {path.name for path in folders if path.is_dir() and not path.name.startswith(".")}
    )


def _folders(variants: Sequence[Variant], name: str) -> dict[Path, Path]:
    """Folder of an analysis by the path of the run, of the runs that have it."""
    folders = {run.path: run.path / "analyses" / name for run in _all_runs(variants)}
    return {path: folder for path, folder in folders.items() if folder.is_dir()}


def _analysis(name: str, variants: Sequence[Variant], detail: Detail) -> Part:
    folders = _folders(variants, name)
    title, captions = _described(next(iter(folders.values())))
    parts = []
    views = {path for path, folder in folders.items() if _view(folder) is not None}
    if views:
        parts.append(
            f'<p class="soft">The <a href="#{_view_anchor(name)}">interactive view</a> stands above.</p>'
        )
    # the animation says what the view says
    found = {
        path: pictures.stems(folder, animations=path not in views)
        for path, folder in folders.items()
    }
    stems = set().union(*found.values())
    for stem in [*(stem for stem in captions if stem in stems), *sorted(stems - captions.keys())]:
        having = {path: folders[path] for path, of_run in found.items() if stem in of_run}
        parts.append(
            _figure(variants, having, stem, captions.get(stem, stem.replace("_", " ")), detail)
        )
    files = sorted({file.name for folder in folders.values() for file in folder.glob("*.csv")})
    for file in sorted(files, key=lambda file: file != "summary.csv"):
        having = {
            path: folder / file for path, folder in folders.items() if (folder / file).is_file()
        }
        parts.append(_numbers(variants, having, file))
    return Part(f"analysis-{_anchor(name)}", title, "\n".join(part for part in parts if part))


def _described(folder: Path) -> tuple[str, dict[str, str]]:
    """TITLE and CAPTIONS of the analysis program that filled a folder; plain names where it is gone
    or broken.

    They are read without importing it where both are plain text: many analyses take long to import.
    """
    title = folder.name.replace("_", " ").capitalize()
    origin = folder / PROGRAM_FILE
    name = origin.read_text(encoding="utf-8") if origin.is_file() else folder.name
    try:
        found = _constants(registry.find("analyses", name))
    except ValueError:
        try:
            found = vars(registry.load("analyses", name))
        except ValueError:
            return title, {}
    return str(found.get("TITLE", title)), dict(found.get("CAPTIONS", {}))


def _constants(file: Path) -> dict[str, Any]:
    """TITLE and CAPTIONS in the text of a program; ValueError where they are not written out."""
    try:
        statements = ast.parse(file.read_text(encoding="utf-8")).body
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{file} cannot be read") from error
    return {
        target.id: ast.literal_eval(statement.value)
        for statement in statements
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and target.id in ("TITLE", "CAPTIONS")
    }


def _having(variants: Sequence[Variant], of: Mapping[Path, object]) -> list[Variant]:
    """The variants some run of which is among those given by their paths."""
    return [variant for variant in variants if any(run.path in of for run in variant.runs)]


def _side_by_side(
    variants: Sequence[Variant],
    having: Sequence[Variant],
    cells: Sequence[str],
    seeds: Sequence[str] = (),
) -> str:
    """A cell for each variant that has something, under its name where there are several, and the
    seed that it is of; and the names of those that have nothing.
    """
    parts = []
    for k, (variant, cell) in enumerate(zip(having, cells, strict=True)):
        of_many = len(variant.runs) > 1 and k < len(seeds) and seeds[k]
        said = ([variant.name] if len(variants) > 1 else []) + ([seeds[k]] if of_many else [])
        title = f"<h4>{escape(', '.join(said))}</h4>" if said else ""
        parts.append(f"<div>{title}{cell}</div>" if len(having) > 1 else title + cell)
    shown = f'<div class="side">{"".join(parts)}</div>' if len(having) > 1 else parts[0]
    nothing = "; ".join(variant.name for variant in variants if variant not in having)
    return shown + (f'<p class="soft">Missing: {escape(nothing)}.</p>' if nothing else "")


def _seed(run: Run, variant: Variant) -> str:
    """Which run of its variant: its seed, and its place where two have the same."""
    if [other.seed for other in variant.runs].count(run.seed) == 1:
        return f"seed {run.seed}"
    return f"seed {run.seed}, {_labels([variant])[run.path]}"


def _view(folder: Path) -> str | None:
    file = folder / viewer.FILE
    if not file.is_file():
        return None
    text = file.read_text(encoding="utf-8")
    return text if viewer.is_view(text) else None


def _first_views(variants: Sequence[Variant]) -> str:
    """The interactive views of all analyses: what a reader sees first."""
    parts = []
    for name in _names(variants):
        folders = _folders(variants, name)
        views = {
            path: text for path, folder in folders.items() if (text := _view(folder)) is not None
        }
        if views:
            _, captions = _described(next(iter(folders.values())))
            html = _views(variants, views, captions.get("view", ""))
            parts.append(f'<section id="{_view_anchor(name)}" class="first">\n{html}\n</section>')
    return "\n".join(parts)


def _view_anchor(name: str) -> str:
    return f"view-{_anchor(name)}"


def _views(variants: Sequence[Variant], views: Mapping[Path, str], caption: str) -> str:
    """An interactive view for each variant: of its first seed that has one."""
    having = _having(variants, views)
    cells, seeds = [], []
    for variant in having:
        run = next(run for run in variant.runs if run.path in views)
        seeds.append(_seed(run, variant))
        data = views[run.path].replace("<", "\\u003c")  # no end of the script inside of a text
        without = "<noscript>This view needs JavaScript; the figure below does not.</noscript>"
        cells.append(
            f'<div class="view"><script type="application/json">{data}</script>{without}</div>'
        )
    shown = _side_by_side(variants, having, cells, seeds)
    return f"<figure>{shown}<figcaption>{escape(caption)}</figcaption></figure>"


def _figure(
    variants: Sequence[Variant],
    folders: Mapping[Path, Path],
    stem: str,
    caption: str,
    detail: Detail,
) -> str:
    """A figure of the first seed of each variant, the other seeds folded away and smaller."""
    cells, seeds, having = [], [], _having(variants, folders)
    for variant in having:
        first, *others = [run for run in variant.runs if run.path in folders]
        seeds.append(_seed(first, variant))
        cell = _image(folders[first.path], stem, detail)
        for run in others:
            image = _image(folders[run.path], stem, detail.coarser(pictures.OTHER_SEEDS))
            cell += f'<details class="long"><summary>{escape(_seed(run, variant))}</summary>{image}</details>'
        cells.append(cell)
    shown = _side_by_side(variants, having, cells, seeds)
    return f"<figure>{shown}<figcaption>{escape(caption)}</figcaption></figure>"


def _image(folder: Path, stem: str, detail: Detail) -> str:
    try:
        source = pictures.data_uri(folder, stem, detail)
    except (OSError, ValueError):
        return f'<p class="soft">{escape(stem)} cannot be read.</p>'
    text = escape(f"{stem.replace('_', ' ')}, described below", quote=True)
    return f'<div class="picture"><img loading="lazy" alt="{text}" src="{source}"/></div>'


def _numbers(variants: Sequence[Variant], files: Mapping[Path, Path], name: str) -> str:
    """The table of a csv file, folded; of a long one that is not the summary, only where it is."""
    rows = max(tables.rows_of(file) or 0 for file in files.values())
    if name != "summary.csv" and rows > tables.LONGEST_TABLE:
        place = escape(f"analyses/{next(iter(files.values())).parent.name}/{name}")
        return f'<p class="soft">More numbers are in <code>{place}</code> ({rows} rows).</p>'
    cells, having = [], _having(variants, files)
    for variant in having:
        runs = [run for run in variant.runs if run.path in files]
        cells.append(
            tables.csv_table(
                [files[run.path] for run in runs], [_seed(run, variant) for run in runs]
            )
        )
    title = "The numbers" if name == "summary.csv" else name
    long = ' class="long"' if rows > SHORT_TABLE else ""
    summary = f"<summary>{escape(title)} ({rows} row{'s' * (rows != 1)})</summary>"
    return f"<details{long}>{summary}{_side_by_side(variants, having, cells)}</details>"


# What is missing, and how to reproduce it.


def _foot(variants: Sequence[Variant]) -> str:
    runs, named = _all_runs(variants), _labels(variants)
    missing: dict[str, list[str]] = {}
    for run in runs:
        for sentence in findings.missing_analyses(
            run, "RUN" if len(runs) > 1 else findings.shown_path(run)
        ):
            missing.setdefault(sentence, []).append(named[run.path])
    said = (
        _sentences(missing, len(runs))
        if missing
        else "<p>Nothing: every analysis on the shelf was made.</p>"
    )
    lines = [
        line for run in runs for line in findings.commands(run)[: None if len(runs) == 1 else 2]
    ]
    if len(runs) > 1:
        lines.append(findings.report_command(runs))
    commands = escape("\n".join(lines))
    machine = [findings.machine(run) for run in runs]
    keys = list(dict.fromkeys(key for of_run in machine for key in of_run))
    same = all(of_run == machine[0] for of_run in machine)
    shown = machine[:1] if same else machine
    facts = [(key, [of_run.get(key) for of_run in shown]) for key in keys]
    table = tables.by_variant([] if len(shown) == 1 else [named[run.path] for run in runs], facts)
    return (
        f'<section id="missing">\n<h2>What is missing</h2>\n{said}\n</section>\n'
        f'<section id="reproduce">\n<h2>How to reproduce this</h2>\n<pre><code>{commands}</code></pre>\n'
        f'<p class="soft">On the CPU, the same versions and the same number of threads give the same run.</p>\n'
        f"<h3>Versions and machine</h3>\n{table}\n</section>"
    )
