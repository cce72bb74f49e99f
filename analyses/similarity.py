"""How compositional the sentences are, beside two kinds of shuffled languages."""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from plot_attractors.evaluation import corpora, similarity
from plot_attractors.evaluation.probes import is_described, require_described
from plot_attractors.plots.similarity import draw
from plot_attractors.runs import Run

TITLE = "Similarity and compositionality"
CAPTIONS = {
    "similarity": (
        "Do similar inputs get similar sentences, and do features have tokens of their own? A: how "
        "many tokens two sentences differ in, by the number of features in which their inputs "
        "differ. Each column of the heat map is a distribution, solid lines are means, and dotted "
        "ones means of all pairs, where a language without information would lie; ρ is the rank "
        "correlation of the two distances (topographic similarity, RSA). For a hierarchy B has the "
        "number of edges between two nodes of the tree instead. Bars: measures of compositionality "
        "with 95 % intervals. A cross is the same measure when sentences are shuffled over inputs, "
        "so that they tell nothing; a diamond, when they are shuffled over meanings, so that every "
        "meaning keeps sentences of its own, but without system. Only what is beyond the diamond "
        "is compositional. Measures are 1 at best, but the tree reconstruction error is 0 at best, "
        "and 1 where features do not help. Last panel: how much the presence of each token tells "
        "of each feature, in bits."
    )
}
COLUMNS = (
    "measure split value low high null_mean null_sd p_value holistic_mean holistic_sd "
    "holistic_p_value n pairs reason"
)

Config = similarity.Sizes
applies = is_described


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Tables of one sentence for each of `inputs` inputs of every split.

    Sentences are taken as sets of tokens, and their distance is the number of tokens that only one
    of them has; the distance of inputs is the number of categorical features that differ and the
    sum of the absolute differences of continuous ones (Section *Representational similarity
    analysis*). Where features are levels of a tree, both are also compared with the number of edges
    between two nodes.

    - ``summary.csv``: ``measure``: ``topographic_similarity`` (Spearman's ρ),
      ``topographic_similarity_tree``, ``posdis``, ``bosdis``, ``context_independence``,
      ``mutual_information`` (I(sentence; feature) / H(feature), mean over features) and
      ``tree_reconstruction_error`` (relative to that of the mean sentence); ``low``, ``high``: 95 %
      bootstrap interval over inputs; ``null_…``, ``p_value``: of languages whose sentences are
      shuffled over inputs (ρ: Mantel's test); ``holistic_…``: shuffled over meanings; ``n``:
      distinct inputs; ``pairs``: compared; ``reason``: why the value is missing.
    - ``information.csv`` (split, feature, token, information, entropy, null_mean, null_sd,
      p_value): plug-in I(token's presence; feature) and H(feature), bits, beside languages
      shuffled over inputs; ``token`` is "sentence" for whole sentences.
    - ``pairs.csv`` (split, measure, distance, width, tokens, pairs): how many of random pairs of
      inputs have this distance (binned to `width` where features are continuous), and sentences
      with as many different tokens.
    """
    model, data = require_described(run)
    parts: dict[str, list[pd.DataFrame]] = {}
    for split in run.data.splits:
        of = corpora.corpus(model, data, run.data.batch(config.inputs, split))
        seed = int(torch.randint(2**31, ()))
        found = {
            "summary": pd.DataFrame(similarity.measures(of, config, seed)),
            "information": similarity.information(of, config.permutations, seed),
            "pairs": similarity.pair_counts(of),
        }
        for name, table in found.items():
            table.insert(0, "split", split)
            parts.setdefault(name, []).append(table)
    tables = {f"{name}.csv": pd.concat(of_splits) for name, of_splits in parts.items()}
    summary = tables["summary.csv"].astype({"pairs": "Int64"})
    return tables | {"summary.csv": summary.reindex(columns=COLUMNS.split())}


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """The figure ``similarity``."""
    return {"similarity": draw(*(tables[f"{n}.csv"] for n in ("summary", "information", "pairs")))}
