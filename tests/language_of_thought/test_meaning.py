"""Values of expressions against Python's own evaluation, and what people see of a concept."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from plot_attractors.language_of_thought import Grammar, examples, labels
from plot_attractors.language_of_thought import meaning as meanings

N = torch.arange(1, 31)
SETS = Grammar(
    {
        "set": (
            ("( not set )", torch.logical_not),
            ("( set and set )", torch.logical_and),
            ("( set or set )", lambda a, b: a | b),
            ("n%2==0", N % 2 == 0),
            ("( number <= n <= number )", lambda low, high: (low <= N) & (high >= N)),
        ),
        "number": tuple((str(k), k) for k in (1, 10, 20)),
    },
    max_rules=8,
)


def test_values_are_those_of_python() -> None:
    rules = SETS.derivations
    value = SETS.value(rules)
    assert (value.shape, value.dtype) == ((len(rules), 30), torch.bool)
    chosen = range(0, len(rules), 17)
    for k in chosen:
        expected = [eval(SETS.text(rules[k]), {"n": n}) for n in N.tolist()]
        assert value[k].tolist() == expected, SETS.text(rules[k])
    assert len(chosen) > 200
    assert torch.equal(SETS.value(rules[:6].view(2, 3, -1)), value[:6].view(2, 3, -1))


def test_many_expressions_are_evaluated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = SETS.derivations[::7]
    value = SETS.value(rules)
    monkeypatch.setattr(meanings, "CELLS", 10_000)
    assert torch.equal(SETS.value(rules), value)
    assert SETS.value(rules[:0]).shape == (0, 30)


def test_a_bound_variable_is_an_axis() -> None:
    """Sentences of first-order logic about four objects, against loops over them."""
    red = torch.tensor([True, False, True, False])
    near = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]]).bool()
    grammar = Grammar(
        {
            "S": (("∀x P", lambda p: p.all()), ("∃x P", lambda p: p.any())),
            "P": (
                ("red(x)", red),
                ("¬ P", torch.logical_not),
                ("∃y R", lambda r: r.any(-1)),
                ("∀y R", lambda r: r.all(-1)),
            ),
            "R": (
                ("near(x,y)", near),
                ("( P → R )", lambda p, r: ~p[:, None] | r),
                ("R ∧ red(y)", lambda r: r & red),
            ),
        },
        max_rules=6,
    )
    value = grammar.value(grammar.derivations)
    assert value.shape == (len(grammar.derivations),)
    by_text = {grammar.text(r): bool(v) for r, v in zip(grammar.derivations, value, strict=True)}
    world = range(4)
    assert by_text["∀x ∃y near(x,y)"] == all(any(near[x, y] for y in world) for x in world)
    assert by_text["∃x ∀y ( red(x) → near(x,y) )"] == any(
        all(not red[x] or near[x, y] for y in world) for x in world
    )
    assert by_text["∃x ∃y near(x,y) ∧ red(y)"]
    assert 0 < value.float().mean() < 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_number_for_all_objects_stands_beside_numbers_of_each(count: int) -> None:
    """As many expressions as objects, too: a value of one expression is not that of one object."""
    grammar = Grammar(
        {
            "p": (("of each", [0.1, 0.2]), ("all c", lambda c: c), ("row c", lambda c: c * 10)),
            "c": (("1", 1), ("2", 2)),
        }
    )
    by_text = {grammar.text(r): r for r in grammar.derivations}
    names = ["all 2", "row 1", "of each"][:count]
    value = grammar.value(torch.stack([by_text[name] for name in names]))
    expected = [[2.0, 2.0], [10.0, 10.0], [0.1, 0.2]][:count]
    torch.testing.assert_close(value, torch.tensor(expected))
    both = grammar.value(torch.stack([by_text["all 1"], by_text["all 2"]]))
    assert both.tolist() == [[1.0, 1.0], [2.0, 2.0]]


# -- what people see


def test_examples_sum_to_one_and_follow_the_size_principle() -> None:
    extension = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]]).bool()
    for outliers in (0.0, 0.1):
        law = examples(extension, 2, outliers)
        pairs = torch.tensor(list(itertools.product(range(4), repeat=2)))
        total = law.log_prob(pairs[:, None]).exp().sum(0)
        torch.testing.assert_close(total, torch.tensor([1.0, 1.0, outliers**2]))
        inside = (1 - outliers) / torch.tensor([2.0, 4.0]) + outliers / 4
        result = law.log_prob(torch.tensor([0, 1]))
        torch.testing.assert_close(result[:2].exp(), inside.square())
        nothing = math.log(outliers / 4) * 2 if outliers else -math.inf
        assert float(result[2]) == pytest.approx(nothing)
        assert float(law.log_prob(torch.tensor([0, 3]))[0]) == pytest.approx(
            math.log(inside[0] * outliers / 4) if outliers else -math.inf
        )


@pytest.mark.parametrize(("noise", "base_rate"), [(0.0, 0.5), (0.3, 0.5), (0.2, 0.9), (1e-12, 0.5)])
def test_labels(noise: float, base_rate: float) -> None:
    true = torch.tensor([True, False, True])
    law = labels(true, noise, base_rate)
    for y in itertools.product((0.0, 1.0), repeat=3):
        expected = 0.0
        for told, label in zip(true.tolist(), y, strict=True):
            wrong = noise * (base_rate if label else 1 - base_rate)
            right = 1 - noise * (1 - base_rate if label else base_rate)
            p = right if told == bool(label) else wrong
            expected += math.log(p) if p else -math.inf
        assert float(law.log_prob(torch.tensor(y))) == pytest.approx(expected, rel=1e-4, abs=1e-6)
