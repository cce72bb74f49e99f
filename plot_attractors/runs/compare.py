"""Comparison of runs: the settings in which they differ beside the headline numbers of their
analyses.
"""

from __future__ import annotations

import logging
import math
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd
from rich.table import Table
from rich.text import Text

from plot_attractors.runs import analyze as analysis, registry
from plot_attractors.runs import Run

__all__ = ["HEADLINES", "TOPICS", "Cell", "Topic", "compare", "numbers", "to_markdown", "to_tables"]

logger = logging.getLogger("plot_attractors")

_LONGER = 5  # the length beside T at which information_loss and calibration look
_HALF_WAY = 1.0  # the factor of a perturbation that goes half way to another meaning

Topic = Literal["dynamics", "language", "features"]


class Cell(NamedTuple):
    """A headline number: a cell of a table of an analysis, or the last one in ``metrics.csv``
    (`METRICS`).

    - ``column``: of the number, and of the number that is taken off it, if any (``value-floor``);
    - ``where``: values of other columns in its row, the first of these rows; ``split`` is passed
      over where a table has no such column, and `HELD_OUT` stands for the mean over all splits
      beside training; of a table of features, the mean over decoders of the row that is the mean of
      a tree's levels, or over all features where there is none;
    - ``times``: at how many times the shortest length in the table, of those in its column
    ``steps``;
    - ``table``: the name of the table without ``.csv``.
    """

    analysis: str
    column: str
    where: Mapping[str, Any]
    times: int = 0
    table: str = "summary"


METRICS = "metrics"
HELD_OUT = "all beside train"  # in the place of a split: the mean over every one beside training


def _law(column: str, times: int = 1, split: str = "train") -> Cell:
    return Cell("information_loss", column, {"split": split}, times)


def _calibration(statistic: str, column: str = "value", times: int = 1) -> Cell:
    return Cell("calibration", column, {"statistic": statistic, "split": "train"}, times)


def _recovery(start: str) -> Cell:
    return Cell("perturbation", "recovered", {"start": start, "factor": _HALF_WAY})


def _similarity(measure: str) -> Cell:
    return Cell("similarity", "value", {"measure": measure, "split": "train"})


def _diversity(column: str, split: str) -> Cell:
    return Cell("diversity", column, {"samples": "model", "split": split})


def _diversity_of_16(column: str) -> Cell:
    where = {
        "samples": "model",
        "split": "train",
        "n": 16,
        "k": 10,
        "temperature": 1,
        "points": "probabilities",
    }
    return Cell("diversity", column, where, table="dependence")


def _decodability(split: str) -> Cell:
    return Cell(
        "decodability", "value", {"split": split, "source": "sentence", "kind": "categorical"}
    )


def _composition(source: str, split: str) -> Cell:
    return Cell("composition", "value", {"split": split, "source": source, "kind": "categorical"})


