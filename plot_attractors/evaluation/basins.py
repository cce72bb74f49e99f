"""Fixed points of a model's mean dynamics, and their basins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.evaluation.metrics.attractors import (
    Converged,
    SmoothedMap,
    antithetic_draws,
    binomial_interval,
    fixed_point_iteration,
    nearest,
    single_linkage,
    solve_fixed_points,
    stability,
)
from plot_attractors.evaluation.sampling import (
    first_rows,
    require_listed,
    sentences_in_use,
    shows_vectors,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.runs import Run

STEP_TOLERANCE = 0.01  # a centre has converged when it moves less than this many ε in a step
SOLVED = 0.001  # a fixed point is solved to this many ε
SAME = 0.1  # fixed points nearer than this many ε√d are one
INSIDE = 0.25  # a centre that converged nearer to a stable fixed point is in its basin, ε√d
NEIGHBOURS = 3  # of each stable fixed point: half way to them, unstable ones are looked for
NEAR = 1.5  # a fixed point is at an embedding when it is nearer than this many ε√d
GROUPS = 16  # of basins, for their shares
KINDS = ("stable", "saddle", "repeller")


class SentencesInUse(NamedTuple):
    """Rows (S,) of the language, ẑ (S, d) and mean probability (S,)."""

    rows: Tensor
    embedding: Tensor
    probability: Tensor

    @classmethod
    def of(cls, model: AttractorModel, x: Tensor, most: int) -> SentencesInUse:
        """Those in use for inputs x (B, …), a random choice of `most` where there are more."""
        rows = torch.nonzero(sentences_in_use(model, x)).flatten()
        rows = rows[torch.randperm(len(rows))[:most].sort().values]
        probability = model.posterior.log_prob(model.encode(x).distribution).exp().mean(0)
        return cls(rows, model.embeddings()[rows], probability[rows])


@dataclass(frozen=True)
class FixedPoints:
    """Fixed points z (n, d), stable ones first, with the moduli (n, d) of their eigenvalues,
    largest first, and the number (n,) of moduli above 1.
    """

    z: Tensor
    moduli: Tensor
    unstable: Tensor

    @property
    def stable(self) -> Tensor:
        """(m, d) the stable ones."""
        return self.z[self.unstable == 0]

    def __getitem__(self, index: Tensor) -> FixedPoints:
        return FixedPoints(self.z[index], self.moduli[index], self.unstable[index])


def unfit(model: AttractorModel) -> str:
    """Why fixed points of this model make no sense; empty where they do."""
    if model.latent < 2:
        return f"the latent space has {model.latent} dimension, and a landscape needs two"
    if model.input_dependent:
        return "the forward dynamics see the input, so that every input has fixed points of its own"
    return ""


def require_fixed_points(run: Run) -> AttractorModel:
    """The model of a run, or a ValueError that says why this analysis cannot be made of it."""
    model = require_listed(run.model)
    if not shows_vectors(run.data):
        raise ValueError("this analysis is of vectors, and the inputs are images: leave it out")
    if reason := unfit(model):
        raise ValueError(f"{reason}: leave this analysis out")
    return model


def gaussian_like(points: Tensor, n: int) -> Tensor:
    """(n, d) draws from the Gaussian with the mean and the covariance, which may be singular, of
    points (N, d).
    """
    centered = points - points.mean(0)
    scale = math.sqrt(max(1, len(points) - 1))
    return points.mean(0) + torch.randn(n, len(points)) @ centered / scale


def share(of: Tensor) -> float:
    """The share of true entries, NaN where there are none at all."""
    return float(of.double().mean())


class Basins:
    r"""The mean dynamics F of a model, its fixed points, and what flows to each.

    .. math:: F(z) = E_η[μ(z + εη)], \quad η \sim N(0, 1), \quad μ(z) = E[z_{t+1} | z_t = z].

    F is where the centre of a cloud of states of width ε, that of N(ẑ_s, ε²), is after one step. μ
    itself has no fixed points: its step, max_step · sigmoid(m) · v/‖v‖, is never 0 and changes its
    direction at once where v = 0, at an attractor. F is smooth, and by Stein's identity its
    Jacobian is the share of a perturbation of the centre that is left. η are fixed draws, so that F
    has no noise. t is T + 1: the learned start vector (t = 0) is left out, and from T on dynamics
    that see the time no longer change.

    States that start at `starts` follow F until they converge; where they end is merged, refined by
    Newton's method and merged again by single linkage. Newton's method from half way between
    neighbouring stable points finds unstable ones, not all of them. A state is in the basin of the
    stable fixed point that F takes it to. Distances are in units of ε√d, `unit`.

    `starts` are states (n, d) beside the embeddings of sentences in use: "data", of trajectories at
    T, and "random". F has `draws` of η, `fine_draws` for eigenvalues.
    """

    def __init__(
        self,
        model: AttractorModel,
        sentences: SentencesInUse,
        starts: Mapping[str, Tensor],
        draws: int,
        fine_draws: int,
        iterations: int,
    ) -> None:
        self.model, self.sentences, self.iterations = model, sentences, iterations
        self.unit = model.epsilon * math.sqrt(model.latent)
        self.f = self._smoothed(draws)
        starts = {"sentences": sentences.embedding, **starts}
        ends = {name: self.iterate(z) for name, z in starts.items()}
        points = self._find(torch.cat([end.z[end.converged] for end in ends.values()]), fine_draws)
        count = self._counts(self._basin(ends["data"].z, points.stable), len(points.stable))
        order = count.argsort(descending=True, stable=True)
        self.points = points[torch.cat([order, torch.arange(len(order), len(points.z))])]
        self.basins = {name: self.basin(end.z) for name, end in ends.items()}

    def _smoothed(self, draws: int) -> SmoothedMap:
        """F, of as many draws, or twice as many as there are dimensions."""
        model = self.model
        eta = antithetic_draws(max(draws, 2 * model.latent), model.latent).to(model.embeddings())
        # dynamics that see no input ignore the third argument
        mean = lambda z: model.transition(z, float(model.steps + 1), z).loc  # noqa: E731
        return SmoothedMap(mean, model.epsilon, eta)

    def iterate(self, z: Tensor) -> Converged:
        """The ends of states (n, d) that follow F, and which of them converged."""
        tolerance = STEP_TOLERANCE * self.model.epsilon
        return fixed_point_iteration(self.f, z, tolerance, self.iterations)

    def _find(self, converged: Tensor, fine_draws: int) -> FixedPoints:
        """Fixed points where states (n, d) converged, and half way between neighbouring ones."""

        def solve(starts: Tensor) -> Tensor:
            tolerance = SOLVED * self.model.epsilon
            solved = solve_fixed_points(self.f.linearize, starts, tolerance, reach=self.unit)
            return solved.z[solved.converged]

        found = solve(self._merge(converged))
        known = self._merge(found)
        k = min(NEIGHBOURS, len(known) - 1)
        if k > 0:
            neighbours = torch.cdist(known, known).topk(k + 1, largest=False).indices[:, 1:]
            each = torch.arange(len(known)).repeat_interleave(k)
            pairs = torch.stack([each, neighbours.flatten()], -1).sort(-1).values.unique(dim=0)
            found = torch.cat([found, solve(known[pairs].mean(1))])
        z = self._merge(found)
        moduli, unstable = stability(self._smoothed(fine_draws).linearize(z)[1])
        return FixedPoints(z, moduli, unstable)[unstable.argsort(stable=True)]

    def _merge(self, z: Tensor) -> Tensor:
        """The first of each group of points (n, d) that single linkage joins."""
        return z[first_rows(single_linkage(z, SAME * self.unit))]

    def _basin(self, z: Tensor, stable: Tensor) -> Tensor:
        near = nearest(z, stable)
        return torch.where(near.distance < INSIDE * self.unit, near.row, -1)

    @staticmethod
    def _counts(basin: Tensor, n: int) -> Tensor:
        return torch.bincount(basin[basin >= 0], minlength=n)

    def basin(self, z: Tensor) -> Tensor:
        """(n,) the stable fixed point that each end (n, d) is at, −1 for none."""
        return self._basin(z, self.points.stable)

    def distance(self, z: Tensor) -> Tensor:
        """(n,) of points (n, d) to the nearest embedding in use."""
        return nearest(z, self.sentences.embedding).distance / self.unit

    def fixed_points(self) -> pd.DataFrame:
        """A row for each fixed point, stable ones first, by ``data``.

        - ``kind``: stable (all moduli below 1), repeller (none) or saddle; ``modulus1`` …;
        - ``sentence``, ``distance``: the nearest in use; ``distance_any``: to the nearest of all;
        - ``sentences``: those in use in its basin; ``posterior``: their summed probability, the
          mean of P(s | x) over inputs;
        - ``data``, ``random``: basin shares, ``…_low``, ``…_high``: 95 % intervals (Wilson);
        - ``z1`` …. Unstable ones have no basin: NaN.
        """
        model, points, sentences = self.model, self.points, self.sentences
        n, stable, d = len(points.z), len(points.stable), points.z.shape[-1]

        def of_stable(values: Tensor) -> np.ndarray:
            return np.concatenate([values.double().numpy(), np.full(n - stable, np.nan)])

        kinds = [KINDS[0 if k == 0 else 2 if k == d else 1] for k in points.unstable.tolist()]
        columns: dict[str, Any] = {"kind": kinds}
        columns |= {f"modulus{k + 1}": points.moduli[:, k].numpy() for k in range(d)}
        near = nearest(points.z, sentences.embedding)
        rows = sentences.rows[near.row].tolist()
        columns["sentence"] = [model.language.name(model.sentences[k]) for k in rows]
        columns["distance"] = (near.distance / self.unit).numpy()
        to_any = nearest(points.z, model.embeddings()).distance
        columns["distance_any"] = (to_any / self.unit).numpy()
        basin = self.basins["sentences"]
        columns["sentences"] = of_stable(self._counts(basin, stable))
        mass = torch.zeros(stable, dtype=torch.float64)
        probability = sentences.probability.double()[basin >= 0]
        columns["posterior"] = of_stable(mass.index_add(0, basin[basin >= 0], probability))
        for name in ("data", "random"):
            count, total = self._counts(self.basins[name], stable), len(self.basins[name])
            low, high = binomial_interval(count, total)
            columns[name] = of_stable(count.double() / total)
            columns |= {f"{name}_low": of_stable(low), f"{name}_high": of_stable(high)}
        columns |= {f"z{k + 1}": points.z[:, k].numpy() for k in range(d)}
        return pd.DataFrame(columns)

    def summary(self, table: pd.DataFrame, control: Tensor) -> dict[str, float]:
        """Numbers of all fixed points; NaN: there is nothing to count.

        - ``fixed_points``, ``stable``, ``unstable``: how many were found;
        - ``near``: share of stable ones within 1.5 of an embedding in use;
        - ``sentences``: in use; ``attracting``: share of them with a stable fixed point within 1.5;
          ``attracting_control``: of points `control` (n, d) that know nothing of sentences;
        - ``spectral_radius``: median of the largest eigenvalue modulus of stable fixed points;
        - ``sentences_per_basin``: mean over basins that hold a sentence in use;
        - ``data_at_embeddings``: share of data trajectories in basins whose fixed point is within
          1.5 of an embedding in use.
        """
        stable = table[table["kind"] == "stable"]
        near = torch.from_numpy((stable["distance"] < NEAR).to_numpy(copy=True))
        data = self.basins["data"]

        def attracted(z: Tensor) -> float:
            return share(nearest(z, self.points.stable).distance < NEAR * self.unit)

        return {
            "fixed_points": len(table),
            "stable": len(stable),
            "unstable": len(table) - len(stable),
            "near": share(near),
            "sentences": len(self.sentences.rows),
            "attracting": attracted(self.sentences.embedding),
            "attracting_control": attracted(control),
            "spectral_radius": float(stable["modulus1"].median()),
            "sentences_per_basin": float(stable.loc[stable["sentences"] > 0, "sentences"].mean()),
            "data_at_embeddings": share(torch.isin(data, near.nonzero().flatten())),
        }

    def shares(self, table: pd.DataFrame) -> pd.DataFrame:
        """Mean basin shares in groups of basins of similar probability, with Wilson's intervals."""
        stable = table[table["kind"] == "stable"]
        stable = stable.sort_values("posterior", ascending=False, kind="stable")
        rows = []
        for name in ("data", "random") if len(stable) else ():
            n = len(self.basins[name])
            for group in np.array_split(np.arange(len(stable)), min(GROUPS, len(stable))):
                total, size = stable[name].to_numpy()[group].sum(), len(group)
                low, high = binomial_interval(torch.tensor(total * n).round(), n)
                levels = (float(part) / size for part in (total, low, high))
                rows.append((name, group.mean() + 1, *levels))
        return pd.DataFrame(rows, columns=["start", "rank", "share", "low", "high"])
