"""Every distribution over sentences sums to one, and samples what it scores."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from plot_attractors.baselines.emergent_communication import SlotSentences
from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences, factors
from plot_attractors.language.policy import SentencePolicy, TabulatedSentences

Make = Callable[[tuple[int, ...]], Any]


def policy(language: Language, canonical: bool = True, explore: float = 0.0) -> Make:
    """Logits that depend strongly on the partial sentence and on the element of the batch."""

    def make(batch: tuple[int, ...]) -> SentencePolicy:
        width = language.width + 1
        weight, hidden = 3 * torch.randn(width, 12), torch.randn(12, language.width)
        weight, hidden, bias = weight.double(), hidden.double(), torch.randn(*batch, 12).double()

        def logits(partial: Tensor) -> Tensor:
            return torch.tanh(partial.double() @ hidden.T + bias) @ weight.T

        return SentencePolicy(logits, language, batch, canonical, explore)

    return make


def tabulated(language: Language) -> Make:
    def make(batch: tuple[int, ...]) -> TabulatedSentences:
        logits = torch.randn(*batch, language.count, dtype=torch.float64)
        return TabulatedSentences(logits, language)

    return make


def factored(language: Language, part: tuple[int, ...]) -> Make:
    def make(batch: tuple[int, ...]) -> FactoredSentences:
        of = factors(language, part)
        assert of is not None
        rows = sum(len(f.subsets) for f in of)
        scores = 2 * torch.randn(*batch, rows, dtype=torch.float64)
        return FactoredSentences(language, of, scores)

    return make


def slots(language: Language) -> Make:
    """The sender's, of emergent communication."""

    def make(batch: tuple[int, ...]) -> SlotSentences:
        choices = language.width + len(language.groups)
        weight, bias = 2 * torch.randn(language.width, choices), torch.randn(*batch, choices)
        return SlotSentences(
            lambda s: (s.double() @ weight.double()).sin() + bias.double(), language, batch
        )

    return make


PAIRS = Language((2, 2, 2))
COSTS = Language((1,) * 6, 1, 3, 0.2)
CASES: dict[str, Make] = {
    "canonical": policy(PAIRS),
    "canonical, exploring": policy(PAIRS, explore=0.3),
    "canonical, two tokens at least": policy(Language((2, 2, 2, 2), min_length=2)),
    "any order": policy(PAIRS, False),
    "any order, none to two of three": policy(Language((2, 1, 2), 0, 2), False, 0.1),
    "the paper's": policy(Language((2,) * 6)),
    "tabulated": tabulated(PAIRS),
    "factored, none to four tokens": factored(Language((1,) * 7, 0, 4), (0, 0, 2, 2, 2, 5, 0)),
    "factored, two at least": factored(Language((1,) * 6, 2, 3, 0.7), (1, 0, 1, 0, 1, 0)),
    "factored, exclusive groups": factored(
        Language((2, 3, 1), length_cost=-0.3), (0, 0, *(4,) * 4)
    ),
    "factored, Gricean": factored(COSTS, (0, 1, 1, 0, 2, 2)),
    "slots": slots(PAIRS),
    "slots, two or three tokens": slots(Language((1,) * 5, 2, 3)),
}
cases = pytest.mark.parametrize("name", CASES)


def table(distribution: Any) -> Tensor:
    """(…, count) log-probabilities of all sentences."""
    return torch.stack([distribution.log_prob(s) for s in distribution.language.sentences], -1)


@cases
def test_sums_to_one(name: str) -> None:
    distribution = CASES[name]((5,))
    log_p = table(distribution)
    assert torch.allclose(log_p.exp().sum(-1), torch.ones(5, dtype=torch.float64), atol=1e-6)
    assert log_p.exp().std() > 0.1 / distribution.language.count, "uniform ones would prove nothing"


@pytest.mark.parametrize("name", [n for n in CASES if isinstance(CASES[n](()), SentencePolicy)])
def test_draws_come_with_their_log_prob(name: str) -> None:
    distribution = CASES[name]((2,))
    s, log_p = distribution.draw((50, 3))
    assert torch.allclose(log_p, distribution.log_prob(s).detach(), atol=1e-6)


