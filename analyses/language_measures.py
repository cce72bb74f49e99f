"""Description lengths and disentanglement of a language, and its corpus as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from plot_attractors.analysis import corpora
from plot_attractors.analysis.corpora import Corpus, Writing, make
from plot_attractors.analysis.parts import write
from plot_attractors.analysis.probes import is_described, require_described
from plot_attractors.analysis.style import BLUE, GREEN, GREY, SPLIT_COLOURS, plain
from plot_attractors.measures import description_length as lengths
from plot_attractors.measures._counts import BINS
from plot_attractors.measures.disentanglement import dci, mutual_information_gap
from plot_attractors.measures.shuffled import shuffled_null
from plot_attractors.ranges import Size, check_ranges
from plot_attractors.runs import Run, registry
from plot_attractors.split_names import split_name

similarity = registry.load("analyses", "similarity")

TITLE = "Description length and disentanglement"
CAPTIONS = {
    "language_measures": (
        "Do sentences make the description of what they mean shorter, and has every factor of "
        "meaning a part of its own? A: how many times shorter the prequential code of features "
        "(and of latent states z0, if the model has them) is where sentences are known: "
        "compositionality of the language system, C = K(Z) / K(Z | W). 1: they tell nothing by "
        "their parts. B: DCI and mutual information gap. A cross is the "
        "same measure when sentences are shuffled over inputs; a diamond, when they are shuffled "
        "over meanings, so that every meaning keeps sentences of its own, but without system; a "
        "triangle, of a language that spells the features out (no ceiling for z0, nor for "
        "DCI where features depend on each other). C: bits an input of each block of "
        "the code, by the number of training inputs that the decoder has learned from."
    )
}
applies = is_described


# -- measures --------------------------------------------------------------------------------------


COLUMNS = (
    "measure", "split", "unit", "value", "null_mean", "null_sd", "p_value", "holistic_mean",
    "holistic_sd", "holistic_p_value", "spelled", "n", "reason",
)  # fmt: skip
BITS = "bits an input"


@dataclass(frozen=True)
class Config:
    """How much is computed: settings of the analysis."""

    inputs: Size = 2048  # drawn from each split; one sentence of each distinct one
    permutations: Size = 20  # languages whose sentences are shuffled over inputs
    meaning_permutations: Size = 20  # and over meanings

    def __post_init__(self) -> None:
        check_ranges(self)


class Found(NamedTuple):
    """Values of several measures, and why one of them is NaN."""

    value: np.ndarray
    reason: str


class Group(NamedTuple):
    """Measures that are computed together of a corpus: names, units, and which have a test."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    tested: tuple[bool, ...]  # whether a greater value is a better one
    of: Callable[[Corpus], Found]


def _length(found: lengths.DescriptionLength) -> Found:
    return Found(np.array(found[:4]), found.reason)


def _of_features(c: Corpus) -> Found:
    return _length(lengths.of_features(c.sentences, c.symbols, c.meaning, c.kinds))


def _of_vectors(c: Corpus) -> Found:
    if c.vectors is None:
        reason = "sentences stand for no vectors: a corpus file has them as meaning"
        return Found(np.full(3, np.nan), reason)
    found = _length(lengths.of_vectors(c.sentences, c.symbols, c.vectors))
    return Found(found.value[:3], found.reason)


def _dci(c: Corpus) -> Found:
    found = dci(c.symbols, c.meaning, c.kinds)
    return Found(np.array(found[:3]), found.reason)


def _one(found: Any) -> Found:
    return Found(np.array([found.value]), found.reason)


def _gap(c: Corpus) -> Found:
    return _one(mutual_information_gap(c.symbols, c.meaning, c.kinds))


GROUPS = (
    Group(
        ("language_compositionality", "code_length", "code_length_given", "code_length_sentences"),
        ("", BITS, BITS, BITS), (True, False, False, False), _of_features,
    ),
    Group(
        ("language_compositionality_z0", "code_length_z0", "code_length_given_z0"),
        ("", BITS, BITS), (True, False, False), _of_vectors,
    ),
    Group(
        ("dci_disentanglement", "dci_completeness", "dci_informativeness"),
        ("", "", ""), (True, True, True), _dci,
    ),
    Group(("mutual_information_gap",), ("",), (True,), _gap),
)  # fmt: skip


def measures(of: Corpus, sizes: Config, seed: int = 0) -> pd.DataFrame:
    """Rows of ``summary.csv`` of one split, see the analysis ``language_measures``."""
    best = spelled(of)
    rows = [row for group in GROUPS for row in _rows(group, of, best, sizes, seed)]
    table = pd.DataFrame(rows).assign(n=len(of.symbols))
    return table.reindex(columns=[name for name in COLUMNS if name != "split"])


