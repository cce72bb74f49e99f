"""Feature-wise composition: whether sentences built one token for one feature are understood like
sampled ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from plot_attractors.data import Feature, Labelled
from plot_attractors.evaluation import probes
from plot_attractors.evaluation.metrics.bootstrap import Estimate, bootstrap, resample, root
from plot_attractors.evaluation.metrics.composition import (
    Composition,
    Embedding,
    best_sentences,
    combinations,
    compose,
    shuffled,
    token_counts,
)
from plot_attractors.evaluation.probes import FeatureDecoder
from plot_attractors.language import Language
from plot_attractors.model.protocols import Speaker
from plot_attractors.plots.style import (
    BLUE,
    CLASS_COLOURS,
    CRIMSON,
    GREY,
    RED,
    SPLIT_NAMES,
    add_scale,
    plain,
    save,
    style,
)

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Feature-wise composition"
CAPTIONS = {
    "composition": (
        "Is the language compositional? A sentence can be composed: for one feature of the input "
        "after the other, in a "
        "tree from the first branch down, the token is added from which a listener best "
        "understands all features so "
        "far. Bars: how well another listener, trained apart, names each feature from sentences "
        "that the model says "
        "(red) and from composed ones (blue); vertical lines: 95 % intervals over inputs. Composed "
        "sentences do as "
        "well as sampled ones where the language has a word for each outcome of a feature that can "
        "be put after the "
        "words for the features before. Grey crosses: sentences composed in the same language "
        "after sentences of equal "
        "length have exchanged their meanings (range over several exchanges), what composing "
        "reaches where words "
        "mean nothing by themselves; a compositional language is far above. Black: of all "
        "sentences, the one "
        "that the first listener understands best, which may be looked for but is not composed. "
        "Dashed: a guess "
        "without a look. For features that are numbers the root mean squared error is drawn: lower "
        "is better."
    ),
    "words": (
        "Which tokens were added. Left, for a tree: at every branch the token that was added for "
        "it, in the colour of "
        "its group of tokens that exclude each other; squares with a red edge were held out of "
        "training. If a token "
        "meant “left at the third branch” everywhere, all left branches of a row would have one "
        "letter. Right: for "
        "each outcome of each feature, the share of contexts (what has been described before; "
        "their number is in "
        "brackets) in which each token was added for it; – is none. Where a token means an "
        "outcome, a row has one "
        "black field."
    ),
}

INPUTS, DRAWS = 2000, 2  # inputs of each split, and sampled sentences of each
ORDERS = 4  # random orders of features without an order of their own, for each combination of them
SHUFFLES = 20  # languages with exchanged meanings
MOST_SENTENCES = 10_000  # of a language that is searched through, and shuffled
LISTED = 500  # composed sentences of each split in sentences.csv
ENDED = "none"  # outcome of a tree's levels below an input's own
SOURCES = ("sampled", "composed", "best", "shuffled")
SOURCE_NAMES = {
    "sampled": "sampled sentence",
    "composed": "composed sentence",
    "best": "best of all sentences",
    "shuffled": "composed, meanings exchanged",
}
SOURCE_COLOURS = {"sampled": RED, "composed": BLUE}
WORDS = ["split", "feature", "outcome", "contexts", "token", "share", "shuffled"]


class Rule(NamedTuple):
    """How features are described: whether one may go without a token; in a tree, whether "none" at
    levels below an input's own is described like "left" and "right", and whether all levels are.
    """

    name: str
    optional: bool = False
    ended: bool = False
    all_levels: bool = False


PAPER = Rule("paper")
OPTIONAL = Rule("optional token", optional=True, ended=True)
RULES = (PAPER, OPTIONAL)
TREE_RULES = (
    PAPER,
    Rule("ended levels too", ended=True),
    OPTIONAL,
    Rule("all levels", all_levels=True),
)


class Composed(NamedTuple):
    """What a rule makes of the m combinations of features of a split's inputs.

    - ``values``: (m, F), NaN for features that are left out; ``told``: the same, NaN for those that
      are not described, either; ``row``: (n,) the combination of each input;
    - ``order``: (m · orders, K); ``composition``: of each combination in each of its orders;
    - ``scores``, ``losses``: for each source, (n, F) mean scores and losses of its sentences;
    - ``shuffles``: (SHUFFLES, F) mean scores in shuffled languages, no rows where there are none;
      ``shares``: (SHUFFLES, outcomes) shares of contexts in which their commonest token was added
      for an outcome.
    """

    values: Tensor
    told: Tensor
    row: Tensor
    order: Tensor
    composition: Composition
    scores: dict[str, Tensor]
    losses: dict[str, Tensor]
    shuffles: Tensor
    shares: Tensor


class Split(NamedTuple):
    """Inputs' features (n, F), sentences sampled for them (n, draws, width), and bootstrap weights
    (resamples, n).
    """

    values: Tensor
    sentences: Tensor
    times: Tensor


def applies(run: Run) -> bool:
    """Whether the run's model says sentences, and its data knows features of the inputs."""
    return probes.is_described(run)


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, ``sentences.csv``, ``words.csv``, ``rules.csv`` and two figures into
    ``out``.

    Sentences are composed by `metrics.composition.compose` with the first of the run's two decoders
    and scored with the second. Each feature takes one token as long as one may be added: in a tree
    the branches taken, from the root down, to the fourth level; elsewhere all features, in `ORDERS`
    random orders for each combination. A tree's levels below an input's own take no token, so that
    a language with one word for each branch is understood in full; their "none" is scored like
    other outcomes.

    - ``summary.csv`` (split, feature, kind, source, value, low, high, chance, loss, n): accuracy,
      or RMSE in the feature's units, of the second decoder, given the sentences of each source:
      ``sampled`` by the model; ``composed``; ``best``, of all sentences the one with the least
      joint loss for the first decoder; ``shuffled``, composed in languages of which sentences of
      one length have exchanged their meanings (`metrics.composition.shuffled`). 95 % bootstrap
      intervals over inputs; of ``shuffled``, the mean and the 2.5th and 97.5th percentile over
      languages, without a loss. Chance is the share of the commonest outcome, or the standard
      deviation, among training inputs; loss in nats, or in units of the variance. A tree has a row
      of the mean of its levels. Inputs share few combinations of features, and so few composed
      sentences, above all in a tree's held-out classes: intervals over inputs do not say how other
      combinations would fare.
    - ``sentences.csv`` (split, features, order, composed, tokens, loss_1, …, sampled, share, n):
      every combination of features (at most `LISTED` a split), as "colour=red, size=4", and order:
      the composed sentence, its tokens in the order in which they were added (– for none), the
      joint loss after each, the commonest sampled sentence and its share, and the number of inputs.
    - ``words.csv`` (split, feature, outcome, contexts, token, share, shuffled): the token most
      often added for an outcome, and the share of contexts in which it was
      (`metrics.composition.token_counts`); the same share of shuffled languages, mean, since with
      few contexts it is high by chance.
    - ``rules.csv`` (split, rule, levels, length, sampled, composed, best, shuffled): mean accuracy
      over the categorical features, by other readings of the text: "none" takes a token, too (ended
      levels too); so it may, but any feature may go without one (optional token); all levels of the
      tree are described and scored (all levels). length: mean number of tokens of composed
      sentences.

    best and shuffled are left out where sentences are too many, or shorter ones may not be said.
    Source: Section *Feature-wise composition*.
    """
    model, data = probes.require_described(run)
    features, pair = data.features, probes.feature_decoders(run)
    chance = probes.chance(data.feature_values(run.data.batch(probes.INPUTS)), features)
    rows: list[dict[str, Any]] = []
    rules: list[dict[str, Any]] = []
    sentences: list[pd.DataFrame] = []
    words: list[dict[str, Any]] = []
    composed: dict[str, Composed] = {}
    for split in run.data.splits:
        batch = run.data.batch(INPUTS, split)
        inputs = Split(
            data.feature_values(batch), model.describe(batch.x, DRAWS).s, resample(batch.x)
        )
        for rule in TREE_RULES if _is_tree(data) else RULES:
            found = _compose(model, data, pair, inputs, rule)
            rules.append(
                {"split": split, "rule": rule.name} | _average(found, features, model.language)
            )
            if rule is PAPER:
                composed[split] = found
        found = composed[split]
        rows += [{"split": split} | row for row in _summarise(data, found, inputs.times, chance)]
        sentences.append(
            _list_sentences(model.language, features, found, inputs).assign(split=split)
        )
        words += [{"split": split} | row for row in _list_words(model.language, features, found)]
    table = pd.DataFrame(rows)
    table.to_csv(out / "summary.csv", index=False)
    listed = pd.concat(sentences, ignore_index=True)
    listed[["split", *listed.columns.drop("split")]].to_csv(out / "sentences.csv", index=False)
    pd.DataFrame(words, columns=WORDS).to_csv(out / "words.csv", index=False)
    pd.DataFrame(rules).to_csv(out / "rules.csv", index=False)
    with style():
        save(_draw(table, features), out / "composition")
        if any(f.categorical for f in features):
            save(_draw_words(model.language, data, composed), out / "words")


def _is_tree(data: Labelled) -> bool:
    return probes.leading_levels(data) > 0 and all(
        f.outcomes[:1] == (ENDED,) for f in data.features
    )


def _compose(
    model: Speaker,
    data: Labelled,
    pair: tuple[FeatureDecoder, FeatureDecoder],
    inputs: Split,
    rule: Rule,
) -> Composed:
    listener, judge = pair
    language, features = model.language, data.features
    levels = probes.leading_levels(data) if not rule.all_levels else 0
    described = torch.arange(levels or len(features))
    meant = torch.full_like(inputs.values, torch.nan)
    meant[:, described] = inputs.values[:, described]
    values, row = combinations(meant)
    told = (
        torch.where(values > 0, values, torch.nan) if _is_tree(data) and not rule.ended else values
    )
    if data.ordered:
        order = described.expand(len(values), 1, -1)
    else:
        order = torch.rand(len(values), ORDERS, len(described)).argsort(-1)
    composition = compose(
        language,
        model.embed,
        listener,
        told.repeat_interleave(order.shape[1], 0),
        order.flatten(0, 1),
        rule.optional,
    )

    def judged(embed: Embedding, sentences: Tensor, of: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and losses (k, F) of sentences (k, draws, width) for feature values (k, F)."""
        prediction = judge(embed(sentences))
        return prediction.score(of[:, None]).mean(1), prediction.loss(of[:, None]).mean(1)

    results = {"sampled": judged(model.embed, inputs.sentences, meant)}
    results["composed"] = tuple(  # type: ignore[assignment]
        part[row]
        for part in judged(
            model.embed, composition.sentence.unflatten(0, (len(values), -1)), values
        )
    )
    shuffles, shares = [], []
    if language.count <= MOST_SENTENCES and language.min_length <= 1:
        best = best_sentences(language.sentences, model.embed, listener, values)
        score, loss = judged(model.embed, best[:, None], values)
        results["best"] = score[row], loss[row]
        for _ in range(SHUFFLES):
            embed = shuffled(language, model.embed)
            control = compose(language, embed, listener, told, order[:, 0], rule.optional)
            shuffles.append(
                judged(embed, control.sentence[:, None], values)[0][row].double().nanmean(0)
            )
            shares.append(_shares(token_counts(language, control, told, order[:, 0], features)))
    return Composed(
        values=values,
        told=told,
        row=row,
        order=order.flatten(0, 1),
        composition=composition,
        scores={source: score for source, (score, _) in results.items()},
        losses={source: loss for source, (_, loss) in results.items()},
        shuffles=torch.stack(shuffles) if shuffles else torch.empty(0, len(features)),
        shares=torch.stack(shares)
        if shares
        else torch.empty(0, sum(len(f.outcomes) for f in features)),
    )


