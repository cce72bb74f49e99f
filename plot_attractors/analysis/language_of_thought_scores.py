"""Scores of learned sentences beside grammars: answers, clouds, translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.language_of_thought.listening import (
    Baseline,
    Bayes,
    Concepts,
    Translated,
    mixture,
)
from plot_attractors.measures.bootstrap import bootstrap
from plot_attractors.measures.calibration import total_variation
from plot_attractors.measures.divergence import (
    energy_distance,
    feature_divergence,
    frequencies,
    jensen_shannon,
)

LEARNED, NODE = "learned", "node"


class Split(NamedTuple):
    """Inputs of a split, and the sentences that the model samples of them.

    - ``x``: (n, bits); ``draws``: (n, draws) numbers of the sentences; ``other``: (n,) another
      input; ``times``: bootstrap weights (resamples, n).
    """

    x: Tensor
    draws: Tensor
    other: Tensor
    times: Tensor


class Score(NamedTuple):
    """A measure of each of n inputs: value, floor and shuffled (n, K), None where there is none."""

    measure: str
    features: Sequence[str]
    value: Tensor
    floor: Tensor | None = None
    shuffled: Tensor | None = None
    source: str = LEARNED
    baseline: str = ""


class Compared(NamedTuple):
    """A grammar, its answers for a split's inputs, and the learned sentences in its expressions."""

    grammar: Baseline
    bayes: Bayes
    translated: Translated

    @property
    def name(self) -> str:
        return self.grammar.name

    def answers(self, drawn: bool = False) -> Concepts:
        """(n, …) exact mixtures of its concepts, or those of as many draws as the model's."""
        weights = self.bayes.drawn if drawn else self.bayes.distribution
        return Concepts(*(weights @ table for table in self.grammar.concepts))


def _mixed(concepts: Concepts, draws: Tensor) -> Concepts:
    return Concepts(*(mixture(table, draws) for table in concepts))


def _js(a: Concepts, b: Concepts, data: HierarchicalBinaryVectors) -> Tensor:
    """(n, D + 1) divergence of answers for each level, and for the node."""
    levels = feature_divergence(a.levels, b.levels, data.depth)
    return torch.cat([levels, jensen_shannon(a.nodes, b.nodes)[:, None]], -1)


def divergences(
    split: Split, learned: Concepts, b: Compared, data: HierarchicalBinaryVectors
) -> list[Score]:
    """How far apart the answers and the clouds of concepts are."""
    mine, features = _mixed(learned, split.draws), (*data.label_names, NODE)
    exact, drawn = b.answers(), b.answers(drawn=True)
    another = Concepts(*(table[split.other] for table in exact))
    distances = _js(mine, exact, data), _js(drawn, exact, data), _js(mine, another, data)
    levels, exact_p = b.grammar.concepts.levels, b.bayes.distribution
    clouds = (
        (learned.levels, split.draws, exact_p),
        (levels, b.bayes.draws, exact_p),
        (learned.levels, split.draws, exact_p[split.other]),
    )
    own, floor, shuffled = (
        energy_distance(points, at, levels, p)[:, None] for points, at, p in clouds
    )
    return [
        Score("js", features, *distances, baseline=b.name),
        Score("energy", ("",), own, floor, shuffled, baseline=b.name),
    ]


def translations(split: Split, b: Compared) -> list[Score]:
    """Sentences as expressions."""
    bayes, translated = b.bayes, b.translated
    p = frequencies(translated.expression[split.draws], bayes.distribution.shape[1])
    pairs = (
        (p, bayes.distribution),
        (bayes.drawn, bayes.distribution),
        (p, bayes.distribution[split.other]),
    )
    tv, floor, shuffled = (total_variation(one, other)[:, None] for one, other in pairs)
    of_sentences = {
        "residual": translated.residual,
        "residual_scrambled": translated.scrambled,
        "residual_dealt": translated.dealt,
    }
    scores = [Score("translation_tv", ("",), tv, floor, shuffled, baseline=b.name)]
    for name, value in of_sentences.items():
        mean = value[split.draws].mean(-1, keepdim=True)
        scores.append(Score(name, ("",), mean, baseline=b.name))
    return scores


def between(baselines: Sequence[Compared], data: HierarchicalBinaryVectors) -> list[Score]:
    """Divergence of each pair of grammars, exactly."""
    scores = []
    for k, left in enumerate(baselines):
        for right in baselines[k + 1 :]:
            js = _js(left.answers(), right.answers(), data)
            score = Score("js", (*data.label_names, NODE), js, source=left.name)
            scores.append(score._replace(baseline=right.name))
    return scores


def summary_rows(score: Score, times: Tensor) -> list[dict[str, Any]]:
    """Rows of summary.csv: means over inputs, with bootstrap weights times (resamples, n)."""
    interval = bootstrap(score.value, times)
    numbers = {"value": score.value.mean(0), "low": interval.low, "high": interval.high}
    beside = {"floor": score.floor, "shuffled": score.shuffled}
    numbers |= {name: part.mean(0) for name, part in beside.items() if part is not None}
    keys: dict[str, Any] = {k: getattr(score, k) for k in ("source", "baseline", "measure")}
    return [
        keys
        | {"feature": feature, "n": times.shape[1]}
        | {name: part[k].item() for name, part in numbers.items()}
        for k, feature in enumerate(score.features)
    ]
