"""log p and log q of particles of a Pyro model and guide, site by site, and the losses made of
them, for `SVI(model, guide, optim, loss)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import pyro
import torch
from pyro.distributions.util import scale_and_mask
from pyro.infer import ELBO
from pyro.infer.util import is_validation_enabled
from pyro.util import check_model_guide_match, warn_if_nan
from torch import Tensor

from plot_attractors.gflownet.programs import (
    Program,
    Programs,
    Site,
    Unconstrained,
    Values,
    is_one,
    latent_sites,
    quoted,
    sample_sites,
    side_run,
    site_log_prob,
)

__all__ = ["LogRatioLoss", "LogRatios"]

PARTICLES = "num_particles_vectorized"  # their plate
FIRST_CALLS, EVERY = 8, 64  # calls in which elements of the batch plate are tried
TRIES = 16  # in such a call, of all particles together


@dataclass(frozen=True, eq=False)
class LogRatios:
    """log p(z, x) and log q(z) of particles, site by site, nats: what every loss is made of.

    Gradients reach model and guide through them; the values are constants.

    Attributes:
        values: latent sites, each (K, …) for K particles.
        log_p: of every site of the model, in its order, observed ones and factors too: (K,), or
            (K, batch) with a `batch_plate`.
        log_q: of every site of the guide, in its order.
        dims: of values in a run of one particle.
    """

    values: Values
    log_p: dict[str, Tensor]
    log_q: dict[str, Tensor]
    dims: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def of_model(self) -> Tensor:
        """(K,) or (K, batch) log p(z, x)."""
        return torch.stack(list(self.log_p.values())).sum(0)

    @cached_property
    def of_guide(self) -> Tensor:
        """(K,) or (K, batch) log q(z)."""
        return torch.stack(list(self.log_q.values())).sum(0)

    @property
    def total(self) -> Tensor:
        """(K,) or (K, batch) r = log p(z, x) − log q(z)."""
        return self.of_model - self.of_guide

    @property
    def of_single_runs(self) -> Values:
        """The values, (K, …) with the dimensions of a single run: without those of size 1 that keep
        the particles apart from the model's plates.
        """
        items = self.values.items()
        return {k: v.reshape(len(v), *v.shape[v.ndim - self.dims[k] :]) for k, v in items}


ReplayOf = Callable[[LogRatios, bool], Values]
"""Other values of what was drawn, which is kept where the second argument says so."""


def _not_at_once(reason: str) -> ValueError:
    return ValueError(
        f"Model and guide do not run on all particles at once ({reason}): write them for values "
        "with a dimension of particles in front, with (x * b).sum(-1) for x @ b, torch.where for "
        "if, and the same sites in every run, masked where they do not count."
    )


class LogRatioLoss(ELBO):
    """A Pyro loss that is a function of the log-ratios of particles.

    Particles are constants, whatever they were drawn from, so sites may be discrete or without
    reparametrisation. They run at once, and the first call of a pair of programs sees to it that
    they score as when run alone. Parameters of the model take a wake step beside the objective, as
    in wake-sleep: the gradient of −E_q[log p(z, x)], on the guide's own draws, that of −ELBO.

    Args:
        num_particles: trajectories per step, K.
        objective: the loss, a scalar, of the `LogRatios`; a subclass has a method in its place.
        batch_plate: name of a vectorised plate each element of which is a trajectory of its own,
            with its own log-ratio; the plate's subsampling scale is dropped.
        behaviour: a program with the guide's sites (`tempered(guide, 2.0)`, say) to sample from
            instead; never trained.
        replay: a `Replay`, whose earlier particles take the place of some that are drawn.
        model_gradient: "wake", or "objective" where parameters of the model are part of what the
            objective is to train, as a backward policy that balance is to teach.
        options: as in Pyro's `ELBO`: `max_plate_nesting`, `retain_graph`, …

    Raises:
        ValueError: sites that model and guide do not share, or mask differently, a subsampled
            plate other than the `batch_plate`, elements of this that act on each other, a program
            that cannot run on all particles at once, or a log-ratio that is infinite or not a
            number.
    """

    behaviour: Program | None
    replay: ReplayOf | None

    def __init__(
        self,
        num_particles: int,
        objective: Callable[[LogRatios], Tensor] | None = None,
        *,
        batch_plate: str | None = None,
        behaviour: Program | None = None,
        replay: ReplayOf | None = None,
        model_gradient: Literal["wake", "objective"] = "wake",
        **options: Any,
    ) -> None:
        if model_gradient not in ("wake", "objective"):
            raise ValueError(
                f"model_gradient must be 'wake' or 'objective', not {model_gradient!r}."
            )
        if replay is not None and batch_plate is not None:
            raise ValueError("Replay needs the same data at every step: drop batch_plate.")
        # vectorize_particles, of Pyro, is no option: particles run at once, in a plate of ours
        ELBO.__init__(self, num_particles=num_particles, vectorize_particles=False, **options)
        self.batch_plate, self.model_gradient = batch_plate, model_gradient
        self._function: Any = objective
        # Past nn.Module's registration: what is only drawn from is never trained.
        object.__setattr__(self, "behaviour", behaviour)
        self.replay = replay
        self._dims: dict[str, int] = {}  # of values in a run of one particle
        self._particle_dim = 0
        self._pair: tuple[Program, ...] = ()  # model and guide of the last call
        self._calls = 0  # of this pair

    def objective(self, ratios: LogRatios) -> Tensor:
        """The loss, a scalar, from the log-ratios of particles."""
        return self._function(ratios)

    @torch.no_grad()
    def loss(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """An estimate of the loss, without gradients."""
        return float(self.differentiable_loss(model, guide, *args, **kwargs))

    def differentiable_loss(
        self, model: Program, guide: Program, *args: Any, **kwargs: Any
    ) -> Tensor:
        """An estimate of the loss, a scalar tensor for autograd (samples are constants in it)."""
        ratios = self.log_ratios(model, guide, *args, **kwargs)
        self._require_finite(ratios)
        if self.model_gradient == "objective":
            loss = self.objective(ratios)
        else:
            fixed = {name: log_p.detach() for name, log_p in ratios.log_p.items()}
            loss = self.objective(replace(ratios, log_p=fixed))
            if any(log_p.requires_grad for log_p in ratios.log_p.values()):
                if self.behaviour is not None or self.replay is not None:
                    programs = Programs.bound(model, guide, guide, args, kwargs)
                    ratios = self._log_ratios(programs)
                wake = -ratios.of_model.mean()
                loss = loss + (wake - wake.detach())
        warn_if_nan(loss, "loss")
        return loss

    def _require_finite(self, ratios: LogRatios) -> None:
        if bool(ratios.total.isfinite().all()):
            return
        for program, sites in (("model", ratios.log_p), ("guide", ratios.log_q)):
            for name, log_prob in sites.items():
                if not bool(log_prob.isfinite().all()):
                    number = "not a number" if bool(log_prob.isnan().any()) else "infinite"
                    raise ValueError(
                        f"log p - log q is {number} at a sampled trajectory, by site {name!r} of "
                        f"the {program}, and its gradient would spoil every parameter: give the "
                        "model's factors a floor and keep samples inside the support of both "
                        "programs."
                    )

    def loss_and_grads(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """Adds the gradient of the loss to every parameter used, and returns the loss."""
        with Unconstrained():
            loss = self.differentiable_loss(model, guide, *args, **kwargs)
        if loss.requires_grad:
            loss.backward(retain_graph=self.retain_graph)  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def log_ratios(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> LogRatios:
        """log p and log q of particles as training draws them, for autograd.

        Example:
            >>> import pyro.distributions as dist
            >>> def model():
            ...     z = pyro.sample("z", dist.Normal(0.0, 1.0))
            ...     pyro.sample("x", dist.Normal(z, 1.0), obs=torch.tensor(2.0))
            >>> def guide():
            ...     pyro.sample("z", dist.Normal(1.0, 0.5**0.5))
            >>> r = LogRatioLoss(3).log_ratios(model, guide)
            >>> r.total  # the exact posterior: log p(x) everywhere
            tensor([-2.2655, -2.2655, -2.2655])
            >>> list(r.log_p)
            ['z', 'x']
        """
        sampler = self.behaviour if self.behaviour is not None else guide
        programs = Programs.bound(model, guide, sampler, args, kwargs)
        return self._log_ratios(programs, self.replay)

    def _get_trace(self, model: Program, guide: Program, args: Any, kwargs: Any) -> tuple[Any, Any]:
        raise NotImplementedError  # abstract in Pyro, and not called here

    # -- log-probabilities

    def _log_ratios(self, programs: Programs, replay: ReplayOf | None = None) -> LogRatios:
        if programs.pair != self._pair:
            self._plan(programs)
        self._calls += 1
        programs = self._together(programs)
        ratios = self._run(programs, replay)
        if self.batch_plate is not None and (
            self._calls <= FIRST_CALLS or self._calls % EVERY == 0
        ):
            self._require_apart(programs)
        return ratios

    def _together(self, programs: Programs) -> Programs:
        """The programs with all particles in one run, inside an outermost plate."""
        dim = self._particle_dim
        return programs.inside(partial(pyro.plate, PARTICLES, self.num_particles, dim=dim))

    def _run(self, programs: Programs, replay: ReplayOf | None = None) -> LogRatios:
        """One run of all particles."""
        dim = self._particle_dim
        if replay is None and programs.draws_from_guide:
            values, traces = programs.draw_and_score()  # the guide is what is drawn from
        else:
            values = programs.draw()
            if replay is not None:
                fill = torch.is_grad_enabled()
                with torch.no_grad():
                    drawn = self._scored(programs, values, programs.score(values), dim)
                    values = {**values, **replay(drawn, fill)}
            traces = programs.score(values)
        if values.keys() != self._dims.keys():
            raise _not_at_once("their sites differ between runs")
        return self._scored(programs, values, traces, dim)

    def _scored(
        self, programs: Programs, values: Values, traces: tuple[Any, Any], dim: int | None = None
    ) -> LogRatios:
        model_trace, guide_trace = traces
        if is_validation_enabled():
            check_model_guide_match(model_trace, guide_trace, -(dim or -math.inf))
        log_p, log_q = self._log_prob(model_trace, dim), self._log_prob(guide_trace, dim)
        latent = {name: values[name] for name in latent_sites(guide_trace)}
        return LogRatios(latent, log_p, log_q, dims=self._dims)

    def _log_prob(self, trace: Any, dim: int | None) -> dict[str, Tensor]:
        """Of every site, (K,) or (K, batch) of a vectorised run, () or (batch,) of one particle."""
        log_probs: dict[str, Tensor] = {}
        for name, site in sample_sites(trace).items():
            log_prob = site["log_prob"] = site_log_prob(site)
            kept = [] if dim is None else [dim]
            if self.batch_plate is not None:
                kept.append(self._batch_frame(site).dim)
            scale = self._scale(site)
            if not is_one(scale):
                log_prob = scale_and_mask(log_prob, scale)
            others = [of for of in range(-log_prob.ndim, 0) if of not in kept]
            log_probs[name] = log_prob.sum(others) if others else log_prob
        if not log_probs:  # a program without sites has probability 1
            log_probs[""] = torch.zeros([] if dim is None else [self.num_particles])
        return log_probs

    def _batch_frame(self, site: Site) -> Any:
        """The batch plate, in which a site must lie."""
        for frame in site["cond_indep_stack"]:
            if frame.name == self.batch_plate and frame.vectorized:
                return frame
        raise ValueError(
            f"Site {site['name']!r} lies outside the vectorised plate {self.batch_plate!r}, whose "
            "elements are trajectories of their own: move the site into the plate, or drop "
            "batch_plate."
        )

    def _scale(self, site: Site) -> Any:
        """The site's scale without the batch plate's; `poutine.scale` stays, as a temperature."""
        scale = site["scale"]
        frames = [f for f in site["cond_indep_stack"] if f.full_size not in (None, f.size)]
        for frame in frames:
            if frame.name == self.batch_plate:
                scale = scale * frame.size / frame.full_size
        plates = {frame.name for frame in frames} - {self.batch_plate}
        if plates and not is_one(scale):
            raise ValueError(
                f"Site {site['name']!r} lies in the subsampled plate {quoted(plates)}, whose scale "
                "has no place in a squared log-ratio, nor in a weight: use the whole plate, or "
                "name it as batch_plate if its elements are independent."
            )
        return scale

    # -- one run of all particles

    def _plan(self, programs: Programs) -> None:
        """Of a new pair: the dimension of particles; a ValueError if one run cannot hold all."""
        self._pair, self._calls = (), 0  # until it is known to be one that can
        with side_run():
            values = programs.draw()
            traces = programs.score(values)
            # a fault of the pair itself is reported here, and not taken for one of vectorising
            self._scored(programs, values, traces)
            nesting = self.max_plate_nesting
            if math.isinf(nesting):
                sites = [site for trace in traces for site in sample_sites(trace).values()]
                nesting = max([0, *(site["log_prob"].ndim for site in sites)])
            self._particle_dim = -1 - int(nesting)
            self._dims = {k: v.ndim for k, v in values.items() if isinstance(v, Tensor)}
            if reason := self._vectorization_fault(programs):
                raise _not_at_once(reason)
        self._pair = programs.pair

    def _vectorization_fault(self, programs: Programs) -> str | None:
        """Why one run cannot hold all particles; None where two score as when run alone."""
        try:
            together = self._together(programs)
            values = together.draw()
            traces = together.score(values)
            total = self._scored(together, values, traces, self._particle_dim).total
            ends = [0, self.num_particles - 1]
            alone = []
            for k in ends:
                taken = {name: self._take(value, name, k) for name, value in values.items()}
                traces = programs.score(taken)
                alone.append(self._scored(programs, taken, traces).total)
        except Exception as error:  # whatever a program does when its values gain a dimension
            return str(error).splitlines()[0] if str(error) else type(error).__name__
        same = torch.allclose(total[ends], torch.stack(alone), rtol=1e-3, atol=1e-3, equal_nan=True)
        return None if same else "particles score differently when run alone"

    def _take(self, value: Any, name: str, particle: int) -> Any:
        """One particle's value, in the shape that it has in a run of its own."""
        dims = self._dims.get(name, 0)
        if not isinstance(value, Tensor) or value.ndim <= dims:
            return value  # indices of a subsampled plate, which all particles share
        return value.reshape(self.num_particles, *value.shape[value.ndim - dims :])[particle]

    # -- elements of the batch plate

    def _require_apart(self, programs: Programs) -> None:
        """ValueError where elements of the batch plate act on each other: where a random half of
        them, drawn anew, changes log-probabilities of the other half. In the first calls of a pair,
        and now and then.
        """
        dim = self._particle_dim

        def scored(values: Values) -> tuple[LogRatios, Any]:
            torch.manual_seed(0)  # of programs that are random otherwise
            traces = programs.score(values)
            return self._scored(programs, values, traces, dim), traces[1]

        with side_run():
            seed = int(torch.randint(2**31, ())) + self._calls
            values = programs.draw()
            before, guide_trace = scored(values)
            given = {k: v for k, v in values.items() if k not in before.values}
            for i in range(-(-TRIES // self.num_particles)):
                torch.manual_seed(seed + i)
                chosen = torch.rand_like(before.total) < 0.5
                anew, changed = programs.redraw(given), dict(values)
                for name, site in latent_sites(guide_trace).items():
                    shape = [1] * values[name].ndim
                    shape[self._batch_frame(site).dim - site["fn"].event_dim] = chosen.shape[-1]
                    shape[0] = len(chosen)
                    changed[name] = torch.where(chosen.reshape(shape), anew[name], values[name])
                after, _ = scored(changed)
                pairs = [(before.log_p[k], after.log_p[k]) for k in before.log_p]
                pairs += [(before.log_q[k], after.log_q[k]) for k in before.log_q]
                for old, new in pairs:
                    kept = torch.where(chosen, old, new)
                    if not torch.allclose(old, kept, rtol=1e-4, atol=1e-5, equal_nan=True):
                        raise ValueError(
                            f"Elements of the plate {self.batch_plate!r} act on each other, so "
                            "that they are no trajectories of their own: drop batch_plate."
                        )
