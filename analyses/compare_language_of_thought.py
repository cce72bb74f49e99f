"""Learned sentences beside a Bayesian language of thought: what they mean, and how well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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

from plot_attractors.analysis import language_of_thought_scores as scores
from plot_attractors.analysis import probes
from plot_attractors.analysis.language_of_thought_scores import (
    ALL,
    LEARNED,
    NO_LEAVES,
    NODE,
    Compared,
    Split,
)
from plot_attractors.analysis.parts import error, write
from plot_attractors.analysis.sampling import number_rows
from plot_attractors.analysis.shape import DESCRIBED, Needs
from plot_attractors.analysis.style import (
    BLUE,
    CRIMSON,
    GREEN,
    GREY,
    LIGHT_BLUE,
    LIGHT_GREY,
    ORANGE,
    PURPLE,
)
from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.language_of_thought import GrammarModel
from plot_attractors.language_of_thought.listening import (
    HEARD,
    Concepts,
    all_classes,
    answer,
    listen,
    mixture,
    read,
    synonyms,
    translate_sentences,
)
from plot_attractors.measures.bootstrap import resample
from plot_attractors.measures.calibration import total_variation
from plot_attractors.measures.divergence import entropy_bits, frequencies, jensen_shannon
from plot_attractors.ranges import Size
from plot_attractors.runs import Run, registry
from plot_attractors.split_names import split_name

TITLE = "Comparison with a Bayesian language of thought"
CAPTIONS = {
    "compare": (
        "Learned sentences beside the expressions of grammars whose tokens are given and whose use "
        "is exact Bayesian inference. They share no alphabet, so they are compared by what a "
        "listener makes of them who has heard them of many inputs. Top: the tree for three "
        "training inputs, its root in the middle line; colour is the probability that the input's "
        "path goes through a node. Upwards by the grammar of paths, downwards by the model's "
        "sentences: a picture that is its own mirror image is agreement. Red: the node that the "
        "input is an exemplar of. Middle, left: how far apart model and grammars are, for each "
        "level of the tree and for the node (Jensen-Shannon divergence; 0 bits: the same, 1 bit: "
        "nothing in common; vertical lines: 95 % intervals over inputs). Dotted: the answer for "
        "another input. Light blue: from the least to the greatest divergence between two of the "
        "grammars; a model within it differs from a grammar no more than grammars do from each "
        "other. Grey: what a finite number of draws makes of the grammar itself. Middle, right: "
        "how often the likeliest branch is right, for exemplars of leaves, when all sentences of "
        "an input are pooled (filled), and of one sentence alone (open); black: the most that can "
        "be known. Pooling lifts a Bayesian, whose expressions leave different things open; where "
        "it does not lift the model, its sentences err together. Below, left: how many levels are "
        "left open, when each sentence is translated to the nearest path; bars and orange line "
        "agree where a model is as specific as the grammar. Dashed: Geometric(½), the distribution "
        "of paths in a world of leaves only. Below, right: how good the translation is, as the "
        "share of sentences that is at most so far from its expression. Dashed: sentences whose "
        "levels were dealt anew among sentences, which mean nothing together; dotted: translations "
        "dealt anew. Only a solid line far to the left shows expressions in other tokens. Own: the "
        "grammar that the setting grammar names, where it names one."
    ),
    "held_out": (
        "Learned sentences beside grammars, for inputs of held-out classes. The grammars know "
        "these nodes, and so do the listeners who hear them; the model and its listener have never "
        "seen one, and take it for nodes that they know: how far apart they are is what it is "
        "worth to be given the tokens. Panels as for training inputs."
    ),
}


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

    inputs: Size = 500  # inputs of each split
    draws: Size = 32  # sentences of each
    # a model program of a grammar over the nodes of the tree, by name or path, beside the others
    grammar: str = ""


NEEDS = DESCRIBED & Needs(
    "hierarchical binary vectors", lambda run: isinstance(run.data, HierarchicalBinaryVectors)
)


# -- measures --------------------------------------------------------------------------------------


ROWS = 1024  # sentences described at once
MOST_EXPRESSIONS = 2500  # of a grammar: conjunctions of 7 levels
PATHS, OWN = "paths", "own"
COLUMNS = {
    "summary": "split inputs source baseline reading measure feature value low high floor shuffled "
    "n reason",
    "specificity": "split inputs baseline value learned grammar geometric",
    "translations": "split baseline sentence expression residual scrambled dealt usage open",
    "examples": "split example input js node paths model",
}


def require_tree(run: Run) -> HierarchicalBinaryVectors:
    """The run's data, or a ValueError where its model samples no sentences or it is no tree."""
    data = run.data
    if not isinstance(data, HierarchicalBinaryVectors):
        raise ValueError(
            "this analysis needs hierarchical binary vectors, whose grammars are known, "
            f"not {type(data).__name__}: leave it out"
        )
    return data