@cases
def test_samples_follow_log_prob(name: str) -> None:
    distribution = CASES[name]((2,))
    language, n = distribution.language, 10_000
    s = distribution.sample((n,))
    assert s.shape == (n, 2, language.width)
    row = (s.float() @ language.sentences.T * 2 - language.sentences.sum(-1)).argmax(-1)
    assert torch.equal(language.sentences[row], s.float()), "sentences of the language"
    for b, p in enumerate(table(distribution).exp().detach()):
        counts = torch.bincount(row[:, b], minlength=language.count)
        common = n * p >= 5  # the others count together
        o = torch.cat([counts[common], counts[~common].sum()[None]]).double()
        e = torch.cat([n * p[common], (n * p[~common]).sum().clamp(min=5)[None]])
        assert float(((o - e).square() / e).sum()) < chi2.ppf(1 - 1e-5, len(e) - 1)


@cases
def test_what_is_no_sentence_has_no_probability(name: str) -> None:
    distribution = CASES[name]((2,))
    width, valid = distribution.language.width, distribution.language.sentences.tolist()
    tried = torch.cat([torch.zeros(1, width), torch.eye(width).cumsum(0)]).tolist()
    others = [s for s in tried if s not in valid]
    assert others
    for s in others:
        assert (distribution.log_prob(torch.tensor(s)) == -torch.inf).all()


@cases
def test_expands_and_does_not_depend_on_the_batch(name: str) -> None:
    distribution = CASES[name]((3,))
    wide = distribution.expand((4, 3))
    assert wide.batch_shape == (4, 3)
    assert torch.allclose(table(wide), table(distribution).expand(4, 3, -1))
    s = wide.sample()
    assert s.shape == (4, 3, distribution.language.width)
    each = torch.stack([distribution.log_prob(row) for row in s])
    assert torch.allclose(wide.log_prob(s), each)


@pytest.mark.parametrize("name", [n for n in CASES if n.startswith(("tabulated", "factored"))])
@pytest.mark.parametrize("beta", [0.3, 2.5])
def test_powers(name: str, beta: float) -> None:
    distribution = CASES[name]((2,))
    expected = (beta * table(distribution)).log_softmax(-1)
    assert torch.allclose(table(distribution.power(beta)), expected)


# -- building orders of policies


def test_any_order_sums_over_all_permutations() -> None:
    distribution = policy(Language((2, 1, 2, 1)), False)(())
    for s in distribution.language.sentences.double():
        tokens, paths, by_steps = s.nonzero().flatten(), [], []
        for order in itertools.permutations(range(len(tokens))):
            ranks, partial, log_p = torch.zeros_like(s), torch.zeros_like(s), 0.0
            for rank, token in enumerate(tokens[list(order)].tolist()):
                log_p = log_p + distribution.step_log_prob(partial)[token]
                ranks[token], partial[token] = rank, 1
            by_steps.append(log_p + distribution.step_log_prob(partial)[-1])
            paths.append(distribution.log_prob_path(s, ranks))
        assert torch.allclose(torch.stack(paths), torch.stack(by_steps))
        assert torch.allclose(torch.stack(paths).logsumexp(0), distribution.log_prob(s))


def test_exploration_mixes_with_uniform_tokens() -> None:
    torch.manual_seed(1)
    plain = policy(Language((2, 2)))(()).step_log_prob(torch.zeros(4)).exp()
    torch.manual_seed(1)
    explored = policy(Language((2, 2)), explore=0.25)(()).step_log_prob(torch.zeros(4)).exp()
    assert torch.allclose(explored[:4], 0.75 * plain[:4] + 0.25 / 4)
    assert explored[4] == 0


# -- what factored distributions tell without a list

FACTORED = [name for name in CASES if "factor" in name]


@pytest.mark.parametrize("name", FACTORED)
def test_sum_and_mode_of_factored_sentences(name: str) -> None:
    law = CASES[name]((3, 2))
    scores = law.scores.split([len(factor.subsets) for factor in law.factors], -1)
    s, of = law.language.sentences, list(zip(law.factors, scores, strict=True))
    total = law.language.log_prior(s.double()) + sum(f[..., j.index(s)] for j, f in of)
    assert torch.allclose(law.log_z, total.logsumexp(-1))
    assert torch.equal(law.mode, s[total.argmax(-1)])


@pytest.mark.parametrize(
    ("language", "part"),
    [
        (Language((2, 2)), (0, 1, 0, 0)),  # a group in two parts
        (Language((1,) * 20), (0,) * 20),  # too many subsets
        (Language((1,) * 64, max_length=1), (0,) * 64),  # whose numbers have 64 bits
    ],
)
def test_no_factors(language: Language, part: tuple[int, ...]) -> None:
    assert factors(language, part) is None