HEADLINES: Mapping[str, Mapping[str, Cell]] = {
    "dynamics": {
        "kl": _law("kl"),
        "kl_exact": _law("kl_exact"),
        "p": _law("p"),
        "p_negative": _law("p_negative"),
        "kl_held_out": _law("kl", split=HELD_OUT),
        "p_held_out": _law("p", split=HELD_OUT),
        "mean_d": _law("mean"),
        "kl_5T": _law("kl", _LONGER),
        "mean_d_5T": _law("mean", _LONGER),
        "tv": _calibration("tv"),
        "tv_floor": _calibration("tv", "floor"),
        "tv_excess": _calibration("tv", "value-floor"),
        "ess": _calibration("ess"),
        "slope": _calibration("slope"),
        "sentences_in_use": _calibration("sentences_in_use"),
        "tokens_in_use": _calibration("tokens_in_use"),
        "distance": _calibration("distance_to_embedding"),
        "tv_excess_5T": _calibration("tv", "value-floor", _LONGER),
        "recovery": _recovery("used"),
        "recovery_sampled": _recovery("sampled"),
    },
    "language": {
        "accuracy": _decodability("train"),
        "accuracy_held_out": _decodability(HELD_OUT),
        "composed": _composition("composed", "train"),
        "composed_held_out": _composition("composed", HELD_OUT),
        "shuffled": _composition("shuffled", "train"),
        "topographic_similarity": _similarity("topographic_similarity"),
        "posdis": _similarity("posdis"),
        "bosdis": _similarity("bosdis"),
        "context_independence": _similarity("context_independence"),
        "mutual_information": _similarity("mutual_information"),
        "tree_reconstruction_error": _similarity("tree_reconstruction_error"),
        "diversity": _diversity("mean", "train"),
        "diversity_sigma": _diversity("sigma", "train"),
        "diversity_held_out": _diversity("mean", HELD_OUT),
        "diversity_16": _diversity_of_16("mean"),
        "diversity_16_sigma": _diversity_of_16("sigma"),
        "receiver_accuracy": Cell(METRICS, "receiver_accuracy_train", {}),
        "receiver_accuracy_held_out": Cell(METRICS, "receiver_accuracy_held_out", {}),
    },
}
TOPICS: tuple[Topic, ...] = get_args(Topic)
_ALL = {name: cell for cells in HEADLINES.values() for name, cell in cells.items()}
_DECIMALS = {
    **dict.fromkeys(("diversity", "diversity_held_out", "diversity_16", "minutes"), 1),
    **dict.fromkeys(("sentences_in_use", "tokens_in_use"), 0),
}
_WIDEST_NAME = 24  # characters of a run's name in a terminal, before it goes on in the next line

Row = dict[str, Any]


def _feature_cells(runs: Sequence[Run]) -> dict[str, Cell]:
    """Of what is known of every feature from sentences, split by split: ``colour``, ``colour
    (position)``.
    """
    cells: dict[str, Cell] = {}
    for run in runs:
        table = _read(run, "decodability")
        for split, feature in (
            [] if table is None else table[["split", "feature"]].drop_duplicates().to_numpy()
        ):
            if not feature.startswith("mean of "):
                where = {"split": split, "source": "sentence", "feature": feature}
                cells[feature if split == "train" else f"{feature} ({split})"] = Cell(
                    "decodability", "value", where
                )
    return cells


