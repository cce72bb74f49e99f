"""How well composed sentences are understood, beside sampled and best ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data import Channels, Feature, Labelled
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
from plot_attractors.evaluation.probes import Prediction
from plot_attractors.language import Language
from plot_attractors.model.protocols import SentenceModel
from plot_attractors.runs import Run

MOST_SENTENCES = 10_000  # of a language that is searched through, and shuffled
LISTED = 500  # composed sentences of each split in sentences.csv
ENDED = "none"  # outcome of a tree's levels below an input's own
NONE = "–"  # stands for no token


def prediction_of_channels(channels: Channels, of: Prediction) -> Prediction:
    """P(channel) = Σ P(colour) over the colours that have it."""
    if not any(channels.apart):
        return of
    outputs, constants = [], []
    for k, (part, apart, places) in enumerate(
        zip(of.split, channels.apart, channels.places, strict=True)
    ):
        constants += [k] * (3 if apart else 1)
        for place in places.T if apart else ():
            channel = [part[..., place == value].logsumexp(-1) for value in (0, 1)]
            outputs.append(torch.stack(channel, -1))
        outputs += [] if apart else [part]
    return Prediction(
        channels.features, torch.cat(outputs, -1), of.centre[constants], of.scale[constants]
    )


class Inputs(NamedTuple):
    """Inputs' features (n, F), sentences sampled for them (n, draws, width), and bootstrap weights
    (resamples, n).
    """

    values: Tensor
    sentences: Tensor
    times: Tensor


class Composed(NamedTuple):
    """What is made of the m combinations of features of a split's inputs.

    - ``values``: (m, F), NaN for features that are left out; ``row``: (n,) combination of an input;
    - ``given``: (m · orders, K) what is described, NaN for what is not; ``order``: (m · orders, K);
    - ``composition``: of each combination in each of its orders;
    - ``scores``, ``losses``: for each source, (n, F) mean scores and losses of its sentences;
    - ``shuffles``: (shuffles, F) mean scores in shuffled languages.
    """

    values: Tensor
    row: Tensor
    given: Tensor
    order: Tensor
    composition: Composition
    scores: dict[str, Tensor]
    losses: dict[str, Tensor]
    shuffles: Tensor


def measure(
    run: Run, inputs: int, draws: int, orders: int, shuffles: int, training: probes.Training
) -> dict[str, pd.DataFrame]:
    """The tables of the analysis ``composition``."""
    model, data = probes.require_described(run)
    language, features, channels = model.language, data.features, Channels(data.features)
    pair = probes.feature_decoders(run, training)
    known = run.data.batch(training.decoder_inputs)
    chance = probes.chance(data.feature_values(known), features)
    tree = _is_tree(data)
    parts: dict[str, list[pd.DataFrame]] = {}
    branches: dict[str, dict[str, Any]] = {}
    for split in run.data.splits:
        batch = run.data.batch(inputs, split)
        sentences = model.describe(batch.x, draws).s
        of = Inputs(data.feature_values(batch), sentences, resample(batch.x))
        found = _compose(model, data, channels, pair, of, orders, shuffles)
        counts = token_counts(
            language, found.composition, found.given, found.order, channels.features
        )
        tables = {
            "summary": _summarise(data, found, of.times, chance),
            "sentences": _list_sentences(language, features, channels, found, of),
            "added": _list_added(language, channels.features, counts),
        }
        for name, table in tables.items():
            table.insert(0, "split", split)
            parts.setdefault(name, []).append(table)
        for row in _list_branches(language, found) if tree else ():
            branches.setdefault(row["path"], row | {"held_out": int(split != "train")})
    result = {f"{name}.csv": pd.concat(tables) for name, tables in parts.items()}
    if tree:
        result["branches.csv"] = pd.DataFrame(branches.values())
    return result


def _is_tree(data: Labelled) -> bool:
    ends = all(f.outcomes[:1] == (ENDED,) for f in data.features)
    return ends and probes.leading_levels(data) > 0


def _compose(
    model: SentenceModel,
    data: Labelled,
    channels: Channels,
    pair: probes.Pair,
    inputs: Inputs,
    orders: int,
    shuffles: int,
) -> Composed:
    composer, judge = pair
    language, features = model.language, data.features
    described = torch.arange(probes.leading_levels(data) or len(features))
    meant = torch.full_like(inputs.values, torch.nan)
    meant[:, described] = inputs.values[:, described]
    values, row = combinations(meant)
    given = channels.values(values)
    if _is_tree(data):
        given = torch.where(given > 0, given, torch.nan)
    if data.ordered:
        order = described.expand(len(values), 1, -1)
    else:
        order = torch.rand(len(values), orders, len(channels.features)).argsort(-1)

    def listener(z: Tensor) -> Prediction:
        return prediction_of_channels(channels, composer(z))

    def judged(embed: Embedding, sentences: Tensor, of: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and losses (k, F) of sentences (k, draws, width) for feature values (k, F)."""
        prediction = judge(embed(sentences))
        return prediction.score(of[:, None]).mean(1), prediction.loss(of[:, None]).mean(1)

    each, every = given.repeat_interleave(order.shape[1], 0), order.flatten(0, 1)
    composition = compose(language, model.embed, listener, each, every)
    found = {"sampled": judged(model.embed, inputs.sentences, meant)}
    sentences = composition.sentence.unflatten(0, (len(values), -1))
    score, loss = judged(model.embed, sentences, values)
    found["composed"] = score[row], loss[row]
    scores = []
    if language.count <= MOST_SENTENCES and language.min_length <= 1:
        best = best_sentences(language.sentences, model.embed, listener, channels.values(values))
        score, loss = judged(model.embed, best[:, None], values)
        found["best"] = score[row], loss[row]
        for _ in range(shuffles):
            embed = shuffled(language, model.embed)
            control = compose(language, embed, listener, given, order[:, 0])
            score, _ = judged(embed, control.sentence[:, None], values)
            scores.append(score[row].double().nanmean(0))
    return Composed(
        values, row, each, every, composition,
        scores={source: score for source, (score, _) in found.items()},
        losses={source: loss for source, (_, loss) in found.items()},
        shuffles=torch.stack(scores) if scores else torch.empty(0, len(features)),
    )  # fmt: skip


