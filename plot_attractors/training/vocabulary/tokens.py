"""First embeddings of tokens along the latent axes, and new ones for tokens that add nothing."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.language.factored import factors
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.training.vocabulary.rotate import axis_information, used_axes

__all__ = [
    "densest",
    "reset_tokens",
    "spread_pairs",
    "spread_tokens",
    "unexplained_variance",
]

APART = 3.0  # standard deviations of the encoder between two tokens that tell different things


def spread_tokens(model: AttractorModel, x: Tensor) -> None:
    """Starts the tokens along the axes that the encoder uses for inputs x (n, …), as many on each.

    Tokens of an axis alternate up and down, 0.6 standard deviations far at first and less by the
    factor 0.6 each time round; ẑ of the empty sentence is the mean state. Tokens of an exclusive
    group share an axis, so that sentences factor. Random directions instead mix what varies
    independently, and training does not undo it.
    """
    with torch.no_grad():
        q = model.encoder(x)
        if len(used := used_axes(q)):
            _spread(model, q, _dealt(model, q, used, 1), 0.6, 0.6)


def spread_pairs(model: AttractorModel, x: Tensor) -> None:
    """Starts the tokens once more, for an encoder that stays as it is: two by two, up and down,
    from the axis that tells most nats to the one that tells least, 0.87 standard deviations far
    at first, then half as far.

    ẑ of the empty sentence is where states are densest along each axis, so that what is commonest
    needs no token.
    """
    with torch.no_grad():
        q = model.encoder(x)
        used = used_axes(q)
        if not len(used):
            return
        used = used[axis_information(q)[used].argsort(descending=True)]
        axis = _dealt(model, q, used, 2)
        _spread(model, q, axis, 0.87, 0.5)
        layer: Any = model.sentence_encoder.mean
        layer.bias[used] = densest(q.loc[:, used])


def _dealt(model: AttractorModel, q: Normal, used: Tensor, together: int) -> Tensor:
    """(width,) the axis of each token, so many exclusive groups after each other on every used one.

    Where so many tokens would share these axes that sentences did not factor, other axes are taken
    beside them, from the one that tells most nats.
    """
    group = model.language.token_group.to(used) // together
    order = axis_information(q).argsort(descending=True)
    others = order[~torch.isin(order, used)]
    for more in range(len(others) + 1):
        axes = torch.cat([used, others[:more]])
        axis = axes[group % len(axes)]
        if factors(model.language, tuple(axis.tolist())) is not None:
            break
    return axis


def _spread(model: AttractorModel, q: Normal, axis: Tensor, reach: float, ratio: float) -> None:
    encoder: Any = model.sentence_encoder
    layer = encoder.mean
    token = torch.arange(layer.in_features).to(axis)
    rank = (axis[:, None] == axis).tril(-1).sum(-1)  # tokens of the axis before this one
    layer.place(token, axis)
    encoder.sd.place(token, axis)
    layer.weight.zero_()
    size = reach * q.loc.std(0)[axis] * ratio ** (rank // 2) * (1 - 2 * (rank % 2))
    layer.weight[axis, token] = size
    layer.bias.copy_(q.loc.mean(0))


def densest(x: Tensor, width: float = 0.7, points: int = 101) -> Tensor:
    """(d,) the mode of a Gaussian kernel density of each column of x (n, d).

    The kernel has `width` standard deviations, wide enough to see the two humps of what is there
    or not, and not the steps of a grid.

    Example:
        >>> x = torch.cat([torch.randn(600, 1) * 0.2, 1 + torch.randn(400, 1) * 0.2])
        >>> bool(densest(x).abs() < 0.2)
        True
    """
    mean, sd = x.mean(0), x.std(0)
    z = (x - mean) / sd
    grid = torch.linspace(-2.5, 2.5, points).to(x)
    density = [(-0.5 * ((point - z) / width).square()).exp().sum(0) for point in grid]
    return mean + sd * grid[torch.stack(density).argmax(0)]


@torch.no_grad()
def unexplained_variance(q: Normal, z_hat: Tensor) -> Tensor:
    """(d,) (E[(μ − ẑ_s)²] − E[σ²]) / Var[μ], at least 0: the share of the variance along each used
    axis that the sentences, at z_hat (n, d), of inputs with P(z0 | x) = q = N(μ, σ²) leave
    unexplained beyond the encoder's own noise; 0 along unused axes.
    """
    used, share = used_axes(q), torch.zeros_like(q.loc[0])
    if not len(used):
        return share
    left = (q.loc - z_hat).square().mean(0) - q.scale.square().mean(0)
    share[used] = left[used].clamp(min=0) / q.loc[:, used].var(0)
    return share


@torch.no_grad()
def reset_tokens(model: AttractorModel, q: Normal, s: Tensor) -> int:
    """Starts tokens anew that tell nothing, or what another tells; returns how many.

    A token tells nothing where it moves ẑ_s by less than the encoder's standard deviation, and
    what an earlier one tells where the two differ by less than three of them. It goes to the axis
    with the greatest `unexplained_variance` under sentences s (n, width) of inputs with
    P(z0 | x) = q, as far as the root of E[(μ − ẑ_s)²]; one of several tokens of an exclusive group,
    or one more than sentences could factor with, stays on its axis.
    """
    encoder: Any = model.sentence_encoder
    layer = encoder.mean
    z_hat = encoder(s).loc
    left = (q.loc - z_hat).square().mean(0)
    unexplained = unexplained_variance(q, z_hat)
    if not bool(unexplained.any()):
        return 0
    axis = layer.axes
    token = torch.arange(len(axis)).to(axis)
    offset, sd = layer.weight[axis, token], q.scale.mean(0)[axis]
    near = (axis[:, None] == axis) & ((offset[:, None] - offset).abs() < APART * sd)
    reset: list[int] = []
    for j in token.tolist():
        same = near[j, :j].nonzero()[:, 0].tolist()
        if offset[j].abs() < sd[j] or set(same) - set(reset):
            reset.append(j)
    group = model.language.token_group
    single = (group.bincount()[group] == 1).tolist()
    for k, j in enumerate(reset):
        moved, best = torch.tensor([j]).to(axis), unexplained.argmax()[None]
        for to in (best, axis[moved]) if single[j] else (axis[moved],):
            layer.place(moved, to)
            encoder.sd.place(moved, to)
            if model.posterior.factors() is not None:
                break
        layer.weight[to, j] = left[to].sqrt() * (-1) ** k
        unexplained[to] /= 4  # a token takes about one bit off what is unexplained
    return len(reset)