def _shares(counts: list[Tensor]) -> Tensor:
    """(outcomes,) of all features' counts, the share of contexts that the commonest token has; NaN
    without contexts.
    """
    return torch.cat([c.amax(-1).double() / c.sum(-1) for c in counts])


def _average(found: Composed, features: Sequence[Feature], language: Language) -> dict[str, Any]:
    """A row of rules.csv; accuracies are averaged over the categorical features described."""
    kept = torch.tensor([f.categorical for f in features]) & ~found.values.isnan().all(0)

    def mean(score: Tensor) -> float:
        return (
            float(score.double().nanmean(0)[kept].mean()) if kept.any() and len(score) else np.nan
        )

    lengths = (
        language.length(found.composition.sentence).unflatten(0, (len(found.values), -1)).mean(1)
    )
    row = {"levels": found.order.shape[1], "length": float(lengths[found.row].mean())}
    row |= {
        source: mean(found.scores[source]) if source in found.scores else np.nan
        for source in SOURCES[:3]
    }
    return row | {"shuffled": mean(found.shuffles)}


def _summarise(
    data: Labelled, found: Composed, times: Tensor, chance: Tensor
) -> list[dict[str, Any]]:
    """The rows of summary.csv of one split."""
    features, levels = data.features, probes.leading_levels(data)
    rows: list[dict[str, Any]] = []
    for source in SOURCES:
        if source in found.scores:
            score, loss = found.scores[source], found.losses[source].double().nanmean(0)
            mean = bootstrap(score[:, :levels].nanmean(1, keepdim=True), times)
            estimate = bootstrap(score, times)
        elif len(found.shuffles):
            loss = torch.full_like(chance, torch.nan)
            estimate, mean = (
                _range(part)
                for part in (found.shuffles, found.shuffles[:, :levels].mean(1, keepdim=True))
            )
        else:
            continue
        estimate = root(estimate, features)
        known = (~found.values[found.row].isnan()).sum(0)
        for k, f in enumerate(features):
            if known[k]:
                row = {name: float(part[k]) for name, part in estimate._asdict().items()}
                row |= {"chance": float(chance[k]), "loss": float(loss[k])}
                names = {"feature": f.name, "kind": f.kind, "source": source}
                rows.append(names | row | {"n": int(known[k])})
        if levels:
            row = {name: float(part) for name, part in mean._asdict().items()}
            row |= {"chance": float(chance[:levels].mean()), "loss": float(loss[:levels].mean())}
            names = {"feature": f"mean of {levels}", "kind": "categorical", "source": source}
            rows.append(names | row | {"n": len(found.row)})
    return rows


