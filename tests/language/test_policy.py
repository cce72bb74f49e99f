"""Distributions over sentences sum to one, score every building order, and sample what they
score.
"""

from __future__ import annotations

import itertools
import math

import pyro
import pytest
import torch
from pyro.infer import TraceEnum_ELBO, config_enumerate
from scipy.stats import chi2
from torch import Tensor, nn

from plot_attractors.language import Language
from plot_attractors.language.policy import SentencePolicy, TabulatedSentences, canonical_ranks
from plot_attractors.model.nn import MLP
from plot_attractors.model.steps import bounded_step

CASES = {
    "canonical": (Language((2, 2, 2)), True, 0.0),
    "canonical, exploring": (Language((2, 2, 2)), True, 0.3),
    "canonical, two tokens at least": (Language((2, 2, 2, 2), min_length=2), True, 0.0),
    "any order": (Language((2, 2, 2)), False, 0.0),
    "any order, exploring": (Language((2, 2, 2)), False, 0.3),
    "any order, 1 to 2 of 4": (Language((1, 2, 2, 2), max_length=2), False, 0.0),
    "any order, with the empty sentence": (Language((2, 1, 2), min_length=0), False, 0.1),
    "ordered": (Language((2, 2, 2), ordered=True), True, 0.0),
    "ordered, exploring, short": (Language((2, 2, 2), max_length=2, ordered=True), True, 0.2),
    "the paper's": (Language((2,) * 6), True, 0.0),
    "the paper's, any order": (Language((2,) * 6), False, 0.05),
}
cases = pytest.mark.parametrize(
    ("language", "canonical", "explore"), CASES.values(), ids=CASES.keys()
)


class Policy(nn.Module):
    """Random logits that depend strongly on the partial sentence and on a state."""

    def __init__(self, language: Language, states: Tensor) -> None:
        super().__init__()
        self.language, self.states = language, states
        self.net = MLP(language.width + states.shape[-1], language.width + 1, units=32, layers=2)
        for p in self.parameters():
            p.data.mul_(3)

    def logits(self, partial: Tensor) -> Tensor:
        return self.net(
            torch.cat([partial, self.states.to(partial).expand(*partial.shape[:-1], -1)], -1)
        )

    def distribution(self, canonical: bool, explore: float = 0.0) -> SentencePolicy:
        return SentencePolicy(
            self.logits, self.language, self.states.shape[:-1], canonical, explore
        )


@cases
def test_probabilities_sum_to_one(language: Language, canonical: bool, explore: float) -> None:
    policy = Policy(language, torch.randn(5, 4)).double().distribution(canonical, explore)
    log_p = policy.log_prob(language.sentences.double()[:, None])
    assert log_p.shape == (language.count, 5)
    assert torch.allclose(log_p.exp().sum(0), torch.ones(5, dtype=torch.float64), atol=1e-6)
    assert log_p.exp().std() > 0.1 / language.count, "a uniform policy would make this test empty"


@pytest.mark.parametrize(
    "name", ["canonical, exploring", "any order", "any order, with the empty sentence", "ordered"]
)
def test_samples_follow_log_prob(name: str) -> None:
    language, canonical, explore = CASES[name]
    policy = Policy(language, torch.randn(1, 4)).distribution(canonical, explore)
    n = 20_000
    s = policy.sample((n,))[:, 0]
    assert torch.isfinite(policy.log_prob(s[:, None])).all()
    row = (s @ language.sentences.T * 2 - language.sentences.sum(-1)).argmax(-1)
    counts = torch.bincount(row, minlength=language.count)
    expected = n * policy.log_prob(language.sentences[:, None])[:, 0].exp().double().detach()
    common = expected >= 5  # the others count together
    o = torch.cat([counts[common], counts[~common].sum()[None]]).double()
    e = torch.cat([expected[common], expected[~common].sum().clamp(min=5)[None]])
    assert float(((o - e).square() / e).sum()) < chi2.ppf(1 - 1e-5, len(e) - 1)


