"""First embeddings of tokens along the latent axes, and new ones for tokens that add nothing."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import Normal
from scipy.signal import find_peaks
from torch import Tensor

from plot_attractors.language.factored import factors
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.training.vocabulary.rotate import axis_information, inverse_sd, used_axes

__all__ = [
    "clusters",
    "densest",
    "groups_of_tokens",
    "place_empty_sentence",
    "reset_tokens",
    "spread_pairs",
    "spread_tokens",
    "unexplained_variance",
]

BEYOND = 1.5  # mean distances of clusters between the empty sentence and the first of them
APART = 3.0  # standard deviations of the encoder between two tokens that tell different things
LEAST_CLUSTERS = 3  # along an axis, from which on each has a token


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
    needs no token. Where states fall into three `clusters` or more along an axis, each has a
    token, and ẑ of the empty sentence lies beyond them all, 1.5 times as far as they are apart in
    the mean: no two tokens then add up to a third, and no cluster's sentences are nearer to those
    of the others. That is so where the axis has tokens enough, clusters are three standard
    deviations of the encoder apart, and sentences are long enough for a token along every axis.
    `place_empty_sentence` comes after it.
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
        token = torch.arange(layer.in_features).to(used)
        layer.bias[used] = densest(q.loc[:, used])
        for a in used.tolist() if len(used) <= model.language.longest else ():
            peaks, tokens = clusters(q.loc[:, a]).to(layer.bias), token[axis == a]
            told_apart = LEAST_CLUSTERS <= len(peaks) <= len(tokens)
            if told_apart and peaks.diff().min() >= APART * q.scale[:, a].mean():
                layer.bias[a] = peaks[0] - BEYOND * peaks.diff().mean()
                layer.weight[a, tokens[: len(peaks)]] = peaks - layer.bias[a]


def _dealt(model: AttractorModel, q: Normal, used: Tensor, together: int) -> Tensor:
    """(width,) the axis of each token, so many exclusive groups after each other on every used one.

    Where so many tokens would share these axes that sentences did not factor, other axes are taken
    beside them, from the one that tells most nats.
    """
    group = groups_of_tokens(model).to(used) // together
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
    return mean + sd * grid[_kernel_density(z, grid, width).argmax(0)]


def _kernel_density(z: Tensor, grid: Tensor, width: float) -> Tensor:
    """(points, …) Σ_i exp(−½ ((g − z_i) / width)²) of z (n, …) at each point g of a grid."""
    return torch.stack([(-0.5 * ((point - z) / width).square()).exp().sum(0) for point in grid])


def clusters(x: Tensor, width: float = 0.15, deep: float = 5.0, least: float = 0.1) -> Tensor:
    """(k,) the peaks of a Gaussian kernel density of x (n,), in order.

    The kernel has `width` standard deviations. A peak has `least` of the highest one's density or
    more, and the density falls to 1 / `deep` of its own before it rises to a higher one.

    Example:
        >>> noise = 0.15 * torch.randn(900)
        >>> clusters(torch.arange(900) % 3 + 4 + noise).round()
        tensor([4., 5., 6.])
        >>> len(clusters(noise))
        1
    """
    z = ((x - x.mean()) / x.std()).double().cpu()
    grid = torch.linspace(-3.5, 3.5, 281).to(z)
    log_density = (_kernel_density(z, grid, width) + 1e-300).log().numpy()
    lowest = log_density.max() + math.log(least)
    peaks, _ = find_peaks(log_density, height=lowest, prominence=math.log(deep))
    return x.mean() + x.std() * grid[peaks].to(x)


@torch.no_grad()
def place_empty_sentence(model: AttractorModel, q: Normal) -> None:
    """Moves ẑ of the empty sentence into the widest gap between two clusters, along every axis
    where it lies beyond all of them since each has a token (`spread_pairs`).

    While tokens learn it is out of their way; later, sentences without a token along the axis
    would stay where no state is. There σ is a quarter of the encoder's of P(z0 | x) = q (n, d), at
    least 0.011, so that they are rarely sampled. A token that lies among the clusters, or less
    than half of their mean distance outside, keeps its place and σ; others keep their offset.
    """
    encoder: Any = model.sentence_encoder
    for a in used_axes(q).tolist():
        peaks, tokens = clusters(q.loc[:, a]), (encoder.mean.axes == a).nonzero()[:, 0]
        base, apart = encoder.mean.bias[a], peaks.diff()
        half = apart.mean() / 2
        if len(peaks) < 2 or bool(peaks[0] - half < base and base < peaks[-1] + half):
            continue
        gap = apart.argmax()
        place = base + encoder.mean.weight[a, tokens]
        kept = tokens[(peaks[0] - half < place) & (place < peaks[-1] + half)]
        middle, narrow = peaks[gap : gap + 2].mean(), inverse_sd(q.scale[:, a].mean() / 4)
        for layer, value in ((encoder.mean, middle), (encoder.sd, narrow)):
            layer.weight[a, kept] += layer.bias[a] - value
            layer.bias[a] = value


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
    group = groups_of_tokens(model)
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


def groups_of_tokens(model: AttractorModel) -> Tensor:
    """(width,) the exclusive group of each token."""
    return model.language.token_group
