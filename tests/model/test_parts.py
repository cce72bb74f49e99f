"""What the parts of an attractor model must be, that none keeps one which was replaced, and that a
variant's own trajectories and parts are trained.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyro
import pytest
import torch
from pyro.distributions import Categorical, LogNormal, Normal, StudentT
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor, nn

from plot_attractors.analysis.sampling import perturbed_trajectories
from plot_attractors.gflownet.exploration import exploring
from plot_attractors.language import Language
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.networks import Discretizer, Dynamics, SentenceEncoder
from plot_attractors.model.protocols import OPTIONAL, PARTS
from plot_attractors.model.reward import Reward
from plot_attractors.runs import registry
from plot_attractors.runs.run import fit
from plot_attractors.training import MStep, MStepConfig, input_source
from plot_attractors.training.m_step import elbo

from ..attractors import HBV, T, changed, inputs, snapshot, tiny, with_data
from ..training.models import build_model
from ..training.test_m_step import bits

MANY = {"language.groups": (1,) * 32, "language.max_length": 7}  # a fine discretizer


def part(found: Callable[..., Any]) -> nn.Module:
    """A part of a user's own."""

    class Own(nn.Module):
        max_step = 0.1

        def forward(self, *seen: Any) -> Any:
            return found(*seen)

    return Own()


# -- parts that are replaced


def test_backward_dynamics_after_the_walk_are_the_forward_dynamics_that_there_are() -> None:
    model, _ = with_data(HBV)
    z0 = torch.randn(7, 3)
    z = model.initial(z0)
    model.forward_dynamics = new = Dynamics(3, T, memory=model.memory.size, units=16)
    assert torch.equal(model.backward_dynamics(z, 3.0, z0).loc, new(z, 3.0, z0).loc)


def test_what_reads_the_sentence_encoder_reads_the_new_one() -> None:
    model, _ = with_data(HBV | MANY)
    model.add_sentence_policy()
    old, new = model.sentence_encoder, SentenceEncoder(model.language, 3, axes=True)
    assert model.discretizer._encoder == [old]
    model.sentence_encoder = new
    assert model.reward.sentence_encoder is model.posterior.reward.sentence_encoder is new
    assert model.discretizer._encoder == [new]
    assert model.posterior.factored  # which the old one was not
    s, q = torch.eye(32)[:4], Normal(torch.randn(4, 3), 0.5)
    kl = torch.distributions.kl_divergence(q, new(s)).sum(-1)
    assert torch.allclose(model.reward(q, None, s), model.reward.log_prior(s) - kl, atol=1e-3)


def test_a_new_reward_language_or_discretizer_is_that_of_all() -> None:
    model = tiny()
    model.reward = Reward(model.sentence_encoder, model.language, beta=0.3)
    assert model.posterior.reward is model.reward
    model.language = Language((2, 2, 2), length_cost=2.0)
    for part in (model.reward, model.discretizer):
        assert part.language is model.language
    model.discretizer = Discretizer(model.language, 3, units=16)
    assert model.readout.discretizer is model.discretizer


# -- the contract


@pytest.mark.parametrize(
    ("name", "found", "sentence"),
    [
        ("sentence_encoder", lambda s: Normal(s[..., None, :3], 1.0), r"a Normal .*\(2, 1, 3\)"),
        ("sentence_encoder", lambda s: LogNormal(s[..., :3], 1.0), r"a Normal .* a LogNormal \(2"),
        ("sentence_encoder", lambda s: s[..., :3], r"encoder Own must return .* a Tensor \(2, 3"),
        ("encoder", lambda x: Normal(x, 1.0), r"encoder Own must return a Normal over \(n, d\)"),
        ("backward_dynamics", lambda z, t, c: Normal(c[:1], 1.0), r"returns a Normal \(1, 3\)"),
        ("discretizer", lambda z, c: z, "discretizer Own must return a distribution over sent"),
        ("log_partition", lambda z, c: None, r"must return a tensor \(n,\).*returns a NoneType"),
        ("decoder", lambda z: z, "decoder Own must return a distribution over inputs"),
    ],
)  # fmt: skip
def test_a_part_that_is_not_as_it_must_be_is_refused(name: str, found: Any, sentence: str) -> None:
    """When a model is built, and, of one that was changed, when its training is."""
    model, data = with_data(HBV, "algorithms")
    parts = {key: getattr(model, key) for key in PARTS if key not in OPTIONAL}
    parts |= {"steps": T, "memory": model.memory}
    assert AttractorModel(model.language, **parts).latent == 3
    if name in parts:
        with pytest.raises(ValueError, match=sentence):
            AttractorModel(model.language, **{**parts, name: part(found)})
    setattr(model, name, part(found))
    with pytest.raises(ValueError, match=sentence):
        input_source(data, model)


def test_a_model_is_tried_without_a_trace() -> None:
    """Neither random numbers nor running means are used up."""
    model, data = with_data(HBV)
    model.encoder.mean.append(nn.BatchNorm1d(3))
    before, state = snapshot(model), torch.get_rng_state()
    input_source(data, model)
    assert not model.input_dependent
    assert torch.equal(state, torch.get_rng_state())
    assert not changed(model, before)
    assert model.training


class Bent(SentenceEncoder):
    """Tokens no longer move ẑ_s along one axis."""

    def forward(self, s: Tensor) -> Normal:
        p = super().forward(s)
        return Normal(p.loc + p.loc.sum(-1, keepdim=True).tanh(), p.scale)


