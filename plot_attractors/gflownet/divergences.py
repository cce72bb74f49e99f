"""Kullback-Leibler divergences between guide and posterior as Pyro losses, without
reparametrisation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from pyro import poutine
from torch import Tensor

from plot_attractors.gflownet.log_ratio import LogRatioLoss
from plot_attractors.gflownet.programs import (
    FixedValues,
    Program,
    Programs,
    drawn,
    latent_sites,
    quoted,
    sample_sites,
    side_run,
)
from plot_attractors.gflownet.ratios import LogRatios
from plot_attractors.gflownet.simulation import (
    copied,
    require_alike,
    require_draws_to_act,
    simulatable,
    simulated,
)

__all__ = ["ForwardKL", "Sleep"]


class ForwardKL(LogRatioLoss):
    r"""KL(p(z | x) || q) up to a constant, by self-normalised importance weights: reweighted
    wake-sleep.

    .. math:: L = -\sum_k \bar w_k \log q(z_k), \quad \bar w_k \propto p(z_k, x) / b(z_k)

    b is the guide or `behaviour`; biased by O(1/K). Parameters of the model get the gradient of
    −Σ w̄ log p(z_k, x), which the value leaves out. A particle that is impossible under the model,
    log p = −∞, has weight 0.
    Source: the wake phases of reweighted wake-sleep, Bornschein and Bengio (2015).

    Args:
        num_particles: trajectories per step, K, at least 2.
        options: batch_plate, behaviour, vectorize_particles, as in `LogRatioLoss`.

    Raises ValueError where all particles are impossible under the model, or log q is infinite.
    """

    scores_behaviour = True

    def __init__(self, num_particles: int = 16, **options: Any) -> None:
        super().__init__(num_particles, model_gradient="objective", **options)
        if num_particles < 2:
            raise ValueError(f"ForwardKL weighs particles: take 2 or more, not {num_particles}.")
        if self.off_policy:
            raise ValueError(
                "ForwardKL needs the density of what is drawn, which off_policy moves do not have: "
                "give a behaviour policy, or take an objective -r.of_guide.mean() where the moves "
                "leave the posterior invariant."
            )

    def _require_finite(self, ratios: LogRatios) -> None:
        log_p, log_q = ratios.of_model, ratios.of_guide
        if not bool(log_q.isfinite().all()) or not bool((log_p < torch.inf).all()):
            raise ValueError(
                "log q or log p is infinite, or not a number, at a sampled trajectory: keep "
                "samples inside the support of the guide, and densities of the model finite."
            )
        if bool((log_p == -torch.inf).all(0).any()):
            raise ValueError(
                f"All {len(log_p)} particles are impossible under the model, log p = −∞: take more "
                "of them, or draw them nearer to the posterior."
            )

    def objective(self, ratios: LogRatios) -> Tensor:
        if ratios.log_b is None:
            raise ValueError(
                "ForwardKL weighs particles by the density that they were drawn from, and these "
                "log-ratios have no log_b: give it, as in replace(ratios, log_b=…)."
            )
        weight = (ratios.of_model.detach() - ratios.log_b).softmax(0)
        possible = ratios.of_model.where(weight > 0, 0.0)  # 0 times −∞ is no number
        wake = -(weight * possible).sum(0).mean()
        return -(weight * ratios.of_guide).sum(0).mean() + (wake - wake.detach())


def in_order(observed: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """The observed values as arguments."""
    return tuple(observed.values())


class Sleep(LogRatioLoss):
    r"""The sleep phase: E_{p(x)} KL(p(z | x) || q(z; x)) up to a constant, of the model's draws.

    .. math:: L = -E_{p(z, x)}[\log q(z; x)]

    For guides that are amortised: their arguments are made of what the model observes. Parameters
    of the model take a wake step, that of −E_q[log p(z, x)] for the observed x, which the value
    leaves out; of a model without parameters only the shapes of x matter. Source: wake-sleep,
    Hinton et al. (1995); simulation-based inference (neural posterior estimation) is the same loss.

    Args:
        num_particles: draws of the model per step.
        data: (name → observed values of one draw) → arguments of the guide; by default the observed
            values in the model's order.
        options: batch_plate, vectorize_particles and those of Pyro's `ELBO`.

    Raises ValueError: the model observes nothing, not the same in every run, or other shapes than
    it draws; it has a factor or a scale; sites depend on what observed values are computed from,
    which is looked for at the first call (`require_draws_to_act`); the guide has other sites.
    """

    def __init__(
        self,
        num_particles: int = 1,
        data: Callable[[dict[str, Tensor]], tuple[Any, ...]] | None = None,
        **options: Any,
    ) -> None:
        kept: Any = {"behaviour": None, "off_policy": (), "model_gradient": "wake"}
        super().__init__(num_particles, None, **kept, **options)
        self.data = data or in_order
        self._draws_act = False  # whether arguments have been looked at

    def differentiable_loss(
        self, model: Program, guide: Program, *args: Any, **kwargs: Any
    ) -> Tensor:
        """As in `LogRatioLoss`; the arguments are the model's alone."""
        own = copied(args, kwargs)
        each = [self._of_draw(model, guide, *own) for _ in range(self.num_particles)]
        loss = torch.stack(each).mean()
        if bool(torch.isinf(loss)):
            raise ValueError(
                "log q is infinite at a draw of the model: keep the model's draws inside the "
                "support of the guide."
            )
        loss = self._checked(loss)
        if torch.is_grad_enabled():
            trace: Any = poutine.trace(model).get_trace(*args, **kwargs)
            trace.compute_log_prob()
            if any(site["log_prob"].requires_grad for site in sample_sites(trace).values()):
                arguments = self.data(simulatable(trace))
                of_guide = partial(guide, *arguments)
                programs = Programs(
                    partial(model, *args, **kwargs), of_guide, of_guide, (model, guide), True
                )
                wake = -self._log_ratios(programs, args, kwargs).of_model.mean()
                loss = loss + (wake - wake.detach())
        return loss

    def _of_draw(self, model: Program, guide: Program, args: Any, kwargs: Any) -> Tensor:
        with torch.no_grad():
            conditioned: Any = poutine.trace(model).get_trace(*args, **kwargs)
        names = list(simulatable(conditioned))
        with simulated(model, args, kwargs) as trace:
            given = {name: trace.nodes[name]["value"] for name in names if name in trace.nodes}
            if not self._draws_act:
                require_draws_to_act(model, args, kwargs)
                again = FixedValues(drawn(trace))(poutine.condition(model, given))
                with side_run():
                    require_alike(trace, poutine.trace(again).get_trace(*args, **kwargs))
                self._draws_act = True
        if absent := [k for k in names if k not in trace.nodes]:
            raise ValueError(
                f"The model observes {absent[0]!r} in some runs only, so that its draws are no "
                "arguments of one guide: observe the same sites in every run."
            )
        for name in names:  # alike, not broadcast: the guide is to see data as it sees draws
            seen, draw = (
                torch.as_tensor(run.nodes[name]["value"]).shape for run in (conditioned, trace)
            )
            if seen != draw:
                raise ValueError(
                    f"Site {name!r} observes values of shape {tuple(seen)} and draws values of "
                    f"shape {tuple(draw)}: put it into a plate, or expand its distribution."
                )
        arguments = self.data(given)
        latent = {k: v for k, v in drawn(trace).items() if k not in names}
        scored = poutine.trace(FixedValues(latent)(guide)).get_trace(*arguments)
        if missing := latent_sites(scored).keys() - latent.keys():
            raise ValueError(
                f"The guide samples {quoted(missing)}, no latent site of the model: Sleep scores "
                "the guide at the model's draws, which auxiliary sites do not have."
            )
        return -torch.stack(list(self._log_prob(scored, "guide", None).values())).sum(0).mean()
