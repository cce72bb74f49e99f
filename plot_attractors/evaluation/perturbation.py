"""Where states end that start beside an embedding, and what they still mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from plot_attractors.evaluation.metrics.attractors import binomial_interval
from plot_attractors.evaluation.metrics.bootstrap import bootstrap
from plot_attractors.evaluation.metrics.critical import Critical
from plot_attractors.evaluation.probes import FeatureDecoder
from plot_attractors.evaluation.sampling import (
    CELLS,
    SAME_MEANING,
    EndStates,
    decoded_bits,
    differing_bits,
    end_states,
    is_listed,
    number_sentences,
    perturbed_trajectories,
    random_directions,
    sampled_sentences,
    shows_bits,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.runs import Run

RADIUS = 3.0  # a state is at an embedding when it is nearer than this many ε√d
PERCENTILES = (5, 10, 25, 50, 75, 90, 95)
SENTENCE = "sentence"  # name and kind of the rows that say whether s itself is the nearest


# Sentences that decode to bits


class Meanings(NamedTuple):
    """ẑ (n, d) of n sentences, and the bits (n, N) that the decoder reads there, 0 or 1."""

    embedding: Tensor
    bits: Tensor

    @classmethod
    def of(cls, model: AttractorModel) -> Meanings:
        """All sentences of a model."""
        embedding = model.embeddings()
        return cls(embedding, decoded_bits(model, embedding))

    def take(self, index: Tensor) -> Meanings:
        """Those of some rows."""
        return Meanings(self.embedding[index], self.bits[index])

    def differ(self) -> bool:
        """Whether any two sentences mean something else."""
        bits = self.bits.unique(dim=0)
        rows = bits.split(max(1, CELLS // len(bits)))  # the first rows tell, mostly
        return any(bool((differing_bits(part, bits) > SAME_MEANING).any()) for part in rows)


def compares_bits(run: Run) -> bool:
    """Whether meanings are told by the bits that sentences decode to."""
    return is_listed(run.model) and shows_bits(run)


@torch.no_grad()
def distinguishes(run: Run) -> bool:
    """Whether the bits of some sentences differ in meaning, or meanings are not told by bits."""
    return not compares_bits(run) or Meanings.of(run.model).differ()


def perturb_meanings(run: Run, used: Tensor, n: int, factors: Sequence[float]) -> pd.DataFrame:
    """Whether states come back to an embedding of their meaning, ‖ν‖ = factor · h_s.

    h_s is half the distance from ẑ_s to the nearest ẑ of a sentence in use of another meaning, or
    of any sentence where all starts are without. Sentences mean the same where the bits decoded at
    their ẑ differ in two or fewer. Starts without another meaning in use are left out.

    A row for each kind of n starts, and each factor:

    - ``start``: ``used``, uniformly from the sentences in use, `used` (S,), or ``sampled``, as read
      at z_T of trajectories of training inputs;
    - ``norm``: median ‖ν‖;
    - ``recovered``: share of states that end nearer than 3 ε√d to an embedding in use of the same
      meaning, or to ẑ_s; ``recovered_low``, ``recovered_high``: its 95 % interval (Wilson);
    - ``nearest_same``: share of states whose nearest embedding of these means the same, which is
      stricter where meanings lie nearer to each other than that radius;
    - ``settled``: share of states nearer than it to ẑ_s or to any sentence in use;
    - ``distance_to_start``, ``distance_to_nearest``: median distance to ẑ_s, and to the nearest of
      it and all in use.

    Raises ValueError where no sentence has another meaning.
    """
    model, among = run.model, torch.nonzero(used).flatten()
    meanings = Meanings.of(model)
    in_use = meanings.take(among)
    starts = {"used": among[torch.randint(len(among), (n,))]}
    starts["sampled"] = model.language.row(sampled_sentences(run, n))
    rows = []
    for start, index in starts.items():
        at = meanings.take(index)
        half = _nearest(at.embedding, at, in_use)[1] / 2
        if not half.isfinite().any():
            half = _nearest(at.embedding, at, meanings)[1] / 2
        kept = half.isfinite()
        if not kept.any():
            raise ValueError(
                f"sentences decode to bits that differ in {SAME_MEANING} at most: there is no "
                "other meaning to measure a perturbation by"
            )
        at, half = at.take(kept), half[kept]
        for factor in factors:
            found = _perturb(model, at, in_use, factor * half)
            rows.append({"start": start, "factor": factor} | found)
    return pd.DataFrame(rows)


def _perturb(
    model: AttractorModel, start: Meanings, used: Meanings, norm: Tensor
) -> dict[str, float]:
    """One row's numbers, of perturbations of the given norms (n,)."""
    z = start.embedding + norm[:, None] * random_directions(start.embedding)
    z = perturbed_trajectories(model, z, start.embedding)
    moved = (z - start.embedding).norm(dim=-1)
    same, other = _nearest(z, start, used)
    same = same.minimum(moved)  # a sentence that a trajectory samples need not be in use
    anywhere = same.minimum(other)
    radius = RADIUS * model.epsilon * math.sqrt(model.latent)
    recovered = (same < radius).sum()
    low, high = binomial_interval(recovered, len(z))
    return {
        "norm": float(norm.median()),
        "recovered": int(recovered) / len(z),
        "recovered_low": float(low),
        "recovered_high": float(high),
        "nearest_same": float((same <= other).double().mean()),
        "settled": float((anywhere < radius).double().mean()),
        "distance_to_start": float(moved.median()),
        "distance_to_nearest": float(anywhere.median()),
    }


