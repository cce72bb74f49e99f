"""The attractor model: its Pyro programs, its reward and posterior, and the property that each
option claims.
"""

from __future__ import annotations

import math
from typing import Any

import pyro
import pytest
import torch
from pyro import poutine
from pyro.distributions import Normal
from pyro.infer import Importance, Predictive, TraceMeanField_ELBO
from torch import Tensor
from torch.distributions import kl_divergence

from plot_attractors.gflownet import TrajectoryBalance
from plot_attractors.language import Language
from plot_attractors.language.policy import SentencePolicy, TabulatedSentences
from plot_attractors.model.attractor import Dynamics, gaussian_kl
from plot_attractors.model.networks import BackwardTokenPolicy
from plot_attractors.model.reward import pairwise_kl
from plot_attractors.runs import registry

BITS, D, T, B = 8, 3, 4, 5

OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "z0 sampled": {"z0": "sample"},
    "x as context": {"context": "x"},
    "learned first backward step": {"first_backward_step": "learned"},
    "learned first backward step, x as context": {"first_backward_step": "learned", "context": "x"},
    "decodability as a posterior": {"decodability": "posterior"},
    "decodability as a density": {"decodability": "density"},
    "clamped reward": {"reward_floor": -1.0},
    "tempered reward": {"reward_exponent": 0.3, "length_cost": 0.7},
    "forward dynamics with time": {"forward_sees": ("time",)},
    "forward dynamics with context": {"forward_sees": ("context",)},
    "forward dynamics with both, z0 sampled": {"forward_sees": ("time", "context"), "z0": "sample"},
    "forward dynamics with context x": {"forward_sees": ("context",), "context": "x"},
    "no start vector": {"start": False},
    "no Fourier features": {"fourier_features": 0},
    "any token order": {"canonical": False},
    "ordered sequences": {"ordered": True},
    "ordered, learned discretizer": {"ordered": True, "sentence_readout": "discretizer"},
    "learned discretizer": {"sentence_readout": "discretizer"},
    "learned discretizer, any token order": {"sentence_readout": "discretizer", "canonical": False},
    "length prior": {"length_cost": 0.7},
    "two tokens at least": {"min_length": 2, "sentence_readout": "discretizer"},
}


def tiny(**options: Any) -> Any:
    hbv = registry.load("models", "hbv")
    small = {
        "depth": 3,
        "bits": BITS,
        "groups": (2, 2, 2),
        "latent": D,
        "steps": T,
        "units": 16,
        "auxiliary_units": 16,
    }
    config = hbv.Config(**{**small, "fourier_features": 8, **options})
    model = hbv.build(config, hbv.load_data(config))
    with torch.no_grad():  # what starts at zero would hide whether it is used
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    model.temper(True)
    return model


def inputs(n: int = B) -> Tensor:
    return torch.randint(2, (n, BITS)).float()


options = pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS.keys())


# -- the Pyro programs


@options
def test_model_and_guide_have_the_same_sites_and_finite_scores(option: dict[str, Any]) -> None:
    model, x = tiny(**option), inputs()
    guide_trace: Any = poutine.trace(model.guide).get_trace(x)
    model_trace: Any = poutine.trace(poutine.replay(model.model, trace=guide_trace)).get_trace(x)
    latent = (
        {f"z_{t}" for t in range(1, T + 1)} | {"s"} | ({"z_0"} if model.z0 == "sample" else set())
    )

    def names(trace: Any) -> set[str]:
        return {
            n for n in trace.stochastic_nodes if n not in ("inputs", "z_0") or model.z0 == "sample"
        } - {"inputs"}

    assert names(guide_trace) == names(model_trace) == latent
    for trace in (guide_trace, model_trace):
        trace.compute_log_prob()
        assert torch.isfinite(torch.as_tensor(trace.log_prob_sum()))
        for t in range(1, T + 1):
            assert trace.nodes[f"z_{t}"]["value"].shape == (B, D)
            assert trace.nodes[f"z_{t}"]["log_prob"].shape == (B,)
        assert trace.nodes["s"]["log_prob"].shape == (B,)
        if model.z0 == "mean":
            assert torch.equal(trace.nodes["z_0"]["value"], model.encoder(x).loc)
    assert torch.isfinite(torch.as_tensor(poutine.trace(model.model).get_trace(x).log_prob_sum()))


