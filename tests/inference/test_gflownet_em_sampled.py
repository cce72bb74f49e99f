"""GFlowNet-EM with searched sentences: against the exact posterior where it can be listed, and
stopped anywhere.
"""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from plot_attractors.evaluation.sampling import nearest_sentence
from plot_attractors.gflownet import EnumeratedFlow, SampledFlow
from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.runs import registry
from plot_attractors.training import Phase

hbv = registry.load("models", "hbv")
gflownet_em = registry.load("inference", "gflownet_em")
sampled = registry.load("inference", "gflownet_em_sampled")

SHORT = {
    "pretrain": 2, "pretrain_turned": 2, "warm_up": 3, "cycles": 1, "e_updates": 4, "m_updates": 2,
    "final_e_updates": 3, "replay": 24, "fresh": 8, "refresh": 2, "sleep_trajectories": 8, "prior_states": 8,
    "wake_every": 2, "trajectories": 8, "discretizer_states": 8, "batch": 8, "balance_weight": 0.02,
    "beams": 64, "best": 64, "searched": 40, "search_inputs": 16, "search_every": 2,
}  # fmt: skip


def build(model: dict[str, Any] | None = None, **inference: Any) -> Any:
    config = hbv.Config(**{**hbv.PRESETS["smoke"], "steps": 5, "latent": 3, **(model or {})})
    data = hbv.load_data(config)
    return sampled.build(hbv.build(config, data), data, sampled.Config(**{**SHORT, **inference}))


@torch.no_grad()
def tell_something(model: Any) -> None:
    """An encoder whose means differ by more than their standard deviations."""
    for network, change in ((model.encoder.mean, 200.0), (model.encoder.sd, 0.1)):
        last = [m for m in network.modules() if isinstance(m, torch.nn.Linear)][-1]
        last.weight.mul_(change)
        last.bias.sub_(3)


def run_to(inference: Any, name: str, cycle: int = 0) -> Any:
    while (inference.phase.name, inference.phase.cycle) != (name, cycle):
        inference.step()
    return inference


def test_with_enough_beams_its_sentences_follow_the_exact_posterior() -> None:
    torch.manual_seed(0)
    inference = run_to(build(searched=3, search_inputs=3), "e_step")
    model = inference.model
    inference.begin(inference.phase)
    e, s = inference.posterior_sentences(6000)
    exact = model.log_posterior(e.distribution).exp().mean(0)
    share = torch.nn.functional.one_hot(model.index(s), len(model.sentences)).float().mean(0)
    assert torch.allclose(share, exact, atol=0.02)


def test_labels_of_the_warm_up_are_sharpened() -> None:
    torch.manual_seed(0)
    inference = run_to(build(), "exact_m_step")
    inference.begin(inference.phase)
    found = []
    for power in (1.0, 50.0):
        x, e, s = inference.draw(2000, power)
        assert torch.allclose(inference.model.encoder(x).loc, e.distribution.loc, atol=1e-5)
        found.append(float(inference.model.log_reward(e.distribution, s).mean()))
    assert found[1] > found[0] + 0.1


@pytest.mark.parametrize("updates", [0, 2])
def test_axes_are_turned_and_tokens_spread_by_option(updates: int) -> None:
    inference = build(pretrain_turned=updates)
    assert (Phase("pretrain", 1, 2) in inference.schedule) == (updates > 0)
    tell_something(inference.model)
    first = inference.model.sentence_encoder.mean.weight.detach().clone()
    inference.begin(Phase("exact_m_step", 0, 3))
    moved = not torch.equal(first, inference.model.sentence_encoder.mean.weight)
    told = inference.model.sentence_encoder.mean.weight.ne(0).sum(0).tolist() == [1] * 6
    assert moved == told == (updates > 0)


def test_tokens_learn_alone_and_tell_more() -> None:
    torch.manual_seed(0)
    inference = run_to(
        build({"token_axes": True}, token_updates=150, restart_every=40), "token_m_step"
    )
    tell_something(inference.model)
    before = {k: v.clone() for k, v in inference.model.state_dict().items()}
    inference.begin(inference.phase)
    told = [inference.step()["token_loss"] for _ in range(150)]
    assert sum(told[-30:]) < 0.9 * sum(told[:30])
    moved = {
        k.split(".")[0]
        for k, v in inference.model.state_dict().items()
        if not torch.equal(v, before[k])
    }
    assert moved == {"sentence_encoder"}
    assert inference.phase.name == "e_step"


