"""Sentences of vectors and images, by models whose tokens are known, and on untrained models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.analysis import sampling
from plot_attractors.data import Feature
from plot_attractors.data.table import SAMPLE
from plot_attractors.language import Language
from plot_attractors.measures.bootstrap import resample
from plot_attractors.runs import registry

from ..fakes import Things
from ..small import SETTINGS, measured, untrained

program = registry.load("analyses", "sentences")
difference, variance_explained = program.difference, program.variance_explained

COLOUR, SHAPE, PLACE = (
    Feature("colour", ("red", "green", "blue")),
    Feature("shape", ("disc", "box")),
    Feature("place"),
)


# Vectors


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


def test_tokens_are_told_by_the_columns_that_they_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    run = untrained("table", path=SAMPLE, names="animal", labels="class", held_out_fraction=0.2)
    data, model = run.data, run.model
    j = data.columns.index("feathers")
    bags = model.sentences
    of_birds = int(bags[:, 0].nonzero()[0, 0])  # A and others; in the other B instead of A
    of_others = int((bags == bags[of_birds][[1, 0, *range(2, bags.shape[1])]]).all(-1).nonzero()[0])

    def sentences(_: Any, states: torch.Tensor) -> torch.Tensor:
        p = torch.zeros(len(states), len(bags))
        p[torch.arange(len(states)), torch.where(data.x[:, j] == 1, of_birds, of_others)] = 1
        return p

    monkeypatch.setattr(sampling, "sentence_distribution", sentences)
    torch.manual_seed(0)
    tables = program.measure_rows(run, draws=2, inputs=1000)
    tokens = tables["tokens.csv"].set_index("token")
    assert tokens.loc["A", "higher"].startswith("feathers (")
    assert "class=bird" in tokens.loc["A", "higher"]
    birds = dict(zip(data.row_names, data.x[:, j].tolist(), strict=True))
    share = float(data.x[data.members["train"], j].float().mean())
    assert tokens.loc["A", "share"] == pytest.approx(share)
    assert tokens.loc["B", "lower"].startswith("feathers (")
    assert (tokens.loc["C":, ["higher", "lower"]] == "").all(axis=None)
    rows = tables["rows.csv"].set_index("name").loc[list(data.row_names)]
    names = [model.language.name(s) for s in model.sentences]
    expected = [names[of_birds] if birds[name] else names[of_others] for name in rows.index]
    assert rows["sentence"].tolist() == expected
    assert (rows["share"] == 1).all()
    assert set(rows["split"]) == {"train", "held_out"}
    with torch.no_grad():
        x = data.rows(torch.arange(len(data.x)))
        exact = model.posterior.log_prob(model.encode(x).distribution).exp().max(-1)
    assert rows["likeliest"].tolist() == [names[k] for k in exact.indices]
    assert rows["probability"].tolist() == pytest.approx(exact.values.tolist())


# Images


def test_tokens_stand_for_what_they_are_present_with() -> None:
    """A: red; B: box; C: the right half; D: always; E: never; of things in every combination."""
    x = torch.cartesian_prod(torch.arange(3.0), torch.arange(2.0), torch.linspace(0, 1, 20))
    data, n = Things((COLOUR, SHAPE, PLACE), lambda n: x), len(x)
    colour, shape, place = x.T
    s = torch.stack([colour == 0, shape == 1, place > 0.5, place >= 0, place < 0], 1).float()
    batch = data.batch(n)
    drawn, q = s[:, None].expand(-1, 3, -1), Normal(torch.zeros(n, 1), 1.0)
    sample = program.Sampled("train", batch, q, drawn, drawn.flip(-1), s, torch.zeros(n))
    table = program.list_tokens(Language((1,) * 5), data, sample).set_index("token")
    r2 = table[["r2_colour", "r2_shape", "r2_place"]]
    np.testing.assert_allclose(r2.loc[["A", "B", "C"]], np.eye(3), atol=1e-5)
    assert r2.loc[["D", "E"]].isna().all(axis=None)
    np.testing.assert_allclose(table["sampler"], [1 / 3, 1 / 2, 1 / 2, 1, 0], atol=1e-5)
    np.testing.assert_allclose(table["posterior"], [0, 1, 1 / 2, 1 / 2, 1 / 3], atol=1e-5)


def test_variance_explained_leaves_out_what_is_missing_and_counts_doubt() -> None:
    values = torch.tensor([0.0, 0.0, 1.0, 1.0, torch.nan, torch.nan])
    p = torch.tensor([[1.0, 0.75], [1.0, 0.75], [0.0, 0.25], [0.0, 0.25], [0.0, 1.0], [0.0, 1.0]])
    torch.testing.assert_close(variance_explained(p, values, SHAPE), torch.tensor([1.0, 0.25]))
    assert variance_explained(p, torch.full((6,), torch.nan), SHAPE).isnan().all()


def test_variance_explained_by_a_continuous_feature() -> None:
    """P = x for x uniform has R² = Var x / (1/4) = 1/3, of which eight bins keep 63/64."""
    x = torch.linspace(0, 1, 8001)
    assert variance_explained(x[:, None], x, PLACE).item() == pytest.approx(63 / 64 / 3, abs=1e-3)


def test_what_a_token_changes_is_what_it_draws() -> None:
    """The decoder adds a pixel for each token, wherever it stands."""
    language = Language((1,) * 4, max_length=3)

    class Model:
        def __init__(self) -> None:
            self.language, self.embed = language, lambda s: s

        def decoder(self, z: Tensor) -> Normal:
            return Normal(z.unflatten(-1, (1, 2, 2)), 1.0)

    for token in range(4):
        s = language.sentences[language.sentences[:, token] > 0]
        mean, examples = program.token_change(Model(), s, token)
        torch.testing.assert_close(mean.flatten(), torch.eye(4)[token])
        torch.testing.assert_close(examples[:, 1].flatten(1), s[: len(examples)])


def test_the_commonest_sentence_comes_first() -> None:
    language = Language((1,) * 3)
    s = torch.eye(3)[[2, 0, 1, 1, 0, 1]]
    ranked, share = program._rank(language, s)
    assert [language.name(row) for row in ranked] == ["B", "A", "C"]
    torch.testing.assert_close(share, torch.tensor([3.0, 2.0, 1.0]) / 6)
    sample: Any = program.Sampled("train", *[None] * 2, s[None], *[None] * 3)  # type: ignore[misc]
    row = program._summarise(language, sample)
    assert row["entropy"] == pytest.approx(-float((share * share.log()).sum()))
    assert (row["top"], row["length"]) == (0.5, 1)


def test_sprites() -> None:
    run = untrained("dsprites", steps=3, readout="discretizer")
    torch.manual_seed(0)
    tables = measured("sentences", run, **SETTINGS["sentences"])
    figures = program.draw(tables)
    assert list(figures) == ["images", "tokens"]
    for figure in figures.values():
        figure.draw_without_rendering()
    summary, sentences, tokens = (tables[f"{n}.csv"] for n in ("summary", "sentences", "tokens"))
    assert list(summary["inputs"]) == [60, 20, 20, 20]
    each = sentences.groupby(["split", "input"], sort=False)
    assert len(each) == 6 + 3 * 2
    # eight draws are at most eight sentences
    np.testing.assert_allclose(each["sampler"].sum(), 1, atol=1e-6)
    assert (each["best"].sum() == 1).all()
    best = sentences["posterior"][sentences["best"] == 1]
    np.testing.assert_allclose(best, each["posterior"].max())
    assert tokens["sampler"].sum() == pytest.approx(summary["length"][0], rel=1e-4)
    # the posterior is that of listed sentences
    torch.manual_seed(0)
    q = run.model.encode(run.data.batch(60).x).distribution
    exact = run.model.posterior.log_prob(q).exp()
    rows = {run.model.language.name(s): k for k, s in enumerate(run.model.sentences)}
    part = sentences[sentences["split"] == "train"]
    of = exact[part["input"].tolist(), [rows[name] for name in part["sentence"]]]
    np.testing.assert_allclose(part["posterior"], of, rtol=1e-3, atol=1e-6)