@cases
def test_what_is_no_sentence_has_no_probability(
    language: Language, canonical: bool, explore: float
) -> None:
    policy = Policy(language, torch.randn(2, 4)).distribution(canonical, explore)
    valid = {tuple(s.tolist()) for s in language.sentences}
    others = torch.stack(
        [s for s in torch.eye(language.width).cumsum(0) if tuple(s.tolist()) not in valid]
    )
    assert (policy.log_prob(others[:, None]) == -torch.inf).all()
    if language.min_length:
        assert (policy.log_prob(torch.zeros(2, language.width)) == -torch.inf).all()


def test_two_tokens_of_a_pair() -> None:
    language = Language((2, 2))
    both = torch.tensor([1.0, 1, 0, 0])
    for canonical in (True, False):
        policy = Policy(language, torch.randn(4)).distribution(canonical)
        assert policy.log_prob(both) == -torch.inf
        assert policy.log_prob(both.flip(0)) == -torch.inf


def test_any_order_sums_over_all_permutations() -> None:
    language = Language((2, 1, 2, 1))
    policy = Policy(language, torch.randn(3)).double().distribution(canonical=False)

    def brute(s: Tensor) -> float:
        tokens, total = s.nonzero().flatten().tolist(), 0.0
        for order in itertools.permutations(tokens):
            partial, p = torch.zeros_like(s), 1.0
            for w in order:
                p *= float(policy.step_log_prob(partial)[w].exp())
                partial[w] = 1
            total += p * float(policy.step_log_prob(partial)[-1].exp())
        return math.log(total)

    s = language.sentences.double()
    assert torch.allclose(
        policy.log_prob(s), torch.tensor([brute(row) for row in s], dtype=torch.float64), atol=1e-6
    )


def test_paths_of_one_sentence_sum_to_it() -> None:
    language = Language((2, 2, 2))
    policy = Policy(language, torch.randn(3)).double().distribution(canonical=False)
    s = language.sentences.double()[-1]
    tokens = s.nonzero().flatten()
    paths = []
    for order in itertools.permutations(range(len(tokens))):
        ranks = torch.zeros_like(s)
        ranks[tokens[list(order)]] = torch.arange(len(tokens)).double()
        paths.append(policy.log_prob_path(s, ranks))
    assert len(set(map(float, paths))) == 6
    assert torch.allclose(torch.stack(paths).logsumexp(0), policy.log_prob(s), atol=1e-6)


@pytest.mark.parametrize("canonical", [True, False])
def test_scores_do_not_depend_on_the_batch(canonical: bool) -> None:
    language = Language((2,) * 4)
    states, s = torch.randn(6, 3), language.sentences[torch.randint(language.count, (6,))]
    policy = Policy(language, states)
    together = policy.distribution(canonical).log_prob(s)
    order = torch.randperm(6)
    policy.states = states[order]
    assert torch.allclose(
        policy.distribution(canonical).log_prob(s[order]), together[order], atol=1e-5
    )
    for i in range(6):
        policy.states = states[i]
        assert torch.allclose(policy.distribution(canonical).log_prob(s[i]), together[i], atol=1e-5)


def test_exploration_mixes_with_uniform_tokens() -> None:
    language = Language((2, 2))
    policy = Policy(language, torch.randn(3))
    explored = policy.distribution(True, 0.25).step_log_prob(torch.zeros(4)).exp()
    plain = policy.distribution(True).step_log_prob(torch.zeros(4)).exp()
    assert torch.allclose(explored[:4], 0.75 * plain[:4] + 0.25 / 4)
    assert explored[4] == 0


@pytest.mark.parametrize("canonical", [True, False])
@pytest.mark.parametrize("explore", [0.0, 0.2])
def test_gradients_are_finite(canonical: bool, explore: float) -> None:
    language = Language((2, 2, 2), max_length=2)
    policy = Policy(language, torch.randn(3))
    policy.distribution(canonical, explore).log_prob(language.sentences).sum().backward()
    for p in policy.parameters():
        assert p.grad is not None
        assert torch.isfinite(p.grad).all()
        assert p.grad.abs().max() > 0


