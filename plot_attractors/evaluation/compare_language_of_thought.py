"""Learned sentences beside grammars that read the same inputs: tables of the comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.evaluation import language_of_thought_scores as scores
from plot_attractors.evaluation import probes
from plot_attractors.evaluation.language_of_thought_scores import (
    ALL,
    LEARNED,
    NO_LEAVES,
    Compared,
    Score,
    Split,
)
from plot_attractors.evaluation.metrics.bootstrap import resample
from plot_attractors.evaluation.metrics.calibration import total_variation
from plot_attractors.evaluation.metrics.divergence import entropy_bits, frequencies, jensen_shannon
from plot_attractors.evaluation.sampling import number_rows
from plot_attractors.language_of_thought import GrammarModel
from plot_attractors.language_of_thought.listening import (
    HEARD,
    Concepts,
    all_classes,
    answer,
    listen,
    mixture,
    read,
    translate_sentences,
)
from plot_attractors.runs import Run

ROWS = 1024  # sentences described at once
PATHS = "paths"
COLUMNS = {
    "summary": "split inputs source baseline reading measure feature value low high floor shuffled "
    "n reason",
    "specificity": "split inputs baseline measure value learned grammar geometric",
    "translations": "split baseline sentence expression residual scrambled dealt usage open bits",
    "examples": "split example input js node paths model",
}


def require_tree(run: Run) -> HierarchicalBinaryVectors:
    """The run's data, or a ValueError where its model samples no sentences or it is no tree."""
    _, data = probes.require_described(run)
    if not isinstance(data, HierarchicalBinaryVectors):
        raise ValueError(
            "this analysis needs hierarchical binary vectors, whose grammars are known, "
            f"not {type(data).__name__}: leave it out"
        )
    return data


