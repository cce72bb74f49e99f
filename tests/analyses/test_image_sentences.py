"""Sentences of images, by a model whose tokens and decoder are known, and on untrained models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.data import Batch, Feature
from plot_attractors.language import Language
from plot_attractors.runs import registry

from ..small import SETTINGS, Untrained, measured, untrained

image_sentences = registry.load("analyses", "image_sentences")
Sampled, count_tokens, list_tokens, token_change, variance_explained, _lines = (
    image_sentences.Sampled,
    image_sentences.count_tokens,
    image_sentences.list_tokens,
    image_sentences.token_change,
    image_sentences.variance_explained,
    image_sentences._lines,
)

COLOUR, SHAPE, PLACE = (
    Feature("colour", ("red", "green", "blue")),
    Feature("shape", ("disc", "box")),
    Feature("place"),
)


class Things:
    """Things of three colours, two shapes and a place, in every combination."""

    features, ordered = (COLOUR, SHAPE, PLACE), False

    def __init__(self) -> None:
        parts = torch.arange(3), torch.arange(2), torch.linspace(0, 1, 20)
        self.values = torch.cartesian_prod(*(part.float() for part in parts))

    def feature_values(self, batch: Batch) -> Tensor:
        return self.values[batch.y]


def known(s: Tensor, batch: Batch) -> Sampled:
    """The same sentences s (n, width) drawn, and best."""
    drawn = s[:, None].expand(-1, 3, -1)
    q = Normal(torch.zeros(len(s), 1), 1.0)
    return Sampled("train", batch, q, drawn, drawn, s, torch.zeros(len(s)))


def test_tokens_stand_for_what_they_are_present_with() -> None:
    """A: red; B: box; C: the right half; D: always; E: never."""
    data = Things()
    colour, shape, place = data.values.T
    n = len(data.values)
    s = torch.stack(
        [colour == 0, shape == 1, place > 0.5, torch.ones(n) > 0, torch.zeros(n) > 0], 1
    ).float()
    batch = Batch(torch.zeros(n, 1, 8, 8), torch.arange(n), torch.empty(n, 0))

    class Model:
        language = Language((1,) * 5)

    model: Any = Model()
    table = list_tokens(model.language, count_tokens(model, data, known(s, batch)))
    assert " ".join(table.columns) == "token source share r2_colour r2_shape r2_place"
    for _, part in table.groupby("source"):
        r2 = part.set_index("token")[["r2_colour", "r2_shape", "r2_place"]]
        np.testing.assert_allclose(r2.loc["A"], [1, 0, 0], atol=1e-5)
        np.testing.assert_allclose(r2.loc["B"], [0, 1, 0], atol=1e-5)
        np.testing.assert_allclose(r2.loc["C"], [0, 0, 1], atol=1e-5)
        assert r2.loc[["D", "E"]].isna().all(axis=None)
        np.testing.assert_allclose(part["share"], [1 / 3, 1 / 2, 1 / 2, 1, 0], atol=1e-5)


def test_variance_explained_leaves_out_what_is_missing_and_counts_doubt() -> None:
    values = torch.tensor([0.0, 0.0, 1.0, 1.0, torch.nan, torch.nan])
    p = torch.tensor([[1.0, 0.75], [1.0, 0.75], [0.0, 0.25], [0.0, 0.25], [0.0, 1.0], [0.0, 1.0]])
    torch.testing.assert_close(variance_explained(p, values, SHAPE), torch.tensor([1.0, 0.25]))
    assert variance_explained(p, torch.full((6,), torch.nan), SHAPE).isnan().all()


def test_variance_explained_by_a_continuous_feature() -> None:
    """P = x for x uniform has R² = Var x / (1/4) = 1/3, of which eight bins keep 63/64."""
    x = torch.linspace(0, 1, 8001)
    assert variance_explained(x[:, None], x, PLACE).item() == pytest.approx(63 / 64 / 3, abs=1e-3)


@pytest.mark.parametrize("ordered", [False, True])
def test_what_a_token_changes_is_what_it_draws(ordered: bool) -> None:
    """The decoder adds a pixel for each token, wherever it stands."""
    language = Language((1,) * 4, max_length=3, ordered=ordered)

    class Model:
        def __init__(self) -> None:
            self.language = language

        def embed(self, s: Tensor) -> Tensor:
            return language.bag(s)

        def decoder(self, z: Tensor) -> Normal:
            return Normal(z.unflatten(-1, (1, 2, 2)), 1.0)

    model: Any = Model()
    for token in range(4):
        s = language.sentences[language.bag(language.sentences)[:, token] > 0]
        mean, examples = token_change(model, s, token)
        torch.testing.assert_close(mean.flatten(), torch.eye(4)[token])
        torch.testing.assert_close(examples[:, 1].flatten(1), language.bag(s)[: len(examples)])


def test_the_commonest_sentence_comes_first() -> None:
    language = Language((1,) * 3)
    s = torch.eye(3)[[2, 0, 1, 1, 0, 1]]
    ranked, share = image_sentences._rank(language, s)
    assert [language.name(row) for row in ranked] == ["B", "A", "C"]
    torch.testing.assert_close(share, torch.tensor([3.0, 2.0, 1.0]) / 6)
    shares = image_sentences._shares(language, s[None])
    torch.testing.assert_close(shares.sum() / 6, torch.tensor(14 / 36))


def test_long_sentences_stand_on_two_lines() -> None:
    assert _lines("A·B·C·D·E·F·G") == "A·B·C·D·E·F·G"
    assert _lines("t10·t11·t12·t13·t14") == "t10·t11·t12·\nt13·t14"
    assert _lines("·".join(["t10"] * 9)) == "t10·t10·t10·\nt10·t10·t10…"


def images(program: str, **settings: Any) -> Untrained:
    return untrained(program, **{"steps": 3, "readout": "discretizer", **settings})


def analysed(run: Untrained) -> list[pd.DataFrame]:
    torch.manual_seed(0)
    tables = measured("image_sentences", run, **SETTINGS["image_sentences"])
    figures = image_sentences.draw(tables)
    assert list(figures) == ["images", "tokens"]
    for figure in figures.values():
        figure.draw_without_rendering()
    return [tables[f"{name}.csv"] for name in ("summary", "sentences", "tokens")]


@pytest.mark.parametrize("groups", [6, 40])
def test_sprites(groups: int) -> None:
    run = images("dsprites", **{"language.groups": (1,) * groups, "language.max_length": 5})
    summary, sentences, tokens = analysed(run)
    splits = ["train", "position", "position+colour", "position+shape"]
    assert list(summary["split"]) == list(sentences["split"].unique()) == splits
    assert list(summary["inputs"]) == [60, 20, 20, 20]
    assert summary["entropy"].between(0, np.log(8) + 1e-6).all()
    assert (summary["top"] >= 1 / 8).all()
    assert summary["length"].between(1, 5).all()
    assert (summary["log_reward"] <= summary["log_reward_best"]).all()
    assert summary.filter(like="rmse").stack().between(0, 1).all()

    each = sentences.groupby(["split", "input"], sort=False)
    assert len(each) == 6 + 3 * 1
    # eight draws are at most eight sentences
    np.testing.assert_allclose(each["sampler"].sum(), 1, atol=1e-6)
    assert (each["best"].sum() == 1).all()
    np.testing.assert_allclose(
        sentences["posterior"][sentences["best"] == 1], each["posterior"].max()
    )
    assert set(tokens["source"]) == {"sampler", "posterior"}
    features = ["r2_colour", "r2_shape", "r2_size", "r2_x", "r2_y"]
    assert list(tokens.columns) == ["token", "source", "share", *features]
    numbers = tokens.drop(columns=["token", "source"]).fillna(0)  # NaN: never present
    assert numbers.stack().between(0, 1).all()
    lengths = tokens.groupby("source")["share"].sum()
    assert lengths["sampler"] == pytest.approx(summary["length"][0], rel=1e-4)
    assert lengths["posterior"] == pytest.approx(summary["length_posterior"][0], rel=1e-4)


@pytest.mark.parametrize("token_axes", [True, False])
def test_the_posterior_is_exact_where_all_sentences_are_visited(token_axes: bool) -> None:
    run = images("dsprites", token_axes=token_axes)
    _, sentences, _ = analysed(run)
    torch.manual_seed(0)
    q = run.model.encode(run.data.batch(60).x).distribution
    exact = run.model.posterior.log_prob(q).exp()
    rows = {run.model.language.name(s): k for k, s in enumerate(run.model.sentences)}
    part = sentences[sentences["split"] == "train"]
    of = exact[part["input"].tolist(), [rows[name] for name in part["sentence"]]]
    np.testing.assert_allclose(part["posterior"], of, rtol=1e-3, atol=1e-6)


def test_grey_images_without_labels(tmp_path: Path) -> None:
    np.save(tmp_path / "digits.npy", np.random.default_rng(0).random((30, 16, 16)))
    run = images("images", path=tmp_path / "digits.npy")
    summary, sentences, tokens = analysed(run)
    assert list(summary["split"]) == ["train"]
    assert list(tokens.columns) == ["token", "source", "share"]
    assert sentences["row"].between(0, 29).all()
