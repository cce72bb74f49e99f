"""Trajectory balance and VarGrad as Pyro losses: `SVI(model, guide, optim, TrajectoryBalance())`
trains any pair.
"""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pyro
import torch
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.infer import ELBO
from pyro.infer.util import is_validation_enabled
from pyro.nn import PyroModule
from pyro.poutine.messenger import Messenger
from pyro.poutine.runtime import effectful
from pyro.poutine.util import site_is_subsample
from pyro.util import check_model_guide_match, warn_if_nan
from torch import Tensor, nn

__all__ = ["TrajectoryBalance", "VarGrad"]

Program = Callable[..., Any]
Values = dict[str, Tensor]
Site = Any  # Pyro's messages are loosely typed dictionaries


class _FixedValues(Messenger):
    """Gives latent sites recorded values; unlike Pyro's replay, leaves everything else of the site
    as it is.
    """

    def __init__(self, values: Values) -> None:
        super().__init__()
        self.values = values

    def _pyro_sample(self, msg: Site) -> None:
        if not msg["is_observed"] and msg["name"] in self.values:
            msg["value"] = self.values[msg["name"]]
            msg["done"] = True


class _Unconstrained(Messenger):
    """Gives plain parameters the `unconstrained` reference that SVI reads and module-local mode
    leaves out.
    """

    def _pyro_post_param(self, msg: Site) -> None:
        value = msg["value"]
        if isinstance(value, Tensor) and not hasattr(value, "unconstrained"):
            value.unconstrained = weakref.ref(value)  # type: ignore[attr-defined]


@contextmanager
def _side_run() -> Iterator[None]:
    """A run that leaves no mark on gradients, outer handlers or the random stream (so that a
    resumed run agrees).
    """
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.no_grad(), poutine.block(), torch.random.fork_rng(devices=devices):
        yield


def _sample_sites(trace: Any) -> dict[str, Site]:
    """Sites that count in a log-probability: neither subsampling nor `pyro.deterministic`."""
    return {
        name: site
        for name, site in trace.nodes.items()
        if site["type"] == "sample"
        and not site_is_subsample(site)
        and not site["infer"].get("_deterministic")
    }


