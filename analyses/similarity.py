"""How compositional the sentences are, beside two kinds of shuffled languages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plot_attractors.analysis import corpora
from plot_attractors.analysis.corpora import Corpus
from plot_attractors.analysis.parts import error, write
from plot_attractors.analysis.probes import is_described, require_described
from plot_attractors.analysis.style import BLUE, GREY, SPLIT_COLOURS, add_scale, plain
from plot_attractors.measures.compositionality import (
    bag_of_symbols_disentanglement,
    context_independence,
    mutual_information,
    positional_disentanglement,
    tree_reconstruction_error,
)
from plot_attractors.measures.shuffled import Alternative, sampling_interval, shuffled_null
from plot_attractors.measures.similarity import (
    feature_distance,
    sentence_distance,
    topographic_similarity,
)
from plot_attractors.ranges import Range, Size, check_ranges
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Similarity and compositionality"
CAPTIONS = {
    "similarity": (
        "Do similar inputs get similar sentences, and do features have tokens of their own? A: how "
        "many tokens two sentences differ in, by the number of features in which their inputs "
        "differ. Each column of the heat map is a distribution, solid lines are means, and dotted "
        "ones means of all pairs, where a language without information would lie; ρ is the rank "
        "correlation of the two distances (topographic similarity, RSA). For a hierarchy B has the "
        "number of edges between two nodes of the tree instead. Bars: measures of compositionality "
        "with 95 % intervals. A cross is the same measure when sentences are shuffled over inputs, "
        "so that they tell nothing; a diamond, when they are shuffled over meanings, so that every "
        "meaning keeps sentences of its own, but without system. Only what is beyond the diamond "
        "is compositional. Measures are 1 at best, but the tree reconstruction error is 0 at best, "
        "and 1 where features do not help. Last panel: how much the presence of each token tells "
        "of each feature, in bits."
    )
}
COLUMNS = (
    "measure split value low high null_mean null_sd p_value holistic_mean holistic_sd "
    "holistic_p_value n pairs reason"
)
applies = is_described


# -- measures --------------------------------------------------------------------------------------


SENTENCE = "sentence"  # stands for the whole sentence where tokens are listed
SHOWN_PAIRS, BINS = 50_000, 12  # of the figure: pairs, and columns of continuous distances
NULL = ("null_mean", "null_sd", "p_value")
Pairs = Annotated[int, Range(3, 10**6)]  # whose distances are correlated


@dataclass(frozen=True)
class Config:
    """How much is computed: settings of the analysis."""

    inputs: Size = 2048  # drawn from each split; one sentence of each distinct one
    max_pairs: Pairs = 100_000  # pairs of inputs whose distances are compared
    resamples: Annotated[int, Range(2, 10**6)] = 100  # bootstrap samples of an interval
    permutations: Size = 100  # languages whose sentences are shuffled over inputs
    meaning_permutations: Size = 100  # and over meanings, of which fewer pairs are compared
    meaning_pairs: Pairs = 30_000

    def __post_init__(self) -> None:
        check_ranges(self)


class Number(NamedTuple):
    """A value, and why it is NaN."""

    value: float
    reason: str


def _normalised_information(sentences: Any, meaning: Any, categorical: list[bool]) -> Number:
    """Mean of I(sentence; f) / H(f) over features f that vary."""
    found = mutual_information(sentences, meaning, categorical)
    if np.isnan(found.normalised).all():
        return Number(np.nan, found.reason)
    return Number(float(np.nanmean(found.normalised)), "")


def _relative_error(sentences: Any, meaning: Any, categorical: list[bool]) -> Number:
    found = tree_reconstruction_error(sentences, meaning, categorical)
    return Number(found.relative, found.reason)


def measures(of: Corpus, sizes: Config, seed: int) -> list[dict[str, Any]]:
    """Rows of ``summary.csv`` of one split, see the analysis ``similarity``."""
    by_name: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
        "posdis": (positional_disentanglement, of.symbols),
        "bosdis": (bag_of_symbols_disentanglement, of.tokens),
        "context_independence": (context_independence, of.tokens),
        "mutual_information": (_normalised_information, of.sentences),
        "tree_reconstruction_error": (_relative_error, of.tokens),
    }
    rows = [_similarity("topographic_similarity", of, of.meaning, of.kinds, sizes, seed)]
    if of.tree is not None:
        rows.append(_similarity("topographic_similarity_tree", of, of.tree, None, sizes, seed))
    for name, (function, sentences) in by_name.items():
        measure = partial(function, categorical=of.kinds)
        found = measure(sentences, of.meaning)
        better: Alternative = "less" if name == "tree_reconstruction_error" else "greater"
        null = shuffled_null(
            measure, sentences, of.meaning, sizes.permutations, seed, alternative=better
        )
        low, high = sampling_interval(measure, sentences, of.meaning, sizes.resamples, seed)
        row = {"measure": name, "value": found.value, "low": low, "high": high, "n": len(sentences)}
        row |= dict(zip(NULL, null, strict=False)) | {"reason": found.reason}
        rows.append(row | _holistic(measure, sentences, of.meaning, sizes, seed, better))
    return rows


def _similarity(
    name: str, of: Corpus, meaning: np.ndarray, kinds: list[bool] | None, sizes: Config, seed: int
) -> dict[str, Any]:
    measure = partial(topographic_similarity, categorical=kinds)
    found = measure(
        of.tokens, meaning, max_pairs=sizes.max_pairs, seed=seed, resamples=sizes.resamples,
        permutations=sizes.permutations,
    )  # fmt: skip
    measure = partial(measure, max_pairs=sizes.meaning_pairs)
    holistic = _holistic(measure, of.tokens, meaning, sizes, seed, "greater")
    return {"measure": name} | found._asdict() | holistic


def _holistic(
    measure: Any, sentences: Any, meaning: Any, sizes: Config, seed: int, better: Alternative
) -> dict[str, Any]:
    null = shuffled_null(
        measure, sentences, meaning, sizes.meaning_permutations, seed,
        shuffle="meanings", alternative=better,
    )  # fmt: skip
    return {f"holistic_{key}": getattr(null, key) for key in ("mean", "sd", "p_value")}


def information(of: Corpus, permutations: int, seed: int) -> pd.DataFrame:
    """Rows of ``information.csv`` of one split, see the analysis ``similarity``."""

    def of_tokens(sentences: Any, meaning: Any) -> np.ndarray:
        return bag_of_symbols_disentanglement(sentences, meaning, of.kinds).information

    of_sentences = partial(mutual_information, categorical=of.kinds)
    whole = of_sentences(of.sentences, of.meaning)
    null = shuffled_null(of_tokens, of.tokens, of.meaning, permutations, seed)
    null_whole = shuffled_null(of_sentences, of.sentences, of.meaning, permutations, seed)
    columns = {"information": np.vstack([of_tokens(of.tokens, of.meaning), whole.value])}
    for column, a, b in zip(NULL, null, null_whole, strict=False):
        columns[column] = np.vstack([a, b])
    n = len(of.names) + 1
    table = pd.DataFrame({column: cells.T.reshape(-1) for column, cells in columns.items()})
    table.insert(1, "entropy", np.repeat(whole.entropy, n))
    table.insert(0, "token", [*of.names, SENTENCE] * len(of.features))
    table.insert(0, "feature", np.repeat([feature.name for feature in of.features], n))
    return table


def pair_counts(of: Corpus) -> pd.DataFrame:
    """Rows of ``pairs.csv`` of one split, of random pairs, see the analysis ``similarity``."""
    i, j = np.random.default_rng(0).integers(len(of.tokens), size=(2, SHOWN_PAIRS))
    i, j = i[i != j], j[i != j]
    tokens = sentence_distance(of.tokens, i, j)
    distances = {"topographic_similarity": feature_distance(of.meaning, i, j, of.kinds)}
    if of.tree is not None:
        distances["topographic_similarity_tree"] = feature_distance(of.tree, i, j)
    parts = []
    for measure, x in distances.items() if len(i) else ():  # one input makes no pairs
        width, place = 1.0, np.unique(x)
        if not all(of.kinds):
            width = max(float(np.quantile(x, 0.99)) / BINS, 1e-9)
            place = (np.unique((x / width).astype(int)) + 0.5) * width
        distance = place[np.abs(x[:, None] - place).argmin(1)]
        part = pd.DataFrame({"distance": distance, "tokens": tokens}).value_counts(sort=False)
        parts.append(part.rename("pairs").reset_index().assign(measure=measure, width=width))
    columns = ["measure", "distance", "width", "tokens", "pairs"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Tables of one sentence for each of `inputs` inputs of every split.

    Sentences are taken as sets of tokens, and their distance is the number of tokens that only one
    of them has; the distance of inputs is the number of categorical features that differ and the
    sum of the absolute differences of continuous ones (Section *Representational similarity
    analysis*). Where features are levels of a tree, both are also compared with the number of edges
    between two nodes.

    - ``summary.csv``: ``measure``: ``topographic_similarity`` (Spearman's ρ),
      ``topographic_similarity_tree``, ``posdis``, ``bosdis``, ``context_independence``,
      ``mutual_information`` (I(sentence; feature) / H(feature), mean over features) and
      ``tree_reconstruction_error`` (relative to that of the mean sentence); ``low``, ``high``: 95 %
      bootstrap interval over inputs; ``null_…``, ``p_value``: of languages whose sentences are
      shuffled over inputs (ρ: Mantel's test); ``holistic_…``: shuffled over meanings; ``n``:
      distinct inputs; ``pairs``: compared; ``reason``: why the value is missing.
    - ``information.csv`` (split, feature, token, information, entropy, null_mean, null_sd,
      p_value): plug-in I(token's presence; feature) and H(feature), bits, beside languages
      shuffled over inputs; ``token`` is "sentence" for whole sentences.
    - ``pairs.csv`` (split, measure, distance, width, tokens, pairs): how many of random pairs of
      inputs have this distance (binned to `width` where features are continuous), and sentences
      with as many different tokens.
    """
    model, data = require_described(run)
    parts: dict[str, list[pd.DataFrame]] = {}
    for split in run.data.splits:
        of = corpora.corpus(model, data, run.data.batch(config.inputs, split))
        seed = int(torch.randint(2**31, ()))
        found = {
            "summary": pd.DataFrame(measures(of, config, seed)),
            "information": information(of, config.permutations, seed),
            "pairs": pair_counts(of),
        }
        for name, table in found.items():
            table.insert(0, "split", split)
            parts.setdefault(name, []).append(table)
    tables = {f"{name}.csv": pd.concat(of_splits) for name, of_splits in parts.items()}
    summary = tables["summary.csv"].astype({"pairs": "Int64"})
    return tables | {"summary.csv": summary.reindex(columns=COLUMNS.split())}