def compare(
    paths: str | Path | Iterable[str | Path], analyze: bool = False, topic: Topic = "dynamics"
) -> pd.DataFrame:
    """One row a run, and two more, mean and standard deviation, for every set of runs that differ
    in the seed only.

    Columns:
        kind: ``run``, ``mean`` or ``sd`` (n − 1 in the denominator); a mean of which a part is
        missing is missing.
        run: the directory's name, or how many seeds a mean is over.
        program, inference, preset, settings of the model, settings of the inference, seed: those
            that differ. A setting that another program does not have is no difference; its cell is
            missing (None).
        minutes: duration of the training, once it has ended.

    and, for the topic ``dynamics``:
        kl, kl_exact, p, p_negative, mean_d: ``information_loss`` of the training split at T steps,
            kl in nats, d in bits; kl_held_out, p_held_out: the same of held-out classes; kl_5T,
            mean_d_5T: those at 5T steps.
        tv, ess, slope, sentences_in_use, tokens_in_use: ``calibration`` of the training split at T
            steps; tv_floor: the noise floor of tv; tv_excess = tv − tv_floor; tv_excess_5T: the
            same at 5T steps; distance: distance_to_embedding at T steps, in units of ε√d by the
            model's settings epsilon and latent, about 1 for exact samples.
        recovery, recovery_sampled: ``perturbation``, the share of states that end within 3 ε√d of
            an embedding of the meaning they started at, perturbed half way to another one (factor
            1), for sentences in use equally often, and as often as trajectories say them; of listed
            sentences that decode to bits only.

    for the topic ``language``:
        accuracy, accuracy_held_out: ``decodability``, of features decoded from sentences, mean over
            the first four levels of a tree and both decoders.
        composed, composed_held_out: ``composition``, of sentences composed feature by feature;
            shuffled: the same of a language whose sentences are shuffled over meanings.
        topographic_similarity, posdis, bosdis, context_independence, mutual_information,
        tree_reconstruction_error:
            ``similarity`` of the training split.
        diversity, diversity_sigma, diversity_held_out: ``diversity``, nats, in the paper's
            dimensions, by 256 descriptions and the nearest of them (k = 1); −∞ for a model that
            says one thing of an input. diversity_16, diversity_16_sigma: of the training split by
            16 and k = 10; the paper tells neither.
        receiver_accuracy, receiver_accuracy_held_out: of emergent communication, at the end of the
            training; targets of held-out classes have distractors of these classes only.

    for the topic ``features``:
        a column for each feature, such as ``colour``, and one for each split beside training, such
        as ``colour (position)``: ``decodability`` from sentences, mean over both decoders; of a
        categorical feature the accuracy, of a continuous one the root mean squared error in the
        feature's units.

    A number that ends in ``_held_out`` is the mean over all splits beside training. The order of
    rows is by program, settings and seed, whatever that of `paths`. T is the least number of steps
    in a summary, and 0 for a model without dynamics. Missing numbers are NaN; the logger
    ``plot_attractors`` warns of each run that lacks an analysis that applies to it, and says how to
    make it.

    Args:
        paths: directories of runs.
        analyze: make the analyses that are missing.
        topic: which numbers.

    Raises:
        ValueError: no path, a path that is no run, a summary that cannot be read, or an unknown
        topic.
    """
    if topic not in TOPICS:
        raise ValueError(
            f"the topic of a comparison is {', '.join(TOPICS[:-1])} or {TOPICS[-1]}, not {topic!r}"
        )
    given = [paths] if isinstance(paths, str | Path) else paths
    # each directory once
    found = list({path.resolve(): Run(path) for path in map(Path, given)}.values())
    if not found:
        raise ValueError("a comparison is of one run at least, and none was given")
    analyses = [
        cell.analysis for cell in HEADLINES.get(topic, {"": _decodability("train")}).values()
    ]
    needed = [name for name in dict.fromkeys(analyses) if name != METRICS]
    for run in found:
        _complete(run, analyze, needed)
    cells = HEADLINES[topic] if topic in HEADLINES else _feature_cells(found)
    shown_numbers = (*cells, "minutes")
    settings = [_settings(run) for run in found]
    shown = [key for key in _ordered(settings) if _differ(key, settings)]
    labels = _labels(shown, shown_numbers)
    names = _short([str(run.path.resolve()) for run in found])
    programs = {key: _short([str(s[key]) for s in settings]) for key in _PROGRAMS}
    rows: list[tuple[Row, tuple[Any, ...]]] = []
    for i, (run, of_run) in enumerate(zip(found, settings, strict=True)):
        texts = {
            labels[key]: programs[key][i] if key in programs else of_run.get(key) for key in shown
        }
        everything_else = tuple(
            sorted((key, repr(value)) for key, value in of_run.items() if key != _SEED)
        )
        row = {"kind": "run", "run": names[i], **texts, **_numbers(run, cells)}
        rank = tuple(
            _rank(of_run.get(key))
            for key in (*_PROGRAMS, _PRESET, *(k for k in shown if k != _SEED))
        )
        rows.append((row, (rank, everything_else, run.seed, names[i])))
    rows.sort(key=lambda pair: pair[1])
    groups: dict[Any, list[tuple[Row, int]]] = defaultdict(list)
    for row, (_, everything_else, seed, _) in rows:
        groups[everything_else].append((row, seed))
    lines = [line for group in groups.values() for line in _with_mean(group, labels, shown_numbers)]
    # Of objects: a whole number must not turn into 2.0 because another run lacks the setting.
    table = pd.DataFrame(
        lines, columns=["kind", "run", *labels.values(), *shown_numbers], dtype=object
    )
    table = table.astype(dict.fromkeys(shown_numbers, float))
    if _SEED in labels:
        table[labels[_SEED]] = table[labels[_SEED]].astype("Int64")
    table.attrs["numbers"] = shown_numbers  # not settings, which are shown as they are
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
    """Whether two runs that have a setting differ in it, or only one of two runs of the same
    program has it.
    """
    if len({of_run[key] for of_run in settings if key in of_run}) > 1:
        return True
    if key[0] == "run":
        return False
    program = _PROGRAMS[0] if key[0] == "model" else _PROGRAMS[1]
    having = {of_run[program] for of_run in settings if key in of_run}
    return any(of_run[program] in having for of_run in settings if key not in of_run)