@options
def test_predictive(option: dict[str, Any]) -> None:
    model, x = tiny(**option), inputs()
    for program in (model.model, model.guide):
        out = Predictive(program, num_samples=3)(x)
        assert out[f"z_{T}"].shape[0] == 3
        assert out[f"z_{T}"].shape[-2:] == (B, D)
        assert set(out["s"].unique().tolist()) <= {0.0, 1.0}
        assert (out["s"].sum(-1) >= model.language.min_length).all()


def test_predictive_in_parallel() -> None:
    model, x = tiny(), inputs()
    out = Predictive(model.guide, num_samples=7, parallel=True)(x)
    assert out["z_1"].reshape(-1, B, D).shape == (7, B, D)
    assert out["z_1"].reshape(7, -1).std(0).min() > 0


@pytest.mark.parametrize("program", ["model", "guide", "vae_model", "vae_guide"])
def test_render_model(program: str) -> None:
    pytest.importorskip("graphviz")
    model = tiny()
    x = inputs()
    arguments = (x, model.sentences[:B]) if program.startswith("vae") else (x,)
    source = pyro.render_model(getattr(model, program), model_args=arguments).source
    expected = {
        "model": ["z_4", "s", "log_reward"],
        "guide": ["z_4", "s"],
        "vae_model": ["x", "information_loss"],
    }
    assert all(site in source for site in ["z_0", *expected.get(program, [])])
    assert "inputs" in source, "the plate"


def broad(**options: Any) -> Any:
    """A tiny model whose broad kernels need no training for importance sampling: both random walks,
    ẑ_s near 0.
    """
    model = tiny(latent=2, steps=2, epsilon=0.4, max_sd=1.5, groups=(2, 2), **options)
    with torch.no_grad():
        model.sentence_encoder.mean.weight.mul_(0.3)
        model.encoder.mean[-1].weight.mul_(0.3)
        for dynamics, r in ((model.forward_dynamics, -0.7), (model.backward_dynamics, -1.0)):
            dynamics.net[-1].weight.zero_()
            dynamics.net[-1].bias.copy_(torch.tensor([0.0, 0, -9, r, r]))
    return model


@pytest.mark.parametrize(
    "option",
    [
        {}, {"length_cost": 1.0}, {"sentence_readout": "discretizer"}, {"z0": "sample"},
        {"length_cost": 1.0, "reward_exponent": 0.3},
    ],
)  # fmt: skip
def test_importance_sampling_finds_log_z(option: dict[str, Any]) -> None:
    """E_guide[model / guide] = Σ_s R(s; x), whatever guide and backward kernel are."""
    model, x = broad(**option), inputs(1)
    exact = model.log_reward(model.encode(x).distribution).logsumexp(-1)
    many, n = x.expand(40_000, -1), 40_000
    with torch.no_grad():
        guide_trace = poutine.trace(model.guide).get_trace(many)
        model_trace = poutine.trace(poutine.replay(model.model, trace=guide_trace)).get_trace(many)
        log_w = torch.zeros(n)
        for trace, sign in ((model_trace, 1), (guide_trace, -1)):
            trace.compute_log_prob()
            for site in trace.nodes.values():
                if site["type"] == "sample" and site["log_prob"].shape == (n,):
                    log_w = log_w + sign * site["log_prob"]
    ratio = (log_w - exact).exp()
    assert abs(ratio.mean() - 1) < 4.5 * ratio.std() / n**0.5
    assert ratio.std() / n**0.5 < 0.05, "the bound would hold for anything"


def test_pyro_importance() -> None:
    model, x = broad(), inputs(1)
    exact = float(model.log_reward(model.encode(x).distribution).logsumexp(-1).detach())
    with torch.no_grad():
        importance = Importance(model.model, guide=model.guide, num_samples=300).run(x)
    assert float(importance.get_log_normalizer()) == pytest.approx(exact, abs=0.4)
    assert float(importance.get_ESS().detach()) > 20


