"""The certificate of a fit: right guides pass, wrong ones of many kinds fail, and numbers are those
of algebra and enumeration.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from functools import partial
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer.autoguide import AutoNormal
from torch import Tensor

from plot_attractors.gflownet import Certificate, diagnose
from plot_attractors.gflownet.certificate import _moments

TIMES = torch.linspace(0.0, 2.0, 6)
DESIGN = torch.stack([torch.ones(6), TIMES], 1)
COVARIANCE = torch.linalg.inv(torch.eye(2) + DESIGN.T @ DESIGN)
Y = torch.randn(6, generator=torch.Generator().manual_seed(3))
GRID = torch.linspace(-4, 4, 40)
PRIOR = (-GRID.square() / 8 + torch.where(GRID > 0, 0.5, 0.0)).log_softmax(0)
X = torch.tensor(1.5)


# -- a line whose intercept and slope depend on each other, and a number known but for its sign


def line(y: Tensor) -> None:
    z = pyro.sample("z", dist.Normal(torch.zeros(2), 1.0).to_event(1))
    pyro.sample("y", dist.Normal(z @ DESIGN.T, 1.0).to_event(1), obs=y)


def line_guide(y: Tensor, kind: str = "exact") -> None:
    mean, covariance, sd = y @ DESIGN @ COVARIANCE, COVARIANCE, COVARIANCE.diagonal().sqrt()
    mean, covariance = {
        "exact": (mean, covariance),
        "too narrow": (mean, 0.5 * covariance),
        "shifted": (mean + 0.5 * sd, covariance),
        "independent": (mean, torch.diag(covariance.diagonal())),
        "shrunk": (0.7 * mean, covariance),
        "prior": (1e-6 * mean, torch.eye(2)),
        "heavy tails": (mean, covariance / 1.5),
    }[kind]
    if kind == "heavy tails":
        root = torch.linalg.cholesky(covariance)
        pyro.sample("z", dist.MultivariateStudentT(torch.tensor(3.0), mean, root))
    else:
        pyro.sample("z", dist.MultivariateNormal(mean, covariance))


def sign(x: Tensor) -> None:
    k = pyro.sample("k", dist.Categorical(logits=PRIOR))
    pyro.sample("x", dist.Normal(GRID[k].abs(), 0.5), obs=x)


def sign_logits(x: Tensor, kind: str = "exact") -> Tensor:
    logits = PRIOR + dist.Normal(GRID.abs(), 0.5).log_prob(x)
    if kind == "mode lost":
        return logits - torch.where(GRID > 0, 0.0, 20.0)
    return {"exact": logits, "labels switched": logits.flip(0), "too sharp": 1.5 * logits}[kind]


def sign_guide(x: Tensor, kind: str = "exact") -> None:
    pyro.sample("k", dist.Categorical(logits=sign_logits(x, kind)))


def failing(certificate: Certificate) -> set[Any]:
    checks = certificate.checks
    return set(checks.index[checks["result"] == "fails"])


WRONG: dict[str, tuple[set[str], int]] = {  # what fails, and simulations that tell
    "too narrow": ({"ranks of latents", "total variation"}, 100),
    "shifted": ({"moments of (z, x)"}, 100),
    "independent": ({"rank of log p", "moments of (z, x)"}, 100),
    "shrunk": ({"moments of (z, x)"}, 60),
    "prior": ({"rank of log p", "moments of (z, x)"}, 60),  # but for a little of the data
    "heavy tails": ({"rank of log p"}, 200),
    "mode lost": ({"ranks of latents"}, 60),
    "labels switched": ({"ranks of latents", "total variation"}, 100),
    "too sharp": ({"rank of log p"}, 60),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_guides_fail(kind: str) -> None:
    of_sign = kind in ("mode lost", "labels switched", "too sharp")
    guide = partial(sign_guide if of_sign else line_guide, kind=kind)
    checks, simulations = WRONG[kind]
    programs = (sign, guide, X) if of_sign else (line, guide, Y)
    draws = 1000 if simulations == 200 else 500
    certificate = diagnose(*programs, seed=4, simulations=simulations, draws=draws)
    assert failing(certificate) >= checks
    assert certificate.verdict.startswith("The guide is not the posterior of ")


# -- numbers


def test_bounds_are_those_of_algebra() -> None:
    """Of Gaussians: log p(y), and KL of half the covariance, ½ (k s − k − k log s)."""
    guide = partial(line_guide, kind="too narrow")
    bounds = diagnose(line, guide, Y, draws=2000, simulations=50).bounds
    evidence = dist.MultivariateNormal(torch.zeros(6), torch.eye(6) + DESIGN @ DESIGN.T)
    log_z = float(evidence.log_prob(Y))
    q, p = (dist.MultivariateNormal(torch.zeros(2), s * COVARIANCE) for s in (0.5, 1.0))
    there = float(torch.distributions.kl_divergence(q, p))
    assert bounds.loc["log Z", "value"] == pytest.approx(log_z, abs=0.1)
    assert bounds.loc["KL(q ‖ posterior)", "value"] == pytest.approx(there, abs=0.1)


def test_total_variation_is_that_of_enumeration() -> None:
    p, q = (sign_logits(X, kind).softmax(0) for kind in ("exact", "too sharp"))
    exact = float((p - q).abs().sum() / 2)
    guide = partial(sign_guide, kind="too sharp")
    bounds = diagnose(sign, guide, X, draws=2000, simulations=50).bounds
    found = bounds.loc["total variation"]
    assert found["value"] == pytest.approx(exact, abs=4 * found["error"] + 0.01)


def test_the_level_of_the_test_of_moments() -> None:
    """Of truths and draws that are alike, 5 % of p-values lie below 0.05: 4 sd of 200 is 0.06."""
    p = []
    for _ in range(200):
        x = torch.randn(40, 3, dtype=torch.float64)
        z = 0.5 * x[:, None, :2] + torch.randn(40, 10, 2, dtype=torch.float64).exp()
        p.append(_moments(z, x)[1])
    share = float((torch.tensor(p) < 0.05).double().mean())
    assert share == pytest.approx(0.05, abs=0.06)


@pytest.mark.parametrize(
    ("true", "drawn"),
    [
        (dist.Categorical(torch.tensor([0.4, 0.35, 0.25])), [0.4, 0.35, 0.0]),
        (dist.Bernoulli(torch.tensor([0.5, 0.3, 0.25])), [0.5, 0.3, 0.0]),
    ],
)
def test_a_label_that_is_never_drawn_is_missed(true: Any, drawn: list[float]) -> None:
    """A quarter of the posterior, of one label, or of the third row's second."""

    def program(fn: Any) -> None:
        with pyro.plate("rows", 3) if fn.batch_shape else nullcontext():
            pyro.sample("k", fn)

    lost = type(true)(torch.tensor(drawn))
    says = diagnose(partial(program, true), partial(program, lost)).checks.loc["wider guide"][
        "says"
    ]
    assert re.search("2[3-7]% of the posterior is missed", says), says


