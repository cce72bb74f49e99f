"""Exploration: off-policy steps, sentences met along trajectories, and the energy gradient."""

from __future__ import annotations

from collections.abc import Callable

import pyro
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.gflownet.trajectories import Step

__all__ = ["LangevinDynamics", "choose_visited", "exploring", "mala"]


def exploring(dynamics: Callable[..., Normal], probability: float, max_step: float) -> Step:
    """The forward step with, with probability α_dyn, a mean drawn uniformly from [−max_step,
    max_step]^d round the state.

    The standard deviation stays the policy's (*Off-policy sampling*). Returns a one-step Pyro
    program to simulate with.
    """

    def step(z: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
        policy = dynamics(z, t, context)
        away = torch.rand(*z.shape[:-1], 1, device=z.device) < probability
        mean = torch.where(away, z + max_step * (2 * torch.rand_like(z) - 1), policy.loc)
        return pyro.sample("z", Normal(mean, policy.scale).to_event(1))

    return step


def choose_visited(score: Tensor, index: Tensor, power: float = 1.0) -> Tensor:
    """One of the sentences met along each trajectory, drawn ∝ exp(power · score) / count of it in
    the trajectory.

    The count is divided out, so that a sentence met ten times is no likelier than one met once
    (*Wake-sleep*).

    Args:
        score: (T, B) nats, usually log R(s_t; x); `power` = ∞ takes the best.
        index: (T, B) an integer that identifies the sentence, as `Language.key` gives.

    Returns:
        (B,) the time at which the chosen sentence was met.
    """
    if power == float("inf"):
        return score.argmax(0)
    count = (index[:, None] == index[None, :]).sum(1)
    logits = power * score - count.to(score).log()
    return torch.distributions.Categorical(logits=logits.T, validate_args=False).sample()


class LangevinDynamics(nn.Module):
    """Forward dynamics whose mean follows the gradient of an energy, tempered by a learned factor
    (*Energy gradient*).

    N(mean + sigmoid(a(z)) · max_step · ∇/(1 + ‖∇‖), σ²) with ∇ = ∇_z log R(z, x). The paper found
    this unhelpful: with one sampled sentence the gradient points straight to its ẑ_s. It makes the
    forward dynamics input-dependent, and adds to their mean step, which may then be twice as long.

    Args:
        dynamics: the forward dynamics to add to.
        log_density: (z, context) → (…) log R(z, x), differentiable in z.
        latent: d.
        max_step: bound of the added step's norm.
    """

    def __init__(
        self,
        dynamics: nn.Module,
        log_density: Callable[[Tensor, Tensor], Tensor],
        latent: int,
        max_step: float,
    ) -> None:
        super().__init__()
        self.dynamics, self.log_density, self.max_step = dynamics, log_density, max_step
        self.strength = nn.Sequential(nn.Linear(latent, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor) -> Normal:
        with torch.enable_grad():
            y = z.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.log_density(y, context).sum(), y)
        norm = gradient.norm(dim=-1, keepdim=True)
        # bounded: x / (1 + |x|), so that a narrow ε does not throw states out of the latent space
        push = self.max_step * gradient / (norm + 1.0)
        base = self.dynamics(z, t, context)
        return Normal(base.loc + torch.sigmoid(self.strength(z)) * push, base.scale)


def mala(
    z: Tensor, log_density: Callable[[Tensor], Tensor], step_size: float, steps: int
) -> tuple[Tensor, Tensor]:
    """Metropolis-adjusted Langevin: `steps` moves of every row of z, and the acceptance rate (…) of
    each row.

    Proposal z' ~ N(z + (h²/2) ∇log p(z), h² I), accepted with min(1, p(z')q(z|z') / p(z)q(z'|z)):
    leaves p invariant.
    """

    def evaluate(z: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            y = z.detach().requires_grad_()
            log_p = log_density(y)
            (gradient,) = torch.autograd.grad(log_p.sum(), y)
        return log_p.detach(), gradient

    h = step_size
    log_p, gradient = evaluate(z)
    accepted = torch.zeros_like(log_p)
    for _ in range(steps):
        proposal = z + 0.5 * h**2 * gradient + h * torch.randn_like(z)
        new_log_p, new_gradient = evaluate(proposal)
        forth = ((proposal - z - 0.5 * h**2 * gradient) / h).square().sum(-1)
        back = ((z - proposal - 0.5 * h**2 * new_gradient) / h).square().sum(-1)
        accept = torch.rand_like(log_p).log() < new_log_p - log_p + 0.5 * (forth - back)
        z = torch.where(accept[..., None], proposal, z)
        log_p, gradient = (
            torch.where(accept, new_log_p, log_p),
            torch.where(accept[..., None], new_gradient, gradient),
        )
        accepted += accept
    return z, accepted / steps