@pytest.mark.filterwarnings("error::UserWarning")
def test_trajectory_balance_takes_model_and_guide() -> None:
    model, x = tiny(), inputs()
    log_z = model.log_reward(model.encode(x).distribution).logsumexp(-1).detach()
    loss = TrajectoryBalance(log_z=log_z, num_particles=4, batch_plate="inputs")
    value = loss.loss_and_grads(model.model, model.guide, x)
    assert math.isfinite(value)
    for part in (model.forward_dynamics, model.backward_dynamics):
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in part.parameters())


# -- the M-step's loss


def closed_form(
    model: Any,
    x: Tensor,
    s: Tensor | None,
    vae: float,
    kl_weight: float,
    encoder: float,
    sentence: float,
) -> Tensor:
    """Eq. *mstep_loss* for a decoder that does not look at z."""
    q = model.encoder(x)
    recon = -model.decoder(torch.zeros(len(x), D)).log_prob(x).sum()
    kl = kl_divergence(q, Normal(0.0, 1.0)).sum()
    loss = vae * (recon + kl_weight * kl)
    if s is not None:
        loss = loss + (encoder + sentence) * kl_divergence(q, model.sentence_encoder(s)).sum()
    return loss


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0, 0.25), (0.3, 0.6, 0.25, 1.0)])
@pytest.mark.parametrize("with_sentences", [True, False])
def test_elbo_equals_the_closed_form(weights: tuple[float, ...], with_sentences: bool) -> None:
    model, x = tiny(), inputs()
    with torch.no_grad():
        model.decoder.logits[0].weight.zero_()
    s = model.sentences[torch.randint(26, (B,))] if with_sentences else None
    keywords = dict(
        zip(("vae_weight", "kl_weight", "encoder_weight", "sentence_weight"), weights, strict=True)
    )
    elbo = TraceMeanField_ELBO()
    losses = [elbo.loss(model.vae_model, model.vae_guide, x, s, **keywords) for _ in range(3)]
    expected = float(closed_form(model, x, s, *weights).detach())
    assert losses == pytest.approx([expected] * 3, rel=1e-5), (
        "KL is analytic: nothing is left to chance"
    )


def test_elbo_in_expectation() -> None:
    model, x = tiny(), inputs()
    n = 4000
    elbo = TraceMeanField_ELBO().loss(model.vae_model, model.vae_guide, x.repeat(n, 1)) / n
    q = model.encoder(x)
    with torch.no_grad():
        z = q.loc + q.scale * torch.randn(n, B, D)
        recon = -model.decoder(z).log_prob(x).sum((-1, -2))
        expected = recon.mean() + kl_divergence(q, Normal(0.0, 1.0)).sum()
    assert elbo == pytest.approx(float(expected), abs=float(6 * recon.std() / n**0.5))


def grads(model: Any) -> dict[str, bool]:
    def any_gradient(part: Any) -> bool:
        return any(p.grad is not None and p.grad.abs().max() > 0 for p in part.parameters())

    return {
        name: any_gradient(getattr(model, name))
        for name in ("encoder", "decoder", "sentence_encoder")
    }


def test_stop_gradients_of_the_information_loss() -> None:
    """One term moves z0 only, the other ẑ_s only."""
    model, x = tiny(), inputs()
    s = model.sentences[:B]
    model.information_loss(x, s, encoder_weight=1.0, sentence_weight=0.0).sum().backward()
    assert grads(model) == {"encoder": True, "decoder": False, "sentence_encoder": False}
    model.zero_grad(set_to_none=True)
    model.information_loss(x, s, encoder_weight=0.0, sentence_weight=1.0).sum().backward()
    assert grads(model) == {"encoder": False, "decoder": False, "sentence_encoder": True}
    both = model.information_loss(x, s, 1.0, 0.25)
    assert torch.allclose(
        both, 1.25 * kl_divergence(model.encoder(x), model.sentence_encoder(s)).sum(-1), rtol=1e-5
    )


@options
def test_every_parameter_belongs_to_one_step(option: dict[str, Any]) -> None:
    model = tiny(**option)
    phi, theta = {id(p) for p in model.phi}, {id(p) for p in model.theta}
    assert not phi & theta
    assert phi | theta == {id(p) for p in model.parameters()}


# -- reward and posterior


