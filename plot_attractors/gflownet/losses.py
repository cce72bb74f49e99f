"""Losses of whole programs, for `SVI(model, guide, optim, loss)`: trajectory balance, VarGrad,
forward Kullback-Leibler divergence, sleep.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pyro
import torch
from pyro import poutine
from pyro.poutine.runtime import effectful
from torch import Tensor, nn

from plot_attractors.gflownet.balance import penalty
from plot_attractors.gflownet.log_ratios import LogRatioLoss, LogRatios
from plot_attractors.gflownet.programs import (
    FixedValues,
    Program,
    Programs,
    latent_sites,
    quoted,
    sample_sites,
)
from plot_attractors.gflownet.simulation import copied, require_draws_to_act, simulatable, simulated

__all__ = ["ForwardKL", "Sleep", "TrajectoryBalance", "VarGrad"]

# options of losses by their own draws alone
OWN_DRAWS: Any = {"objective": None, "behaviour": None, "replay": None}


class TrajectoryBalance(LogRatioLoss, nn.Module):
    r"""Trajectory balance between a Pyro model and guide (Malkin et al. 2022).

    .. math:: L = E_{z \sim b} [(\log Z + \log q(z) - \log p(z, x))^2]

    Samples are constants, of the guide (b = q) or of `behaviour` (`LogRatioLoss` says how the model
    learns). At zero loss q is the posterior and Z the evidence. The loss holds log Z as a parameter
    of its own, `log_z`, which SVI trains with the rest. While it is further from the mean
    log-weight than the spread of log-weights, it is set to this mean, which is the minimum of the
    loss over log Z: no step of a learning rate follows log-weights that rise by hundreds of nats.

    Args:
        num_particles: trajectories per step.
        log_z: None to learn one number, from the mean log-weight of the particles on; a number, or
            with a `batch_plate` a tensor (batch,), if log Z is known.
        log_z_scale: a learned log Z is this number times its parameter `log_z_over_scale`, so that
            under Adam it moves so many times faster than the rest. Take 1 for plain gradient
            descent.
        loss: "squared", or "huber", which is quadratic up to `delta` nats and linear beyond.
        options: as in `LogRatioLoss`.

    Raises:
        ValueError: as `LogRatioLoss`, and for a log Z of the wrong shape.
    """

    log_z_over_scale: nn.Parameter | None
    given_log_z: float | Tensor | None

    def __init__(
        self,
        num_particles: int = 1,
        *,
        log_z: float | Tensor | None = None,
        log_z_scale: float = 20.0,
        loss: Literal["squared", "huber"] = "squared",
        delta: float = 1.0,
        **options: Any,
    ) -> None:
        nn.Module.__init__(self)
        LogRatioLoss.__init__(self, num_particles, **options)
        self._penalty = penalty(loss, delta)
        if log_z is None and self.batch_plate is not None:
            raise ValueError(
                f"Each element of plate {self.batch_plate!r} has a log Z of its own: give log_z, a "
                "tensor of known values, or use VarGrad."
            )
        self._mean, self._spread = math.nan, math.inf  # of log-weights, of one particle a step
        self.log_z_over_scale = nn.Parameter(torch.tensor(math.nan)) if log_z is None else None
        self.given_log_z, self.log_z_scale = log_z, log_z_scale

    @property
    def log_z(self) -> Any:
        """Log Z, nats: the learned number, NaN until a first call, or what was given."""
        if self.log_z_over_scale is None:
            return self.given_log_z
        return self.log_z_scale * self.log_z_over_scale

    def objective(self, ratios: LogRatios) -> Tensor:
        log_ratio = ratios.total
        own = self.log_z_over_scale
        if own is not None and (torch.is_grad_enabled() or bool(own.isnan())):
            self._follow(log_ratio.detach(), own)
        self._announce()
        log_z = self.log_z
        shape = tuple(log_z.shape) if isinstance(log_z, Tensor) else ()
        if shape not in ((), tuple(log_ratio.shape[1:])):
            raise ValueError(
                f"log_z has shape {shape} where {tuple(log_ratio.shape[1:])} is wanted: "
                "a scalar, or one value for each element of batch_plate."
            )
        return self._penalty(log_z - log_ratio).mean()

    def _announce(self) -> None:
        """Shows SVI the parameters that a loss holds, through Pyro's store unless they are local.

        A name that another parameter has in the store is left to it.
        """
        held = dict(pyro.get_param_store().named_parameters())
        for part, parameter in self.named_parameters():
            if pyro.settings.get("module_local_params"):
                show = effectful(lambda *_, value=parameter, **__: value, type="param")
                show(part, parameter, name=part)
                continue
            full_name, count = f"trajectory_balance.{part}", 0
            while held.get(full_name, parameter) is not parameter:
                count += 1
                full_name = f"trajectory_balance_{count}.{part}"
            pyro.param(full_name, parameter)

    @torch.no_grad()
    def _follow(self, log_ratio: Tensor, parameter: Tensor) -> None:
        """Sets log Z to the mean log-weight, unless it lies within their spread."""
        mean, spread = log_ratio.mean(), log_ratio.std() if len(log_ratio) > 1 else None
        if spread is None:  # the mean and spread of the last steps
            new = float(mean)
            if math.isnan(self._mean):
                self._mean = new
            off = abs(new - self._mean)
            self._spread = off if math.isinf(self._spread) else 0.9 * self._spread + 0.1 * off
            self._mean += 0.1 * (new - self._mean)
            mean, spread = mean.new_tensor(self._mean), mean.new_tensor(self._spread)
        near = (mean - self.log_z_scale * parameter).abs() <= spread  # which NaN is not
        new_value = torch.where(near | ~mean.isfinite(), parameter, mean / self.log_z_scale)
        parameter.copy_(new_value)


class VarGrad(LogRatioLoss):
    r"""The variance over particles of r = log p(z, x) - log q(z), which needs no log Z.

    .. math:: L = \frac{1}{K - 1} \sum_k (r_k - \bar r)^2

    With samples of the guide, half its gradient is that of KL(q || posterior) by the score function
    with a leave-one-out baseline. Source: Richter et al. (2020), "VarGrad: a low-variance gradient
    estimator".

    Args:
        num_particles: trajectories per step, K, at least 2.
        loss, delta: as in `TrajectoryBalance`; Huber's loss is taken of r_k minus its mean.
        options: as in `LogRatioLoss`; with a `batch_plate` the loss is the mean over its elements
            of their variances, each over K trajectories.

    Raises:
        ValueError: fewer than 2 particles, and otherwise as `LogRatioLoss`.
    """

    def __init__(
        self,
        num_particles: int = 2,
        *,
        loss: Literal["squared", "huber"] = "squared",
        delta: float = 1.0,
        **options: Any,
    ) -> None:
        if num_particles < 2:
            raise ValueError(
                "VarGrad is a variance over particles and needs at least 2 of them, "
                f"not {num_particles}."
            )
        super().__init__(num_particles, **options)
        self._penalty = penalty(loss, delta)

    def objective(self, ratios: LogRatios) -> Tensor:
        r = ratios.total
        return self._penalty(r - r.mean(0)).mean() * (len(r) / (len(r) - 1))


class ForwardKL(LogRatioLoss):
    r"""KL(p(z | x) || q) up to a constant, by self-normalised importance weights: reweighted
    wake-sleep.

    .. math:: L = -\sum_k \bar w_k \log q(z_k), \quad \bar w_k \propto p(z_k, x) / q(z_k)

    Biased by O(1/K). Parameters of the model get the gradient of −Σ w̄ log p(z_k, x), which the
    value leaves out. A particle that is impossible under the model,
    log p = −∞, has weight 0.
    Source: the wake phases of reweighted wake-sleep, Bornschein and Bengio (2015).

    Args:
        num_particles: trajectories per step, K, at least 2.
        options: batch_plate and those of Pyro's `ELBO`.

    Raises ValueError where all particles are impossible under the model, or log q is infinite.
    """

    def __init__(self, num_particles: int = 16, **options: Any) -> None:
        super().__init__(num_particles, **OWN_DRAWS, model_gradient="objective", **options)
        if num_particles < 2:
            raise ValueError(f"ForwardKL weighs particles: take 2 or more, not {num_particles}.")

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
        weight = ratios.total.detach().softmax(0)
        possible = ratios.of_model.where(weight > 0, 0.0)  # 0 times −∞ is no number
        wake = -(weight * possible).sum(0).mean()
        return -(weight * ratios.of_guide).sum(0).mean() + (wake - wake.detach())


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
        options: batch_plate and those of Pyro's `ELBO`.

    Raises ValueError: the model observes nothing, or computes what it observes; has a factor or a
    scale, or does not score its draws as when it drew them; the guide has other sites.
    """

    def __init__(
        self,
        num_particles: int = 1,
        data: Callable[[dict[str, Tensor]], tuple[Any, ...]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(num_particles, **OWN_DRAWS, model_gradient="wake", **options)
        self.data = data or (lambda observed: tuple(observed.values()))
        self._draws_act = False  # whether arguments have been looked at

    def differentiable_loss(
        self, model: Program, guide: Program, *args: Any, **kwargs: Any
    ) -> Tensor:
        """As in `LogRatioLoss`; the arguments are the model's alone."""
        conditioned: Any = poutine.trace(model).get_trace(*args, **kwargs)
        observed, own = simulatable(conditioned), copied(args, kwargs)
        if not self._draws_act:
            require_draws_to_act(model, *own)
            self._draws_act = True
        each = [self._of_draw(model, guide, *own) for _ in range(self.num_particles)]
        loss = torch.stack(each).mean()
        if not bool(loss.isfinite()):
            raise ValueError(
                "log q is infinite, or not a number, at a draw of the model: keep the model's "
                "draws inside the support of the guide."
            )
        conditioned.compute_log_prob()
        if any(site["log_prob"].requires_grad for site in sample_sites(conditioned).values()):
            bound = partial(model, *args, **kwargs), partial(guide, *self.data(observed))
            programs = Programs(*bound, bound[1], (model, guide), True)
            wake = -self._log_ratios(programs).of_model.mean()
            loss = loss + (wake - wake.detach())
        return loss

    def _of_draw(self, model: Program, guide: Program, args: Any, kwargs: Any) -> Tensor:
        """−log q(z; x) of a draw (z, x) of the model."""
        with simulated(model, args, kwargs) as (latent, given, _):
            scored = poutine.trace(FixedValues(latent)(guide)).get_trace(*self.data(given))
        if missing := latent_sites(scored).keys() - latent.keys():
            raise ValueError(
                f"The guide samples {quoted(missing)}, no latent site of the model: Sleep scores "
                "the guide at the model's draws, which auxiliary sites do not have."
            )
        log_q = self._log_prob(scored, None)
        return -torch.stack(list(log_q.values())).sum(0).mean()
