"""Description lengths, disentanglement and NPMI of a language, and its corpus as JSON lines."""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from plot_attractors.evaluation import corpora, corpus_files, language_measures
from plot_attractors.evaluation.probes import is_described, require_described
from plot_attractors.plots.language_measures import draw
from plot_attractors.runs import Run

TITLE = "Description length and disentanglement"
CAPTIONS = {
    "language_measures": (
        "Do sentences make the description of what they mean shorter, and has every factor of "
        "meaning a part of its own? A: how many times shorter the prequential code of features "
        "(and of latent states z0, if the model has them) is where sentences are known: "
        "compositionality of the language system, C = K(Z) / K(Z | W). 1: they tell nothing by "
        "their parts. B: DCI, mutual information gap, and mean best NPMI of tokens. A cross is the "
        "same measure when sentences are shuffled over inputs; a diamond, when they are shuffled "
        "over meanings, so that every meaning keeps sentences of its own, but without system; a "
        "triangle, of a language that spells the features out (no ceiling for z0, nor for "
        "DCI where features depend on each other). C: bits an input of each block of "
        "the code, by the number of training inputs that the decoder has learned from. D: "
        "normalised pointwise mutual information of tokens and values of features: 1 together or "
        "not at all, 0 independent, −1 never together."
    )
}

Config = language_measures.Sizes
applies = is_described


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of one sentence for each of `inputs` inputs of every split.

    - ``summary.csv``: ``measure``: ``language_compositionality``, and the code lengths of features
      ``code_length`` K(Z) / N, ``code_length_given`` K(Z | W) / N and ``code_length_sentences``
      K(W) / N, bits an input; with ``_z0``, of the latent states of attractor models;
      ``dci_disentanglement``, ``dci_completeness``, ``dci_informativeness``,
      ``mutual_information_gap``, of groups of tokens or positions, and features; ``npmi``, mean
      over tokens of the best NPMI with a value, and ``npmi_tokens``, with another token;
      ``harris_boundaries``, ``harris_segments``: of ordered sequences. ``null_…``: of languages
      whose sentences are shuffled over inputs (Harris's: whose tokens are permuted);
      ``holistic_…``: over meanings; ``p_value``: that shuffled ones are as great; ``spelled``: of
      the language that spells the features out, a ceiling but for ``…_z0``, and for DCI where
      features depend on each other; ``n``: distinct inputs; ``reason``: why the value is missing.
    - ``npmi.csv`` (split, token, feature, value, npmi).
    - ``code_lengths.csv`` (split, represented, source, seen, inputs, bits): of each block of the
      prequential code, inputs seen before and in it, and bits an input.
    - ``corpus.jsonl``: the sentences, see `plot_attractors.evaluation.corpus_files`;
      ``plot-attractors measure`` computes the same from it.
    """
    model, data = require_described(run)
    splits = {
        split: corpora.corpus(model, data, run.data.batch(config.inputs, split))
        for split in run.data.splits
    }
    parts: dict[str, list[pd.DataFrame]] = {}
    for split, of in splits.items():
        found = {
            "summary": language_measures.measures(of, config),
            "npmi": language_measures.pairs(of),
            "code_lengths": language_measures.code_blocks(of),
        }
        for name, table in found.items():
            table.insert(0, "split", split)
            parts.setdefault(name, []).append(table)
    tables: dict[str, Any] = {f"{name}.csv": pd.concat(of) for name, of in parts.items()}
    tables["summary.csv"] = tables["summary.csv"][list(language_measures.COLUMNS)]
    metadata = corpus_files.metadata_of(run) if isinstance(run, Run) else {}
    return tables | {"corpus.jsonl": corpus_files.to_lines(splits, metadata)}


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """The figure ``language_measures``."""
    names = ("summary", "npmi", "code_lengths")
    return {"language_measures": draw(*(tables[f"{name}.csv"] for name in names))}
