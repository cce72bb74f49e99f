"""The pool of an E-step: draws of the posterior, renewed by and by."""

from __future__ import annotations

from typing import Any

import torch

from plot_attractors.language import Language
from plot_attractors.training import SentencePool
from plot_attractors.training.pool import PAIRS
from plot_attractors.training.stay import OFF_SENTENCE_STATES

from .test_sentences import sampled


def pool_of(model: Any, candidates: int = 64) -> SentencePool:
    x = torch.tensor([[0.5, -0.2, 0.1], [-0.4, 0.6, 0.0]])
    sentences = sampled(model, candidates, 4)
    return SentencePool(model, lambda n: x[torch.arange(n) % 2], sentences, (0.3, 0.6))


def test_pairs_follow_the_posterior_of_their_input(build: Any) -> None:
    model = build(axes=False, sd=0.3)
    pool = pool_of(model)
    pool.fill()
    e, s = pool.pairs(20_000)
    assert torch.equal(e.z0, e.distribution.loc)
    first = e.z0[:, 0] > 0
    for mine, x in ((first, [0.5, -0.2, 0.1]), (~first, [-0.4, 0.6, 0.0])):
        share = torch.bincount(model.language.row(s[mine]), minlength=22) / int(mine.sum())
        q = model.encode(torch.tensor([x])).distribution
        exact = model.posterior(q).log_p[0].exp().detach()
        assert float(0.5 * (share - exact).abs().sum()) < 0.05
    assert pool.off(e) is not None, "sentences may be two tokens too long"


def test_the_oldest_pairs_go_and_a_new_reward_takes_all(build: Any) -> None:
    pool = pool_of(build(sd=0.3))
    pool.fill()
    first = pool.of_pairs.entries["s"]
    pool.renew(5)
    assert pool.of_pairs.entries["s"] is first, "new pairs come every 16 updates"
    pool.renew(32)
    new = 16 * 24 // 64 * 64
    assert len(pool.of_pairs) == PAIRS
    assert torch.equal(pool.of_pairs.entries["s"][:-new], first[new:])
    states = pool.of_states.entries["z"]
    off = pool.off(pool.pairs(4)[0])
    assert off is not None
    assert off.z.shape == (OFF_SENTENCE_STATES, 3)
    pool.fill()
    assert not torch.equal(pool.of_states.entries["z"][: len(states)], states)
    pool = pool_of(build(axes=False, sd=0.3, language=Language((2, 2))))
    pool.fill()
    assert pool.off(pool.pairs(3)[0]) is None, "every token is spoken"
