"""A Pyro model and guide run on the same values, and their log-probabilities site by site."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import pyro
import torch
from pyro import poutine
from pyro.distributions import Delta, Unit
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import constraints

__all__ = ["LogRatios", "Program", "Values"]

Program = Callable[..., Any]
Values = dict[str, Tensor]
Site = Any  # Pyro's messages are loosely typed dictionaries


class Layout(NamedTuple):
    """How values are laid out: event dimensions of the guide's latent sites, which of them the
    model has and may be any real numbers, the batch plate's dimension, whether dimension 0 is that
    of particles, and numbers of dimensions in a run of one particle.
    """

    event_dims: dict[str, int]
    real: frozenset[str]
    batch_dim: int | None
    at_once: bool
    dims: dict[str, int]


@dataclass(frozen=True, eq=False)
class LogRatios:
    """log p(z, x) and log q(z) of particles, site by site, nats: what every loss is made of.

    Gradients reach model and guide through them; the values are constants.

    Attributes:
        values: latent sites, each (K, …) for K particles.
        log_p: of every site of the model, in its order, observed ones and factors too: (K,), or
            (K, batch) with a `batch_plate`.
        log_q: of every site of the guide, in its order.
        log_b: (K,) or (K, batch) of the program that was drawn from, without gradient; None unless
            the loss has `scores_behaviour = True`.
        args, kwargs: arguments of model and guide.
        layout: how values are laid out.
    """

    values: Values
    log_p: dict[str, Tensor]
    log_q: dict[str, Tensor]
    layout: Layout
    log_b: Tensor | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

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
    def by_site(self) -> Tensor:
        """(sites + 1, K, …) r_i, whose sum over i is `total`.

        r_i is log of the model's factors that are known once the guide's first i sites are drawn,
        and not before, minus log q of the i-th; r_0 is of factors that depend on no latent site. A
        factor of the model depends on the latent sites that precede it in the model's order.
        """
        position = {name: i for i, name in enumerate(self.log_q, 1)}
        first = next(iter(self.log_q.values()))
        rows = [torch.zeros_like(first), *(-log_q for log_q in self.log_q.values())]
        known = 0
        for name, log_p in self.log_p.items():
            known = max(known, position.get(name, 0))
            rows[known] = rows[known] + log_p
        return torch.stack(rows)

    @property
    def by_prefix(self) -> Tensor:
        """(sites + 1, K, …) Σ_{k ≤ i} r_k, of the guide's first i sites; the last is `total`."""
        return self.by_site.cumsum(0)

    def prefix(self, i: int) -> Values:
        """The values of the guide's first i sites: (K, …) with the dimensions of a single run."""
        names = [name for name in list(self.log_q)[:i] if name in self.values]
        return {name: self._alone(self.values[name], name) for name in names}

    def _alone(self, value: Tensor, name: str) -> Tensor:
        """Without dimensions of size 1 that keep the particles apart from the model's plates."""
        dims = self.layout.dims.get(name)
        if dims is None or value.ndim == dims + 1:
            return value
        return value.reshape(len(value), *value.shape[value.ndim - dims :])

    def aligned(self, weight: Tensor, name: str) -> Tensor:
        """`weight` (K,) or (K, batch), in the shape that broadcasts with `values[name]`."""
        shape = [1] * self.values[name].ndim
        if self.layout.at_once:
            shape[0] = len(weight)
        if (dim := self._batch_dim(name)) is not None:
            shape[dim] = weight.shape[-1]
        return weight.reshape(shape)

    def flat(self, value: Tensor, name: str) -> Tensor:
        """(K, n) or (K, batch, n) the n numbers of a site."""
        if (dim := self._batch_dim(name)) is not None:
            value = value.movedim(dim, int(self.layout.at_once))
        return value.reshape(*self.total.shape, -1)

    def unflat(self, flat: Tensor, name: str) -> Tensor:
        """The inverse of `flat`."""
        of = self.values[name]
        if (dim := self._batch_dim(name)) is None:
            return flat.reshape(of.shape)
        first = int(self.layout.at_once)
        return flat.reshape(of.movedim(dim, first).shape).movedim(first, dim)

    def _batch_dim(self, name: str) -> int | None:
        dim = self.layout.batch_dim
        return None if dim is None else dim - self.layout.event_dims[name]

    @classmethod
    def stacked(cls, each: list[LogRatios]) -> LogRatios:
        """Of particles that were run one by one; as of one site where their sites differ."""
        first = each[0]
        sites = [(tuple(r.log_p), tuple(r.log_q)) for r in each]
        shapes = [{name: v.shape for name, v in r.values.items()} for r in each]
        log_b = None if first.log_b is None else torch.stack([r.log_b for r in each])  # type: ignore[misc]
        if any(of != sites[0] for of in sites) or any(of != shapes[0] for of in shapes):
            of_p, of_q = (torch.stack(of) for of in zip(*[r.ends for r in each], strict=True))
            return replace(first, values={}, log_p={"": of_p}, log_q={"": of_q}, log_b=log_b)

        def stack(of: str) -> Values:
            return {k: torch.stack([getattr(r, of)[k] for r in each]) for k in getattr(first, of)}

        parts = {of: stack(of) for of in ("values", "log_p", "log_q")}
        return replace(first, **parts, log_b=log_b, layout=first.layout._replace(at_once=True))  # type: ignore[arg-type]

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """log p(z, x) and log q(z)."""
        return self.of_model, self.of_guide


