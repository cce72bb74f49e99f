"""The phases in which tokens get their embeddings: what they learn from, and when."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.training import At, ExactSentences, MStep, MStepConfig, Phase, Schedule
from plot_attractors.training.vocabulary import Vocabulary, VocabularyLearning, phases

LANGUAGE = Language((1,) * 6, min_length=0, max_length=2, length_cost=3.0)
SHORT: dict[str, Any] = {
    "rotate": 0, "second_warm_up": 0, "updates": 4, "label_costs": (-3.0, 9.0, -6.0),
    "label_length": 4,
}  # fmt: skip


def bits(n: int) -> Tensor:
    return torch.randint(2, (n, 3)).float()


def learning(
    build: Any, beta: float = 1.0, sd: float | None = 0.2, **chosen: Any
) -> VocabularyLearning:
    """Six tokens, at most two in a sentence, and inputs of three independent bits."""
    torch.manual_seed(0)
    options = {"language": LANGUAGE, "inverse_temperature": beta}
    model = build(sd=sd, shape=(3,), **options)
    m_step = MStep(model, bits, MStepConfig(), 16)
    return VocabularyLearning(
        model, m_step, Vocabulary(**{**SHORT, **chosen}), ExactSentences(model)
    )


def schedule(v: VocabularyLearning) -> Schedule:
    e_step = Phase("e_step", 0, 1, lambda _: {})
    state = {"phi": v.m_step.optimizer, **v.state}
    return Schedule(v.model, [*v.phases(pretrain=2, warm_up=3), e_step], state)


def run_to(s: Schedule, name: str, cycle: int = 0) -> dict[str, float]:
    """The metrics of the last update before this phase."""
    metrics: dict[str, float] = {}
    while (s.phase.name, s.phase.cycle) != (name, cycle):
        metrics = s.step()
    return metrics


def spied(v: VocabularyLearning) -> list[tuple[int, float, Any]]:
    """What is asked of `v.draw` from now on."""
    draw, asked = v.draw, list[tuple[int, float, Any]]()

    def spy(n: int, power: float, language: Language | None) -> Any:
        asked.append((n, power, language))
        return draw(n, power, language)

    v.draw = spy
    return asked


@pytest.mark.parametrize(("second", "updates"), [(3, 4), (0, 0)])
def test_axes_are_rotated_and_tokens_spread_before_each_part(
    build: Any, monkeypatch: pytest.MonkeyPatch, second: int, updates: int
) -> None:
    v = learning(build, sd=None, second_warm_up=second, updates=updates, rotate=2)
    s, done = schedule(v), list[str]()
    for name in ("rotate_axes", "spread_tokens", "spread_pairs"):
        monkeypatch.setattr(phases, name, lambda *_, name=name: done.append(name))
    while s.phase.name != "e_step":
        s.step()
        done.append(f"{s.phase.name} {s.phase.cycle}")
    events = [event for i, event in enumerate(done) if event != done[i - 1]]
    expected = "pretrain 0,pretrain 1,rotate_axes,pretrain 1,warm_up 0,spread_tokens,warm_up 0,"
    if second:
        expected += "pretrain 2,rotate_axes,pretrain 2,warm_up 1,spread_tokens,warm_up 1,"
    if updates:
        expected += "tokens 0,spread_pairs,tokens 0,"
    expected += "e_step 0,"
    assert ",".join([*events, ""]) == expected


def test_layers_that_the_phases_do_not_know_are_refused(build: Any) -> None:
    with pytest.raises(ValueError, match=r"those of KnownEncoder: leave vocabulary at 0"):
        learning(build, rotate=1)
    model = build(sd=0.2, shape=(3,))
    m_step, known = MStep(model, bits, MStepConfig()), model.sentence_encoder
    model.sentence_encoder = torch.nn.Sequential(known)  # whose forward is the same
    with pytest.raises(ValueError, match="is a Sequential: leave vocabulary at 0"):
        VocabularyLearning(model, m_step, Vocabulary(**SHORT), ExactSentences(model))


def test_tokens_learn_alone_and_tell_more(build: Any) -> None:
    v = learning(build, updates=120, label_costs=(3.0,) * 3, label_length=2)
    s = schedule(v)
    run_to(s, "tokens")
    before = {k: p.clone() for k, p in v.model.state_dict().items()}
    loss = [s.step()["token_loss"] for _ in range(120)]
    assert sum(loss[-20:]) < 0.9 * sum(loss[:20])
    state = v.model.state_dict()
    moved = {k.split(".")[0] for k, p in state.items() if not torch.equal(p, before[k])}
    assert moved == {"sentence_encoder"}
    assert v.optimizer.param_groups[0]["lr"] == pytest.approx(5e-3 * 0.02, rel=0.1)


def test_labels_are_of_a_longer_language_with_costs_of_its_own(build: Any) -> None:
    v, longer = learning(build), replace(LANGUAGE, max_length=4)
    asked, labels = spied(v), list[Language]()
    v.m_step.sharpened = lambda _, sharpness, language: labels.append(language) or {}
    v.warm_up(At(0, 0.0, False))
    for progress in (0.0, 0.39, 0.4, 0.9):
        v.update(At(1, progress, False))
    assert labels == [replace(longer, length_cost=-3.0)]
    costs = [9.0, 9.0, -6.0, -6.0]
    assert asked == [(128, 16.0, replace(longer, length_cost=cost)) for cost in costs]
    v.spread()
    lengths = [v.draw(500, 1.0, v.label_language(part))[1].sum(-1).mean() for part in (1, 2)]
    assert lengths[0] < 2 < 3.5 < lengths[1]


@pytest.mark.parametrize(
    ("position", "progress", "due"),
    [(100, 0.5, True), (150, 0.5, False), (100, 0.0, False), (100, 0.9, False), (0, 0.1, True)],
)
def test_tokens_are_reset_now_and_then(
    build: Any, position: int, progress: float, due: bool
) -> None:
    v = learning(build)
    asked, at = spied(v), At(position, progress, False)
    v.update(at)  # by what will be sampled
    v.warm_up(at)  # by labels
    expected = [(512, 1.0, None), (512, 1.0, v.label_language(0))] if due else []
    assert [result for result in asked if result[0] == 512] == expected


def test_tokens_start_anew_where_they_learn_alone(build: Any) -> None:
    v = learning(build)
    s, encoder = schedule(v), v.model.sentence_encoder
    run_to(s, "tokens")
    s.step()
    start = float(encoder.mean.weight.detach().abs().sum())
    assert start == pytest.approx(3 * 0.87, rel=0.1)  # of a bit's sd, both ways along three axes


def test_resumed_tokens_equal_uninterrupted_ones(build: Any) -> None:
    whole, resumed = (schedule(learning(build)) for _ in range(2))
    run_to(whole, "tokens")
    for _ in range(3):
        whole.step()
    file = io.BytesIO()
    torch.save(whole.state_dict(), file)
    file.seek(0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for s in (whole, resumed):
        torch.manual_seed(7)
        run_to(s, "e_step")
        s.step()
    other = resumed.model.state_dict()
    assert all(torch.equal(a, other[name]) for name, a in whole.model.state_dict().items())


def test_an_inverse_temperature_acts_in_no_phase_of_the_vocabulary(build: Any) -> None:
    result = []
    for beta in (1.0, 0.2):
        s = schedule(learning(build, beta=beta))
        while not s.done:
            s.step()
        result.append(s.model.state_dict())
    assert all(torch.equal(part, result[1][name]) for name, part in result[0].items())


def test_settings_and_models_that_do_not_fit_are_refused(build: Any) -> None:
    with pytest.raises(ValueError, match="label_length must be from 1 to 1,000,000, not 0"):
        Vocabulary(label_length=0)
    with pytest.raises(ValueError, match=r"sparsity must be from 0 to 1,000,000, not -0\.1"):
        Vocabulary(sparsity=-0.1)
    with pytest.raises(ValueError, match="updates must be from 0"):
        Vocabulary(updates=-1)
    model = build(axes=False)
    m_step, sentences = MStep(model, bits, MStepConfig()), ExactSentences(model)
    with pytest.raises(ValueError, match=r"set vocabulary to 2 or more, or token_axes"):
        VocabularyLearning(model, m_step, Vocabulary(free=0), sentences)
    model = build(language=Language((1,) * 6, 1, 2, ordered=True), axes=False)
    m_step, sentences = MStep(model, bits, MStepConfig()), ExactSentences(model)
    with pytest.raises(ValueError, match="in bags of words, not in ordered sequences"):
        VocabularyLearning(model, m_step, Vocabulary(), sentences)


def test_a_linear_encoder_begins_at_the_learned_tokens_and_leaves_their_axes(build: Any) -> None:
    torch.manual_seed(0)
    language = replace(LANGUAGE, length_cost=0.0)
    model = build(sd=0.2, shape=(3,), language=language, axes=False)
    m_step = MStep(model, bits, MStepConfig(), 16)
    config = Vocabulary(**{**SHORT, "free": 40})
    v = VocabularyLearning(model, m_step, config, ExactSentences(model))
    s = schedule(v)
    run_to(s, "tokens")
    first = model.sentence_encoder.mean.weight.clone()
    run_to(s, "warm_up", 2)
    assert v.spoken is v.sentences
    v.release()
    tokens, own = v.model.sentence_encoder, model.sentence_encoder
    every = language.sentences
    assert not torch.equal(own.mean.weight, first)
    assert torch.allclose(own(every).loc, tokens(every).loc, atol=1e-6)
    assert (own(every).scale / tokens(every).scale).log().abs().max() < 0.3
    rates = [group["lr"] for group in m_step.optimizer.param_groups]
    run_to(s, "e_step")
    assert v.spoken.model is model
    off_axis = (1 - tokens.mean.mask) * own.mean.weight
    assert off_axis.abs().max() > 1e-3
    assert model.posterior.factors() is None
    assert [group["lr"] for group in m_step.optimizer.param_groups] == rates


def test_an_l1_penalty_leaves_small_weights_of_a_linear_encoder_at_zero(build: Any) -> None:
    language, kept = replace(LANGUAGE, length_cost=0.0), []
    for sparsity in (0.0, 0.9):
        torch.manual_seed(0)
        model = build(sd=0.2, shape=(3,), language=language, axes=False)
        m_step = MStep(model, bits, MStepConfig(), 16)
        config = Vocabulary(**{**SHORT, "free": 100, "sparsity": sparsity})
        s = schedule(VocabularyLearning(model, m_step, config, ExactSentences(model)))
        run_to(s, "e_step")
        kept.append(int((model.sentence_encoder.mean.weight != 0).sum()))
    assert kept[0] == model.sentence_encoder.mean.weight.numel()
    assert kept[1] < kept[0] - 3


def test_a_linear_encoder_that_is_stopped_goes_on_with_the_same_tokens(build: Any) -> None:
    def start() -> Schedule:
        torch.manual_seed(0)
        model = build(sd=0.2, shape=(3,), language=LANGUAGE, axes=False)
        m_step = MStep(model, bits, MStepConfig(), 16)
        return schedule(
            VocabularyLearning(
                model, m_step, Vocabulary(**{**SHORT, "free": 2}), ExactSentences(model)
            )
        )

    whole = start()
    run_to(whole, "tokens")
    file = io.BytesIO()
    torch.save(whole.state_dict(), file)
    random = torch.get_rng_state()
    run_to(whole, "e_step")
    again = start()
    file.seek(0)
    again.load_state_dict(torch.load(file, weights_only=False))
    torch.set_rng_state(random)
    run_to(again, "e_step")
    for name, part in whole.model.state_dict().items():
        assert torch.equal(part, again.model.state_dict()[name]), name
