"""Sentences by the reward alone follow the exact posterior, for every setting of the reward."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.language.policy import TabulatedSentences
from plot_attractors.training import ExactSentences, SampledSentences, Sampling
from plot_attractors.training.sentences import pareto_shape, temperatures

from .models import build_model as build


@contextmanager
def nothing_exact() -> Iterator[None]:
    """No sentences can be listed, and no sums over them taken."""

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a sum over all sentences")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Language, "sentences", property(refused))
        for kind in (FactoredSentences, TabulatedSentences):
            patch.setattr(kind, "__init__", refused)
        yield


def sampled(model: Any, *config: int) -> SampledSentences:
    return SampledSentences(model, model.add_sentence_policy(), Sampling(*config))


def inputs(n: int = 1) -> Normal:
    """Three inputs, n times."""
    loc = torch.tensor([[0.5, -0.2, 0.1], [-0.4, 0.6, 0.0], [0.0, 0.0, 0.9]])
    loc = loc.repeat_interleave(n, 0)
    return Normal(loc, torch.full_like(loc, SD))


def frequency(language: Language, s: Tensor) -> Tensor:
    """(3, count) of sentences s (3 n, width)."""
    row = language.row(s).reshape(3, -1)
    return torch.stack([torch.bincount(r, minlength=language.count) for r in row]) / row.shape[1]


def test_powers_rise_in_equal_ratios() -> None:
    assert temperatures(1, 16.0) == [16.0]
    assert temperatures(3) == pytest.approx([0.01, 0.1, 1.0])
    assert temperatures(3, 16.0) == pytest.approx([0.01, 0.1, 1.0, 10.0, 16.0])


@pytest.mark.parametrize("k", [0.3, 0.9])
def test_the_shape_of_a_pareto_tail(k: float) -> None:
    log_w = torch.distributions.Exponential(1 / k).sample((8, 20_000))
    result = [pareto_shape(w) for w in log_w]
    assert sum(result) / 8 == pytest.approx(k, abs=0.1)
    assert pareto_shape(torch.zeros(100)) == 0
    assert math.isfinite(pareto_shape(200 * torch.randn(256)))


SD = 0.3
SETTINGS = [
    {"decodability": factor, "inverse_temperature": beta}
    for factor, beta in itertools.product(("none", "posterior", "density"), (1.0, 0.5))
]
INVOLVED = [s for s in SETTINGS if s["decodability"] != "none" and s["inverse_temperature"] == 1]


def of_setting(setting: dict[str, Any], **options: Any) -> Any:
    """A model of 22 sentences, of widths that differ, so that the factor in z_T tells."""
    model = build(axes=False, sd=SD, **setting, **options)
    torch.manual_seed(3)
    for p in model.sentence_encoder.parameters():
        nn.init.normal_(p, std=0.5)
    return model


def without_factor(model: Any, q: Normal) -> Tensor:
    """(B, S) the posterior of the same reward but for its factor in z_T."""
    factor, model.reward.decodability = model.reward.decodability, "none"
    log_p: Tensor = model.posterior.log_prob(q).detach()
    model.reward.decodability = factor
    return log_p


class Tabulated:
    """A sentence policy that is the judge's posterior, or another table of inputs."""

    def __init__(self, model: Any, table: Any = None) -> None:
        self.model, self.table = model, table or model.posterior.log_prob

    def __call__(self, z: Tensor, z0: Tensor, explore: float = 0.0) -> Any:
        found = TabulatedSentences(self.table(Normal(z, SD)).detach(), self.model.language)

        def draw(n: torch.Size) -> tuple[Tensor, Tensor]:
            s = found.sample(n)
            return s, found.log_prob(s)

        found.draw = draw  # type: ignore[attr-defined]
        return found


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_policys_loss_is_zero_at_the_judges_posterior(setting: dict[str, Any]) -> None:
    """Its summary then has equal weights and the exact log Z, and so have resampled candidates."""
    model, q = of_setting(setting), inputs()
    log_z = model.reward.log_pairs(q, model.sentences).logsumexp(-1).mean().detach()
    for config in ((8, 1), (8, 3)):
        exact = SampledSentences(model, Tabulated(model), Sampling(*config))
        assert float(exact.policy_loss(q)) < 1e-5
        result = exact.summary(model.encode(q.loc), 64)
        assert result["policy_ess"] == pytest.approx(1, abs=1e-4)
        if config[1] == 1:
            assert result["log_z"] == pytest.approx(float(log_z), abs=2e-3)
    if setting in INVOLVED:
        wrong = Tabulated(model, lambda q: without_factor(model, q))
        assert float(SampledSentences(model, wrong, Sampling(8)).policy_loss(q)) > 1e-2


RESAMPLED, ANNEALED = (64, 1), (32, 6)


@pytest.mark.parametrize(
    ("setting", "power", "beta", "config"),
    [
        *((setting, 1.0, None, way) for setting in INVOLVED for way in (RESAMPLED, ANNEALED)),
        ({"inverse_temperature": 2.0}, 1.0, 0.3, RESAMPLED),
        ({"inverse_temperature": 2.0}, 4.0, 1.0, ANNEALED),
    ],
)
def test_draws_follow_the_judges_posterior(
    setting: dict[str, Any], power: float, beta: float | None, config: tuple[int, int]
) -> None:
    """Within noise: of n exact draws TV is at most ½ √(S / n) on average, and √(14 / 2n) more with
    probability e⁻¹⁴ (McDiarmid); 0.03 is for candidates that are few.
    """
    involved, n = setting in INVOLVED, 2000
    model = of_setting(setting) if involved else build(axes=False, sd=SD, **setting)
    sampled = SampledSentences(model, model.add_sentence_policy(), Sampling(*config))
    with nullcontext() if involved else nothing_exact():
        s = sampled.draw(inputs(n), power, beta=beta)
    exact = ExactSentences(model).draw(inputs(n), power, beta=beta)
    bound = 0.5 * (model.language.count / n) ** 0.5 + (14 / (2 * n)) ** 0.5
    p = (power * model.posterior.log_prob(inputs(), beta)).softmax(-1)
    for drawn, more in ((s, 0.03), (exact, 0.0)):
        share = frequency(model.language, drawn)
        assert (0.5 * (share - p).abs().sum(-1)).max() < bound + more
    if involved:
        plain = without_factor(model, inputs()).exp()
        assert (0.5 * (frequency(model.language, s) - plain).abs().sum(-1)).max() > bound + 0.03


def test_draws_of_another_language() -> None:
    """P(s | z) and the policy are over the sentences of the model's language."""
    longer = Language((1,) * 6, min_length=1, max_length=4, length_cost=0.5)
    for factor, *config in ("posterior", 4, 3), ("none", 4, 1):
        refused = sampled(of_setting({"decodability": factor}), *config)
        assert not refused.can_speak(longer)
        with pytest.raises(ValueError, match=r"without P\(s \| z_T\): set sentences\.temp"):
            refused.draw(inputs(), language=longer)
    model = build(sd=SD)
    sentences = sampled(model, 32, 6)
    assert sentences.can_speak(longer)
    with nothing_exact():
        s = sentences.draw(inputs(2000), language=longer)
    p = ExactSentences(model).draw(inputs(20_000), language=longer)
    tv = 0.5 * (frequency(longer, s) - frequency(longer, p)).abs().sum(-1)
    assert tv.max() < 0.5 * (longer.count / 2000) ** 0.5 + 0.04  # of exact draws 0.08 or less
