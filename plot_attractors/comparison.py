"""Comparison of runs: the settings in which they differ beside the headline numbers of their analyses."""

from __future__ import annotations

import logging
import math
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from rich.table import Table
from rich.text import Text

from . import analysis, shelves
from .runs import Run

__all__ = ["HEADLINES", "compare", "to_markdown", "to_tables"]

logger = logging.getLogger("plot_attractors")

HEADLINES = {
    "information_loss": ("kl", "kl_exact", "p", "p_negative", "kl_held_out", "mean_d", "kl_5T", "mean_d_5T"),
    "calibration": (
        "tv", "tv_floor", "tv_excess", "ess", "slope", "sentences_in_use", "tokens_in_use", "distance", "tv_excess_5T",
    ),
    "perturbation": ("recovery", "recovery_sampled"),
}  # fmt: skip
_NUMBERS = (*(name for names in HEADLINES.values() for name in names), "minutes")
_NEEDED = {
    "information_loss": ("split", "steps", "mean", "p", "kl", "p_negative", "kl_exact"),
    "calibration": ("steps", "statistic", "value", "floor"),
    "perturbation": ("start", "factor", "recovered"),
}
_LONGER = 5  # the length beside T at which information_loss and calibration look
_HALF_WAY = 1.0  # the factor of a perturbation that goes half way to another meaning
_DECIMALS = {"sentences_in_use": 0, "tokens_in_use": 0, "minutes": 1}
_WIDEST_NAME = 24  # characters of a run's name in a terminal, before it goes on in the next line

Row = dict[str, Any]


def compare(paths: str | Path | Iterable[str | Path], analyze: bool = False) -> pd.DataFrame:
    """One row a run, and two more, mean and standard deviation, for every set of runs that differ in the seed only.

    Columns:
        kind: ``run``, ``mean`` or ``sd`` (n − 1 in the denominator); a mean of which a part is missing is missing.
        run: the directory's name, or how many seeds a mean is over.
        program, inference, preset, settings of the model, settings of the inference, seed: those that differ. A
            setting that another program does not have is no difference; its cell is missing (None).
        kl, kl_exact, p, p_negative, mean_d: ``information_loss`` of the training split at T steps, kl in nats, d in
            bits; kl_held_out: its kl for the held-out split; kl_5T, mean_d_5T: those at 5T steps.
        tv, ess, slope, sentences_in_use, tokens_in_use: ``calibration`` of the training split at T steps; tv_floor: the
            noise floor of tv; tv_excess = tv − tv_floor; tv_excess_5T: the same at 5T steps; distance:
            distance_to_embedding at T steps, in units of ε√d by the model's settings epsilon and latent, about 1 for
            exact samples.
        recovery, recovery_sampled: ``perturbation``, the share of states that end within 3 ε√d of an embedding of the
            meaning they started at, perturbed half way to another one (factor 1), for sentences in use equally often,
            and as often as trajectories say them.
        minutes: duration of the training, once it has ended.

    The order of rows is by program, settings and seed, whatever that of `paths`. T is the least number of steps in a
    summary, and 0 for a model without dynamics. Missing numbers are NaN; the logger ``plot_attractors`` warns of each
    run that lacks an analysis that applies to it, and says how to make it.

    Args:
        paths: directories of runs.
        analyze: make the analyses that are missing.

    Raises:
        ValueError: no path, a path that is no run, or a summary that cannot be read.
    """
    given = [paths] if isinstance(paths, str | Path) else paths
    found = list({path.resolve(): Run(path) for path in map(Path, given)}.values())  # each directory once
    if not found:
        raise ValueError("a comparison is of one run at least, and none was given")
    for run in found:
        _complete(run, analyze)
    settings = [_settings(run) for run in found]
    shown = [key for key in _ordered(settings) if _differ(key, settings)]
    labels = _labels(shown)
    names = _short([str(run.path.resolve()) for run in found])
    programs = {key: _short([str(s[key]) for s in settings]) for key in _PROGRAMS}
    rows: list[tuple[Row, tuple[Any, ...]]] = []
    for i, (run, of_run) in enumerate(zip(found, settings, strict=True)):
        cells = {labels[key]: programs[key][i] if key in programs else of_run.get(key) for key in shown}
        everything_else = tuple(sorted((key, repr(value)) for key, value in of_run.items() if key != _SEED))
        row = {"kind": "run", "run": names[i], **cells, **_numbers(run)}
        rank = tuple(_rank(of_run.get(key)) for key in (*_PROGRAMS, _PRESET, *(k for k in shown if k != _SEED)))
        rows.append((row, (rank, everything_else, run.seed, names[i])))
    rows.sort(key=lambda pair: pair[1])
    groups: dict[Any, list[tuple[Row, int]]] = defaultdict(list)
    for row, (_, everything_else, seed, _) in rows:
        groups[everything_else].append((row, seed))
    lines = [line for group in groups.values() for line in _with_mean(group, labels)]
    # Of objects: a whole number must not turn into 2.0 because another run lacks the setting.
    table = pd.DataFrame(lines, columns=["kind", "run", *labels.values(), *_NUMBERS], dtype=object)
    table = table.astype(dict.fromkeys(_NUMBERS, float))
    if _SEED in labels:
        table[labels[_SEED]] = table[labels[_SEED]].astype("Int64")
    return table