def _own_grammar(program: str, data: HierarchicalBinaryVectors) -> GrammarModel:
    """The grammar of a program, or a ValueError where it is none over the nodes of this tree."""
    loaded: Any = registry.load("models", program)
    try:
        model = loaded.build(loaded.Config(), data)
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{program} builds no grammar of this tree: {error}") from error
    objects = getattr(getattr(model, "objects", None), "probabilities", torch.empty(0))
    if not isinstance(model, GrammarModel) or not torch.equal(
        objects, data.probabilities[-len(objects) :]
    ):
        raise ValueError(
            f"{program} must build a GrammarModel whose objects are the tree's nodes: "
            "objects=BitObjects(data.probabilities)"
        )
    count = len(synonyms(model)[1])
    if count > MOST_EXPRESSIONS:
        raise ValueError(
            f"{program} has expressions of {count:,} meanings, and {MOST_EXPRESSIONS:,} can be "
            "compared: give it fewer rules, or a lower max_rules"
        )
    return model


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


def _specificity(split: Split, b: Compared, data: HierarchicalBinaryVectors) -> pd.DataFrame:
    """The rows of specificity.csv."""
    mine, theirs = _open_levels(split, b, data.depth)[:2]
    p = 0.5 ** torch.arange(1, data.depth + 2, dtype=torch.float64)
    geometric = (p / p.sum()).numpy()  # (½), cut at D
    tables = []
    for inputs, chosen in split.parts:
        if chosen.any():
            columns = {
                "value": range(mine.shape[1]),
                "learned": mine[chosen].mean(0).numpy(),
                "grammar": theirs[chosen].mean(0).numpy(),
                "geometric": geometric,
            }
            tables.append(pd.DataFrame(columns).assign(inputs=inputs, baseline=b.name))
    return pd.concat(tables)