def test_gaussian_kl_against_torch() -> None:
    p = Normal(torch.randn(B, D), 0.1 + torch.rand(B, D))
    q = Normal(torch.randn(7, D), 0.1 + torch.rand(7, D))
    expected = kl_divergence(Normal(p.loc[:, None], p.scale[:, None]), q).sum(-1)
    assert torch.allclose(pairwise_kl(p, q), expected, rtol=1e-4, atol=1e-4)
    assert torch.allclose(gaussian_kl(p, p), torch.zeros(B), atol=1e-6)
    assert torch.allclose(
        gaussian_kl(p, Normal(q.loc[:B], q.scale[:B])), expected.diagonal(), rtol=1e-4, atol=1e-4
    )


def test_pairwise_kl_in_float32_is_good_to_a_hundredth_of_a_nat() -> None:
    """With narrow standard deviations far from 0, where the products cancel."""
    p = Normal(1.5 * torch.randn(64, 8), torch.full((64, 8), 0.05))
    q = Normal(p.loc + 0.05 * torch.randn(64, 8), torch.full((64, 8), 0.05))
    exact = kl_divergence(
        Normal(p.loc.double(), p.scale.double()), Normal(q.loc.double(), q.scale.double())
    ).sum(-1)
    assert (pairwise_kl(p, q).diagonal() - exact).abs().max() < 0.01


@pytest.mark.parametrize("cost", [0.0, 0.7])
def test_reward_is_information_times_prior(cost: float) -> None:
    model = tiny(length_cost=cost)
    q = model.encode(inputs()).distribution
    kl = pairwise_kl(q, model.sentence_encoder(model.sentences))
    log_r = model.log_reward(q)
    assert torch.allclose(log_r, -kl + model.language.log_prior(model.sentences), atol=1e-4)
    rows = torch.randint(26, (4, B))
    assert torch.allclose(
        model.log_reward(q, model.sentences[rows]), log_r.T.gather(0, rows), rtol=1e-4, atol=1e-4
    )
    assert torch.equal(model.index(model.sentences[rows]), rows)
    assert torch.allclose(
        model.log_posterior(q), log_r - log_r.logsumexp(-1, keepdim=True), atol=1e-5
    )


def test_reward_floor() -> None:
    model = tiny(reward_floor=-1.0)
    log_r = model.log_reward(model.encode(inputs()).distribution) - model.language.log_prior(
        model.sentences
    )
    assert log_r.min().item() == pytest.approx(-1.0, abs=1e-5)
    free = tiny()
    assert (free.log_reward(free.encode(inputs()).distribution) + math.log(26)).min() < -1.0


@pytest.mark.parametrize("exponent", [0.0, -1.0, math.inf, math.nan])
def test_reward_exponents_that_cannot_be(exponent: float) -> None:
    with pytest.raises(ValueError, match="reward_exponent must be a finite number above 0"):
        tiny(reward_exponent=exponent)


def test_sentence_given_state_is_bayes_rule() -> None:
    model = tiny(length_cost=0.5, epsilon=0.3)
    z = torch.randn(6, B, D)
    log_n = Normal(model.embeddings(), 0.3).log_prob(z[..., None, :]).sum(-1)
    log_n = log_n + model.language.log_prior(model.sentences)
    assert torch.allclose(
        model.log_sentence_given_state(z), log_n.log_softmax(-1), rtol=1e-4, atol=1e-4
    )
    assert isinstance(model.sentence_given_state(z), TabulatedSentences)
    learned = tiny(sentence_readout="discretizer").sentence_given_state(z)
    assert isinstance(learned, SentencePolicy)
    s = model.sentences.view(26, 1, 1, -1)
    assert torch.allclose(learned.log_prob(s).exp().sum(0), torch.ones(6, B), atol=1e-5)


@pytest.mark.parametrize("kind", ["none", "posterior", "density"])
def test_decodability(kind: str) -> None:
    model = tiny(decodability=kind, length_cost=0.5)
    z, rows = torch.randn(4, B, D), torch.randint(26, (4, B))
    q = model.sentence_encoder(model.sentences)
    density = q.log_prob(z[..., None, :]).sum(-1)
    expected = {
        "none": torch.zeros(4, B, 26),
        "density": density,
        "posterior": (density + model.language.log_prior(model.sentences)).log_softmax(-1),
    }[kind]
    assert torch.allclose(
        model.log_decodability(z).expand(4, B, 26), expected, rtol=1e-3, atol=1e-3
    )
    given = model.log_decodability(z, model.sentences[rows]).expand(4, B)
    assert torch.allclose(given, expected.gather(-1, rows[..., None])[..., 0], rtol=1e-3, atol=1e-3)


