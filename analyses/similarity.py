"""How compositional the sentences are: similarity, tokens of features, and two languages to compare
them with.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from plot_attractors.data import Batch, Feature
from plot_attractors.evaluation.metrics import (
    bag_of_symbols_disentanglement,
    context_independence,
    feature_distance,
    mutual_information,
    positional_disentanglement,
    sampling_interval,
    sentence_distance,
    shuffled_null,
    topographic_similarity,
    tree_nodes,
    tree_reconstruction_error,
)
from plot_attractors.evaluation.probes import is_described, require_described
from plot_attractors.language import Language
from plot_attractors.plots.style import (
    BLUE,
    GREY,
    SPLIT_COLOURS,
    SPLIT_NAMES,
    add_scale,
    plain,
    save,
    style,
)

if TYPE_CHECKING:
    from torch import Tensor

    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Similarity and compositionality"
CAPTIONS = {
    "similarity": (
        "Do similar inputs get similar sentences, and do features have tokens of their own? A: how "
        "many tokens two "
        "sentences differ in, by the number of features in which their inputs differ. Each column "
        "of the heat map is "
        "a law that sums to 1, solid lines are means, and dotted ones means of all pairs, where a "
        "language that says "
        "nothing would lie; ρ is the rank correlation of the two distances (topographic "
        "similarity, RSA). For a "
        "hierarchy B has the number of edges between two nodes of the tree instead. Bars: measures "
        "of "
        "compositionality with 95 % intervals. A cross is the same measure when sentences are "
        "shuffled over inputs, "
        "so that they tell nothing; a diamond, when they are shuffled over meanings, so that every "
        "meaning keeps "
        "sentences of its own, but without system. Only what is beyond the diamond is "
        "compositional. Measures are 1 "
        "at best, but the tree reconstruction error is 0 at best, and 1 where features do not "
        "help. Last panel: how "
        "much the presence of each token tells of each feature, in bits."
    )
}

INPUTS = 2048  # drawn from each split; one sentence of each distinct one
MAX_PAIRS = 100_000  # pairs of inputs whose distances are compared
RESAMPLES = 100  # bootstrap samples of an interval
PERMUTATIONS = 100  # languages whose sentences are shuffled over inputs
MEANING_PERMUTATIONS, MEANING_PAIRS = (
    100,
    30_000,
)  # and over meanings, of which fewer pairs are compared
NO_VALUE = "none"  # the outcome, in ordered features, of a level that the path does not reach
SENTENCE = "sentence"  # stands for the whole sentence where tokens are listed
SHOWN_PAIRS, BINS, LEAST_PAIRS = (
    50_000,
    12,
    50,
)  # of the figure: pairs, columns of continuous distances, pairs in one
COLUMNS = (
    *("measure", "split", "value", "low", "high", "null_mean", "null_sd", "p_value"),
    *("holistic_mean", "holistic_sd", "holistic_p_value", "n", "pairs", "reason"),
)
MEASURE_NAMES = {
    "topographic_similarity": "topographic similarity",
    "topographic_similarity_tree": "the same, by tree distance",
    "posdis": "posdis",
    "bosdis": "bosdis",
    "context_independence": "context independence",
    "mutual_information": "information of a sentence",
    "tree_reconstruction_error": "tree reconstruction error",
}
WHITE_TO_GREY = LinearSegmentedColormap.from_list("law", ["#FFFFFF", "#555555"])
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("information", ["#FFFFFF", BLUE, "#00233A"])


class Corpus(NamedTuple):
    """N inputs of a split and one sentence of each.

    - ``sentences``: (N, width) as the language writes them; ``tokens``: (N, tokens) which ones
    occur;
    - ``symbols``: (N, positions) which token stands at each position, from 1, or 0 for none; where
      words have no order, the exclusive groups of tokens take the place of positions;
    - ``features``: (N, F) with NaN for "no value"; ``tree``: (N, nodes) of ordered features, the
    nodes on the path.
    """

    sentences: np.ndarray
    tokens: np.ndarray
    symbols: np.ndarray
    features: np.ndarray
    tree: np.ndarray | None


class Number(NamedTuple):
    """A value, and why it is NaN."""

    value: float
    reason: str


class Question(NamedTuple):
    """A measure, and what it is taken of."""

    measure: Any
    sentences: np.ndarray
    features: np.ndarray


def applies(run: Run) -> bool:
    """Whether the run's model says sentences, and features of the inputs are known."""
    return is_described(run)


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, ``information.csv``, ``levels.csv`` and the figure ``similarity`` into
    ``out``.

    One sentence is drawn for each of 2048 inputs of every split. A table with few rows gives an
    input again and again; it is described once, since copies would be compared with each other.
    Sentences are taken as sets of tokens and their distance is the number of tokens that only one
    of them has; the distance of inputs is the number of categorical features that differ and the
    sum of the absolute differences of continuous ones (Section *Representational similarity
    analysis*). Where features are levels of a tree, both are also compared with the number of edges
    between two nodes. ``summary.csv`` has a row for each measure and split:

    - ``measure``: ``topographic_similarity`` (Spearman's ρ), ``topographic_similarity_tree``,
      ``posdis``, ``bosdis``, ``context_independence``, ``mutual_information`` (I(sentence; feature)
      / H(feature), mean over features), ``tree_reconstruction_error`` (relative to that of the mean
      sentence);
    - ``value``; ``low``, ``high``: 95 % bootstrap interval over inputs;
    - ``null_mean``, ``null_sd``, ``p_value``: of languages whose sentences are shuffled over
    inputs; ρ: Mantel's test;
    - ``holistic_mean``, ``holistic_sd``, ``holistic_p_value``: the same, shuffled over meanings;
    - ``n``: distinct inputs; ``pairs``: pairs that were compared; ``reason``: why the value is
    missing.

    ``information.csv`` (split, feature, token, information, entropy, null_mean, null_sd, p_value):
    plug-in I(token's presence; feature) and H(feature), bits, beside languages shuffled over
    inputs; ``token`` is "sentence" for whole sentences. ``levels.csv`` (split, feature, level,
    token, value): p(v|c) p(c|v) of every value of a feature and its token. "No value" is no level.

    Raises ValueError where the model says no sentences, or no features are known.
    """
    model, data = require_described(run)
    kinds = [feature.categorical for feature in data.features]
    tokens = [model.language.token_name(k) for k in range(model.language.tokens)]
    rows, information, levels = [], [], []
    corpora: dict[str, Corpus] = {}
    for split in run.data.splits:
        batch = _distinct(run.data.batch(INPUTS, split))
        sentences = model.describe(batch.x).s[:, 0]
        corpus = corpora[split] = _corpus(
            sentences, data.feature_values(batch), model.language, data.features, data.ordered
        )
        seed = int(torch.randint(2**31, ()))
        for name, question in _questions(corpus, kinds).items():
            rows.append({"measure": name, "split": split} | _measure(name, question, seed))
        information.append(_information(corpus, data.features, tokens, seed).assign(split=split))
        levels.append(_levels(corpus, data.features, tokens).assign(split=split))
    summary = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"pairs": "Int64"})
    tables = [pd.concat(parts) for parts in (information, levels)]
    tables = [table[["split", *table.columns.drop("split")]] for table in tables]
    summary.to_csv(out / "summary.csv", index=False)
    tables[0].to_csv(out / "information.csv", index=False)
    tables[1].to_csv(out / "levels.csv", index=False)
    with style():
        save(_draw(corpora, kinds, summary, tables[0], tokens), out / "similarity")


def _distinct(batch: Batch) -> Batch:
    """The batch without inputs that it holds before."""
    group = batch.x.flatten(1).unique(dim=0, return_inverse=True)[1]
    first = torch.from_numpy(np.unique(group.numpy(), return_index=True)[1]).sort().values
    return Batch(*(part[first] for part in batch))


def _corpus(
    sentences: Tensor,
    values: Tensor,
    language: Language,
    features: tuple[Feature, ...],
    ordered: bool,
) -> Corpus:
    meaning = values.numpy().astype(float)
    numbers = [k for k, feature in enumerate(features) if not feature.categorical]
    known = np.isfinite(meaning[:, numbers]).all(
        1
    )  # a continuous feature that is missing has no distance
    tree = None
    if ordered:
        for k, feature in enumerate(features):
            if NO_VALUE in feature.outcomes:
                meaning[meaning[:, k] == feature.outcomes.index(NO_VALUE), k] = np.nan
        tree = tree_nodes(meaning) if not numbers else None
    bag = language.bag(sentences)
    if language.ordered:
        positions = list(sentences.unflatten(-1, (language.longest, language.tokens)).unbind(1))
    else:
        positions = list(bag.split(list(language.groups), -1))
    symbols = torch.stack(
        [(one * torch.arange(1, one.shape[-1] + 1)).sum(-1) for one in positions], -1
    )
    return Corpus(
        sentences.numpy()[known],
        bag.numpy()[known],
        symbols.numpy()[known],
        meaning[known],
        None if tree is None else tree[known],
    )


def _questions(corpus: Corpus, kinds: list[bool]) -> dict[str, Question]:
    """The measures by name, in the order of the table."""
    _, tokens, symbols, features, tree = corpus
    similarity = partial(topographic_similarity, max_pairs=MAX_PAIRS)
    found = {
        "topographic_similarity": Question(partial(similarity, categorical=kinds), tokens, features)
    }
    if tree is not None:
        found["topographic_similarity_tree"] = Question(similarity, tokens, tree)
    return found | {
        "posdis": Question(
            partial(positional_disentanglement, categorical=kinds), symbols, features
        ),
        "bosdis": Question(
            partial(bag_of_symbols_disentanglement, categorical=kinds), tokens, features
        ),
        "context_independence": Question(
            partial(context_independence, categorical=kinds, count_missing=False), tokens, features
        ),
        "mutual_information": Question(
            partial(_normalised_information, kinds), corpus.sentences, features
        ),
        "tree_reconstruction_error": Question(partial(_relative_error, kinds), tokens, features),
    }


def _normalised_information(kinds: list[bool], sentences: Any, features: Any) -> Number:
    """Mean of I(sentence; f) / H(f) over features f that vary."""
    found = mutual_information(sentences, features, kinds)
    if np.isnan(found.normalised).all():
        return Number(np.nan, found.reason)
    return Number(float(np.nanmean(found.normalised)), "")


def _relative_error(kinds: list[bool], sentences: Any, features: Any) -> Number:
    found = tree_reconstruction_error(sentences, features, kinds)
    return Number(found.relative, found.reason)


def _measure(name: str, question: Question, seed: int) -> dict[str, Any]:
    """One row's numbers."""
    measure, sentences, features = question
    alternative: Literal["greater", "less"] = (
        "less" if name == "tree_reconstruction_error" else "greater"
    )
    row: dict[str, Any] = {"n": len(sentences)}
    if name.startswith("topographic_similarity"):
        found = measure(
            sentences, features, seed=seed, resamples=RESAMPLES, permutations=PERMUTATIONS
        )
        row |= found._asdict()
        measure = partial(measure, max_pairs=MEANING_PAIRS)
    else:
        found = measure(sentences, features)
        null = shuffled_null(
            measure, sentences, features, PERMUTATIONS, seed, alternative=alternative
        )
        low, high = sampling_interval(measure, sentences, features, RESAMPLES, seed)
        row |= {"value": found.value, "low": low, "high": high, "reason": found.reason}
        row |= {"null_mean": null.mean, "null_sd": null.sd, "p_value": null.p_value}
    holistic = shuffled_null(
        measure,
        sentences,
        features,
        MEANING_PERMUTATIONS,
        seed,
        shuffle="meanings",
        alternative=alternative,
    )
    row |= {f"holistic_{key}": getattr(holistic, key) for key in ("mean", "sd", "p_value")}
    return row


def _information(
    corpus: Corpus, features: tuple[Feature, ...], tokens: list[str], seed: int
) -> pd.DataFrame:
    kinds = [feature.categorical for feature in features]

    def of_tokens(sentences: Any, meaning: Any) -> np.ndarray:
        return bag_of_symbols_disentanglement(sentences, meaning, kinds).information

    of_sentences = partial(mutual_information, categorical=kinds)
    whole = of_sentences(corpus.sentences, corpus.features)
    null = shuffled_null(of_tokens, corpus.tokens, corpus.features, PERMUTATIONS, seed)
    null_whole = shuffled_null(of_sentences, corpus.sentences, corpus.features, PERMUTATIONS, seed)
    columns = {"information": np.vstack([of_tokens(corpus.tokens, corpus.features), whole.value])}
    for column, key in (("null_mean", "mean"), ("null_sd", "sd"), ("p_value", "p_value")):
        columns[column] = np.vstack([getattr(null, key), getattr(null_whole, key)])
    table = pd.DataFrame({column: cells.T.reshape(-1) for column, cells in columns.items()})
    table.insert(1, "entropy", np.repeat(whole.entropy, len(tokens) + 1))
    table.insert(0, "token", [*tokens, SENTENCE] * len(features))
    table.insert(0, "feature", np.repeat([feature.name for feature in features], len(tokens) + 1))
    return table


def _levels(corpus: Corpus, features: tuple[Feature, ...], tokens: list[str]) -> pd.DataFrame:
    kinds = [feature.categorical for feature in features]
    found = context_independence(corpus.tokens, corpus.features, kinds, count_missing=False)
    levels = [
        features[k].outcomes[int(level)] if kinds[k] else f"bin {int(level) + 1}"
        for k, level in zip(found.feature, found.level, strict=True)
    ]
    return pd.DataFrame(
        {
            "feature": [features[k].name for k in found.feature],
            "level": levels,
            "token": [tokens[k] for k in found.token],
            "value": found.per_level,
        }
    )


def _draw(
    corpora: dict[str, Corpus],
    kinds: list[bool],
    summary: pd.DataFrame,
    information: pd.DataFrame,
    tokens: list[str],
) -> Figure:
    hierarchy = all(corpus.tree is not None for corpus in corpora.values())
    figure = Figure(figsize=(11, 8.2), layout="constrained")
    panels = figure.subplot_mosaic(
        [["A", "B"], ["C", "D"]] if hierarchy else [["A", "C"], ["D", "D"]]
    )
    titles = iter("ABCD")
    similarity = summary.set_index(["measure", "split"])["value"]

    def draw_distances(axes: Axes, measure: str, label: str) -> None:
        pairs = {
            split: _pair_distances(c, kinds, measure.endswith("tree"))
            for split, c in corpora.items()
        }
        _draw_distances(axes, pairs, all(kinds))
        named = (
            corpora if len(corpora) <= 2 else list(corpora)[:1]
        )  # all are in the panel of measures
        rho = ", ".join(
            f"{similarity[measure, split]:.2f} ({SPLIT_NAMES.get(split, split)})" for split in named
        )
        axes.set_title(f"{next(titles)}  ρ = {rho}")
        axes.set_xlabel(label)

    label = f"features that differ, of {len(kinds)}" if all(kinds) else "distance of features"
    draw_distances(panels["A"], "topographic_similarity", label)
    if hierarchy:
        draw_distances(
            panels["B"], "topographic_similarity_tree", "edges between two nodes of the tree"
        )
    panels["C"].set_title(f"{next(titles)}  Measures, beside shuffled languages")
    _draw_measures(panels["C"], summary)
    panels["D"].set_title(f"{next(titles)}  What tokens tell of features, {SPLIT_NAMES['train']}")
    _draw_information(panels["D"], information[information["split"] == "train"], tokens)
    return figure


def _pair_distances(corpus: Corpus, kinds: list[bool], tree: bool) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the features and of the sentences of random pairs of inputs."""
    i, j = np.random.default_rng(0).integers(len(corpus.tokens), size=(2, SHOWN_PAIRS))
    i, j = i[i != j], j[i != j]
    sentences = sentence_distance(corpus.tokens, i, j)
    if tree and corpus.tree is not None:
        return feature_distance(corpus.tree, i, j), sentences
    return feature_distance(corpus.features, i, j, kinds), sentences


def _draw_distances(
    axes: Axes, pairs: dict[str, tuple[np.ndarray, np.ndarray]], whole: bool
) -> None:
    """Laws of sentence distance given feature distance, of the first split, and means of all."""
    pairs = {split: (x, y) for split, (x, y) in pairs.items() if len(x)}  # one input makes none
    if not pairs:
        axes.text(0.5, 0.5, "one input only", ha="center", va="center", transform=axes.transAxes)
        return
    for index, (split, (x, y)) in enumerate(pairs.items()):
        if whole:
            place, width = np.unique(x), 1.0
        else:
            width = max(float(np.quantile(x, 0.99)) / BINS, 1e-9)
            place = (np.unique((x / width).astype(int)) + 0.5) * width
        column = np.abs(x[:, None] - place).argmin(1)
        count = np.zeros((len(place), int(y.max()) + 1))
        np.add.at(count, (column, y), 1)
        shown = count.sum(1) >= min(LEAST_PAIRS, count.sum(1).max())
        mean = (count @ np.arange(count.shape[1]) / np.maximum(count.sum(1), 1))[shown]
        colour = SPLIT_COLOURS.get(split, GREY)
        axes.plot(
            place[shown],
            mean,
            color=colour,
            marker="o",
            markersize=4,
            label=SPLIT_NAMES.get(split, split),
        )
        axes.axhline(y.mean(), color=colour, linestyle=":", linewidth=1.2)
        if index == 0:
            law = count[shown] / count[shown].sum(1, keepdims=True)
            for at, heights in zip(place[shown], law, strict=True):
                image = axes.imshow(
                    heights[:, None], cmap=WHITE_TO_GREY, vmin=0, vmax=max(float(law.max()), 0.1), aspect="auto",
                    origin="lower", extent=(at - width / 2, at + width / 2, -0.5, len(heights) - 0.5), zorder=0,
                )  # fmt: skip
            axes.set_xlim(place[shown][0] - width / 2, place[shown][-1] + width / 2)
            axes.set_ylim(-0.5, np.flatnonzero(law.max(0) > 1e-3)[-1] + 0.5)
            add_scale(axes, image, f"share of pairs, {SPLIT_NAMES.get(split, split)}")
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
        error = np.stack([value - part["low"], part["high"] - value]).clip(min=0)
        axes.barh(
            y, value, 0.9 * height, xerr=error, color=SPLIT_COLOURS.get(split, GREY), ecolor="black",
            error_kw={"linewidth": 1}, label=SPLIT_NAMES.get(split, split),
        )  # fmt: skip
        axes.plot(part["null_mean"], y, linestyle="", markersize=6, **cross)
        axes.plot(part["holistic_mean"], y, linestyle="", markersize=5, **diamond)
        for at in y[np.isnan(value)]:
            axes.text(0.01, at, "undefined", va="center", fontsize=8)
    axes.set_yticks(range(len(names)), [MEASURE_NAMES[name] for name in names])
    axes.invert_yaxis()
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlim(
        min(0.0, float(summary["low"].min(skipna=True)) if summary["low"].notna().any() else 0.0),
        1.05,
    )
    axes.set_xlabel("value; best is 1, but 0 for the error")
    marks = [
        Line2D([], [], linestyle="", label="shuffled over inputs", **cross),
        Line2D([], [], linestyle="", label="shuffled over meanings", **diamond),
    ]
    handles, _ = axes.get_legend_handles_labels()
    axes.legend(
        handles=[*handles, *marks], loc="upper center", bbox_to_anchor=(0.35, -0.13), ncols=2
    )


def _draw_information(axes: Axes, table: pd.DataFrame, tokens: list[str]) -> None:
    cells = table[table["token"] != SENTENCE]
    features = list(cells["feature"].unique())
    excess = cells["information"].to_numpy().reshape(len(features), len(tokens))
    image = axes.imshow(
        excess,
        cmap=WHITE_TO_BLUE,
        vmin=0,
        vmax=max(float(np.nanmax(excess, initial=0)), 0.01),
        aspect="auto",
    )
    axes.set_yticks(range(len(features)), [plain(name) for name in features])
    every = max(1, len(tokens) // 24)
    axes.set_xticks(range(0, len(tokens), every), tokens[::every])
    axes.set_xlabel("token")
    add_scale(axes, image, "I(token; feature), bits")