def test_inputs_are_searched_now_and_then_and_the_oldest_go() -> None:
    inference = run_to(build(), "exact_m_step")
    inference.step()
    assert len(inference.searched) == 40
    before = inference.searched.entries["loc"].clone()
    while inference.position % 2:
        inference.search_now_and_then()
        assert torch.equal(inference.searched.entries["loc"], before)
        inference.position += 1
    inference.search_now_and_then()
    after = inference.searched.entries["loc"]
    assert torch.equal(after[:24], before[16:])
    assert not torch.equal(after[24:], before[24:])


@pytest.mark.parametrize(
    ("option", "kind"),
    [({}, EnumeratedFlow), ({"flow_sentences": "sampled", "flow_samples": 3}, SampledFlow)],
)
def test_flow_by_option_and_the_best_sentences_make_it_exact(
    option: dict[str, Any], kind: type
) -> None:
    torch.manual_seed(0)
    inference = build(**option)
    e = inference.model.encode(inference.inputs(4))
    flow = inference.flow(e)
    assert isinstance(flow, kind)
    if kind is EnumeratedFlow:
        exact = gflownet_em.GFlowNetEM.flow(inference, e)
        z = torch.randn(6, 4, 3)
        t = torch.arange(6.0)[:, None, None]
        assert torch.allclose(flow.log_flow(z, t), exact.log_flow(z, t), atol=1e-3)


@pytest.mark.parametrize("model", [{}, {"context": "x"}, {"z0": "sample"}, {"ordered": True}])
def test_a_resumed_inference_equals_an_uninterrupted_one(model: dict[str, Any]) -> None:
    torch.manual_seed(0)
    whole = build(model)
    for stop in (1, 3, 6, 8, 12):
        torch.manual_seed(1)
        while whole.position < stop:
            whole.step()
        file = io.BytesIO()
        torch.save({"inference": whole.state_dict(), "rng": torch.get_rng_state()}, file)
        for _ in range(2):
            whole.step()
        file.seek(0)
        saved = torch.load(file)
        resumed = build(model)
        resumed.load_state_dict(saved["inference"])
        torch.set_rng_state(saved["rng"])
        for _ in range(2):
            resumed.step()
        pairs = zip(
            whole.model.state_dict().items(), resumed.model.state_dict().values(), strict=True
        )
        assert all(torch.equal(a, b) for (_, a), b in pairs)


@pytest.mark.parametrize("odds_cost", [0.0, 2.0])
def test_a_resumed_trial_of_tokens_equals_an_uninterrupted_one(odds_cost: float) -> None:
    chosen = {"token_updates": 6, "token_trials": 2, "restart_every": 2, "odds_cost": odds_cost}
    torch.manual_seed(0)
    whole = run_to(sprites_inference(**chosen), "token_m_step")
    tell_something(whole.model)
    run_to(whole, "token_m_step", 1)
    for _ in range(3):
        whole.step()
    file = io.BytesIO()
    torch.save({"inference": whole.state_dict(), "rng": torch.get_rng_state()}, file)
    run_to(whole, "e_step", 0)
    file.seek(0)
    saved = torch.load(file)
    resumed = sprites_inference(**chosen)
    resumed.load_state_dict(saved["inference"])
    torch.set_rng_state(saved["rng"])
    run_to(resumed, "e_step", 0)
    pairs = zip(whole.model.state_dict().items(), resumed.model.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for (_, a), b in pairs)
    assert whole.trials.worth == resumed.trials.worth
    assert len(whole.trials.worth) == 2
    assert all(whole.trials.worth)
    assert whole.model.language == resumed.model.language


@pytest.mark.parametrize("trials", [1, 2])
def test_tokens_learn_at_equal_prices_and_have_prices_of_their_own_at_last(trials: int) -> None:
    torch.manual_seed(0)
    inference = run_to(
        sprites_inference(token_updates=2, token_trials=trials, odds_cost=2.0), "token_m_step"
    )
    tell_something(inference.model)
    for trial in range(trials):
        run_to(inference, "token_m_step", trial)
        inference.step()
        assert len(set(inference.model.language.token_costs)) == 1
    run_to(inference, "e_step", 0)
    inference.step()
    assert len(set(inference.model.language.token_costs)) > 1