# -- what each option claims


def same(p: Normal, q: Normal) -> bool:
    return torch.allclose(p.loc, q.loc, atol=1e-6) and torch.allclose(p.scale, q.scale, atol=1e-6)


@pytest.mark.parametrize("start", [True, False])
def test_forward_dynamics_see_the_state_only_and_whether_they_start(start: bool) -> None:
    f = tiny(start=start).forward_dynamics
    z, a, b = torch.randn(B, D), torch.randn(B, D), torch.randn(B, D)
    assert same(f(z, 1.0, a), f(z, 7.0, b))
    assert same(f(z, 1.0, a), f(z, 1e6))
    assert same(f(z, 0.0, a), f(z, 0.0, b))
    assert same(f(z, 0.0, a), f(z, 1.0, a)) is not start


@pytest.mark.parametrize("sees", [("time",), ("context",), ("time", "context")])
def test_forward_dynamics_see_what_they_are_told_to(sees: tuple[str, ...]) -> None:
    f = tiny(forward_sees=sees).forward_dynamics
    z, a, b = torch.randn(B, D), torch.randn(B, D), torch.randn(B, D)
    assert same(f(z, 1.0, a), f(z, 3.0, a)) is ("time" not in sees)
    assert same(f(z, 1.0, a), f(z, 1.0, b)) is ("context" not in sees)


def test_later_steps_than_those_that_are_learned_are_as_the_last_of_these() -> None:
    model = tiny(forward_sees=("time", "context"))
    z, c = torch.randn(B, D), torch.randn(B, D)
    for f, last in ((model.forward_dynamics, T - 1), (model.backward_dynamics, T + 1)):
        assert not same(f(z, float(last), c), f(z, float(last - 1), c))
        assert same(f(z, float(last), c), f(z, float(last + 1), c))
        assert same(f(z, float(last), c), f(z, 5.0 * T, c))


def test_dynamics_see_z0_by_as_many_features_as_the_state() -> None:
    of_z0 = tiny(forward_sees=("context",), fourier_features=8).forward_dynamics
    assert of_z0.context_features.outputs == of_z0.features.outputs == D + 8
    assert (
        tiny(
            forward_sees=("context",), fourier_features=8, context="x"
        ).forward_dynamics.context_features
        is None
    )
    assert tiny(fourier_features=8).forward_dynamics.context_features is None


@pytest.mark.parametrize("context", ["z0", "x"])
def test_backward_dynamics_and_correction_see_time_and_context(context: str) -> None:
    model, x = tiny(context=context), inputs()
    e = model.encode(x)
    other = torch.randn_like(e.context)
    assert e.context.shape == (B, BITS if context == "x" else D)
    z = torch.randn(B, D)
    g, f = model.flow_correction, model.backward_dynamics
    assert not same(f(z, 1.0, e.context), f(z, 3.0, e.context))
    assert not same(f(z, 1.0, e.context), f(z, 1.0, other))
    assert not torch.allclose(g(z, 1.0, e.context), g(z, 1.0, other))
    assert (g(z, float(T), e.context) == 0).all()
    t = torch.arange(T + 1.0)[:, None, None]
    together = g(z.expand(T + 1, B, D), t, e.context)
    assert torch.allclose(together[2], g(z, 2.0, e.context), atol=1e-6)
    assert (together[T] == 0).all()
    assert not torch.allclose(model.log_partition(z, e.context), model.log_partition(z, other))


def test_dynamics_that_miss_their_context() -> None:
    with pytest.raises(ValueError, match="see a context of size 3"):
        tiny().backward_dynamics(torch.zeros(B, D), 1.0)