def _rows(group: Group, of: Corpus, best: Corpus, sizes: Config, seed: int) -> list[dict[str, Any]]:
    found = group.of(of)
    columns: dict[str, Any] = {"value": found.value}
    if not np.isnan(found.value).all():
        columns["spelled"] = group.of(best).value

        def measure(symbols: Any, _: Any) -> Found:
            w = of.writing
            s = w.one_hot(symbols), w.bag(symbols)
            return group.of(of._replace(sentences=s[0], tokens=s[1], symbols=symbols))

        null = shuffled_null(measure, of.symbols, of.meaning, sizes.permutations, seed)
        holistic = shuffled_null(
            measure, of.symbols, of.meaning, sizes.meaning_permutations, seed, shuffle="meanings"
        )
        for prefix, nulls in (("null_", null), ("holistic_", holistic)):
            columns |= {f"{prefix}mean": nulls.mean, f"{prefix}sd": nulls.sd}
            p = np.where(group.tested, nulls.p_value, np.nan)
            columns["p_value" if prefix == "null_" else "holistic_p_value"] = p
    rows = []
    for k, name in enumerate(group.names):
        row = {column: float(values[k]) for column, values in columns.items()}
        reason = found.reason if np.isnan(found.value[k]) else ""
        rows.append({"measure": name, "unit": group.units[k], **row, "reason": reason})
    return rows


def spelled(of: Corpus) -> Corpus:
    """A corpus of the same inputs that spells out their features, a group of tokens each; nothing
    for "no value". Numbers are spelled by their bin of ten.
    """
    codes = np.zeros(of.meaning.shape, dtype=np.intp)
    for k, categorical in enumerate(of.kinds):
        column = of.meaning[:, k]
        known = np.isfinite(column)
        values = column[known]
        if not categorical and len(np.unique(values)) > BINS:
            edges = np.quantile(values, np.arange(1, BINS) / BINS)
            values = np.searchsorted(edges, values, side="right")
        if known.any():
            codes[known, k] = np.unique(values, return_inverse=True)[1] + 1
    sizes = codes.max(0, initial=1)
    names = tuple(f"{f.name} {j}" for f, size in zip(of.features, sizes, strict=True)
                  for j in range(size))  # fmt: skip
    writing = Writing(names, tuple(sizes.tolist()), False, len(sizes))
    return make(writing, codes, of.meaning, of.features, of.hierarchical, of.vectors)


def code_blocks(of: Corpus) -> pd.DataFrame:
    """Rows of ``code_lengths.csv`` of one split: (represented, source, seen, inputs, bits)."""
    best = spelled(of)
    parts = []
    for represented, blocks in (("features", _feature_blocks), ("z0", _vector_blocks)):
        own = blocks(of)
        of_best = blocks(best)
        for source, table, column in (
            ("without sentences", own, 2), ("sentences", own, 3), ("spelled", of_best, 3),
        ):  # fmt: skip
            columns = {"seen": table[:, 0], "inputs": table[:, 1], "bits": table[:, column]}
            part = pd.DataFrame(columns).astype({"seen": int, "inputs": int})
            part.insert(0, "source", source)
            part.insert(0, "represented", represented)
            parts.append(part)
    return pd.concat(parts)


def _feature_blocks(c: Corpus) -> np.ndarray:
    return lengths.of_features(c.sentences, c.symbols, c.meaning, c.kinds).blocks


def _vector_blocks(c: Corpus) -> np.ndarray:
    if c.vectors is None:
        return np.empty((0, 4))
    return lengths.of_vectors(c.sentences, c.symbols, c.vectors).blocks