# -- figures ---------------------------------------------------------------------------------------


LEAST_PAIRS = 50  # of a column of the heat map
MEASURE_NAMES = {
    "topographic_similarity": "topographic similarity",
    "topographic_similarity_tree": "the same, by tree distance",
    "posdis": "posdis",
    "bosdis": "bosdis",
    "context_independence": "context independence",
    "mutual_information": "information of a sentence",
    "tree_reconstruction_error": "tree reconstruction error",
}
WHITE_TO_GREY = LinearSegmentedColormap.from_list("share", ["#FFFFFF", "#555555"])
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("information", ["#FFFFFF", BLUE, "#00233A"])


def draw(summary: pd.DataFrame, information: pd.DataFrame, pairs: pd.DataFrame) -> Figure:
    """From ``summary.csv``, ``information.csv`` and ``pairs.csv``."""
    hierarchy = (summary["measure"] == "topographic_similarity_tree").any()
    figure = Figure(figsize=(11, 8.2), layout="constrained")
    panels = figure.subplot_mosaic("AB;CD" if hierarchy else "AC;DD")
    titles = iter("ABCD")
    features = information["feature"].nunique()
    whole = pairs.empty or (pairs["distance"] % 1 == 0).all()  # no continuous feature
    label = f"features that differ, of {features}" if whole else "distance of features"
    measures = {"A": ("topographic_similarity", label)}
    if hierarchy:
        measures["B"] = ("topographic_similarity_tree", "edges between two nodes of the tree")
    similarity = summary.set_index(["measure", "split"])["value"]
    splits = list(summary["split"].unique())
    for panel, (measure, label) in measures.items():
        _draw_distances(panels[panel], pairs[pairs["measure"] == measure])
        named = splits if len(splits) <= 2 else splits[:1]  # all are in the panel of measures
        rho = [f"{similarity[measure, s]:.2f} ({split_name(s)})" for s in named]
        panels[panel].set(title=f"{next(titles)}  ρ = {', '.join(rho)}", xlabel=label)
    panels["C"].set_title(f"{next(titles)}  Measures, beside shuffled languages")
    _draw_measures(panels["C"], summary)
    panels["D"].set_title(f"{next(titles)}  What tokens tell of features, {split_name('train')}")
    _draw_information(panels["D"], information[information["split"] == "train"])
    return figure


