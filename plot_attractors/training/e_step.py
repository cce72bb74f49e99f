"""The E-step: dynamics learn by wake-sleep, and then to stay; the discretizer by likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from plot_attractors.gflownet import ReplayBuffer
from plot_attractors.gflownet.trajectories import Trajectories
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.onset import STATIONARY_SD
from plot_attractors.training.pool import Pool
from plot_attractors.training.schedule import At, Scalar, clipped_update, late_cosine, set_lr
from plot_attractors.training.stay import (
    Basins,
    Transitions,
    posterior_transitions,
    prior_transitions,
)
from plot_attractors.training.walk import Walk, backward_walks, sleep_loss, wake_loss

__all__ = ["EStep"]

ONSET_STATES = 512  # inputs and sentences that show where no embedding lies
WALKS = 64  # backward trajectories in an update
WALKS_EVERY = 4  # updates for which backward trajectories are drawn at once
STAY_STATES = 256  # at embeddings of sentences of the posterior, whose next steps stay
STAY_WEIGHT = 3.0  # of what stays, beside the walk, whose samples are noisier
WAKE_EVERY = 4  # updates of the forward dynamics for one of the backward dynamics
WAKE_TRAJECTORIES = 64  # in an update of the backward dynamics
DISCRETIZER_EVERY = 4  # updates of the forward dynamics for one of the discretizer
DISCRETIZER_STATES = 256  # in an update of the discretizer


class EStep:
    """Updates of the dynamics and the discretizer, by inputs and sentences of P(s | x).

    Args:
        model, inputs: the model, and n → n training inputs.
        pool: where inputs and sentences come from.
        walk: settings.
        lr: Adam's.
    """

    def __init__(
        self,
        model: AttractorModel,
        inputs: Callable[[int], Tensor],
        pool: Pool,
        walk: Walk,
        lr: float,
    ) -> None:
        self.model, self.inputs, self.pool, self.lr = model, inputs, pool, lr
        self.steps = walk.steps(model)  # K
        dynamics: Any = model.forward_dynamics
        self.basins = Basins(model.steps, self.steps, model.epsilon, dynamics.max_step)
        _check_noise(model)
        self.walks = ReplayBuffer(WALKS_EVERY * WALKS, weights=None, device=model.device)
        self.of_discretizer = list(model.discretizer.parameters())
        self.theta, self.discretizer = (
            torch.optim.Adam(p, lr, fused=True) for p in (model.theta, self.of_discretizer)
        )

    @property
    def state(self) -> dict[str, Any]:
        """What must survive a stop."""
        own: dict[str, Any] = {"theta": self.theta, "discretizer": self.discretizer}
        return own | {"walks": self.walks, **self.pool.state}

    def begin(self) -> None:
        """Sentences anew, since the reward has changed; with them the noise of a step, and where
        inputs begin.
        """
        self.pool.fill()
        self.walks.clear()
        e, s = self.pool.pairs(ONSET_STATES)
        self.model.set_noise(s, self.steps)
        self.model.onset.orient(e.z0, self.model.embed(s))

    def walk(self, position: int) -> Tensor:
        """Sleep: forward dynamics on backward trajectories from sentences of the posterior."""
        if position % WALKS_EVERY == 0 or not self.walks:
            e, s = self.pool.pairs(WALKS_EVERY * WALKS)
            z = backward_walks(self.model, e.z0, s, self.steps)
            self.walks.add(z=z.transpose(0, 1), z0=e.z0)
        drawn = self.walks.draw(WALKS)
        return sleep_loss(self.model, Trajectories(drawn["z"].transpose(0, 1), drawn["z0"]))

    def wake(self) -> Tensor:
        """Backward dynamics on forward trajectories."""
        e = self.model.encode(self.inputs(WAKE_TRAJECTORIES))
        later = self.model.steps - self.steps
        horizon = self.steps + (int(torch.randint(1, later + 1, ())) if later else 0)
        forward = Trajectories(self.model.trajectories(e.z0, horizon), e.z0)
        return wake_loss(self.model, forward, self.steps)

    def stay(self) -> Transitions:
        """After the walk, F = R by assumption: states in the basins of sentences, and off them."""
        e, s = self.pool.pairs(STAY_STATES)
        with torch.no_grad():
            to = posterior_transitions(self.model, self.basins, e, s)
            perturbed_sd, off = self.pool.perturbed_sd, self.pool.off(e)
            return to.join(prior_transitions(self.model, self.basins, e, perturbed_sd, off))

    def update_dynamics(self, position: int) -> dict[str, Tensor]:
        """Wake-sleep, and detailed balance of what stays in closed form."""
        model, losses = self.model, {"sleep_loss": self.walk(position)}
        if self.steps < model.steps:
            stay = self.stay().cross_entropy(model.transition) / model.steps
            losses["stay_loss"] = STAY_WEIGHT * stay
        if position % WAKE_EVERY == 0:
            losses["wake_loss"] = self.wake()
        clipped_update(self.theta, model.theta, torch.stack([*losses.values()]).sum())
        return losses

    def update(self, at: At, final: bool) -> dict[str, Scalar]:
        """One update; in a final E-step the learning rate falls in the second half."""
        self.pool.renew(at.position)
        if final:
            set_lr(late_cosine(at.progress) * self.lr, self.theta, self.discretizer)
        losses = self.update_dynamics(at.position)
        if at.position % DISCRETIZER_EVERY == 0:
            losses["discretizer_sleep_loss"] = self.update_discretizer()
        return {name: loss.detach() for name, loss in losses.items()}

    def update_discretizer(self) -> Tensor:
        """Likelihood of P_θ(s | z) at N(ẑ_s, ε²)."""
        e, s = self.pool.pairs(DISCRETIZER_STATES)
        z = self.model.terminal_kernel(s).sample()
        loss = -self.model.discretizer(z, e.z0).log_prob(s).mean()
        clipped_update(self.discretizer, self.of_discretizer, loss)
        return loss


def _check_noise(model: AttractorModel) -> None:
    """ValueError where the bounds of a step's noise do not let states stay."""
    low, high = getattr(model.forward_dynamics, "sd_range", (model.epsilon / 2, model.epsilon))
    stationary = STATIONARY_SD * model.epsilon
    if not low <= stationary <= high:
        raise ValueError(
            f"states stay at embeddings by steps with the standard deviation {stationary:.3g}, "
            f"{STATIONARY_SD:.2g} epsilon, which the bounds from {low:g} to {high:g} "
            "exclude: set dynamics.min_sd or epsilon"
        )
