"""Learned sentences beside a Bayesian language of thought: what they mean, and how well."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.analysis import probes
from plot_attractors.analysis.sampling import number_rows, numbered_rows
from plot_attractors.analysis.shape import DESCRIBED, SENTENCES_OF_BITS, Needs
from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors
from plot_attractors.language_of_thought import GrammarModel, listening
from plot_attractors.language_of_thought.listening import Baseline, Bayes, Concepts, Translated
from plot_attractors.measures.bootstrap import bootstrap, resample
from plot_attractors.measures.calibration import total_variation
from plot_attractors.measures.divergence import (
    feature_divergence,
    frequencies,
    jensen_shannon,
    translate,
)
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run, registry

TITLE = "Comparison with a Bayesian language of thought"
# the posterior over classes; paths true of their end and all nodes below; paths true of leaves only
# (open levels: Geometric(½), cut at D); every branch left, right or open. All know held-out nodes.
GRAMMARS = {
    "node": {"expressions": "paths", "meaning": "node"},
    "paths": {"expressions": "paths", "meaning": "nodes"},
    "leaf paths": {"expressions": "paths", "meaning": "leaves"},
    "slots": {"expressions": "conjunctions", "meaning": "nodes"},
}


@dataclass(frozen=True)
class Config(probes.DecoderTraining):
    """Sample sizes, beside those of `probes.DecoderTraining`."""

    inputs: Size = setting(500, "inputs of each split")
    draws: Size = setting(32, "sentences of each")


def _has_grammar(run: Run) -> bool:
    of_tree = isinstance(run.data, HierarchicalBinaryVectors) and DESCRIBED.met(run)
    return of_tree or (isinstance(run.data, BinaryTable) and SENTENCES_OF_BITS.met(run))


NEEDS = Needs(
    "a model that samples sentences, of hierarchical binary vectors or of a table", _has_grammar
)


# -- measures --------------------------------------------------------------------------------------


ROWS = 1024  # sentences described at once
MOST_EXPRESSIONS = 2500  # of slots: conjunctions of 7 levels
LEARNED, NODE, PATHS, TABLE, ALL = "learned", "node", "paths", "table", "all"
SUMMARY = "split source baseline measure feature value low high floor shuffled n"
TRANSLATIONS = "split baseline sentence expression residual scrambled usage"


def _grammar(data: Any, **settings: Any) -> GrammarModel:
    program: Any = registry.load("models", "grammar")
    model: GrammarModel = program.build(program.Config(**settings), data)
    return model


def _score(
    times: Tensor,
    measure: str,
    features: Sequence[str],
    value: Tensor,
    floor: Tensor | None = None,
    shuffled: Tensor | None = None,
    *,
    source: str = LEARNED,
    baseline: str = TABLE,
) -> pd.DataFrame:
    """Rows of summary.csv: means over inputs of a measure's value, floor and shuffled (n, K), and
    an interval by bootstrap weights times (resamples, n).
    """
    _, low, high = bootstrap(value, times)
    columns: dict[str, Any] = {
        "source": source, "baseline": baseline, "measure": measure, "feature": features,
        "n": len(value), "value": value.mean(0), "low": low, "high": high,
    }  # fmt: skip
    for name, part in (("floor", floor), ("shuffled", shuffled)):
        columns[name] = np.nan if part is None else part.mean(0)
    return pd.DataFrame(columns)


# Of a tree.


class Split(NamedTuple):
    """Inputs of a split, and the sentences that the model samples of them.

    - ``x``: (n, bits); ``draws``: (n, draws) numbers of the sentences; ``other``: (n,) another
      input; ``times``: bootstrap weights (resamples, n).
    """

    x: Tensor
    draws: Tensor
    other: Tensor
    times: Tensor


def _describe(
    run: Run, data: HierarchicalBinaryVectors, inputs: int, draws: int
) -> tuple[dict[str, Split], Tensor]:
    """Every split, and the different sentences (S, width) that the model samples in them."""
    batches, sampled = [], []
    for name in data.splits:
        batch = run.data.batch(inputs, name)
        parts = [run.model.describe(x, draws).s for x in batch.x.split(max(1, ROWS // draws))]
        batches.append(batch)
        sampled.append(torch.cat(parts))
    flat = torch.cat(sampled).flatten(0, 1)
    index, first = number_rows(run.model.language.key(flat))
    numbers = index.view(len(batches), inputs, draws)
    splits = {}
    for name, batch, of_split in zip(data.splits, batches, numbers, strict=True):
        order = torch.randperm(inputs)
        other = torch.empty_like(order)
        other[order] = order.roll(1)
        splits[name] = Split(batch.x, of_split, other, resample(batch.x))
    return splits, flat[first]


def _answers(grammar: Baseline, weights: Tensor) -> Concepts:
    """(n, …) what a listener concludes of expressions with weights (n, E)."""
    return Concepts(*(weights @ table for table in grammar.concepts))


def _js(a: Concepts, b: Concepts, data: HierarchicalBinaryVectors) -> Tensor:
    """(n, D + 1) divergence of answers for each level, and for the node."""
    levels = feature_divergence(a.levels, b.levels, data.depth)
    return torch.cat([levels, jensen_shannon(a.nodes, b.nodes)[:, None]], -1)


def _compare(
    split: Split,
    learned: Concepts,
    grammar: Baseline,
    bayes: Bayes,
    translated: Translated,
    data: HierarchicalBinaryVectors,
) -> list[pd.DataFrame]:
    """How far apart answers are, and sentences as expressions."""
    score, one = partial(_score, split.times, baseline=grammar.name), ("",)
    exact, other = bayes.distribution, bayes.distribution[split.other]
    mine = Concepts(*(listening.mixture(table, split.draws) for table in learned))
    theirs, drawn = _answers(grammar, exact), _answers(grammar, bayes.drawn)
    another = Concepts(*(table[split.other] for table in theirs))
    answers = (mine, theirs), (drawn, theirs), (mine, another)
    p = frequencies(translated.expression[split.draws], exact.shape[1])
    shares = (p, exact), (bayes.drawn, exact), (p, other)
    residuals = {
        "residual": translated.residual,
        "residual_scrambled": translated.scrambled,
        "residual_dealt": translated.dealt,
    }
    return [
        score("js", (*data.label_names, NODE), *(_js(a, b, data) for a, b in answers)),
        score("translation_tv", one, *(total_variation(a, b)[:, None] for a, b in shares)),
        *(score(k, one, v[split.draws].mean(-1, keepdim=True)) for k, v in residuals.items()),
    ]


def _between(
    split: Split, left: Baseline, p: Bayes, right: Baseline, q: Bayes, data: Any
) -> pd.DataFrame:
    """Divergence of two grammars, exactly."""
    js = _js(_answers(left, p.distribution), _answers(right, q.distribution), data)
    features = (*data.label_names, NODE)
    return _score(split.times, "js", features, js, source=left.name, baseline=right.name)


def _list_translations(
    names: list[str], split: Split, grammar: Baseline, translated: Translated
) -> pd.DataFrame:
    """The rows of translations.csv, the most used sentences first."""
    columns = {
        "baseline": grammar.name,
        "sentence": names,
        "expression": [grammar.names[k] for k in translated.expression.tolist()],
        "residual": translated.residual.numpy(),
        "scrambled": translated.scrambled.numpy(),
        "usage": frequencies(split.draws.flatten()[None], len(names))[0].numpy(),
    }
    table = pd.DataFrame(columns).sort_values("usage", ascending=False, kind="stable")
    return table[table["usage"] > 0]


def _measure_tree(
    run: Run, data: HierarchicalBinaryVectors, config: Config
) -> dict[str, pd.DataFrame]:
    model = run.model
    splits, sentences = _describe(run, data, config.inputs, config.draws)
    decoder = probes.feature_decoders(run, config)[0]
    learned = listening.read(decoder(model.embed(sentences)).points.double(), data)
    grammars = {
        name: _grammar(data, **settings)
        for name, settings in GRAMMARS.items()
        if name != "slots" or 3**data.depth <= MOST_EXPRESSIONS
    }
    heard = run.data.batch(config.decoder_inputs)
    names = [model.language.name(s) for s in sentences]
    summaries, listed = [], []
    for name, split in splits.items():
        if name != "train":
            heard = listening.all_classes(data, heard)
        known = [listening.listen(k, grammars[k], heard, data) for k in grammars]
        bayes = [(o, listening.answer(o, split.x, config.draws)) for o in known]
        translated = [listening.translate_sentences(learned, o, data.depth) for o in known]
        parts = [_between(split, *a, *b, data) for a, b in combinations(bayes, 2)]
        for (o, answers), t in zip(bayes, translated, strict=True):
            parts += _compare(split, learned, o, answers, t, data)
            listed.append(_list_translations(names, split, o, t).assign(split=name))
        summaries.append(pd.concat(parts).assign(split=name))
    return {
        "summary.csv": pd.concat(summaries)[SUMMARY.split()],
        "translations.csv": pd.concat(listed)[TRANSLATIONS.split()],
    }


# Of a table.


MOST_LITERALS = 3  # of a conjunction
POSTERIORS = 256  # rows of which the posterior over expressions is held at once
CELLS = 20_000_000  # probabilities of expressions that are held at once


def _table_grammar(data: BinaryTable) -> GrammarModel:
    """Conjunctions of a table's columns, as long as can be listed."""
    for longest in range(MOST_LITERALS, 1, -1):
        with contextlib.suppress(ValueError):  # too many
            return _grammar(data, literals=longest)
    return _grammar(data, literals=1)


