"""log p − log q of trajectories of a guide or a behaviour policy: what the Pyro losses share."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple

import pyro
import torch
from pyro import poutine
from pyro.distributions import Delta
from pyro.distributions.util import scale_and_mask
from pyro.infer import ELBO
from pyro.infer.util import is_validation_enabled
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from pyro.util import check_model_guide_match, warn_if_nan
from torch import Tensor

from plot_attractors.gflownet.balance import robust_loss

__all__ = ["LogRatioLoss", "Program"]

Program = Callable[..., Any]
Values = dict[str, Tensor]
Site = Any  # Pyro's messages are loosely typed dictionaries


class _FixedValues(Messenger):
    """Gives latent sites recorded values and, unlike Pyro's replay, leaves all else as it is."""

    def __init__(self, values: Values) -> None:
        super().__init__()
        self.values = values

    def _pyro_sample(self, msg: Site) -> None:
        if not msg["is_observed"] and msg["name"] in self.values:
            msg["value"] = self.values[msg["name"]]
            msg["done"] = True


class _Unconstrained(Messenger):
    """Gives plain parameters the `unconstrained` that SVI reads, even in module-local mode."""

    def _pyro_post_param(self, msg: Site) -> None:
        value = msg["value"]
        if isinstance(value, Tensor) and not hasattr(value, "unconstrained"):
            value.unconstrained = weakref.ref(value)  # type: ignore[attr-defined]


