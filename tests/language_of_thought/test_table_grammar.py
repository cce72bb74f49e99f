"""Conjunctions of a table's columns: what they are true of, and Bayes' rule by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from plot_attractors.language_of_thought import sentence_shares
from plot_attractors.runs import registry, untrained

ROWS = {"milk": [1, 1, 0, 0], "legs": [1, 0, 1, 0], "kind": ["a", "a", "b", "b"]}


def built(tmp_path: Path, **settings: Any) -> tuple[Any, Any]:
    pd.DataFrame(ROWS).to_csv(tmp_path / "t.csv", index=False)
    given = {"labels": ("kind",), **settings}
    return untrained("table_grammar", data=tmp_path / "t.csv", settings=given)


def test_the_posterior_is_bayes_rule(tmp_path: Path) -> None:
    model, data = built(tmp_path, literals=2, noise=0.1)
    x = data.rows(torch.tensor([0]))  # milk and legs
    posterior = model.posterior(x).log_p[0].exp()
    texts = [model.grammar.text(rules) for rules in model.derivations]
    rows = torch.tensor([[1, 1], [1, 0], [0, 1], [0, 0]])
    shown = torch.tensor([0.81, 0.09, 0.09, 0.01])  # P(x | row)
    by_hand = {}
    for text in texts:
        true = torch.ones(4, dtype=torch.bool)
        for word in text.replace("∅", "").split():
            true &= rows[:, ["milk", "legs"].index(word.strip("¬"))] == (word[0] != "¬")
        by_hand[text] = float(shown[true].mean())
    total = sum(by_hand.values())
    for text, p in zip(texts, posterior.tolist(), strict=True):
        assert p == pytest.approx(by_hand[text] / total, rel=1e-5)
    assert texts[int(posterior.argmax())] == "milk legs"


def test_what_is_missing_tells_nothing_of_a_row_and_no_column_is_true_of_it(tmp_path: Path) -> None:
    table = pd.DataFrame({"milk": [1, None, 0], "legs": [1, 0, 1]})
    table.to_csv(tmp_path / "t.csv", index=False)
    given = {"missing": "ignore", "literals": 1, "noise": 0.1}
    model, data = untrained("table_grammar", data=tmp_path / "t.csv", settings=given)
    x = data.rows(torch.tensor([1]))
    rows = torch.tensor([[0.0, 1], [0.5, 0], [1, 1]])
    torch.testing.assert_close(
        model.objects.log_prob(x)[0].exp(), torch.where(rows[:, 1] == 0, 0.9, 0.1)
    )
    torch.testing.assert_close(  # P(milk | the row) is one half where it is missing
        model.objects.log_prob(torch.tensor([[1.0, torch.nan]]))[0].exp(),
        torch.tensor([0.1, 0.5, 0.9]),
    )
    texts = [model.grammar.text(rules) for rules in model.derivations]
    true = dict(zip(texts, model.extension.tolist(), strict=True))
    assert true["milk"] == [False, False, True]
    assert true["¬milk"] == [True, False, False]


def test_too_many_conjunctions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = registry.load("models", "table_grammar")
    monkeypatch.setattr(program, "MOST_CELLS", 30)
    with pytest.raises(ValueError, match="9 expressions of up to 2 of 2 columns, on 4 different"):
        built(tmp_path, literals=2)
    assert len(built(tmp_path, literals=1)[0].sentences) == 5


def test_shares_of_sentences_of_many_columns(tmp_path: Path) -> None:
    table = pd.DataFrame({f"c{i}": [i % 2, 1, 0, (i + 1) % 2] for i in range(31)})  # 62 tokens
    table.to_csv(tmp_path / "t.csv", index=False)
    given = {"literals": 2}
    model, _ = untrained("table_grammar", data=tmp_path / "t.csv", settings=given)
    every = model.derivations[None]
    assert sentence_shares(model, every).max() == pytest.approx(1 / every.shape[1])


def test_rules_with_disjunctions_are_bayes_rule_too(tmp_path: Path) -> None:
    """Of up to two literals: (literal ∧ expression) and (literal ∨ expression), against Python."""
    model, data = built(tmp_path, literals=2, noise=0.1, disjunctions=True)
    x = data.rows(torch.tensor([0]))  # milk and legs
    posterior = model.posterior(x).log_p[0].exp()
    rows = [(1, 1), (1, 0), (0, 1), (0, 0)]
    shown = [0.81, 0.09, 0.09, 0.01]  # P(x | row)
    by_hand = []
    for rules in model.derivations:
        text = model.grammar.text(rules)
        code = text.replace("¬", " not ").replace("∧", "and").replace("∨", "or")
        true = [bool(eval(code, {"milk": milk, "legs": legs})) for milk, legs in rows]
        prior = 1 / 3 / 4 if len(text.split()) == 1 else (1 / 3 / 4) ** 2
        seen = sum(p for p, fits in zip(shown, true, strict=True) if fits)
        # what is true of nothing has been left with next to nothing
        by_hand.append(prior * (seen / sum(true) if any(true) else 0.0))
    expected = torch.tensor(by_hand).double() / sum(by_hand)
    torch.testing.assert_close(posterior, expected, rtol=1e-4, atol=1e-7)
    best = model.grammar.text(model.derivations[posterior.argmax()])
    assert best in ("milk", "legs", "( milk ∧ legs )", "( legs ∧ milk )")
    s = model.describe(x, 3).s
    assert s.shape == (1, 3, model.language.width)
    assert (s.sum(-1) <= 4).all()


def test_too_many_rules_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expressions of up to 12 of 2 columns"):
        built(tmp_path, literals=12, disjunctions=True)