def test_e_steps_temper_the_reward_and_nothing_before_them_does() -> None:
    found = []
    for exponent in (1.0, 0.2):
        torch.manual_seed(0)
        chosen = {"token_updates": 2, "token_trials": 2, "odds_cost": 2.0, "cycles": 1}
        inference = sprites_inference(**chosen, reward_exponent=exponent)
        while inference.phase.name != "e_step":
            assert inference.model.exponent == 1
            inference.step()
        found.append({name: part.clone() for name, part in inference.model.state_dict().items()})
    assert all(torch.equal(part, found[1][name]) for name, part in found[0].items())
    model = inference.model
    plain = model.language
    inference.step()
    assert model.exponent == 0.2
    assert model.language.length_cost == pytest.approx(0.2 * plain.length_cost)
    resumed = sprites_inference(**chosen, reward_exponent=0.2)
    resumed.load_state_dict(inference.state_dict())
    assert resumed.model.exponent == 0.2
    assert resumed.model.language == model.language
    run_to(inference, "m_step", 0)
    inference.step()
    assert model.exponent == 1
    assert model.language == plain


def test_a_reward_exponent_needs_an_e_step_at_the_end() -> None:
    with pytest.raises(
        ValueError, match="reward_exponent acts in E-steps, and the last phase is none"
    ):
        sprites_inference(reward_exponent=0.2, final_e_updates=0)


def test_prices_are_learned_by_the_reward_itself_between_e_steps_too() -> None:
    inference = sprites_inference(odds_cost=2.0, reward_exponent=0.2, cycles=1, m_updates=0)
    found: list[float] = []
    inference.model.learn_prior = lambda q: found.append(inference.model.exponent)
    run_to(inference, "e_step", 1).step()
    assert found == [1.0, 1.0]
    assert inference.model.exponent == 0.2


def test_lost_states_go_to_the_nearest_sentence() -> None:
    torch.manual_seed(0)
    inference = sprites_inference(lost_states=60, stray_sd=(1.0, 2.0))
    model, language = inference.model, inference.model.language
    layer, longer = model.sentence_encoder.mean, sampled.too_long(language)
    assert (longer.min_length, longer.max_length) == (3, 4)  # of 6 tokens; 2 in a sentence
    assert layer.idle.tolist() == [6, 7]
    with torch.no_grad():
        layer.weight.copy_(2 * layer.mask)
    e, _ = inference.posterior_sentences(60)
    z = inference.lost(e.distribution)
    near = 5 * model.epsilon * model.latent**0.5
    assert nearest_sentence(model, z[:30], longer.sentences).distance.max() < near
    assert nearest_sentence(model, z[:30]).distance.min() > 10 * near
    along = (z[30:, None] - model.embed(language.sentences))[..., :6].norm(dim=-1)
    assert along.amin(1).max() < near
    assert (z[30:, 6:] - layer.bias[6:]).abs().median() > 0.5
    with torch.no_grad():
        layer.mask[6:] = 1.0
    assert (
        nearest_sentence(model, inference.lost(e.distribution), longer.sentences).distance.max()
        < near
    )  # none idle
    with torch.no_grad():
        layer.mask[6:] = 0.0
    to = inference.prior_waiting(e)
    n = inference.config.prior_states
    assert len(to.z) == n + 60
    step, home = to.mean[n:] - to.z[n:], model.embed(nearest_sentence(model, to.z[n:]).s) - to.z[n:]
    assert torch.allclose(torch.cosine_similarity(step, home, dim=-1), torch.ones(60), atol=1e-3)
    length, bound = step.norm(dim=-1), 0.9 * model.forward_dynamics.max_step
    assert length.max() <= bound + 1e-5
    assert (length > 0.2 * home.norm(dim=-1).clamp(max=bound)).all()
    assert len(set(to.weight.flatten().tolist())) == 1
    assert math.isfinite(inference.step()["m_loss"])
    assert all(map(math.isfinite, run_to(inference, "e_step").step().values()))


