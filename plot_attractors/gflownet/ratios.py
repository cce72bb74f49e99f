"""log p and log q of particles, site by site: what losses are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Elements", "Layout", "LogRatios", "Plates", "Values"]

Values = dict[str, Tensor]
Plates = frozenset[tuple[str, int]]
"""Vectorised plates by name and dimension."""


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


class Elements(NamedTuple):
    """Log-probabilities of a site's elements (K, …), and the same without the site's scale, whose
    gradient is the score; the plates that the site lies in.
    """

    value: Tensor
    score: Tensor
    plates: Plates

    def sum_to(self, plates: Plates) -> Elements:
        """Summed over all dimensions but those of particles and of given plates, which stay."""
        kept = {dim for _, dim in self.plates & plates}
        dims = [dim for dim in range(1 - self.value.ndim, 0) if dim not in kept]
        if not dims:
            return self
        value = self.value.sum(dims, keepdim=True)
        score = value if self.score is self.value else self.score.sum(dims, keepdim=True)
        return Elements(value, score, self.plates & plates)

    def padded(self, ndim: int) -> Elements:
        """With `ndim` dimensions, the new ones after that of particles."""
        n = ndim - self.value.ndim
        if not n:
            return self
        value = self.value.reshape(len(self.value), *[1] * n, *self.value.shape[1:])
        score = value if self.score is self.value else self.score.reshape(value.shape)
        return Elements(value, score, self.plates)


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
        elements: of the sites of model and guide, where particles are the guide's own draws.
        acting: names of the plates whose elements act on each other, looked for when called.
    """

    values: Values
    log_p: dict[str, Tensor]
    log_q: dict[str, Tensor]
    layout: Layout
    log_b: Tensor | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    elements: tuple[dict[str, Elements], dict[str, Elements]] | None = None
    acting: Callable[[], frozenset[str]] = field(default_factory=lambda: frozenset)

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
        value = self.values[name]
        if (dim := self._batch_dim(name)) is None:
            return flat.reshape(value.shape)
        first = int(self.layout.at_once)
        return flat.reshape(value.movedim(dim, first).shape).movedim(first, dim)

    def _batch_dim(self, name: str) -> int | None:
        dim = self.layout.batch_dim
        return None if dim is None else dim - self.layout.event_dims[name]

    # -- plates

    @property
    def in_plates(self) -> bool:
        """Whether the guide draws elements of plates, other than of the batch plate."""
        own = self.elements[1].values() if self.elements is not None else ()
        return any(self._batch_of(site.plates) != site.plates for site in own)

    def downstream(self, plates: Plates) -> Tensor:
        """(K, …) log p − log q of all that a site in these plates may act upon: the same elements
        of these plates, and all sites outside of them. Constants.

        Where the elements of a plate do not act on each other, the log-ratios of others are only
        noise in the score of one; where they do (`acting`), all of the plate counts.
        """
        plates = self._apart(plates)
        parts = [sums.sum_to(plates).value for sums in self._by_plates.values()]
        return torch.stack(torch.broadcast_tensors(*parts)).sum(0)

    def scored(self, weight: Callable[[Tensor], Tensor]) -> Tensor:
        """The mean over particles of the guide, and the batch plate, of Σ weight(downstream) log q
        over all its sites and their elements; weights are constants, and log q is without scale.

        Raises ValueError where particles are not the guide's own.
        """
        if self.elements is None:
            raise ValueError("only of the guide's own particles are other elements mere noise")
        every = {self._apart(site.plates) for site in self.elements[1].values()}
        weights = {plates: weight(self.downstream(plates)).detach() for plates in every}
        each = [
            (weights[plates] * site.sum_to(plates).score).sum()
            for site in self.elements[1].values()
            for plates in (self._apart(site.plates),)
        ]
        return torch.stack(each).sum() / self.total.numel()

    def _apart(self, plates: Plates) -> Plates:
        """Of these plates and the batch plate, those whose elements do not act on each other."""
        return frozenset(p for p in plates if p[0] not in self._acting) | self._batch

    @cached_property
    def _acting(self) -> frozenset[str]:
        return self.acting()

    @cached_property
    def _by_plates(self) -> dict[Plates, Elements]:
        """log p − log q of all sites, summed by the plates that they lie in."""
        sums: dict[Plates, Elements] = {}
        for sign, sites in zip((1, -1), self.elements or (), strict=False):
            for site in sites.values():
                value = sign * site.sum_to(site.plates).value.detach()
                if site.plates in sums:
                    value = value + sums[site.plates].value
                sums[site.plates] = Elements(value, value, site.plates)
        return sums

    @cached_property
    def _batch(self) -> Plates:
        assert self.elements is not None
        return self._batch_of(next(iter(self.elements[1].values())).plates)

    def _batch_of(self, plates: Plates) -> Plates:
        return frozenset(plate for plate in plates if plate[1] == self.layout.batch_dim)

    # -- particles that were run one by one

    @property
    def as_one_site(self) -> LogRatios:
        """All sites of the model as one, and all of the guide."""
        of_p, of_q = self.of_model, self.of_guide
        elements = self.elements
        if elements is not None:
            elements = tuple(  # type: ignore[assignment]
                {"": _joined([site.sum_to(self._batch) for site in sites.values()])}
                for sites in elements
            )
        return replace(self, values={}, log_p={"": of_p}, log_q={"": of_q}, elements=elements)

    @classmethod
    def stacked(cls, each: list[LogRatios]) -> LogRatios:
        """Of particles that were run one by one; as of one site where their sites differ."""
        first = each[0]
        sites = [(tuple(r.log_p), tuple(r.log_q)) for r in each]
        shapes = [{name: v.shape for name, v in r.values.items()} for r in each]
        if any(one != sites[0] for one in sites) or any(one != shapes[0] for one in shapes):
            return cls.stacked([r.as_one_site for r in each])

        def stack(field: str) -> Values:
            return {
                k: torch.stack([getattr(r, field)[k] for r in each]) for k in getattr(first, field)
            }

        log_b = None if first.log_b is None else torch.stack([r.log_b for r in each])  # type: ignore[misc]
        elements: Any = None
        if first.elements is not None:
            pairs = [r.elements for r in each if r.elements is not None]
            ndim = max(
                site.value.ndim for pair in pairs for sites in pair for site in sites.values()
            )
            elements = tuple(
                {k: _stacked([pair[i][k].padded(ndim) for pair in pairs]) for k in pairs[0][i]}
                for i in (0, 1)
            )
        return replace(
            first,
            values=stack("values"),
            log_p=stack("log_p"),
            log_q=stack("log_q"),
            log_b=log_b,
            elements=elements,
            layout=first.layout._replace(at_once=True),
        )


def _joined(sites: list[Elements]) -> Elements:
    """The sum of sites that lie in the same plates."""
    value, score = (
        torch.stack(torch.broadcast_tensors(*parts)).sum(0)
        for parts in ([site.value for site in sites], [site.score for site in sites])
    )
    return Elements(value, score, sites[0].plates)


def _stacked(particles: list[Elements]) -> Elements:
    value = torch.cat([site.value for site in particles])
    plain = all(site.score is site.value for site in particles)
    score = value if plain else torch.cat([site.score for site in particles])
    return Elements(value, score, particles[0].plates)
