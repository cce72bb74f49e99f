"""A prior of one's own, one method: rewards, policies, exact sums and the Pyro site follow it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from pyro import poutine
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences, factors
from plot_attractors.language.policy import draw_prior, prior_policy

from ..attractors import HBV, inputs, program_of, with_data


@dataclass(frozen=True)
class TwoTokens(Language):
    """Sentences of two tokens are likeliest."""

    def log_weight(self, length: Tensor) -> Tensor:
        return -2.0 * (length - 2).square()


LANGUAGES = [TwoTokens((1,) * 5, 0), TwoTokens((2, 2, 1), 1), TwoTokens((1,) * 4, 1, 3, True)]


def expected(language: Language, power: float = 1.0) -> Tensor:
    length = language.length(language.sentences).double()
    return (-2.0 * power * (length - 2).square()).softmax(-1)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("power", [1.0, 0.3])
def test_whatever_knows_the_prior_knows_it(language: Language, power: float) -> None:
    of, p = language.power(power), expected(language, power)
    s = language.sentences.double()
    torch.testing.assert_close(of.log_prior(s).exp(), p)
    policy = prior_policy(of, (len(s),))
    torch.testing.assert_close(policy.log_prob(s).double(), p.log(), atol=1e-5, rtol=1e-5)
    if not language.ordered:
        part = tuple(range(len(language.groups)))
        of_token = tuple(part[int(k)] for k in language.token_group)
        split = factors(of, of_token)
        assert split is not None
        flat = torch.zeros(sum(len(f.subsets) for f in split), dtype=torch.float64)
        torch.testing.assert_close(FactoredSentences(of, split, flat).log_prob(s).exp(), p)
        twice = FactoredSentences(language, split, flat).power(power)
        torch.testing.assert_close(twice.log_prob(s).exp(), p)
        more = of.log_prior_of_additions(s)
        shorter = s.sum(-1) < language.longest
        grown = of.log_prior_of_length(s.sum(-1) + 1)
        torch.testing.assert_close(more[0, shorter], grown[shorter])
        torch.testing.assert_close(more[-1], of.log_prior(s))


@pytest.mark.parametrize("language", [*LANGUAGES, TwoTokens((2, 2, 2), 1, 2)])
def test_independent_draws_follow_it(language: Language) -> None:
    torch.manual_seed(0)
    s = draw_prior(language, 20_000)
    drawn = torch.bincount(language.row(s), minlength=language.count) / len(s)
    assert torch.equal(language.sentences[language.row(s)], s)
    assert (drawn - expected(language)).abs().sum() / 2 < 0.02


def test_the_models_site_is_drawn_and_scored_by_it() -> None:
    torch.manual_seed(0)
    _, data = with_data(HBV)
    program, config = program_of(
        "models", "attractor", {k: v for k, v in HBV.items() if k not in ("depth", "bits")}
    )
    language = TwoTokens((2, 2, 2))
    model = program.build(config, data, of_language=language)
    trace = poutine.trace(model.model).get_trace(inputs(10_000))
    drawn = trace.nodes["s"]["value"]
    share = torch.bincount(model.language.row(drawn), minlength=26) / len(drawn)
    p = expected(language).float()
    assert (share - p).abs().sum() / 2 < 0.03
    torch.testing.assert_close(model.reward.log_prior(drawn).exp(), p[language.row(drawn)])
    alone = torch.bincount(model.language.row(model.draw_prior(10_000)), minlength=26) / 10_000
    assert (alone - p).abs().sum() / 2 < 0.03