def _labels(keys: Sequence[Key], numbers: Sequence[str]) -> dict[Key, str]:
    """A name of its own for each setting's column."""
    taken = Counter([name for _, name in keys] + ["kind", "run", *numbers])
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


def _file(run: Run, name: str, table: str = "summary") -> Path:
    return run.path / "analyses" / name / f"{table}.csv"


def _complete(run: Run, analyze: bool, needed: Sequence[str]) -> None:
    """Make the analyses that a run lacks and that apply to it, or warn of them. Some have no
    summary of some models.
    """
    missing = [
        name for name in needed if not _file(run, name).parent.is_dir() and _applies(run, name)
    ]
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
        # a Run of its own: its model is not kept with all the others
        results = analysis.analyze(run.path, missing)
    except ValueError as error:  # not fitted yet
        logger.warning("%s has no analyses: %s", run.path, error)
        return
    for result in results:
        if result.error is not None:
            logger.warning(
                "%s of %s failed: %s", result.name, run.path, " ".join(str(result.error).split())
            )


def _applies(run: Run, name: str) -> bool:
    """Whether an analysis can be made of a run; also where that is not known, as of one that is not
    fitted yet.
    """
    program = registry.load("analyses", name)
    try:
        return analysis.applies(program, run)
    except Exception:  # of a program or a model, of any kind
        return True


def numbers(run: Run) -> dict[str, float]:
    """The numbers of all topics for one run, NaN where missing; ValueError where a summary cannot
    be read.
    """
    return _numbers(run, _ALL)


def _numbers(run: Run, cells: Mapping[str, Cell]) -> dict[str, float]:
    tables: dict[tuple[str, str], pd.DataFrame | None] = {}
    for cell in cells.values():
        which = cell.analysis, cell.table
        if which not in tables:
            tables[which] = _metrics(run) if cell.analysis == METRICS else _read(run, *which)
    found = {name: _value(tables[cell.analysis, cell.table], cell) for name, cell in cells.items()}
    if "distance" in found:
        found["distance"] /= _noise(run)
    ended = run.environment.get("ended") and isinstance(run.environment.get("seconds"), int | float)
    return {**found, "minutes": run.environment["seconds"] / 60 if ended else math.nan}


def _metrics(run: Run) -> pd.DataFrame | None:
    """The last known value of every metric, in one row."""
    try:
        return run.metrics().ffill().tail(1)
    except (OSError, ValueError):  # not fitted yet
        return None


def _value(table: pd.DataFrame | None, cell: Cell) -> float:
    if table is None or (cell.analysis == METRICS and cell.column not in table):
        return math.nan
    where = dict(cell.where)
    if cell.times:
        t = table["steps"].min()
        where["steps"] = t * cell.times
        if not t and cell.times > 1:  # a model without dynamics has no more steps
            return math.nan
    for column, value in where.items():
        if column in table:
            beside = (column, value) == ("split", HELD_OUT)
            table = table[table[column] != "train" if beside else table[column] == value]
    if "feature" in table:
        levels = table[table["feature"].str.startswith("mean of ")]
        table = levels if len(levels) else table
    else:
        table = table.groupby("split", sort=False).head(1) if "split" in table else table.head(1)
    column, _, less = cell.column.partition("-")
    return float((table[column] - (table[less] if less else 0.0)).mean())


def _noise(run: Run) -> float:
    """ε√d, about how far exact samples are from their embedding; NaN for a model without these
    settings.
    """
    epsilon, latent = (run.config["model"].get(name, "none") for name in ("epsilon", "latent"))
    known = all(isinstance(value, int | float) and value > 0 for value in (epsilon, latent))
    return float(epsilon * math.sqrt(latent)) if known else math.nan


