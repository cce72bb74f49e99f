"""The phases in which tokens get their embeddings: what they learn from, and when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.training import At, ExactSentences, MStep, MStepConfig, Phase, Schedule
from plot_attractors.training.vocabulary import phases
from plot_attractors.training.vocabulary.phases import VocabularyLearning

from .models import build_model as build

LANGUAGE = Language((1,) * 6, min_length=0, max_length=2, length_cost=3.0)


@pytest.fixture(autouse=True)
def labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels that are unlike sentences."""
    monkeypatch.setattr(phases, "LABEL_COSTS", (-3.0, 9.0, -6.0))
    monkeypatch.setattr(phases, "LABEL_LENGTH", 4)


def bits(n: int) -> Tensor:
    return torch.randint(2, (n, 3)).float()


def learn(model: Any, updates: int) -> VocabularyLearning:
    return VocabularyLearning(
        model, MStep(model, bits, MStepConfig(), 16), updates, ExactSentences(model)
    )


def learning(
    updates: int = 4, rotation: int = 0, more: int = 0, **options: Any
) -> VocabularyLearning:
    """Six tokens, at most two in a sentence, and inputs of three independent bits."""
    torch.manual_seed(0)
    v = learn(build(**{"sd": 0.2, "shape": (3,), "language": LANGUAGE, **options}), 3)
    v.updates, v.rotation, v.more = updates, rotation, more
    return v


def schedule(v: VocabularyLearning) -> Schedule:
    e_step = Phase("e_step", 0, 1, lambda _: {})
    state = {"phi": v.m_step.optimizer, **v.state}
    return Schedule(v.model, [*v.phases(pretrain=2, warm_up=3), e_step], state)


def spied(v: VocabularyLearning) -> list[tuple[int, float, Any]]:
    """What is asked of `v.draw` from now on."""
    draw, asked = v.draw, list[tuple[int, float, Any]]()

    def spy(n: int, power: float, language: Language | None) -> Any:
        asked.append((n, power, language))
        return draw(n, power, language)

    v.draw = spy
    return asked


def test_axes_are_rotated_and_tokens_spread_before_each_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    v = learning(updates=4, rotation=2, more=3, sd=None)
    s, done = schedule(v), list[str]()
    for name in ("rotate_axes", "spread_tokens", "spread_pairs"):
        monkeypatch.setattr(phases, name, lambda *_, name=name: done.append(name))
    while s.phase.name != "e_step":
        s.step()
        done.append(f"{s.phase.name} {s.phase.cycle}")
    events = [event for i, event in enumerate(done) if event != done[i - 1]]
    expected = "pretrain 0,pretrain 1,rotate_axes,pretrain 1,warm_up 0,spread_tokens,warm_up 0,"
    expected += "pretrain 2,rotate_axes,pretrain 2,warm_up 1,spread_tokens,warm_up 1,"
    expected += "tokens 0,spread_pairs,tokens 0,e_step 0,"
    assert ",".join([*events, ""]) == expected
    v = learn(build(shape=(3,)), 1000)  # lengths are in proportion
    assert [p.updates for p in v.phases(7, 9)] == [7, 250, 9, 250, 750, 1000]


def test_labels_are_of_a_longer_language_with_costs_of_its_own() -> None:
    v, longer = learning(), replace(LANGUAGE, max_length=4)
    asked, labels = spied(v), list[Language]()
    v.m_step.sharpened = lambda _, sharpness, language: labels.append(language) or {}
    v.warm_up(At(0, 0.0))
    for progress in (0.0, 0.39, 0.4, 0.9):
        v.update(At(1, progress))
    assert labels == [replace(longer, length_cost=-3.0)]
    costs = [9.0, 9.0, -6.0, -6.0]
    assert asked == [(128, 16.0, replace(longer, length_cost=cost)) for cost in costs]
    v.spread()
    lengths = [v.draw(500, 1.0, v.label_language(part))[1].sum(-1).mean() for part in (1, 2)]
    assert lengths[0] < 2 < 3.5 < lengths[1]


def test_an_inverse_temperature_acts_in_no_phase_of_the_vocabulary() -> None:
    result = []
    for beta in (1.0, 0.2):
        s = schedule(learning(inverse_temperature=beta))
        while not s.done:
            s.step()
        result.append(s.model.state_dict())
    assert all(torch.equal(part, result[1][name]) for name, part in result[0].items())


@pytest.mark.parametrize(
    ("updates", "options", "sentence"),
    [
        (1, {"axes": False}, "an axis each: set token_axes=true, or vocabulary=0"),
        (4, {"sd": 0.2}, r"those of KnownEncoder: leave vocabulary at 0"),
    ],
)
def test_models_that_do_not_fit_are_refused(updates: int, options: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        learn(build(**options), updates)
