"""A report of runs: one HTML file that needs nothing else, with settings, tables and figures."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from . import shelves
from .runs import PROGRAM_FILE, Run
from .shelves import Shelf

__all__ = ["report"]

_MEDIA = {".svg": "image/svg+xml", ".png": "image/png", ".gif": "image/gif"}
_LARGEST_SVG = 600_000  # bytes; a drawing of many points is smaller as pixels
_LONGEST_TABLE = 60  # rows

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1d22; --soft: #5d6470; --line: #d9dce2; --page: #ffffff; --band: #f5f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e7e9ee; --soft: #a2a9b6; --line: #3a3f4a; --page: #16181d; --band: #1f2229; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem; color: var(--ink); background: var(--page);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; }
h3 { margin-top: 2.2rem; } p.soft, figcaption, .soft { color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; margin: .8rem 0; }
th, td { text-align: right; padding: .25rem .7rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } th { color: var(--soft); font-weight: 600; }
td.text { text-align: left; }
figure { margin: 1.2rem 0 2rem; } figcaption { font-size: .92rem; margin-top: .5rem; max-width: 46rem; }
figure img { display: block; max-width: 100%; height: auto; background: #ffffff; border-radius: 6px; padding: 4px; }
details { background: var(--band); border-radius: 6px; padding: .5rem .9rem; margin: .8rem 0; }
summary { cursor: pointer; } code { font-size: .9em; }
""".strip()

# Pictures that make a stranger curious come first.
_FIRST = ("trajectories", "sentences", "information_loss", "calibration", "perturbation", "training", "data")


def report(run_paths: str | Path | Iterable[str | Path], out: str | Path | None = None) -> Path:
    """Write one self-contained HTML file about one run or several, and return its path.

    For each run: what was fitted and how, and of each analysis its ``summary.csv`` as a table and every figure, with
    the caption that the analysis program's ``CAPTIONS`` gives for the figure's name.

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
    title = f"{_name(runs[0].program_name)}: a run" if len(runs) == 1 else f"{len(runs)} runs"
    body = "\n".join(_run(run, alone=len(runs) == 1) for run in runs)
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page, encoding="utf-8")
    return out


def _run(run: Run, alone: bool) -> str:
    parts = [] if alone else [f"<h2>{escape(run.path.name)}</h2>"]
    parts.append(_program("Model", "models", run.program_name))
    parts.append(_program("Inference", "inference", run.inference_name))
    parts.append(_facts(run))
    settings = {**run.config["model"], **run.config["inference"]}
    parts.append(f"<details><summary>All {len(settings)} settings</summary>{_pairs(settings)}</details>")
    folders = [path for path in (run.path / "analyses").glob("*") if path.is_dir() and path.name[0] != "."]
    folders.sort(key=lambda path: (_FIRST.index(path.name) if path.name in _FIRST else len(_FIRST), path.name))
    if not folders:
        parts.append('<p class="soft">No analyses yet.</p>')
    parts.extend(_analysis(folder) for folder in folders)
    return "\n".join(parts)


def _name(program: str) -> str:
    return Path(program).stem if program.endswith(".py") else program


def _program(what: str, shelf: Shelf, program: str) -> str:
    try:
        described = shelves.describe(shelves.find(shelf, program))
    except ValueError:  # a user's file that is gone
        described = ""
    return f"<p>{what} <strong>{escape(_name(program))}</strong>{': ' + escape(described) if described else ''}</p>"


def _facts(run: Run) -> str:
    environment = run.environment
    metrics = run.metrics()
    facts: dict[str, Any] = {"preset": run.preset, "seed": run.seed}
    if not metrics.empty:
        facts["updates"] = int(metrics["step"].iloc[-1])
        facts["seconds"] = round(float(metrics["seconds"].iloc[-1]), 1)
    facts |= {key: environment.get(key) for key in ("started", "ended", "device", "threads", "commit")}
    if environment.get("dirty"):
        facts["commit"] = f"{facts['commit']}, with changes"
    facts |= {key: value for key, value in environment.get("versions", {}).items() if key in ("torch", "pyro-ppl")}
    return _pairs({key: value for key, value in facts.items() if value is not None})


def _pairs(pairs: Mapping[str, Any]) -> str:
    row = '<tr><td>{}</td><td class="text">{}</td></tr>'
    rows = "".join(row.format(escape(key), escape(_text(value))) for key, value in pairs.items())
    return f'<div class="wide"><table>{rows}</table></div>'


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _analysis(folder: Path) -> str:
    title, captions = _labels(folder)
    parts = [f"<h3>{escape(title)}</h3>"]
    stems = {path.stem for path in folder.iterdir() if path.suffix in _MEDIA}
    ordered = [stem for stem in captions if stem in stems] + sorted(stems - captions.keys())
    parts.extend(_figure(folder, stem, captions.get(stem, "")) for stem in ordered)
    if (folder / "summary.csv").is_file():
        parts.append(f"<details><summary>The numbers</summary>{_table(folder / 'summary.csv')}</details>")
    return "\n".join(parts)


def _labels(folder: Path) -> tuple[str, dict[str, str]]:
    """TITLE and CAPTIONS of the analysis program that filled a folder; plain names where it is gone or broken."""
    title = folder.name.replace("_", " ").capitalize()
    origin = folder / PROGRAM_FILE
    try:
        program = shelves.load("analyses", origin.read_text(encoding="utf-8") if origin.is_file() else folder.name)
    except ValueError:
        return title, {}
    return str(getattr(program, "TITLE", title)), dict(getattr(program, "CAPTIONS", {}))


def _table(file: Path) -> str:
    try:
        table = pd.read_csv(file)
    except (ValueError, OSError):
        return f'<p class="soft">{escape(file.name)} cannot be read.</p>'
    head = "".join(f"<th>{escape(str(column))}</th>" for column in table.columns)
    rows: Sequence[str] = [
        "<tr>" + "".join(_cell(value) for value in row) + "</tr>"
        for row in table.head(_LONGEST_TABLE).itertuples(index=False, name=None)
    ]
    more = len(table) - len(rows)
    note = f'<p class="soft">{more} more rows are in {escape(file.name)}.</p>' if more > 0 else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>{note}'


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return f'<td class="text">{escape(value)}</td>'
    if pd.isna(value):
        return "<td>–</td>"
    return f"<td>{escape(_text(float(value)) if isinstance(value, float) else str(value))}</td>"


def _figure(folder: Path, stem: str, caption: str) -> str:
    files = {path.suffix: path for path in folder.glob(f"{stem}.*") if path.suffix in _MEDIA}
    svg = files.get(".svg")
    if ".gif" in files:
        chosen = files[".gif"]
    elif svg is not None and (".png" not in files or svg.stat().st_size <= _LARGEST_SVG):
        chosen = svg
    else:
        chosen = files[".png"]
    encoded = base64.b64encode(chosen.read_bytes()).decode()
    label = caption or stem.replace("_", " ")
    source = f"data:{_MEDIA[chosen.suffix]};base64,{encoded}"
    return (
        f'<figure><img loading="lazy" alt="{escape(label, quote=True)}" src="{source}">'
        f"<figcaption>{escape(caption or label)}</figcaption></figure>"
    )