def test_z0_is_the_mean_or_a_sample() -> None:
    x = inputs()
    mean, sample = tiny(), tiny(z0="sample")
    e = mean.encode(x)
    assert torch.equal(e.z0, e.distribution.loc)
    a, b = sample.encode(x), sample.encode(x)
    assert not torch.equal(a.z0, b.z0)
    assert torch.equal(a.context, a.z0)
    many = sample.encode(x.repeat(5000, 1)).z0.view(5000, B, D)
    assert torch.allclose(many.std(0), a.distribution.scale, rtol=0.1)
    assert not e.z0.requires_grad


def test_first_backward_step_is_fixed_or_learned() -> None:
    x, model = inputs(), tiny(epsilon=0.07)
    s, context = model.sentences[:B], model.encode(x).context
    z_hat = model.sentence_encoder(s).loc
    kernel = model.first_backward_kernel(s, context)
    assert torch.equal(kernel.loc, z_hat)
    assert (kernel.scale == 0.07).all()
    model.first_backward_step = "learned"
    assert same(
        model.first_backward_kernel(s, context), model.backward_dynamics(z_hat, T + 1.0, context)
    )
    model.first_backward_kernel(s, context).loc.sum().backward()
    assert all(p.grad is None for p in model.phi), "the E-step does not move ẑ_s"
    assert any(p.grad is not None for p in model.backward_dynamics.parameters())


def test_mean_steps_and_standard_deviations_are_bounded() -> None:
    dynamics: Any = Dynamics(D, T, units=16, max_step=0.25, sd_range=(0.01, 0.3))
    with torch.no_grad():
        dynamics.net[-1].weight.mul_(100)
    z = torch.randn(500, D)
    kernel = dynamics(z, 1.0)
    assert (kernel.loc - z).norm(dim=-1).max() <= 0.25 + 1e-6
    assert kernel.scale.min() >= 0.01 - 1e-7
    assert kernel.scale.max() <= 0.3 + 1e-6


def test_trajectories_follow_the_forward_dynamics() -> None:
    model, z0 = tiny(), torch.randn(B, D)
    torch.manual_seed(3)
    z = model.trajectories(z0, 2 * T)
    assert z.shape == (2 * T + 1, B, D)
    assert torch.equal(z[0], z0)
    torch.manual_seed(3)
    for t in range(2 * T):
        assert torch.equal(model.forward_dynamics(z[t], float(t), z0).sample(), z[t + 1])
    assert model.trajectories(z0).shape == (T + 1, B, D)
    assert not z.requires_grad


def test_unknown_option_of_the_forward_dynamics() -> None:
    with pytest.raises(ValueError, match="forward_sees lists what the forward dynamics see"):
        tiny(forward_sees=("weather",))


# -- the backward token policy


def test_building_orders_are_a_distribution() -> None:
    language = Language((2, 2, 2, 2))
    policy = BackwardTokenPolicy(language, D, units=16)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.mul_(3)
    s, z, n = language.sentences[-1], torch.randn(D), 40_000
    with torch.no_grad():
        ranks, log_p = policy.sample_order(s.expand(n, -1), z.expand(n, -1))
    assert (ranks[:, s == 0] == 0).all()
    assert torch.equal(ranks[:, s > 0].sort(-1).values, torch.arange(4.0).expand(n, -1))
    orders, inverse, counts = torch.unique(ranks, dim=0, return_inverse=True, return_counts=True)
    p = torch.stack([log_p[inverse == k][0] for k in range(len(orders))]).exp()
    assert torch.allclose(p[inverse], log_p.exp()), "one order, one probability"
    assert len(orders) == 24
    assert float(p.sum()) == pytest.approx(1.0, abs=1e-4)
    assert torch.allclose(counts / n, p, atol=4.5 * (0.25 / n) ** 0.5)


def test_orders_of_sentences_of_all_lengths() -> None:
    language = Language((2, 2, 2))
    policy = BackwardTokenPolicy(language, D, units=16)
    s = language.sentences
    ranks, log_p = policy.sample_order(s, torch.randn(len(s), D))
    assert (log_p[language.length(s) == 1] == 0).all(), "one token can go in one way only"
    assert (log_p <= 1e-6).all()
    lengths = language.length(s)
    assert torch.equal((ranks * s).amax(-1), lengths - 1)
    log_p.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in policy.parameters() if p.grad is not None)