def _summarise(data: Labelled, found: Composed, times: Tensor, chance: Tensor) -> pd.DataFrame:
    """The rows of summary.csv of one split."""
    features, levels = data.features, probes.leading_levels(data)
    known = (~found.values[found.row].isnan()).sum(0)
    estimates = {
        source: (bootstrap(score, times), bootstrap(_mean(score, levels), times))
        for source, score in found.scores.items()
    }
    if len(found.shuffles):
        mean = found.shuffles[:, :levels].mean(1, keepdim=True)
        estimates["shuffled"] = _range(found.shuffles), _range(mean)
    rows = []
    for source, (estimate, mean_estimate) in estimates.items():
        loss = torch.full_like(chance, torch.nan)
        if source in found.losses:
            loss = found.losses[source].double().nanmean(0)
        columns = {"chance": chance, "loss": loss}
        estimate = root(estimate, features)
        listed = probes.feature_rows(features, estimate, columns, known, mean_estimate, levels)
        rows += [row | {"source": source} for row in listed if row["n"]]
    names = ["feature", "kind", "source", "value", "low", "high", "chance", "loss", "n"]
    return pd.DataFrame(rows, columns=names)


def _mean(score: Tensor, levels: int) -> Tensor:
    return score[:, :levels].nanmean(1, keepdim=True)


def _range(values: Tensor) -> Estimate:
    """Mean and 2.5th and 97.5th percentile of values (shuffles, K)."""
    low, high = values.quantile(torch.tensor([0.025, 0.975], dtype=values.dtype), 0)
    return Estimate(values.mean(0), low, high)


def _list_sentences(
    language: Language,
    features: Sequence[Feature],
    channels: Channels,
    found: Composed,
    inputs: Inputs,
) -> pd.DataFrame:
    """The rows of sentences.csv of one split."""
    orders = len(found.order) // len(found.values)
    distinct, index = inputs.sentences.flatten(0, 1).unique(dim=0, return_inverse=True)
    draws = inputs.sentences.shape[1]
    counts = torch.zeros(len(found.values), len(distinct), dtype=torch.int64)
    cell = found.row.repeat_interleave(draws), index
    counts.index_put_(cell, torch.ones_like(index), accumulate=True)
    most, commonest = counts.max(-1)
    rows = []
    for i in range(min(len(found.order), LISTED)):
        combination = i // orders
        total = int(counts[combination].sum())
        row: dict[str, Any] = {"features": _names(features, found.values[combination].tolist())}
        row["order"] = " ".join(channels.features[k].name for k in found.order[i].tolist())
        row["composed"] = language.name(found.composition.sentence[i])
        added = found.composition.added[i].tolist()
        row["tokens"] = " ".join(_token(language, j) for j in added)
        losses = found.composition.loss[i].tolist()
        row |= {f"loss_{j + 1}": loss for j, loss in enumerate(losses)}
        row["sampled"] = language.name(distinct[commonest[combination]])
        row["share"] = int(most[combination]) / total
        rows.append(row | {"n": total // draws})
    return pd.DataFrame(rows).drop_duplicates()  # of few features there are few orders


def _names(features: Sequence[Feature], values: Sequence[float]) -> str:
    """For example "colour=red, size=4", without missing values."""
    known = [(f, v) for f, v in zip(features, values, strict=True) if not np.isnan(v)]
    return ", ".join(
        f"{f.name}={f.outcomes[int(v)] if f.categorical else f'{v:.4g}'}" for f, v in known
    )


def _token(language: Language, entry: int) -> str:
    return NONE if entry < 0 else language.token_name(entry % language.tokens)


def _list_added(
    language: Language, features: Sequence[Feature], counts: list[Tensor]
) -> pd.DataFrame:
    """The rows of added.csv of one split: outcomes that occur, and all tokens."""
    tokens = [*(language.token_name(j) for j in range(language.tokens)), NONE]
    parts = []
    for f, of_feature in zip(features, counts, strict=True):
        for name, count in zip(f.outcomes, of_feature, strict=True):
            if count.any():
                columns = {"feature": f.name, "outcome": name, "token": tokens, "contexts": count}
                parts.append(pd.DataFrame(columns))
    return pd.concat(parts) if parts else pd.DataFrame(columns=["feature", "outcome"])


def _list_branches(language: Language, found: Composed) -> list[dict[str, Any]]:
    """Of every branch of a tree, the token that was added for it, and its group."""
    rows = []
    steps = found.order.shape[1]
    paths, added = found.values[:, :steps].tolist(), found.composition.added.tolist()
    for path, entries in zip(paths, added, strict=True):
        for depth in range(1, steps + 1):
            if path[depth - 1] > 0:
                name = "".join("·LR"[int(branch)] for branch in path[:depth])
                j = entries[depth - 1]
                group = -1 if j < 0 else int(language.token_group[j % language.tokens])
                rows.append({"path": name, "token": _token(language, j), "group": group})
    return rows