def _read(run: Run, name: str, table: str = "summary") -> pd.DataFrame | None:
    file = _file(run, name, table)
    if not file.is_file():
        return None
    try:
        found = pd.read_csv(file)
    except (ValueError, OSError) as error:
        raise ValueError(f"{file} cannot be read as a table: {error}") from error
    cells = [cell for cell in _ALL.values() if (cell.analysis, cell.table) == (name, table)]
    needed = {
        column
        for cell in cells
        for column in (*cell.column.split("-"), *cell.where, *["steps"][: cell.times])
    }
    lacking = sorted(column for column in needed - {"split"} if column not in found)
    if lacking:
        raise ValueError(f"{file} lacks the column {lacking[0]!r}: make the analysis {name} again")
    return found


def _with_mean(
    group: Sequence[tuple[Row, int]], labels: Mapping[Key, str], numbers: Sequence[str]
) -> list[Row]:
    rows, seeds = [row for row, _ in group], {seed for _, seed in group}
    if len(seeds) < 2:
        return rows
    count = (
        f"{len(seeds)} seeds"
        if len(seeds) == len(rows)
        else f"{len(rows)} runs of {len(seeds)} seeds"
    )
    same = {label: rows[0][label] for key, label in labels.items() if key != _SEED}
    values = pd.DataFrame([{name: row[name] for name in numbers} for row in rows], dtype=float)
    # the spread of numbers that are all −∞ is not known
    finite = values.where(~values.isin([math.inf, -math.inf]))
    statistics = {"mean": values.mean(skipna=False), "sd": finite.std(skipna=False)}
    return [
        *rows,
        *({"kind": kind, "run": count, **same, **s.to_dict()} for kind, s in statistics.items()),
    ]


# Text.


def to_markdown(table: pd.DataFrame) -> str:
    """The table of `compare` as Markdown; mean and standard deviation in one row, numbers rounded,
    missing ones empty, and those that no run has left out.

    >>> print(to_markdown(pd.DataFrame({"kind": ["run"], "run": ["a"], "alpha": [0.25], "kl": [0.12345]})), end="")
    | run | alpha | kl |
    |:----|------:|---:|
    | a | 0.25 | 0.123 |
    """
    head, rows = _texts(table)
    cells = [[cell.replace("|", "\\|") for cell in row] for row in [head, *rows]]
    rule = "|".join(
        [":" + "-" * (len(head[0]) + 1), *("-" * (len(name) + 1) + ":" for name in head[1:])]
    )
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]]) + "\n"


def to_tables(table: pd.DataFrame, width: int) -> list[Table]:
    """The table of `compare` for a terminal: a row a run where that fits, else a column a run, in
    as many parts as fit. Numbers that no run has are left out.

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
        drawn.add_column(
            text, justify="right" if i else "left", overflow="fold", max_width=_WIDEST_NAME
        )
    for row in body:
        drawn.add_row(*map(Text, row))
    return drawn


def _room(cells: Iterable[str]) -> int:
    return 2 + min(_WIDEST_NAME, max(map(len, cells)))


def _texts(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Head and rows as text, with every pair of mean and standard deviation made one row."""
    numbers = {*_ALL, "minutes", *table.attrs.get("numbers", ())}
    unknown = {name for name in numbers.intersection(table.columns) if table[name].isna().all()}
    head = [str(name) for name in table.columns if name != "kind" and name not in unknown]
    records = table.to_dict("records")
    rows = []
    for i, record in enumerate(records):
        if record["kind"] == "run":
            rows.append([_text(name, record[name], name in numbers) for name in head])
        elif record["kind"] == "mean":
            rows.append(
                [_text(name, record[name], name in numbers, records[i + 1][name]) for name in head]
            )
    return head, rows


def _text(name: str, value: Any, number: bool, sd: Any = None) -> str:
    """A cell; `sd` is given in the row of a mean."""
    if name == "run" and sd is not None:
        return f"mean ± sd ({value})"
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return ""
    if number:
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        decimals = _DECIMALS.get(name, 3)
        # A count is whole in a run and not on average.
        return (
            f"{value:.{decimals}f}"
            if sd is None
            else f"{value:.{max(1, decimals)}f} ± {sd:.{max(1, decimals)}f}"
        )
    return str(value).lower() if isinstance(value, bool) else str(value)