class FixedValues(Messenger):
    """Gives latent sites recorded values and, unlike Pyro's replay, leaves all else as it is."""

    def __init__(self, values: Values) -> None:
        super().__init__()
        self.values = values

    def _pyro_sample(self, msg: Site) -> None:
        if not msg["is_observed"] and msg["name"] in self.values:
            msg["value"] = self.values[msg["name"]]
            msg["done"] = True


class DetachedValues(Messenger):
    """Samples are constants, for what follows in the program, too."""

    def _pyro_post_sample(self, msg: Site) -> None:
        if not msg["is_observed"] and isinstance(msg["value"], Tensor):
            msg["value"] = msg["value"].detach()


class Unconstrained(Messenger):
    """Gives plain parameters the `unconstrained` that SVI reads, even in module-local mode."""

    def _pyro_post_param(self, msg: Site) -> None:
        value = msg["value"]
        if isinstance(value, Tensor) and not hasattr(value, "unconstrained"):
            value.unconstrained = weakref.ref(value)  # type: ignore[attr-defined]


@contextmanager
def side_run() -> Iterator[None]:
    """Leaves no mark on gradients, outer handlers or the random stream: resumed runs agree."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.no_grad(), poutine.block(), torch.random.fork_rng(devices=devices):
        yield


def sample_sites(trace: Any) -> dict[str, Site]:
    """Sites that count in a log-probability: neither subsampling nor `pyro.deterministic`."""
    sites = {k: n for k, n in trace.nodes.items() if n["type"] == "sample"}
    sites = {k: site for k, site in sites.items() if not site_is_subsample(site)}
    return {k: site for k, site in sites.items() if not site["infer"].get("_deterministic")}


def latent_sites(trace: Any) -> dict[str, Site]:
    """The `sample_sites` that are not observed."""
    return {name: site for name, site in sample_sites(trace).items() if not site["is_observed"]}


def is_real(site: Site) -> bool:
    """Whether a value may be any real numbers; False of a distribution that does not say."""
    try:
        support = site["fn"].support
    except NotImplementedError:
        return False
    while isinstance(support, constraints.independent):
        support = support.base_constraint
    return support in (constraints.real, constraints.real_vector)


def quoted(names: Iterable[str]) -> str:
    """'a', 'b'."""
    return ", ".join(repr(name) for name in sorted(names))


def _base(site: Site) -> Any:
    """The distribution of a site, without what expands or masks it."""
    of = site["fn"]
    while hasattr(of, "base_dist"):
        of = of.base_dist
    return of


def is_factor(site: Site) -> bool:
    """Whether a site is that of `pyro.factor`, of which nothing can be drawn."""
    return isinstance(_base(site), Unit)


def observed_values(trace: Any) -> Values:
    """Of observed sites, in the shape of what they draw: `pyro.factor` draws nothing."""
    found = {}
    for name, site in sample_sites(trace).items():
        if not site["is_observed"] or is_factor(site):
            continue
        value = torch.as_tensor(site["value"])
        shape = torch.Size((*site["fn"].batch_shape, *site["fn"].event_shape))
        sizes = zip(reversed(value.shape), reversed(shape), strict=False)
        if value.ndim > len(shape) or any(size not in (1, full) for size, full in sizes):
            raise ValueError(
                f"Site {name!r} observes values of shape {tuple(value.shape)} and draws values of "
                f"shape {tuple(shape)}: put it into a plate, so that it draws what it observes."
            )
        found[name] = value.expand(shape)
    return found


def simulatable(trace: Any) -> Values:
    """The same of a model that can be simulated; a ValueError says why it cannot."""
    if factors := [k for k, site in sample_sites(trace).items() if is_factor(site)]:
        raise ValueError(
            f"The model has the factor {quoted(factors)}, so that a run of it draws no sample of "
            "its distribution: simulation needs a model of pyro.sample alone."
        )
    if not (observed := observed_values(trace)):
        raise ValueError(
            "The model observes nothing: call it with data, of which only the shapes matter, or "
            "wrap it by pyro.condition, so that it is known which sites to simulate."
        )
    return observed


def _is_point(site: Site) -> bool:
    return isinstance(_base(site), Delta)


def _depends_on_parameters(site: Site) -> bool:
    """Whether a Delta's value does, all values drawn before it being constants."""
    return _is_point(site) and bool(_base(site).v.requires_grad)


