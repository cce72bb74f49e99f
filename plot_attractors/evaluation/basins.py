"""Fixed points of a model's mean dynamics, and their basins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

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
from plot_attractors.evaluation.metrics.calibration import in_use, total_variation
from plot_attractors.evaluation.sampling import (
    SAME_MEANING,
    decoded_bits,
    differing_bits,
    require_bits,
    require_listed,
)
from plot_attractors.language import in_use_threshold
from plot_attractors.model.attractor import AttractorModel

if TYPE_CHECKING:
    from plot_attractors.runs import Run

STEP_TOLERANCE = 0.01  # a centre has converged when it moves less than this many ε in a step
SOLVED = 0.001  # a fixed point is solved to this many ε
SAME = 0.1  # fixed points nearer than this many ε√d are one
INSIDE = 0.25  # a centre that converged nearer to a stable fixed point is in its basin, ε√d
NEIGHBOURS = 3  # of each stable fixed point: half way to them, unstable ones are looked for
NEAR = 1.5  # a fixed point is at an embedding when it is nearer than this many ε√d
REPEATS = 50  # of the draws for the noise floor of the basins' total variation
GROUPS = 16  # of basins, for their shares
KINDS = ("stable", "saddle", "repeller")


class SentencesInUse(NamedTuple):
    """Rows (S,) of the language, ẑ (S, d), mean probability (S,), and bits (S, N) decoded at ẑ."""

    rows: Tensor
    embedding: Tensor
    probability: Tensor
    bits: Tensor

    @classmethod
    def of(cls, model: AttractorModel, x: Tensor, most: int) -> SentencesInUse:
        """Those in use for inputs x (B, …), a random choice of `most` where there are more."""
        embeddings = model.embeddings()
        probability = model.posterior.log_prob(model.encode(x).distribution).exp()
        used = in_use(probability, in_use_threshold(len(embeddings)))
        rows = torch.nonzero(used).flatten()
        rows = rows[torch.randperm(len(rows))[:most].sort().values]
        z = embeddings[rows]
        return cls(rows, z, probability.mean(0)[rows], decoded_bits(model, z))


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
    if getattr(model.forward_dynamics, "context", 0):
        return "the forward dynamics see the input, so that every input has fixed points of its own"
    return ""


def require_fixed_points(run: Run) -> AttractorModel:
    """The model of a run, or a ValueError that says why this analysis cannot be made of it."""
    model = require_listed(run.model)
    require_bits(run.data)
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


def share(of: Tensor, among: Tensor | None = None) -> float:
    """The share of true entries, NaN where there are none at all."""
    return float((of if among is None else of[among]).double().mean())


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

    `starts` are states (n, d) beside the embeddings of sentences in use: "data" and "later", of
    trajectories at T and later; "random". F has `draws` of η, `fine_draws` for eigenvalues.
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
        mean = lambda z: model.forward_dynamics(z, float(model.steps + 1), z).loc  # noqa: E731
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
        labels = single_linkage(z, SAME * self.unit).numpy()
        return z[torch.from_numpy(np.unique(labels, return_index=True)[1])]

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
        - ``near``: share of stable ones within 1.5 of an embedding in use; ``near_any``: of any
          embedding; ``near_control``: of points `control` (n, d) that know nothing of sentences;
        - ``distance``, ``distance_control``: median distance to the nearest embedding in use;
        - ``sentences``: in use; ``attracting``: share of them with a stable fixed point within 1.5;
          ``attracting_control``: of the control points;
        - ``spectral_radius``: median of the largest eigenvalue modulus of stable fixed points;
        - ``sentences_per_basin``: mean over basins that hold a sentence in use;
        - ``synonyms_together``: share of pairs of sentences in use, of bits that differ in two or
          fewer, that share a basin; ``pairs_together``: of all pairs; ``same_meaning``: of pairs in
          one basin, the share that are such synonyms;
        - ``data_at_embeddings``, ``random_at_embeddings``: share of data trajectories, and of
          random states, in basins whose fixed point is within 1.5 of an embedding in use;
        - ``data_converged``, ``random_converged``: share of them in a basin at all;
        - ``kept``: of data trajectories in a basin at T, the share in the same one later;
        - ``basin_tv``, ``basin_tv_floor``: see `basin_total_variation`.
        """
        stable = table[table["kind"] == "stable"]
        near = torch.from_numpy((stable["distance"] < NEAR).to_numpy(copy=True))
        embedding, bits = self.sentences.embedding, self.sentences.bits
        of_control = self.distance(control)
        attracted = nearest(embedding, self.points.stable).distance / self.unit
        control_attracted = nearest(control, self.points.stable).distance < NEAR * self.unit
        basin, data, random = (self.basins[name] for name in ("sentences", "data", "random"))
        together = (basin[:, None] == basin) & (basin >= 0)[:, None]
        synonyms = differing_bits(bits, bits) <= SAME_MEANING
        pairs = torch.ones_like(together).triu(1)

        def at_embeddings(basin: Tensor) -> float:
            inside = basin >= 0
            return share(inside & near[basin.clamp(min=0)] if len(near) else inside)

        return {
            "fixed_points": len(table),
            "stable": len(stable),
            "unstable": len(table) - len(stable),
            "near": float((stable["distance"] < NEAR).mean()),
            "near_any": float((stable["distance_any"] < NEAR).mean()),
            "near_control": share(of_control < NEAR),
            "distance": float(stable["distance"].median()),
            "distance_control": float(of_control.median()),
            "sentences": len(basin),
            "attracting": share(attracted < NEAR),
            "attracting_control": share(control_attracted),
            "spectral_radius": float(stable["modulus1"].median()),
            "sentences_per_basin": float(stable.loc[stable["sentences"] > 0, "sentences"].mean()),
            "synonyms_together": share(together, pairs & synonyms),
            "pairs_together": share(together, pairs),
            "same_meaning": share(synonyms, pairs & together),
            "data_at_embeddings": at_embeddings(data),
            "random_at_embeddings": at_embeddings(random),
            "data_converged": share(data >= 0),
            "random_converged": share(random >= 0),
            "kept": share(data == self.basins["later"], data >= 0),
            **basin_total_variation(stable, int((data >= 0).sum())),
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


def basin_total_variation(stable: pd.DataFrame, draws: int) -> dict[str, float]:
    """Total variation between the basins' shares of ends and of posterior probability, and its
    noise floor for as many draws; NaN where no basin has a share of either.
    """
    data, posterior = (torch.tensor(stable[name].to_numpy()) for name in ("data", "posterior"))
    if not (data.sum() > 0 and posterior.sum() > 0):
        return {"basin_tv": math.nan, "basin_tv_floor": math.nan}
    data, posterior = data / data.sum(), posterior / posterior.sum()
    exact = torch.distributions.Multinomial(draws, posterior).sample(torch.Size([REPEATS])) / draws
    return {
        "basin_tv": float(total_variation(data, posterior)),
        "basin_tv_floor": float(total_variation(exact, posterior).mean()),
    }
