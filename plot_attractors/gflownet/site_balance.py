"""Forward-looking sub-trajectory balance, SubTB(λ), over the order of a Pyro program's sites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from plot_attractors.gflownet.balance import check_lam, penalty, sub_trajectory_loss
from plot_attractors.gflownet.log_ratio import LogRatioLoss
from plot_attractors.gflownet.ratios import LogRatios
from plot_attractors.gflownet.trajectory_balance import announce, owner_of

__all__ = ["SiteBalance"]


class SiteBalance(LogRatioLoss, nn.Module):
    r"""SubTB(λ) over the order of the guide's sites; λ = 0 is detailed balance.

    .. math:: L = \sum_{i<j} \lambda^{j-i} (u_i - u_j)^2 / \sum_{i<j} \lambda^{j-i}, \quad
              u_i = c(z_{1:i}) + \sum_{k \le i} r_k, \quad c(z_{1:n}) = 0

    States are prefixes z_{1:i} of the guide's n sites, each made in one way only, so that there is
    no backward policy. Flows look forward (Pan et al. 2023): log F(z_{1:i}) is what the model knows
    of the prefix, plus a learned c, which at the solution is log p of all that follows: at i = 0
    the evidence log p(x), less what is observed before any latent site; in a hidden Markov model
    backward messages. r_k is that of `LogRatios.by_site`.

    Args:
        flow: (prefix: name → values, *args) → c, of a shape that broadcasts to (K,), or (K, batch)
            with a `batch_plate`; called for i = 0 … n − 1, with values (K, …), … being what a
            single run has. Parameters are trained as in `TrajectoryBalance(log_z=…)`.
        num_particles: trajectories per step.
        lam: λ, at least 0.
        loss, delta: as in `TrajectoryBalance`.
        options: as in `LogRatioLoss`.

    Raises ValueError: as `LogRatioLoss`, and for a λ that is below 0 or not finite.
    """

    def __init__(
        self,
        flow: Callable[..., Tensor],
        num_particles: int = 1,
        *,
        lam: float = 0.9,
        loss: Literal["squared", "huber"] = "squared",
        delta: float = 1.0,
        **options: Any,
    ) -> None:
        nn.Module.__init__(self)
        LogRatioLoss.__init__(self, num_particles, **options)
        check_lam(lam)
        self._penalty = penalty(loss, delta)
        self.flow, self.lam, self.owner = flow, lam, owner_of(flow)

    def objective(self, ratios: LogRatios) -> Tensor:
        announce(self, "site_balance", self.flow)
        known = ratios.by_prefix
        c = [
            self.flow(ratios.prefix(i), *ratios.args, **ratios.kwargs)
            for i in range(len(known) - 1)
        ]
        try:
            learned = torch.stack([torch.as_tensor(of).expand_as(known[0]) for of in c])
        except RuntimeError as error:
            raise ValueError(
                f"The flow must give {tuple(known[0].shape)}, a number for each trajectory, not "
                f"{[tuple(torch.as_tensor(of).shape) for of in c]} for prefixes of 0, 1, … sites."
            ) from error
        u = torch.cat([known[:-1] + learned, known[-1:]])
        return sub_trajectory_loss(u, self.lam, self._penalty)
