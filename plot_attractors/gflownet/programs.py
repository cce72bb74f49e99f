"""A Pyro model and guide run on the same values, and their log-probabilities site by site."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from pyro import poutine
from pyro.distributions import Delta, MaskedDistribution, Unit
from pyro.distributions.util import scale_and_mask
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor

__all__ = ["Program", "Programs", "Values"]

Program = Callable[..., Any]
Values = dict[str, Tensor]
Site = Any  # Pyro's messages are loosely typed dictionaries


class FixedValues(Messenger):
    """Gives latent sites recorded values and, unlike Pyro's replay, leaves all else as it is.

    A Delta that gives next to the recorded value gives its own, since its density is 0 elsewhere.
    """

    def __init__(self, values: Values) -> None:
        super().__init__()
        self.values = values

    def _pyro_sample(self, msg: Site) -> None:
        if not msg["is_observed"] and msg["name"] in self.values:
            msg["value"] = self.values[msg["name"]]
            if is_point(msg) and _is_near(own := msg["fn"](), msg["value"]):
                msg["value"] = own
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
    """Sites that count in a log-probability: neither subsampling nor deterministic."""
    sites = {k: n for k, n in trace.nodes.items() if n["type"] == "sample"}
    sites = {k: site for k, site in sites.items() if not site_is_subsample(site)}
    return {k: site for k, site in sites.items() if not is_deterministic(site)}


def is_deterministic(site: Site) -> bool:
    """Whether a site is that of `pyro.deterministic`, or one that `poutine.reparam` replaced."""
    fn = site["fn"]
    replaced = isinstance(fn, MaskedDistribution) and fn._mask is False and is_point(site)
    return bool(site["infer"].get("_deterministic")) or replaced


def latent_sites(trace: Any) -> dict[str, Site]:
    """The `sample_sites` that are not observed."""
    return {name: site for name, site in sample_sites(trace).items() if not site["is_observed"]}


def site_log_prob(site: Site) -> Tensor:
    """Of each element, with the site's mask and without its scale."""
    log_prob: Tensor = site["fn"].log_prob(site["value"], *site["args"], **site["kwargs"])
    return log_prob if site["mask"] is None else scale_and_mask(log_prob, 1.0, site["mask"])


def log_prob_sum(trace: Any) -> Tensor:
    """log-probability of one run, nats."""
    sites = sample_sites(trace).values()
    each = [scale_and_mask(site_log_prob(site), site["scale"]).sum() for site in sites]
    return torch.stack(each).sum(0)


def quoted(names: Iterable[str]) -> str:
    """'a', 'b'."""
    return ", ".join(repr(name) for name in sorted(names))


def _base(site: Site) -> Any:
    """The distribution of a site, without what expands or masks it."""
    fn = site["fn"]
    while hasattr(fn, "base_dist"):
        fn = fn.base_dist
    return fn


def is_factor(site: Site) -> bool:
    """Whether a site is that of `pyro.factor`, of which nothing can be drawn."""
    return isinstance(_base(site), Unit)


def is_point(site: Site) -> bool:
    return isinstance(_base(site), Delta)


def _is_near(one: Tensor, other: Tensor) -> bool:
    """Whether two values differ by rounding only."""
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and torch.allclose(one, other, rtol=1e-4, atol=1e-6)


def _masks(site: Site) -> list[tuple[Any, int]]:
    """A site's masks, each with the number of dimensions of the events that it masks."""
    fn, masks = site["fn"], [(site["mask"], site["fn"].event_dim)]
    while True:
        if isinstance(fn, MaskedDistribution):
            masks.append((fn._mask, fn.event_dim))
        if not hasattr(fn, "base_dist"):
            return [one for one in masks if one[0] is not None]
        fn = fn.base_dist


def counted(site: Site) -> Tensor:
    """Which elements of a site's value are not masked, in its shape."""
    value = torch.as_tensor(site["value"])
    counts = torch.ones(value.shape, dtype=torch.bool, device=value.device)
    for mask, event_dim in _masks(site):
        mask = torch.as_tensor(mask, device=value.device)
        counts = counts & mask.reshape([*mask.shape, *[1] * event_dim])
    return counts


def is_one(scale: Any) -> bool:
    """Whether a scale changes nothing."""
    if isinstance(scale, float | int):  # faster
        return abs(scale - 1) < 1e-6
    return bool((torch.as_tensor(scale) - 1).abs().max() < 1e-6)


def _check_sites(model_trace: Any, guide_trace: Any, sampled: Values) -> None:
    in_model, in_guide = latent_sites(model_trace), latent_sites(guide_trace)
    points = {name for name, site in in_guide.items() if is_point(site)}
    moved = {name for name in points if _base(in_guide[name]).v.requires_grad}
    if moved := moved or (points if points == in_guide.keys() else set()):
        raise ValueError(
            f"The guide has a value of {quoted(moved)} that is no sample, or depends on parameters "
            "(a Delta, as in AutoDelta and AutoStructured), which no log-ratio of fixed values "
            "teaches: sample the site from a density, as AutoNormal and AutoMultivariateNormal do, "
            "or take Trace_ELBO."
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
    for name in in_guide.keys() & in_model.keys():
        sites = in_model[name], in_guide[name]
        if any(map(_masks, sites)) and not torch.equal(*map(counted, sites)):
            raise ValueError(
                f"Site {name!r} is not masked alike in model and guide, and what does not count in "
                "log p must not count in log q: mask it in both, as by poutine.mask."
            )
    extra = in_guide.keys() - in_model.keys()
    automatic = {f"{name}_{of}" for name in in_model for of in ("unconstrained", "aux")}
    automatic |= {name for name in extra if name.startswith("_") and name.endswith("_latent")}
    if not all(k in automatic and in_guide[k]["infer"].get("is_auxiliary") for k in extra):
        raise ValueError(
            f"The guide samples {quoted(extra)}, no latent site of the model, nor one of Pyro's "
            "automatic guides, whose others follow from it: log q is an integral over them then. "
            "Remove these sites from the guide."
        )


class Programs(NamedTuple):
    """Model, guide and the program that trajectories are drawn from, their arguments bound.

    `pair` are model and guide as they were given: a partial of a partial knows only the innermost.
    """

    model: Program
    guide: Program
    sampler: Program
    pair: tuple[Program, Program]
    draws_from_guide: bool

    @classmethod
    def bound(
        cls, model: Program, guide: Program, sampler: Program, args: Any, kwargs: Any
    ) -> Programs:
        if isinstance(poutine.unwrap(sampler), Messenger):
            raise ValueError(
                "A guide that is a GuideMessenger runs its model too: pass a callable or module."
            )
        p, q, b = (partial(program, *args, **kwargs) for program in (model, guide, sampler))
        return cls(p, q, b, (model, guide), sampler == guide)

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
        points = {k: v["value"] for k, v in latent_sites(guide_trace).items() if is_point(v)}
        model_trace = poutine.trace(FixedValues({**values, **points})(self.model)).get_trace()
        _check_sites(model_trace, guide_trace, values)
        return model_trace

    def inside(self, handler: Callable[[], Any]) -> Programs:
        """Each program inside a handler of its own, such as a plate of one name."""
        p, q, b = (handler()(program) for program in self[:3])
        return self._replace(model=p, guide=q, sampler=b)


def drawn(trace: Any) -> Values:
    """The values of a trace's sites that are not observed, off the graph."""
    sites = [site for site in trace.nodes.values() if site["type"] == "sample"]
    values = {site["name"]: site["value"] for site in sites if not site["is_observed"]}
    return {k: v.detach() if isinstance(v, Tensor) else v for k, v in values.items()}
