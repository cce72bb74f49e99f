"""How near to the posterior can dynamics come that learn by likelihood from bridge trajectories?

    python benchmarks/gaussian_dynamics.py runs/sprites-34

Where every token moves ẑ_s along one axis, each axis can be looked at alone: inputs are their z0,
and the target is the probability of each place of ẑ_s on the axis in the exact posterior. Dynamics
of any size that maximum likelihood has taught with any number of bridges step with the mean and
variance that the bridges' next state has, given what the dynamics see:

- the state, and whether it is the first, as in the paper's main text: moments in cells of the axis,
  over the trajectories of all inputs, times together;
- input and time, too, as in its detailed balance: moments of a mixture over places, in closed form.

These run here from every z0, and the place nearest to where they end is read. Shown is the total
variation of places from their probabilities, mean over inputs and then over axes; first that of the
run's own trajectories (in the column of what sees the state, whatever they see), and a floor, that
of as many exact draws.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import torch
from shared import header, row
from torch import Tensor

from plot_attractors.evaluation.sampling import exact_draws
from plot_attractors.runs.run import Run
from plot_attractors.training.bridge import GoAndWait

INPUTS, DRAWS = 1024, 256
AT_ONCE = 128  # inputs whose mixtures are computed together
CELL = 0.008  # width of the cells of an axis
CONVERGING = 20  # steps after T until places are read
KERNELS = (  # walk, first, noise
    (10, 0.25, 0.04), (10, 0.1, 0.04), (10, 0.5, 0.04), (10, 0.8, 0.04), (10, 0.25, 0.12),
    (10, 0.5, 0.12), (10, 0.8, 0.12), (16, 1 / 16, 0.12), (16, 1 / 16, 0.2),
)  # fmt: skip


class Axis(NamedTuple):
    """z0 (B,) of inputs, places (K,), their probabilities (B, K), ẑ_s of exact draws (B, n)."""

    z0: Tensor
    places: Tensor
    p: Tensor
    z_hat: Tensor

    def total_variation(self, z: Tensor) -> float:
        """Of the places nearest to states z (B, n), mean over inputs."""
        return float(0.5 * (shares(z, self.places) - self.p).abs().sum(-1).mean())


def shares(z: Tensor, places: Tensor) -> Tensor:
    """(B, K) of states z (B, n), how many are nearest to each place."""
    nearest = torch.bucketize(z.contiguous(), (places[1:] + places[:-1]) / 2)
    return torch.nn.functional.one_hot(nearest, len(places)).float().mean(1)


class Cells(NamedTuple):
    """Mean step and its sd (n,) by cells from `low` on, and the nearest cell with any."""

    low: float
    step: Tensor
    sd: Tensor
    nearest: Tensor

    @classmethod
    def of(cls, z: Tensor, to: Tensor, low: float, n: int) -> Cells:
        cell, step = ((z - low) / CELL).long(), to - z
        moments = (torch.ones_like(z), step, step.square())
        sums = torch.stack([torch.zeros(n).index_add_(0, cell, x) for x in moments])
        window = torch.tensor([[[0.25, 0.5, 0.25]]])
        smooth = torch.nn.functional.conv1d(sums[:, None], window, padding=1)
        count, first, second = smooth[:, 0]
        mean = first / count.clamp(min=1e-9)
        variance = (second / count.clamp(min=1e-9) - mean.square()).clamp(min=1e-6)
        known = (count > 3).nonzero()[:, 0]
        cells = torch.arange(n)
        after = torch.searchsorted(known, cells).clamp(max=len(known) - 1)
        pair = known[torch.stack([(after - 1).clamp(min=0), after])]
        nearest = pair.gather(0, (pair - cells).abs().argmin(0, keepdim=True))[0]
        return cls(low, mean[nearest], variance[nearest].sqrt(), nearest)

    def __call__(self, z: Tensor) -> Tensor:
        cell = ((z - self.low) / CELL).long().clamp(0, len(self.step) - 1)
        back = (self.nearest[cell] - cell) * CELL  # where no trajectory was, to where some were
        return z + back + self.step[cell] + self.sd[cell] * torch.randn_like(z)


def by_state(axis: Axis, kernel: GoAndWait) -> float:
    """Total variation of dynamics that see the state alone."""
    n = axis.z_hat.shape[1]
    z0, z_hat = axis.z0.repeat_interleave(n)[:, None], axis.z_hat.flatten()[:, None]
    z = kernel.sample(z0, z_hat).z[..., 0]
    low = float(z.min()) - CELL
    cells = int((float(z.max()) - low) / CELL) + 2
    start = Cells.of(z[0], z[1], low, cells)
    later = Cells.of(z[1:-1].flatten(), z[2:].flatten(), low, cells)
    at = start(z[0])
    for _ in range(1, kernel.steps + CONVERGING):
        at = later(at)
    return axis.total_variation(at.view(-1, n))


def by_input_and_time(axis: Axis, kernel: GoAndWait) -> float:
    """Total variation of dynamics that see input and time, too."""
    ends = []
    for z0, p in zip(axis.z0[:, None].split(AT_ONCE), axis.p.split(AT_ONCE), strict=True):
        z, weight = z0.expand(-1, axis.z_hat.shape[1]), (p + 1e-12)[:, None]
        log_p = weight.log()
        for t in torch.arange(kernel.steps)[:, None]:
            if t:
                off = z[..., None] - kernel.mean(t, z0[:, None], axis.places)
                square = off.square() / kernel.variance[t].clamp(min=1e-9)
                weight = (log_p - 0.5 * square).softmax(-1)
            to = kernel.forward_transition(t, z[..., None], z0[:, None], axis.places)
            middle = (weight * to.mean).sum(-1)
            spread = (weight * (to.mean - middle[..., None]).square()).sum(-1)
            variance = to.variance[..., 0] + spread
            z = middle + variance.sqrt() * torch.randn_like(middle)
        ends.append(z)
    return axis.total_variation(torch.cat(ends))


@torch.no_grad()
def axes_of(run: Run) -> tuple[list[Axis], float, float]:
    """The axes that a model's tokens are along, what its own trajectories have, and the floor."""
    model = run.model
    e = model.encode(run.data.batch(INPUTS).x)
    drawn, others = (model.embed(exact_draws(model, e.distribution, DRAWS).s) for _ in range(2))
    some = e[torch.arange(AT_ONCE).repeat_interleave(DRAWS)]
    z = model.trajectories(some.z0, model.steps + CONVERGING, some.context)[-1]
    z = z.unflatten(0, (AT_ONCE, DRAWS))
    axes, own, floors = [], [], []
    for k in model.sentence_encoder.mean.axes.unique().tolist():
        places = drawn[..., k].unique()
        places = places[torch.cat([torch.ones(1, dtype=torch.bool), places.diff() > 1e-4])]
        axis = Axis(e.z0[:, k], places, shares(others[..., k], places), drawn[..., k])
        own.append(axis._replace(p=axis.p[:AT_ONCE]).total_variation(z[..., k]))
        floors.append(axis.total_variation(drawn[..., k]))
        axes.append(axis)
    return axes, sum(own) / len(own), sum(floors) / len(floors)


def main() -> None:
    header("run", "walk", "first", "noise", "sees the state", "sees input and time", "floor")
    for path in sys.argv[1:]:
        torch.manual_seed(0)
        run = Run(path)
        axes, own, floor = axes_of(run)
        row(run.path.name, "as trained", "", "", f"{own:.3f}", "", f"{floor:.3f}")
        for walk, first, noise in KERNELS:
            kernel = GoAndWait(run.model.steps, run.model.epsilon, walk, first, noise, 0.7)
            dynamics = by_state, by_input_and_time
            found = [sum(by(axis, kernel) for axis in axes) / len(axes) for by in dynamics]
            numbers = (f"{tv:.3f}" for tv in (*found, floor))
            row(run.path.name, walk, f"{first:.3g}", noise, *numbers)


if __name__ == "__main__":
    main()
