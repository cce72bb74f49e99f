"""The attractor model: its Pyro programs against sums of their parts, and the M-step's loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pyro import poutine
from pyro.distributions import Normal
from torch import Tensor
from torch.distributions import kl_divergence

from plot_attractors.gflownet.trajectories import Trajectories, score_backward, score_forward

from ..attractors import B, D, T, inputs, tiny
from ..small import untrained

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"reward.decodability": "posterior"},
    {"reward.decodability": "density", "reward.beta": 0.3, "language.length_cost": 0.7},
    {"dynamics.memory": 0.0},
    {"dynamics.features": 0},
    {"language.groups": (1, 1, 1), "token_axes": True, "reward.beta": 0.3},
)
CASES = [("hbv", option) for option in OPTIONS]
CASES += [("hbv", {"readout": "any_order"})]


@pytest.mark.parametrize(("name", "option"), CASES, ids=str)
def test_scores_of_model_and_guide_are_sums_of_their_parts(name: str, option: Any) -> None:
    model, x = tiny(option, name), inputs()
    guide: Any = poutine.trace(model.guide).get_trace(x)
    story: Any = poutine.trace(poutine.replay(model.model, trace=guide)).get_trace(x)
    drawn = {"z_0"} if model.sample_z0 else set()
    sites = {f"z_{t}" for t in range(1, T + 1)} | {"s"} | drawn
    for trace in (guide, story):
        assert set(trace.stochastic_nodes) - {"inputs", "z_0"} | drawn == sites
        trace.compute_log_prob()
        assert trace.nodes["s"]["log_prob"].shape == (B,)
    value = {n: guide.nodes[n]["value"] for n in [*sites, "z_0"]}
    z0, s = value["z_0"], value["s"]
    z = torch.stack([model.initial(z0), *(value[f"z_{t}"] for t in range(1, T + 1))])
    q, path = model.encoder(x), Trajectories(z, z0)
    if model.sample_z0:
        log_z0 = q.log_prob(z0).sum()
    else:
        assert torch.equal(z0, q.loc)
        log_z0 = torch.zeros(())
    forward = score_forward(model.forward_step, path).sum() + log_z0
    forward = forward + model.readout(z[-1], z0).log_prob(s).sum()
    assert torch.allclose(guide.log_prob_sum(), forward, rtol=1e-4)
    backward = score_backward(model.backward_step, path).sum() + log_z0
    backward = backward + Normal(model.embed(s), model.epsilon).log_prob(z[-1, :, :D]).sum()
    backward = backward + model.memory.log_prob(z[-1, :, D:], torch.full((1,), T), z0).sum()
    backward = backward + model.reward(q, None, s).sum()
    assert torch.allclose(story.log_prob_sum(), backward, rtol=1e-4)


def broad(option: dict[str, Any]) -> Any:
    """Broad kernels, for importance sampling without training: random walks, and ẑ_s near 0."""
    settings = {"latent": 2, "steps": 2, "epsilon": 0.4, "dynamics.max_sd": 1.5}
    model = tiny({**settings, "language.groups": (2, 2), **option}, "algorithms")
    with torch.no_grad():
        model.sentence_encoder.mean.weight.mul_(0.3)
        model.encoder.mean[-1].weight.mul_(0.3)
        model.encoder.sd[-1].bias.fill_(-2.0)
        for dynamics, r in ((model.forward_dynamics, -0.7), (model.backward_dynamics, -1.0)):
            dynamics.net[-1].weight.zero_()
            dynamics.net[-1].bias.copy_(torch.tensor([0.0, 0, -9, r, r]))
    return model


def log_z(model: Any, x: Tensor) -> Tensor:
    pairs: Tensor = model.reward.log_pairs(model.encoder(x), model.sentences)
    return pairs.logsumexp(-1).detach()


@pytest.mark.parametrize(
    "option",
    [
        {}, {"language.length_cost": 1.0, "reward.beta": 0.3}, {"readout": "discretizer"},
        {"readout": "any_order"}, {"dynamics.memory": 0.0}, {"reward.decodability": "posterior"},
        {"reward.decodability": "density"},
    ],
)  # fmt: skip
def test_importance_sampling_finds_log_z(option: dict[str, Any]) -> None:
    """E_guide[model / guide] = Σ_s R(s; x), whatever guide and backward kernel are."""
    model, x, n = broad(option), inputs(1), 40_000
    with torch.no_grad():
        guide = poutine.trace(model.guide).get_trace(x.expand(n, -1))
        story = poutine.trace(poutine.replay(model.model, trace=guide)).get_trace(x.expand(n, -1))
        log_w = torch.zeros(n)
        for trace, sign in ((story, 1), (guide, -1)):
            trace.compute_log_prob()
            for site in trace.nodes.values():
                if site["type"] == "sample" and site["log_prob"].shape == (n,):
                    log_w = log_w + sign * site["log_prob"]
    ratio = (log_w - log_z(model, x)).exp()
    assert abs(ratio.mean() - 1) < 4.5 * ratio.std() / n**0.5
    assert ratio.std() / n**0.5 < 0.05, "the bound would hold for anything"


# -- the M-step's loss


def test_stop_gradients_of_the_information_loss() -> None:
    """KL(q ‖ SG p) moves z0 alone, and β KL(SG q ‖ p) ẑ_s alone."""
    model, x, gradients = tiny(), inputs(), []
    s = model.sentences[:B]
    encoder, sentences = list(model.encoder.parameters()), list(model.sentence_encoder.parameters())
    kl = kl_divergence(model.encoder(x), model.sentence_encoder(s)).sum(-1)
    plain = torch.autograd.grad(kl.sum(), encoder + sentences)
    for beta in (0.0, 0.25):
        model.zero_grad(set_to_none=True)
        loss = model.information_loss(model.encoder(x), s, beta)
        assert torch.allclose(loss, (1 + beta) * kl, rtol=1e-4)
        loss.sum().backward()
        gradients.append([p.grad.clone() for p in encoder + sentences])
        assert all(p.grad is None for p in model.decoder.parameters())
    n = len(encoder)
    for k, expected in enumerate(plain):
        for factor, result in zip((0.0, 0.25), gradients, strict=True):
            factor = 1.0 if k < n else factor
            assert torch.allclose(result[k], factor * expected, rtol=1e-3, atol=1e-4)


# -- states


def test_z0_is_the_mean_or_a_sample() -> None:
    x, mean, sample = inputs(), tiny(), tiny({"readout": "any_order"})
    e = mean.encode(x)
    assert torch.equal(e.z0, mean.encoder(x).loc)
    assert not e.z0.requires_grad
    many = sample.encode(x.repeat(5000, 1))
    z0 = many.z0.view(5000, B, D)
    assert torch.allclose(z0.std(0), sample.encoder(x).scale, rtol=0.1)


def test_describe_takes_arrays_and_refuses_what_it_would_answer_wrongly() -> None:
    run = untrained()
    x = run.data.batch(3).x
    assert run.model.describe(x.numpy().astype(int), 2).s.shape[:2] == (3, 2)
    assert run.model.describe(x[0].numpy()).s.shape[:2] == (1, 1)
    with pytest.raises(ValueError, match="0, 1 or, where they are missing, NaN, and some are 255"):
        run.model.describe(255 * x)