# Settings.

Key = tuple[str, str]  # table of config.toml, name
_PROGRAMS: tuple[Key, ...] = (("run", "program"), ("run", "inference"))
_PRESET: Key = ("run", "preset")
_SEED: Key = ("run", "seed")


def _settings(run: Run) -> dict[Key, Any]:
    """Everything that decides what a run learns; how often it is logged does not."""
    settings = {key: run.config["run"][key[1]] for key in (*_PROGRAMS, _PRESET, _SEED)}
    for part in ("model", "inference"):
        settings |= {(part, name): _plain(value) for name, value in run.config[part].items()}
    return settings


def _plain(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _ordered(settings: Sequence[Mapping[Key, Any]]) -> list[Key]:
    keys = {key for of_run in settings for key in of_run}
    fixed = [*_PROGRAMS, _PRESET]
    return [
        *fixed,
        *sorted(key for key in keys if key[0] == "model"),
        *sorted(key for key in keys if key[0] == "inference"),
        _SEED,
    ]


def _differ(key: Key, settings: Sequence[Mapping[Key, Any]]) -> bool:
    """Whether two runs that have a setting differ in it, or only one of two runs of the same program has it."""
    if len({of_run[key] for of_run in settings if key in of_run}) > 1:
        return True
    if key[0] == "run":
        return False
    program = _PROGRAMS[0] if key[0] == "model" else _PROGRAMS[1]
    having = {of_run[program] for of_run in settings if key in of_run}
    return any(of_run[program] in having for of_run in settings if key not in of_run)


def _labels(keys: Sequence[Key]) -> dict[Key, str]:
    """A name of its own for each setting's column."""
    taken = Counter([name for _, name in keys] + ["kind", "run", *_NUMBERS])
    return {(part, name): name if taken[name] == 1 else f"{name} ({part})" for part, name in keys}


def _short(paths: Sequence[str]) -> list[str]:
    """Last parts of paths, without ``.py``; whole paths where two of them share it."""
    by_name = defaultdict(set)
    for path in paths:
        by_name[_stem(path)].add(path)
    return [_stem(path) if len(by_name[_stem(path)]) == 1 else path for path in paths]


def _stem(path: str) -> str:
    return Path(path).name.removesuffix(".py") or path


def _rank(value: Any) -> tuple[int, float, str]:
    """A key that sorts missing values first, then numbers, then text."""
    if value is None:
        return (0, 0.0, "")
    return (1, float(value), "") if isinstance(value, int | float) else (2, 0.0, str(value))


# Numbers.


def _summary(run: Run, name: str) -> Path:
    return run.path / "analyses" / name / "summary.csv"


def _complete(run: Run, analyze: bool) -> None:
    """Make the analyses that a run lacks and that apply to it, or warn of them."""
    missing = [name for name in HEADLINES if not _summary(run, name).is_file() and _applies(run, name)]
    if not missing:
        return
    if not analyze:
        command = shlex.join(["plot-attractors", "analyze", str(run.path), *missing])
        *others, last = missing
        listed = f"{', '.join(others)} and {last}" if others else last
        logger.warning("%s lacks %s: %s", run.path, listed, command)
        return
    logger.info("analysing %s: %s", run.path, ", ".join(missing))
    try:
        results = analysis.analyze(run.path, missing)  # a Run of its own: its model is not kept with all the others
    except ValueError as error:  # not fitted yet
        logger.warning("%s has no analyses: %s", run.path, error)
        return
    for result in results:
        if result.error is not None:
            logger.warning("%s of %s failed: %s", result.name, run.path, " ".join(str(result.error).split()))


def _applies(run: Run, name: str) -> bool:
    """Whether an analysis can be made of a run; also where that is not known, as of one that is not fitted yet."""
    program = shelves.load("analyses", name)
    try:
        with torch.random.fork_rng(devices=[]):
            return not hasattr(program, "applies") or bool(program.applies(run))
    except Exception:  # of a program or a model, of any kind
        return True


def _numbers(run: Run) -> dict[str, float]:
    numbers = dict.fromkeys(_NUMBERS, math.nan)
    loss = _read(run, "information_loss")
    if loss is not None:
        t = loss["steps"].min()
        at = loss.drop_duplicates(["split", "steps"]).set_index(["split", "steps"])
        columns = {"kl": "kl", "kl_exact": "kl_exact", "p": "p", "p_negative": "p_negative", "mean_d": "mean"}
        numbers |= {name: _cell(at, ("train", t), column) for name, column in columns.items()}
        numbers["kl_held_out"] = _cell(at, ("held_out", t), "kl")
        if t:  # not a model without dynamics
            numbers["kl_5T"] = _cell(at, ("train", _LONGER * t), "kl")
            numbers["mean_d_5T"] = _cell(at, ("train", _LONGER * t), "mean")
    law = _read(run, "calibration")
    if law is not None:
        t = law["steps"].min()
        law = law[law["split"] == "train"] if "split" in law else law
        at = law.drop_duplicates(["statistic", "steps"]).set_index(["statistic", "steps"])
        for name in ("tv", "ess", "slope", "sentences_in_use", "tokens_in_use"):
            numbers[name] = _cell(at, (name, t), "value")
        numbers["tv_floor"] = _cell(at, ("tv", t), "floor")
        numbers["tv_excess"] = numbers["tv"] - numbers["tv_floor"]
        numbers["distance"] = _cell(at, ("distance_to_embedding", t), "value") / _noise(run)
        longer = ("tv", _LONGER * t)
        numbers["tv_excess_5T"] = _cell(at, longer, "value") - _cell(at, longer, "floor")
    basins = _read(run, "perturbation")
    if basins is not None:
        at = basins.drop_duplicates(["start", "factor"]).set_index(["start", "factor"])
        numbers["recovery"] = _cell(at, ("used", _HALF_WAY), "recovered")
        numbers["recovery_sampled"] = _cell(at, ("sampled", _HALF_WAY), "recovered")
    if run.environment.get("ended") and isinstance(run.environment.get("seconds"), int | float):
        numbers["minutes"] = run.environment["seconds"] / 60
    return numbers


def _noise(run: Run) -> float:
    """ε√d, about how far exact samples are from their embedding; NaN for a model without these settings."""
    epsilon, latent = (run.config["model"].get(name, "none") for name in ("epsilon", "latent"))
    known = all(isinstance(value, int | float) and value > 0 for value in (epsilon, latent))
    return float(epsilon * math.sqrt(latent)) if known else math.nan


def _read(run: Run, name: str) -> pd.DataFrame | None:
    file = _summary(run, name)
    if not file.is_file():
        return None
    try:
        table = pd.read_csv(file)
    except (ValueError, OSError) as error:
        raise ValueError(f"{file} cannot be read as a table: {error}") from error
    lacking = [column for column in _NEEDED[name] if column not in table]
    if lacking:
        raise ValueError(f"{file} lacks the column {lacking[0]!r}: make the analysis {name} again")
    return table


def _cell(table: pd.DataFrame, row: tuple[str, Any], column: str) -> float:
    if row not in table.index:
        return math.nan
    value: Any = table.loc[row, column]
    return float(value)


def _with_mean(group: Sequence[tuple[Row, int]], labels: Mapping[Key, str]) -> list[Row]:
    rows, seeds = [row for row, _ in group], {seed for _, seed in group}
    if len(seeds) < 2:
        return rows
    count = f"{len(seeds)} seeds" if len(seeds) == len(rows) else f"{len(rows)} runs of {len(seeds)} seeds"
    same = {label: rows[0][label] for key, label in labels.items() if key != _SEED}
    values = pd.DataFrame([{name: row[name] for name in _NUMBERS} for row in rows], dtype=float)
    statistics = {"mean": values.mean(skipna=False), "sd": values.std(skipna=False)}
    return [*rows, *({"kind": kind, "run": count, **same, **s.to_dict()} for kind, s in statistics.items())]


# Text.


def to_markdown(table: pd.DataFrame) -> str:
    """The table of `compare` as Markdown; mean and standard deviation in one row, numbers rounded, missing ones empty.

    >>> print(to_markdown(pd.DataFrame({"kind": ["run"], "run": ["a"], "alpha": [0.25], "kl": [0.12345]})), end="")
    | run | alpha | kl |
    |:----|------:|---:|
    | a | 0.25 | 0.123 |
    """
    head, rows = _texts(table)
    cells = [[cell.replace("|", "\\|") for cell in row] for row in [head, *rows]]
    rule = "|".join([":" + "-" * (len(head[0]) + 1), *("-" * (len(name) + 1) + ":" for name in head[1:])])
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]]) + "\n"


