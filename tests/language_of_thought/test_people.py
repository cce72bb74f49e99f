"""People's answers: what each explanation predicts, by hand, and which one is recognised."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyro
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import beta, binom
from torch import Tensor

from plot_attractors.language_of_thought import (
    ProbabilisticGrammar,
    compare_answers,
    exact_posterior,
    exemplar_answers,
    given_answers,
    grammar_answers,
    labels,
    prototype_answers,
    read_answers,
)
from plot_attractors.language_of_thought.people import Answers
from plot_attractors.language_of_thought.rational_rules import FIVE_FOUR, rule_grammar

SHOWN = FIVE_FOUR.category >= 0
GRAMMAR = rule_grammar(max_rules=9)
# of D, C, P, F1 … F4: Gamma rates whose shares are the production probabilities
THETA = [0.8, 0.2, 0.7, 0.3, 0.4, 0.3, 0.2, 0.1, *[0.25, 0.75] * 4]


def answers(yes: Tensor = FIVE_FOUR.human, number: Tensor | None = None, **more: Any) -> Answers:
    before = SHOWN.expand(16, -1)
    return Answers(FIVE_FOUR.names, FIVE_FOUR.stimuli, FIVE_FOUR.category, yes, number, before,
                   **more)  # fmt: skip


def predicted(program: Any, **values: Any) -> Tensor:
    given = {name: torch.tensor(value) for name, value in values.items()}
    given.setdefault("precision", torch.tensor(50.0))
    p: Tensor = pyro.poutine.condition(program, given)()
    return p


def test_rules_predict_what_enumeration_says_of_the_same_production_probabilities() -> None:
    cost, lapse = 1.3, 0.1
    p = predicted(grammar_answers(GRAMMAR, answers()), rates=THETA, cost=cost, lapse=lapse)
    log_p = torch.tensor(THETA).log()

    def program() -> None:
        rules = pyro.sample("expression", ProbabilisticGrammar(GRAMMAR, log_p))
        law = labels(GRAMMAR.value(rules)[..., SHOWN], noise=2 / (1 + math.exp(cost)))
        pyro.sample("y", law, obs=FIVE_FOUR.category[SHOWN])

    value = GRAMMAR.value(GRAMMAR.derivations).double()
    expected = 0.9 * exact_posterior(program).log_p.exp() @ value + 0.05
    torch.testing.assert_close(p.double(), expected, rtol=1e-4, atol=1e-5)


def test_exemplars_and_prototypes_by_hand() -> None:
    weights, c = [0.4, 0.3, 0.2, 0.1], 3.0
    given = {"attention": weights, "sensitivity": c, "lapse": 0.0}
    exemplars = predicted(exemplar_answers(answers()), **given)
    prototypes = predicted(prototype_answers(answers()), **given)
    x, y = FIVE_FOUR.stimuli.numpy(), FIVE_FOUR.category.numpy()
    for i in range(16):
        similarity = {1: 0.0, 0: 0.0}
        for j in np.flatnonzero(y >= 0):
            similarity[int(y[j])] += math.exp(-c * np.dot(weights, abs(x[i] - x[j])))
        expected = similarity[1] / (similarity[0] + similarity[1])
        assert float(exemplars[i]) == pytest.approx(expected, abs=2e-4)
        near = [math.exp(-c * np.dot(weights, abs(x[i] - x[y == k].mean(0)))) for k in (1, 0)]
        assert float(prototypes[i]) == pytest.approx(near[0] / sum(near), abs=2e-4)


def test_only_labels_shown_before_count() -> None:
    """Answers before anything was shown are at chance for exemplars and prototypes."""
    nothing = answers()._replace(before=torch.zeros(16, 16, dtype=torch.bool))
    given = {"attention": [0.25] * 4, "sensitivity": 2.0, "lapse": 0.0}
    for model in (exemplar_answers, prototype_answers):
        torch.testing.assert_close(predicted(model(nothing), **given), torch.full((16,), 0.5))


def test_probabilities_of_another_model() -> None:
    p = torch.linspace(0.1, 0.9, 16)
    torch.testing.assert_close(predicted(given_answers(p, answers()), lapse=0.2), 0.8 * p + 0.1)
    with pytest.raises(ValueError, match="p holds 16 probabilities"):
        given_answers(p[:3], answers())


def test_the_density_of_a_row_left_out_is_that_of_quadrature() -> None:
    """One parameter, the share of guesses; the density of rows not left out is a nat higher."""
    p, number = torch.linspace(0.05, 0.95, 16), torch.full((16,), 20.0)
    torch.manual_seed(0)
    data = answers(torch.binomial(number, 0.8 * p + 0.1) / 20, number)
    summary = compare_answers({"p": given_answers(p, data)}, data, draws=200).summary
    grid = (np.arange(2000) + 0.5) / 2000
    of_grid = (1 - grid)[:, None] * p.numpy() + grid[:, None] / 2
    log_p = binom.logpmf((data.yes * 20).round().numpy(), 20, of_grid)
    joint = beta.logpdf(grid, 1, 9) + log_p.sum(1)
    left_out = sum(logsumexp(joint) - logsumexp(joint - column) for column in log_p.T)
    kept = sum(logsumexp(joint + column) - logsumexp(joint) for column in log_p.T)
    assert float(summary["elpd"].iloc[0]) == pytest.approx(left_out, abs=0.3)
    assert kept > left_out + 0.6


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    """Of answers drawn from rules, and from exemplars, 300 of each stimulus."""
    truth = {
        "rules": (partial(grammar_answers, GRAMMAR), {"rates": THETA, "cost": 2.0}),
        "exemplars": (exemplar_answers, {"attention": [0.6, 0.1, 0.2, 0.1], "sensitivity": 6.0}),
    }
    results = {}
    for name, (make, values) in truth.items():
        torch.manual_seed(1)
        p = predicted(make(answers()), **values, lapse=0.05)
        yes = torch.binomial(torch.full((16,), 300.0), p) / 300
        data = answers(yes, torch.full((16,), 300.0), participant=["a", "b"] * 8)
        models = {key: make(data) for key, (make, _) in truth.items()}
        results[name] = compare_answers(models, data, draws=40, chains=1), p
    return results


def test_the_explanation_that_made_the_answers_is_recognised(compared: dict[str, Any]) -> None:
    for name, (comparison, p) in compared.items():
        summary = comparison.summary.set_index("model")
        assert summary["elpd"].idxmax() == name
        own = comparison.predictions[comparison.predictions["model"] == name]
        covered = (own["low"] <= p.numpy() + 0.01) & (p.numpy() - 0.01 <= own["high"])
        assert covered.mean() >= 0.8
        assert comparison.participants is not None
        total = comparison.participants.groupby("model")["elpd"].sum()
        assert total[name] == pytest.approx(summary.loc[name, "elpd"])
        comparison.figure()


def test_parameters_are_recovered(compared: dict[str, Any]) -> None:
    table = compared["exemplars"][0].parameters
    own = table[table["model"] == "exemplars"].set_index("parameter")
    for name, value in {"attention[0]": 0.6, "attention[1]": 0.1, "sensitivity": 6.0}.items():
        low, high = own.loc[name, ["low", "high"]]
        assert low - 0.3 * (high - low) <= value <= high + 0.3 * (high - low), name


def test_reading_answers(tmp_path: Path) -> None:
    rows = {
        "concept": ["x"] * 3 + ["y"] * 2, "trial": [1, 2, 3, 1, 2], "red": [0, 1, 1, 0, 1],
        "big": [1, 1, 0, 0, 0], "category": [1, 0, None, 1, 1], "yes": [5, 2, 3, 6, 9],
        "answers": [10] * 5,
    }  # fmt: skip
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    result = read_answers(tmp_path / "a.csv", ["red", "big"])
    assert result.category.tolist() == [1, 0, -1, 1, 1]
    assert result.answers is not None
    assert result.yes.tolist() == pytest.approx([0.5, 0.2, 0.3, 0.6, 0.9])
    seen = [np.flatnonzero(row).tolist() for row in result.before.numpy()]
    assert seen == [[], [0], [0, 1], [], [3]]
    bad: list[tuple[dict[str, Any], str]] = [
        ({"yes": None}, "has no column yes"),
        ({"red": [2, 0, 0, 0, 0]}, "must be 0 or 1"),
        ({"yes": [11, 0, 0, 0, 0]}, "yes must be a share"),
        ({"yes": [5, 2.5, 0, 0, 0]}, "a whole number, as in row 2"),
        ({"answers": [10, 10, 0, 10, 10]}, "a whole number, as in row 3"),
        ({"red": ["yes", 0, 0, 0, 0]}, "column red holds text"),
    ]
    for change, sentence in bad:
        columns = {k: v for k, v in {**rows, **change}.items() if v is not None}
        pd.DataFrame(columns).to_csv(tmp_path / "b.csv", index=False)
        with pytest.raises(ValueError, match=sentence):
            read_answers(tmp_path / "b.csv", ["red", "big"])
    with pytest.raises(ValueError, match=r"make it of answers\.stimuli"):
        grammar_answers(GRAMMAR, result)
