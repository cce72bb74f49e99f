"""Comparison of runs: the settings in which they differ beside the metrics of their analyses."""

from __future__ import annotations

import logging
import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd

from plot_attractors.measures.registry import METRICS, RUN_METRICS
from plot_attractors.runs import Run, pretrained, registry, trust
from plot_attractors.runs import analyze as analysis
from plot_attractors.runs.numbers import feature_metrics, kept, minutes, numbers, table_file
from plot_attractors.runs.settings import as_text
from plot_attractors.runs.variants import ends, settings_of

__all__ = ["TOPICS", "Topic", "compare", "to_markdown", "to_text"]

logger = logging.getLogger("plot_attractors")

Topic = Literal["dynamics", "language", "features"]
TOPICS: tuple[Topic, ...] = get_args(Topic)

Row = dict[str, Any]
_PROGRAMS = "data", "program", "inference"


def compare(
    paths: str | Path | Iterable[str | Path], analyze: bool = False, topic: Topic = "dynamics"
) -> pd.DataFrame:
    """One row a run, and two more, mean and standard deviation, for every set of runs that differ
    in the seed only.

    Columns:
        kind: ``run``, ``mean`` or ``sd`` (n − 1 in the denominator); a mean of which a part is
            missing is missing.
        run: the directory's name, or how many seeds a mean is over.
        data, program, inference, preset, settings of the data, the model and the inference by
            dotted names, seed: those that differ. A setting that another program does not have is
            no difference; its cell is missing (None).
        the metrics of the topic: `METRICS` (``docs/metrics.md``); for ``features`` a column for
            each feature, such as ``colour`` and, of a held-out split, ``colour (position)``.
        minutes: duration of the training, once it has ended.
        trusted: of the topic ``dynamics``, whether a run passes `trust.doubts`; empty where its
            total variation is not known, and of means; none where no run's is.

    The order of rows is by program, settings and seed, whatever that of `paths`. Missing numbers
    are NaN; the logger ``plot_attractors`` warns of each run that lacks an analysis that applies to
    it, and gives the command that makes it.

    With `analyze`, analyses that are missing are made. Raises ValueError for no path, a path that
    is no run, a table that cannot be read, or an unknown topic.
    """
    if topic not in TOPICS:
        raise ValueError(
            f"the topic of a comparison is {', '.join(TOPICS[:-1])} or {TOPICS[-1]}, not {topic!r}"
        )
    given = [paths] if isinstance(paths, str | Path) else paths
    opened = (Run(pretrained.writable(run.path)) if analyze else run for run in map(Run, given))
    runs = list({run.path.resolve(): run for run in opened}.values())
    if not runs:
        raise ValueError("a comparison is of one run at least, and none was given")
    metrics = {name: m for name, m in METRICS.items() if m.topic == topic}
    needed = dict.fromkeys(m.analysis for m in metrics.values()) or {"decodability": None}
    for run in runs:
        _complete(run, analyze, [name for name in needed if name != RUN_METRICS])
    if topic == "features":
        metrics = {name: m for run in runs for name, m in feature_metrics(run).items()}
    columns = (*metrics, "minutes")
    settings = [_settings(run) for run in runs]
    shown = [key for key in _ordered(settings) if _differ(key, settings)]
    labels = {key: f"{key} (setting)" if key in ("run", *columns) else key for key in shown}
    names = ends(run.path for run in runs)
    programs = ends(Path(own[key].removesuffix(".py")) for own in settings for key in _PROGRAMS)
    rows: list[tuple[Row, tuple[Any, ...]]] = []
    for run, own in zip(runs, settings, strict=True):
        texts = {labels[key]: own.get(key) for key in shown}
        short = {key: programs[Path(own[key].removesuffix(".py"))] for key in _PROGRAMS}
        texts |= {labels[key]: text for key, text in short.items() if key in shown}
        rest = tuple(sorted((key, repr(value)) for key, value in own.items() if key != "seed"))
        rank = [_rank(own.get(k)) for k in (*_PROGRAMS, "preset", *shown) if k != "seed"]
        found = numbers(run, metrics)
        row = {"kind": "run", "run": names[run.path], **texts, **found, "minutes": minutes(run)}
        if topic == "dynamics":
            passes = trust.trusted(found)
            row["trusted"] = "" if passes is None else "yes" if passes else "no"
        rows.append((row, (rank, rest, run.seed, row["run"])))
    groups: dict[Any, list[tuple[Row, int]]] = defaultdict(list)
    for row, (_, rest, seed, _) in sorted(rows, key=lambda pair: pair[1]):
        groups[rest].append((row, seed))
    lines = [line for group in groups.values() for line in _with_mean(group, labels, columns)]
    # of objects: a whole number must not turn into 2.0 because another run lacks the setting
    judged = ["trusted"] * any(line.get("trusted") for line in lines)
    head = ["kind", "run", *labels.values(), *columns, *judged]
    table = pd.DataFrame(lines, columns=head, dtype=object)
    table = table.astype(dict.fromkeys(columns, float))
    if "seed" in labels:
        table["seed"] = table["seed"].astype("Int64")
    table.attrs["numbers"] = columns  # not settings, which are shown as they are
    return table


# Settings.


def _settings(run: Run) -> dict[str, Any]:
    """Everything that decides what a run learns, by dotted names, and its seed."""
    settings = {
        name: as_text(value) if isinstance(value, list) else value
        for name, value in settings_of(run).items()
    }
    return {**settings, **{key: run.config["run"][key] for key in (*_PROGRAMS, "seed")}}