def _nearest(z: Tensor, start: Meanings, used: Meanings) -> tuple[Tensor, Tensor]:
    """Distances (n,) of states z (n, d) to the nearest sentence in use of the same meaning as
    `start` (n), and of another; ∞ where there is none.
    """
    parts = []
    for rows in torch.arange(len(z)).split(max(1, CELLS // len(used.bits))):
        # not by matrix products, which round away the small distances that matter here
        distance = torch.cdist(z[rows], used.embedding, compute_mode="donot_use_mm_for_euclid_dist")
        same = differing_bits(start.bits[rows], used.bits) <= SAME_MEANING
        nearest = (distance.masked_fill(far, math.inf).amin(-1) for far in (~same, same))
        parts.append(tuple(nearest))
    same, other = (torch.cat(part) for part in zip(*parts, strict=True))
    return same, other


# The paper's absolute norms


def norm_grid(model: AttractorModel, s: Tensor, known: Tensor | None, steps: int) -> Tensor:
    """(steps + 1,) norms from 0 to the `largest_norm`, the denser the nearer to 0."""
    grid = torch.tensor([(k / steps) ** 2 for k in range(steps + 1)])
    return grid * largest_norm(model, s, known)


def largest_norm(model: AttractorModel, s: Tensor, known: Tensor | None) -> float:
    """The largest distance between embeddings of sentences `known` (U, width), or of s (n, width).

    Where that is one sentence alone: of all sentences, or of draws from the prior where these are
    too many to list.
    """
    given = s.unique(dim=0) if known is None else known
    if len(given) == 1 and is_listed(model):
        given = model.sentences
    elif len(given) == 1:
        given = model.draw_prior(len(s))
    points = model.embed(given)
    rows = points.split(max(1, CELLS // len(points)))
    return max(float(torch.cdist(part, points).max()) for part in rows)


def ends_by_norm(
    model: AttractorModel, s: Tensor, norms: Tensor, known: Tensor | None = None
) -> EndStates:
    """The ends (K, n) of states that start at ẑ_s of sentences s (n, width), perturbed by each of K
    norms (K,) in one random direction a state; the nearest is of the sentences `known` (U, width)
    and s, or of all.
    """
    start = model.embed(s)
    beside = start + norms[:, None, None] * random_directions(start)
    ends = end_states(model, s.repeat(len(norms), 1), beside.flatten(0, 1), known)
    return EndStates(*(part.unflatten(0, (len(norms), -1)) for part in ends))


def end_percentiles(norms: Tensor, ends: EndStates, radius: float) -> pd.DataFrame:
    """For each norm and target, the ``original`` ẑ_s or the ``nearest`` embedding: the share of
    states ``within`` a radius of it, and percentiles of the distance.
    """
    rows = []
    levels = torch.tensor(PERCENTILES, dtype=torch.float64) / 100
    for target in ("original", "nearest"):
        distance: Tensor = getattr(ends, target)
        quantiles = distance.double().quantile(levels, -1).T
        for norm, level, d in zip(norms.tolist(), quantiles.tolist(), distance, strict=True):
            row = {"norm": norm, "target": target, "within": float((d <= radius).double().mean())}
            rows.append(row | {f"p{p}": v for p, v in zip(PERCENTILES, level, strict=True)})
    return pd.DataFrame(rows)


def critical_row(model: AttractorModel, critical: Critical, norms: Tensor, n: int) -> pd.DataFrame:
    """The critical perturbation of n starts, the ``largest`` norm, and the ``noise`` ε√d, which is
    the distance of exact samples.
    """
    sizes = {"n": n, "largest": float(norms[-1]), "noise": model.epsilon * model.latent**0.5}
    row = pd.DataFrame([critical._asdict() | sizes])
    return row.rename(columns={"norm": "critical"})


def compare_features(
    decoder: FeatureDecoder,
    model: AttractorModel,
    s: Tensor,
    norms: Tensor,
    ends: EndStates,
    times: Tensor,
) -> pd.DataFrame:
    """How much of the meaning of n sentences s (n, width) is left in the sentences nearest to the
    ends (K, n) of states that started beside them.

    `times` (resamples, n) says how often each start counts in a bootstrap sample
    (`plot_attractors.evaluation.metrics.bootstrap.resample`). A row for each norm, and for the
    sentence and each feature:

    - ``kind``: ``sentence``, ``categorical`` or ``continuous``;
    - ``value``: share of states whose nearest sentence is s; share of those that the decoder names
      the same likeliest outcome at ẑ_n of and at ẑ_s; root mean squared difference of its
      predictions there, in the feature's units;
    - ``low``, ``high``: its 95 % bootstrap interval over sentences;
    - ``random``: the same of all n(n − 1) pairs of different starts; NaN for n = 1.
    """
    at_s, at_n = decoder(model.embed(s)), decoder(model.embed(ends.sentence))
    same = (ends.sentence == s).all(-1, keepdim=True)
    score = torch.cat([same.to(at_s.outputs.dtype), at_n.score(at_s.values)], -1)  # (K, n, 1 + F)
    values = torch.cat([number_sentences(model, s)[:, None].double(), at_s.values.double()], -1)
    keys = [(SENTENCE, SENTENCE), *((f.name, f.kind) for f in decoder.features)]
    squared = torch.tensor([kind == "continuous" for _, kind in keys])
    estimate = bootstrap(score.transpose(0, 1).flatten(1), times)
    levels = [part.unflatten(0, (len(norms), -1)) for part in estimate]
    levels = [torch.where(squared, part.sqrt(), part) for part in levels]  # (K, 1 + F) each
    tables = []
    for k, (name, kind) in enumerate(keys):
        columns = {"norm": norms.tolist(), "feature": name, "kind": kind}
        numbers = zip(("value", "low", "high"), levels, strict=True)
        columns |= {column: part[:, k].numpy() for column, part in numbers}
        tables.append(pd.DataFrame(columns | {"random": _of_random_pairs(values[:, k], kind)}))
    return pd.concat(tables, ignore_index=True)


def _of_random_pairs(values: Tensor, kind: str) -> float:
    """Of all ordered pairs of values (n,), the share that are alike, or of continuous ones the root
    mean squared difference.
    """
    n = len(values)
    if n < 2:
        return math.nan
    if kind == "continuous":
        return float((2 * values.var()).sqrt())
    times = values.unique(return_counts=True)[1].double()
    return float((times * (times - 1)).sum()) / (n * (n - 1))
