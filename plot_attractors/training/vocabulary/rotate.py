"""Axes of the latent space: independent components of the encoder's states, and first meanings of
tokens along them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import Normal
from scipy.signal import find_peaks
from torch import Tensor, nn

from plot_attractors.model.attractor import AttractorModel, ImageDecoder
from plot_attractors.model.nn import MaskedLinear

__all__ = [
    "LEAST_INFORMATION",
    "axis_information",
    "check_clusters_named",
    "clusters",
    "densest",
    "groups_of_tokens",
    "independent_components",
    "restart_tokens",
    "settle_silence",
    "share_missed",
    "spread_tokens",
    "turn_axes",
    "used_axes",
]

GAUSSIAN = 0.374567  # E[log cosh ν] for ν ~ N(0, 1)
BEYOND = 1.5  # times the distance of clusters
APART = 3.0  # standard deviations of the encoder between what two tokens say
LEAST_INFORMATION = math.log(2)  # nats that the encoder tells along an axis in use


def axis_information(mean: Tensor, sd: Tensor) -> Tensor:
    """(d,) nats, ½ log(1 + Var[μ] / E[σ²]): what N(μ, σ²) of inputs, mean and sd (n, d), tells
    along each axis.
    """
    return 0.5 * (1 + mean.var(0) / sd.square().mean(0)).log()


def independent_components(x: Tensor, iterations: int = 200, starts: int = 16) -> Tensor:
    """(k, k) matrix U whose components U (x − E[x]) of x (n, k) have variance 1 and are as
    independent as can be.

    FastICA, all components at once, with contrast log cosh: a fixed point of W ←
    orthogonalised(E[g(Wy) yᵀ] −
    E[g′(Wy)] W) for whitened y, g = tanh, from random rotations. Of the fixed points that are
    found, the one with the greatest Σ (E[log cosh u] − E[log cosh ν])², ν ~ N(0, 1), over
    components u is taken: some mix what others tell apart. Components that are Gaussian keep an
    arbitrary rotation. Source: Hyvärinen (1999), "Fast and robust fixed-point algorithms for
    independent component analysis".
    """
    x = x - x.mean(0)
    _, scale, directions = torch.linalg.svd(x / len(x) ** 0.5, full_matrices=False)
    whiten = directions / scale[:, None]
    y = x @ whiten.T
    w = torch.linalg.qr(torch.randn(starts, x.shape[1], x.shape[1]).to(x)).Q
    for _ in range(iterations):
        g = (y @ w.mT).tanh()  # (starts, n, k)
        left, _, right = torch.linalg.svd(
            g.mT @ y / len(y) - (1 - g.square()).mean(-2)[..., None] * w
        )
        w = left @ right
    u = (y @ w.mT).abs()
    log_cosh = (u + nn.functional.softplus(-2 * u) - math.log(2)).mean(-2)
    return w[(log_cosh - GAUSSIAN).square().sum(-1).argmax()] @ whiten


@torch.no_grad()
def turn_axes(model: AttractorModel, x: Tensor) -> Tensor:
    """Makes the independent components of the states of inputs x (n, …) the axes of the latent
    space; (k,) those in use.

    The prior N(0, 1) of the VAE does not say how the latent space is turned, so that an axis mixes
    what varies independently; but P(z0 | ẑ_s) is independent along the axes, and a token should
    move one thing. The first layer that sees z and the last that says z0 are changed, so that means
    and decoded inputs stay what they are; standard deviations start at their averages along the new
    axes, and must be learned again.
    """
    q = model.encoder(x)
    used = used_axes(q)
    if not len(used):
        return used
    centre = torch.zeros_like(q.loc[0])
    centre[used] = q.loc[:, used].mean(0)
    turn = torch.eye(len(centre)).to(centre)
    turn[used[:, None], used] = independent_components(q.loc[:, used])
    back = torch.linalg.inv(turn)

    encoder: Any = model.encoder
    says = _layers(encoder.mean)[-1]
    says.weight.copy_(turn @ says.weight)
    says.bias.copy_(turn @ (says.bias - centre))
    for sees in (_layers(encoder.sd)[0], *_seeing(model.decoder)):
        sees.bias.add_(sees.weight @ centre)
        sees.weight.copy_(sees.weight @ back)
    spread = _layers(encoder.sd)[-1]
    sd = (q.scale.square().mean(0) @ turn.square().T).sqrt()
    spread.weight.zero_()
    spread.bias.copy_(_before_squashing(sd))
    return used


def _before_squashing(sd: Tensor) -> Tensor:
    """What a last layer says where σ = 0.01 + 0.99 sigmoid(·), of the encoder and of sentences, is
    to be sd.
    """
    return ((sd - 0.01) / 0.99).clamp(1e-3, 1 - 1e-3).logit()


def _layers(network: nn.Module) -> list[nn.Linear]:
    return [m for m in network.modules() if isinstance(m, nn.Linear)]


def _seeing(decoder: nn.Module) -> list[nn.Linear]:
    """The layers of a decoder that see z."""
    return (
        [decoder.generator.state, decoder.gain]
        if isinstance(decoder, ImageDecoder)
        else _layers(decoder)[:1]
    )


@torch.no_grad()
def spread_tokens(
    model: AttractorModel,
    x: Tensor,
    reach: float = 0.6,
    ratio: float = 0.6,
    pairs: bool = False,
    clusters_named: int = 0,
) -> None:
    """Starts every token along one of the axes that the encoder uses for inputs x (n, …), as many
    on each.

    Tokens of an exclusive group share an axis, so that sentences factor. With `token_axes` tokens
    stay on their axis. Those of an axis take turns to point up and down, `reach` standard
    deviations far at first and less by the factor `ratio` each time round; ẑ of the empty sentence
    is the mean state. Random directions instead mix what varies independently, and training does
    not undo it; far ones are soon out of reach of each other, so that some say coarse and some fine
    things; shares as the nats of an axis give position most of the tokens, and sentences then
    hardly differ by anything else.

    With `pairs`, for an encoder that stays as it is, tokens are dealt out two by two, up and down,
    from the axis that tells most nats to the one that tells least, and ẑ of the empty sentence is
    where states are densest along each axis (`densest`). As many words for *left* as for *right*
    make near places share their words, and what is commonest needs none. But where states fall into
    `clusters_named` separate `clusters` along an axis or more, each has a word, and ẑ of the empty
    sentence lies beyond them all, 1.5 times as far as they are apart in the mean, so that no two
    words add up to a third where they are as far apart as each other: if one of three were what
    goes without saying, its sentences would be nearer to those of the two others than these are to
    each other. An axis with fewer tokens than clusters, or with two of them within three standard
    deviations of the encoder, starts like others; so does every axis where sentences are ordered,
    or too short for a word along each, or tokens have no axes of their own (`token_axes`), since
    `settle_silence` does not come after them; with `clusters_named` 0 all do.

    Raises ValueError for `clusters_named` 1 or less but for 0.
    """
    check_clusters_named(clusters_named)
    q = model.encoder(x)
    used = used_axes(q)
    if not len(used):
        return
    encoder: Any = model.sentence_encoder
    layer = encoder.mean
    token = torch.arange(layer.in_features).to(used)
    if pairs:
        used = used[axis_information(q.loc, q.scale)[used].argsort(descending=True)]
    axis = used[groups_of_tokens(model).to(used) // (2 if pairs else 1) % len(used)]
    turn = (axis[:, None] == axis).tril(-1).sum(-1)  # tokens of the axis before this one
    size = reach * q.loc.std(0)[axis] * ratio ** (turn // 2) * (1 - 2 * (turn % 2))
    if isinstance(layer, MaskedLinear):
        layer.place(token, axis)
        encoder.sd.place(token, axis)
    layer.weight.zero_()
    layer.weight[axis, token] = size
    layer.bias.copy_(q.loc.mean(0))
    if pairs:
        layer.bias[used] = densest(q.loc[:, used])
        long_enough = len(used) <= model.language.longest and not model.language.ordered
        for a in (
            used.tolist()
            if clusters_named and long_enough and isinstance(layer, MaskedLinear)
            else ()
        ):
            peaks, tokens = clusters(q.loc[:, a]).to(layer.bias), token[axis == a]
            if (
                clusters_named <= len(peaks) <= len(tokens)
                and peaks.diff().min() >= APART * q.scale[:, a].mean()
            ):
                layer.bias[a] = peaks[0] - BEYOND * peaks.diff().mean()
                layer.weight[a, tokens[: len(peaks)]] = peaks - layer.bias[a]


def check_clusters_named(least: int) -> None:
    """Raises ValueError where so many clusters or more cannot have a word each."""
    if least < 0 or least == 1:
        raise ValueError(f"clusters_named must be 2 or more, or 0 for none, not {least}")


def densest(x: Tensor, width: float = 0.7, points: int = 101) -> Tensor:
    """(d,) where each column of x (n, d) is densest.

    Of points up to 2.5 standard deviations from the mean, the one with most of a Gaussian kernel of
    `width` standard deviations: wide enough to see the two humps of what is there or not, and not
    the steps of a grid.

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
    """(k,) where the separate clusters of x (n,) are densest, in order.

    Peaks of a Gaussian kernel density, of `width` standard deviations, within 3.5 of them from the
    mean, that have `least` of the highest one's density or more; towards any higher peak density
    falls to less than 1 / `deep` of theirs first.

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
def settle_silence(model: AttractorModel, q: Normal) -> None:
    """Moves ẑ of the empty sentence, along an axis where it lies beyond all of two clusters or
    more, by half of their mean distance at least, since each has a word (`spread_tokens`), to the
    middle of the widest gap between two of them; what the words say stays what it is.

    Beyond them it was out of their way while they learned. But sentences with no word along the
    axis, which are of no use, would stay where no state is, and a listener who hears part of a
    sentence would not know what to make of it. There σ is a quarter of the encoder's, of P(z0 | x)
    = q (n, d), or 0.011 if that is more, so that they stay of little use. Two words together lie
    between clusters then, too, and their σ is wide: they say *one or the other*. A word that lies
    among the clusters, or less than half of their mean distance outside, is said alone and keeps
    its place; others change what such a word says, and still do by as much.
    """
    encoder: Any = model.sentence_encoder
    if not isinstance(encoder.mean, MaskedLinear):
        return
    for a in used_axes(q).tolist():
        peaks, tokens = clusters(q.loc[:, a]), (encoder.mean.axes == a).nonzero()[:, 0]
        base, apart = encoder.mean.bias[a], peaks.diff()
        half = apart.mean() / 2
        if len(peaks) < 2 or bool(peaks[0] - half < base and base < peaks[-1] + half):
            continue
        gap = apart.argmax()
        said = base + encoder.mean.weight[a, tokens]
        alone = tokens[(peaks[0] - half < said) & (said < peaks[-1] + half)]
        middle, narrow = peaks[gap : gap + 2].mean(), _before_squashing(q.scale[:, a].mean() / 4)
        for layer, value in ((encoder.mean, middle), (encoder.sd, narrow)):
            layer.weight[a, alone] += layer.bias[a] - value
            layer.bias[a] = value


@torch.no_grad()
def share_missed(q: Normal, z_hat: Tensor) -> Tensor:
    """(d,) (E[(μ − ẑ_s)²] − E[σ²]) / Var[μ] of every axis that the encoder uses, not below 0: what
    it knows of inputs with P(z0 | x) = q = N(μ, σ²), (n, d), and their sentences, z_hat (n, d), do
    not tell; 0 along the others.
    """
    used, missed = used_axes(q), torch.zeros_like(q.loc[0])
    if not len(used):
        return missed
    left = (q.loc - z_hat).square().mean(0) - q.scale.square().mean(0)
    missed[used] = left[used].clamp(min=0) / q.loc[:, used].var(0)
    return missed


@torch.no_grad()
def restart_tokens(model: AttractorModel, q: Normal, s: Tensor, apart: float = APART) -> int:
    """Starts tokens that say nothing, or what another says, anew on the axis that sentences explain
    least; how many.

    A token of `token_axes` says nothing where it moves ẑ_s by less than the encoder's standard
    deviation, and what an earlier one says where the two differ by less than `apart` of them. An
    axis of three values needs two tokens, and what others it has shrink, or become synonyms that
    take turns at random. `share_missed` says what sentences s (n, width) leave unexplained of
    inputs with P(z0 | x) = q = N(μ, σ²), (n, d). A token that starts anew is as long as the root of
    E[(μ − ẑ_s)²]. One of several tokens of an exclusive group stays on their axis.
    """
    encoder: Any = model.sentence_encoder
    layer = encoder.mean
    z_hat = encoder(s).loc
    left = (q.loc - z_hat).square().mean(0)
    unexplained = share_missed(q, z_hat)
    if not bool(unexplained.any()):
        return 0
    axis = layer.axes
    token = torch.arange(len(axis)).to(axis)
    offset, sd = layer.weight[axis, token], q.scale.mean(0)[axis]
    near = (axis[:, None] == axis) & ((offset[:, None] - offset).abs() < apart * sd)
    restarted: list[int] = []
    for j in token.tolist():
        same = near[j, :j].nonzero()[:, 0].tolist()
        if offset[j].abs() < sd[j] or set(same) - set(restarted):
            restarted.append(j)
    group = groups_of_tokens(model)
    alone = (group.bincount()[group] == 1).tolist()
    for k, j in enumerate(restarted):
        to = int(unexplained.argmax() if alone[j] else axis[j])
        moved, where = torch.tensor([j]).to(axis), torch.tensor([to]).to(axis)
        layer.place(moved, where)
        encoder.sd.place(moved, where)
        layer.weight[to, j] = left[to].sqrt() * (-1) ** k
        unexplained[to] /= 4  # what a token says of it takes about one bit off what is left
    return len(restarted)


def groups_of_tokens(model: AttractorModel) -> Tensor:
    """(width,) the exclusive group that each feature of a sentence belongs to."""
    language = model.language
    return language.token_group[torch.arange(language.width) % language.tokens]


def used_axes(q: Normal) -> Tensor:
    """Numbers of the axes along which q (n, d) tells `LEAST_INFORMATION` or more."""
    return (axis_information(q.loc, q.scale) > LEAST_INFORMATION).nonzero()[:, 0]
