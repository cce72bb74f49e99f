"""Sentences beside conjunctions on a table: a model that says the conjunctions agrees with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Bernoulli
from torch import Tensor

from plot_attractors.data import read_table
from plot_attractors.data.table import SAMPLE
from plot_attractors.language import Language
from plot_attractors.model.protocols import Description
from plot_attractors.runs import registry

from ..small import Untrained, measured, untrained


@pytest.fixture
def table(tmp_path: Path) -> Any:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (60, 4))
    frame = pd.DataFrame(x, columns=["milk", "fins", "legs", "eggs"])
    frame["name"] = [f"animal {k}" for k in range(60)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    return read_table(tmp_path / "t.csv", names="name")


class SaysTwoColumns:
    """One token for milk, one for fins; each is decoded to these columns, the others to shares."""

    latent = 4

    def __init__(self, data: Any) -> None:
        self.language, self.share = (
            Language((1, 1), min_length=0),
            data.rows(torch.arange(60)).mean(0),
        )

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        s = x[:, None, :2].expand(-1, draws, -1)
        return Description(self.embed(s), s)

    def embed(self, s: Tensor) -> Tensor:
        return torch.cat([s * 0.999 + 0.0005, self.share[2:].expand(*s.shape[:-1], 2)], -1)

    def decoder(self, z: Tensor) -> Bernoulli:
        return Bernoulli(z)

    def reconstruct(self, x: Tensor) -> Bernoulli:
        return Bernoulli(x)


def test_sentences_of_two_columns_are_translated_to_them(table: Any) -> None:
    torch.manual_seed(0)
    tables = measured("compare_table_grammar", Untrained(SaysTwoColumns(table), table))
    result = tables["translations.csv"].set_index("sentence")
    assert len(result) == 4
    for sentence, words in (("A·B", ("milk", "fins")), ("A", ("milk", "¬fins"))):
        said = result.loc[sentence, "expression"].split(" ∧ ")
        assert set(words) <= set(said)
    assert (result["residual"] < 0.05).all()
    summary = tables["summary.csv"].set_index("column")
    assert summary.loc["all", "floor"] < summary.loc["all", "js"] < summary.loc["all", "shuffled"]
    rows = tables["rows.csv"]
    assert rows["name"].tolist() == list(table.row_names)
    assert (rows["share"] == 1).all()


def test_the_analysis_of_the_sample_and_its_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.load("analyses", "compare_table_grammar"), "MOST_LITERALS", 2)
    run = untrained("table", path=SAMPLE, names="animal", labels="class", at_least="legs",
                    held_out_fraction=0.2)  # fmt: skip
    tables = measured("compare_table_grammar", run, inputs=40, draws=4)
    assert len(tables["rows.csv"]) == 40
    assert set(tables["summary.csv"]["split"]) == {"train", "held_out"}
    figures = registry.load("analyses", "compare_table_grammar").draw(tables)
    assert set(figures) == {"table"}
    ticks = [t.get_text() for t in figures["table"].axes[0].get_xticklabels()]
    assert {"milk", "legs>=4"} <= {*ticks}


def test_a_disjunction_is_found_where_conjunctions_are_far(table: Any) -> None:
    """A token for "milk or fins": only rules with ∨ say what its sentences do."""

    class SaysEither(SaysTwoColumns):
        def __init__(self, data: Any) -> None:
            self.data = data.rows(torch.arange(60))
            self.language = Language((1,), min_length=0)
            either = (self.data[:, 0] + self.data[:, 1]) > 0
            self.means = torch.stack([self.data[~either].mean(0), self.data[either].mean(0)])

        def describe(self, x: Tensor, draws: int = 1) -> Description:
            s = ((x[:, :1] + x[:, 1:2]) > 0).float()[:, None].expand(-1, draws, -1)
            return Description(self.embed(s), s)

        def embed(self, s: Tensor) -> Tensor:
            return self.means[s[..., 0].long()].clamp(1e-3, 1 - 1e-3)

    torch.manual_seed(0)
    analysis: Any = registry.load("analyses", "compare_table_grammar")
    run = Untrained(model=SaysEither(table), data=table)
    either = {}
    for disjunctions in (False, True):
        config = analysis.Config(inputs=60, draws=4, disjunctions=disjunctions)
        translations = analysis.measure(run, config)["translations.csv"].set_index("sentence")
        either[disjunctions] = translations.loc["A"]
    assert either[True]["residual"] < 0.9 * either[False]["residual"]
    assert either[False]["expression"] == "∅"
    assert either[True]["expression"] in ("( milk ∨ fins )", "( fins ∨ milk )")
