"""Whether sentences that share a basin mean the same: their features, as a decoder reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from plot_attractors.evaluation import probes, sampling
from plot_attractors.evaluation.neighbours import LEAST, Pairs
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Size
from plot_attractors.runs import Run

TITLE = "Neighbours"
CAPTIONS = {
    "neighbours": (
        "Do sentences that share a basin mean the same? States start exactly at the embedding ẑ_s "
        "of a sentence sampled for an input, and follow the dynamics for 5T steps. Kept are those "
        "that end nearer to ẑ_s than the median state, and yet nearest to ẑ_n of another sentence "
        "(in use, where sentences can be listed); where these are too few, all that end nearest to "
        "another one, as the headline says. A panel for each feature: what a decoder of features "
        "reads at ẑ_s (across) and at ẑ_n (up), a point for each pair and outcome. Dashed: line of "
        "best fit; r: Pearson correlation of all points, with its 95 % interval; random pairs: the "
        "same with each ẑ_s beside the ẑ_n of another, above 0 where some outcomes are likelier "
        "than others; within outcomes: r without these differences. Grey: alike in meaning. A "
        "state that ends at a sentence of the same meaning counts here as a pair, and as recovered "
        "in the analysis perturbation."
    )
}


@dataclass(frozen=True)
class Config(probes.Training):
    inputs: Size = 512  # that tell which sentences are in use
    trajectories: Size = 2000  # unperturbed starts
    shown: Count = 400  # pairs that are drawn


def applies(run: Run) -> bool:
    """Whether the run's model has attractors, and its data has features."""
    return isinstance(run.model, AttractorModel) and probes.is_described(run)


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Features at ẑ_s, s read at z_T of trajectories of training inputs, and at the nearest ẑ_n.

    - ``summary.csv``: a row for each choice of pairs (ẑ_s, ẑ_n) and each feature; ``n`` pairs; see
      `correlate`. ``near``, the paper's, are of the states that are nearest to ẑ_n ≠ ẑ_s after 5T
      steps and have ‖z' − ẑ_s‖ below its median over all states; ``all``, without that bound. A
      categorical feature's values are the probabilities of all its outcomes, pooled;
    - ``ends.csv``, a row: ``trajectories``; ``elsewhere``, share of states nearest to ẑ_n ≠ ẑ_s;
    - ``pairs.npz``: what is shown: ``near`` if these are of `LEAST` sentences, else ``all``.

    Raises ValueError where the model has no attractors, or the data has no features. Source:
    Section *Attractor dynamics*, Fig. *nn_similarity*.
    """
    model = sampling.require_attractors(run.model)
    _, data = probes.require_described(run)
    x = run.data.batch(config.inputs).x
    used = sampling.sentences_in_use(model, x) if sampling.is_listed(model) else None
    known = None if used is None else model.sentences[used]
    s = sampling.sampled_sentences(run, config.trajectories)
    start = sampling.number_sentences(model, s)
    ends = sampling.end_states(model, s, model.embed(s), known)
    elsewhere = (ends.sentence != s).any(-1)
    chosen = {"near": elsewhere & (ends.original < ends.original.median()), "all": elsewhere}
    decoder, rows, pairs = probes.feature_decoders(run, config)[0], [], {}
    for name, kept in chosen.items():
        parts = (decoder(model.embed(of[kept])).parts for of in (s, ends.sentence))
        pairs[name] = Pairs(start[kept], *parts)
        found = zip(data.features, pairs[name].correlations(), strict=True)
        n = int(kept.sum())
        rows += [{"pairs": name, "feature": f.name, "n": n} | r._asdict() for f, r in found]
    row = {"trajectories": len(start), "elsewhere": float(elsewhere.double().mean())}
    shown = "near" if pairs["near"].sentences >= LEAST else "all"
    return {
        "summary.csv": pd.DataFrame(rows),
        "ends.csv": pd.DataFrame([row]),
        "pairs.npz": pairs[shown].arrays(data.features, config.shown) | {"shown": np.array(shown)},
    }


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """A panel for each feature."""
    from plot_attractors.plots.neighbours import draw_neighbours

    (ends,) = tables["ends.csv"].to_dict("records")
    return {"neighbours": draw_neighbours(tables["pairs.npz"], tables["summary.csv"], ends)}
