"""What tokens tell of the columns of a table: known sentences, odds counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from plot_attractors.data.table import SAMPLE
from plot_attractors.measures.bootstrap import resample
from plot_attractors.runs import registry

from ..small import measured, untrained

token_meaning = registry.load("analyses", "sentences")
difference, log_odds_ratio, measure_rows = (
    token_meaning.difference,
    token_meaning.log_odds_ratio,
    token_meaning.measure_rows,
)

COLUMNS = {"names": "animal", "labels": "class", "at_least": "legs", "held_out_fraction": 0.2}


def test_log_odds_are_counted_by_hand() -> None:
    torch.manual_seed(0)
    held = torch.tensor([1.0, 1, 1, 0.5, 0, 0, 0, 0])[:, None]
    x = torch.tensor([[1.0, 0], [1, 0], [0, 0], [1, 1], [0, 1], [0, 1], [0, 1], [1, 0]])
    result = log_odds_ratio(held, x, resample(torch.arange(8.0)[:, None]))
    # n11 = 2.5, n10 = 1, n01 = 1.5, n00 = 3 of the first column
    assert float(result.value[0, 0]) == pytest.approx(np.log(3.0 * 3.5 / (1.5 * 2.0)))
    assert result.value[0, 1] < 0 < result.value[0, 0]
    assert (result.low < result.value).all()
    assert (result.value < result.high).all()


def test_log_odds_leave_out_what_is_missing() -> None:
    held, x = torch.rand(9, 2), (torch.rand(9, 1) > 0.5).float()
    x[:2, 0], known = torch.tensor([0.0, 1.0]), torch.arange(9) != 4
    holes = x.where(known[:, None], torch.nan)
    result = log_odds_ratio(held, holes, torch.ones(1, 9))
    assert torch.equal(result.value, log_odds_ratio(held[known], x[known], torch.ones(1, 8)).value)


def test_differences_are_counted_by_hand() -> None:
    torch.manual_seed(0)
    held = torch.tensor([1.0, 1, 1, 0.5, 0, 0, 0, 0])[:, None]
    x = torch.tensor([[2.0, 0], [1, 1], [3, 0], [2, 1], [-2, 0], [-2, 1], [-3, 0], [-1, 1]])
    result = difference(held, x, resample(torch.arange(8.0)[:, None]))
    # 6 + 1 of 3.5 sentences, -8 + 1 of 4.5, and the mean 0 on either side
    assert float(result.value[0, 0]) == pytest.approx(7 / 4.5 + 7 / 5.5)
    assert float(result.low[0, 0]) > 0
    assert float(result.low[0, 1]) < 0 < float(result.high[0, 1])
    never = difference(torch.zeros(8, 1), x, resample(x))
    assert float(never.value.abs().max()) == pytest.approx(0, abs=1e-12)


def animals() -> Any:
    return untrained("table", path=SAMPLE, **COLUMNS)


def test_tokens_are_told_by_the_columns_that_they_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    run = animals()
    data, model = run.data, run.model
    j = data.columns.index("feathers")
    bags = model.language.bag(model.sentences)
    of_birds = int(bags[:, 0].nonzero()[0, 0])  # A and others; in the other B instead of A
    of_others = int((bags == bags[of_birds][[1, 0, *range(2, bags.shape[1])]]).all(-1).nonzero()[0])

    def sentences(_: Any, states: torch.Tensor) -> torch.Tensor:
        p = torch.zeros(len(states), len(bags))
        p[torch.arange(len(states)), torch.where(data.x[:, j] == 1, of_birds, of_others)] = 1
        return p

    monkeypatch.setattr(token_meaning, "sentence_distribution", sentences)
    torch.manual_seed(0)
    tables = measure_rows(run, draws=2, inputs=1000)
    meaning = tables["token_meaning.csv"].set_index("token")
    assert meaning.loc["A", "likelier"].startswith("feathers (")
    assert "class=bird" in meaning.loc["A", "likelier"]
    assert meaning.loc["A", "share"] == pytest.approx(
        float(data.x[data.members["train"], j].float().mean())
    )
    birds = dict(zip(data.row_names, data.x[:, j].tolist(), strict=True))
    assert all(birds[name] for name in meaning.loc["A", "typical"].split(", "))
    assert meaning.loc["B", "rarer"].startswith("feathers (")
    assert (meaning.loc["C":, ["likelier", "rarer"]] == "").all(axis=None)
    rows = tables["rows.csv"].set_index("name")
    assert len(rows) == len(data.x)
    names = [model.language.name(s) for s in model.sentences]
    assert rows.loc["sparrow", ["sentence", "class", "share"]].tolist() == [
        names[of_birds], "bird", 1,
    ]  # fmt: skip
    assert rows.loc["wasp", "sentence"] == names[of_others]
    assert set(rows["split"]) == {"train", "held_out"}
    assert (rows["share_high"] == 1).all()  # of two draws, both alike
    assert rows["share_low"].tolist() == pytest.approx([2 / (2 + 1.96**2)] * len(rows), abs=1e-4)
    with torch.no_grad():
        x = data.rows(torch.arange(len(data.x)))
        exact = model.posterior.log_prob(model.encode(x).distribution).exp().max(-1)
    order = [data.row_names[k] for k in range(len(data.x))]
    assert rows.loc[order, "likeliest"].tolist() == [names[k] for k in exact.indices]
    assert rows.loc[order, "probability"].tolist() == pytest.approx(exact.values.tolist())


def test_the_analysis_shows_names() -> None:
    tables = measured("sentences", animals(), draws=2, inputs=50)
    assert len(tables["rows.csv"]) == 50
    figures = registry.load("analyses", "sentences").draw(tables)
    ticks = [t.get_text() for t in figures["token_columns"].axes[0].get_xticklabels()]
    assert {"feathers", "legs>=2", "class=bird"} <= {*ticks}
    bits = [t.get_text() for t in figures["sentences"].axes[-2].get_xticklabels()]
    assert "feathers" in bits