def _range(values: Tensor) -> Estimate:
    """Mean and 2.5th and 97.5th percentile of values (SHUFFLES, K)."""
    low, high = values.quantile(torch.tensor([0.025, 0.975], dtype=values.dtype), 0)
    return Estimate(values.mean(0), low, high)


def _list_sentences(
    language: Language, features: Sequence[Feature], found: Composed, inputs: Split
) -> pd.DataFrame:
    """The rows of sentences.csv of one split."""
    orders = len(found.order) // len(found.values)
    distinct, index = inputs.sentences.flatten(0, 1).unique(dim=0, return_inverse=True)
    draws = inputs.sentences.shape[1]
    counts = torch.zeros(len(found.values), len(distinct), dtype=torch.int64)
    told = found.row.repeat_interleave(draws), index
    counts.index_put_(told, torch.ones(len(index), dtype=torch.int64), accumulate=True)
    most, commonest = counts.max(-1)
    rows = []
    for i in range(min(len(found.order), LISTED)):
        combination, order = i // orders, found.order[i].tolist()
        added = found.composition.added[i].tolist()
        row: dict[str, Any] = {"features": _names(features, found.values[combination].tolist())}
        row["order"] = " ".join(features[k].name for k in order)
        row["composed"] = language.name(found.composition.sentence[i])
        row["tokens"] = " ".join(
            "–" if j < 0 else language.token_name(j % language.tokens) for j in added
        )
        row |= {
            f"loss_{j + 1}": value for j, value in enumerate(found.composition.loss[i].tolist())
        }
        row["sampled"] = language.name(distinct[commonest[combination]])
        row["share"] = int(most[combination]) / int(counts[combination].sum())
        rows.append(row | {"n": int(counts[combination].sum()) // draws})
    return pd.DataFrame(rows).drop_duplicates()  # of few features there are few orders


def _names(features: Sequence[Feature], values: Sequence[float]) -> str:
    """For example "colour=red, size=4", without missing values."""
    pairs = zip(features, values, strict=True)
    return ", ".join(f"{f.name}={_outcome(f, value)}" for f, value in pairs if not np.isnan(value))


def _outcome(feature: Feature, value: float) -> str:
    return feature.outcomes[int(value)] if feature.categorical else f"{value:.4g}"


def _list_words(
    language: Language, features: Sequence[Feature], found: Composed
) -> list[dict[str, Any]]:
    """The rows of words.csv of one split: outcomes that occur."""
    counts = torch.cat(_counts(language, features, found))
    outcomes = [(f.name, name) for f in features for name in f.outcomes]
    rows = []
    for k, (name, outcome) in enumerate(outcomes):
        contexts, token = int(counts[k].sum()), int(counts[k].argmax())
        if contexts:
            chosen = "–" if token == language.tokens else language.token_name(token)
            row = {"feature": name, "outcome": outcome, "contexts": contexts, "token": chosen}
            control = float(found.shares[:, k].mean()) if len(found.shares) else np.nan
            rows.append(row | {"share": int(counts[k].max()) / contexts, "shuffled": control})
    return rows


def _counts(language: Language, features: Sequence[Feature], found: Composed) -> list[Tensor]:
    told = found.told.repeat_interleave(len(found.order) // len(found.told), 0)
    return token_counts(language, found.composition, told, found.order, features)


def _draw(table: pd.DataFrame, features: Sequence[Feature]) -> Figure:
    # A row of panels for each split: accuracy, and RMSE, each where there is one.
    continuous = table["feature"].isin([f.name for f in features if not f.categorical])
    panels = [
        (name, part)
        for name, part in (("accuracy", table[~continuous]), ("RMSE", table[continuous]))
        if len(part)
    ]
    splits = list(table["split"].unique())
    figure = Figure(figsize=(10.5, 0.7 + 2.9 * len(splits)), layout="constrained")
    widths = [max(3, part["feature"].nunique()) for _, part in panels]
    grid = figure.subplots(len(splits), len(panels), squeeze=False, width_ratios=widths)
    for row, split in zip(grid, splits, strict=True):
        for axes, (name, part) in zip(row, panels, strict=True):
            _draw_bars(axes, part[part["split"] == split])
            axes.set_title(SPLIT_NAMES.get(split, split))
            axes.set_ylabel(name)
            axes.set_ylim(0, 1.03 if name == "accuracy" else None)
    handles: list[Any] = [
        Patch(color=SOURCE_COLOURS[s], label=SOURCE_NAMES[s]) for s in ("sampled", "composed")
    ]
    if (table["source"] == "best").any():
        control = Line2D(
            [], [], color=GREY, marker="x", linestyle="-", label=SOURCE_NAMES["shuffled"]
        )
        best = Line2D([], [], color="black", linewidth=2, label=SOURCE_NAMES["best"])
        handles += [control, best]
    handles.append(
        Line2D([], [], color="black", linestyle="--", linewidth=1, label="without a look")
    )
    figure.legend(handles=handles, loc="outside upper center", ncols=3)
    return figure


def _draw_bars(axes: Axes, part: pd.DataFrame) -> None:
    names = list(part["feature"].unique())
    x = np.arange(len(names))
    by_source = {
        source: of.set_index("feature").loc[names] for source, of in part.groupby("source")
    }
    for source, shift in (("sampled", -0.28), ("composed", 0.0)):
        of = by_source[source]
        axes.bar(x + shift, of["value"], width=0.26, color=SOURCE_COLOURS[source])
        axes.vlines(x + shift, of["low"], of["high"], color="black", linewidth=1)
    if "shuffled" in by_source:
        of = by_source["shuffled"]
        axes.vlines(x + 0.23, of["low"], of["high"], color=GREY, linewidth=1.5)
        axes.plot(x + 0.23, of["value"], color=GREY, marker="x", linestyle="none")
    if "best" in by_source:
        axes.hlines(by_source["best"]["value"], x - 0.13, x + 0.13, color="black", linewidth=2)
    axes.hlines(
        by_source["sampled"]["chance"],
        x - 0.45,
        x + 0.4,
        color="black",
        linestyle="--",
        linewidth=1,
    )
    axes.set_xticks(x, [plain(name, 14) for name in names], rotation=90 if len(names) > 8 else 0)
    axes.set_xlim(-0.6, len(names) - 0.4)


def _draw_words(language: Language, data: Labelled, composed: dict[str, Composed]) -> Figure:
    tree = _is_tree(data)
    found = composed["train"]
    counts = _counts(language, data.features, found)
    outcomes = [
        (f"{f.name} {name}", count)
        for f, of_feature in zip(data.features, counts, strict=True)
        for name, count in zip(f.outcomes, of_feature, strict=True)
        if count.sum()
    ]
    shares = torch.stack([count / count.sum() for _, count in outcomes])
    height = max(3.5, 0.9 + 0.27 * len(outcomes))
    figure = Figure(figsize=(10.5, height), layout="constrained")
    panels = figure.subplots(
        1, 2 if tree else 1, squeeze=False, width_ratios=[1.35, 1] if tree else [1]
    )[0]
    if tree:
        _draw_tree(panels[0], language, composed)
    axes = panels[-1]
    image = axes.imshow(shares.numpy(), cmap="Greys", vmin=0, vmax=1, aspect="auto")
    tokens = [language.token_name(j) for j in range(language.tokens)]
    many = max(1, len(tokens) // 26)
    axes.set_xticks(range(0, len(tokens) + 1, many), [*tokens, "–"][::many])
    names = [f"{plain(name)} ({int(count.sum())})" for name, count in outcomes]
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("token added")
    axes.set_title(f"Token by outcome, {SPLIT_NAMES['train']}")
    add_scale(axes, image, "share of contexts", shrink=0.6)
    return figure


def _draw_tree(axes: Axes, language: Language, composed: dict[str, Composed]) -> None:
    """Every node's token, placed as in the tree; a node held out of training is one that only
    held-out inputs pass.
    """
    words: dict[tuple[int, ...], tuple[int, bool]] = {}  # path to a node → token, held out
    for split, found in composed.items():
        steps = found.order.shape[1]
        for path, added in zip(
            found.values[:, :steps].tolist(), found.composition.added.tolist(), strict=True
        ):
            for depth in range(1, steps + 1):
                if path[depth - 1] > 0:
                    words.setdefault(
                        tuple(int(b) for b in path[:depth]), (added[depth - 1], split != "train")
                    )

    def place(path: tuple[int, ...]) -> tuple[float, int]:
        return sum((b - 1.5) * 2.0**-depth for depth, b in enumerate(path)), -len(path)

    for path, (token, held_out) in words.items():
        (x, y), (parent_x, parent_y) = place(path), place(path[:-1])
        axes.plot([parent_x, x], [parent_y, y], color=GREY, linewidth=0.8, zorder=1)
        group = int(language.token_group[token % language.tokens]) if token >= 0 else -1
        colour = CLASS_COLOURS[group % len(CLASS_COLOURS)] if token >= 0 else GREY
        edge = CRIMSON if held_out else colour
        axes.scatter(
            x,
            y,
            s=230,
            marker="s" if held_out else "o",
            color=colour,
            edgecolor=edge,
            linewidth=2,
            zorder=2,
        )
        name = language.token_name(token % language.tokens) if token >= 0 else "–"
        ink = "black" if np.dot(to_rgb(colour), (0.299, 0.587, 0.114)) > 0.5 else "white"
        axes.text(x, y, name, color=ink, ha="center", va="center_baseline", fontsize=9, zorder=3)
    deepest = max(len(path) for path in words)
    axes.set_xlim(-1.02, 1.02)
    axes.set_ylim(-deepest - 0.4, 0.15)
    axes.set_yticks(range(-1, -deepest - 1, -1), [f"branch {d}" for d in range(1, deepest + 1)])
    axes.set_xticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title("Token added for each branch, left and right")