@pytest.mark.parametrize("reward_exponent", [1.0, 0.3])
def test_the_walk_has_the_law_of_its_next_state_over_all_sentences(reward_exponent: float) -> None:
    torch.manual_seed(0)
    chosen = {"walk_law": "exact", "sleep_trajectories": 5, "walk": 4, "first": 0.25, "noise": 0.3}
    inference = sprites_inference(**chosen, reward_exponent=reward_exponent)
    model, kernel = inference.model, inference.go_and_wait
    with torch.no_grad():
        model.sentence_encoder.mean.weight.copy_(model.sentence_encoder.mean.mask)
    model.temper(True)
    e, s, trajectories = inference.sleep(5)
    torch.manual_seed(1)
    to = inference.walking(e, s, trajectories)
    torch.manual_seed(1)
    drawn = super(type(inference), inference).walking(e, s, trajectories)
    z_hat = model.embed(model.language.sentences)
    rows = (kernel.walk, 5)
    mean, sd = (part[: math.prod(rows)].unflatten(0, rows) for part in (to.mean, to.sd))
    for t in range(kernel.walk):
        at = torch.lerp(e.z0[:, None], z_hat, kernel.clock[t])  # (5, S, d)
        log_p = model.log_reward(e.distribution)
        if t:
            log_p = log_p + torch.distributions.Normal(at, kernel.variance[t].sqrt()).log_prob(
                trajectories.z[t][:, None]
            ).sum(-1)
        p = log_p.softmax(-1)[..., None]
        law = kernel.forward_transition(
            torch.tensor([t]), trajectories.z[None, t, :, None].expand(1, 5, len(z_hat), -1).flatten(1, 2),
            e.z0[:, None].expand(5, len(z_hat), -1).flatten(0, 1), z_hat.repeat(5, 1),
        )  # fmt: skip
        step_mean, step_sd = (
            part[0].unflatten(0, (5, len(z_hat))) for part in (law.mean, law.stddev)
        )
        expected = (p * step_mean).sum(1)
        spread = (p * (step_sd.square() + (step_mean - expected[:, None]).square())).sum(1)
        assert torch.allclose(mean[t], expected, atol=1e-5)
        assert torch.allclose(sd[t].square(), spread, rtol=1e-3, atol=1e-7)
    walked, waits = to.mean.split([math.prod(rows), len(to.mean) - math.prod(rows)])
    assert not torch.allclose(walked, drawn.mean[: len(walked)], atol=1e-3)
    assert torch.equal(to.z, drawn.z)
    assert len(waits) > 0
    assert torch.equal(waits, drawn.mean[len(walked) :])  # it waits where it went
    assert torch.allclose(to.sd[len(walked) :], drawn.sd[len(walked) :])
    assert all(map(math.isfinite, run_to(inference, "e_step").step().values()))


def test_the_exact_law_of_a_walk_is_of_sentences_from_the_posterior() -> None:
    with pytest.raises(ValueError, match="with sleep_sentences=prior leave it at 'drawn'"):
        sprites_inference(walk_law="exact", sleep_sentences="prior")


def test_lost_states_need_states_that_wait() -> None:
    with pytest.raises(
        ValueError, match="lost_states weigh as much as prior_states, of which there are none"
    ):
        sprites_inference(lost_states=2, prior_states=0)


def test_where_no_sentence_is_too_long_or_none_factors_fewer_states_are_lost() -> None:
    assert sampled.too_long(Language((1,) * 3)) is None
    assert sampled.too_long(Language((1,) * 3, max_length=2)) == Language(
        (1,) * 3, min_length=3, max_length=3
    )
    inference = build(lost_states=8)  # hierarchical binary vectors
    assert inference.searches
    e, _ = inference.posterior_sentences(4)
    assert len(inference.prior_waiting(e).z) == inference.config.prior_states


def test_tokens_that_never_start_anew_are_refused_a_second_start() -> None:
    for chosen, found in (
        ({"token_updates": 1, "token_trials": 2}, "0 and 2"),
        ({"token_updates": 1, "warm_up_turned": 3}, "3 and 1"),
    ):
        with pytest.raises(
            ValueError, match=f"leave warm_up_turned at 0 and token_trials at 1, not {found}"
        ):
            sprites_inference(**chosen, pretrain_turned=0)
    sprites_inference(token_updates=0, token_trials=2, pretrain_turned=0)


