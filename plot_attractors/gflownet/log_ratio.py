"""Losses that are functions of log p − log q of particles, for `SVI(model, guide, optim, loss)`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyro
import torch
from pyro.distributions.util import scale_and_mask
from pyro.infer import ELBO
from pyro.infer.util import is_validation_enabled
from pyro.util import check_model_guide_match, warn_if_nan
from torch import Tensor

from plot_attractors.gflownet.off_policy import Move, Particles
from plot_attractors.gflownet.programs import (
    Layout,
    LogRatios,
    Program,
    Programs,
    Site,
    Unconstrained,
    Values,
    is_real,
    latent_sites,
    quoted,
    sample_sites,
    side_run,
)

__all__ = ["LogRatioLoss", "Objective", "log_ratios"]

Objective = Callable[[LogRatios], Tensor]


class LogRatioLoss(ELBO):
    """A Pyro loss that is a function of the log-ratios of particles.

    Particles are constants, whatever they were drawn from, so sites may be discrete or without
    reparametrisation.

    Args:
        num_particles: trajectories per step, K.
        objective: the loss, a scalar, of the `LogRatios`; a subclass has a method in its place.
        batch_plate: name of a vectorised plate each element of which is a trajectory of its own,
            with its own log-ratio; the plate's subsampling scale is dropped.
        behaviour: a program with the guide's sites (`tempered(guide, 2.0)`, say) to sample from
            instead; never trained.
        off_policy: functions that change what was drawn, one after the other, or a single one:
            `Replay`, `LocalSearch`, `Langevin`, or a function of `Particles`.
        vectorize_particles: True for one run of all particles, False for a loop; by default the
            first call tries the former against the latter, warns if they disagree, and then loops.
            One loss serves one pair of programs.

    Raises:
        ValueError: sites that model and guide do not share, an enumerated guide, a subsampled plate
            other than `batch_plate`, or an infinite log-ratio.

    Example, a loss of one's own, the standard deviation of the log-ratios:
        >>> def spread(r: LogRatios) -> Tensor:
        ...     return r.total.std(0).mean()
        >>> loss = LogRatioLoss(16, spread)
    """

    behaviour: Program | None
    off_policy: tuple[Move, ...]
    scores_behaviour = False  # whether the objective reads `log_b`
    scales_guide = True  # whether sites of the guide may have a `poutine.scale`

    def __init__(
        self,
        num_particles: int,
        objective: Objective | None = None,
        *,
        batch_plate: str | None = None,
        behaviour: Program | None = None,
        off_policy: Sequence[Move] | Move = (),
        vectorize_particles: bool | None = None,
    ) -> None:
        if not isinstance(num_particles, int):
            raise ValueError(
                f"{type(self).__name__} takes a whole number of particles first, "
                f"not {num_particles!r}."
            )
        if num_particles < 1:
            name = type(self).__name__
            raise ValueError(f"{name} needs at least one particle, not {num_particles}.")
        super().__init__(num_particles=num_particles)
        self.vectorize_particles: bool | None = False if num_particles == 1 else vectorize_particles
        self.max_plate_nesting: float = math.inf  # the particle plate counted, as in Pyro
        self.batch_plate = batch_plate
        self._function = objective
        # Past nn.Module's registration: what is only drawn from is never trained.
        object.__setattr__(self, "behaviour", behaviour)
        moves = (off_policy,) if callable(off_policy) else tuple(off_policy)
        object.__setattr__(self, "off_policy", moves)
        self._dims: dict[str, int] = {}  # of the sites in a run of one particle

    def objective(self, ratios: LogRatios) -> Tensor:
        """The loss, a scalar, from the log-ratios of particles."""
        if self._function is None:
            raise ValueError("A loss needs its objective: LogRatioLoss(K, objective).")
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
        return self._checked(self.objective(ratios))

    def _require_finite(self, ratios: LogRatios) -> None:
        if any(bool(torch.isinf(of).any()) for of in ratios.ends):
            raise ValueError(
                "log p - log q is infinite at a sampled trajectory, and its gradient would spoil "
                "every parameter: give the model's factors a floor and keep samples inside the "
                "support of both programs."
            )

    def _checked(self, loss: Tensor) -> Tensor:
        if not isinstance(loss, Tensor) or loss.shape != ():
            shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise ValueError(
                f"The objective must give a scalar tensor, not {shape}: take a mean over particles."
            )
        warn_if_nan(loss, "loss")
        return loss

    def loss_and_grads(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """Adds the gradient of the loss to every parameter used, and returns the loss."""
        with Unconstrained():
            loss = self.differentiable_loss(model, guide, *args, **kwargs)
        if loss.requires_grad:
            loss.backward()
        return float(loss.detach())

    def log_ratios(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> LogRatios:
        """log p and log q of particles as training draws them, for autograd."""
        sampler = self.behaviour if self.behaviour is not None else guide
        programs = Programs.bound((model, guide, sampler), args, kwargs)
        return self._log_ratios(programs, args, kwargs, self.off_policy)

    def log_weights(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """Importance log-weights log p(z, x) − log q(z), z drawn from the guide and nothing else.

        Their mean is the ELBO, at most log Z = log p(x); `logsumexp(0) - log(num_particles)` is the
        tighter importance-weighted bound.

        Returns:
            (num_particles,), or (num_particles, batch) with a `batch_plate`; nats; no gradients.
        """
        with torch.no_grad():
            programs = Programs.bound((model, guide, guide), args, kwargs)
            return self._log_ratios(programs, args, kwargs).total

    def _get_trace(self, model: Program, guide: Program, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Abstract in Pyro, and not called here."""
        programs = Programs.bound((model, guide, guide), args, kwargs)
        return programs.score(programs.draw())

    # -- log-probabilities

    def _log_ratios(
        self, programs: Programs, args: Any, kwargs: Any, off_policy: Sequence[Move] = ()
    ) -> LogRatios:
        if self.vectorize_particles is not False and math.isinf(self.max_plate_nesting):
            self._plan(programs)
        if self.vectorize_particles:
            together, dim = self._together(programs)
            ratios = self._run(together, off_policy, dim)
        else:
            if self.batch_plate is not None:
                programs = programs.on_one_subsample()
            each = [self._run(programs, off_policy) for _ in range(self.num_particles)]
            ratios = LogRatios.stacked(each)
        return replace(ratios, args=args, kwargs=kwargs)

    def _together(self, programs: Programs) -> tuple[Programs, int]:
        """The programs with all particles in one run, inside an outermost plate, and its dim."""
        dim = -int(self.max_plate_nesting)
        plate = partial(pyro.plate, "num_particles_vectorized", self.num_particles, dim=dim)
        return programs.inside(plate), dim

    def _run(
        self, programs: Programs, off_policy: Sequence[Move] = (), particle_dim: int | None = None
    ) -> LogRatios:
        if not off_policy and self.behaviour is None:
            values, traces = programs.draw_and_score()  # the guide is what is drawn from
            return self._scored(programs, values, traces, particle_dim)
        values = programs.draw()

        def score(of: Values) -> LogRatios:
            return self._scored(programs, of, programs.score(of), particle_dim)

        for move in off_policy:
            values = move(Particles(values, score, programs.redraw, particle_dim is not None))
        return score(values)

    def _scored(
        self,
        programs: Programs,
        values: Values,
        traces: tuple[Any, Any],
        particle_dim: int | None = None,
    ) -> LogRatios:
        model_trace, guide_trace = traces
        if is_validation_enabled():
            check_model_guide_match(model_trace, guide_trace, self.max_plate_nesting)
        log_p = self._log_prob(model_trace, "model", particle_dim)
        log_q = self._log_prob(guide_trace, "guide", particle_dim)
        log_b = None
        if self.scores_behaviour:
            log_b = torch.stack([v.detach() for v in log_q.values()]).sum(0)
            if self.behaviour is not None:
                log_b = self._of_sampler(programs, values, particle_dim)
        latents = latent_sites(guide_trace)
        in_model = latent_sites(model_trace)
        batch_dim = None
        if self.batch_plate is not None and latents:
            batch_dim = self._batch_frame(next(iter(latents.values()))).dim
        event_dims = {name: site["fn"].event_dim for name, site in latents.items()}
        real = frozenset(name for name, site in in_model.items() if is_real(site))
        at_once = particle_dim is not None
        layout = Layout(event_dims, real, batch_dim, at_once, self._dims if at_once else {})
        own = {name: values[name] for name in latents}
        return LogRatios(own, log_p, log_q, layout, log_b)

    @torch.no_grad()
    def _of_sampler(self, programs: Programs, values: Values, dim: int | None) -> Tensor:
        """log b of what was drawn."""
        trace = programs._replace(guide=programs.sampler).score(values)[1]
        return torch.stack(list(self._log_prob(trace, "behaviour policy", dim).values())).sum(0)

    def _log_prob(self, trace: Any, program: str, particle_dim: int | None) -> dict[str, Tensor]:
        """Of every site, for each particle (if vectorised) and element of the batch plate."""
        found: dict[str, Tensor] = {}
        sites = sample_sites(trace)
        for name, site in sites.items():
            try:
                log_prob = site["fn"].log_prob(site["value"], *site["args"], **site["kwargs"])
            except ValueError as error:
                message = f"log_prob fails at site {name!r} of the {program}: {error}"
                raise ValueError(message) from error
            except (KeyError, NotImplementedError) as error:
                raise ValueError(
                    f"Site {name!r} of the {program} has a distribution without a density of "
                    f"given values ({type(error).__name__}: {error}), such as a flow whose "
                    "transform has no inverse: take one with an inverse there."
                ) from error
            scale = self._scale(site)
            if program == "guide" and not self.scales_guide and not is_one(scale):
                raise ValueError(
                    f"Site {name!r} of the guide has a scale, under which {type(self).__name__} "
                    "has no log-derivative: scale the model alone."
                )
            log_prob = scale_and_mask(log_prob, scale, site["mask"])
            sizes = {} if particle_dim is None else {particle_dim: self.num_particles}
            if self.batch_plate is not None:
                frame = self._batch_frame(site)
                sizes[frame.dim] = frame.size
            if any(log_prob.ndim < -d or log_prob.shape[d] != n for d, n in sizes.items()):
                raise ValueError(
                    f"Site {name!r} of the {program} has log-probabilities of shape "
                    f"{tuple(log_prob.shape)}, without the particle or batch dimension: "
                    "use a Pyro distribution there, or vectorize_particles=False."
                )
            if summed := [dim for dim in range(-log_prob.ndim, 0) if dim not in sizes]:
                log_prob = log_prob.sum(summed)
            found[name] = log_prob
        # a program without sites has probability 1
        return found or {"": torch.zeros(() if particle_dim is None else self.num_particles)}

    def _batch_frame(self, site: Site) -> Any:
        for frame in site["cond_indep_stack"]:
            if frame.name == self.batch_plate and frame.vectorized:
                return frame
        raise ValueError(
            f"Site {site['name']!r} lies outside the vectorised plate {self.batch_plate!r}, whose "
            "elements are trajectories of their own: move the site into the plate, "
            "or drop batch_plate."
        )

    def _scale(self, site: Site) -> Any:
        """The site's scale without the batch plate's; `poutine.scale` stays, as a temperature."""
        scale = site["scale"]
        if isinstance(scale, float | int) and scale == 1:
            return scale
        subsampled = [f for f in site["cond_indep_stack"] if f.full_size not in (None, f.size)]
        for frame in subsampled:
            if frame.name == self.batch_plate:
                scale = scale * frame.size / frame.full_size
        if is_one(scale):
            return 1.0
        if outside := {frame.name for frame in subsampled} - {self.batch_plate}:
            raise ValueError(
                f"Site {site['name']!r} lies in the subsampled plate {quoted(outside)}, whose "
                "scale has no place in a squared log-ratio: use the whole plate, or name it as "
                "batch_plate if its elements are independent."
            )
        return scale

    # -- one run or many

    def _plan(self, programs: Programs) -> None:
        """Finds the dimension of the particle plate, and whether one run can hold all particles."""
        with side_run():
            values = programs.draw()
            traces = programs.score(values)
            # a fault of the pair itself is reported here, and not taken for one of vectorising
            self._scored(programs, values, traces)
            sites = [site for trace in traces for site in sample_sites(trace).values()]
            stacks = [frame for site in sites for frame in site["cond_indep_stack"]]
            plates = [-frame.dim for frame in stacks if frame.vectorized]
            shapes = [len(getattr(site["fn"], "batch_shape", ())) for site in sites]
            self.max_plate_nesting = max([0, *plates, *shapes]) + 1
            self._dims = {k: v.ndim for k, v in values.items() if isinstance(v, Tensor)}
            if self.vectorize_particles is None:
                self.vectorize_particles = self._vectorizes(programs, values)

    def _vectorizes(self, programs: Programs, reference: Values) -> bool:
        """Whether particles of one vectorised run score as they do when each is run alone."""
        reason = "particles score differently when run alone"
        try:
            together, dim = self._together(programs)
            values = together.draw()
            log_ratio = self._scored(together, values, together.score(values), dim).total
            ends = [0, self.num_particles - 1]
            alone = []
            for k in ends:
                taken = self._take(values, k, reference)
                alone.append(self._scored(programs, taken, programs.score(taken)).total)
            expected = torch.stack(alone)
            if torch.allclose(log_ratio[ends], expected, rtol=1e-3, atol=1e-3, equal_nan=True):
                return True
        except Exception as error:  # whatever a program does when its values gain a dimension
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
        warnings.warn(
            f"{type(self).__name__} runs its particles in a loop, since model and guide do not "
            f"vectorise ({reason}); vectorize_particles=False says that this is meant.",
            stacklevel=2,
        )
        return False

    def _take(self, values: Values, particle: int, like: Values) -> Values:
        """One particle's values, in the shapes that they have in a run of its own."""
        taken = dict(values)
        for name, value in values.items():
            if not isinstance(value, Tensor):
                continue
            shape = like[name].shape
            # indices of a subsampled plate stay, as all particles share them
            if value.shape != shape or value.ndim >= self.max_plate_nesting:
                taken[name] = value.reshape(self.num_particles, *shape)[particle]
        return taken


def is_one(scale: Any) -> bool:
    """Whether a scale changes nothing."""
    return bool((torch.as_tensor(scale) - 1).abs().max() < 1e-6)


def log_ratios(
    model: Program,
    guide: Program,
    *args: Any,
    num_particles: int = 1,
    batch_plate: str | None = None,
    **kwargs: Any,
) -> LogRatios:
    """log p(z, x) and log q(z) of particles of the guide, site by site; autograd follows them.

    Example:
        >>> import pyro.distributions as dist
        >>> def model():
        ...     z = pyro.sample("z", dist.Normal(0.0, 1.0))
        ...     pyro.sample("x", dist.Normal(z, 1.0), obs=torch.tensor(2.0))
        >>> def guide():
        ...     pyro.sample("z", dist.Normal(1.0, 0.5**0.5))
        >>> r = log_ratios(model, guide, num_particles=3)
        >>> r.total  # the exact posterior: log p(x) everywhere
        tensor([-2.2655, -2.2655, -2.2655])
        >>> list(r.log_p), r.by_site.shape
        (['z', 'x'], torch.Size([2, 3]))
    """
    loss = LogRatioLoss(num_particles, batch_plate=batch_plate)
    return loss.log_ratios(model, guide, *args, **kwargs)
