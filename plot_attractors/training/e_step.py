"""The E-step: dynamics learn by balance, the discretizer by likelihood."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.memory import STATIONARY_SD, Bridge
from plot_attractors.training.balance import (
    Transitions,
    balanced_transitions,
    restoring_transitions,
)
from plot_attractors.training.pool import Pool
from plot_attractors.training.schedule import At, Scalar, clipped_update, late_cosine, set_lr

__all__ = ["EStep"]

SHOWN = 512  # inputs whose candidates tell widths, scales and patterns
WALKS, BASINS = 512, 384  # states of the flow in an update, before K and after it
LR = 3e-3  # Adam's, of the dynamics
WARM_UP = 50  # updates in which it rises from 0
DISCRETIZER_EVERY = 2  # updates of the forward dynamics for one of the discretizer
DISCRETIZER_STATES = 256  # in an update of the discretizer


class EStep:
    """Updates of the dynamics and the discretizer, by inputs and candidates of P(s | x).

    Args:
        model: whose backward dynamics are a `Bridge`.
        pool: where inputs and candidates come from.
        lr: Adam's, of the discretizer.
    """

    def __init__(self, model: AttractorModel, pool: Pool, lr: float) -> None:
        self.model, self.pool, self.lr = model, pool, lr
        if not isinstance(model.backward_dynamics, Bridge):
            kind = type(model.backward_dynamics).__name__
            raise ValueError(
                f"this inference program needs backward dynamics whose flow is known, a Bridge, "
                f"not {kind}: take detailed_balance_em, or a Bridge"
            )
        low, high = getattr(model.forward_dynamics, "sd_range", (0.0, torch.inf))
        if not low <= (least := STATIONARY_SD * model.epsilon) <= high:
            raise ValueError(
                f"states stay at embeddings by steps with the standard deviation {least:.3g}, "
                f"which the bounds from {low:g} to {high:g} exclude: set epsilon"
            )
        self.of_discretizer = list(model.discretizer.parameters())
        self.dynamics = [*model.forward_dynamics.parameters()]
        self.theta = torch.optim.Adam(self.dynamics, LR, fused=True)
        self.discretizer = torch.optim.Adam(self.of_discretizer, lr, fused=True)

    @property
    def state(self) -> dict[str, Any]:
        """What must survive a stop."""
        return {"theta": self.theta, "discretizer": self.discretizer, "pool": self.pool.kept}

    def begin(self) -> None:
        """Candidates anew, since the reward has changed; with them patterns, scales and widths."""
        self.pool.fill()
        e, s = self.pool.candidates(SHOWN)
        self.model.prepare(e.z0, s)
        self.theta.state.clear()

    def transitions(self) -> Transitions:
        """Steps at states of the flow, and at embeddings of any sentence."""
        e, s = self.pool.candidates(WALKS + BASINS)
        with torch.no_grad():
            balanced = balanced_transitions(self.model, e, s, WALKS)
            return balanced.join(restoring_transitions(self.model, e, self.pool.perturbed_sd))

    def update(self, at: At, final: bool) -> dict[str, Scalar]:
        """One update; in a final E-step the learning rate falls in the second half."""
        self.pool.renew(at.position)
        rate = min(1.0, (at.update + 1) / WARM_UP)
        rate *= late_cosine(at.progress) if final else 1.0
        set_lr(rate * LR, self.theta)
        set_lr(rate * self.lr, self.discretizer)
        loss = self.transitions().divergence(self.model.forward_dynamics) / self.model.steps
        clipped_update(self.theta, self.dynamics, loss)
        losses: dict[str, Scalar] = {"balance_loss": loss.detach()}
        if at.position % DISCRETIZER_EVERY == 0:
            losses["discretizer_loss"] = self.update_discretizer().detach()
        return losses

    def update_discretizer(self) -> Tensor:
        """Likelihood of P_θ(s | z) at N(ẑ_s, ε²)."""
        e, s = self.pool.candidates(DISCRETIZER_STATES)
        s = s[torch.arange(len(s)), torch.randint(s.shape[1], (len(s),))]
        z = self.model.terminal_kernel(s).sample()
        loss = -self.model.discretizer(z, e.z0).log_prob(s).mean()
        clipped_update(self.discretizer, self.of_discretizer, loss)
        return loss