def _concepts(p: Tensor) -> Tensor:
    """(…, columns · 2) of probabilities of 1 (…, columns)."""
    return torch.stack([p, 1 - p], -1).flatten(-2)


def _measure_table(run: Run, data: BinaryTable, config: Config) -> dict[str, pd.DataFrame]:
    grammar = _table_grammar(data)
    model = run.model
    rows, split = numbered_rows(data, config.inputs)
    x = data.rows(rows)
    flat = model.describe(x, config.draws).s.flatten(0, 1)
    index, first = number_rows(model.language.key(flat))
    decoded = model.decoder(model.embed(flat[first])).mean.double()  # (S, columns)
    index = index.view(len(x), config.draws)
    learned = decoded[index].mean(1)

    true = grammar.extension.double()
    known = true.sum(-1) > 0
    means: Any = grammar.objects.probabilities
    told = true[known] @ means.double() / true[known].sum(-1, keepdim=True)  # (E, columns)
    texts = [grammar.grammar.text(rule) for rule in grammar.derivations[known]]
    texts = [text.replace(" ", " ∧ ") for text in texts]
    answers, drawn = [], []
    for part in x.split(max(1, min(POSTERIORS, CELLS // len(known)))):
        p = grammar.posterior(part).log_p.exp()[:, known]
        answers.append(p @ told)
        drawn.append(told[p.multinomial(config.draws, replacement=True)].mean(1))
    bayes = torch.cat(answers)
    other = torch.randperm(len(x)).roll(1)
    js = [
        feature_divergence(_concepts(one), _concepts(of), data.bits)
        for one, of in ((learned, bayes), (torch.cat(drawn), bayes), (learned, bayes[other]))
    ]
    usage = torch.bincount(index.flatten(), minlength=len(first)) / index.numel()
    order = usage.argsort(descending=True)
    nearest = translate(_concepts(decoded[order]), _concepts(told), data.bits)
    mixed = torch.stack([column[torch.randperm(len(column))] for column in decoded.T], -1)
    scrambled = translate(_concepts(mixed), _concepts(told), data.bits).residual
    translations = {
        "split": ALL, "baseline": TABLE,
        "sentence": [model.language.name(s) for s in flat[first[order]]],
        "expression": [texts[k] for k in nearest.expression.tolist()],
        "residual": (nearest.residual / data.bits).numpy(),
        "scrambled": (scrambled / data.bits).numpy(), "usage": usage[order].numpy(),
    }  # fmt: skip
    summaries = []
    for name in dict.fromkeys(split):
        chosen = torch.tensor([of == name for of in split])
        value, floor, shuffled = (
            torch.cat([of.mean(-1, keepdim=True), of], -1)[chosen] for of in js
        )
        features = (ALL, *data.columns)
        table = _score(resample(x[chosen]), "js", features, value, floor, shuffled)
        summaries.append(table.assign(split=name))
    return {
        "summary.csv": pd.concat(summaries)[SUMMARY.split()],
        "translations.csv": pd.DataFrame(translations)[TRANSLATIONS.split()],
    }


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Tables that compare the model with grammars that suit the data, by exact posteriors: of a
    tree with `GRAMMARS`, of a table's first rows with conjunctions of at most three columns, as
    long as can be listed.

    A *concept* is what a sentence tells of features y, and an answer is their mixture,
    Q(y | x) = Σ_s P(s | x) p(y | s): over `draws` sentences of the model, exact for a grammar.
    p(y | s) of a learned sentence is the run's first feature decoder at ẑ_s; of a table, what s is
    decoded to. p(y | h) of an expression is the distribution of the features of inputs that h
    describes, Σ_x P(h | x) 1[y(x) = y] / Σ_x P(h | x), over as many training inputs as decoders
    learn from: what the same listener concludes with the same experience. For the split held_out,
    inputs of all classes: those who are given the tokens know what they stand for. Of a table,
    uniform over the rows that h is true of.

    Jointly over the N nodes, P(node | s) ∝ Π_level p(y_level | s), normalised over the tree
    (`tree_distribution`).

    ``summary.csv`` (``source``: whose answers, ``learned`` or a grammar; ``baseline``: compared
    with whose; ``feature``: a level's, or ``node`` jointly, or a column, or ``all``: the mean over
    columns; ``n``: inputs) has by ``measure``:

    - ``js``: Jensen-Shannon divergence of the two answers, bits;
    - ``translation_tv``: total variation of P(expression | x) by translation from the posterior;
    - ``residual``: distance of sentences from the expressions that they are translated to,
      Σ_level JS, bits; ``residual_scrambled``: of sentences whose levels were dealt anew among
      sentences; ``residual_dealt``: to the translation of another sentence;

    and ``value``, the mean over inputs, with a 95 % bootstrap interval over inputs; ``floor``: the
    same for as many draws of the posterior in place of the model's; ``shuffled``: with the answer
    of another input.

    Translation goes to the nearest expression (`translate`) that a listener would have heard once
    at least. ``translations.csv``: every
    sentence sampled; the expression as its branches from the root, · for one left open; its
    residual, of a table a mean over columns, and that of a scrambled sentence; usage: its share of
    what is sampled. Source: Section *Sample
    diversity*, which leaves open how sentences compare with a normative posterior.
    """
    if isinstance(run.data, BinaryTable):
        return _measure_table(run, run.data, config)
    return _measure_tree(run, run.data, config)