def test_later_m_steps_label_by_what_is_said() -> None:
    torch.manual_seed(0)
    inference = run_to(sprites_inference(label_source="posterior", restart_every=1), "m_step", 0)
    drawn: list[Any] = []
    draw = inference.draw
    inference.draw = lambda n, power=1.0, language=None: (
        drawn.append((n, language)) or draw(n, power, language)
    )
    inference.step()
    assert drawn == [(inference.config.batch, inference.model.language)]


def test_tokens_that_crowd_on_one_axis_are_searched_and_read_by_the_discretizer() -> None:
    torch.manual_seed(0)
    sprites = registry.load("models", "dsprites")
    config = sprites.Config(**{**sprites.PRESETS["smoke"], "groups": (1,) * 20, "max_length": 7})
    data = sprites.load_data(config)
    chosen = {
        **SHORT,
        "pretrain": 1,
        "pretrain_turned": 0,
        "cycles": 0,
        "token_updates": 1,
        "beams": 4,
        "best": 8,
    }
    inference = sampled.build(sprites.build(config, data), data, sampled.Config(**chosen))
    assert not inference.searches
    for layer in (inference.model.sentence_encoder.mean, inference.model.sentence_encoder.sd):
        layer.place(torch.arange(20), torch.zeros(20, dtype=torch.long))
    assert inference.searches
    while not inference.done:
        inference.step()
    assert inference.summary()["tokens_in_use"] >= 1
    assert inference.model.describe(inference.inputs(3), 2).s.shape == (3, 2, 20)


def test_groups_that_come_to_lie_on_one_axis_each_are_read_exactly() -> None:
    torch.manual_seed(0)
    sprites = registry.load("models", "dsprites")
    config = sprites.Config(
        **{**sprites.PRESETS["smoke"], "groups": (5, 5, 5, 5, 4, 4, 4), "max_length": 7}
    )
    data = sprites.load_data(config)
    inference = sampled.build(sprites.build(config, data), data, sampled.Config(**SHORT))
    model = inference.model
    assert inference.searches  # tokens are dealt out in turn
    tell_something(model)
    inference.begin(Phase("exact_m_step", 0, 3))
    assert not inference.searches
    assert isinstance(model.sentence_given_state(torch.zeros(2, config.latent)), FactoredSentences)


def test_nobody_searches_for_who_does_not_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"cycles": 1, "e_updates": 4, "m_updates": 2, "final_e_updates": 3}
    chosen = {**SHORT, **sampled.PRESETS["paper"], **few}
    config = hbv.Config(**{**hbv.PRESETS["smoke"], **hbv.PRESETS["paper"], "steps": 5, "latent": 3})
    data = hbv.load_data(config)
    inference = sampled.build(hbv.build(config, data), data, sampled.Config(**chosen))
    monkeypatch.setattr(
        inference, "add_searched", lambda n: pytest.fail("the text draws from trajectories alone")
    )
    while not inference.done:
        inference.step()


def test_flows_of_the_best_are_refused_where_the_reward_sees_the_state() -> None:
    with pytest.raises(ValueError, match="'best' needs a reward without z_T"):
        build({"decodability": "posterior"})


def sprites_inference(
    label_length: int = 4, odds_cost: float = 0.0, reward_exponent: float = 1.0, **settings: Any
) -> Any:
    sprites = registry.load("models", "dsprites")
    of_model = {
        "length_cost": 3.0,
        "max_length": 2,
        "odds_cost": odds_cost,
        "reward_exponent": reward_exponent,
    }
    config = sprites.Config(**{**sprites.PRESETS["smoke"], **of_model})
    data = sprites.load_data(config)
    chosen = {**SHORT, "label_costs": (-3.0, 9.0, -6.0), "label_length": label_length, **settings}
    return sampled.build(sprites.build(config, data), data, sampled.Config(**chosen))