def _draw_distances(axes: Axes, pairs: pd.DataFrame) -> None:
    """Sentence distances given feature distance, of the first split, and means of all."""
    if pairs.empty:
        write(axes, "one input only")
        return
    for index, (split, part) in enumerate(pairs.groupby("split", sort=False)):
        name, colour = split_name(str(split)), SPLIT_COLOURS.get(str(split), GREY)
        table = part.pivot(index="distance", columns="tokens", values="pairs").fillna(0)
        table = table.reindex(columns=range(part["tokens"].max() + 1), fill_value=0)
        count = table.to_numpy()
        shown = count.sum(1) >= min(LEAST_PAIRS, count.sum(1).max())
        place, count, tokens = table.index.to_numpy()[shown], count[shown], table.columns.to_numpy()
        mean = count @ tokens / count.sum(1)
        axes.plot(place, mean, color=colour, marker="o", markersize=4, label=name)
        overall = np.average(part["tokens"], weights=part["pairs"])
        axes.axhline(overall, color=colour, linestyle=":", linewidth=1.2)
        if index == 0:
            share, half = count / count.sum(1, keepdims=True), part["width"].iloc[0] / 2
            for at, heights in zip(place, share, strict=True):
                image = axes.imshow(
                    heights[:, None], cmap=WHITE_TO_GREY, vmin=0, vmax=max(share.max(), 0.1),
                    aspect="auto", origin="lower", zorder=0,
                    extent=(at - half, at + half, -0.5, len(heights) - 0.5),
                )  # fmt: skip
            axes.set_xlim(place[0] - half, place[-1] + half)
            axes.set_ylim(-0.5, np.flatnonzero(share.max(0) > 1e-3)[-1] + 0.5)
            add_scale(axes, image, f"share of pairs, {name}")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("tokens that only one sentence has")
    axes.legend(loc="lower right")


