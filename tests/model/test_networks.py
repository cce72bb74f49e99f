"""The networks of Table 1: what each sees, its bounds, and orders of tokens."""

from __future__ import annotations

import pytest
import torch
from pyro.distributions import Normal

from plot_attractors.language import Language
from plot_attractors.model.networks import (
    Discretizer,
    Dynamics,
    ImageDecoder,
    InputDecoder,
    SentenceEncoder,
    bounded_step,
    input_decoder,
)

from ..attractors import B, D, T, tiny


def same(p: Normal, q: Normal) -> bool:
    return torch.allclose(p.loc, q.loc, atol=1e-6) and torch.allclose(p.scale, q.scale, atol=1e-6)


def states(n: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(n, B, D))


@pytest.mark.parametrize("sees", [(), ("time",), ("context",), ("time", "context")])
def test_forward_dynamics_see_what_they_are_told_to(sees: tuple[str, ...]) -> None:
    model = tiny({"dynamics.sees": sees})
    f = model.forward_dynamics
    assert model.input_dependent is ("context" in sees)
    z, a, b = states(3)
    assert same(f(z, 1.0, a), f(z, 2.0, a)) is ("time" not in sees)
    assert same(f(z, 1.0, a), f(z, 1.0, b)) is ("context" not in sees)
    assert (f.context_features is not None) == ("context" in sees)
    if "context" not in sees:
        assert same(f(z, 2.0, a), f(z, 2.0))


def test_backward_dynamics_correction_and_log_z_see_time_and_context() -> None:
    model = tiny(name="algorithms")
    z, a, b = states(3)
    f, g, log_z = model.backward_dynamics, model.flow_correction, model.log_partition
    assert not same(f(z, 1.0, a), f(z, 3.0, a))
    assert not same(f(z, 1.0, a), f(z, 1.0, b))
    for of in (lambda c: g(z, 1.0, c), lambda c: log_z(z, c)):
        assert not torch.allclose(of(a), of(b))
    t = torch.arange(T + 1.0)[:, None, None]
    every = g(z.expand(T + 1, B, D), t, a)
    assert torch.allclose(every[2], g(z, 2.0, a), atol=1e-6)
    assert (every[T] == 0).all()
    assert (every[:T] != 0).all()


def test_later_steps_than_those_that_are_learned_are_as_the_last_of_these() -> None:
    model = tiny({"dynamics.sees": ("time", "context")})
    z, c = states(2)
    for f, last in ((model.forward_dynamics, T - 1.0), (model.backward_dynamics, T + 1.0)):
        assert not same(f(z, last, c), f(z, last - 1, c))
        assert same(f(z, last, c), f(z, last + 1, c))
        assert same(f(z, last, c), f(z, 5.0 * T, c))


def test_untrained_backward_dynamics_run_forward_ones_backwards() -> None:
    forward = Dynamics(D, T, units=16)
    backward = Dynamics(D, T, context=True, time=True, units=16, reverse_of=forward)
    z, c = states(2)
    assert same(backward(z, 3.0, c), forward(z, 1.0))
    assert not {id(p) for p in backward.parameters()} & {id(p) for p in forward.parameters()}


def test_decoders_by_the_shape_of_inputs() -> None:
    assert isinstance(input_decoder(D, (8,)), InputDecoder)
    decoder = input_decoder(D, (3, 8, 8))
    assert isinstance(decoder, ImageDecoder)
    assert decoder(torch.zeros(2, D)).loc.max() < 0.1, "dark at first"


@pytest.mark.parametrize("axes", [True, False])
def test_tokens_add_up_along_one_axis_each_or_all(axes: bool) -> None:
    language = Language((1,) * 64, max_length=7)
    encoder = SentenceEncoder(language, 16, axes, norm=0.8)
    tokens = encoder(torch.eye(64)).loc.detach()
    assert ((tokens != 0).sum(-1) == (1 if axes else 16)).all()
    sd = float(tokens[tokens != 0].square().mean()) ** 0.5
    assert sd * 16**0.5 == pytest.approx(0.8, rel=0.3 if axes else 0.1)
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


def test_bounded_step_without_direction_stays_and_has_a_gradient() -> None:
    z, out = torch.randn(2, 3), torch.zeros(2, 7, requires_grad=True)
    kernel = bounded_step(z, out, 0.25, (0.001, 0.2))
    assert torch.equal(kernel.loc, z)
    kernel.log_prob(z + 0.1).sum().backward()
    assert out.grad is not None
    assert torch.isfinite(out.grad).all()
