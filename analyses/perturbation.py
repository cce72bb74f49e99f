"""Whether embeddings are attractors: where states go that start beside one, by the size of the perturbation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from plot_attractors.attractor import AttractorModel
from plot_attractors.em import in_use_threshold
from plot_attractors.figures import BLUE, GREY, ORANGE, save, style
from plot_attractors.metrics import in_use
from plot_attractors.sampling import LENGTHS, is_listed, require_listed

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Perturbation"
CAPTIONS = {
    "perturbation": (
        "Are embeddings of sentences attractors? States start beside the embedding of a sentence, perturbed in a "
        "random direction, and follow the dynamics for five times T steps. Left: share of states that end within "
        "three times ε√d of an embedding of the same meaning (solid, with 95 % intervals), whose nearest embedding "
        "has that meaning (dotted), or that are within three times ε√d of any embedding (dashed); size 1 is half the "
        "distance to the nearest sentence in use of another meaning. An attractor takes back perturbations smaller "
        "than its basin: solid lines are flat and fall beyond some size, while dashed lines stay at 1, since a state "
        "that has left one basin falls into another. Right: median distance of the last states to the embedding they "
        "started at (solid) and to the nearest one (dashed); dotted, ε√d, is how far exact samples are from their "
        "embedding. The solid lines are flat up to a critical size, the dashed ones at any size. Blue: starts at "
        "every sentence in use, equally often; orange: as often as trajectories say it."
    )
}

INPUTS = 512  # inputs that tell which sentences are in use
TRAJECTORIES = 1000  # for each kind of start and each size
FACTORS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # sizes, in halves of the distance to another meaning
SAME_MEANING = 2  # bits by which sentences of one meaning may differ; a leaf of hierarchical binary vectors holds two
RADIUS = 3.0  # a state is at an embedding when it is nearer than this many ε√d
CELLS = 4_000_000  # entries of a (states, sentences) table held at once
STARTS = {"used": "sentences in use, equally often", "sampled": "as often as trajectories say them"}
COLOURS = {"used": BLUE, "sampled": ORANGE}


@dataclass(frozen=True)
class Sentences:
    """Some sentences' ẑ (n, d), and the bits (n, N) that the decoder reads there, 0 or 1."""

    embedding: Tensor
    bits: Tensor

    def __getitem__(self, index: Tensor) -> Sentences:
        return Sentences(self.embedding[index], self.bits[index])


class Nearest(NamedTuple):
    """Distances (n,) to the nearest sentence in use of the same meaning and of another; ∞ where there is none."""

    same: Tensor
    other: Tensor


def applies(run: Run) -> bool:
    """Whether the run's model has attractors, sentences that can be listed, and a decoder that tells some apart."""
    if not is_listed(run.model):
        return False
    bits = _listed(run.model).bits
    return bool(((bits != bits[0]).sum(-1) > SAME_MEANING).any())


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv`` and the figure ``perturbation`` into ``out``.

    States start at z = ẑ_s + ν, with ν in a uniformly random direction and ‖ν‖ = factor · h_s, where h_s is half the
    distance from ẑ_s to the nearest ẑ of a sentence in use with another meaning. Two sentences mean the same where the
    bits that the decoder reads at their ẑ differ in two or fewer. They follow the forward dynamics for 5T steps from
    t = 1 on, since at t = 0 a learned vector may be added. There is no input: parts that see one see ẑ_s as z0, or an
    input decoded there. ``summary.csv`` has a row for each kind of start and each factor:

    - ``start``: how s is drawn: ``used``, uniformly from the sentences in use, or ``sampled``, as read at the ends z_T
      of trajectories of training inputs;
    - ``factor``; ``norm``: median ‖ν‖;
    - ``recovered``: share of states that end nearer than 3 ε√d to ẑ_s or to the ẑ of a sentence in use of the same
      meaning; ``recovered_low``, ``recovered_high``: its 95 % interval (Wilson);
    - ``nearest_same``: share of states whose nearest embedding of these means the same, which is stricter where
      meanings lie nearer to each other than that radius;
    - ``settled``: share of states nearer than it to ẑ_s or to any sentence in use;
    - ``distance_to_start``, ``distance_to_nearest``: median distance to ẑ_s, and to the nearest of it and all in use.

    Sentences that no other meaning is in use beside are left out; where that is all of them, h_s is measured to all
    sentences instead. Raises ValueError where none has another meaning, and where
    sentences are too many to list. Source: the paper's experiment of perturbed attractors.
    """
    model = require_listed(run.model)
    used = in_use(
        model.log_posterior(model.encode(run.data.batch(INPUTS).x).distribution).exp(),
        in_use_threshold(len(model.sentences)),
    )
    sentences = _listed(model)
    starts = {
        "used": torch.nonzero(used).flatten()[torch.randint(int(used.sum()), (TRAJECTORIES,))],
        "sampled": _sampled(run, model, TRAJECTORIES),
    }
    rows = []
    for start, index in starts.items():
        half = _nearest(sentences.embedding[index], sentences[index], sentences[used]).other / 2
        if not half.isfinite().any():
            half = _nearest(sentences.embedding[index], sentences[index], sentences).other / 2
        kept = half.isfinite()
        if not kept.any():
            raise ValueError(
                f"sentences decode to bits that differ in {SAME_MEANING} at most: there is no other meaning to "
                "measure a perturbation by"
            )
        at, half = sentences[index[kept]], half[kept]
        for factor in FACTORS:
            rows.append({"start": start, "factor": factor} | _perturb(model, at, sentences[used], factor * half))
    table = pd.DataFrame(rows)
    table.to_csv(out / "summary.csv", index=False)
    with style():
        save(_draw(table, model), out / "perturbation")


@torch.no_grad()
def _listed(model: AttractorModel) -> Sentences:
    embeddings = model.embeddings()
    return Sentences(embeddings, (model.decoder(embeddings).logits > 0).float())


def _sampled(run: Run, model: AttractorModel, n: int) -> Tensor:
    """(n,) rows of sentences that are read at the end of a trajectory from each of n inputs."""
    encoding = model.encode(run.data.batch(n).x)
    z = model.trajectories(encoding.z0, model.steps, encoding.context)[-1]
    return model.index(model.sentence_given_state(z, encoding.context).sample())


def _perturb(model: AttractorModel, start: Sentences, used: Sentences, norm: Tensor) -> dict[str, float]:
    """One row's numbers, of states that start beside `start` by perturbations of the given norms (n,)."""
    direction = torch.nn.functional.normalize(torch.randn_like(start.embedding), dim=-1)
    z = start.embedding + norm[:, None] * direction
    # Nothing was encoded here: ẑ_s is the mean of an imagined input, as in the sleep of the inference programs.
    context = start.embedding if model.context == "z0" else model.decoder(start.embedding).sample()
    for t in range(1, LENGTHS[-1] * model.steps + 1):
        z = model.forward_dynamics(z, float(t), context).sample()
    moved = (z - start.embedding).norm(dim=-1)
    nearest = _nearest(z, start, used)
    same = nearest.same.minimum(moved)  # a sentence that a trajectory says need not be in use
    anywhere = same.minimum(nearest.other)
    radius = RADIUS * model.epsilon * math.sqrt(model.latent)
    recovered = float((same < radius).double().mean())
    low, high = _wilson(recovered, len(z))
    return {
        "norm": float(norm.median()),
        "recovered": recovered,
        "recovered_low": low,
        "recovered_high": high,
        "nearest_same": float((same <= nearest.other).double().mean()),
        "settled": float((anywhere < radius).double().mean()),
        "distance_to_start": float(moved.median()),
        "distance_to_nearest": float(anywhere.median()),
    }