def measure(
    run: Run,
    build: Callable[[], Mapping[str, GrammarModel]],
    left_out: Mapping[str, str],
    inputs: int,
    draws: int,
    training: probes.Training,
) -> dict[str, pd.DataFrame]:
    """Tables that compare the model with grammars on the run's own tree, by exact posteriors.

    A *concept* is what a sentence tells of features y, and an answer is their mixture,
    Q(y | x) = Σ_s P(s | x) p(y | s): over `draws` sentences of the model, exact for a grammar.
    p(y | s) of a learned sentence is the run's first feature decoder at ẑ_s. p(y | h) of an
    expression is, by ``reading``:

    - ``heard``: the distribution of the features of inputs that h describes,
      Σ_x P(h | x) 1[y(x) = y] / Σ_x P(h | x), over as many training inputs as decoders learn from:
      what the same listener concludes with the same experience. For the split held_out, inputs of
      all classes: those who are given the tokens know what they stand for;
    - ``literal``: uniform over the nodes that h is true of: what who knows the grammar concludes.

    Jointly over the N nodes, P(node | s) ∝ Π_level p(y_level | s), normalised over the tree
    (`tree_distribution`); so for expressions that are heard, too; literal ones are uniform over
    their nodes.

    ``summary.csv`` (``inputs``: all, or exemplars of leaves; ``n``: how many; ``source``: whose
    answers, ``learned`` or a grammar; ``baseline``: compared with whose; ``second listener``: with
    the learned answers as the other decoder reads them, the error of the instrument; ``feature``: a
    level's, or ``node`` jointly, or empty) has by ``measure``:

    - ``js``: Jensen-Shannon divergence of the two answers, bits;
    - ``energy``: energy distance of the clouds of concepts (levels side by side), unbiased, 0 where
      draws follow the Bayesian distribution; opposite leaves are √(2D) apart;
    - ``translation_tv``: total variation of P(expression | x) by translation from the posterior;
    - ``residual``: distance of sentences from the expressions that they are translated to,
      Σ_level JS, bits; ``residual_scrambled``: of sentences whose levels were dealt anew among
      sentences; ``residual_dealt``: to the translation of another sentence;
    - ``open``: levels left open by translations, or by the grammar's expressions; ``open_tv``:
      total variation of the two distributions of it; ``bits``: entropy of P(node | s), mean;
    - ``accuracy``: of the likeliest outcome of Q(y | x); ``accuracy_one``: of one sentence alone;
      ``gap``: accuracy less that of the literal node posterior, the Bayes ceiling;

    and ``value``, the mean over inputs, with a 95 % bootstrap interval over inputs; ``floor``: the
    same for as many draws of the posterior in place of the model's; ``shuffled``: with the answer,
    or the truth, of another input; ``reason``: why the value is missing.

    Translation goes to the nearest expression (`translate`) that a listener would have heard once
    at least. ``translations.csv``: every sentence sampled; the expression as its branches from the
    root, · for one left open; its residuals; usage: its share of what is sampled.
    ``specificity.csv``: distributions of open levels and of entropy, rounded to whole bits.
    ``examples.csv``: of three inputs, P(path goes through the node) by the grammar of paths and by
    the model. Source: Section *Sample diversity*, which leaves open how sentences compare with a
    normative posterior.
    """
    model, data = run.model, require_tree(run)
    splits, sentences = _describe(run, data, inputs, draws)
    pair = probes.feature_decoders(run, training)
    listeners = [read(decoder(model.embed(sentences)).flat.double(), data) for decoder in pair]
    learned = listeners[0]
    grammars = build()
    heard = run.data.batch(training.decoder_inputs)
    names = [model.language.name(s) for s in sentences]

    tables: dict[str, list[pd.DataFrame]] = {}
    for name, split in splits.items():
        if name != "train":
            heard = all_classes(data, heard)
        known = [listen(grammar, built, heard, data) for grammar, built in grammars.items()]
        bayes = [answer(o, split.x, draws) for o in known]
        translated = [translate_sentences(learned, o, data.depth) for o in known]
        baselines = [Compared(*parts) for parts in zip(known, bayes, translated, strict=True)]
        found = scores.accuracies(split, listeners, baselines, data)
        found.append(scores.second_opinion(split, listeners, data))
        found += scores.between(baselines, data)
        for b in baselines:
            found += scores.divergences(split, learned, b, data) + scores.translations(split, b)
        bits = mixture(entropy_bits(learned.nodes)[:, None], split.draws)
        found.append(Score("bits", ("",), bits))
        rows = [row for score in found for row in scores.summary_rows(score, split)]
        rows += [row for b in baselines for row in _open_distance(split, b, data)]
        missing = {"inputs": ALL, "source": LEARNED, "measure": "js", "n": 0}
        rows += [missing | {"baseline": b, "reason": why} for b, why in left_out.items()]
        paths = next(b for b in baselines if b.name == PATHS)
        of_split = {
            "summary": pd.DataFrame(rows),
            "specificity": pd.concat([_specificity(split, learned, b, data) for b in baselines]),
            "translations": pd.concat(
                [_list_translations(names, split, learned, b) for b in baselines]
            ),
            "examples": _examples(split, learned, paths, data),
        }
        for table, part in of_split.items():
            tables.setdefault(table, []).append(part.assign(split=name))
    return {
        f"{table}.csv": pd.concat(parts).reindex(columns=COLUMNS[table].split())
        for table, parts in tables.items()
    }


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
        leaf = data.depths[batch.y] == data.depth
        values = data.feature_values(batch)
        splits[name] = Split(batch.x, batch.y, values, leaf, of_split, other, resample(batch.x))
    return splits, flat[first]


def _open_levels(split: Split, b: Compared, depth: int) -> list[Tensor]:
    """(n, D + 1) distributions of open levels of each input: of translations, of the grammar, and
    of as many draws of it.
    """
    levels = one_hot(b.grammar.open_levels, depth + 1).double()
    translations = mixture(levels[b.translated.expression], split.draws)
    return [translations, b.bayes.distribution @ levels, b.bayes.drawn @ levels]


def _open_distance(
    split: Split, b: Compared, data: HierarchicalBinaryVectors
) -> list[dict[str, Any]]:
    """The rows of open_tv."""
    distributions = _open_levels(split, b, data.depth)
    rows = []
    for inputs, chosen in split.parts:
        row: dict[str, Any] = {"inputs": inputs, "source": LEARNED, "baseline": b.name}
        row |= {"reading": HEARD, "measure": "open_tv", "feature": "", "n": int(chosen.sum())}
        row["reason"] = NO_LEAVES
        if bool(chosen.any()):
            learned, grammar, drawn = (p[chosen] for p in distributions)
            weights = split.times[:, chosen]
            again = total_variation(weights @ learned, weights @ grammar) / weights.sum(-1)
            row |= {
                "value": float(total_variation(learned.mean(0), grammar.mean(0))),
                "low": float(again.nanquantile(0.025)),
                "high": float(again.nanquantile(0.975)),
                "floor": float(total_variation(drawn.mean(0), grammar.mean(0))),
                "reason": "",
            }
        rows.append(row)
    return rows


