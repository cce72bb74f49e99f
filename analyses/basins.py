"""Whether attractors sit at sentence embeddings: fixed points of the mean dynamics, and basins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from plot_attractors.analysis import sampling, shape
from plot_attractors.measures import attractors
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Size, setting
from plot_attractors.runs import Run

TITLE = "Attractor basins"


@dataclass(frozen=True)
class Config:
    inputs: Size = setting(1000, "training inputs, a trajectory each")
    random_states: Size = setting(1000, "random states, from which fixed points are sought, too")
    controls: Count = setting(10_000, "points that know nothing of sentences")


UNSEEN = shape.Needs(
    "forward dynamics that do not see the input", lambda run: not run.model.input_dependent
)
NEEDS = shape.LISTED & UNSEEN


USE_INPUTS = 512  # that tell which sentences are in use
MOST_SENTENCES = 2000  # in use, that are followed; a random choice where there are more
DRAWS, FINE_DRAWS = 32, 256  # states of the cloud whose centre is followed; for eigenvalues
ITERATIONS = 60  # of the mean dynamics, at most
STEP_TOLERANCE = 0.01  # a centre has converged when it moves less than this many ε in a step
SOLVED = 0.001  # a fixed point is solved to this many ε
SAME = 0.1  # fixed points nearer than this many ε√d are one
INSIDE = 0.25  # a centre that converged nearer to a stable fixed point is in its basin, ε√d
NEAR = 1.5  # a fixed point is at an embedding when it is nearer than this many ε√d
KINDS = ("stable", "saddle", "repeller")


def in_use(model: AttractorModel, x: Tensor) -> Tensor:
    """Rows (S,) of sentences in use for inputs x (B, …), a random choice where there are many."""
    rows = torch.nonzero(sampling.sentences_in_use(model, x)).flatten()
    return rows[torch.randperm(len(rows))[:MOST_SENTENCES].sort().values]


def gaussian_like(points: Tensor, n: int) -> Tensor:
    """(n, d) draws from the Gaussian with the mean and the covariance, which may be singular, of
    points (N, d).
    """
    centered = points - points.mean(0)
    scale = math.sqrt(max(1, len(points) - 1))
    return points.mean(0) + torch.randn(n, len(points)) @ centered / scale


def share(mask: Tensor) -> float:
    """The share of true entries, NaN where there are none at all."""
    return float(mask.double().mean())


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
    stable fixed point that F takes it to. Distances to embeddings are in the d axes that embeddings
    use, in units of ε√d, `unit`.

    `rows` (S,) are sentences in use; `starts` are states (n, d) beside their embeddings: "data", of
    trajectories at T, and "random".
    """

    def __init__(self, model: AttractorModel, rows: Tensor, starts: Mapping[str, Tensor]) -> None:
        self.model, self.rows, self.embedding = model, rows, model.embeddings()[rows]
        self.unit, self.axes = sampling.noise_radius(model), sampling.used_axes(model)
        self.f = self._smoothed(DRAWS)
        starts = {"sentences": self.embedding, **starts}
        ends = {name: self.iterate(z) for name, z in starts.items()}
        self.points = attractors.find_fixed_points(
            self.f.linearize,
            torch.cat([end.z[end.converged] for end in ends.values()]),
            tolerance=SOLVED * model.epsilon,
            same=SAME * self.unit,
            reach=self.unit,
            judge=self._smoothed(FINE_DRAWS).linearize,
        )
        order = self._counts(self.basin(ends["data"].z)).argsort(descending=True, stable=True)
        others = torch.arange(len(order), len(self.points.z))
        self.points = self.points[torch.cat([order, others])]
        self.basins = {name: self.basin(ends[name].z) for name in ("sentences", "data")}

    def _smoothed(self, draws: int) -> attractors.SmoothedMap:
        """F, of as many draws, or twice as many as there are dimensions."""
        model, n = self.model, max(draws, 2 * self.model.latent)
        eta = attractors.antithetic_draws(n, model.latent).to(model.embeddings())
        # dynamics that see no input ignore the third argument
        at = float(model.steps + 1)
        mean = lambda z: model.forward_dynamics(model.at_rest(z), at, z).loc  # noqa: E731
        return attractors.SmoothedMap(mean, model.epsilon, eta)

    def iterate(self, z: Tensor) -> attractors.Converged:
        """The ends of states (n, d) that follow F, and which of them converged."""
        tolerance = STEP_TOLERANCE * self.model.epsilon
        return attractors.fixed_point_iteration(self.f, z, tolerance, ITERATIONS)

    def basin(self, z: Tensor) -> Tensor:
        """(n,) the stable fixed point that each end (n, d) is at, −1 for none."""
        return self.points.basin(z, INSIDE * self.unit)

    def _counts(self, basin: Tensor) -> Tensor:
        return torch.bincount(basin[basin >= 0], minlength=len(self.points.stable))

    def nearest(self, z: Tensor, to: Tensor) -> attractors.Near:
        """The nearest of points (m, d) to each of z (n, d), in the axes that embeddings use."""
        near = attractors.nearest(z[:, self.axes], to[:, self.axes])
        return near._replace(distance=near.distance / self.unit)

    def fixed_points(self) -> pd.DataFrame:
        """A row for each fixed point, stable ones first, by ``data``.

        - ``kind``: stable (all moduli of eigenvalues below 1), repeller (none) or saddle;
          ``modulus1``: the largest; ``z1`` …;
        - ``sentence``, ``distance``: the nearest in use;
        - ``sentences``, ``data``: how many of those in use, and which share of the ends of
          trajectories, are in its basin; NaN of unstable ones, which have none.
        """
        model, points = self.model, self.points
        d, unstable = points.z.shape[-1], points.unstable.tolist()
        near = self.nearest(points.z, self.embedding)
        rows = self.rows[near.row].tolist()
        table = pd.DataFrame({
            "kind": [KINDS[0 if k == 0 else 2 if k == d else 1] for k in unstable],
            "modulus1": points.moduli[:, 0].numpy(),
            "sentence": [model.language.name(model.sentences[k]) for k in rows],
            "distance": near.distance.numpy(),
            **{f"z{k + 1}": points.z[:, k].numpy() for k in range(d)},
        })  # fmt: skip
        in_use, data = (self._counts(basin).double() for basin in self.basins.values())
        of_stable = pd.DataFrame({"sentences": in_use, "data": data / len(self.basins["data"])})
        return table.join(of_stable)

    def summary(self, table: pd.DataFrame, control: Tensor, z0: Tensor) -> dict[str, float]:
        """Numbers of all fixed points; NaN: there is nothing to count. Controls are of points (n,
        d) that know nothing of sentences, and of the states z0 (n, d) of inputs.

        - ``stable``: how many were found; ``spectral_radius``: median of their ``modulus1``;
        - ``near``: share of stable ones within 1.5 of an embedding in use; ``near_control``: of
          points that know nothing of sentences;
        - ``attracting``: share of sentences in use with a stable fixed point within 1.5;
          ``attracting_control``: of points that know nothing of sentences;
        - ``sentences_per_basin``: mean over basins that hold a sentence in use;
        - ``data_at_embeddings``: share of data trajectories in basins whose fixed point is within
          1.5 of an embedding in use; ``data_control``: share of z0 that are that near to one.
        """
        stable = table[table["kind"] == "stable"]
        near = torch.from_numpy((stable["distance"] < NEAR).to_numpy(copy=True))

        def reached(z: Tensor, to: Tensor) -> float:
            return share(self.nearest(z, to).distance < NEAR)

        return {
            "stable": len(stable),
            "near": share(near),
            "near_control": reached(control, self.embedding),
            "attracting": reached(self.embedding, self.points.stable),
            "attracting_control": reached(control, self.points.stable),
            "spectral_radius": float(stable["modulus1"].median()),
            "sentences_per_basin": float(stable.loc[stable["sentences"] > 0, "sentences"].mean()),
            "data_at_embeddings": share(torch.isin(self.basins["data"], near.nonzero().flatten())),
            "data_control": reached(z0, self.embedding),
        }


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Fixed points of the mean dynamics and their basins, see `basins.Basins`.

    ``summary.csv``, one row, see its ``summary``; ``fixed_points.csv``, see ``fixed_points``.
    Source: the paper's claim that attractors sit at sentence embeddings.
    """
    model = run.model
    rows = in_use(model, run.data.batch(USE_INPUTS).x)
    z0 = model.encode(run.data.batch(config.inputs).x).z0
    z = model.trajectories(z0)[-1, :, : model.latent]
    starts = {"data": z, "random": gaussian_like(z0, config.random_states)}
    basins = Basins(model, rows, starts)
    table = basins.fixed_points()
    control = gaussian_like(basins.embedding, config.controls)
    return {
        "summary.csv": pd.DataFrame([basins.summary(table, control, z0)]),
        "fixed_points.csv": table,
    }
