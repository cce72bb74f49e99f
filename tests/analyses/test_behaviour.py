"""Choices and times of known processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Normal
from scipy.stats import skew

from plot_attractors.analysis.responses import Choices, Responses, shares
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
    odds = np.linspace(-1, 4, 41)
    p, time = program.diffusion_moments(k * odds, a)
    exact = 1 / (1 + np.exp(-odds))
    return pd.DataFrame({"exact": exact, "probability": p, "time": t0 + time})


def test_a_diffusion_is_recovered() -> None:
    fitted = program.fit_diffusion(made(3.0, 0.6, 5.0))
    assert (fitted.a, fitted.k, fitted.t0) == pytest.approx((3.0, 0.6, 5.0), rel=0.02)
    quantiles = program.diffusion_quantiles(program.fit_diffusion(made(1.8, 0.7, 5.0)))
    by_fokker_planck = [0.1978, 0.3567, 0.5495, 0.8387, 1.4601]  # Crank and Nicolson, v 0.7
    assert quantiles[16] - 5 == pytest.approx(by_fokker_planck, rel=1e-3)


@pytest.mark.parametrize(("v", "a"), [(0.0, 1.0), (-0.7, 1.8), (9.0, 3.0)])
def test_the_distribution_of_times_by_images_is_that_by_eigenfunctions(v: float, a: float) -> None:
    odd = 2 * np.arange(400) + 1
    rate = ((odd * np.pi / a) ** 2 + v**2) / 2
    sign = (-1.0) ** np.arange(400)
    for t in np.array([0.02, 0.1, 0.5, 1.0]) * a**2:
        later = (sign * odd / rate * np.exp(-rate * t)).sum() * 2 * np.pi / a**2
        by_eigenfunctions = 1 - np.cosh(v * a / 2) * later
        assert program.first_passage_cdf(t, v, a) == pytest.approx(by_eigenfunctions, abs=1e-9)


@pytest.mark.parametrize("times", [lambda t: np.nan * t, lambda t: 12 - t, lambda t: 7 + 0 * t])
def test_there_is_no_diffusion_without_times_that_fall_with_the_odds(times: Any) -> None:
    table = made(3.0, 0.6, 5.0)
    fitted = program.fit_diffusion(table.assign(time=times(table["time"])))
    assert np.isnan([fitted.a, fitted.k, fitted.t0]).all()
    assert np.isnan(program.diffusion_quantiles(fitted)).all()


def test_the_share_of_right_choices_of_a_diffusion() -> None:
    """Of three choices, the two that the lower bound stands for share it as 0.3 to 0.1."""
    exact = torch.tensor([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1]], dtype=torch.float64)
    choice = torch.zeros(2, 4, dtype=torch.long)
    trials = program.Trials(Responses(choice, choice.float()), choice, torch.tensor([0, 1]), exact)
    inputs = pd.DataFrame({"choice": ["a", "a"], "value": ["a", "b"], "exact": 0.6, "time": 7.0})
    inputs = inputs.assign(entropy=1.0, sd=1.0, sentence_entropy=1.0)
    upper = np.array([0.9, 0.8])
    fitted = program.Diffusion(1.0, 1.0, 1.0, upper, upper, upper)
    summary = program.summarise("f", trials, inputs, fitted).set_index("statistic")["value"]
    assert summary["diffusion_correct"] == pytest.approx((0.9 + 0.2 * 0.3 / 0.4) / 2)


def test_times_of_an_input_are_compared_with_each_other() -> None:
    """Errors are fast, and most inputs are fast ones that are told right: the responses of all
    inputs together have every sign the other way round.
    """
    generator = np.random.default_rng(0)
    hard = np.arange(8) < 2
    time = np.where(hard, 30, 10)[:, None] - generator.gamma(2, size=(8, 40))
    wrong = time.argsort(1).argsort(1) < np.where(hard, 20, 2)[:, None]
    responses = Responses(torch.tensor(wrong).long(), torch.tensor(time))
    own, exact = torch.zeros(8, dtype=torch.long), torch.full((8, 2), 0.5, dtype=torch.float64)
    trials = program.Trials(responses, responses.choice[None], own, exact)
    columns = ("exact", "time", "sd", "entropy", "sentence_entropy")
    inputs = pd.DataFrame({"choice": ["a"] * 8, "value": "a"} | dict.fromkeys(columns, 1.0))
    nothing = program.fit_diffusion(inputs.assign(probability=1.0))
    summary = program.summarise("f", trials, inputs, nothing).set_index("statistic")["value"]
    later = [one[w].mean() - one[~w].mean() for one, w in zip(time, wrong, strict=True)]
    assert summary["errors_later"] == pytest.approx(np.mean(later))
    assert summary["errors_later"] < 0 < time[wrong].mean() - time[~wrong].mean()
    assert summary["skewness"] == pytest.approx(skew(time, axis=1).mean())
    assert summary["skewness"] < 0 < skew(time.ravel())
    assert summary["sd"] == pytest.approx(time.std(1).mean())
    assert program._row(responses, own)["sd"] == summary["sd"] < time.std() / 5
    table = program.conditional_accuracy(trials, torch.ones(1, 8, dtype=torch.float64))
    ordered = np.take_along_axis(~wrong, time.argsort(1), 1).reshape(8, 5, 8).mean((0, 2))
    assert table["correct"].tolist() == pytest.approx(ordered)
    assert table["correct"].is_monotonic_increasing
    by_time = (~wrong).ravel()[time.ravel().argsort()]
    assert by_time[:160].mean() > by_time[160:].mean()


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
    assert program.draw(tables).keys() == program.CAPTIONS.keys()
    # the diffusion's line is at its own share, and not at the model's
    rows = tables["summary.csv"]
    changed = rows.assign(value=rows["value"].where(rows["statistic"] != "diffusion_correct", 0.27))
    labels = {
        line.get_label(): line.get_ydata()
        for part in (tables, tables | {"summary.csv": changed})
        for line in program.draw_times(part).axes[2].lines
    }
    assert labels["diffusion, any time"] == [0.27, 0.27]


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(
        ValueError, match="no categorical feature 'x' to choose a value of: there are b"
    ):
        program.measure(untrained(), program.Config(feature="x"))
