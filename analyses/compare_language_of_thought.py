"""Learned sentences beside a Bayesian language of thought: what they mean, as laws, clouds,
translations, accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from torch import Tensor
from torch.nn.functional import one_hot

from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.evaluation import probes
from plot_attractors.evaluation.metrics import total_variation
from plot_attractors.evaluation.metrics.bootstrap import bootstrap, resample
from plot_attractors.evaluation.metrics.divergence import (
    energy_distance,
    entropy_bits,
    feature_divergence,
    jensen_shannon,
    law_of,
    shared_accuracy,
)
from plot_attractors.language_of_thought import GrammarModel
from plot_attractors.language_of_thought.listening import (
    HEARD,
    LITERAL,
    Baseline,
    Bayes,
    Concepts,
    Translated,
    all_classes,
    answer,
    listen,
    mixture,
    read,
    translate_sentences,
)
from plot_attractors.plots.style import (
    BLUE,
    CRIMSON,
    GREEN,
    GREY,
    LIGHT_BLUE,
    LIGHT_GREY,
    ORANGE,
    PURPLE,
    SPLIT_NAMES,
    save,
    style,
)
from plot_attractors.runs import registry

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Comparison with a Bayesian language of thought"
CAPTIONS = {
    "compare": (
        "Learned sentences beside the expressions of grammars whose words are given and whose use "
        "is exact Bayesian "
        "inference. They share no alphabet, so they are compared by what a listener makes of them "
        "who has heard them "
        "said of many inputs. Top: the tree for three training inputs, its root in the middle "
        "line; colour is the "
        "probability that the input's path goes through a node. Upwards by the grammar of paths, "
        "downwards by the "
        "model's sentences: a picture that is its own mirror image is agreement. Red: the node "
        "that the input is an "
        "exemplar of. Middle, left: how far apart model and grammars are, for each level of the "
        "tree and for the node "
        "(Jensen-Shannon divergence; 0 bits: the same, 1 bit: nothing in common; vertical lines: "
        "95 % intervals over "
        "inputs). Dotted: the answer for another input, which has nothing to do with this one. "
        "Light blue: from the "
        "least to the greatest divergence between two of the grammars; a model within it differs "
        "from a grammar no "
        "more than grammars do from each other. Grey: what a finite number of draws makes of the "
        "grammar itself. "
        "Middle, right: how often the likeliest branch is right, for exemplars of leaves, when all "
        "sentences said of "
        "an input are pooled (filled), and of one sentence alone (open); black: the most that can "
        "be known. Pooling "
        "lifts a Bayesian, whose expressions leave different things open; where it does not lift "
        "the model, its "
        "sentences err together. Below, left: how many levels are left unsaid of exemplars of "
        "leaves, when each "
        "sentence is translated to the nearest path; bars and orange line agree where a model is "
        "as specific as the "
        "grammar. Dashed: Geometric(½), the law of paths in a world of leaves only. Below, right: "
        "how good the "
        "translation is, as the share of what is said that is at most so far from its expression. "
        "Dashed: sentences "
        "whose levels were dealt anew among sentences, which mean nothing together; dotted: "
        "translations dealt anew. "
        "Only a solid line far to the left of the dashed one says that the sentences are "
        "expressions of this grammar, "
        "in other words."
    ),
    "held_out": (
        "Learned sentences beside grammars, for inputs of held-out classes. The grammars know "
        "these nodes, and so do "
        "the listeners who hear them; the model and its listener have never met one, and take it "
        "for nodes that they "
        "know: how far apart they are is what it is worth to be given the words. Top: the tree for "
        "three inputs, its "
        "root in the middle line, by the grammar of paths upwards and by the model downwards; red: "
        "the input's own "
        "node. Middle, left: divergence of the answers for each level and for the node (dotted: "
        "the answer for another "
        "input; light blue: between grammars; grey: of finite draws). Middle, right: how often the "
        "likeliest branch is "
        "right; black: the most that can be known. Below, left: how many levels sentences leave "
        "unsaid, translated to "
        "the nearest path. Below, right: how far sentences are from the expressions that they are "
        "translated to; "
        "dashed and dotted: the same without meaning."
    ),
}

INPUTS, DRAWS = 500, 32  # inputs of each split, and sentences of each
ROWS = 1024  # sentences described at once
MOST_EXPRESSIONS = 2500  # of a grammar: conjunctions of 7 levels
ALL, LEAVES = "all", "leaves"
LEARNED, SECOND = "learned", "second listener"
NODE = "node"
PATHS, LEAF_PATHS, SLOTS = "paths", "leaf paths", "slots"
GRAMMARS: dict[str, tuple[str, dict[str, str]]] = {  # name: the program and its settings
    NODE: ("tree_grammar", {"meaning": "node"}),
    PATHS: ("tree_grammar", {"meaning": "nodes"}),
    LEAF_PATHS: ("tree_grammar", {"meaning": "leaves"}),
    SLOTS: ("slot_grammar", {"meaning": "nodes"}),
}
COLOURS = {NODE: "black", PATHS: ORANGE, LEAF_PATHS: GREEN, SLOTS: PURPLE}
MARKERS = {NODE: "D", PATHS: "o", LEAF_PATHS: "^", SLOTS: "s"}
COLUMNS = (
    *("split", "inputs", "source", "opponent", "reading", "measure", "feature"),
    *("value", "low", "high", "floor", "shuffled", "n", "reason"),
)
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("mass", ["#FFFFFF", LIGHT_BLUE, BLUE, "#00233A"])


class Split(NamedTuple):
    """Inputs of a split, and what the model says of them.

    - ``x``: (n, bits); ``node``: (n,); ``values``: (n, D) number of the outcome; ``leaf``: (n,)
    bool;
    - ``draws``: (n, draws) numbers of the sentences that it says; ``other``: (n,) another input;
    - ``times``: bootstrap weights (resamples, n).
    """

    x: Tensor
    node: Tensor
    values: Tensor
    leaf: Tensor
    draws: Tensor
    other: Tensor
    times: Tensor


class Score(NamedTuple):
    """A measure of each of n inputs: value, floor and shuffled (n, K), the latter two None where
    there is none.
    """

    names: dict[str, str]  # source, opponent, reading, measure
    features: tuple[str, ...]
    value: Tensor
    floor: Tensor | None = None
    shuffled: Tensor | None = None


def applies(run: Run) -> bool:
    """Whether the run's model says sentences of hierarchical binary vectors."""
    return probes.is_described(run) and isinstance(run.data, HierarchicalBinaryVectors)


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, ``translations.csv``, ``specificity.csv`` and the figures ``compare``
    and ``held_out``.

    The opponents are grammars on the run's own tree, by exact posteriors: ``node`` (the posterior
    over the classes that made the data), ``paths`` from the root, true of their end and all nodes
    below, ``leaf paths``, true of leaves only (levels left open: Geometric(½), cut at D), and
    ``slots``, every branch left, right or left open. They know all nodes of the tree, held-out ones
    included.

    A *concept* is what a sentence tells of features y, and an answer is their mixture, Q(y | x) =
    Σ_s P(s | x) p(y | s): over `DRAWS` sentences of the model, exact for a grammar. p(y | s) of a
    learned sentence is the run's first feature decoder at ẑ_s. p(y | h) of an expression is, by
    ``reading``:

    - ``heard``: the law of the features of inputs of which h is said, Σ_x P(h | x) 1[y(x) = y] /
      Σ_x P(h | x), over as many inputs as decoders learn from: what the same listener concludes
      with the same experience, training inputs. For the split held_out, inputs of all classes:
      those who are given the words know what they stand for;
    - ``literal``: that of the nodes that h is true of, uniform: what who knows the grammar, and no
    speaker, concludes.

    Jointly over the N nodes, P(node | s) ∝ Π_level p(y_level | s), normalised over the tree
    (`tree_law`); so for expressions that are heard, too; literal ones are uniform over their nodes.

    ``summary.csv``:

    - ``split``; ``inputs``: all, or exemplars of leaves; ``n``: how many;
    - ``source``: whose answers, ``learned`` or a grammar; ``opponent``: compared with whose;
      ``second listener``: with the learned answers as the run's other decoder reads them, the error
      of the instrument; ``reading``;
    - ``measure``, ``feature``: a level's, or ``node`` jointly, or empty;

      - ``js``: Jensen-Shannon divergence of the two answers, bits;
      - ``energy``: energy distance of the clouds of concepts (levels side by side), unbiased, 0
        where draws follow the Bayesian law (`energy_distance`); opposite leaves are √(2D) apart.
        Small errors of the listener, unlike in ``js``, add up in proportion;
      - ``translation_tv``: total variation of P(expression | x) by translation from the Bayesian
        posterior; of a model that says the same in other words it is at the floor;
      - ``residual``: distance of the sentences said from the expressions that they are translated
        to, Σ_level JS, bits; ``residual_scrambled``: of sentences whose levels were dealt anew
        among sentences, level by level; ``residual_dealt``: to the translation of another sentence;
      - ``unsaid``: levels left open, of translated sentences, or of the grammar's expressions;
        ``unsaid_tv``: total variation of the two laws of it, over all inputs; ``bits``: entropy of
        P(node | s), mean over sentences;
      - ``accuracy``: of the likeliest outcome of Q(y | x); ``accuracy_one``: of one sentence alone;
        ``gap``: accuracy less that of the literal node posterior, the Bayes ceiling, for the same
        inputs;

    - ``value``, mean over inputs; ``low``, ``high``: 95 % bootstrap interval over inputs;
      ``floor``: the same for as many draws of the Bayesian posterior in the place of the model's;
      ``shuffled``: with the Bayesian answer, or the truth, of another input; ``reason``: why the
      value is missing.

    Translation goes to the nearest expression (`translate`) that a listener would have heard once
    at least. ``translations.csv`` (split, opponent, sentence, expression, residual, usage, unsaid,
    bits): every sentence that was said; the expression as its branches from the root, · for one
    left open; usage is a share of what is said. ``specificity.csv`` (split, inputs, opponent,
    measure, value, learned, grammar, geometric): laws of levels unsaid and of entropy, rounded to
    whole bits.

    Source: Section *Sample diversity*, which leaves open how sentences compare with a normative
    posterior.

    Raises ValueError where the model says no sentences, or the data is no tree.
    """
    model, data = probes.require_described(run)
    if not isinstance(data, HierarchicalBinaryVectors):
        raise ValueError(
            "this analysis needs hierarchical binary vectors, whose grammars are known, "
            f"not {type(data).__name__}: leave it out"
        )
    splits, sentences = _describe(run, data)
    pair = probes.feature_decoders(run)
    listeners = [read(decoder(model.embed(sentences)).flat.double(), data) for decoder in pair]
    learned = listeners[0]
    grammars, reasons = _grammars(data)
    heard = run.data.batch(probes.INPUTS)

    rows: list[dict[str, Any]] = []
    laws: list[pd.DataFrame] = []
    listed: list[pd.DataFrame] = []
    for name, split in splits.items():
        if name != "train":
            heard = all_classes(data, heard)
        opponents = [listen(grammar, built, heard, data) for grammar, built in grammars.items()]
        bayes = {o.name: answer(o, split.x, DRAWS) for o in opponents}
        translated = {o.name: translate_sentences(learned, o, data.depth) for o in opponents}
        scores = _accuracies(split, listeners, opponents, bayes, data)
        scores += _second_opinion(split, listeners, data)
        scores += _between(opponents, bayes, data)
        for o in opponents:
            scores += _divergences(split, learned, o, bayes[o.name], data)
            scores += _translations(split, o, bayes[o.name], translated[o.name])
        scores.append(
            Score(
                _of_model("bits"), ("",), mixture(entropy_bits(learned.nodes)[:, None], split.draws)
            )
        )
        rows += [{"split": name} | row for score in scores for row in _summarise(score, split)]
        found = [
            _specificity(split, learned, o, bayes[o.name], translated[o.name], data)
            for o in opponents
        ]
        specificity = pd.concat(found).assign(split=name)
        laws.append(specificity)
        for o in opponents:
            distances = _specificity_distance(split, o, bayes[o.name], translated[o.name], data)
            rows += [{"split": name} | row for row in distances]
            table = _list_translations(
                model.language, sentences, split, learned, o, translated[o.name]
            )
            listed.append(table.assign(split=name))
        missing = {"split": name, "inputs": ALL, "source": LEARNED, "measure": "js", "n": 0}
        rows += [
            missing | {"opponent": left_out, "reason": why} for left_out, why in reasons.items()
        ]
        summary = pd.DataFrame([row for row in rows if row["split"] == name], columns=list(COLUMNS))
        with style():
            figure = _draw(
                name, split, learned, opponents, bayes, translated, summary, specificity, data
            )
            save(figure, out / ("compare" if name == "train" else name))
    pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(out / "summary.csv", index=False)
    columns = ["split", "inputs", "opponent", "measure", "value", "learned", "grammar", "geometric"]
    pd.concat(laws)[columns].to_csv(out / "specificity.csv", index=False)
    columns = ["split", "opponent", "sentence", "expression", "residual", "usage", "unsaid", "bits"]
    pd.concat(listed)[columns].to_csv(out / "translations.csv", index=False)


# -- what is compared


def _grammars(data: HierarchicalBinaryVectors) -> tuple[dict[str, GrammarModel], dict[str, str]]:
    """The grammars on the data's tree, and why others are left out."""
    found, reasons = {}, {}
    for name, (program, settings) in GRAMMARS.items():
        if name == SLOTS and 3**data.depth > MOST_EXPRESSIONS:
            reasons[name] = f"{3**data.depth:,} expressions are too many"
            continue
        loaded = registry.load("models", program)
        found[name] = loaded.build(
            loaded.Config(depth=data.depth, bits=data.bits, **settings), data
        )
    return found, reasons