def measure_all(of: Corpus, sizes: Config, seed: int = 0) -> pd.DataFrame:
    """`measures`, and those of the analysis ``similarity``, of one split."""
    permutations = {
        "permutations": sizes.permutations, "meaning_permutations": sizes.meaning_permutations
    }  # fmt: skip
    others = pd.DataFrame(
        similarity.measures(of, similarity.Config(resamples=2, **permutations), seed)
    )
    rows = pd.concat([measures(of, sizes, seed), others])
    return rows.reindex(columns=[name for name in COLUMNS if name != "split"])


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of one sentence for each of `inputs` inputs of every split.

    - ``summary.csv``: ``measure``: ``language_compositionality``, and the code lengths of features
      ``code_length`` K(Z) / N, ``code_length_given`` K(Z | W) / N and ``code_length_sentences``
      K(W) / N, bits an input; with ``_z0``, of the latent states of attractor models;
      ``dci_disentanglement``, ``dci_completeness``, ``dci_informativeness``,
      ``mutual_information_gap``, of groups of tokens or positions, and features. ``null_…``: of
      languages whose sentences are shuffled over inputs; ``holistic_…``: over meanings;
      ``p_value``: that shuffled ones are as great; ``spelled``: of the language that spells the
      features out, a ceiling but for ``…_z0``, and for DCI where features depend on each other;
      ``n``: distinct inputs; ``reason``: why the value is missing.
    - ``code_lengths.csv`` (split, represented, source, seen, inputs, bits): of each block of the
      prequential code, inputs seen before and in it, and bits an input.
    - ``corpus.csv``: the sentences, see `plot_attractors.analysis.corpora.read_corpus`;
      ``plot-attractors measure`` computes the same from it.
    """
    model, data = require_described(run)
    splits = {
        split: corpora.corpus(model, data, run.data.batch(config.inputs, split))
        for split in run.data.splits
    }
    parts: dict[str, list[pd.DataFrame]] = {}
    for split, of in splits.items():
        found = {
            "summary": measures(of, config),
            "code_lengths": code_blocks(of),
        }
        for name, table in found.items():
            table.insert(0, "split", split)
            parts.setdefault(name, []).append(table)
    tables: dict[str, Any] = {f"{name}.csv": pd.concat(of) for name, of in parts.items()}
    tables["summary.csv"] = tables["summary.csv"][list(COLUMNS)]
    return tables | {"corpus.csv": corpora.to_table(splits)}


# -- figures ---------------------------------------------------------------------------------------


RATIOS = {
    "language_compositionality": "features",
    "language_compositionality_z0": "latent states z0",
}
SHARES = {
    "dci_disentanglement": "disentanglement (DCI)",
    "dci_completeness": "completeness (DCI)",
    "dci_informativeness": "informativeness (DCI)",
    "mutual_information_gap": "mutual information gap",
}
MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "null_mean": ("shuffled over inputs", {"color": "black", "marker": "x", "markersize": 6}),
    "holistic_mean": (
        "shuffled over meanings",
        {"color": "white", "marker": "D", "markeredgecolor": "black", "markersize": 5},
    ),
    "spelled": (
        "features spelled out",
        {"color": "white", "marker": "^", "markeredgecolor": "black", "markersize": 6},
    ),
}
SOURCES = {"without sentences": (GREY, "-"), "sentences": (BLUE, "-"), "spelled": (GREEN, "--")}


def draw(summary: pd.DataFrame, code_lengths: pd.DataFrame) -> Figure:
    """From ``summary.csv`` and ``code_lengths.csv``."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    panels = figure.subplot_mosaic("AB;CC")  # type: ignore[arg-type]
    known = summary[summary["value"].notna()]
    ratios = [name for name in RATIOS if (known["measure"] == name).any()]
    panels["A"].set_title("A  Compositionality C = K(Z) / K(Z | W)")
    _draw_measures(panels["A"], summary, RATIOS, ratios, start=1.0)
    panels["A"].set_xscale("log")
    panels["A"].xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panels["A"].xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panels["A"].xaxis.set_minor_formatter(NullFormatter())
    panels["A"].axvline(1, color=GREY, linewidth=0.8)
    panels["A"].set_xlabel("C, times shorter (logarithmic)")
    panels["B"].set_title("B  Measures, beside other languages")
    shares = [name for name in SHARES if (known["measure"] == name).any()]
    _draw_measures(panels["B"], summary, SHARES, shares)
    panels["B"].axvline(0, color=GREY, linewidth=0.8)
    panels["B"].set_xlabel("value; best is 1")
    marks = [Line2D([], [], linestyle="", label=label, **look) for label, look in MARKS.values()]
    handles = [*panels["A"].get_legend_handles_labels()[0], *marks]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    panels["C"].set_title(f"C  Prequential code, {split_name('train')}")
    _draw_code(panels["C"], code_lengths[code_lengths["split"] == "train"])
    return figure


def _draw_measures(
    axes: Axes,
    summary: pd.DataFrame,
    titles: dict[str, str],
    names: Sequence[str],
    start: float = 0.0,
) -> None:
    """Bars from `start`, one a measure and split, and marks of other languages."""
    if not names:
        write(axes, "undefined")
        return
    splits = list(summary["split"].unique())
    height = 0.8 / len(splits)
    for k, split in enumerate(splits):
        part = summary[summary["split"] == split].set_index("measure").loc[list(names)]
        y = np.arange(len(names)) + (k - (len(splits) - 1) / 2) * height
        value = part["value"].to_numpy(dtype=float)
        colour = SPLIT_COLOURS.get(split, GREY)
        axes.barh(y, value - start, 0.9 * height, left=start, color=colour, label=split_name(split))
        for column, (_, look) in MARKS.items():
            axes.plot(part[column], y, linestyle="", **look)
        for at in y[np.isnan(value)]:
            axes.text(start or 0.01, at, "undefined", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), [titles[name] for name in names])
    axes.invert_yaxis()


def _draw_code(axes: Axes, table: pd.DataFrame) -> None:
    """Bits an input by inputs seen, of features; of z0 fainter, if there is one."""
    if table.empty:
        write(axes, "too few inputs")
        return
    shown = table[table["represented"] == "features"]
    if shown.empty:
        shown = table
    for source, part in shown.groupby("source", sort=False):
        colour, line = SOURCES[str(source)]
        later = part[part["seen"] > 0]
        look: dict[str, Any] = {"color": colour, "linestyle": line, "marker": "o", "markersize": 4}
        axes.plot(later["seen"], later["bits"], label=plain(str(source)), **look)
    axes.set_xscale("log", base=2)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("inputs that the decoder has learned from")
    axes.set_ylabel(f"bits an input, {shown['represented'].iloc[0]}")
    axes.legend()


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """The figure ``language_measures``."""
    names = ("summary", "code_lengths")
    return {"language_measures": draw(*(tables[f"{name}.csv"] for name in names))}
