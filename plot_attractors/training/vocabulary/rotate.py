"""Rotates the latent axes to independent components of the encoder's states."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.networks import ImageDecoder

__all__ = [
    "axis_information",
    "independent_components",
    "inverse_sd",
    "rotate_axes",
    "used_axes",
]

GAUSSIAN = 0.374567  # E[log cosh ν] for ν ~ N(0, 1)
LEAST_INFORMATION = math.log(2)  # nats that the encoder tells along an axis in use


def axis_information(q: Normal) -> Tensor:
    """(d,) nats, ½ log(1 + Var[μ] / E[σ²]): what P(z0 | x) = N(μ, σ²) tells along an axis."""
    return 0.5 * (1 + q.loc.var(0) / q.scale.square().mean(0)).log()


def used_axes(q: Normal) -> Tensor:
    """(k,) the axes along which P(z0 | x) = q (n, d) tells log 2 nats or more."""
    return (axis_information(q) > LEAST_INFORMATION).nonzero()[:, 0]


def independent_components(x: Tensor, iterations: int = 200, starts: int = 16) -> Tensor:
    """(k, k) matrix U whose components U (x − E[x]) of x (n, k) have variance 1 and are as
    independent as can be: symmetric FastICA with contrast log cosh.

    A fixed point of W ← orthogonalised(E[g(Wy) yᵀ] − E[g′(Wy)] W), y whitened, g = tanh. Of those
    found from random rotations, the one with the greatest Σ_u (E[log cosh u] − E[log cosh ν])²,
    ν ~ N(0, 1), is taken. Source: Hyvärinen (1999), "Fast and robust fixed-point algorithms for
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
def rotate_axes(model: AttractorModel, x: Tensor) -> Tensor:
    """Makes the independent components of the states of inputs x (n, …) the latent axes; returns
    (k,) those in use.

    The prior N(0, 1) of the VAE leaves the rotation open, and an axis may mix what varies
    independently, while a token should move one thing. The first layers that see z and the last
    one before z0 are changed, so that means and decoded inputs stay the same. Standard deviations
    start at their averages along the new axes and are learned again.
    """
    q = model.encoder(x)
    used = used_axes(q)
    if not len(used):
        return used
    centre = torch.zeros_like(q.loc[0])
    centre[used] = q.loc[:, used].mean(0)
    rotation = torch.eye(len(centre)).to(centre)
    rotation[used[:, None], used] = independent_components(q.loc[:, used])
    back = torch.linalg.inv(rotation)

    encoder: Any = model.encoder
    last = _layers(encoder.mean)[-1]
    last.weight.copy_(rotation @ last.weight)
    last.bias.copy_(rotation @ (last.bias - centre))
    for first in (_layers(encoder.sd)[0], *_first_layers(model.decoder)):
        first.bias.add_(first.weight @ centre)
        first.weight.copy_(first.weight @ back)
    spread = _layers(encoder.sd)[-1]
    sd = (q.scale.square().mean(0) @ rotation.square().T).sqrt()
    spread.weight.zero_()
    spread.bias.copy_(inverse_sd(sd))
    return used


def inverse_sd(sd: Tensor) -> Tensor:
    """The output r of a last layer for which 0.01 + 0.99 sigmoid(r) = sd."""
    return ((sd - 0.01) / 0.99).clamp(1e-3, 1 - 1e-3).logit()


def _layers(network: nn.Module) -> list[nn.Linear]:
    return [m for m in network.modules() if isinstance(m, nn.Linear)]


def _first_layers(decoder: nn.Module) -> list[nn.Linear]:
    """The layers of a decoder that see z."""
    if isinstance(decoder, ImageDecoder):
        return [decoder.generator.state, decoder.gain]
    return _layers(decoder)[:1]