@pytest.mark.parametrize("odds_cost", [0.0, 2.0])
def test_labels_are_of_a_longer_language_with_prices_of_their_own(odds_cost: float) -> None:
    torch.manual_seed(0)
    inference = run_to(sprites_inference(token_updates=5, odds_cost=odds_cost), "exact_m_step")
    lengths, costs = {}, {}
    asked: list[Any] = []
    posterior = inference.model.posterior
    while inference.phase.name != "e_step":
        step = (inference.phase.name, inference.progress >= 0.4)
        language = inference.labelling
        assert not language.token_costs
        inference.model.posterior = posterior
        said, label = (inference.draw(200, 1.0, part)[2].sum(-1) for part in (None, language))
        assert said.max() <= 2
        lengths[step], costs[step] = float(label.mean()), language.length_cost
        asked.clear()
        inference.model.posterior = lambda q, language=None: (
            asked.append(language) or posterior(q, language)
        )
        inference.step()
        assert asked[-1] == language
    assert [costs["exact_m_step", late] for late in (False, True)] == [-3.0, -3.0]
    assert [costs["token_m_step", late] for late in (False, True)] == [9.0, -6.0]
    assert lengths["token_m_step", False] < 2 < 3.5 < lengths["token_m_step", True]
    asked.clear()
    inference.posterior_sentences(3)
    assert asked == [None]


def test_tokens_that_learn_alone_start_anew_by_what_is_said() -> None:
    torch.manual_seed(0)
    inference = run_to(
        sprites_inference(warm_up=4, token_updates=4, restart_every=2), "exact_m_step"
    )
    drawn: list[Any] = []
    draw = inference.draw
    inference.draw = lambda n, power=1.0, language=None: (
        drawn.append((n, language)) or draw(n, power, language)
    )
    expected = []
    while inference.phase.name != "e_step":
        expected.append(inference.labelling if inference.phase.name == "exact_m_step" else None)
        inference.step()
    restarts = [language for n, language in drawn if n == sampled.RESTART_INPUTS]
    assert restarts == [expected[2], None]


@pytest.mark.parametrize(("updates", "named"), [(2, 3), (2, 2), (2, 0), (0, 3)])
def test_axes_are_turned_and_tokens_start_before_each_warm_up(
    updates: int, named: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str, int]] = []
    asked: list[int] = []
    chosen = {} if named == 3 else {"clusters_named": named}  # 3 is the default
    inference = sprites_inference(token_updates=updates, warm_up_turned=3, odds_cost=2.0, **chosen)

    def record(name: str, clusters_named: int | None = None, **_: Any) -> None:
        done.append((name, *inference.phase[:2]))
        if clusters_named is not None:
            asked.append(clusters_named)

    for name in ("turn_axes", "spread_tokens", "settle_silence"):
        monkeypatch.setattr(sampled, name, lambda *_, name=name, **options: record(name, **options))
    inference.model.learn_prior = lambda q: record("learn_prior")
    while inference.phase.name != "e_step":
        inference.step()
    inference.step()
    expected = [
        ("turn_axes", "pretrain", 1), ("spread_tokens", "exact_m_step", 0),
        ("turn_axes", "pretrain", 2), ("spread_tokens", "exact_m_step", 1), ("spread_tokens", "token_m_step", 0),
        ("settle_silence", "e_step", 0), ("learn_prior", "e_step", 0),
    ]  # fmt: skip
    if not updates:
        del expected[4:6]
    elif not named:
        del expected[5]
    assert done == expected
    assert asked == [named] * (updates > 0)
    assert inference.position == 2 + 2 + 3 + 2 + 3 + updates + 1