def _describe(run: Run, data: HierarchicalBinaryVectors) -> tuple[dict[str, Split], Tensor]:
    """Every split, and the different sentences (S, width) that the model says in them."""
    batches, said = [], []
    for name in data.splits:
        batch = run.data.batch(INPUTS, name)
        parts = [run.model.describe(x, DRAWS).s for x in batch.x.split(max(1, ROWS // DRAWS))]
        batches.append(batch)
        said.append(torch.cat(parts))
    flat = torch.cat(said).flatten(0, 1)
    index = run.model.language.key(flat).unique(return_inverse=True)[1]
    first = torch.empty(int(index.max()) + 1, dtype=torch.int64)
    first[index] = torch.arange(len(flat))  # any of the draws of each sentence
    splits = {}
    for name, batch, numbers in zip(
        data.splits, batches, index.view(len(batches), INPUTS, DRAWS), strict=True
    ):
        order = torch.randperm(INPUTS)
        other = torch.empty_like(order)
        other[order] = order.roll(1)
        leaf = data.depths[batch.y] == data.depth
        values = data.feature_values(batch)
        splits[name] = Split(batch.x, batch.y, values, leaf, numbers, other, resample(batch.x))
    return splits, flat[first]


# -- scores of single inputs


def _divergences(
    split: Split,
    learned: Concepts,
    opponent: Baseline,
    bayes: Bayes,
    data: HierarchicalBinaryVectors,
) -> list[Score]:
    """(a) and (b): the answers, and the clouds of concepts."""
    levels, nodes = (mixture(table, split.draws) for table in learned)
    scores = []
    for reading, concepts in opponent.readings.items():
        names = {"source": LEARNED, "opponent": opponent.name, "reading": reading}
        exact, drawn = (
            [law @ table for table in concepts] for law in (bayes.distribution, bayes.drawn)
        )
        found = [
            torch.cat([feature_divergence(a, b, data.depth), jensen_shannon(c, d)[:, None]], -1)
            for a, b, c, d in (
                (levels, exact[0], nodes, exact[1]),
                (drawn[0], exact[0], drawn[1], exact[1]),
                (levels, exact[0][split.other], nodes, exact[1][split.other]),
            )
        ]
        scores.append(Score(names | {"measure": "js"}, (*data.label_names, NODE), *found))
        if reading == LITERAL:
            continue
        clouds = [
            energy_distance(points, index, concepts.levels, law)[:, None]
            for points, index, law in (
                (learned.levels, split.draws, bayes.distribution),
                (concepts.levels, bayes.draws, bayes.distribution),
                (learned.levels, split.draws, bayes.distribution[split.other]),
            )
        ]
        scores.append(Score(names | {"measure": "energy"}, ("",), *clouds))
    return scores


def _translations(
    split: Split, opponent: Baseline, bayes: Bayes, translated: Translated
) -> list[Score]:
    """(c) and (d): sentences as expressions."""
    law = law_of(translated.expression[split.draws], bayes.distribution.shape[1])
    heard = {"source": LEARNED, "opponent": opponent.name, "reading": HEARD}
    own = {"source": opponent.name, "opponent": "", "reading": HEARD}
    tv = [
        total_variation(a, b)[:, None]
        for a, b in (
            (law, bayes.distribution),
            (bayes.drawn, bayes.distribution),
            (law, bayes.distribution[split.other]),
        )
    ]
    unsaid, bits = opponent.open_levels.double(), entropy_bits(opponent.readings[HEARD].nodes)
    literal = entropy_bits(opponent.readings[LITERAL].nodes)

    def mean(of_sentences: Tensor) -> Tensor:
        return of_sentences[split.draws].mean(-1, keepdim=True)

    return [
        Score(heard | {"measure": "translation_tv"}, ("",), *tv),
        Score(heard | {"measure": "residual"}, ("",), mean(translated.residual)),
        Score(heard | {"measure": "residual_scrambled"}, ("",), mean(translated.scrambled)),
        Score(heard | {"measure": "residual_dealt"}, ("",), mean(translated.dealt)),
        Score(heard | {"measure": "unsaid"}, ("",), mean(unsaid[translated.expression])),
        Score(own | {"measure": "unsaid"}, ("",), (bayes.distribution @ unsaid)[:, None]),
        Score(own | {"measure": "bits"}, ("",), (bayes.distribution @ bits)[:, None]),
        Score(
            own | {"measure": "bits", "reading": LITERAL},
            ("",),
            (bayes.distribution @ literal)[:, None],
        ),
    ]


def _of_model(measure: str, reading: str = HEARD) -> dict[str, str]:
    return {"source": LEARNED, "opponent": "", "reading": reading, "measure": measure}


def _accuracies(
    split: Split,
    listeners: Sequence[Concepts],
    opponents: Sequence[Baseline],
    bayes: Mapping[str, Bayes],
    data: HierarchicalBinaryVectors,
) -> list[Score]:
    """(e): of the likeliest outcomes of answers, and of single sentences."""

    def right(levels: Tensor, values: Tensor) -> Tensor:
        return shared_accuracy(levels.unflatten(-1, (data.depth, 3)), values)

    truth, another = split.values, split.values[split.other]
    scores = []
    ceiling = None
    for o in opponents:
        for reading, concepts in o.readings.items():
            names = {"source": o.name, "opponent": "", "reading": reading}
            exact, drawn = (
                law @ concepts.levels for law in (bayes[o.name].distribution, bayes[o.name].drawn)
            )
            found = [right(exact, truth), right(drawn, truth), right(exact, another)]
            scores.append(Score(names | {"measure": "accuracy"}, data.label_names, *found))
            if o.name == NODE and reading == LITERAL:
                ceiling = found[0]
            # (3, E, D): of each expression where the truth is each of the outcomes
            one = torch.stack(
                [
                    right(concepts.levels, torch.full((len(o.branches), data.depth), float(k)))
                    for k in range(3)
                ]
            )
            every = torch.stack([bayes[o.name].distribution @ of for of in one])  # (3, n, D)
            value = every.gather(0, truth.long()[None])[0]
            scores.append(Score(names | {"measure": "accuracy_one"}, data.label_names, value))
    assert ceiling is not None
    for reading, concepts in zip((HEARD, SECOND), listeners, strict=True):
        answers = mixture(concepts.levels, split.draws)
        value = right(answers, truth)
        single = right(
            concepts.levels[split.draws], truth[:, None].expand(-1, split.draws.shape[1], -1)
        ).mean(1)
        scores += [
            Score(
                _of_model("accuracy", reading),
                data.label_names,
                value,
                None,
                right(answers, another),
            ),
            Score(_of_model("accuracy_one", reading), data.label_names, single),
            Score(
                _of_model("gap", reading) | {"opponent": NODE}, data.label_names, value - ceiling
            ),
        ]
    return scores


def _second_opinion(
    split: Split, listeners: Sequence[Concepts], data: HierarchicalBinaryVectors
) -> list[Score]:
    """How far apart the run's two decoders read the same sentences."""
    (a, c), (b, d) = ([mixture(table, split.draws) for table in concepts] for concepts in listeners)
    js = torch.cat([feature_divergence(a, b, data.depth), jensen_shannon(c, d)[:, None]], -1)
    return [Score(_of_model("js") | {"opponent": SECOND}, (*data.label_names, NODE), js)]


def _between(
    opponents: Sequence[Baseline], bayes: Mapping[str, Bayes], data: HierarchicalBinaryVectors
) -> list[Score]:
    """(a) of each pair of grammars, exactly."""
    scores = []
    for k, left in enumerate(opponents):
        for right in opponents[k + 1 :]:
            for reading in (HEARD, LITERAL):
                (a, c), (b, d) = (
                    [bayes[o.name].distribution @ table for table in o.readings[reading]]
                    for o in (left, right)
                )
                js = torch.cat(
                    [feature_divergence(a, b, data.depth), jensen_shannon(c, d)[:, None]], -1
                )
                names = {
                    "source": left.name,
                    "opponent": right.name,
                    "reading": reading,
                    "measure": "js",
                }
                scores.append(Score(names, (*data.label_names, NODE), js))
    return scores


def _summarise(score: Score, split: Split) -> list[dict[str, Any]]:
    """Rows of summary.csv: means over all inputs, and over exemplars of leaves."""
    rows = []
    for inputs, chosen in ((ALL, torch.ones_like(split.leaf)), (LEAVES, split.leaf)):
        n = int(chosen.sum())
        reason = "" if n else "no exemplars of leaves among the inputs"
        nothing = np.full(len(score.features), np.nan)
        low, high = nothing, nothing
        if n:
            found = bootstrap(score.value[chosen], split.times[:, chosen])
            low, high = found.low.numpy(), found.high.numpy()
        means = [
            nothing if part is None or not n else part[chosen].mean(0).numpy()
            for part in (score.value, score.floor, score.shuffled)
        ]
        for k, feature in enumerate(score.features):
            numbers = {"value": means[0][k], "low": low[k], "high": high[k], "floor": means[1][k]}
            row = score.names | {
                "inputs": inputs,
                "feature": feature,
                "shuffled": means[2][k],
                "n": n,
                "reason": reason,
            }
            rows.append(row | numbers)
    return rows


# -- laws over all inputs


def _unsaid_laws(
    split: Split, opponent: Baseline, bayes: Bayes, translated: Translated, depth: int
) -> list[Tensor]:
    """(n, D + 1) laws of levels unsaid of each input: of translations, of the grammar, and of as
    many draws of it.
    """
    levels = one_hot(opponent.open_levels, depth + 1).double()
    return [
        mixture(levels[translated.expression], split.draws),
        bayes.distribution @ levels,
        bayes.drawn @ levels,
    ]


def _specificity_distance(
    split: Split,
    opponent: Baseline,
    bayes: Bayes,
    translated: Translated,
    data: HierarchicalBinaryVectors,
) -> list[dict[str, Any]]:
    """The rows of unsaid_tv."""
    laws = _unsaid_laws(split, opponent, bayes, translated, data.depth)
    rows = []
    for inputs, chosen in ((ALL, torch.ones_like(split.leaf)), (LEAVES, split.leaf)):
        names = {"inputs": inputs, "source": LEARNED, "opponent": opponent.name, "reading": HEARD}
        row = names | {"measure": "unsaid_tv", "feature": "", "n": int(chosen.sum())}
        if not bool(chosen.any()):
            rows.append(row | {"reason": "no exemplars of leaves among the inputs"})
            continue
        learned, grammar, drawn = (law[chosen] for law in laws)
        weights = split.times[:, chosen]
        again = total_variation(weights @ learned, weights @ grammar) / weights.sum(-1)
        numbers = {
            "value": float(total_variation(learned.mean(0), grammar.mean(0))),
            "low": float(again.nanquantile(0.025)),
            "high": float(again.nanquantile(0.975)),
            "floor": float(total_variation(drawn.mean(0), grammar.mean(0))),
        }
        rows.append(row | numbers | {"reason": ""})
    return rows


def _geometric(depth: int) -> Tensor:
    """(D + 1,) Geometric(½), cut at D."""
    p = 0.5 ** torch.arange(1, depth + 2, dtype=torch.float64)
    return p / p.sum()


def _specificity(
    split: Split,
    learned: Concepts,
    opponent: Baseline,
    bayes: Bayes,
    translated: Translated,
    data: HierarchicalBinaryVectors,
) -> pd.DataFrame:
    """The rows of specificity.csv."""
    levels = _unsaid_laws(split, opponent, bayes, translated, data.depth)
    tables = []
    own, others = (
        entropy_bits(c.nodes).round().long() for c in (learned, opponent.readings[HEARD])
    )
    most = int(max(own.max(), others.max())) + 1
    bits = [
        mixture(one_hot(own, most).double(), split.draws),
        bayes.distribution @ one_hot(others, most).double(),
    ]
    for inputs, chosen in ((ALL, torch.ones_like(split.leaf)), (LEAVES, split.leaf)):
        if not bool(chosen.any()):
            continue
        for measure, (a, b) in (("unsaid", levels[:2]), ("bits", bits)):
            law = {"learned": a[chosen].mean(0).numpy(), "grammar": b[chosen].mean(0).numpy()}
            geometric = _geometric(data.depth).numpy() if measure == "unsaid" else np.nan
            table = pd.DataFrame({"value": range(a.shape[1])} | law).assign(geometric=geometric)
            tables.append(table.assign(inputs=inputs, opponent=opponent.name, measure=measure))
    return pd.concat(tables)


def _list_translations(
    language: Any,
    sentences: Tensor,
    split: Split,
    learned: Concepts,
    opponent: Baseline,
    translated: Translated,
) -> pd.DataFrame:
    """The rows of translations.csv, the most used sentences first."""
    usage = law_of(split.draws.flatten()[None], len(sentences))[0]
    said = opponent.branches[translated.expression]
    columns = {
        "opponent": opponent.name,
        "sentence": [language.name(s) for s in sentences],
        "expression": ["".join("·LR"[b + 1] for b in row) for row in said.tolist()],
        "residual": translated.residual.numpy(),
        "usage": usage.numpy(),
        "unsaid": opponent.open_levels[translated.expression].numpy(),
        "bits": entropy_bits(learned.nodes).numpy(),
    }
    table = pd.DataFrame(columns).sort_values("usage", ascending=False, kind="stable")
    return table[table["usage"] > 0]


# -- the figures


def _draw(
    name: str,
    split: Split,
    learned: Concepts,
    opponents: Sequence[Baseline],
    bayes: Mapping[str, Bayes],
    translated: Mapping[str, Translated],
    summary: pd.DataFrame,
    specificity: pd.DataFrame,
    data: HierarchicalBinaryVectors,
) -> Figure:
    figure = Figure(figsize=(11, 11.5), layout="constrained")
    top, middle, bottom = figure.subfigures(3, 1, squeeze=False, height_ratios=[3.1, 3.4, 3.1])[
        :, 0
    ]
    part = summary[summary["split"] == name]
    where = SPLIT_NAMES.get(name, name)
    paths = next(o for o in opponents if o.name == PATHS)
    _draw_examples(top, split, learned, paths, bayes[PATHS], data, where)
    left, right = middle.subplots(1, 2)
    _draw_divergence(left, part, data.label_names)
    _draw_accuracy(right, part, data.label_names)
    left, right = bottom.subplots(1, 2, width_ratios=[1, 1.15])
    _draw_specificity(left, specificity[specificity["split"] == name], data.depth)
    _draw_residuals(right, split, opponents, translated)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # found once, not again for each file
    return figure


def _examples(
    split: Split, doubt: Tensor, data: HierarchicalBinaryVectors
) -> list[tuple[str, int]]:
    """Numbers of three inputs: the first exemplar of a leaf, the first of a node half way, the most
    doubtful leaf.
    """
    found = {}
    half = ((data.depths[split.node] == (data.depth + 1) // 2) & ~split.leaf).nonzero()[:, 0]
    leaves = split.leaf.nonzero()[:, 0]
    if len(leaves):
        found["a leaf"] = int(leaves[0])
    if len(half):
        found["a node half way"] = int(half[0])
    if len(leaves):
        found["the leaf most in doubt"] = int(leaves[doubt[leaves].argmax()])
    return list(found.items()) or [("an input", 0)]


def _draw_examples(
    figure: SubFigure,
    split: Split,
    learned: Concepts,
    opponent: Baseline,
    bayes: Bayes,
    data: HierarchicalBinaryVectors,
    where: str,
) -> None:
    answers = (
        bayes.distribution @ opponent.readings[HEARD].nodes,
        mixture(learned.nodes, split.draws),
    )
    through = [answer @ _below(data).T for answer in answers]
    examples = _examples(split, entropy_bits(answers[0]), data)
    row = figure.subplots(1, len(examples), squeeze=False)[0]
    figure.suptitle(f"What is understood of an input, {where}", x=0.01, ha="left", fontsize=11)
    image = None
    for axes, (title, i) in zip(row, examples, strict=True):
        node = int(split.node[i])
        image = _draw_trees(axes, through[0][i], through[1][i], node, data)
        js = float(jensen_shannon(answers[0][i], answers[1][i]))
        axes.set_title(f"{title}: {data.class_names[node]}  (JS {js:.2f} bits)", fontsize=10)
    row[0].set_ylabel("model    level    paths")
    if image is not None:
        figure.colorbar(
            image, ax=list(row), label="P(path goes through)", shrink=0.9, pad=0.01, aspect=25
        )


def _below(data: HierarchicalBinaryVectors) -> Tensor:
    """(N, N) float64, 1 where a path to the second node goes through the first."""
    on = (data.paths[:, None] == data.paths) | (data.paths[:, None] < 0)
    return on.all(-1).double()


def _draw_trees(
    axes: Axes, above: Tensor, below: Tensor, node: int, data: HierarchicalBinaryVectors
) -> AxesImage:
    """Two trees as nested boxes, roots at 0, one upwards and one downwards; the masses (N,) are
    colours.
    """
    depth, width = data.depth, 2**data.depth
    rows = [
        masses[data.depths == d].repeat_interleave(width >> d)
        for masses in (above, below)
        for d in _levels(data)
    ]
    grid = torch.stack([*rows[depth - 1 :: -1], *rows[depth:]])  # the top row first
    norm = PowerNorm(0.6, 0, 1)
    image = axes.imshow(
        grid.numpy(),
        cmap=WHITE_TO_BLUE,
        norm=norm,
        extent=(0, 1, -depth, depth),
        aspect="auto",
        interpolation="nearest",
    )
    sides = [
        ((k / 2**d, sign * (d - 1)), (k / 2**d, sign * d))
        for sign in (1, -1)
        for d in _levels(data)
        for k in range(2**d)
    ]
    floors = [((0, y), (1, y)) for y in range(-depth, depth + 1)]
    axes.add_collection(
        LineCollection(sides + floors, colors=LIGHT_GREY, linewidths=0.3), autolim=False
    )
    level, place = int(data.depths[node]), node + 2 - 2 ** int(data.depths[node])
    for bottom in (level - 1, -level):
        corner = (place * 0.5**level, bottom)
        frame = Rectangle(
            corner,
            0.5**level,
            1,
            fill=False,
            edgecolor=CRIMSON,
            linewidth=1.4,
            zorder=4,
            clip_on=False,
        )
        axes.add_patch(frame)
    axes.axhline(0, color="black", linewidth=1)
    axes.set_xticks([])
    ticks = [*range(-depth, 0), *range(1, depth + 1)]
    axes.set_yticks([t - 0.5 * np.sign(t) for t in ticks], [str(abs(t)) for t in ticks], fontsize=7)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image


def _levels(data: HierarchicalBinaryVectors) -> range:
    return range(1, data.depth + 1)


def _error_bars(axes: Axes, x: np.ndarray, part: pd.DataFrame, **options: Any) -> None:
    below, above = (
        (part["value"] - part["low"]).clip(lower=0),
        (part["high"] - part["value"]).clip(lower=0),
    )
    axes.errorbar(
        x,
        part["value"],
        np.stack([below, above]),
        capsize=0,
        markersize=5,
        linewidth=1.4,
        **options,
    )


def _draw_divergence(axes: Axes, part: pd.DataFrame, levels: Sequence[str]) -> None:
    names = [*levels, NODE]
    rows = part[
        (part["measure"] == "js")
        & (part["inputs"] == ALL)
        & part["value"].notna()
        & (part["reading"] == HEARD)
    ]
    learned, between = rows[rows["source"] == LEARNED], rows[rows["source"] != LEARNED]
    shown = [o for o in GRAMMARS if (learned["opponent"] == o).any()]
    tables = {o: learned[learned["opponent"] == o].set_index("feature").loc[names] for o in shown}
    x = np.arange(len(names))
    ranges = between.groupby("feature")["value"]
    low, high = ranges.min().loc[names], ranges.max().loc[names]
    axes.bar(x, high - low, 0.8, low, color=LIGHT_BLUE, alpha=0.25, label="between grammars")
    floor = np.max([of["floor"] for of in tables.values()], axis=0)
    axes.bar(x, floor, 0.8, color=GREY, alpha=0.6, label="finite draws")
    shuffled = np.mean([of["shuffled"] for of in tables.values()], axis=0)
    axes.hlines(shuffled, x - 0.4, x + 0.4, color=GREY, linestyle=":", label="another input")
    for k, (opponent, of) in enumerate(tables.items()):
        at = x + 0.16 * (k - (len(shown) - 1) / 2)
        name = f"model and {opponent}"
        _error_bars(
            axes,
            at,
            of,
            color=COLOURS[opponent],
            marker=MARKERS[opponent],
            linestyle="none",
            label=name,
        )
    axes.set_xticks(x, [*(str(k + 1) for k in range(len(levels))), "node"])
    axes.set_xlabel("level of the tree, and the node")
    axes.set_ylabel("divergence, bits")
    axes.set_ylim(-0.015, 1.02)
    axes.set_title("How far apart the answers are, all inputs")
    axes.legend(loc="upper left", fontsize=8, ncols=2, columnspacing=1.2)


def _draw_accuracy(axes: Axes, part: pd.DataFrame, levels: Sequence[str]) -> None:
    rows = part[part["inputs"] == LEAVES]
    x = np.arange(len(levels))
    axes.set_title("How often the likeliest branch is right, exemplars of leaves")
    axes.set_xticks(x, [str(k + 1) for k in x])
    axes.set_xlabel("level of the tree")
    axes.set_ylabel("share right")
    if rows["n"].max() == 0:
        axes.text(
            0.5,
            0.5,
            "no exemplars of leaves among the inputs",
            transform=axes.transAxes,
            ha="center",
        )
        return

    def of(source: str, measure: str, reading: str) -> pd.DataFrame:
        chosen = (
            (rows["source"] == source) & (rows["measure"] == measure) & (rows["reading"] == reading)
        )
        return rows[chosen].set_index("feature").loc[list(levels)]

    axes.plot(
        x,
        of(NODE, "accuracy", LITERAL)["value"],
        color="black",
        marker="_",
        markersize=14,
        label="Bayes ceiling",
    )
    for k, (source, measure, colour, label) in enumerate(
        (
            (PATHS, "accuracy", ORANGE, "paths, pooled"),
            (PATHS, "accuracy_one", ORANGE, "paths, one expression"),
            (LEARNED, "accuracy", BLUE, "model, pooled"),
            (LEARNED, "accuracy_one", BLUE, "model, one sentence"),
        )
    ):
        one = measure == "accuracy_one"
        _error_bars(
            axes, x + 0.12 * (k - 1.5), of(source, measure, HEARD), color=colour, marker="o" if one else "s",
            linestyle=":" if one else "-", markerfacecolor="white" if one else colour, label=label,
        )  # fmt: skip
    axes.set_ylim(0, 1.03)
    axes.legend(loc="lower left", fontsize=8)


def _draw_specificity(axes: Axes, table: pd.DataFrame, depth: int) -> None:
    """Levels unsaid of exemplars of leaves, by paths."""
    axes.set_title("Levels left unsaid, exemplars of leaves")
    axes.set_xlabel("levels left unsaid by the nearest path")
    axes.set_ylabel("share of what is said")
    chosen = (
        (table["measure"] == "unsaid") & (table["inputs"] == LEAVES) & (table["opponent"] == PATHS)
    )
    law = table[chosen]
    if law.empty:
        axes.text(
            0.5,
            0.5,
            "no exemplars of leaves among the inputs",
            transform=axes.transAxes,
            ha="center",
        )
        return
    axes.bar(law["value"], law["learned"], 0.8, color=BLUE, alpha=0.75, label="model")
    axes.plot(law["value"], law["grammar"], color=ORANGE, marker="o", linewidth=1.6, label="paths")
    axes.plot(
        law["value"],
        law["geometric"],
        color="black",
        linestyle="--",
        linewidth=1.2,
        label="Geometric(½)",
    )
    axes.set_xticks(range(depth + 1))
    axes.set_ylim(top=1.12 * axes.get_ylim()[1])
    axes.legend(loc="upper right", ncols=3, columnspacing=1.2)


def _draw_residuals(
    axes: Axes, split: Split, opponents: Sequence[Baseline], translated: Mapping[str, Translated]
) -> None:
    said = split.draws.flatten()
    share = np.linspace(0, 1, len(said) + 1)[1:]
    for o in opponents:
        found = translated[o.name]
        for residual, line in ((found.residual, "-"), (found.scrambled, "--"), (found.dealt, ":")):
            if line != "-" and o.name != PATHS:
                continue
            axes.plot(
                residual[said].sort().values.numpy(), share, color=COLOURS[o.name], linestyle=line,
                linewidth=1.8 if line == "-" else 1.2,
            )  # fmt: skip
    handles: list[Any] = [
        Line2D([], [], color=COLOURS[o.name], linewidth=1.8, label=o.name) for o in opponents
    ]
    handles += [
        Line2D(
            [], [], color=ORANGE, linestyle="--", linewidth=1.2, label="paths, levels\ndealt anew"
        ),
        Line2D(
            [],
            [],
            color=ORANGE,
            linestyle=":",
            linewidth=1.2,
            label="paths, trans-\nlations dealt anew",
        ),
    ]
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    axes.set_xscale("symlog", linthresh=0.05)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("distance of a sentence from its expression, bits (sum over levels)")
    axes.set_ylabel("share of what is said")
    axes.set_title("How well sentences translate")
