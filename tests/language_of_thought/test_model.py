"""Grammars on data: posteriors by hand, distributions for every input, two inferences."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pyro
import pytest
import torch
from torch import Tensor

from plot_attractors.language_of_thought import GrammarModel, enumeration, log_likelihood, measure
from plot_attractors.runs import registry

from ..small import as_built

PATHS = {"expressions": "paths"}


def built(settings: dict[str, Any] | None = None, **others: Any) -> tuple[Any, GrammarModel]:
    """Data and a grammar; conjunctions of branches of the tree."""
    data = others.pop("data", None)
    model, data = as_built("grammar", data=data, settings={**(settings or {}), **others})
    return data, model


def left_open(model: GrammarModel, p: Tensor) -> Tensor:
    """(B, D + 1) the distribution of the number of levels that sentences leave open."""
    depth = len(model.language.groups)
    number = (depth - model.sentences.sum(-1)).long()
    return torch.zeros(len(p), depth + 1, dtype=p.dtype).index_add_(1, number, p)


@pytest.mark.parametrize(
    ("size_principle", "weights"), [(True, (0.28, 0.48, 0.08)), (False, (0.56, 0.48, 0.08))]
)
def test_a_posterior_by_hand(size_principle: bool, weights: tuple[float, ...]) -> None:
    """Two leaves of two bits: P(10 | L) = 0.8 · 0.6, P(10 | R) = 0.4 · 0.2; root: their mean."""
    _, model = built(PATHS, depth=1, bits=2, size_principle=size_principle)
    log_p, log_evidence = model.posterior(torch.tensor([[1.0, 0.0]]))
    p = dict(zip(map(model.grammar.text, model.derivations), log_p[0].exp().tolist(), strict=True))
    expected = torch.tensor(weights) / sum(weights)
    assert [p["∅"], p["left1"], p["right1"]] == pytest.approx(expected.tolist())
    scale = 1 if size_principle else 2  # objects come from both leaves
    assert float(log_evidence.exp()) == pytest.approx(sum(weights) / 3 / scale)


@pytest.mark.parametrize("settings", [PATHS, {}])
def test_expressions_leave_a_known_number_of_levels_open(settings: dict[str, Any]) -> None:
    """Geometric(½) cut at D of paths, Binomial(D, ⅓) of conjunctions, for exemplars of any node and
    for noise alike.
    """
    data, model = built(settings, meaning="leaves")
    x = torch.cat([data.batch(50).x, torch.bernoulli(torch.full((50, 128), 0.5))])
    k = torch.arange(7).double()
    binomial = torch.distributions.Binomial(6, torch.tensor(1 / 3).double())
    expected = 0.5**k / (0.5**k).sum() if settings else binomial.log_prob(k).exp()
    result = left_open(model, model.posterior(x).log_p.exp())
    torch.testing.assert_close(result, expected.expand(100, -1), atol=1e-6, rtol=0)


def test_the_node_posterior_is_bayes_rule_over_the_classes() -> None:
    data, model = built(PATHS, meaning="node")
    assert len(model.sentences) == 126
    batch = data.batch(200)
    bits = torch.distributions.Bernoulli(data.probabilities)
    exact = bits.log_prob(batch.x[:, None]).sum(-1).softmax(-1)
    named = (model.extension.int().argmax(-1)).tolist()  # every path names one node
    assert sorted(named) == list(range(126))
    assert torch.allclose(model.posterior(batch.x).log_p.exp().float(), exact[:, named], atol=1e-4)
    entropy = torch.distributions.Categorical(exact).entropy()
    assert torch.allclose(model.posterior(batch.x).entropy.float(), entropy, atol=1e-3)
    reported = measure(model, batch.x)["posterior_entropy"]
    assert reported == pytest.approx(float(entropy.mean()), abs=1e-4) != 0


@pytest.mark.parametrize("at_once", [1, 20_000])
def test_the_likelihood_of_far_extensions_does_not_underflow(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enumeration, "AT_ONCE", at_once)
    log_objects = torch.tensor([[0.0, -2000.0, -2001.0]])
    extension = torch.tensor([[True, True, True], [False, True, True], [False, False, False]])
    result = log_likelihood(log_objects, extension)[0]
    far = float(log_objects[0, 1:].double().logsumexp(0)) - math.log(2)
    assert result.tolist() == pytest.approx([-math.log(3), far, -math.inf])


@pytest.mark.parametrize("expressions", ["paths", "conjunctions"])
def test_the_pyro_program_has_the_enumerated_joint(expressions: str) -> None:
    data, model = built(expressions=expressions, depth=3, bits=16)
    x, rules = data.batch(5).x, model.derivations
    for k in (0, len(rules) // 2, len(rules) - 1):
        joint = model.log_prior[k] + model.log_likelihood(x)[:, k]
        given = pyro.poutine.condition(model.model, {"expression": rules[k].expand(5, -1)})
        nodes = pyro.poutine.trace(given).get_trace(x).nodes
        sites = (nodes["expression"], nodes["x"])
        result = sum(site["fn"].log_prob(site["value"]) for site in sites)
        assert torch.allclose(result.double(), joint, atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"expressions": "rules"}, "not rules of these data"),
        ({"meaning": "node"}, "set expressions=paths"),
        ({"noise": 0.1}, "'noise' has no effect on these data"),
    ],
)
def test_expressions_and_settings_of_other_data_are_refused(settings: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        built(**settings)


def test_kinds_of_sprites_are_seen_through_the_noise_of_their_colours() -> None:
    data, model = built(data="dsprites")
    assert len(model.derivations) == 3200
    assert len(model.objects) == 7 * 3 * 3 * 4 * 4
    torch.manual_seed(0)
    batch = data.batch(1000)
    log_p = model.objects.log_prob(batch.x).log_softmax(-1)
    colour, shape, size, x, y = batch.labels.unbind(-1)
    truth = torch.stack([colour, shape, size // 2, x // 8, y // 8], -1)
    right = (model.objects.kinds == truth[:, None]).all(-1).int().argmax(-1)
    best = log_p.argmax(-1)
    assert torch.equal(model.objects.kinds[best, 1:], truth[:, 1:])
    sure = float(log_p.exp().amax(-1).mean())
    # as sure as it is right, and not what was kept of other images
    assert sure == pytest.approx(float((best == right).float().mean()), abs=0.02)
    torch.testing.assert_close(model.objects.log_prob(batch.x[:5]).log_softmax(-1), log_p[:5])
    # with the size principle the empty expression is the least likely that is true of an input
    p = model.posterior(batch.x).log_p
    assert (p.exp().sum(-1) - 1).abs().max() < 1e-6
    full = model.sentences.sum(-1) == 5
    assert p[:, full].amax(-1).gt(p[:, model.sentences.sum(-1) == 0][:, 0]).all()


# -- of a table


def built_of(columns: dict[str, Any], tmp_path: Path, **settings: Any) -> tuple[Any, Any]:
    pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
    return built(data=tmp_path / "t.csv", **settings)


MILK = {"milk": [1, 1, 0, 0], "legs": [1, 0, 1, 0]}


def by_hand(model: GrammarModel, expressions: str) -> Tensor:
    """P(expression | milk and legs) by Bayes' rule and Python's own evaluation."""
    rows = [(1, 1), (1, 0), (0, 1), (0, 0)]
    shown = [0.81, 0.09, 0.09, 0.01]  # P(x | row)
    joint = []
    for rules in model.derivations:
        text = model.grammar.text(rules)
        code = text.replace("¬", " not ").replace("∧", "and").replace("∨", "or")
        if expressions == "conjunctions":
            code = " and ".join(text.replace("∅", "").replace("¬", "not_").split()) or "True"
            code = code.replace("not_", "not ")
        true = [bool(eval(code, {"milk": milk, "legs": legs})) for milk, legs in rows]
        single = 1 / 3 / 4  # of a literal
        prior = 1.0 if expressions == "conjunctions" else single ** (1 + (len(text.split()) > 1))
        seen = sum(p for p, fits in zip(shown, true, strict=True) if fits)
        # what is true of nothing has been left with next to nothing
        joint.append(prior * (seen / sum(true) if any(true) else 0.0))
    return torch.tensor(joint).double() / sum(joint)


@pytest.mark.parametrize("expressions", ["conjunctions", "rules"])
def test_the_posterior_of_a_table_is_bayes_rule(tmp_path: Path, expressions: str) -> None:
    given = {"literals": 2, "noise": 0.1, "expressions": expressions}
    data, model = built_of(MILK | {"kind": list("aabb")}, tmp_path, labels="kind", **given)
    x = data.rows(torch.tensor([0]))  # milk and legs
    expected = by_hand(model, expressions)
    posterior = model.posterior(x).log_p[0].exp()
    torch.testing.assert_close(posterior, expected, rtol=1e-4, atol=1e-7)
    s = model.describe(x, 3).s
    assert s.shape == (1, 3, model.language.width)


def test_what_is_missing_tells_nothing_of_a_row_and_no_column_is_true_of_it(tmp_path: Path) -> None:
    columns = {"milk": [1, None, 0], "legs": [1, 0, 1]}
    given = {"missing": "ignore", "literals": 1, "noise": 0.1}
    data, model = built_of(columns, tmp_path, **given)
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


def test_too_many_expressions_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.load("models", "grammar"), "MOST_CELLS", 30)
    with pytest.raises(ValueError, match="9 expressions of up to 2 of 2 columns, on 4 different"):
        built_of(MILK, tmp_path, literals=2)
    assert len(built_of(MILK, tmp_path, literals=1)[1].sentences) == 5
