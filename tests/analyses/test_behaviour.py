"""Choices and times of known processes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Normal

from plot_attractors.analysis.responses import Choices, shares
from plot_attractors.model.attractor import Encoding
from plot_attractors.runs import registry

from ..small import ToNearest, measured, untrained

program = registry.load("analyses", "behaviour")


def walks(v: float, a: float, n: int = 20_000, step: float = 0.002) -> tuple[float, float]:
    """P(upper) and mean time of a diffusion, by small steps."""
    torch.manual_seed(0)
    x, time, up = torch.zeros(n), torch.zeros(n), torch.zeros(n)
    alive = torch.ones(n, dtype=torch.bool)
    while alive.any():
        x[alive] += v * step + step**0.5 * torch.randn(int(alive.sum()))
        time[alive] += step
        up[alive & (x >= a / 2)] = 1
        alive &= x.abs() < a / 2
    return float(up.mean()), float(time.mean())


@pytest.mark.parametrize(("v", "a"), [(0.0, 1.5), (1.2, 1.5)])
def test_moments_of_a_diffusion(v: float, a: float) -> None:
    p, time = program.diffusion_moments(np.array([v]), a)
    upper, mean = walks(v, a)
    assert p[0] == pytest.approx(upper, abs=0.02)
    assert time[0] == pytest.approx(mean, rel=0.08)  # steps pass the bound a little late


def made(a: float, k: float, t0: float) -> pd.DataFrame:
    odds = np.linspace(-1, 4, 40)
    p, time = program.diffusion_moments(k * odds, a)
    exact = 1 / (1 + np.exp(-odds))
    return pd.DataFrame({"exact": exact, "probability": p, "time": t0 + time})


def test_a_diffusion_is_recovered() -> None:
    fitted = program.fit_diffusion(made(3.0, 0.6, 5.0))
    assert (fitted.a, fitted.k, fitted.t0) == pytest.approx((3.0, 0.6, 5.0), rel=0.02)
    quantiles = program.diffusion_quantiles(fitted)
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert (quantiles > 5.0).all()


def test_without_responses_there_is_no_diffusion() -> None:
    table = made(3.0, 0.6, 5.0).assign(time=np.nan)
    assert np.isnan(program.fit_diffusion(table).a)


def test_shares_and_right_choices_leave_out_what_did_not_respond() -> None:
    choice = torch.tensor([[0, 1, 1, -1], [-1, -1, -1, -1]])
    assert shares(choice, 2)[0].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert shares(choice, 2)[1].isnan().all()
    assert program.right(choice, torch.tensor([1, 0]))[0].nansum() == 2
    assert program.right(choice, torch.tensor([-1, 0])).isnan().all()


def test_dynamics_that_jump_are_not_moved_by_small_pushes_and_large_ones_move_them() -> None:
    run = untrained()
    model = run.model
    model.epsilon = 1e-3
    with torch.no_grad():
        for parameter in model.sentence_encoder.parameters():
            parameter.normal_()
    model.forward_dynamics = ToNearest(model.embeddings())
    z0 = model.embeddings()
    e = Encoding(Normal(z0, 1.0), z0)
    first = Choices("first", 0, ("a", "b"), lambda s: s[:, 0].long())
    table = program.by_push(model, e, first, 4)
    changed = table.groupby("size")["changed"].mean()
    assert changed[0.0] == 0
    assert changed[2.0] > changed[0.5]


def test_jumps_are_told() -> None:
    run = untrained()
    run.model.epsilon = 1e-3
    run.model.forward_dynamics = ToNearest(run.model.embeddings())
    tables = measured("behaviour", run, inputs=10, draws=8, decoder_inputs=200, decoder_updates=20)
    summary = tables["summary.csv"].set_index("statistic")["value"]
    assert (summary["responded"], summary["at_once"]) == (1, 1)
    assert program.plot(tables).keys() == program.CAPTIONS.keys()


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(
        ValueError, match="no categorical feature 'x' to choose a value of: there are b"
    ):
        program.measure(untrained(), program.Config(feature="x"))