def _check_sites(model_trace: Any, guide_trace: Any, sampled: Values) -> None:
    in_model, in_guide = latent_sites(model_trace), latent_sites(guide_trace)
    if enumerated := {name for name, site in in_guide.items() if site["infer"].get("enumerate")}:
        raise ValueError(
            f"The guide asks to enumerate {quoted(enumerated)}, and these losses sample "
            "every site: remove infer={'enumerate': ...}, which a discrete site does not need here."
        )
    if in_guide and all(map(_is_point, in_guide.values())):
        raise ValueError(
            f"The guide has one value of {quoted(in_guide.keys())} and samples nothing, as an "
            "AutoDelta does: no log-ratio teaches it. Take a guide that samples, or Trace_ELBO "
            "for a point estimate."
        )
    if moved := {name for name, site in in_guide.items() if _depends_on_parameters(site)}:
        raise ValueError(
            f"The guide has a value of {quoted(moved)} that depends on parameters (a Delta, as in "
            "AutoDelta and AutoStructured), which no log-ratio of fixed values teaches: sample the "
            "site from a density, as AutoNormal and AutoMultivariateNormal do, or take Trace_ELBO."
        )
    if missing := in_guide.keys() - sampled.keys():
        raise ValueError(
            f"The guide samples {quoted(missing)} and the behaviour policy does not: "
            "the behaviour policy must sample every latent site of the guide."
        )
    if missing := in_model.keys() - in_guide.keys():
        raise ValueError(
            f"The model samples {quoted(missing)} and the guide does not: "
            "add these sites to the guide, or observe them in the model."
        )
    auxiliary = {name for name, site in in_guide.items() if site["infer"].get("is_auxiliary")}
    if extra := in_guide.keys() - in_model.keys() - auxiliary:
        raise ValueError(
            f"The guide samples {quoted(extra)}, no latent site of the model: remove these sites "
            "from the guide, or mark them infer={'is_auxiliary': True}."
        )


class Programs(NamedTuple):
    """Model, guide and the program that trajectories are drawn from, their arguments bound."""

    model: Program
    guide: Program
    sampler: Program

    @classmethod
    def bound(cls, programs: Any, args: Any, kwargs: Any) -> Programs:
        if isinstance(poutine.unwrap(programs[-1]), Messenger):
            raise ValueError(
                "A guide that is a GuideMessenger runs its model too: pass a callable or module."
            )
        return cls(*(partial(program, *args, **kwargs) for program in programs))

    def draw(self) -> Values:
        """One run of the sampler off the graph: values of its latent sites, subsampled plates."""
        with torch.no_grad():
            return drawn(poutine.trace(self.sampler).get_trace())

    def redraw(self, values: Values) -> Values:
        """As `draw`, of the guide, with the given values as they are."""
        with torch.no_grad():
            return drawn(poutine.trace(FixedValues(values)(self.guide)).get_trace())

    def score(self, values: Values) -> tuple[Any, Any]:
        """Traces of model and guide, each run for itself on the same fixed values."""
        guide_trace = poutine.trace(FixedValues(values)(self.guide)).get_trace()
        return self.beside(guide_trace, values), guide_trace

    def draw_and_score(self) -> tuple[Values, tuple[Any, Any]]:
        """As `draw` of the guide and `score`, in one run of the guide."""
        with DetachedValues():  # outside the trace, so that it records what is detached
            guide_trace = poutine.trace(self.guide).get_trace()
        values = drawn(guide_trace)
        return values, (self.beside(guide_trace, values), guide_trace)

    def beside(self, guide_trace: Any, values: Values) -> Any:
        """The model's trace on fixed values, its sites checked against the guide's."""
        model_trace = poutine.trace(FixedValues(values)(self.model)).get_trace()
        _check_sites(model_trace, guide_trace, values)
        return model_trace

    def on_one_subsample(self) -> Programs:
        """Each program on the elements of subsampled plates that one run of the sampler drew."""
        with torch.no_grad():
            trace: Any = poutine.trace(self.sampler).get_trace()
        sites = [site for site in trace.nodes.values() if site["type"] == "sample"]
        indices = {site["name"]: site["value"] for site in sites if site_is_subsample(site)}
        return Programs(*(FixedValues(indices)(program) for program in self))

    def inside(self, plate: Callable[[], pyro.plate]) -> Programs:
        """Each program inside a plate of its own, all of one name."""
        return Programs(*(plate()(program) for program in self))


def drawn(trace: Any) -> Values:
    """The values of a trace's sites that are not observed, off the graph."""
    sites = [site for site in trace.nodes.values() if site["type"] == "sample"]
    values = {site["name"]: site["value"] for site in sites if not site["is_observed"]}
    return {k: v.detach() if isinstance(v, Tensor) else v for k, v in values.items()}