def to_tables(table: pd.DataFrame, width: int) -> list[Table]:
    """The table of `compare` for a terminal: a row a run where that fits, else a column a run, in as many parts as
    fit.

    Args:
        table: what `compare` gives.
        width: characters in a line.
    """
    head, rows = _texts(table)
    means = [run.startswith("mean ± sd") for run, *_ in rows]
    columns = list(zip(head, *rows, strict=True))
    if sum(_room(column) for column in columns) <= width:
        drawn = _draw(head, rows)
        for i, mean in enumerate(means):
            drawn.rows[i].style = "bold" if mean else ""
        return [drawn]
    parts: list[list[int]] = []
    left = 0
    for i, row in enumerate(rows):
        if parts and _room(row) <= left:
            parts[-1].append(i)
        else:
            parts.append([i])
            left = width - _room(head)
        left -= _room(row)
    tables = []
    for part in parts:
        names = [Text(rows[i][0], style="bold" if means[i] else "", overflow="fold") for i in part]
        body = [[name, *(rows[i][k] for i in part)] for k, name in enumerate(head) if k]
        tables.append(_draw([head[0], *names], body))
    return tables


def _draw(head: Sequence[str | Text], body: Iterable[Sequence[str]]) -> Table:
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for i, name in enumerate(head):
        text = Text(name) if isinstance(name, str) else name
        drawn.add_column(text, justify="right" if i else "left", overflow="fold", max_width=_WIDEST_NAME)
    for row in body:
        drawn.add_row(*map(Text, row))
    return drawn


def _room(cells: Iterable[str]) -> int:
    return 2 + min(_WIDEST_NAME, max(map(len, cells)))


def _texts(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Head and rows as text, with every pair of mean and standard deviation made one row."""
    head = [str(name) for name in table.columns if name != "kind"]
    records = table.to_dict("records")
    rows = []
    for i, record in enumerate(records):
        if record["kind"] == "run":
            rows.append([_text(name, record[name]) for name in head])
        elif record["kind"] == "mean":
            rows.append([_text(name, record[name], records[i + 1][name]) for name in head])
    return head, rows


def _text(name: str, value: Any, sd: Any = None) -> str:
    """A cell; `sd` is given in the row of a mean."""
    if name == "run" and sd is not None:
        return f"mean ± sd ({value})"
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if name in _NUMBERS:
        decimals = _DECIMALS.get(name, 3)
        # A count is whole in a run and not on average.
        return f"{value:.{decimals}f}" if sd is None else f"{value:.{max(1, decimals)}f} ± {sd:.{max(1, decimals)}f}"
    return str(value).lower() if isinstance(value, bool) else str(value)
