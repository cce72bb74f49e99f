"""Continua whose ends and discrimination are known."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

from plot_attractors.runs import registry

from ..small import untrained

program = registry.load("analyses", "continuum")


def test_d_prime_of_gaussians() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 4000, 3).double()
    b[:, 0] += 2.0
    assert program.d_prime(a, b, 0.0) == pytest.approx(2, abs=0.1)
    assert program.d_prime(a, b, math.sqrt(3)) == pytest.approx(1, abs=0.1)  # variance 1 + 3
    squares = [program.d_prime(*torch.randn(2, 60, 8).double(), 0.0) ** 2 for _ in range(200)]
    naive = 2 * 8 / 60  # what a difference of means has by noise alone
    assert sum(squares) / 200 < naive / 2


def test_morphs_of_bits_are_in_steps_from_one_end_to_the_other() -> None:
    run = untrained()
    ends = run.data.prototypes[[0, 1]]
    x = program.morphs(run, ends, 5, 3)
    assert torch.equal(x[0], ends[:1].expand(3, -1))
    assert torch.equal(x[-1], ends[1:].expand(3, -1))
    steps = (x[1:] != x[:-1]).sum(-1)
    assert torch.equal(steps, torch.full((4, 3), run.data.bits // 4))
    few = program.morphs(run, torch.stack([ends[0], ends[0].roll(1)]), 9, 2)
    assert len(few) == 1 + int((ends[0] != ends[0].roll(1)).sum())


def test_ends() -> None:
    run = untrained()
    assert program.find_ends(run, ()).names == ["L", "R"]
    named = program.find_ends(run, ("LL", "branch1=right"))
    assert torch.equal(named.x[0], run.data.prototypes[run.data.class_names.index("LL")])
    for between, sentence in (
        (("LL",), "between two inputs that decode differently"),
        (("LL", "LL"), "between two inputs that decode differently"),
        (("LL", "LXL"), "no input 'LXL'"),
        (("LL", "branch1=up"), "branch1 is never 'up'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            program.find_ends(run, between)


@pytest.mark.parametrize(
    ("chosen", "d", "ratio"),
    [
        ([0, 0.2, 0.8, 1], [1.0, 3.0, 2.0], 2),
        ([0, 0, 0.1, 0.2], [1.0, 3.0, 2.0], math.nan),  # no boundary
        ([0, 0.2, 0.8, 1], [0.0, 3.0, 0.0], math.nan),  # no other pair is told apart
    ],
)
def test_a_continuum_without_a_boundary_has_no_ratio(
    chosen: list[float], d: list[float], ratio: float
) -> None:
    x = pd.Series([0, 1 / 3, 2 / 3, 1])
    table = pd.DataFrame({"morph": x, "chosen": chosen, "exact": chosen, "up": 0.0, "down": 0.0})
    pair = {"morph": [1 / 6, 1 / 2, 5 / 6], "d": d, "labels": [0.0, 1.0, 0.0]}
    pairs = pd.concat([pd.DataFrame({"t": t, **pair}) for t in (0, 2)])
    values = program.summarise(table.assign(time=1.0), pairs)
    value = values.set_index("statistic")["value"]
    assert value["categorical_T"] == pytest.approx(ratio, nan_ok=True)
    assert math.isnan(value["boundary"]) == (max(chosen) < 0.5)