def _list_translations(names: list[str], split: Split, b: Compared) -> pd.DataFrame:
    """The rows of translations.csv, the most used sentences first."""
    translated = b.translated
    columns = {
        "baseline": b.name,
        "sentence": names,
        "expression": [b.grammar.names[k] for k in translated.expression.tolist()],
        "residual": translated.residual.numpy(),
        "scrambled": translated.scrambled.numpy(),
        "dealt": translated.dealt.numpy(),
        "usage": frequencies(split.draws.flatten()[None], len(names))[0].numpy(),
        "open": b.grammar.open_levels[translated.expression].numpy(),
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
    doubt, examples = entropy_bits(exact), {}
    half = ((data.depths[split.node] == (data.depth + 1) // 2) & ~split.leaf).nonzero()[:, 0]
    leaves = split.leaf.nonzero()[:, 0]
    if len(leaves):
        examples["a leaf"] = leaves[0]
    if len(half):
        examples["a node half way"] = half[0]
    if len(leaves):
        examples["the leaf most in doubt"] = leaves[doubt[leaves].argmax()]
    parts = []
    for title, i in (examples or {"an input": torch.tensor(0)}).items():
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


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
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
    answers, ``learned`` or a grammar; ``baseline``: compared with whose; ``feature``: a level's, or
    ``node`` jointly, or empty) has by ``measure``:

    - ``js``: Jensen-Shannon divergence of the two answers, bits;
    - ``energy``: energy distance of the clouds of concepts (levels side by side), unbiased, 0 where
      draws follow the Bayesian distribution; opposite leaves are √(2D) apart;
    - ``translation_tv``: total variation of P(expression | x) by translation from the posterior;
    - ``residual``: distance of sentences from the expressions that they are translated to,
      Σ_level JS, bits; ``residual_scrambled``: of sentences whose levels were dealt anew among
      sentences; ``residual_dealt``: to the translation of another sentence;
    - ``open_tv``: total variation of the numbers of levels left open by translations, and by the
      grammar's expressions;
    - ``accuracy``: of the likeliest outcome of Q(y | x), at most that of the literal node
      posterior, the Bayes ceiling; ``accuracy_one``: of one sentence alone;

    and ``value``, the mean over inputs, with a 95 % bootstrap interval over inputs; ``floor``: the
    same for as many draws of the posterior in place of the model's; ``shuffled``: with the answer,
    or the truth, of another input; ``reason``: why the value is missing.

    Translation goes to the nearest expression (`translate`) that a listener would have heard once
    at least; expressions that are true of the same nodes are one. ``translations.csv``: every
    sentence sampled; the expression as its branches from the root, · for one left open, or, of a
    grammar without tokens of branches, its text; its residuals; usage: its share of what is
    sampled.
    ``specificity.csv``: distributions of the number of open levels.
    ``examples.csv``: of three inputs, P(path goes through the node) by the grammar of paths and by
    the model. Source: Section *Sample diversity*, which leaves open how sentences compare with a
    normative posterior.
    """
    data = require_tree(run)
    reason = f"{3**data.depth:,} expressions are too many"
    left_out = {"slots": reason} if 3**data.depth > MOST_EXPRESSIONS else {}

    program: Any = registry.load("models", "grammar")
    with torch.random.fork_rng(devices=[]):
        own = {OWN: _own_grammar(config.grammar, data)} if config.grammar else {}
    model = run.model
    splits, sentences = _describe(run, data, config.inputs, config.draws)
    decoder = probes.feature_decoders(run, config)[0]
    learned = read(decoder(model.embed(sentences)).points.double(), data)
    grammars = {
        name: program.build(program.Config(**options), data)
        for name, options in GRAMMARS.items()
        if name not in left_out
    } | own
    heard = run.data.batch(config.decoder_inputs)
    names = [model.language.name(s) for s in sentences]

    tables: dict[str, list[pd.DataFrame]] = {}
    for name, split in splits.items():
        if name != "train":
            heard = all_classes(data, heard)
        known = [listen(grammar, built, heard, data) for grammar, built in grammars.items()]
        bayes = [answer(o, split.x, config.draws) for o in known]
        translated = [translate_sentences(learned, o, data.depth) for o in known]
        baselines = [Compared(*parts) for parts in zip(known, bayes, translated, strict=True)]
        results = scores.accuracies(split, learned, baselines, data) + scores.between(
            baselines, data
        )
        for b in baselines:
            results += scores.divergences(split, learned, b, data) + scores.translations(split, b)
        rows = [row for score in results for row in scores.summary_rows(score, split)]
        rows += [row for b in baselines for row in _open_distance(split, b, data)]
        missing = {"inputs": ALL, "source": LEARNED, "measure": "js", "n": 0}
        rows += [missing | {"baseline": b, "reason": why} for b, why in left_out.items()]
        paths = next(b for b in baselines if b.name == PATHS)
        of_split = {
            "summary": pd.DataFrame(rows),
            "specificity": pd.concat([_specificity(split, b, data) for b in baselines]),
            "translations": pd.concat([_list_translations(names, split, b) for b in baselines]),
            "examples": _examples(split, learned, paths, data),
        }
        for table, part in of_split.items():
            tables.setdefault(table, []).append(part.assign(split=name))
    return {
        f"{table}.csv": pd.concat(parts).reindex(columns=COLUMNS[table].split())
        for table, parts in tables.items()
    }


# -- figures ---------------------------------------------------------------------------------------


COLOURS = {NODE: "black", PATHS: ORANGE, "leaf paths": GREEN, "slots": PURPLE, OWN: CRIMSON}
MARKERS = {NODE: "D", PATHS: "o", "leaf paths": "^", "slots": "s", OWN: "v"}
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("mass", ["#FFFFFF", LIGHT_BLUE, BLUE, "#00233A"])


def draw_figure(split: str, tables: Mapping[str, pd.DataFrame]) -> Figure:
    """Of one split, from ``summary.csv``, ``specificity.csv``, ``translations.csv`` and
    ``examples.csv``.
    """
    own = {name: table[table["split"] == split] for name, table in tables.items()}
    summary = own["summary.csv"].fillna({"baseline": "", "feature": ""})
    levels = [f for f in summary["feature"].unique() if f not in ("", NODE)]
    figure = Figure(figsize=(11, 11.5), layout="constrained")
    rows = figure.subfigures(3, 1, squeeze=False, height_ratios=[3.1, 3.4, 3.1])
    top, middle, bottom = rows[:, 0]
    title = f"What is understood of an input, {split_name(split)}"
    top.suptitle(title, x=0.01, ha="left", fontsize=11)
    _draw_examples(top, own["examples.csv"], len(levels))
    left, right = middle.subplots(1, 2)
    _draw_divergence(left, summary, levels)
    _draw_accuracy(right, summary, levels)
    left, right = bottom.subplots(1, 2, width_ratios=[1, 1.15])
    _draw_specificity(left, own["specificity.csv"], len(levels))
    _draw_residuals(right, own["translations.csv"])
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # found once, not again for each file
    return figure


def _draw_examples(figure: SubFigure, table: pd.DataFrame, depth: int) -> None:
    examples = list(table.groupby("example", sort=False))
    row = figure.subplots(1, len(examples), squeeze=False)[0]
    image = None
    for axes, (title, part) in zip(row, examples, strict=True):
        node = part["input"].iloc[0]
        image = _draw_trees(axes, part, node, depth)
        axes.set_title(f"{title}: {node}  (JS {part['js'].iloc[0]:.2f} bits)", fontsize=10)
    row[0].set_ylabel("model    level    paths")
    if image is not None:
        label = "P(path goes through)"
        figure.colorbar(image, ax=list(row), label=label, shrink=0.9, pad=0.01, aspect=25)


def _draw_trees(axes: Axes, part: pd.DataFrame, node: str, depth: int) -> AxesImage:
    """Two trees as nested boxes, roots at 0, the grammar's upwards and the model's downwards."""
    level = part["node"].str.len()
    levels = range(1, depth + 1)
    above, below = (
        [np.repeat(part.loc[level == d, name], 2 ** (depth - d)) for d in levels]
        for name in ("paths", "model")
    )
    image = axes.imshow(
        np.stack([*above[::-1], *below]), cmap=WHITE_TO_BLUE, norm=PowerNorm(0.6, 0, 1),
        extent=(0, 1, -depth, depth), aspect="auto", interpolation="nearest",
    )  # fmt: skip
    sides = [
        ((k / 2**d, sign * (d - 1)), (k / 2**d, sign * d))
        for sign in (1, -1)
        for d in levels
        for k in range(2**d)
    ]
    floors = [((0, y), (1, y)) for y in range(-depth, depth + 1)]
    grid = LineCollection(sides + floors, colors=LIGHT_GREY, linewidths=0.3)
    axes.add_collection(grid, autolim=False)
    left = sum(0.5 ** (d + 1) for d, branch in enumerate(node) if branch == "R")
    for bottom in (len(node) - 1, -len(node)):
        frame = Rectangle(
            (left, bottom), 0.5 ** len(node), 1, fill=False, edgecolor=CRIMSON, linewidth=1.4,
            zorder=4, clip_on=False,
        )  # fmt: skip
        axes.add_patch(frame)
    axes.axhline(0, color="black", linewidth=1)
    axes.set_xticks([])
    ticks = [*range(-depth, 0), *range(1, depth + 1)]
    axes.set_yticks([t - 0.5 * np.sign(t) for t in ticks], [str(abs(t)) for t in ticks], fontsize=7)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return image


def _error_bars(axes: Axes, x: np.ndarray, part: pd.DataFrame, **options: Any) -> None:
    look: dict[str, Any] = {"capsize": 0, "markersize": 5, "linewidth": 1.4, **options}
    axes.errorbar(x, part["value"].to_numpy(), error(part), **look)


def _draw_divergence(axes: Axes, summary: pd.DataFrame, levels: list[str]) -> None:
    names, x = [*levels, NODE], np.arange(len(levels) + 1)
    rows = summary.query("measure == 'js' and inputs == 'all' and reading == 'heard'")
    learned, between = rows[rows["source"] == LEARNED], rows[rows["source"] != LEARNED]
    shown = [name for name in COLOURS if (learned["baseline"] == name).any()]
    tables = {o: learned[learned["baseline"] == o].set_index("feature").loc[names] for o in shown}
    ranges = between.groupby("feature")["value"]
    low, high = ranges.min().loc[names], ranges.max().loc[names]
    axes.bar(x, high - low, 0.8, low, color=LIGHT_BLUE, alpha=0.25, label="between grammars")
    floor = np.max([table["floor"] for table in tables.values()], axis=0)
    axes.bar(x, floor, 0.8, color=GREY, alpha=0.6, label="finite draws")
    shuffled = np.mean([table["shuffled"] for table in tables.values()], axis=0)
    axes.hlines(shuffled, x - 0.4, x + 0.4, color=GREY, linestyle=":", label="another input")
    for k, (name, table) in enumerate(tables.items()):
        at = x + 0.16 * (k - (len(shown) - 1) / 2)
        marks = {"color": COLOURS[name], "marker": MARKERS[name], "linestyle": "none"}
        _error_bars(axes, at, table, label=f"model and {name}", **marks)
    axes.set_xticks(x, [*(str(k + 1) for k in range(len(levels))), "node"])
    axes.set(xlabel="level of the tree, and the node", ylabel="divergence, bits")
    axes.set(ylim=(-0.015, 1.02), title="How far apart the answers are, all inputs")
    axes.legend(loc="upper left", fontsize=8, ncols=2, columnspacing=1.2)


def _draw_accuracy(axes: Axes, summary: pd.DataFrame, levels: list[str]) -> None:
    x = np.arange(len(levels))
    axes.set_title("How often the likeliest branch is right, exemplars of leaves")
    axes.set_xticks(x, [str(k + 1) for k in x])
    axes.set(xlabel="level of the tree", ylabel="share right")
    rows = summary[(summary["inputs"] == "leaves") & (summary["n"] > 0)]
    if rows.empty:
        write(axes, NO_LEAVES)
        return

    def row(source: str, measure: str, reading: str) -> pd.DataFrame:
        chosen = rows["source"].eq(source) & rows["measure"].eq(measure)
        return rows[chosen & rows["reading"].eq(reading)].set_index("feature").loc[levels]

    ceiling = row(NODE, "accuracy", "literal")["value"]
    axes.plot(x, ceiling, color="black", marker="_", markersize=14, label="Bayes ceiling")
    series = (
        (PATHS, "accuracy", ORANGE, "paths, pooled"),
        (PATHS, "accuracy_one", ORANGE, "paths, one expression"),
        (LEARNED, "accuracy", BLUE, "model, pooled"),
        (LEARNED, "accuracy_one", BLUE, "model, one sentence"),
    )
    for k, (source, measure, colour, label) in enumerate(series):
        one = measure == "accuracy_one"
        _error_bars(
            axes, x + 0.12 * (k - 1.5), row(source, measure, "heard"),
            color=colour, marker="o" if one else "s", linestyle=":" if one else "-",
            markerfacecolor="white" if one else colour, label=label,
        )  # fmt: skip
    axes.set_ylim(0, 1.03)
    axes.legend(loc="lower left", fontsize=8)


def _draw_specificity(axes: Axes, table: pd.DataFrame, depth: int) -> None:
    axes.set_title("Levels left open, exemplars of leaves")
    axes.set(xlabel="levels left open by the nearest path", ylabel="share of sentences")
    rows = table.query("inputs == 'leaves' and baseline == @PATHS")
    if rows.empty:
        write(axes, NO_LEAVES)
        return
    axes.bar(rows["value"], rows["learned"], 0.8, color=BLUE, alpha=0.75, label="model")
    axes.plot(
        rows["value"], rows["grammar"], color=ORANGE, marker="o", linewidth=1.6, label="paths"
    )
    guess: dict[str, Any] = {"color": "black", "linestyle": "--", "linewidth": 1.2}
    axes.plot(rows["value"], rows["geometric"], label="Geometric(½)", **guess)
    axes.set(xticks=range(depth + 1), ylim=(None, 1.12 * axes.get_ylim()[1]))
    axes.legend(loc="upper right", ncols=3, columnspacing=1.2)


def _draw_residuals(axes: Axes, table: pd.DataFrame) -> None:
    controls = {
        "scrambled": ("--", "paths, levels\ndealt anew"),
        "dealt": (":", "paths, trans-\nlations dealt anew"),
    }
    handles: list[Any] = []
    for name, rows in table.groupby("baseline", sort=False):
        colour = COLOURS[str(name)]
        _draw_share(axes, rows["residual"], rows["usage"], color=colour, linewidth=1.8)
        handles.append(Line2D([], [], color=colour, linewidth=1.8, label=str(name)))
    rows = table[table["baseline"] == PATHS]
    for column, (line, label) in controls.items():
        options: dict[str, Any] = {"color": ORANGE, "linestyle": line, "linewidth": 1.2}
        _draw_share(axes, rows[column], rows["usage"], **options)
        handles.append(Line2D([], [], label=label, **options))
    axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    axes.set_xscale("symlog", linthresh=0.05)
    axes.set(xlim=(0, None), ylim=(0, 1.02))
    axes.set_xlabel("distance of a sentence from its expression, bits (sum over levels)")
    axes.set(ylabel="share of sentences", title="How well sentences translate")


def _draw_share(axes: Axes, distance: pd.Series, usage: pd.Series, **options: Any) -> None:
    """The share of what is sampled that is at most so far."""
    order = distance.to_numpy().argsort(kind="stable")
    x, share = distance.to_numpy()[order], usage.to_numpy()[order].cumsum()
    axes.step([x[0], *x], [0, *share], where="post", **options)


def draw(tables: dict[str, Any]) -> dict[str, Any]:
    """A figure for each split, ``compare`` for training inputs."""
    splits = tables["summary.csv"]["split"].unique()
    names = {split: "compare" if split == "train" else split for split in splits}
    return {name: draw_figure(split, tables) for split, name in names.items()}
