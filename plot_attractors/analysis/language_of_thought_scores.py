"""Scores of learned sentences beside grammars: answers, clouds, translations, accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.language_of_thought.listening import (
    HEARD,
    LITERAL,
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
    shared_accuracy,
)

ALL, LEAVES = "all", "leaves"
LEARNED, NODE = "learned", "node"
NO_LEAVES = "no exemplars of leaves among the inputs"


class Split(NamedTuple):
    """Inputs of a split, and the sentences that the model samples of them.

    - ``x``: (n, bits); ``node``: (n,); ``values``: (n, D) number of the outcome; ``leaf``: (n,)
      bool;
    - ``draws``: (n, draws) numbers of the sentences; ``other``: (n,) another input;
    - ``times``: bootstrap weights (resamples, n).
    """

    x: Tensor
    node: Tensor
    values: Tensor
    leaf: Tensor
    draws: Tensor
    other: Tensor
    times: Tensor

    @property
    def parts(self) -> list[tuple[str, Tensor]]:
        """All inputs, and exemplars of leaves."""
        return [(ALL, torch.ones_like(self.leaf)), (LEAVES, self.leaf)]


class Score(NamedTuple):
    """A measure of each of n inputs: value, floor and shuffled (n, K), None where there is none."""

    measure: str
    features: Sequence[str]
    value: Tensor
    floor: Tensor | None = None
    shuffled: Tensor | None = None
    source: str = LEARNED
    baseline: str = ""
    reading: str = HEARD


class Compared(NamedTuple):
    """A grammar, its answers for a split's inputs, and the learned sentences in its expressions."""

    grammar: Baseline
    bayes: Bayes
    translated: Translated

    @property
    def name(self) -> str:
        return self.grammar.name

    def answers(self, reading: str, drawn: bool = False) -> Concepts:
        """(n, …) exact mixtures of its concepts, or those of as many draws as the model's."""
        weights = self.bayes.drawn if drawn else self.bayes.distribution
        return Concepts(*(weights @ table for table in self.grammar.readings[reading]))


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
    mine, features, scores = _mixed(learned, split.draws), (*data.label_names, NODE), []
    for reading in b.grammar.readings:
        exact, drawn = b.answers(reading), b.answers(reading, drawn=True)
        another = Concepts(*(table[split.other] for table in exact))
        distances = _js(mine, exact, data), _js(drawn, exact, data), _js(mine, another, data)
        scores.append(Score("js", features, *distances, baseline=b.name, reading=reading))
    levels, exact_p = b.grammar.readings[HEARD].levels, b.bayes.distribution
    clouds = (
        (learned.levels, split.draws, exact_p),
        (levels, b.bayes.draws, exact_p),
        (learned.levels, split.draws, exact_p[split.other]),
    )
    own, floor, shuffled = (
        energy_distance(points, at, levels, p)[:, None] for points, at, p in clouds
    )
    scores.insert(1, Score("energy", ("",), own, floor, shuffled, baseline=b.name))
    return scores


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


def accuracies(
    split: Split,
    learned: Concepts,
    baselines: Sequence[Compared],
    data: HierarchicalBinaryVectors,
) -> list[Score]:
    """Of the likeliest outcomes of answers, and of single sentences."""

    def right(levels: Tensor, values: Tensor) -> Tensor:
        return shared_accuracy(levels.unflatten(-1, (data.depth, 3)), values)

    truth, another, features = split.values, split.values[split.other], data.label_names
    scores = []
    for b in baselines:
        for reading, concepts in b.grammar.readings.items():
            exact, drawn = b.answers(reading).levels, b.answers(reading, drawn=True).levels
            shares = right(exact, truth), right(drawn, truth), right(exact, another)
            scores.append(Score("accuracy", features, *shares, source=b.name, reading=reading))
            levels = concepts.levels
            # (3, n, D): of each expression where the truth is each of the outcomes
            outcomes = [torch.full((len(levels), data.depth), float(k)) for k in range(3)]
            every = torch.stack([b.bayes.distribution @ right(levels, value) for value in outcomes])
            value = every.gather(0, truth.long()[None])[0]
            scores.append(Score("accuracy_one", features, value, source=b.name, reading=reading))
    answers = mixture(learned.levels, split.draws)
    value, shuffled = right(answers, truth), right(answers, another)
    each = truth[:, None].expand(-1, split.draws.shape[1], -1)
    single = right(learned.levels[split.draws], each).mean(1)
    scores.append(Score("accuracy", features, value, shuffled=shuffled))
    scores.append(Score("accuracy_one", features, single))
    return scores


def between(baselines: Sequence[Compared], data: HierarchicalBinaryVectors) -> list[Score]:
    """Divergence of each pair of grammars, exactly."""
    scores = []
    for k, left in enumerate(baselines):
        for right in baselines[k + 1 :]:
            for reading in (HEARD, LITERAL):
                js = _js(left.answers(reading), right.answers(reading), data)
                score = Score("js", (*data.label_names, NODE), js, reading=reading)
                scores.append(score._replace(source=left.name, baseline=right.name))
    return scores


def summary_rows(score: Score, split: Split) -> list[dict[str, Any]]:
    """Rows of summary.csv: means over all inputs, and over exemplars of leaves."""
    rows = []
    names = {k: getattr(score, k) for k in ("source", "baseline", "reading", "measure")}
    for inputs, chosen in split.parts:
        n = int(chosen.sum())
        numbers: dict[str, Tensor] = {}
        if n:
            interval = bootstrap(score.value[chosen], split.times[:, chosen])
            numbers = {"low": interval.low, "high": interval.high}
            for name in ("value", "floor", "shuffled"):
                part = getattr(score, name)
                numbers |= {} if part is None else {name: part[chosen].mean(0)}
        keys = names | {"inputs": inputs, "n": n, "reason": "" if n else NO_LEAVES}
        for k, feature in enumerate(score.features):
            of_feature = {name: part[k].item() for name, part in numbers.items()}
            rows.append(keys | {"feature": feature} | of_feature)
    return rows
