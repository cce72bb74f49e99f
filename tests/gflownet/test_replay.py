"""The replay buffer prefers rare sentences and rare tokens, forgets the oldest, and survives a
stop.
"""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor

from plot_attractors.gflownet import ReplayBuffer
from plot_attractors.gflownet.replay import Rarity, rarity_weights
from plot_attractors.language import Language

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
    s = torch.tensor([[1.0, 0, 0]] * 6 + [[0, 1.0, 0]] * 2 + [[0, 1.0, 1.0]])
    buffer, n = ReplayBuffer(100, kind), 40_000
    buffer.add(s=s, row=torch.arange(9))
    share = torch.bincount(buffer.draw(n)["row"], minlength=9) / n
    expected = torch.full((9,), 1 / 9) if kind is None else rarity_weights(s, kind)
    assert torch.allclose(share, expected, atol=4.5 * (0.25 / n) ** 0.5)


def test_weights_follow_additions() -> None:
    """After an addition the old weights are stale: a sentence that was rare is no longer."""
    buffer = ReplayBuffer(1000)
    buffer.add(s=torch.tensor([[1.0, 0]] * 9 + [[0, 1.0]]))
    buffer.draw(1)
    buffer.add(s=torch.tensor([[0, 1.0]] * 300))
    share = (buffer.draw(4000)["s"][:, 0] == 1).float().mean()
    assert share == pytest.approx(float(rarity_weights(buffer.entries["s"])[:9].sum()), abs=0.04)
    assert share > 0.9


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


def test_state_survives_a_file() -> None:
    a, b = ReplayBuffer(50), ReplayBuffer(50)
    a.add(s=Language((2, 2, 2)).sentences, z=torch.randn(26, 3, requires_grad=True) * 2)
    b.add(s=torch.ones(1, 6), z=torch.zeros(1, 3))
    b.draw(1)
    file = io.BytesIO()
    torch.save(a.state_dict(), file)
    file.seek(0)
    b.load_state_dict(torch.load(file, weights_only=True))
    drawn = []
    for buffer in (a, b):
        torch.manual_seed(5)
        drawn.append(buffer.draw(20))
    assert all(torch.equal(drawn[0][k], drawn[1][k]) for k in ("s", "z"))
    assert not drawn[0]["z"].requires_grad, "entries carry no gradient"


def test_a_loaded_state_is_the_buffers_own() -> None:
    """Where the buffer is, of the newest that it has room for, until it is cleared."""
    here, there = ReplayBuffer(6), ReplayBuffer(3, device="meta")
    here.add(s=torch.eye(6))
    there.load_state_dict(here.state_dict())
    there.add(s=torch.ones(1, 6, device="meta"))
    assert there.entries["s"].device.type == "meta"
    assert len(there) == 3
    there.clear()
    there.add(s=torch.eye(2), x=torch.ones(2))
    assert len(there) == 2
