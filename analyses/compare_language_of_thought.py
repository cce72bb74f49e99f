"""Learned sentences beside a Bayesian language of thought: what they mean, and how well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors
from plot_attractors.evaluation import compare_language_of_thought, compare_table_grammar, probes
from plot_attractors.evaluation.sampling import refuse_inputs, shows_bits
from plot_attractors.language_of_thought import GrammarModel
from plot_attractors.model.protocols import decodes_sentences
from plot_attractors.plots.compare_language_of_thought import draw
from plot_attractors.plots.compare_table_grammar import draw_table
from plot_attractors.ranges import Size
from plot_attractors.runs import Run, registry

TITLE = "Comparison with a Bayesian language of thought"
CAPTIONS = {
    "table": (
        "Learned sentences of a table beside conjunctions of its columns, whose use is exact "
        "Bayesian inference. Both answer an input with a probability of 1 for each column. (A) How "
        "far the answers are apart, for each column (Jensen-Shannon divergence; 0 bits: the same; "
        "95 % intervals over inputs); dashed: what a finite number of draws makes of the grammar "
        "itself; dotted: the grammar's answer to another input. (B) Each sentence is translated to "
        "the conjunction whose answer is nearest: the share of sentences at most so far from it, "
        "and the same of sentences whose columns were dealt anew among sentences, which mean "
        "nothing together. Only a blue line far to the left shows conjunctions in other words. (C) "
        "The sentences that are used most, their share, their conjunction, and how far it is."
    ),
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
        "dealt anew. Only a solid line far to the left shows expressions in other tokens."
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
    "node": {"program": "tree_grammar", "meaning": "node"},
    "paths": {"program": "tree_grammar", "meaning": "nodes"},
    "leaf paths": {"program": "tree_grammar", "meaning": "leaves"},
    "slots": {"program": "slot_grammar", "meaning": "nodes"},
}


@dataclass(frozen=True)
class Config(probes.Training):
    """Sample sizes, beside those of `probes.Training`."""

    inputs: Size = 500  # of each split
    draws: Size = 32  # sentences of each
    most_expressions: Size = 2500  # of a grammar: conjunctions of 7 levels


def applies(run: Run) -> bool:
    """Whether the run's model samples sentences of hierarchical binary vectors, or samples
    sentences of a table and decodes them as Bernoulli.
    """
    if isinstance(run.data, BinaryTable):
        return decodes_sentences(run.model) and shows_bits(run)
    return probes.is_described(run) and isinstance(run.data, HierarchicalBinaryVectors)


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """The tables of `compare_language_of_thought.measure`, or of `compare_table_grammar.measure`,
    whose conjunctions of a table have as many columns as can be listed, three at most.
    """
    if isinstance(run.data, BinaryTable):
        if not applies(run):
            refuse_inputs(run, "bits of a table, decoded as Bernoulli from sentences")
        built = _of_table(run.data)
        return compare_table_grammar.measure(run, built, config.inputs, config.draws)
    data = compare_language_of_thought.require_tree(run)
    reason = f"{3**data.depth:,} expressions are too many"
    left_out = {"slots": reason} if 3**data.depth > config.most_expressions else {}

    def grammar(program: str, **settings: str) -> GrammarModel:
        loaded: Any = registry.load("models", program)
        return loaded.build(loaded.Config(depth=data.depth, bits=data.bits, **settings), data)

    def build() -> dict[str, GrammarModel]:
        return {name: grammar(**of) for name, of in GRAMMARS.items() if name not in left_out}

    sizes = config.inputs, config.draws
    return compare_language_of_thought.measure(run, build, left_out, *sizes, config)


def _of_table(data: BinaryTable) -> GrammarModel:
    """The grammar of a table, of conjunctions as long as can be listed."""
    program: Any = registry.load("models", "table_grammar")
    for longest in (3, 2):
        try:
            return program.build(program.Config(literals=longest), data)  # type: ignore[no-any-return]
        except ValueError:  # too many
            continue
    return program.build(program.Config(literals=1), data)  # type: ignore[no-any-return]


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """A figure for each split, ``compare`` for training inputs."""
    if "rows.csv" in tables:
        return draw_table(tables)
    splits = tables["summary.csv"]["split"].unique()
    return {"compare" if split == "train" else split: draw(split, tables) for split in splits}
