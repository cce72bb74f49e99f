"""Losses that are functions of log p − log q of particles, for `SVI(model, guide, optim, loss)`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pyro
import torch
from pyro.distributions.util import scale_and_mask
from pyro.infer import ELBO
from pyro.infer.util import is_validation_enabled
from pyro.util import check_model_guide_match, check_site_shape, warn_if_nan
from torch import Tensor

from plot_attractors.gflownet.off_policy import Move, Particles
from plot_attractors.gflownet.programs import (
    Program,
    Programs,
    Site,
    Unconstrained,
    Values,
    is_one,
    is_point,
    is_real_valued,
    latent_sites,
    model_masks,
    quoted,
    sample_sites,
    side_run,
    site_log_prob,
)
from plot_attractors.gflownet.ratios import Elements, Layout, LogRatios

__all__ = ["LogRatioLoss", "Objective", "log_ratios"]

Objective = Callable[[LogRatios], Tensor]
PARTICLES = "num_particles_vectorized"  # their plate
FIRST_CALLS, EVERY = 8, 64  # calls in which elements of plates are tried
TRIES = 16  # in such a call, of all particles together
ALONE = "set vectorize_particles=False"


class LogRatioLoss(ELBO):
    """A Pyro loss that is a function of the log-ratios of particles.

    Particles are constants, whatever they were drawn from, so sites may be discrete or without
    reparametrisation. Parameters of the model take a wake step beside the objective, as in wake-
    sleep: the gradient of −E_q[log p(z, x)], on the guide's own draws, which is that of −ELBO.
    A mask of the model holds for the same site of the guide.

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
            first call of a pair of programs looks once whether two particles score as when they are
            run alone, else a warning says why all run in a loop.
        model_gradient: "wake", or "objective" where parameters of the model are part of what the
            objective is to train, as a backward policy that balance is to teach.
        options: as in Pyro's `ELBO`: `max_plate_nesting`, `retain_graph`, …

    Raises:
        ValueError: sites that model and guide do not share, or mask differently, an enumerated
            guide, a subsampled plate where the loss has no unbiased estimate of it, elements of a
            `batch_plate` that act on each other, or a log-ratio that is infinite or not a number.

    Example, a loss of one's own, the standard deviation of the log-ratios:
        >>> def spread(r: LogRatios) -> Tensor:
        ...     return r.total.std(0).mean()
        >>> loss = LogRatioLoss(16, spread)
    """

    behaviour: Program | None
    off_policy: tuple[Move, ...]
    scores_behaviour = False  # whether the objective reads `log_b`
    takes_subsamples = False  # whether it is right of mini-batches of a plate, with global sites

    def __init__(
        self,
        num_particles: int,
        objective: Objective | None = None,
        *,
        batch_plate: str | None = None,
        behaviour: Program | None = None,
        off_policy: Sequence[Move] | Move = (),
        vectorize_particles: bool | None = None,
        model_gradient: Literal["wake", "objective"] = "wake",
        **options: Any,
    ) -> None:
        if not isinstance(num_particles, int):
            raise ValueError(
                f"{type(self).__name__} takes a whole number of particles first, "
                f"not {num_particles!r}."
            )
        if num_particles < 1:
            name = type(self).__name__
            raise ValueError(f"{name} needs at least one particle, not {num_particles}.")
        if model_gradient not in ("wake", "objective"):
            raise ValueError(
                f"model_gradient must be 'wake' or 'objective', not {model_gradient!r}."
            )
        ELBO.__init__(self, num_particles=num_particles, **options)
        self.vectorize_particles: bool | None = False if num_particles == 1 else vectorize_particles
        self._asked = self.vectorize_particles
        self.batch_plate, self.model_gradient = batch_plate, model_gradient
        self._function = objective
        # Past nn.Module's registration: what is only drawn from is never trained.
        object.__setattr__(self, "behaviour", behaviour)
        moves = (off_policy,) if callable(off_policy) else tuple(off_policy)
        object.__setattr__(self, "off_policy", moves)
        self._dims: dict[str, int] = {}  # of values in a run of one particle
        self._particle_dim = 0
        self._subsampled: set[str] = set()  # plates with global sites, in the last call
        self._acting: frozenset[str] = frozenset()  # plates whose elements act on each other
        self._pair: tuple[Program, ...] = ()  # model and guide of the last call
        self._calls = self._looked = 0  # of this pair; the call that last looked at plates

    def __getstate__(self) -> dict[str, Any]:
        """Without the programs, and what Pyro's store hangs on parameters, a weak reference."""
        for parameter in getattr(self, "parameters", tuple)():
            vars(parameter).pop("unconstrained", None)
        return {**vars(self), "_pair": ()}

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
        if self.model_gradient == "objective":
            return self._checked(self.objective(ratios))
        fixed = {name: log_p.detach() for name, log_p in ratios.log_p.items()}
        loss = self._checked(self.objective(replace(ratios, log_p=fixed)))
        if any(log_p.requires_grad for log_p in ratios.log_p.values()):
            if ratios.elements is None:  # particles from elsewhere are not the guide's
                programs = Programs.bound(model, guide, guide, args, kwargs)
                ratios = self._log_ratios(programs, args, kwargs)
            wake = -ratios.of_model.mean()
            loss = loss + (wake - wake.detach())
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
            loss.backward(retain_graph=self.retain_graph)  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def log_ratios(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> LogRatios:
        """log p and log q of particles as training draws them, for autograd."""
        sampler = self.behaviour if self.behaviour is not None else guide
        programs = Programs.bound(model, guide, sampler, args, kwargs)
        return self._log_ratios(programs, args, kwargs, self.off_policy)

    def log_weights(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """Importance log-weights log p(z, x) − log q(z), z drawn from the guide and nothing else.

        Their mean is the ELBO, at most log Z = log p(x); `logsumexp(0) - log(num_particles)` is the
        tighter importance-weighted bound.

        Returns:
            (num_particles,), or (num_particles, batch) with a `batch_plate`; nats; no gradients.
        """
        with torch.no_grad():
            programs = Programs.bound(model, guide, guide, args, kwargs)
            ratios = self._log_ratios(programs, args, kwargs)
        if self._subsampled:
            raise ValueError(
                f"Importance weights need all data, and the plate {quoted(self._subsampled)} is "
                "subsampled: give the whole of it here."
            )
        return ratios.total

    def _get_trace(self, model: Program, guide: Program, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Abstract in Pyro, and not called here."""
        programs = Programs.bound(model, guide, guide, args, kwargs)
        return programs.score(programs.draw())

    # -- log-probabilities

    def _log_ratios(
        self, programs: Programs, args: Any, kwargs: Any, off_policy: Sequence[Move] = ()
    ) -> LogRatios:
        own = not off_policy and programs.draws_from_guide
        if programs.pair != self._pair:
            self._plan(programs)
            self._pair, self._acting = programs.pair, frozenset()
            self._calls = self._looked = 0
        self._calls += 1
        self._subsampled = set()
        if self.vectorize_particles:
            ratios = self._run(self._together(programs), off_policy, own, self._particle_dim)
        else:
            programs = programs.sharing_subsamples()
            each = [self._run(programs, off_policy, own) for _ in range(self.num_particles)]
            ratios = LogRatios.stacked(each)
        if self.batch_plate is not None:
            ratios.acting()
        return replace(ratios, args=args, kwargs=kwargs)

    def _together(self, programs: Programs) -> Programs:
        """The programs with all particles in one run, inside an outermost plate."""
        dim = self._particle_dim
        return programs.inside(partial(pyro.plate, PARTICLES, self.num_particles, dim=dim))

    def _run(
        self,
        programs: Programs,
        off_policy: Sequence[Move],
        own: bool,
        particle_dim: int | None = None,
    ) -> LogRatios:
        if own:
            values, traces = programs.draw_and_score()  # the guide is what is drawn from
        else:
            values = programs.draw()

            def score(values: Values) -> LogRatios:
                return self._scored(programs, values, programs.score(values), particle_dim)

            for move in off_policy:
                values = move(Particles(values, score, programs.redraw))
            traces = programs.score(values)
        if particle_dim is not None and values.keys() != self._dims.keys():
            raise ValueError(
                f"The programs have other sites than they had in a run of one particle: {ALONE}."
            )
        ratios = self._scored(programs, values, traces, particle_dim, own)
        due = self._calls <= FIRST_CALLS or self._calls % EVERY == 0
        acting = partial(self._looked_for, programs, values, particle_dim, due)
        return replace(ratios, acting=acting)

    def _scored(
        self,
        programs: Programs,
        values: Values,
        traces: tuple[Any, Any],
        particle_dim: int | None = None,
        own: bool = False,
    ) -> LogRatios:
        model_trace, guide_trace = traces
        if is_validation_enabled():
            check_model_guide_match(model_trace, guide_trace, -(particle_dim or -math.inf))
        subsamples = own and self.takes_subsamples
        p = self._elements(model_trace, "model", particle_dim, subsamples)
        masks = model_masks(model_trace, guide_trace)
        q = self._elements(guide_trace, "guide", particle_dim, subsamples, masks)
        log_p, log_q = (self._totals(sites, particle_dim) for sites in (p, q))
        log_b = None
        if self.scores_behaviour:
            log_b = torch.stack([v.detach() for v in log_q.values()]).sum(0)
            if self.behaviour is not None:
                with torch.no_grad():
                    trace = programs._replace(guide=programs.sampler).score(values)[1]
                    drawn = self._log_prob(trace, "behaviour policy", particle_dim)
                log_b = torch.stack(list(drawn.values())).sum(0)
        latents = latent_sites(guide_trace)
        in_model = latent_sites(model_trace)
        batch_dim = None
        if self.batch_plate is not None and latents:
            batch_dim = self._batch_frame(next(iter(latents.values()))).dim
        event_dims = {name: site["fn"].event_dim for name, site in latents.items()}
        real = frozenset(name for name, site in in_model.items() if is_real_valued(site))
        at_once = particle_dim is not None
        layout = Layout(event_dims, real, batch_dim, at_once, self._dims if at_once else {})
        elements = None
        if own:
            ndim = max(site.value.ndim for sites in (p, q) for site in sites.values())
            p, q = ({k: v.padded(ndim) for k, v in sites.items()} for sites in (p, q))
            elements = p, q
        latent_values = {name: values[name] for name in latents}
        return LogRatios(latent_values, log_p, log_q, layout, log_b, elements=elements)

    def _log_prob(self, trace: Any, program: str, particle_dim: int | None) -> dict[str, Tensor]:
        """Of every site, for each particle (if vectorised) and element of the batch plate."""
        return self._totals(self._elements(trace, program, particle_dim), particle_dim)

    def _elements(
        self,
        trace: Any,
        program: str,
        particle_dim: int | None,
        subsamples: bool = False,
        masks: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Elements]:
        """Of every site, with the dimension of particles first, of size 1 where one was run; masks
        are joined to the sites' own. `subsamples`: whether other plates than the batch plate may be
        subsampled.
        """
        elements: dict[str, Elements] = {}
        for name, site in sample_sites(trace).items():
            score = site["log_prob"] = site_log_prob(site, program, (masks or {}).get(name))
            if particle_dim is None:
                score = score[None]
            else:
                self._require_particles(site, program, particle_dim)
            if is_validation_enabled():
                check_site_shape(site, -(particle_dim or -math.inf))  # type: ignore[arg-type]  # ∞
            if self.batch_plate is not None:
                self._batch_frame(site)
            frames = [f for f in site["cond_indep_stack"] if f.vectorized and f.name != PARTICLES]
            scale = self._scale(site, subsamples)
            value = score if is_one(scale) else scale_and_mask(score, scale)
            elements[name] = Elements(value, score, frozenset((f.name, f.dim) for f in frames))
        if not elements:  # a program without sites has probability 1
            zero = torch.zeros(1 if particle_dim is None else self.num_particles)
            elements[""] = Elements(zero, zero, frozenset())
        return elements

    def _totals(self, sites: dict[str, Elements], particle_dim: int | None) -> dict[str, Tensor]:
        """(K,) or (K, batch) of a vectorised run, () or (batch,) of one particle."""
        totals = {}
        for name, site in sites.items():
            batch = frozenset(plate for plate in site.plates if plate[0] == self.batch_plate)
            value = site.sum_to(batch).value
            particles = [] if particle_dim is None else [len(value)]
            totals[name] = value.reshape(particles + [value.shape[dim] for _, dim in batch])
        return totals

    def _batch_frame(self, site: Site) -> Any:
        """The batch plate, in which a site must lie."""
        for frame in site["cond_indep_stack"]:
            if frame.name == self.batch_plate and frame.vectorized:
                return frame
        raise ValueError(
            f"Site {site['name']!r} lies outside the vectorised plate {self.batch_plate!r}, whose "
            "elements are trajectories of their own: move the site into the plate, or drop "
            "batch_plate; VarGrad keeps elements of plates apart by itself."
        )

    def _require_particles(self, site: Site, program: str, particle_dim: int) -> None:
        """Raises where a site of a vectorised run has no dimension of particles."""
        log_prob = site["log_prob"]
        dims = [f.dim for f in site["cond_indep_stack"] if f.vectorized]
        if any(dim < particle_dim for dim in dims) or log_prob.ndim > -particle_dim:
            raise ValueError(
                f"site {site['name']!r} of the {program} has log-probabilities of shape "
                f"{tuple(log_prob.shape)}, more plates than max_plate_nesting={-particle_dim - 1}"
            )
        sizes = {particle_dim: self.num_particles}
        if self.batch_plate is not None:
            frame = self._batch_frame(site)
            sizes[frame.dim] = frame.size
        if any(log_prob.ndim < -d or log_prob.shape[d] != n for d, n in sizes.items()):
            raise ValueError(
                f"Site {site['name']!r} of the {program} has log-probabilities of shape "
                f"{tuple(log_prob.shape)}, without the particle or batch dimension: "
                "use a Pyro distribution there, or vectorize_particles=False."
            )

    def _scale(self, site: Site, subsamples: bool) -> Any:
        """The site's scale without the batch plate's; `poutine.scale` stays, as a temperature."""
        scale = site["scale"]
        frames = [f for f in site["cond_indep_stack"] if f.full_size not in (None, f.size)]
        for frame in frames:
            if frame.name == self.batch_plate:
                scale = scale * frame.size / frame.full_size
        plates = {frame.name for frame in frames} - {self.batch_plate}
        if is_one(scale) or not plates:
            return scale
        self._subsampled |= plates
        if not subsamples:
            raise ValueError(
                f"Site {site['name']!r} lies in the subsampled plate {quoted(plates)}, "
                "whose scale has no place in a squared log-ratio, nor in a weight: use the whole "
                "plate, or name it as batch_plate if its elements are independent, or take "
                "VarGrad with particles of the guide, whose gradient is right of mini-batches."
            )
        return scale

    # -- one run or many

    def _plan(self, programs: Programs) -> None:
        """Of a new pair: the dimension of particles, and whether one run can hold all of them."""
        self.vectorize_particles, learns = self._asked, torch.is_grad_enabled()
        with side_run(), torch.set_grad_enabled(learns):  # by which Deltas show parameters
            programs.require_jacobian()
        if self._asked is False:
            return
        with side_run():
            values = programs.draw()
            traces = programs.score(values)
            # a fault of the pair itself is reported here, and not taken for one of vectorising
            self._scored(programs, values, traces, own=programs.draws_from_guide)
            nesting = self.max_plate_nesting
            if math.isinf(nesting):
                sites = [site for trace in traces for site in sample_sites(trace).values()]
                stacks = [frame for site in sites for frame in site["cond_indep_stack"]]
                plates = [-frame.dim for frame in stacks if frame.vectorized]
                shapes = [len(getattr(site["fn"], "batch_shape", ())) for site in sites]
                nesting = max([0, *plates, *shapes])
            self._particle_dim = -1 - int(nesting)
            self._dims = {k: v.ndim for k, v in values.items() if isinstance(v, Tensor)}
            reason = self._vectorization_fault(programs) if self._asked is None else None
        self.vectorize_particles = reason is None
        if reason is not None:
            warnings.warn(
                f"{type(self).__name__} runs its particles in a loop, since model and guide do not "
                f"vectorise ({reason}): where values have a dimension of particles in front, write "
                f"(x * b).sum(-1) for x @ b, and no if; or {ALONE}, which says that a loop is "
                "meant.",
                stacklevel=2,
            )

    def _vectorization_fault(self, programs: Programs) -> str | None:
        """Why one run cannot hold all particles; None where two score as when run alone."""
        own, dim = programs.draws_from_guide, self._particle_dim
        try:
            together = self._together(programs)
            values = together.draw()
            total = self._scored(together, values, together.score(values), dim, own).total
            ends = [0, self.num_particles - 1]
            alone = []
            for k in ends:
                taken = {name: self._take(value, name, k) for name, value in values.items()}
                alone.append(self._scored(programs, taken, programs.score(taken), own=own).total)
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

    # -- elements of plates

    def _looked_for(
        self, programs: Programs, values: Values, particle_dim: int | None, due: bool
    ) -> frozenset[str]:
        """Names of plates whose elements act on each other, looked for where it is `due`."""
        if not due or self._looked == self._calls:
            return self._acting
        self._looked = self._calls
        with side_run():
            found = self._act_on_each_other(programs, values, particle_dim)
        if self.batch_plate in found or found & self._subsampled:
            wrong = found & (self._subsampled | {self.batch_plate})
            raise ValueError(
                f"Elements of the plate {quoted(wrong)} act on each other, so that they are no "
                "trajectories of their own, nor is a part of them enough: drop batch_plate, and "
                "take the whole plate."
            )
        if new := found - self._acting:
            warnings.warn(
                f"Elements of the plate {quoted(new)} act on each other: {type(self).__name__} "
                "scores each by the whole log-ratio, which is right and has more noise.",
                stacklevel=2,
            )
            self._acting |= new
        return self._acting

    def _act_on_each_other(
        self, programs: Programs, values: Values, particle_dim: int | None
    ) -> frozenset[str]:
        """By a random half of a plate's elements drawn anew: whether log-probabilities of the other
        half change, or of the guide's sites outside of the plate, on which all of it may depend.
        """

        def scored(values: Values) -> tuple[dict[str, Elements], dict[str, Elements], Any]:
            torch.manual_seed(0)  # of programs that are random otherwise
            traces = programs.score(values)
            p = self._elements(traces[0], "model", particle_dim, True)
            masks = model_masks(*traces)
            return p, self._elements(traces[1], "guide", particle_dim, True, masks), traces[1]

        seed = int(torch.randint(2**31, ())) + self._calls
        half, found = torch.Generator().manual_seed(seed), set()
        p, q, trace = scored(values)
        latents = latent_sites(trace)
        given = {k: v for k, v in values.items() if k not in latents}
        plates = {
            plate for k, site in latents.items() if not is_point(site) for plate in q[k].plates
        }
        particles = 1 if particle_dim is None else self.num_particles
        tries = range(-(-TRIES // particles)) if plates else ()
        for name, dim, i in [(*plate, i) for i in tries for plate in plates]:
            if name in found:
                continue
            inside = [k for k in latents if (name, dim) in q[k].plates]
            shape = [1] * max(-dim, -(particle_dim or 0))
            if particle_dim is not None:
                shape[particle_dim] = particles
            shape[dim] = q[inside[0]].score.shape[dim]
            chosen = torch.rand(shape, generator=half) < 0.5
            torch.manual_seed(seed + i)
            anew, changed = programs.redraw(given), dict(values)
            for k in inside:
                at = chosen.reshape([*shape, *[1] * latents[k]["fn"].event_dim])
                changed[k] = torch.where(at.to(values[k].device), anew[k], values[k])
            try:
                new_p, new_q, _ = scored(changed)
                pairs = [(q[k], new_q[k], True) for k in q] + [(p[k], new_p[k], False) for k in p]
            except Exception:  # whatever a program does with such values
                found.add(name)
                continue
            for old, new, of_guide in pairs:
                kept = new.score if of_guide else old.score
                if (name, dim) in old.plates:
                    kept = torch.where(chosen.to(old.score.device), old.score, new.score)
                if not torch.allclose(old.score, kept, rtol=1e-4, atol=1e-5, equal_nan=True):
                    found.add(name)
        return frozenset(found)


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
