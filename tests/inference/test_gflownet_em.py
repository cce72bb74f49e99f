"""The engine: sentences and dynamics come from the reward of proposed sentences alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pyro.distributions import Normal, StudentT
from torch import Tensor, nn

from plot_attractors.gflownet import Trajectories
from plot_attractors.runs import registry
from plot_attractors.runs.settings import flatten, leaves, resolve, to_table
from plot_attractors.training import SentencePool
from plot_attractors.training.balance import (
    BALANCE_INPUTS,
    TRAJECTORIES,
    balance_loss,
    proposed_flow,
)

from ..attractors import (
    HBV,
    assert_resumes,
    changed,
    inputs,
    run_to,
    schedule,
    snapshot,
    sprites,
    tiny,
    with_data,
)
from ..training.test_sentences import nothing_exact, sampled

SHORT = {
    "pretrain": 2, "warm_up": 4, "cycles": 1, "e_updates": 3,
    "final_e_updates": 4, "sentences.candidates": 4,
}  # fmt: skip
ANNEALED = {"sentences.temperatures": 3}
WORDS = {"vocabulary": 8}
BY_BALANCE = {"walk.losses": ("vargrad",)}
BALANCES = ("detailed", "sub_trajectory", "trajectory", "vargrad")


def build(settings: Any = (), model: Any = None, name: str = "hbv", **inference: Any) -> Any:
    built, data = with_data(HBV | dict(settings), name)
    return schedule("gflownet_em", model or built, data, SHORT | inference)


def of_sprites(settings: Any = (), **inference: Any) -> Any:
    return schedule("gflownet_em", *sprites(dict(settings)), SHORT | ANNEALED | inference)


CASES = {
    "listed": lambda: build(**{"walk.losses": ("likelihood", "vargrad")}),
    "balance alone": lambda: build({"dynamics.min_sd": 0.0245}, **BY_BALANCE),
    "annealed": lambda: build(**ANNEALED),
    "too many to list": lambda: build({"language.groups": (1,) * 32, "language.max_length": 7}),
    "sequences": lambda: build(
        name="sequences", settings={"language.groups": (1,) * 9, "language.max_length": 8}
    ),
    "inverse temperature": lambda: build(
        {"reward.beta": 0.3}, name="algorithms", **{"walk.losses": ("likelihood", "detailed")}
    ),
    "any order": lambda: build({"readout": "any_order"}),
    "axes": lambda: of_sprites(**WORDS),
    "linear encoder": lambda: of_sprites({"token_axes": False}),
    "tokens leave their axes": lambda: of_sprites({"token_axes": False}, **WORDS),
}


@pytest.mark.parametrize("case", CASES)
def test_it_trains_where_nothing_can_be_listed_or_summed(case: str) -> None:
    fit = CASES[case]()
    with nothing_exact():
        while not fit.done:
            assert all(map(math.isfinite, fit.step().values()))
        result = fit.summary()
    assert {"policy_ess", "policy_k_hat", "sentence_ess", "log_z"} < set(result)
    assert all(map(math.isfinite, result.values()))


@pytest.mark.parametrize("case", ["listed", "balance alone", "axes", "tokens leave their axes"])
def test_a_resumed_schedule_equals_an_uninterrupted_one(case: str) -> None:
    assert_resumes(CASES[case], (3, 7, 9, 13, 16, 19))


def test_phases() -> None:
    def names(fit: Any) -> list[tuple[str, int, int]]:
        return [(p.name, p.cycle, p.updates) for p in fit.schedule]

    cycle = [("e_step", 0, 3), ("m_step", 0, 1), ("policy", 0, 2), ("e_step", 1, 4)]
    assert names(build()) == [("pretrain", 0, 2), ("warm_up", 0, 4), *cycle]
    assert names(of_sprites(**WORDS))[-5:] == [("tokens", 0, 8), *cycle]


def test_each_phase_trains_its_own_parts() -> None:
    model = tiny()
    fit = build(model=model, e_updates=1)
    parts = {
        "warm_up": ("sentence_policy", {"encoder", "decoder", "sentence_encoder"}),
        "m_step": ("encoder", {"encoder", "decoder", "sentence_encoder"}),
        "policy": ("sentence_policy", {"sentence_policy"}),
    }
    for phase, (first, all_of_it) in parts.items():
        run_to(fit, phase)
        before = {k: v.clone() for k, v in model.state_dict().items()}
        for _ in range(3 if phase == "warm_up" else 1):
            fit.step()
        moved = {
            k.split(".")[0] for k, v in model.state_dict().items() if not torch.equal(v, before[k])
        }
        assert first in moved
        assert moved <= all_of_it | {"sentence_policy"}


def test_labels_are_read_by_the_learned_discretizer(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny()
    fit, read = run_to(build(model=model), "m_step"), list[Tensor]()
    forward = model.discretizer.forward

    def spy(z: Tensor, *rest: Any) -> Any:
        read.append(z)
        return forward(z, *rest)

    monkeypatch.setattr(model.discretizer, "forward", spy)
    fit.step()
    assert [z.shape[:2] for z in read] == [(model.steps, 8)]  # of one input 8 trajectories


# -- balance


def pool_of(model: Any, candidates: int) -> SentencePool:
    return SentencePool(model, inputs, sampled(model, candidates, 1), (0.3, 0.6))


class Stationary(nn.Module):
    """Every next state is drawn from N(ẑ, sd²), forward and backward."""

    max_step = 1.0

    def __init__(self, z_hat: Tensor, sd: float) -> None:
        super().__init__()
        self.z_hat, self.sd = z_hat, sd

    def forward(self, z: Tensor, *_: Any) -> Normal:
        return Normal(self.z_hat.expand_as(z), self.sd)


@pytest.mark.parametrize("kind", BALANCES)
def test_balance_holds_for_a_chain_that_is_reversible_at_its_only_sentence(kind: Any) -> None:
    model = tiny({"language.groups": (1,), "steps": 3}, "algorithms")
    pool, e = pool_of(model, 2), model.encode(inputs(BALANCE_INPUTS))
    with torch.no_grad():
        for p in model.flow_correction.parameters():
            p.zero_()
        z_hat = model.embed(model.sentences)[0]
    for factor, holds in ((1, True), (2, False)):
        chain = Stationary(z_hat, factor * model.epsilon)
        model.forward_dynamics = model.backward_dynamics = chain
        loss = float(balance_loss(model, e, pool, kind, 3).detach())
        assert (loss < 1e-4) is holds


def test_the_proposed_flow_sums_different_sentences_once() -> None:
    model = tiny()
    e = model.encode(inputs(BALANCE_INPUTS))
    z, repeated, flow = proposed_flow(model, e, pool_of(model, 512), 3)
    assert z.shape[0] == 4
    assert z.shape[1] == len(repeated.z0) == BALANCE_INPUTS * TRAJECTORIES
    exact = model.reward.log_pairs(repeated.distribution, model.sentences).logsumexp(-1)
    assert (flow.log_z <= exact + 1e-4).all()
    assert (flow.log_z > exact - 0.1).all()
    log_f = flow.log_flow(z, Trajectories(z, repeated.z0).times)[-1]
    near = model.reward.log_pairs(repeated.distribution, model.sentences)
    near = near + model.terminal_kernel(model.sentences).log_prob(z[-1][:, None]).sum(-1)
    assert torch.allclose(log_f, near.logsumexp(-1), atol=0.1)


# -- settings


def test_there_are_few_settings_and_every_preset_is_a_config() -> None:
    program = registry.load("inference", "gflownet_em")
    assert len([*leaves(program.Config)]) <= 15
    for preset in program.PRESETS:
        result = resolve({"inference": program.Config}, {"inference": program.PRESETS}, preset, {})
        assert flatten(to_table(result["inference"]))
    assert program.Config(cycles=0).inert().keys() == {"e_updates"}


@pytest.mark.parametrize("name", BALANCES)
def test_every_balance_trains(name: str) -> None:
    losses, model = ("likelihood", name), "hbv" if name in BALANCES[2:] else "algorithms"
    fit = run_to(build(name=model, **{"walk.losses": losses}, e_updates=5), "e_step")
    before = [p.clone() for p in fit.model.theta]
    result = [fit.step() for _ in range(5)]
    losses = [m["balance_loss"] for m in result if "balance_loss" in m]
    assert losses
    assert all(map(math.isfinite, losses))
    assert any(not torch.equal(a, b) for a, b in zip(before, fit.model.theta, strict=True))


def test_balance_alone_trains_no_likelihood() -> None:
    fit = run_to(build({"dynamics.min_sd": 0.0245}, **BY_BALANCE, e_updates=5), "e_step")
    before = [p.clone() for p in fit.model.theta]
    for _ in range(5):
        assert set(fit.step()) - {"discretizer_sleep_loss", "policy_loss"} == {
            "balance_loss", "stay_loss",
        }  # fmt: skip
    dynamics = len([*fit.model.forward_dynamics.parameters()])
    trained = [not torch.equal(a, b) for a, b in zip(before, fit.model.theta, strict=True)]
    assert all(trained[:dynamics])


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({}, {"walk.losses": ()}, "such as walk.losses=likelihood,vargrad, not nothing"),
        ({}, {"walk.losses": ("vargrad", "detailed")}, "one balance, or both"),
        ({}, {"walk.losses": ("detailed",)}, "walk.losses=detailed trains flow_corr"),
        ({}, BY_BALANCE, "to stay put without noise satisfies balance .* dynamics.min_sd=0.0245"),
        ({"epsilon": 0.4}, {}, "the bounds from 0.001 to 0.2 exclude"),
        ({"dynamics.min_sd": 0.05}, {}, "the bounds from 0.05 to 0.2 exclude"),
    ],
)
def test_noise_that_no_state_stays_with_is_refused(
    settings: Any, options: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build(settings, **options)


class HeavyTails(nn.Module):
    """Forward dynamics of Student's t, in the place of a Gaussian."""

    max_step = 0.25

    def __init__(self, dynamics: nn.Module) -> None:
        super().__init__()
        self.dynamics = dynamics

    def forward(self, *seen: Any) -> StudentT:
        of = self.dynamics(*seen)
        return StudentT(4.0, of.loc, of.scale)


def test_dynamics_that_are_no_gaussian_train() -> None:
    model, data = with_data(HBV, "hbv")
    model.forward_dynamics = HeavyTails(model.forward_dynamics)
    before = snapshot(model)
    fit = schedule("gflownet_em", model, data, SHORT)
    while not fit.done:
        metrics = fit.step()
    assert math.isfinite(metrics["sleep_loss"])
    assert "forward_dynamics" in changed(model, before)
    assert model.describe(data.batch(4).x, 3).s.shape[:2] == (4, 3)