@contextmanager
def _side_run() -> Iterator[None]:
    """Leaves no mark on gradients, outer handlers or the random stream: resumed runs agree."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.no_grad(), poutine.block(), torch.random.fork_rng(devices=devices):
        yield


def _sample_sites(trace: Any) -> dict[str, Site]:
    """Sites that count in a log-probability: neither subsampling nor `pyro.deterministic`."""
    sites = {k: n for k, n in trace.nodes.items() if n["type"] == "sample"}
    sites = {k: site for k, site in sites.items() if not site_is_subsample(site)}
    return {k: site for k, site in sites.items() if not site["infer"].get("_deterministic")}


def _latents(trace: Any) -> dict[str, Site]:
    return {name: site for name, site in _sample_sites(trace).items() if not site["is_observed"]}


def _names(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


def _is_point(site: Site) -> bool:
    of = site["fn"]
    while hasattr(of, "base_dist"):
        of = of.base_dist
    return isinstance(of, Delta)


def _check_sites(model_trace: Any, guide_trace: Any, sampled: Values) -> None:
    in_model, in_guide = _latents(model_trace), _latents(guide_trace)
    if enumerated := {name for name, site in in_guide.items() if site["infer"].get("enumerate")}:
        raise ValueError(
            f"The guide asks to enumerate {_names(enumerated)}, and trajectory balance samples "
            "every site: remove infer={'enumerate': ...}, which a discrete site does not need here."
        )
    if in_guide and all(map(_is_point, in_guide.values())):
        raise ValueError(
            f"The guide has one value of {_names(in_guide.keys())} and samples nothing, as an "
            "AutoDelta does: no log-ratio teaches it. Take a guide that samples, or Trace_ELBO "
            "for a point estimate."
        )
    if missing := in_guide.keys() - sampled.keys():
        raise ValueError(
            f"The guide samples {_names(missing)} and the behaviour policy does not: "
            "the behaviour policy must sample every latent site of the guide."
        )
    if missing := in_model.keys() - in_guide.keys():
        raise ValueError(
            f"The model samples {_names(missing)} and the guide does not: "
            "add these sites to the guide, or observe them in the model."
        )
    auxiliary = {name for name, site in in_guide.items() if site["infer"].get("is_auxiliary")}
    if extra := in_guide.keys() - in_model.keys() - auxiliary:
        raise ValueError(
            f"The guide samples {_names(extra)}, no latent site of the model: remove these sites "
            "from the guide, or mark them infer={'is_auxiliary': True}."
        )


class _Programs(NamedTuple):
    """Model, guide and the program that trajectories are drawn from, their arguments bound."""

    model: Program
    guide: Program
    sampler: Program

    @classmethod
    def bound(cls, programs: Any, args: Any, kwargs: Any) -> _Programs:
        if isinstance(poutine.unwrap(programs[-1]), Messenger):
            raise ValueError(
                "A guide that is a GuideMessenger runs its model too: pass a callable or module."
            )
        return cls(*(partial(program, *args, **kwargs) for program in programs))

    def draw(self) -> Values:
        """One run of the sampler off the graph: values of its latent sites, subsampled plates."""
        with torch.no_grad():
            trace: Any = poutine.trace(self.sampler).get_trace()
        sites = [site for site in trace.nodes.values() if site["type"] == "sample"]
        values = {site["name"]: site["value"] for site in sites if not site["is_observed"]}
        return {k: v.detach() if isinstance(v, Tensor) else v for k, v in values.items()}

    def score(self, values: Values) -> tuple[Any, Any]:
        """Traces of model and guide, each run for itself on the same fixed values."""
        guide_trace = poutine.trace(_FixedValues(values)(self.guide)).get_trace()
        model_trace = poutine.trace(_FixedValues(values)(self.model)).get_trace()
        _check_sites(model_trace, guide_trace, values)
        return model_trace, guide_trace

    def inside(self, plate: Callable[[], pyro.plate]) -> _Programs:
        """Each program inside a plate of its own, all of one name."""
        return _Programs(*(plate()(program) for program in self))


class LogRatioLoss(ELBO):
    """A Pyro loss of r = log p(z, x) − log q(z), with samples z that are constants.

    Args:
        num_particles: trajectories per step.
        batch_plate: name of a vectorised plate each element of which is a trajectory of its own,
            with its own log-ratio; the plate's subsampling scale is dropped, and the loss is the
            mean over its elements.
        behaviour: a program with the guide's sites (a guide of higher temperature, say) to sample
            from instead; never trained.
        loss: "squared", or "huber", which is quadratic up to `delta` nats and linear beyond.
        vectorize_particles: True for one run of all particles, False for a loop; by default the
            first call tries the former against the latter, warns if they disagree, and then loops.
            One loss serves one pair of programs.

    Raises:
        ValueError: sites that model and guide do not share, an enumerated guide, a subsampled plate
            other than `batch_plate`, or an infinite log-ratio.
    """

    behaviour: Program | None

    def __init__(
        self,
        num_particles: int,
        *,
        batch_plate: str | None = None,
        behaviour: Program | None = None,
        loss: Literal["squared", "huber"] = "squared",
        delta: float = 1.0,
        vectorize_particles: bool | None = None,
    ) -> None:
        if loss not in ("squared", "huber"):
            raise ValueError(f"loss must be 'squared' or 'huber', not {loss!r}.")
        if not delta > 0:
            raise ValueError(
                f"delta, the width of the Huber loss in nats, must be positive, not {delta}."
            )
        super().__init__(num_particles=num_particles)
        self.vectorize_particles: bool | None = False if num_particles == 1 else vectorize_particles
        self.max_plate_nesting: float = math.inf  # the particle plate counted, as in Pyro
        self.batch_plate = batch_plate
        # Past nn.Module's registration: the behaviour policy is sampled from and never trained.
        object.__setattr__(self, "behaviour", behaviour)
        self._penalty = partial(robust_loss, kind=loss, delta=delta)

    @torch.no_grad()
    def loss(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """An estimate of the loss, without gradients."""
        return float(self.differentiable_loss(model, guide, *args, **kwargs))

    def differentiable_loss(
        self, model: Program, guide: Program, *args: Any, **kwargs: Any
    ) -> Tensor:
        """An estimate of the loss, a scalar tensor for autograd (samples are constants in it)."""
        sampler = self.behaviour if self.behaviour is not None else guide
        log_ratio = self._log_ratio(_Programs.bound((model, guide, sampler), args, kwargs))
        if bool(torch.isinf(log_ratio).any()):
            raise ValueError(
                "log p - log q is infinite at a sampled trajectory, and its gradient would spoil "
                "every parameter: give the model's factors a floor and keep samples inside the "
                "support of both programs."
            )
        loss = self._objective(log_ratio, args, kwargs)
        warn_if_nan(loss, "loss")
        return loss

    def loss_and_grads(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """Adds the gradient of the loss to every parameter used, and returns the loss."""
        with _Unconstrained():
            loss = self.differentiable_loss(model, guide, *args, **kwargs)
        if loss.requires_grad:
            loss.backward()
        return float(loss.detach())

    def log_weights(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """Importance log-weights log p(z, x) − log q(z), z drawn from the guide, not `behaviour`.

        Their mean is the ELBO, at most log Z = log p(x); `logsumexp(0) - log(num_particles)` is the
        tighter importance-weighted bound.

        Returns:
            (num_particles,), or (num_particles, batch) with a `batch_plate`; nats; no gradients.
        """
        with torch.no_grad():
            return self._log_ratio(_Programs.bound((model, guide, guide), args, kwargs))

    def _objective(self, log_ratio: Tensor, args: Any, kwargs: Any) -> Tensor:
        raise NotImplementedError

    def _get_trace(self, model: Program, guide: Program, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Abstract in Pyro, and not called here."""
        programs = _Programs.bound((model, guide, guide), args, kwargs)
        return programs.score(programs.draw())

    # -- log-probabilities

    def _log_ratio(self, programs: _Programs) -> Tensor:
        """log p − log q, (particles,) or (particles, batch)."""
        if self.vectorize_particles is not False and math.isinf(self.max_plate_nesting):
            self._plan(programs)
        if self.vectorize_particles:
            return self._vectorized(programs)[1]
        each = [programs.score(programs.draw()) for _ in range(self.num_particles)]
        return torch.stack([self._difference(traces) for traces in each])

    def _vectorized(self, programs: _Programs) -> tuple[Values, Tensor]:
        """All particles in one run, inside an outermost plate: their values and log p − log q."""
        dim = -int(self.max_plate_nesting)
        plate = partial(pyro.plate, "num_particles_vectorized", self.num_particles, dim=dim)
        programs = programs.inside(plate)
        values = programs.draw()
        return values, self._difference(programs.score(values), dim)

    def _difference(self, traces: tuple[Any, Any], particle_dim: int | None = None) -> Tensor:
        model_trace, guide_trace = traces
        if is_validation_enabled():
            check_model_guide_match(model_trace, guide_trace, self.max_plate_nesting)
        log_p = self._log_prob(model_trace, "model", particle_dim)
        return log_p - self._log_prob(guide_trace, "guide", particle_dim)

    def _log_prob(self, trace: Any, program: str, particle_dim: int | None) -> Tensor:
        """Sum over the sites, for each particle (if vectorised) and element of the batch plate."""
        total = torch.zeros(())
        for name, site in _sample_sites(trace).items():
            try:
                log_prob = site["fn"].log_prob(site["value"], *site["args"], **site["kwargs"])
            except ValueError as error:
                message = f"log_prob fails at site {name!r} of the {program}: {error}"
                raise ValueError(message) from error
            log_prob = scale_and_mask(log_prob, self._scale(site), site["mask"])
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
            total = total + log_prob
        return total

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
        if bool((torch.as_tensor(scale) - 1).abs().max() < 1e-6):
            return 1.0
        if outside := {frame.name for frame in subsampled} - {self.batch_plate}:
            raise ValueError(
                f"Site {site['name']!r} lies in the subsampled plate {_names(outside)}, whose "
                "scale has no place in a squared log-ratio: use the whole plate, or name it as "
                "batch_plate if its elements are independent."
            )
        return scale

    # -- one run or many

    def _plan(self, programs: _Programs) -> None:
        """Finds the dimension of the particle plate, and whether one run can hold all particles."""
        with _side_run():
            values = programs.draw()
            traces = programs.score(values)
            # a fault of the pair itself is reported here, and not taken for one of vectorising
            self._difference(traces)
            sites = [site for trace in traces for site in _sample_sites(trace).values()]
            stacks = [frame for site in sites for frame in site["cond_indep_stack"]]
            plates = [-frame.dim for frame in stacks if frame.vectorized]
            shapes = [len(getattr(site["fn"], "batch_shape", ())) for site in sites]
            self.max_plate_nesting = max([0, *plates, *shapes]) + 1
            if self.vectorize_particles is None:
                self.vectorize_particles = self._vectorizes(programs, values)

    def _vectorizes(self, programs: _Programs, reference: Values) -> bool:
        """Whether particles of one vectorised run score as they do when each is run alone."""
        reason = "particles score differently when run alone"
        try:
            values, log_ratio = self._vectorized(programs)
            ends = [0, self.num_particles - 1]
            alone = [programs.score(self._take(values, k, reference)) for k in ends]
            expected = torch.stack([self._difference(traces) for traces in alone])
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