def _draw_measures(axes: Axes, summary: pd.DataFrame) -> None:
    names, splits = list(summary["measure"].unique()), list(summary["split"].unique())
    height = 0.8 / len(splits)
    cross: dict[str, Any] = {"color": "black", "marker": "x", "markeredgewidth": 1.5}
    diamond: dict[str, Any] = {"color": "white", "marker": "D", "markeredgecolor": "black"}
    for k, split in enumerate(splits):
        part = summary[summary["split"] == split]
        y = np.arange(len(names)) + (k - (len(splits) - 1) / 2) * height
        value = part["value"].to_numpy(dtype=float)
        axes.barh(
            y, value, 0.9 * height, xerr=error(part), color=SPLIT_COLOURS.get(split, GREY),
            ecolor="black", error_kw={"linewidth": 1}, label=split_name(split),
        )  # fmt: skip
        axes.plot(part["null_mean"], y, linestyle="", markersize=6, **cross)
        axes.plot(part["holistic_mean"], y, linestyle="", markersize=5, **diamond)
        for at in y[np.isnan(value)]:
            axes.text(0.01, at, "undefined", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), [MEASURE_NAMES[name] for name in names])
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlim(np.nanmin([0.0, *summary["low"]]), 1.05)
    axes.set_xlabel("value; best is 1, but 0 for the error")
    marks = [
        Line2D([], [], linestyle="", label="shuffled over inputs", **cross),
        Line2D([], [], linestyle="", label="shuffled over meanings", **diamond),
    ]
    handles = [*axes.get_legend_handles_labels()[0], *marks]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.35, -0.13), ncols=2)


def _draw_information(axes: Axes, table: pd.DataFrame) -> None:
    rows = [group for _, group in table.groupby("feature", sort=False)]
    bits = np.stack([group["information"].to_numpy()[:-1] for group in rows])  # the last: sentences
    tokens = list(rows[0]["token"])[:-1]
    most = max(float(np.nanmax(bits, initial=0)), 0.01)
    image = axes.imshow(bits, cmap=WHITE_TO_BLUE, vmin=0, vmax=most, aspect="auto")
    axes.set_yticks(range(len(rows)), [plain(group["feature"].iloc[0]) for group in rows])
    every = max(1, len(tokens) // 24)
    axes.set_xticks(range(0, len(tokens), every), tokens[::every])
    axes.set_xlabel("token")
    add_scale(axes, image, "I(token; feature), bits")


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """The figure ``similarity``."""
    return {"similarity": draw(*(tables[f"{n}.csv"] for n in ("summary", "information", "pairs")))}