# -- exact guides

SEEN = torch.tensor([True, True, False])


def masked_data(x: Tensor) -> None:
    z = pyro.sample("z", dist.Normal(0.0, 1.0))
    with pyro.plate("rows", 3), pyro.poutine.mask(mask=SEEN):
        pyro.sample("x", dist.Normal(z, 1.0), obs=x)


def masked_data_guide(x: Tensor) -> None:
    pyro.sample("z", dist.Normal(x[SEEN].sum() / 3, 3**-0.5))


EXACT: dict[str, tuple[Any, ...]] = {
    "line": (line, line_guide, Y),
    "sign": (sign, sign_guide, X),
    "masked data": (masked_data, masked_data_guide, torch.zeros(3)),
}


@pytest.mark.parametrize("kind", EXACT)
def test_exact_guides_pass(kind: str) -> None:
    certificate = diagnose(*EXACT[kind], seed=1, simulations=80, draws=400)
    assert not failing(certificate)
    assert certificate.verdict.startswith("No fault found by wider guide, total variation, ranks")
    assert "Not known: weights." in certificate.verdict, "one weight throughout has no tail"


# -- what cannot be known


def common(x: Tensor) -> None:
    m = pyro.sample("m", dist.Normal(0.0, 1.0))
    with pyro.plate("rows", 4):
        z = pyro.sample("z", dist.Normal(m, 1.0))
        pyro.sample("x", dist.Normal(z, 1.0), obs=x)


def common_guide(x: Tensor, wrong: float = 0.0) -> None:
    """The site for all by parameters, which are right of `ROWS`; those of rows read the data."""
    m = pyro.sample("m", dist.Normal(3.2 / 6 + wrong, 3**-0.5))
    with pyro.plate("rows", 4):
        pyro.sample("z", dist.Normal((x + m) / 2, 0.5**0.5))


ROWS = torch.tensor([0.5, 1.0, -0.3, 2.0])


def held() -> None:
    z = pyro.sample("z", dist.Normal(0.0, 1.0))
    pyro.sample("x", dist.Normal(z, 1.0), obs=X)


@pytest.mark.parametrize(
    ("programs", "simulations", "says"),
    [
        ((common, common_guide, ROWS), 60, "draws 'm' the same whatever the data: give fit="),
        ((line, AutoNormal(line), Y), 5, "whatever the data are: give fit="),
        (
            (held, lambda: pyro.sample("z", dist.Normal(0.75, 0.7))),
            5,
            "takes 0 positional arguments but 1 was given",
        ),
    ],
)
def test_what_simulated_data_cannot_tell(programs: Any, simulations: int, says: str) -> None:
    certificate = diagnose(*programs, simulations=simulations, draws=400, seed=1)
    assert failing(certificate) <= {"weights", "wider guide", "total variation"}
    assert certificate.checks["says"].str.contains(says).any()
    if simulations < 60:
        assert certificate.checks.loc["simulated data", "result"] == "cannot tell"
        assert "Not known: " in str(certificate)


def test_a_verdict_says_which_data_failed() -> None:
    wrong = diagnose(
        common, partial(common_guide, wrong=1.0), ROWS, simulations=60, draws=400
    ).verdict
    assert wrong.startswith("The guide is not the posterior of these data. total variation")
    assert "simulates" not in wrong

    def of_these_alone(y: Tensor) -> None:
        line_guide(y, "exact" if torch.equal(y, Y) else "too narrow")

    other = diagnose(line, of_these_alone, Y.clone(), simulations=60, draws=400).verdict
    assert other.startswith("The guide is not the posterior of data that the model simulates. ")


def test_a_guide_fitted_to_every_data_set() -> None:
    def fit(y: Tensor) -> Any:
        return lambda *_: line_guide(y)

    certificate = diagnose(line, fit(Y), Y, fit=fit, simulations=40, draws=400)
    assert not failing(certificate)
    assert "simulated data" not in certificate.checks.index