def _specificity(
    split: Split, learned: Concepts, b: Compared, data: HierarchicalBinaryVectors
) -> pd.DataFrame:
    """The rows of specificity.csv."""
    own, others = (
        entropy_bits(c.nodes).round().long() for c in (learned, b.grammar.readings[HEARD])
    )
    most = int(max(own.max(), others.max())) + 1
    bits = [
        mixture(one_hot(own, most).double(), split.draws),
        b.bayes.distribution @ one_hot(others, most).double(),
    ]
    p = 0.5 ** torch.arange(1, data.depth + 2, dtype=torch.float64)
    geometric = (p / p.sum()).numpy()  # (½), cut at D
    tables = []
    for inputs, chosen in split.parts:
        for measure, (mine, theirs) in (
            ("open", _open_levels(split, b, data.depth)[:2]),
            ("bits", bits),
        ):
            if chosen.any():
                columns = {
                    "value": range(mine.shape[1]),
                    "learned": mine[chosen].mean(0).numpy(),
                    "grammar": theirs[chosen].mean(0).numpy(),
                    "geometric": geometric if measure == "open" else np.nan,
                }
                table = pd.DataFrame(columns)
                tables.append(table.assign(inputs=inputs, baseline=b.name, measure=measure))
    return pd.concat(tables)


def _list_translations(
    names: list[str], split: Split, learned: Concepts, b: Compared
) -> pd.DataFrame:
    """The rows of translations.csv, the most used sentences first."""
    translated = b.translated
    branches = b.grammar.branches[translated.expression].tolist()
    columns = {
        "baseline": b.name,
        "sentence": names,
        "expression": ["".join("·LR"[branch + 1] for branch in row) for row in branches],
        "residual": translated.residual.numpy(),
        "scrambled": translated.scrambled.numpy(),
        "dealt": translated.dealt.numpy(),
        "usage": frequencies(split.draws.flatten()[None], len(names))[0].numpy(),
        "open": b.grammar.open_levels[translated.expression].numpy(),
        "bits": entropy_bits(learned.nodes).numpy(),
    }
    table = pd.DataFrame(columns).sort_values("usage", ascending=False, kind="stable")
    return table[table["usage"] > 0]


def below(data: HierarchicalBinaryVectors) -> Tensor:
    """(N, N) float64, 1 where a path to the second node goes through the first."""
    on = (data.paths[:, None] == data.paths) | (data.paths[:, None] < 0)
    return on.all(-1).double()


def _examples(
    split: Split, learned: Concepts, paths: Compared, data: HierarchicalBinaryVectors
) -> pd.DataFrame:
    """Rows of examples.csv: the first exemplar of a leaf, the first of a node half way, the most
    doubtful leaf.
    """
    mine, exact = mixture(learned.nodes, split.draws), paths.answers(HEARD).nodes
    doubt, found = entropy_bits(exact), {}
    half = ((data.depths[split.node] == (data.depth + 1) // 2) & ~split.leaf).nonzero()[:, 0]
    leaves = split.leaf.nonzero()[:, 0]
    if len(leaves):
        found["a leaf"] = leaves[0]
    if len(half):
        found["a node half way"] = half[0]
    if len(leaves):
        found["the leaf most in doubt"] = leaves[doubt[leaves].argmax()]
    parts = []
    for title, i in (found or {"an input": torch.tensor(0)}).items():
        columns = {
            "example": title,
            "input": data.class_names[int(split.node[i])],
            "js": float(jensen_shannon(exact[i], mine[i])),
            "node": data.class_names,
            "paths": (exact[i] @ below(data).T).numpy(),
            "model": (mine[i] @ below(data).T).numpy(),
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts)