def _names(names: set[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


class _LogRatioLoss(ELBO):
    """What both losses share: off-graph samples, and log p and log q of each trajectory."""

    behaviour: Program | None

    def __init__(
        self,
        num_particles: int,
        max_plate_nesting: float,
        vectorize_particles: bool | None,
        batch_plate: str | None,
        behaviour: Program | None,
        loss: Literal["squared", "huber"],
        delta: float,
        retain_graph: bool | None,
    ) -> None:
        if loss not in ("squared", "huber"):
            raise ValueError(f"loss must be 'squared' or 'huber', not {loss!r}.")
        if not delta > 0:
            raise ValueError(
                f"delta, the width of the Huber loss in nats, must be positive, not {delta}."
            )
        ELBO.__init__(self, num_particles=num_particles, retain_graph=retain_graph)
        self.vectorize_particles: bool | None = False if num_particles == 1 else vectorize_particles
        # Pyro counts the particle plate in max_plate_nesting, left of the plates of model and
        # guide.
        self.max_plate_nesting: float = max_plate_nesting + 1
        self.batch_plate = batch_plate
        # Past nn.Module's registration: the behaviour policy is sampled from and never trained.
        object.__setattr__(self, "behaviour", behaviour)
        self.robust_delta = delta if loss == "huber" else None

    # -- the ELBO protocol

    def loss(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """An estimate of the loss, without gradients."""
        with torch.no_grad():
            return float(self.differentiable_loss(model, guide, *args, **kwargs))

    def differentiable_loss(
        self, model: Program, guide: Program, *args: Any, **kwargs: Any
    ) -> Tensor:
        """An estimate of the loss, a scalar tensor for autograd (samples are constants in it)."""
        sampler = self.behaviour if self.behaviour is not None else guide
        log_ratio = self._log_ratio(model, guide, sampler, args, kwargs)
        if bool(torch.isinf(log_ratio).any()):
            raise ValueError(
                "log p - log q is infinite at a sampled trajectory, and its gradient would spoil "
                "every parameter: "
                "give the model's factors a floor and keep samples inside the support of both "
                "programs."
            )
        loss = self._objective(log_ratio, args, kwargs)
        warn_if_nan(loss, "loss")
        return loss

    def loss_and_grads(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """Adds the gradient of the loss to every parameter met, and returns the loss."""
        with _Unconstrained():
            loss = self.differentiable_loss(model, guide, *args, **kwargs)
        if loss.requires_grad:
            loss.backward(retain_graph=self.retain_graph)
        return float(loss.detach())

    def log_weights(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """Importance log-weights log p(z, x) - log q(z), with z drawn from the guide (never from
        `behaviour`).

        Their mean is the ELBO, at most log Z = log p(x); `logsumexp(0) - log(num_particles)` is the
        tighter importance-weighted bound.

        Returns:
            (num_particles,), or (num_particles, batch) with a `batch_plate`; nats; without
            gradients.
        """
        with torch.no_grad():
            return self._log_ratio(model, guide, guide, args, kwargs)

    def _objective(
        self, log_ratio: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        raise NotImplementedError

    def _penalty(self, residual: Tensor) -> Tensor:
        """Elementwise r², or with Huber's loss r² for |r| <= delta and delta (2 |r| - delta)
        beyond.
        """
        if self.robust_delta is None:
            return residual.square()
        return 2 * nn.functional.huber_loss(
            residual, torch.zeros_like(residual), reduction="none", delta=self.robust_delta
        )

    # -- traces

    def _get_trace(
        self, model: Program, guide: Program, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[poutine.Trace, poutine.Trace]:
        return self._score(model, guide, self._draw(guide, args, kwargs), args, kwargs)

    @staticmethod
    def _draw(sampler: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Values:
        """One run of the sampler off the graph: the values of its latent sites and subsampled
        plates.
        """
        if isinstance(poutine.unwrap(sampler), Messenger):
            raise ValueError(
                "A guide that is a GuideMessenger runs its model too: pass a plain callable or "
                "module."
            )
        with torch.no_grad():
            trace: Any = poutine.trace(sampler).get_trace(*args, **kwargs)
        return {
            name: site["value"].detach() if isinstance(site["value"], Tensor) else site["value"]
            for name, site in trace.nodes.items()
            if site["type"] == "sample" and not site["is_observed"]
        }

    def _score(
        self,
        model: Program,
        guide: Program,
        values: Values,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[poutine.Trace, poutine.Trace]:
        """Traces of model and guide, each run for itself on the same fixed values."""
        guide_trace = poutine.trace(_FixedValues(values)(guide)).get_trace(*args, **kwargs)
        model_trace = poutine.trace(_FixedValues(values)(model)).get_trace(*args, **kwargs)
        self._check_sites(model_trace, guide_trace, values)
        if is_validation_enabled():
            check_model_guide_match(model_trace, guide_trace, self.max_plate_nesting)
        return model_trace, guide_trace

    @staticmethod
    def _check_sites(
        model_trace: poutine.Trace, guide_trace: poutine.Trace, values: Values
    ) -> None:
        in_model, in_guide = _sample_sites(model_trace), _sample_sites(guide_trace)
        model_latents = {name for name, site in in_model.items() if not site["is_observed"]}
        guide_latents = {name for name, site in in_guide.items() if not site["is_observed"]}
        enumerated = {name for name in guide_latents if in_guide[name]["infer"].get("enumerate")}
        if enumerated:
            raise ValueError(
                f"The guide asks to enumerate {_names(enumerated)}, and trajectory balance samples "
                f"every site: "
                "remove infer={'enumerate': ...}, which a discrete site does not need here."
            )
        if missing := guide_latents - values.keys():
            raise ValueError(
                f"The guide samples {_names(missing)} and the behaviour policy does not: "
                "the behaviour policy must sample every latent site of the guide."
            )
        if missing := model_latents - guide_latents:
            raise ValueError(
                f"The model samples {_names(missing)} and the guide does not: add these sites to "
                f"the guide, "
                "or observe them in the model."
            )
        auxiliary = {name for name in guide_latents if in_guide[name]["infer"].get("is_auxiliary")}
        if extra := guide_latents - model_latents - auxiliary:
            raise ValueError(
                f"The guide samples {_names(extra)}, no latent site of the model: remove these "
                f"sites from the guide, "
                "or mark them infer={'is_auxiliary': True}."
            )

    # -- log-probabilities

    def _log_ratio(
        self,
        model: Program,
        guide: Program,
        sampler: Program,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Tensor:
        """log p - log q, (particles,) or (particles, batch)."""
        self._plan(model, guide, sampler, args, kwargs)
        if self.vectorize_particles:
            return self._vectorized(model, guide, sampler, args, kwargs)[1]
        particles = []
        for _ in range(self.num_particles):
            traces = self._score(model, guide, self._draw(sampler, args, kwargs), args, kwargs)
            particles.append(self._difference(*traces))
        return torch.stack(particles)

    def _vectorized(
        self,
        model: Program,
        guide: Program,
        sampler: Program,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[Values, Tensor]:
        """All particles in one run, inside an outermost plate: their values and log p - log q."""
        dim = -int(self.max_plate_nesting)
        model, guide, sampler = (
            pyro.plate("num_particles_vectorized", self.num_particles, dim=dim)(program)
            for program in (model, guide, sampler)
        )
        values = self._draw(sampler, args, kwargs)
        return values, self._difference(
            *self._score(model, guide, values, args, kwargs), particle_dim=dim
        )

    def _difference(
        self,
        model_trace: poutine.Trace,
        guide_trace: poutine.Trace,
        particle_dim: int | None = None,
    ) -> Tensor:
        log_p = self._log_prob(model_trace, "model", particle_dim)
        return log_p - self._log_prob(guide_trace, "guide", particle_dim)

    def _log_prob(self, trace: poutine.Trace, program: str, particle_dim: int | None) -> Tensor:
        """Sum over the sites of a trace, for each particle (if vectorised) and each element of the
        batch plate.
        """
        total = torch.zeros(())
        for name, site in _sample_sites(trace).items():
            try:
                log_prob = site["fn"].log_prob(site["value"], *site["args"], **site["kwargs"])
            except ValueError as error:
                raise ValueError(
                    f"log_prob fails at site {name!r} of the {program}: {error}"
                ) from error
            log_prob = scale_and_mask(log_prob, self._scale(site), site["mask"])
            sizes: dict[int, int] = (
                {} if particle_dim is None else {particle_dim: self.num_particles}
            )
            if self.batch_plate is not None:
                frame = self._batch_frame(site)
                sizes[frame.dim] = frame.size
            if any(
                log_prob.ndim < -dim or log_prob.shape[dim] != size for dim, size in sizes.items()
            ):
                raise ValueError(
                    f"Site {name!r} of the {program} has log-probabilities of shape "
                    f"{tuple(log_prob.shape)}, without "
                    "the particle or batch dimension: use a Pyro distribution there, or "
                    "vectorize_particles=False."
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
            f"elements are "
            "trajectories of their own: move the site into the plate, or drop batch_plate."
        )

    def _scale(self, site: Site) -> Any:
        """The site's scale without that of the batch plate; `poutine.scale` stays, as a tempered
        density.
        """
        scale = site["scale"]
        if isinstance(scale, float | int) and scale == 1:
            return scale
        subsampled = [
            f for f in site["cond_indep_stack"] if f.full_size is not None and f.full_size != f.size
        ]
        for frame in subsampled:
            if frame.name == self.batch_plate:
                scale = scale * frame.size / frame.full_size
        if bool((torch.as_tensor(scale) - 1).abs().max() < 1e-6):
            return 1.0
        outside = {frame.name for frame in subsampled} - {self.batch_plate}
        if outside:
            raise ValueError(
                f"Site {site['name']!r} lies in the subsampled plate {_names(outside)}, whose "
                f"scale has no place in a "
                "squared log-ratio: use the whole plate, or name it as batch_plate if its elements "
                "are independent."
            )
        return scale

    # -- one run or many

    def _plan(
        self,
        model: Program,
        guide: Program,
        sampler: Program,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """On the first call, finds the dimension of the particle plate and whether one run can hold
        all particles.
        """
        if self.vectorize_particles is False or (
            self.vectorize_particles and math.isfinite(self.max_plate_nesting)
        ):
            return
        with _side_run():
            values = self._draw(sampler, args, kwargs)
            traces = self._score(model, guide, values, args, kwargs)
            self._difference(
                *traces
            )  # a fault of the pair itself is reported here, not taken for one of vectorising
            if math.isinf(self.max_plate_nesting):
                sites = [site for trace in traces for site in _sample_sites(trace).values()]
                frames = [
                    frame
                    for site in sites
                    for frame in site["cond_indep_stack"]
                    if frame.vectorized
                ]
                shapes = [getattr(site["fn"], "batch_shape", ()) for site in sites]
                nesting = max(
                    [0, *(-frame.dim for frame in frames), *(len(shape) for shape in shapes)]
                )
                self.max_plate_nesting = nesting + 1
            if self.vectorize_particles is None:
                self.vectorize_particles = self._vectorizes(
                    model, guide, sampler, values, args, kwargs
                )

    def _vectorizes(
        self,
        model: Program,
        guide: Program,
        sampler: Program,
        reference: Values,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> bool:
        """Whether particles of one vectorised run score as they do when each is run alone."""
        reason = "particles score differently when run alone"
        try:
            values, log_ratio = self._vectorized(model, guide, sampler, args, kwargs)
            for particle in (0, self.num_particles - 1):
                alone = {
                    name: self._take(value, particle, reference[name])
                    if isinstance(value, Tensor)
                    else value
                    for name, value in values.items()
                }
                expected = self._difference(*self._score(model, guide, alone, args, kwargs))
                if not torch.allclose(
                    log_ratio[particle], expected, rtol=1e-3, atol=1e-3, equal_nan=True
                ):
                    break
            else:
                return True
        except Exception as error:  # whatever a program does when its values gain a dimension
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
        warnings.warn(
            f"{type(self).__name__} runs its particles in a loop, since model and guide do not "
            f"vectorise ({reason}); "
            "vectorize_particles=False says that this is meant.",
            stacklevel=2,
        )
        return False

    def _take(self, value: Tensor, particle: int, like: Tensor) -> Tensor:
        """One particle of a site's value, in the shape that it has in a run of its own."""
        if value.shape == like.shape and value.ndim < self.max_plate_nesting:
            return value  # the indices of a subsampled plate, which all particles share
        if value.numel() != self.num_particles * like.numel():
            raise ValueError("a site has the wrong size")
        return value.reshape(self.num_particles, *like.shape)[particle]


class TrajectoryBalance(_LogRatioLoss, nn.Module):
    r"""Trajectory balance between a Pyro model and guide.

    .. math:: L = E_{z \sim b} [(\log Z + \log q(z) - \log p(z, x))^2], \quad b = q \text{ unless } behaviour

    Samples are constants, so the gradient is that of the squared log-ratio in the parameters of
    guide, model and log Z; sites may be discrete or without reparametrisation. At zero loss q is
    the posterior and Z the evidence. The loss holds log Z as a parameter of its own: SVI trains it
    with the rest, `loss(model, guide).parameters()` includes it, `state_dict` saves it, and `log_z`
    is its value. Source: Malkin et al. (2022), "Trajectory balance".

    Args:
        num_particles: trajectories per step.
        log_z: None to learn one number; a number (or a tensor of a number per batch element) if log
            Z is known; or a callable `log_z(*args, **kwargs)` with the arguments of model and
            guide, giving a scalar, or with a `batch_plate` a tensor (batch,). A module's parameters
            are trained too.
        log_z_init: first value of a learned log Z in nats; by default the mean log-weight of the
        first batch.
        log_z_scale: a learned log Z is this number times its parameter `log_z_over_scale`, so that
            under Adam it moves so many times faster than the rest: it can be hundreds of nats away,
            which single steps of a learning rate would take for ever to cross. Take 1 for plain
            gradient descent.
        batch_plate: name of a vectorised plate each element of which is a trajectory of its own,
            with its own log-ratio; the plate's subsampling scale is dropped, and the loss is the
            mean over its elements.
        behaviour: a program with the guide's sites (a tempered guide, say) to sample from instead;
        never trained.
        loss: "squared", or "huber", which is quadratic up to `delta` nats and linear beyond.
        vectorize_particles: True for one run of all particles, False for a loop; by default the
            first call tries the former against the latter, warns if they disagree, and then loops.
            One loss serves one pair.
        max_plate_nesting: number of plate dimensions of model and guide, if the first call is not
        to find out.

    Raises:
        ValueError: sites that model and guide do not share, an enumerated guide, a subsampled plate
            other than `batch_plate`, a log-ratio that is infinite, or a log Z of the wrong shape.
    """

    log_z_over_scale: nn.Parameter | None
    given_log_z: Any

    def __init__(
        self,
        num_particles: int = 1,
        *,
        log_z: float | Tensor | Callable[..., Tensor] | None = None,
        log_z_init: float | None = None,
        log_z_scale: float = 20.0,
        batch_plate: str | None = None,
        behaviour: Program | None = None,
        loss: Literal["squared", "huber"] = "squared",
        delta: float = 1.0,
        vectorize_particles: bool | None = None,
        max_plate_nesting: float = math.inf,
        retain_graph: bool | None = None,
    ) -> None:
        nn.Module.__init__(self)
        if num_particles < 1:
            raise ValueError(f"TrajectoryBalance needs at least one particle, not {num_particles}.")
        if log_z is None and batch_plate is not None:
            raise ValueError(
                f"Each element of plate {batch_plate!r} has a log Z of its own: pass log_z as a "
                f"callable "
                "log_z(*args) -> tensor (batch,) or as known values, or use VarGrad."
            )
        if not log_z_scale > 0:
            raise ValueError(f"log_z_scale must be positive, not {log_z_scale}.")
        if log_z is not None and log_z_init is not None:
            raise ValueError(
                "log_z_init is the start of a learned log Z: pass either log_z or log_z_init."
            )
        _LogRatioLoss.__init__(
            self,
            num_particles,
            max_plate_nesting,
            vectorize_particles,
            batch_plate,
            behaviour,
            loss,
            delta,
            retain_graph,
        )
        self._initialised = log_z is not None or log_z_init is not None
        self.log_z_scale = log_z_scale
        learned = (
            nn.Parameter(torch.tensor((log_z_init or 0.0) / log_z_scale)) if log_z is None else None
        )
        self.register_parameter("log_z_over_scale", learned)
        self.given_log_z = log_z

    @property
    def log_z(self) -> Any:
        """Log Z in nats: the learned number, as a tensor that autograd follows to its parameter, or
        what was given.
        """
        return (
            self.given_log_z
            if self.log_z_over_scale is None
            else self.log_z_scale * self.log_z_over_scale
        )

    def get_extra_state(self) -> dict[str, bool]:
        """Whether a learned log Z has had its first value, for `state_dict`."""
        return {"initialised": self._initialised}

    def set_extra_state(self, state: dict[str, bool]) -> None:
        """The inverse of `get_extra_state`."""
        self._initialised = state["initialised"]

    def _objective(
        self, log_ratio: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        if self.log_z_over_scale is not None and not self._initialised:
            with torch.no_grad():
                self.log_z_over_scale.fill_(log_ratio.mean() / self.log_z_scale)
            self._initialised = True
        if not isinstance(self.given_log_z, PyroModule):  # which announces its parameters itself
            self._announce_parameters()
        log_z = self.given_log_z(*args, **kwargs) if callable(self.given_log_z) else self.log_z
        shape = tuple(log_z.shape) if isinstance(log_z, Tensor) else ()
        if shape not in ((), tuple(log_ratio.shape[1:])):
            raise ValueError(
                f"log_z has shape {shape} where {tuple(log_ratio.shape[1:])} is wanted: a scalar, "
                f"or one value for "
                "each element of batch_plate."
            )
        return self._penalty(log_z - log_ratio).mean()

    def _announce_parameters(self) -> None:
        """Shows SVI the parameters of log Z, in Pyro's way: through the store, or not if parameters
        are module-local.

        A name taken in the store by another parameter is left to it, so two losses never share a
        log Z.
        """
        local = pyro.settings.get("module_local_params")
        store = pyro.get_param_store()
        for name, parameter in self.named_parameters():
            if local:
                announce = effectful(lambda *_, value=parameter, **__: value, type="param")
                announce(name, parameter, name=name)
                continue
            full_name, count = f"trajectory_balance.{name}", 0
            while full_name in store and store[full_name].unconstrained() is not parameter:  # type: ignore[attr-defined]
                count += 1
                full_name = f"trajectory_balance_{count}.{name}"
            pyro.param(full_name, parameter)


class VarGrad(_LogRatioLoss):
    r"""The log-variance loss: the variance over particles of log p(z, x) - log q(z), which needs no
    log Z.

    .. math:: L = \frac{1}{K - 1} \sum_k (r_k - \bar r)^2, \quad r_k = \log p(z_k, x) - \log q(z_k)

    With samples of the guide, half its gradient is that of KL(q || posterior) by the score function
    with a leave-one-out baseline. Source: Richter et al. (2020), "VarGrad: a low-variance gradient
    estimator".

    Args:
        num_particles: trajectories per step, at least 2.
        batch_plate, behaviour, loss, delta, vectorize_particles, max_plate_nesting: as in
            `TrajectoryBalance`; with a `batch_plate` the loss is the mean over its elements of
            their variances. Huber's loss is taken of r_k minus its mean.

    Raises:
        ValueError: fewer than 2 particles, and otherwise as `TrajectoryBalance`.
    """

    def __init__(
        self,
        num_particles: int = 2,
        *,
        batch_plate: str | None = None,
        behaviour: Program | None = None,
        loss: Literal["squared", "huber"] = "squared",
        delta: float = 1.0,
        vectorize_particles: bool | None = None,
        max_plate_nesting: float = math.inf,
        retain_graph: bool | None = None,
    ) -> None:
        if num_particles < 2:
            raise ValueError(
                f"VarGrad is a variance over particles and needs at least 2 of them, not "
                f"{num_particles}."
            )
        super().__init__(
            num_particles,
            max_plate_nesting,
            vectorize_particles,
            batch_plate,
            behaviour,
            loss,
            delta,
            retain_graph,
        )

    def _objective(
        self, log_ratio: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        particles = len(log_ratio)
        return self._penalty(log_ratio - log_ratio.mean(0)).mean() * (particles / (particles - 1))
