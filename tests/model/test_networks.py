"""Networks of Table 1 and their layers: what each sees, its bounds, orders of tokens, bits."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pyro import poutine
from pyro.distributions import Normal
from torch import nn

from plot_attractors.language import Language
from plot_attractors.model.bits import number_inputs
from plot_attractors.model.memory import Memory
from plot_attractors.model.networks import (
    Discretizer,
    Dynamics,
    HopfieldDynamics,
    SentenceEncoder,
    bounded_step,
)
from plot_attractors.model.nn import FourierFeatures, ImageGenerator, MaskedLinear

from ..attractors import B, D, T, tiny
from ..small import as_built
from ..training.models import build_model


def same(p: Normal, q: Normal, atol: float = 1e-6) -> bool:
    return all(torch.allclose(a, b, atol=atol) for a, b in ((p.loc, q.loc), (p.scale, q.scale)))


def states(n: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(n, B, D))


@pytest.mark.parametrize("sees", [(), ("time",), ("context",), ("time", "context")])
def test_dynamics_see_what_they_are_told_to(sees: tuple[str, ...]) -> None:
    """Later times than the last are as it."""
    told = {"time": "time" in sees, "context": "context" in sees}
    model = tiny(name="algorithms")
    model.forward_dynamics = f = Dynamics(D, T, memory=1 + D, last=T - 1, units=16, **told)
    assert model.input_dependent is told["context"]
    z, a, b = states(3)
    z, faded = model.initial(z), model.at_rest(z)
    assert same(f(z, T - 2.0, a), f(z, T - 1.0, a)) is not told["time"]
    assert same(f(z, T - 1.0, a), f(z, 5.0 * T, a))
    assert same(f(z, 1.0, a), f(z, 1.0, b)) is not told["context"]
    assert not same(f(z, 1.0, a), f(faded, 1.0, a))


def test_backward_dynamics_correction_and_log_z_see_time_and_context() -> None:
    model = tiny(name="algorithms")
    z, a, b = states(3)
    f, g, log_z = model.backward_dynamics, model.flow_correction, model.log_partition
    assert (f.time, f.context, f.last) == (True, True, T + 1)
    for of in (lambda c: g(z, 1.0, c), lambda c: log_z(z, c)):
        assert not torch.allclose(of(a), of(b))
    t = torch.arange(T + 1.0)[:, None, None]
    every = g(z.expand(T + 1, B, D), t, a)
    assert torch.allclose(every[2], g(z, 2.0, a), atol=1e-6)
    assert (every[T] == 0).all()
    assert (every[:T] != 0).all()


def hopfield(amplitude: float = 2.0, noise: float = 1.0, **options: Any) -> HopfieldDynamics:
    """Their network has random biases and last weights."""
    f = HopfieldDynamics(D, Memory(D, amplitude, 0.05), **{"patterns": 12, "units": 16, **options})
    for p in f.net[-1].parameters():
        torch.nn.init.normal_(p, std=noise)
    return f


@pytest.mark.parametrize("amplitude", [0.0, 2.0])
@pytest.mark.parametrize("axes", [True, False])
def test_hopfield_dynamics_are_bounded_and_see_states_and_memory(
    axes: bool, amplitude: float
) -> None:
    z, c = torch.randn(4, 25, D + (1 + D if amplitude else 0)), torch.randn(25, D)
    f, other = (hopfield(amplitude, 3.0, axes=axes) for _ in range(2))
    to = f(z, 1.0, c)
    assert same(f(z[1], 3.0, -c), Normal(to.loc[1], to.scale[1]), 1e-4)
    assert 0.2 < (to.loc - z[..., :D]).norm(dim=-1).max() <= 0.25 + 1e-5
    one = hopfield(amplitude, 3.0, axes=axes, patterns=D if axes else 1)(z).scale
    assert 0.001 - 1e-6 <= one.min() < 0.02 < 0.05 < one.max() <= 0.2, "one pattern has no spread"
    moved = z + torch.nn.functional.pad(torch.zeros(D), (0, z.shape[-1] - D), value=0.3)
    assert same(f(moved), to) is not amplitude
    other.prepare(Normal(torch.randn(9, D), 1.0))
    f.load_state_dict(other.state_dict())
    assert torch.equal(f(z).loc, other(z).loc)
    f.prepare(Normal(5 + torch.randn(9, D), 1.0), far=1.0)
    assert 0.25 < (f(z, 1.0, c).loc - z[..., :D]).norm(dim=-1).max() <= 0.4 + 1e-5, (
        "farther, faster"
    )


@pytest.mark.parametrize(("axes", "n"), [(True, 12), (False, 20), (False, 50)])
def test_patterns_begin_at_embeddings_that_differ(axes: bool, n: int) -> None:
    f = hopfield(noise=0.02, axes=axes, patterns=n)
    z_hat = (torch.randn(25, D) * torch.tensor([0.2, 5.0, 1.0])).repeat(2, 1)
    f.prepare(Normal(z_hat, 2.0))
    assert f.scale == 2.0, "z_hat.std(0) is about (0.2, 5, 1)"
    for own, of in zip(f.pattern, z_hat.T[..., None] if axes else z_hat[None], strict=True):
        found = (own[:, None] == of[:25]).all(-1).long()
        assert (found.sum(1) == 1).all()
        assert found.sum(0).max() == -(-len(own) // 25), "as often as any other"
    f.prepare(Normal(z_hat, sd := 1 + torch.rand(25, D).repeat(2, 1)))
    for k, (own, key) in enumerate(zip(f.pattern, f.key, strict=True)):
        of, kept = (z_hat[:25, [k]], sd[:25, [k]]) if axes else (z_hat[:25], sd[:25])
        precision = kept[(own[:, None] == of).all(-1).long().argmax(1)] ** -2
        for part, raw in zip(key[:, :-8].chunk(2, -1), (precision, precision * own), strict=True):
            assert torch.corrcoef(torch.stack([part[:, 0], raw[:, 0]]))[0, 1] > 1 - 1e-4
            assert part.mean().abs() < 1e-5
            assert 0.2 < part.std(correction=0) <= 1
    f.prepare(Normal(torch.zeros(25, D), 2.0))
    assert f(torch.randn(9, 2 * D + 1)).loc.isfinite().all(), "all embeddings are one"


@pytest.mark.parametrize("axes", [True, False])
def test_hopfield_dynamics_may_be_the_step_to_the_moments_of_all_sentences(axes: bool) -> None:
    """z′ ~ N(ρ z + (1 − ρ) E[ẑ | z], (1 − ρ)² Var[ẑ | z] + s²) by P(s | z), here of patterns at all
    embeddings, or at all of each axis, and w ∝ P(s) N(z; ẑ_s, ε²).
    """
    language, epsilon, rho, own_sd = Language((1,) * 6, 0, length_cost=0.5), 0.4, 0.7, 0.07
    model = build_model(axes=axes, language=language, epsilon=epsilon).requires_grad_(False)
    f, every = hopfield(patterns=12 if axes else 64, axes=axes, max_step=9.0), model.sentences
    f.requires_grad_(False).scale.fill_(1.3)
    for k, pattern in enumerate(f.pattern):
        s = every[(every[:, torch.arange(6) % 3 != k] == 0).all(1)] if axes else every
        pattern.copy_(model.embed(s)[:, [k]] if axes else model.embed(s))
        f.bias[k] = model.reward.log_prior(s)
    low, high, own = torch.tensor([*f.sd_range, own_sd]).log()
    gamma, gain = math.log(0.5 * (1.3 / epsilon) ** 2), 1 + math.log((1 - rho) / rho)
    noise = float(torch.logit((own - low) / (high - low))) - 0.5
    f.net[-1].weight.zero_()
    *parts, query = f.net[-1].bias.split(f.sizes)
    for part, value in zip(parts, (gamma, 0.0, 0.0, gain, 0.0, noise, 0.3, -0.2), strict=True):
        part.fill_(value)
    own = f.key[..., :-8].unflatten(-1, (2, -1)).sum(-1) @ torch.tensor([0.3, -0.2])
    f.bias -= (own + f.key[..., -8:] @ query)[:, None]
    z = 0.6 * torch.randn(50, 2 * D + 1)
    p, z_hat, to = model.readout.log_prob(z).exp(), model.embeddings(), f(z)
    end = p @ z_hat
    sd = ((1 - rho) ** 2 * (p @ z_hat**2 - end**2) + own_sd**2).sqrt()
    assert torch.allclose(to.loc, rho * z[:, :D] + (1 - rho) * end, atol=1e-4)
    assert torch.allclose(to.scale, sd, atol=1e-4)
    assert p.max(1).values.median() < 0.97, "or the nearest pattern would do"


@pytest.mark.parametrize("axes", [True, False])
def test_tokens_add_up_along_one_axis_each_or_all(axes: bool) -> None:
    language = Language((1,) * 64, max_length=7)
    encoder = SentenceEncoder(language, 16, axes)
    tokens = encoder(torch.eye(64)).loc.detach()
    assert ((tokens != 0).sum(-1) == (1 if axes else 16)).all()
    sd = float(tokens[tokens != 0].square().mean()) ** 0.5
    assert sd * 16**0.5 == pytest.approx(2**0.5, rel=0.3 if axes else 0.1)
    s = torch.zeros(64)
    s[[3, 8, 40]] = 1
    assert torch.allclose(encoder(s).loc, tokens[[3, 8, 40]].sum(0), atol=1e-6)
    moved = encoder(s).scale != encoder(torch.zeros(64)).scale
    assert moved.sum() == (2 if axes else 16)  # 8 and 40 are along the same axis


@pytest.mark.parametrize("canonical", [True, False])
def test_scores_of_a_building_order(canonical: bool) -> None:
    """E[P_F / P_B] over orders drawn by the backward policy is P(s | z), summed over orders."""
    language, n = Language((2, 2, 2)), 20_000
    discretizer = Discretizer(language, D, context=True, canonical=canonical, units=16)
    s, (z, c) = language.sentences[-1], torch.randn(2, D)
    expected = discretizer(z, c).log_prob(s)
    with torch.no_grad():
        log_pf, log_pb = discretizer.score(s.expand(n, -1), z.expand(n, -1), c.expand(n, -1))
    ratio = (log_pf - log_pb - expected).exp()
    assert float(ratio.detach().mean()) == pytest.approx(1.0, abs=0.01)
    assert (float(ratio.detach().std()) > 0.01) is not canonical
    assert discretizer(z, -c).log_prob(s) != expected


def test_bounded_step_is_bounded() -> None:
    z, out = torch.randn(1000, 3), 30 * torch.randn(1000, 7)
    kernel = bounded_step(z, out, 0.25, (0.001, 0.2))
    size = (kernel.loc - z).norm(dim=-1)
    assert 0.2 < size.max() <= 0.25 + 1e-5
    assert size.min() < 0.05
    assert kernel.scale.min() >= 0.001
    assert 0.19 < kernel.scale.max() <= 0.2 + 1e-7
    along = torch.nn.functional.cosine_similarity(kernel.loc - z, out[:, :3], dim=-1)
    assert along[size > 0.01].min() > 0.999
    out = torch.zeros(2, 7, requires_grad=True)  # without a direction
    kernel = bounded_step(z[:2], out, 0.25, (0.001, 0.2))
    assert torch.equal(kernel.loc, z[:2])
    (gradient,) = torch.autograd.grad(kernel.log_prob(z[:2] + 0.1).sum(), out)
    assert gradient.isfinite().all()


def test_masked_layers_keep_to_their_axes() -> None:
    layer = MaskedLinear(4, 6)
    assert layer.axes.tolist() == [0, 1, 2, 3]
    assert layer.unused.tolist() == [4, 5]
    layer.place(torch.tensor([0, 3]), torch.tensor([5, 5]))
    assert layer.axes.tolist() == [5, 1, 2, 5]
    assert layer.unused.tolist() == [0, 3, 4]
    x = torch.eye(4)
    nn.init.ones_(layer.weight)
    assert torch.equal((layer(x) - layer.bias).argmax(-1), layer.axes)
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    assert torch.equal(layer.weight.grad != 0, layer.mask == 1)


def test_fourier_features_approximate_a_gaussian_kernel() -> None:
    """Mean of √2 cos(w·a + b) √2 cos(w·c + b) over w ~ N(0, σ²) and b is exp(−σ²‖a − c‖²/2)."""
    scale, n = 2.0, 100_000
    features = FourierFeatures(3, n, scale)
    z = torch.randn(6, 3) * 0.4
    f = features(z)
    assert torch.equal(f[:, :3], z)
    expected = torch.exp(-0.5 * scale**2 * torch.cdist(z, z).square())
    assert torch.allclose(f[:, 3:] @ f[:, 3:].T / n, expected, atol=5 / n**0.5)


def test_fourier_features_may_see_one_axis_each() -> None:
    """Every axis is seen by as many, and a shift along one changes no feature of another."""
    features = FourierFeatures(3, 12, 2.0, axes=True)
    assert (features.frequencies != 0).sum(0).tolist() == [1] * 12
    assert (features.frequencies != 0).sum(1).tolist() == [4] * 3
    z = torch.randn(5, 3)
    moved = features(z + torch.tensor([0.0, 0.3, 0.0])) != features(z)
    assert torch.equal(moved[:, 3:].any(0), features.frequencies[1] != 0)


@pytest.mark.parametrize("side", [8, 16, 64])
def test_images_grow_from_a_grid_that_every_state_is_broadcast_to(side: int) -> None:
    """Two places exchange when their coordinates do: nothing else tells them apart."""
    net = ImageGenerator(4, (3, side, side), units=8)
    z = torch.randn(2, 5, 4)
    before = net(z)
    assert before.shape == (2, 5, 3, side, side)
    assert torch.allclose(before[1, 2], net(z[1, 2][None])[0], atol=1e-5)
    net.grid = net.grid.transpose(0, 1)
    for part in net.growth:
        if isinstance(part, nn.ConvTranspose2d):
            part.weight.data = part.weight.data.transpose(2, 3)
    assert torch.allclose(net(z), before.transpose(-1, -2), atol=1e-5)


def test_what_is_missing_counts_in_no_likelihood_and_has_no_gradient() -> None:
    model, _ = as_built("hbv", settings={"depth": 3, "bits": 8, "units": 16})
    x = (torch.rand(4, 8) > 0.5).float()
    x[:, 2] = torch.nan
    with poutine.replay(trace=poutine.trace(model.vae_guide).get_trace(x)):
        trace = poutine.trace(model.vae_model).get_trace(x)
    trace.compute_log_prob()
    z0 = trace.nodes["z_0"]["value"]
    known = torch.arange(8) != 2
    logits = model.decoder.logits(z0)
    by_hand = -torch.nn.functional.binary_cross_entropy_with_logits(
        logits[:, known], x[:, known], reduction="none"
    )
    torch.testing.assert_close(trace.nodes["x"]["log_prob"], by_hand.sum(-1))
    trace.nodes["x"]["log_prob"].sum().backward()
    last = model.decoder.logits[-1].bias.grad
    assert (last != 0).tolist() == known.tolist()


def test_inputs_are_alike_where_the_same_is_missing() -> None:
    x = torch.tensor([[1.0, torch.nan], [1, 0], [1, torch.nan], [torch.nan, 1]])
    a, b, c, d = number_inputs(x).tolist()
    assert a == c
    assert len({a, b, d}) == 3
