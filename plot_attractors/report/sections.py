"""The analyses in a report: figures with captions, interactive views, and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from plot_attractors.report import pictures, tables, viewer
from plot_attractors.report.pictures import Detail
from plot_attractors.runs import Run
from plot_attractors.runs.analyze import about
from plot_attractors.runs.variants import Variant, all_runs, labels

__all__ = ["Block", "anchor", "captioned", "first_views", "image", "sections"]

SHORT_TABLE = 20  # rows that are printed

# From the question of the paper to what it was answered with; analyses that are not named stand
# under OTHERS.
OTHERS = "More analyses"
SECTIONS = {
    "Attractor dynamics": "trajectories perturbation neighbours basins",
    "Choices and times": "behaviour continuum people",
    "Emergent language": "sentences image_sentences information_loss "
    "decodability composition language_measures",
    "Diversity": "diversity",
    "Comparison with a Bayesian language of thought": "compare_language_of_thought "
    "compare_table_grammar",
    "Calibration and diagnostics": "calibration diagnostics",
    OTHERS: "",
    "Training": "training",
    "Data": "data",
}

Variants = Sequence[Variant]
Folders = Mapping[Path, Path]  # of an analysis, by the path of the run


class Block(NamedTuple):
    """An analysis in the page."""

    anchor: str
    title: str
    html: str


def anchor(text: str) -> str:
    """The id of an element for a title."""
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())


def sections(variants: Variants, detail: Detail) -> dict[str, list[Block]]:
    """The analyses that some run has, by section."""
    names = _names(variants)
    known = " ".join(SECTIONS.values()).split()
    parts = {}
    for section, members in SECTIONS.items():
        others = [name for name in names if name not in known] if section == OTHERS else []
        chosen = others + [name for name in members.split() if name in names]
        parts[section] = [_analysis(name, variants, detail) for name in chosen]
    return parts


def first_views(variants: Variants) -> str:
    """The interactive views of all analyses: what a reader sees first."""
    parts = []
    for name in _names(variants):
        folders = _folders(variants, name)
        views = {path: text for path, f in folders.items() if (text := _view(f)) is not None}
        if views:
            caption = about(next(iter(folders.values())))[1].get("view", "")
            html = _views(variants, views, caption)
            parts.append(f'<section id="view-{anchor(name)}" class="first">\n{html}\n</section>')
    return "\n".join(parts)


# Of what there is, the first is the one figure that shows what was found.
LEADING = (
    ("sentences", "token_columns"), ("image_sentences", "images"), ("sentences", "sentences"),
    ("information_loss", "information_loss"), ("compare_language_of_thought", "compare"),
    ("compare_table_grammar", "table"), ("decodability", "decodability"),
)  # fmt: skip


def leading_figure(run: Run, detail: Detail) -> str:
    """The one figure that shows what was found, with a link to its analysis; empty for none."""
    for name, stem in LEADING:
        folder = run.path / "analyses" / name
        if folder.is_dir() and stem in pictures.stems(folder):
            try:
                uri = pictures.data_uri(folder, stem, detail)
            except BROKEN:
                continue
            title, captions = about(folder)
            link = f'<a href="#analysis-{anchor(name)}">{escape(title)}</a>'
            return (
                f'<figure><div class="picture"><img src="{uri}" alt="{escape(stem)}"/></div>'
                f"<figcaption>{escape(captions.get(stem, ''))} (Analysis {link}.)</figcaption>"
                "</figure>"
            )
    return ""


def _names(variants: Variants) -> list[str]:
    folders = [path for run in all_runs(variants) for path in (run.path / "analyses").glob("*")]
    return sorted({path.name for path in folders if path.is_dir() and path.name[0] != "."})


def _folders(variants: Variants, name: str) -> dict[Path, Path]:
    folders = {run.path: run.path / "analyses" / name for run in all_runs(variants)}
    return {path: folder for path, folder in folders.items() if folder.is_dir()}


def _analysis(name: str, variants: Variants, detail: Detail) -> Block:
    folders = _folders(variants, name)
    title, captions = about(next(iter(folders.values())))
    parts = []
    if any(_view(folder) is not None for folder in folders.values()):
        link = f'<a href="#view-{anchor(name)}">interactive view</a>'
        parts.append(f'<p class="soft">The {link} stands above.</p>')
    stems_of_runs = {path: pictures.stems(folder) for path, folder in folders.items()}
    stems = set().union(*stems_of_runs.values())
    for stem in [*(stem for stem in captions if stem in stems), *sorted(stems - captions.keys())]:
        having = {path: folders[path] for path, own in stems_of_runs.items() if stem in own}
        caption = captions.get(stem, stem.replace("_", " "))
        parts.append(_figure(variants, having, stem, caption, detail))
    files = {file.name for folder in folders.values() for file in folder.glob("*.csv")}
    for file in sorted(files, key=lambda file: (file != "summary.csv", file)):
        paths = {path: folder / file for path, folder in folders.items()}
        having = {path: where for path, where in paths.items() if where.is_file()}
        parts.append(_table(variants, having, file))
    return Block(f"analysis-{anchor(name)}", title, "\n".join(parts))


def _having(variants: Variants, paths: Mapping[Path, object]) -> list[tuple[Variant, list[Run]]]:
    """The variants some run of which is among those given by their paths, with these runs."""
    pairs = [(v, [run for run in v.runs if run.path in paths]) for v in variants]
    return [(variant, runs) for variant, runs in pairs if runs]


def _side_by_side(variants: Variants, cells: Sequence[tuple[Variant, str, str]]) -> str:
    """A cell for each variant that has something, under its name and seed, and who has nothing."""
    parts = []
    for variant, seed, cell in cells:
        names = [variant.name] * (len(variants) > 1) + [seed] * (len(variant.runs) > 1)
        title = escape(", ".join(filter(None, names)))
        parts.append((f"<h4>{title}</h4>" if title else "") + cell)
    if len(parts) > 1:
        divided = "".join(f"<div>{part}</div>" for part in parts)
        parts = [f'<div class="side">{divided}</div>']
    shown = [variant for variant, _, _ in cells]
    missing = "; ".join(variant.name for variant in variants if variant not in shown)
    return parts[0] + (f'<p class="soft">Missing: {escape(missing)}.</p>' if missing else "")


def _seed(run: Run, variant: Variant) -> str:
    """Which run of its variant: its seed, and its place where two have the same."""
    if [other.seed for other in variant.runs].count(run.seed) == 1:
        return f"seed {run.seed}"
    return f"seed {run.seed}, {labels(variant.runs)[run.path]}"


def _view(folder: Path) -> str | None:
    file = folder / viewer.FILE
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    return text if viewer.is_view(text) else None


def _views(variants: Variants, views: Mapping[Path, str], caption: str) -> str:
    """An interactive view for each variant: of its first seed that has one."""
    cells = []
    for variant, (run, *_) in _having(variants, views):
        data = views[run.path].replace("<", "\\u003c")  # no end of the script inside of a text
        cell = (
            f'<div class="view"><script type="application/json">{data}</script><noscript>This view '
            "needs JavaScript; the figure below does not.</noscript></div>"
        )
        cells.append((variant, _seed(run, variant), cell))
    return captioned(_side_by_side(variants, cells), caption)


def captioned(html: str, caption: str) -> str:
    """A figure that holds HTML, with its caption below."""
    return f"<figure>{html}<figcaption>{escape(caption)}</figcaption></figure>"


def _figure(variants: Variants, folders: Folders, stem: str, caption: str, detail: Detail) -> str:
    """A figure of the first seed of each variant, the other seeds folded away and smaller."""
    cells = []
    for variant, (first, *others) in _having(variants, folders):
        cell = image(folders[first.path], stem, detail)
        for run in others:
            other = image(folders[run.path], stem, detail.coarser(pictures.OTHER_SEEDS))
            summary = f"<summary>{escape(_seed(run, variant))}</summary>"
            cell += f'<details class="long">{summary}{other}</details>'
        cells.append((variant, _seed(first, variant), cell))
    return captioned(_side_by_side(variants, cells), caption)


BROKEN = OSError, ValueError, SyntaxError  # what Pillow makes of a broken picture


def image(folder: Path, stem: str, detail: Detail) -> str:
    """A figure in the folder of an analysis."""
    try:
        source = pictures.data_uri(folder, stem, detail)
    except BROKEN:
        return f'<p class="soft">{escape(stem)} cannot be read.</p>'
    text = escape(f"{stem.replace('_', ' ')}, described below", quote=True)
    return f'<div class="picture"><img loading="lazy" alt="{text}" src="{source}"/></div>'


def _table(variants: Variants, files: Folders, name: str) -> str:
    """The table of a CSV file, folded; of a long one that is not the summary, only where it is."""
    rows = max(tables.rows_of(file) for file in files.values())
    if name != "summary.csv" and rows > tables.LONGEST_TABLE:
        place = escape(f"analyses/{next(iter(files.values())).parent.name}/{name}")
        return f'<p class="soft">More numbers are in <code>{place}</code> ({rows} rows).</p>'
    cells = []
    for variant, runs in _having(variants, files):
        names = [_seed(run, variant) for run in runs]
        cells.append((variant, "", tables.csv_table([files[run.path] for run in runs], names)))
    title = "The numbers" if name == "summary.csv" else name
    long = ' class="long"' if rows > SHORT_TABLE else ""
    summary = f"<summary>{escape(title)} ({rows} row{'s' * (rows != 1)})</summary>"
    return f"<details{long}>{summary}{_side_by_side(variants, cells)}</details>"
