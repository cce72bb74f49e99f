"""Moves of sentences leave their distribution alone, and populations come to follow it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.language.moves import anneal, gibbs_step

LANGUAGES = {
    "bag": Language((1,) * 5, min_length=0, max_length=3),
    "groups": Language((2, 2, 2)),
    "short": Language((3, 1, 2), min_length=2, max_length=2),
}


def target(language: Language) -> Tensor:
    """(2, count) log-probabilities of two inputs."""
    return (1.5 * torch.randn(2, language.count)).log_softmax(-1)


def density(language: Language, table: Tensor):  # type: ignore[no-untyped-def]
    inputs = torch.arange(2)
    return lambda s: (
        table.expand(*s.shape[:-2], *table.shape).gather(-1, language.row(s)[..., None])[..., 0]
        + 0 * inputs
    )


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_gibbs_step_leaves_the_distribution_alone(name: str) -> None:
    """Flow from a to b equals that from b to a, of draws of p; steps lead from any to any."""
    language, n = LANGUAGES[name], 40_000
    table = target(language)
    index = torch.distributions.Categorical(logits=table).sample((n,))
    s = language.sentences[index]
    moved = gibbs_step(language, s, density(language, table))
    to = language.row(moved)
    assert torch.equal(language.sentences[to], moved), "a sentence of the language"
    assert bool((to != index).any())
    for k in range(2):
        flow = torch.zeros(language.count, language.count)
        flow.index_put_((index[:, k], to[:, k]), torch.ones(n), accumulate=True)
        often = flow.sum(-1) >= 10
        steps = (flow[often][:, often] > 0).double() / language.count
        assert bool((steps.matrix_power(10) > 0).all()), "from anywhere to anywhere"
        difference = (flow - flow.T).abs()
        assert bool((difference <= 5 * (flow + flow.T).sqrt() + 1).all())


@pytest.mark.parametrize("from_prior", [False, True])
def test_a_population_follows_its_target_and_estimates_its_sum(from_prior: bool) -> None:
    language, k = LANGUAGES["bag"], 4000
    table = 3 * torch.randn(2, language.count)
    s = language.sentences[torch.randint(language.count, (k, 2))]
    log_q = torch.full((k, 2), -float(torch.tensor(float(language.count)).log()))
    log_p = density(language, table)
    for powers, steps in (((1.0,), 0), ((0.1, 0.3, 1.0), 2)):
        result = anneal(language, s, log_q, log_p, powers, steps, from_prior=from_prior)
        torch.testing.assert_close(result.log_z, table.logsumexp(-1), atol=0.2, rtol=0)
        p = table.softmax(-1)
        for b in range(2):
            share = torch.bincount(language.row(result.s[:, b]), minlength=language.count) / k
            assert float(0.5 * (share - p[b]).abs().sum()) < 0.06
        assert bool((result.effective > 0).all() & (result.effective <= 1).all())