def test_sentences_in_a_plate() -> None:
    """Pyro expands a policy to its plates; the trace scores it as the policy does."""
    language = Language((2, 2, 2))

    def program() -> Tensor:
        with pyro.plate("n", 7):
            return pyro.sample("s", SentencePolicy(language.prior_logits, language))

    trace = pyro.poutine.trace(program).get_trace()
    assert torch.as_tensor(trace.nodes["s"]["value"]).shape == (7, 6)
    assert float(trace.log_prob_sum()) == pytest.approx(-7 * math.log(26), abs=1e-4)


def test_canonical_ranks_number_features_in_order() -> None:
    s = torch.tensor([0.0, 1, 0, 1, 1])
    assert canonical_ranks(s)[s > 0].tolist() == [0, 1, 2]


# -- listed sentences


def test_tabulated_sentences() -> None:
    language = Language((2, 2, 2))
    logits = torch.randn(4, language.count)
    d = TabulatedSentences(logits, language)
    assert torch.allclose(
        d.log_prob(language.sentences[:, None]), logits.log_softmax(-1).T, atol=1e-6
    )
    assert torch.allclose(d.log_prob(d.enumerate_support()).exp().sum(0), torch.ones(4))
    assert (d.log_prob(torch.tensor([1.0, 1, 0, 0, 0, 0])) == -torch.inf).all()
    assert (d.log_prob(torch.zeros(6)) == -torch.inf).all()
    s = d.sample((40_000,))
    seen = (s[:, :, None] == language.sentences).all(-1).float().mean(0)
    assert torch.allclose(seen, logits.softmax(-1), atol=4.5 * math.sqrt(0.25 / 40_000))


@pytest.mark.parametrize("kind", ["tabulated", "policy"])
def test_pyro_sums_over_sentences(kind: str) -> None:
    """Enumerated by Pyro, log Σ_s P(s) exp(score · s) is exact."""
    language = Language((2, 2))
    score = torch.tensor([0.3, -1.0, 0.7, 2.0])

    def prior() -> SentencePolicy | TabulatedSentences:
        if kind == "tabulated":
            return TabulatedSentences(torch.zeros(language.count), language)
        return SentencePolicy(language.prior_logits, language)

    def model() -> None:
        s = pyro.sample("s", prior())
        pyro.factor("reward", s @ score)

    loss = TraceEnum_ELBO(max_plate_nesting=0).loss(config_enumerate(model), lambda: None)
    expected = (language.sentences @ score).logsumexp(0) - math.log(language.count)
    assert -loss == pytest.approx(float(expected), abs=1e-5)


# -- bounded steps


def test_bounded_step_is_bounded() -> None:
    z, out = torch.randn(1000, 3), 30 * torch.randn(1000, 7)
    kernel = bounded_step(z, out, 0.25, (0.001, 0.2))
    size = (kernel.loc - z).norm(dim=-1)
    assert size.max() <= 0.25 + 1e-5
    assert size.max() > 0.2
    assert size.min() < 0.05
    assert kernel.scale.min() >= 0.001
    assert kernel.scale.max() <= 0.2 + 1e-7
    assert kernel.scale.max() > 0.19
    along = torch.nn.functional.cosine_similarity(kernel.loc - z, out[:, :3], dim=-1)
    assert along[size > 0.01].min() > 0.999


def test_bounded_step_without_direction_stays_and_has_a_gradient() -> None:
    z, out = torch.randn(2, 3), torch.zeros(2, 7, requires_grad=True)
    kernel = bounded_step(z, out, 0.25, (0.001, 0.2))
    assert torch.equal(kernel.loc, z)
    kernel.log_prob(z + 0.1).sum().backward()
    assert out.grad is not None
    assert torch.isfinite(out.grad).all()
