"""Where particles come from: tempering and replay do as written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from torch import Tensor

from plot_attractors.gflownet import LogRatioLoss, Replay, ReplayBuffer, temper, tempered
from plot_attractors.gflownet.replay import Rarity, rarity_weights
from plot_attractors.language import Language

P0 = torch.tensor([0.7, 0.2, 0.1])


def label() -> None:
    pyro.sample("z0", dist.Categorical(P0))


# -- tempering

FAMILIES: dict[str, Callable[[], Any]] = {
    "normal": lambda: dist.Normal(torch.tensor([0.5, -1.0]), 1.5),
    "event": lambda: dist.Normal(torch.zeros(4, 2), 0.7).to_event(1),
    "categorical": lambda: dist.Categorical(logits=torch.randn(4, 5)),
    "bernoulli": lambda: dist.Bernoulli(logits=torch.randn(4)),
    "several normals": lambda: dist.MultivariateNormal(torch.zeros(3), 0.5 * torch.eye(3) + 0.2),
    "masked": lambda: dist.Normal(torch.zeros(4), 2.0).mask(torch.tensor([1, 0, 1, 1]).bool()),
    "lognormal": lambda: dist.LogNormal(torch.tensor([0.5, -1.0]), 0.4),
    "one-hot": lambda: dist.OneHotCategorical(logits=torch.randn(4, 5)),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tempered_density_is_the_root_of_it(family: str) -> None:
    fn = FAMILIES[family]()
    hot = temper(fn, 3.0)
    assert hot.batch_shape == fn.batch_shape
    assert hot.event_shape == fn.event_shape
    x, y = fn.sample(), fn.sample()
    difference = hot.log_prob(x) - hot.log_prob(y)
    torch.testing.assert_close(difference, (fn.log_prob(x) - fn.log_prob(y)) / 3)


def test_tempered_programs_leave_the_program_as_it_is() -> None:
    def law(program: Any) -> Tensor:
        probs: Tensor = poutine.trace(program).get_trace().nodes["z0"]["fn"].probs
        return probs

    torch.testing.assert_close(law(tempered(label, 2.0)), P0.sqrt() / P0.sqrt().sum())
    torch.testing.assert_close(law(label), P0)


def test_a_policy_is_told_from_a_guide_of_the_same_function() -> None:
    def program(loc: float) -> None:
        pyro.sample("z", dist.Normal(loc, 1e-3))

    guide, behaviour = (partial(program, loc) for loc in (0.0, 9.0))
    drawn = LogRatioLoss(4, behaviour=behaviour).log_ratios(guide, guide).values["z"]
    assert (drawn > 8).all()


# -- replay


def test_replay_fills_its_share_from_earlier_particles() -> None:
    guides = [_at(5.0, 0.01), _at(0.0, 0.01), _at(9.0, 0.01)]

    def model() -> None:
        pyro.sample("z", dist.Normal(0.0, 1.0))

    replay = Replay(16, share=0.25)
    loss = LogRatioLoss(8, replay=replay)
    first, second, third = (loss.log_ratios(model, of).values["z"].flatten() for of in guides)
    assert (first > 4).all()
    assert ((second > 4).sum(), (second.abs() < 1).sum()) == (2, 6)
    assert (third > 8).sum() == 6
    assert len(replay.buffer) == 16  # the eight at 5 are gone
    assert not (replay.buffer.entries["z"] == first[0]).any()


def _at(loc: float, scale: float) -> Callable[[], None]:
    def guide() -> None:
        pyro.sample("z", dist.Normal(loc, scale))

    return guide


def test_replay_keeps_what_is_possible_and_fills_while_training() -> None:
    def model() -> None:
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        pyro.factor("positive", torch.where(z > 0, 0.0, -torch.inf))

    replay = Replay(100, share=0.5)
    loss = LogRatioLoss(40, lambda r: r.total.mean(), replay=replay)
    guide = _at(0.0, 1.0)
    with torch.no_grad():
        loss.log_ratios(model, guide)
    assert len(replay.buffer) == 0
    for _ in range(2):
        with pytest.raises(ValueError, match="infinite"):
            loss.loss_and_grads(model, guide)
    assert 10 < len(replay.buffer) < 70
    assert (replay.buffer.entries["z"] > 0).all()

    def wide() -> None:
        pyro.sample("z", dist.Normal(torch.zeros(3), 1.0).to_event(1))

    with pytest.raises(ValueError, match="other shapes"):
        loss.log_ratios(wide, wide)


# -- the buffer of trajectories and sentences

KINDS: tuple[Rarity, ...] = ("product", "geometric_mean")


def brute_force(s: Tensor, of_tokens: Rarity) -> Tensor:
    rows, w = [tuple(r.tolist()) for r in s], []
    for row in rows:
        tokens = 1.0
        for j, has in enumerate(row):
            if has:
                tokens /= sum(r[j] for r in rows)
        if of_tokens == "geometric_mean":
            tokens **= 1 / sum(row)
        w.append(tokens / rows.count(row))
    return torch.tensor(w) / sum(w)


@pytest.mark.parametrize("kind", KINDS)
def test_rarity_weights(kind: Rarity) -> None:
    language = Language((2, 2, 2))
    s = language.sentences[torch.randint(language.count, (60,)).clamp(max=12)]
    assert torch.allclose(rarity_weights(s, kind), brute_force(s, kind), atol=1e-6)
    assert rarity_weights(s, kind).sum() == pytest.approx(1.0, abs=1e-5)


def test_rarity_weights_of_many_long_sentences_do_not_underflow() -> None:
    s = Language((2,) * 6).sentences[-64:].repeat(3000, 1)  # 192,000 rows: weights near (10⁵)⁻⁷
    w = rarity_weights(torch.cat([s, Language((2,) * 6).sentences[:1]]))
    assert torch.isfinite(w).all()
    assert w[-1] > 0.9, "the only sentence of one token"


@pytest.mark.parametrize("kind", [*KINDS, None])
def test_draws_follow_the_weights(kind: Rarity | None) -> None:
    """Those of now: after an addition a sentence that was rare may be no longer."""
    s = torch.tensor([[1.0, 0, 0]] * 6 + [[0, 1.0, 0]] * 2 + [[0, 1.0, 1.0]] * 9)
    buffer, n = ReplayBuffer(100, kind), 40_000
    buffer.add(s=s[:9], row=torch.arange(9))
    buffer.draw(1)
    buffer.add(s=s[9:], row=torch.arange(9, 17))
    share = torch.bincount(buffer.draw(n)["row"], minlength=17) / n
    expected = torch.full((17,), 1 / 17) if kind is None else rarity_weights(s, kind)
    assert torch.allclose(share, expected, atol=4.5 * (0.25 / n) ** 0.5)


def test_capacity_keeps_the_newest_rows_together() -> None:
    buffer = ReplayBuffer(5)
    for k in range(4):
        rows = torch.arange(3 * k, 3 * k + 3)
        buffer.add(s=torch.eye(12)[rows], z=rows.float()[:, None, None].expand(3, 4, 2), row=rows)
    assert len(buffer) == 5
    assert buffer.entries["row"].tolist() == [7, 8, 9, 10, 11]
    drawn = buffer.draw(50)
    assert torch.equal(drawn["s"].argmax(-1), drawn["row"])
    assert torch.equal(drawn["z"][:, 3, 1].long(), drawn["row"])


def test_a_loaded_state_is_the_buffers_own() -> None:
    """Where the buffer is, of the newest that it has room for, until it is cleared."""
    here, there = ReplayBuffer(6), ReplayBuffer(3, device="meta")
    here.add(s=torch.eye(6, requires_grad=True) * 2)
    assert not here.draw(1)["s"].requires_grad
    there.load_state_dict(here.state_dict())
    there.add(s=torch.ones(1, 6, device="meta"))
    assert there.entries["s"].device.type == "meta"
    assert len(there) == 3
    there.clear()
    there.add(s=torch.eye(2), x=torch.ones(2))
    assert len(there) == 2
    here.load_state_dict(there.state_dict())  # whose weights are not those of before
    assert here.draw(9).keys() == {"s", "x"}