def test_of_several_trials_the_tokens_that_are_worth_most_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    inference = run_to(sprites_inference(token_updates=4, token_trials=3), "token_m_step")
    tell_something(inference.model)
    encoder = inference.model.sentence_encoder
    ends: list[dict[str, Any]] = []
    combined: list[int] = []
    asked: list[Any] = []
    worth = sampled.worth
    monkeypatch.setattr(
        sampled, "worth", lambda q, s, z_hat: asked.append(q.loc) or worth(q, s, z_hat)
    )

    def combine(model: Any, q: Any, trials: Any, costs: Any) -> float:
        assert costs == []
        same = [
            all(torch.equal(part, of[name]) for name, part in encoder.state_dict().items())
            for of in trials
        ]
        assert [list(trial) for trial in trials] == [list(encoder.state_dict())] * 3
        assert len(q.loc) == sampled.TRIAL_INPUTS
        assert torch.equal(q.loc, asked[0])
        combined.append(same.index(True))
        return 7.0

    monkeypatch.setattr(sampled, "combine", combine)
    for trial in range(3):
        start = encoder.mean.weight.detach().clone()
        inference.step()
        assert trial == 0 or not torch.equal(
            start, encoder.mean.weight
        )  # tokens have started once more
        assert [float(state["step"]) for state in inference.optimizer_tokens.state.values()] == [
            1.0
        ] * 4
        while inference.phase == Phase("token_m_step", trial, 4):
            metrics = inference.step()
        assert metrics["worth"] == inference.trials.worth[trial]
        assert ("worth_combined" in metrics) == (trial == 2)
        if trial < 2:
            ends.append({name: part.clone() for name, part in encoder.state_dict().items()})
            assert all(
                torch.equal(part, ends[-1][name])
                for name, part in inference.trials.tokens[trial].items()
            )
    assert inference.phase.name == "e_step"
    assert len(set(inference.trials.worth)) == 3
    assert combined == [inference.trials.worth.index(max(inference.trials.worth))]
    assert metrics["worth_combined"] == 7.0
    assert len(asked) == 3
    assert all(torch.equal(loc, asked[0]) for loc in asked)  # the same inputs


@pytest.mark.parametrize("first", [0, 1])
def test_the_best_trial_is_kept_whole_where_sentences_do_not_factor(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    inference = run_to(
        sprites_inference(token_updates=2, token_trials=2, odds_cost=2.0), "token_m_step"
    )
    tell_something(inference.model)
    monkeypatch.setattr(
        sampled, "worth", lambda q, s, z_hat: float(len(inference.trials.worth) == first)
    )
    run_to(inference, "token_m_step", 1)  # at its end the first trial has prices by share
    inference.model.reward_floor = -50.0
    assert inference.searches
    run_to(inference, "e_step")
    trials, model = inference.trials, inference.model
    assert trials.best == first
    state = model.sentence_encoder.state_dict()
    assert all(torch.equal(part, trials.tokens[first][name]) for name, part in state.items())
    assert not torch.equal(trials.costs[0], trials.costs[1])
    assert torch.equal(model.token_costs, trials.costs[first])
    assert model.language.token_costs == tuple(trials.costs[first].tolist())


def test_label_costs_are_three_or_none() -> None:
    with pytest.raises(ValueError, match=r"label_costs are three, .*, or none: not \(1.0,\)"):
        sprites_inference(label_costs=(1.0,))
    inference = run_to(
        sprites_inference(label_costs=(), odds_cost=2.0, token_updates=2), "exact_m_step"
    )
    assert inference.labelling == replace(inference.model.language, max_length=4)
    assert inference.labelling.length_cost == 3.0
    assert inference.labelling.token_costs == pytest.approx((2 * math.log(2),) * 6)


def test_a_single_cluster_is_not_named() -> None:
    with pytest.raises(ValueError, match="clusters_named must be 2 or more, or 0 for none, not 1"):
        sprites_inference(clusters_named=1)


def test_labels_that_are_searched_are_of_the_language_itself() -> None:
    inference = build(label_length=2, label_costs=(3.0,) * 3)
    assert inference.labelling == inference.model.language


def test_labels_are_of_the_language_itself_where_the_longer_one_has_too_many_sentences_on_an_axis() -> (
    None
):
    sprites = registry.load("models", "dsprites")
    config = sprites.Config(**{**sprites.PRESETS["smoke"], "groups": (1,) * 14, "max_length": 2})
    data = sprites.load_data(config)
    chosen = {**SHORT, "pretrain": 0, "pretrain_turned": 0, "label_length": 8}
    inference = sampled.build(sprites.build(config, data), data, sampled.Config(**chosen))
    assert inference.labelling.longest == 8
    inference.model.sentence_encoder.mean.place(torch.arange(14), torch.zeros(14, dtype=torch.long))
    assert not inference.searches
    assert inference.labelling == inference.model.language
    inference.exact_m_step()