def _nearest(z: Tensor, start: Sentences, used: Sentences) -> Nearest:
    """How far states z (n, d) are from sentences in use that mean the same as `start` (n), and something else."""
    parts = []
    for rows in torch.arange(len(z)).split(max(1, CELLS // len(used.bits))):
        # not by matrix products, which round away the small distances that matter here
        distance = torch.cdist(z[rows], used.embedding, compute_mode="donot_use_mm_for_euclid_dist")
        bits = start.bits[rows]
        same = bits @ (1 - used.bits).T + (1 - bits) @ used.bits.T <= SAME_MEANING
        far = torch.full_like(distance, math.inf)
        parts.append((torch.where(same, distance, far).amin(-1), torch.where(same, far, distance).amin(-1)))
    return Nearest(*(torch.cat(part) for part in zip(*parts, strict=True)))


def _wilson(p: float, n: int, quantile: float = 1.96) -> tuple[float, float]:
    """Bounds of Wilson's 95 % interval of a share p of n."""
    q = quantile**2
    middle, half = p + q / (2 * n), quantile * math.sqrt(p * (1 - p) / n + q / (4 * n**2))
    return max(0.0, (middle - half) / (1 + q / n)), min(1.0, (middle + half) / (1 + q / n))


def _draw(table: pd.DataFrame, model: AttractorModel) -> Figure:
    figure = Figure(figsize=(10.5, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for start, name in STARTS.items():
        part, colour = table[table["start"] == start], COLOURS[start]
        x = part["factor"]
        left.fill_between(x, part["recovered_low"], part["recovered_high"], color=colour, alpha=0.2, linewidth=0)
        left.plot(x, part["recovered"], color=colour, marker="o", markersize=4, label=f"same meaning: {name}")
        left.plot(x, part["nearest_same"], color=colour, linestyle=":", label=f"nearest of the same: {name}")
        left.plot(x, part["settled"], color=colour, linestyle="--", label=f"any meaning: {name}")
        x = part["norm"]
        right.plot(x, part["distance_to_start"], color=colour, marker="o", markersize=4, label=f"to the start: {name}")
        right.plot(x, part["distance_to_nearest"], color=colour, linestyle="--", label=f"to the nearest: {name}")
    left.axvline(1, color=GREY, linestyle=":", label="half way to another meaning")
    left.set_ylim(0, 1.03)
    left.set_xlim(0, max(FACTORS))
    left.set_title("Back at an embedding")
    left.set_xlabel("size of the perturbation, in half distances to another meaning")
    left.set_ylabel("share of states after 5T steps")
    right.axhline(model.epsilon * math.sqrt(model.latent), color="black", linestyle=":", label="exact samples, ε√d")
    right.set_xlim(left=0)
    right.set_ylim(bottom=0)
    right.set_title("Distance from embeddings")
    right.set_xlabel("median ‖ν‖, size of the perturbation")
    right.set_ylabel("median distance after 5T steps")
    for axes in (left, right):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return figure