def _ordered(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of settings, in an order that does not depend on that of the runs."""
    by_program = sorted(settings, key=lambda own: [*(own[key] for key in _PROGRAMS), *own])
    names = dict.fromkeys(name for own in by_program for name in own)
    return [*(name for name in names if name != "seed"), "seed"]


def _differ(key: str, settings: Sequence[Mapping[str, Any]]) -> bool:
    """Whether runs differ in a setting, or only one of two runs of the same programs has it."""
    having = [own for own in settings if key in own]
    programs = [[own[name] for name in _PROGRAMS] for own in having]
    lacking = [own for own in settings if key not in own]
    return len({own[key] for own in having}) > 1 or any(
        [own[name] for name in _PROGRAMS] in programs for own in lacking
    )


def _rank(value: Any) -> tuple[int, float, str]:
    """A key that sorts missing values first, then numbers, then text."""
    if value is None:
        return (0, 0.0, "")
    return (1, float(value), "") if isinstance(value, int | float) else (2, 0.0, str(value))


# Numbers.


def _complete(run: Run, analyze: bool, needed: Sequence[str]) -> None:
    """Make the analyses that a run lacks and that apply to it, or warn of them."""
    # an analysis without a summary may still have been made: of some models it has none
    known = {METRICS[name].analysis for name in kept(run) if name in METRICS}
    missing = [n for n in needed if n not in known and not table_file(run, n).parent.is_dir()]
    missing = [n for n in missing if _applies(run, n)]
    if not missing:
        return
    shown = pretrained.shown(run.path)
    if not analyze:
        command = shlex.join(["plot-attractors", "analyze", shown, *missing])
        listed = " and ".join(filter(None, (", ".join(missing[:-1]), missing[-1])))
        logger.warning("%s lacks %s: %s", shown, listed, command)
        return
    logger.info("analysing %s: %s", run.path, ", ".join(missing))
    try:
        # a Run of its own: its model is not kept with all the others
        results = analysis.analyze(run.path, missing)
    except ValueError as error:  # not fitted yet
        logger.warning("%s has no analyses: %s", run.path, error)
        return
    for result in results:
        if result.error is not None:
            sentence = " ".join(str(result.error).split())
            logger.warning("%s of %s failed: %s", result.name, run.path, sentence)


def _applies(run: Run, name: str) -> bool:
    """Whether an analysis can be made of a run; True where that is not known."""
    program = registry.load("analyses", name)
    try:
        return analysis.applies(program, run)
    except Exception:  # of a program or a model, of any kind
        return True


def _with_mean(
    group: Sequence[tuple[Row, int]], labels: Mapping[str, str], numbers: Sequence[str]
) -> list[Row]:
    rows, seeds = [row for row, _ in group], {seed for _, seed in group}
    if len(seeds) < 2:
        return rows
    count = f"{len(seeds)} seeds"
    if len(seeds) < len(rows):
        count = f"{len(rows)} runs of {count}"
    same = {label: rows[0][label] for key, label in labels.items() if key != "seed"}
    values = pd.DataFrame([{name: row[name] for name in numbers} for row in rows], dtype=float)
    # the spread of numbers that are all −∞ is not known
    finite = values.where(~values.isin([math.inf, -math.inf]))
    statistics = {"mean": values.mean(skipna=False), "sd": finite.std(skipna=False)}
    more = [{"kind": k, "run": count, **same, **s.to_dict()} for k, s in statistics.items()]
    return [*rows, *more]


# Text.


def to_markdown(table: pd.DataFrame) -> str:
    """The table of `compare` as Markdown; mean and standard deviation in one row, numbers rounded,
    missing ones empty, and those that no run has left out.

    >>> print(to_markdown(pd.DataFrame({"kind": ["run"], "run": ["a"], "alpha": [0.25], "kl": [0.12345]})), end="")
    | run | alpha | kl |
    |:----|------:|---:|
    | a | 0.25 | 0.123 |
    """  # noqa: E501
    head, *rows = [[cell.replace("|", "\\|") for cell in row] for row in _texts(table)]
    rule = [":" + "-" * (len(head[0]) + 1), *("-" * (len(name) + 1) + ":" for name in head[1:])]
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(rule)}|", *lines[1:]]) + "\n"


def to_text(table: pd.DataFrame, width: int) -> str:
    """The table of `compare` for a terminal of that width: a column a run, in as many parts as fit.

    Numbers that no run has are left out.
    """
    head, *rows = _texts(table)
    turned = pd.DataFrame(rows, columns=pd.Index(head)).set_index("run").T
    return turned.to_string(line_width=width)


def _texts(table: pd.DataFrame) -> list[list[str]]:
    """Head and rows as text, with every pair of mean and standard deviation made one row."""
    numbers = {*METRICS, "minutes", *table.attrs.get("numbers", ())}
    unknown = {name for name in numbers.intersection(table.columns) if table[name].isna().all()}
    head = [str(name) for name in table.columns if name != "kind" and name not in unknown]
    records, rows = table.to_dict("records"), [head]
    for record, below in zip(records, [*records[1:], {}], strict=True):
        if record["kind"] != "sd":
            sd = below if record["kind"] == "mean" else {}
            rows.append([_text(n, record[n], n in numbers, sd.get(n)) for n in head])
    return rows


def _text(name: str, value: Any, number: bool, sd: Any) -> str:
    """A cell; `sd` is given in the row of a mean."""
    if name == "run" and sd is not None:
        return f"mean ± sd ({value})"
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not number:
        return str(value).lower() if isinstance(value, bool) else str(value)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    form = METRICS[name].format if name in METRICS else ".1f" if name == "minutes" else ".3f"
    if sd is None:
        return f"{value:{form}}"
    form = ".1f" if form == ".0f" else form  # a count is whole in a run and not on average
    return f"{value:{form}} ± {sd:{form}}"
