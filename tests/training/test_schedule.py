"""Schedules that can be stopped after any update, and what all updates share."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from plot_attractors.training import At, Phase, Schedule, clipped_update


def diary(*updates: int) -> tuple[Schedule, list[Any]]:
    """A schedule of phases of so many updates, and the list of what happens in it."""
    entries: list[Any] = []

    def phase(k: int, n: int) -> Phase:
        def update(at: At) -> dict[str, float]:
            entries.append((k, at))
            return {"loss": float(k)}

        return Phase("ab"[k % 2], k, n, update, lambda: entries.append(k))

    return Schedule(nn.Linear(1, 1), [phase(k, n) for k, n in enumerate(updates)]), entries


def test_phases_run_in_order_begin_once_and_know_where_they_are() -> None:
    schedule, entries = diary(4, 0, 3)
    assert [p.cycle for p in schedule.schedule] == [0, 2], "empty phases are left out"
    assert [schedule.total, schedule.phase.cycle, schedule.step()["loss"]] == [7, 0, 0.0]
    while not schedule.done:
        schedule.step()
    assert [schedule.position, schedule.phase.cycle] == [7, 2]
    done = [entry if isinstance(entry, int) else entry[0] for entry in entries]
    assert done == [0] * 5 + [2] * 4
    result = [entry[1] for entry in entries if not isinstance(entry, int)]
    progress = [0, 1 / 4, 2 / 4, 3 / 4, 0, 1 / 3, 2 / 3]
    assert [at.progress for at in result] == pytest.approx(progress)
    assert [at.position for at in result] == list(range(7))


def test_one_norm_over_all_tensors_is_clipped() -> None:
    a, b = nn.Parameter(torch.tensor([3.0])), nn.Parameter(torch.tensor([4.0]))
    unused = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([a, b, unused], lr=1.0)
    clipped_update(optimizer, [a, b, unused], 30 * a.sum() + 40 * b.sum())
    assert [a.item(), b.item()] == pytest.approx([3 - 0.6, 4 - 0.8], abs=1e-5)
    assert unused.item() == 1.0
    clipped_update(optimizer, [a, b], 0.1 * a.sum())  # small: as it is, and without the old one
    assert [a.item(), b.item()] == pytest.approx([2.3, 3.2], abs=1e-5)
