"""The distribution of information loss against closed forms and simulation."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import geom

from plot_attractors.measures.information_loss import (
    bootstrap_interval,
    correct_bits,
    information_loss,
    tabulate,
)


def test_correct_bits_counts_agreement_of_signs_and_bits() -> None:
    x = torch.tensor([[1.0, 0.0, 1.0, 0.0, torch.nan]])  # what is missing is not correct
    logits = torch.tensor([[[2.0, -1.0, -0.1, 3.0, 1.0]], [[0.1, -5.0, 4.0, -1.0, -1.0]]])
    assert correct_bits(logits, x).tolist() == [[2], [4]]


def test_statistics_counted_by_hand() -> None:
    values, counts = tabulate(torch.tensor([[-1, -1, 0, 0, 0], [0, 1, 1, 1, 2]]))
    assert values.tolist() == [-1, 0, 1, 2]
    assert counts.tolist() == [[2, 3, 0, 0], [0, 1, 3, 1]]
    result = information_loss(values, counts.sum(0))
    assert float(result.mean) == pytest.approx((-2 + 3 + 2) / 10)
    assert float(result.p) == pytest.approx(1 / (1 + 5 / 8))
    assert float(result.p_zero) == pytest.approx(0.4)
    assert float(result.p_negative) == pytest.approx(0.2)
    by_hand = sum(f * math.log(f / 2 ** -(k + 1)) for k, f in enumerate((4 / 8, 3 / 8, 1 / 8)))
    assert float(result.kl) == pytest.approx(by_hand)
    clamped = sum(f * math.log(f / 2 ** -(k + 1)) for k, f in enumerate((0.6, 0.3, 0.1)))
    assert float(result.kl_clamped) == pytest.approx(clamped)
    assert float(result.p_clamped) == pytest.approx(1 / (1 + 0.5))
    # theory has nothing at −1, and 1/8 beyond 2
    away = [0.2, abs(0.4 - 1 / 2), abs(0.3 - 1 / 4), abs(0.1 - 1 / 8), 1 / 8]
    assert float(result.tv_geometric) == pytest.approx(sum(away) / 2)
    assert result.tv_geometric >= result.p_negative


def test_laws_of_which_little_can_be_said() -> None:
    result = information_loss(torch.tensor([-3, 0, 1]), torch.tensor([[5.0, 1, 0], [1.0, 5, 0]]))
    assert bool((result.p_clamped == 1).all())
    nothing = information_loss(torch.tensor([-1, 0, 1]), torch.tensor([5.0, 0.0, 0.0]))
    assert float(nothing.p_negative) == 1.0
    assert bool(nothing.kl.isnan() & nothing.p.isnan())


@pytest.mark.parametrize("p", [0.2, 0.5, 0.8])
def test_a_geometric_distribution_has_its_own_parameter_and_the_closed_form_divergence(
    p: float,
) -> None:
    values = torch.arange(400)
    result = information_loss(values, torch.from_numpy(geom(p, loc=-1).pmf(values)))
    assert float(result.p) == pytest.approx(p, abs=1e-9)
    expected = math.log(2 * p) + (1 - p) / p * math.log(2 * (1 - p))
    assert float(result.kl) == pytest.approx(expected, abs=1e-9)
    # without negative losses the two readings agree
    torch.testing.assert_close(result.p_clamped, result.p)
    torch.testing.assert_close(result.kl_clamped, result.kl)


def test_intervals_from_inputs_cover_and_those_from_draws_would_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Inputs have distributions of their own: Geometric(p_x), p_x ~ Beta. The true mean of p_zero is
    # E[p_x] = 0.5.
    monkeypatch.setattr("plot_attractors.measures.information_loss.RESAMPLES", 400)
    covered = narrow = 0
    for _ in range(200):
        p = torch.distributions.Beta(2.0, 2.0).sample((60,))
        values, counts = tabulate(torch.distributions.Geometric(p.clamp(min=0.02)).sample((30,)).T)
        low, high = bootstrap_interval(values, counts)
        covered += bool(low.p_zero <= 0.5 <= high.p_zero)
        centre = float(information_loss(values, counts.sum(0)).p_zero)
        narrow += abs(centre - 0.5) <= 1.96 * (centre * (1 - centre) / counts.sum().item()) ** 0.5
    assert 0.88 <= covered / 200 <= 0.99
    assert narrow / 200 < 0.75