def test_tokens_of_a_subclass_with_a_call_of_its_own_have_no_axes() -> None:
    model = tiny({"token_axes": True, "language.groups": (1,) * 6, "language.max_length": 4})
    assert model.posterior.factored
    model.sentence_encoder = Bent(model.language, 3, axes=True)
    assert not model.posterior.factored
    q, s = model.encode(inputs(56)).distribution, model.sentences
    exact = model.reward(q, None, (s + torch.eye(7, 6)[:, None]).clamp(max=1))
    assert torch.allclose(model.reward.log_additions(q, s), exact, atol=1e-5)
    assert torch.equal(model.embed(s), model.sentence_encoder(s).loc)


# -- trajectories


class Still(AttractorModel):
    """States rest at z0 + 7."""

    def trajectories(self, z0: Tensor, steps: int | None = None, **options: Any) -> Tensor:
        return 0 * super().trajectories(z0, steps, **options) + self.at_rest(z0 + 7.0)


def test_an_override_of_trajectories_is_that_of_guide_and_analyses() -> None:
    """They see states at z0 + 7."""
    model, data = with_data(HBV)
    model.__class__ = Still
    x = data.batch(5).x
    e, z, _ = model.guide(x)
    explored = model.guide(x, exploring(model.transition, 0.5, 0.25, 3))[1]
    for states in (z, explored):
        assert torch.equal(states, model.at_rest(e.z0 + 7.0).expand(T + 1, -1, -1))
    assert torch.equal(model.describe(x).z[:, 0], e.z0 + 7.0)
    assert torch.equal(perturbed_trajectories(model, e.z0, e.z0), e.z0 + 7.0)


# -- parts of a subclass


class Labelled(AttractorModel):
    """Says the first bit of x from z0, beside x."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.head = nn.Linear(self.latent, 2)

    def vae_model(self, x: Tensor, s: Tensor | None = None, **options: Any) -> Tensor:
        z0 = AttractorModel.vae_model(self, x, s, **options)
        with pyro.plate("labels", len(x)):
            pyro.sample("label", Categorical(logits=self.head(z0)), obs=x[:, 0].long())
        return z0


def test_a_label_head_of_a_subclass_is_trained() -> None:
    model, config = build_model(kind=Labelled), MStepConfig(lr_decoder=1e-2)
    m, state = MStep(model, bits, config), snapshot(model)
    assert len(model.phi) == len({*model.phi})
    rates = {id(p): group["lr"] for group in m.optimizer.param_groups for p in group["params"]}
    assert rates[id(model.head.bias)] == rates[id(model.encoder.mean[0].bias)] == 2e-3
    assert {rates[id(p)] for p in model.decoder.parameters()} == {1e-2}
    m.pretrain(None)
    assert {"head", "encoder", "decoder"} == changed(model, state)


def sampling(where: str, distribution: Any) -> type[AttractorModel]:
    """A model whose programs sample y as well."""

    def beside(name: str) -> Any:
        def program(self: Any, x: Tensor, *args: Any, **options: Any) -> Any:
            result = getattr(AttractorModel, name)(self, x, *args, **options)
            with pyro.plate("others", len(x)):
                pyro.sample("y", distribution)
            return result

        return program

    return type("Other", (AttractorModel,), {name: beside(name) for name in where.split()})


class Params(AttractorModel):
    def vae_guide(self, x: Tensor, *args: Any, **options: Any) -> None:
        super().vae_guide(x, *args, **options)
        pyro.param("scale", torch.ones(()))


COIN = Categorical(logits=torch.zeros(2))


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (sampling("vae_guide", Normal(0.0, 1.0)), "vae_guide samples 'y', and vae_model does not"),
        (sampling("vae_model vae_guide", COIN), "'y' from a distribution without rsample"),
        (Params, "have the pyro.param 'scale', which no M-step trains"),
    ],
)
def test_programs_that_the_m_step_would_train_wrongly_are_refused(kind: Any, sentence: str) -> None:
    model = build_model()
    model.__class__ = kind
    with pytest.raises(ValueError, match=sentence):
        MStep(model, bits, MStepConfig(), 8).pretrain(None)


LATENT = [sampling("vae_model vae_guide", law) for law in (Normal(0.0, 1.0), StudentT(3.0))]


@pytest.mark.parametrize("kind", [*LATENT, Labelled])  # a latent site more, or an observed one
def test_the_elbo_of_programs_with_a_site_more_is_pyros(kind: Any) -> None:
    model, x, result = build_model(kind=kind), bits(8), []
    for loss in (elbo, TraceMeanField_ELBO().differentiable_loss):
        torch.manual_seed(0)
        result.append(loss(model.vae_model, model.vae_guide, x).item())
    assert result[0] == -result[1]


# -- parts of the model's own


def test_the_sentence_policy_is_the_models_own() -> None:
    model, other = tiny(), tiny()
    policy = model.add_sentence_policy()
    assert model.add_sentence_policy() is policy is model.sentence_policy
    assert other.sentence_policy is None
    state = torch.get_rng_state()
    other.load_state_dict(model.state_dict())
    assert torch.equal(state, torch.get_rng_state())
    q, s = torch.randn(4, 3), model.sentences[:4]
    assert torch.equal(*(m.sentence_policy(q, q).log_prob(s) for m in (model, other)))
    assert not {id(p) for p in other.sentence_policy.parameters()} & {id(p) for p in other.phi}


def test_an_inference_program_that_sets_something_of_the_model_is_refused(tmp_path: Path) -> None:
    program, original = tmp_path / "mine.py", registry.find("inference", "gflownet_em")
    build = (
        "\n\ndef build(model, data, c):\n    model.epsilon, model.extra = 1.0, torch.nn.ReLU()\n"
    )
    program.write_text(original.read_text("utf-8") + build, "utf-8")
    with pytest.raises(ValueError, match="sets epsilon, extra of the model, and a trained model"):
        fit("hbv", program, preset="smoke", out=tmp_path / "run")
