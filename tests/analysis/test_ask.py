"""What a model says of an input: what stands for inputs, and numbers by enumeration."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from plot_attractors.analysis.ask import (
    _by_bayes,
    as_hssm,
    ask,
    at_random,
    exact_entropy,
    log_posterior,
    meanings,
    read_inputs,
    samples,
)
from plot_attractors.analysis.responses import Choices
from plot_attractors.data.table import SAMPLE
from plot_attractors.runs import Run

from ..small import Untrained, untrained

ANIMALS = {"path": SAMPLE, "names": "animal", "labels": "class"}


def run_of(name: str = "hbv", data: str | None = None, **settings: Any) -> Untrained:
    """With the name that its data give the column of names."""
    made = untrained(name, data, **settings)
    vars(made)["data_config"] = SimpleNamespace(names="animal")
    return made


@pytest.fixture(scope="module")
def animals() -> Untrained:
    return run_of("table", **ANIMALS)


@pytest.fixture(scope="module")
def tree() -> Untrained:
    return run_of()


def test_whatever_stands_for_a_row(animals: Untrained, tmp_path: Path) -> None:
    data = animals.data
    row = data.row_names.index("wasp")
    x = data.at(torch.tensor([row])).x
    file = tmp_path / "one.csv"
    frame = pd.read_csv(SAMPLE)
    frame[frame["animal"] == "wasp"].to_csv(file, index=False)
    np.save(tmp_path / "one.npy", x.numpy())
    for what in (
        "wasp", str(row), row, x, x[0], x[0].int().tolist(), x.numpy(),
        file, tmp_path / "one.npy",
    ):  # fmt: skip
        assert_close(read_inputs(animals, what).x, x, msg=str(what))
    assert read_inputs(animals, "wasp").names == read_inputs(animals, file).names == ["wasp"]
    bird = read_inputs(animals, "class=bird")
    column = data.features[0].outcomes.index("bird")
    assert float(bird.values[0, 0]) == column


def test_columns_of_a_table_are_found_by_name(animals: Untrained, tmp_path: Path) -> None:
    frame = pd.read_csv(SAMPLE).iloc[:2, ::-1]
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert_close(read_inputs(animals, tmp_path / "new.csv").x, animals.data.x[:2].float())
    frame.drop(columns="feathers").to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(ValueError, match="no column 'feathers'"):
        read_inputs(animals, tmp_path / "other.csv")


def test_vectors_are_standardised_as_in_the_training(tmp_path: Path) -> None:
    values = 5 + 3 * torch.randn(40, 6).numpy()
    frame = pd.DataFrame(values, columns=list("abcdef")).assign(c=1.0)  # a constant is left out
    frame.to_csv(tmp_path / "v.csv", index=False)
    run = run_of("vectors", path=tmp_path / "v.csv")
    x = run.data.at(torch.tensor([3])).x
    assert_close(read_inputs(run, 3).x, x)
    assert_close(read_inputs(run, frame.to_numpy()[3]).x, x)
    frame.iloc[3:4, ::-1].to_csv(tmp_path / "other.csv", index=False)
    assert_close(read_inputs(run, tmp_path / "other.csv").x, x)
    with pytest.raises(ValueError, match="6 numbers each"):
        read_inputs(run, [1.0, 2.0])
    with pytest.raises(ValueError, match="missing or infinite"):
        read_inputs(run, [1, 2, 3, float("nan"), 5, 6])


def test_images_are_brought_to_the_size_of_the_training(tmp_path: Path) -> None:
    run = run_of("dsprites")
    x = run.data.at(torch.tensor([5])).x
    side = x.shape[-1]
    pixels = (255 * x[0]).round().byte().movedim(0, -1).numpy()
    Image.fromarray(pixels).resize((2 * side, 2 * side), 0).save(tmp_path / "one.png")
    for what in (tmp_path / "one.png", pixels, x):
        assert_close(read_inputs(run, what).x, x, rtol=0, atol=1 / 255)


def test_an_input_with_features_has_them_to_be_seen() -> None:
    """Its own noise gave the red heart of seed 0 the look of a yellow one, and its answer too."""
    answer = ask(Run("pretrained:dsprites"), "colour=red shape=heart", draws=32, most=1)
    assert re.fullmatch(r"red heart row \d+", answer.inputs.input[0])
    assert answer.inputs.near[0].startswith("red heart")
    assert answer.sentences.meaning[0].startswith("colour red (1.00); shape heart")


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        ("wsap", "did you mean 'wasp'"),
        (100_000, "rows have the numbers 0 to 162"),
        ([[0.5] * 31], "0 or 1|numbers each"),
        ("class=fishes", "class is never 'fishes': it is one of"),
        ("missing.csv", "no file 'missing.csv'"),
    ],
)
def test_what_stands_for_no_input_gets_a_sentence(
    animals: Untrained, what: Any, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_inputs(animals, what)


def test_a_name_of_several_rows_is_no_name(animals: Untrained) -> None:
    data = dataclasses.replace(animals.data, row_names=("wasp",) * len(animals.data.row_names))
    with pytest.raises(ValueError, match="163 rows are called 'wasp': give a number"):
        read_inputs(Untrained(animals.model, data), "wasp")


def test_probabilities_of_sentences(tree: Untrained) -> None:
    answer = ask(tree, "LR", draws=400, most=400)
    table = answer.sentences
    assert table["probability"].sum() == pytest.approx(1)
    assert table["probability"].is_monotonic_decreasing
    assert (table["low"] <= table["probability"]).all()
    assert (table["probability"] <= table["high"]).all()
    assert table["exact"].sum() <= 1.001
    pd.testing.assert_frame_equal(table, ask(tree, "LR", draws=400, most=400).sentences)


@pytest.mark.parametrize("name", ["hbv", "dsprites"])  # listed; and summed axis by axis
def test_the_posterior_and_its_entropy_by_enumeration(name: str) -> None:
    run = run_of(name)
    model = run.model
    for p in model.sentence_encoder.parameters():
        p.normal_()
    q = model.encode(run.data.batch(6).x).distribution
    log_p = model.posterior.log_prob(q)
    assert_close(log_posterior(model, q, model.sentences).T, log_p, rtol=1e-3, atol=1e-3)
    expected = torch.distributions.Categorical(logits=log_p).entropy()
    assert_close(exact_entropy(model, q), expected, rtol=1e-4, atol=1e-5)


def test_what_a_sentence_means_is_bayes_rule(animals: Untrained) -> None:
    """P(class | s) by a sum over rows, one by one."""
    model, data = animals.model, animals.data
    reference = at_random(animals, 300, 0)
    q = model.encode(reference.x).distribution
    s = model.sentences[[0, 9, 20]]
    p = model.posterior.log_prob(q).exp()
    weight = _by_bayes(model, q, s)
    for k, text in zip((0, 9, 20), meanings(animals, s, reference, weight), strict=True):
        total = dict.fromkeys(data.features[0].outcomes, 0.0)
        for row in range(300):
            total[data.features[0].outcomes[int(reference.labels[row, 0])]] += float(p[row, k])
        share = {name: part / sum(total.values()) for name, part in total.items()}
        told = {f"class {name} ({part:.2f})" for name, part in share.items() if part >= 0.5}
        assert {part for part in text.split("; ") if part.startswith("class ")} == told


@pytest.mark.parametrize("program", ["vqvae", "emergent_communication", "grammar"])
def test_models_without_attractors_are_asked(program: str) -> None:
    """A sentence means what the inputs have that it is said of."""
    run = run_of(program, "table", **ANIMALS)
    answer = ask(run, "wasp", draws=300, most=300)
    table = answer.sentences
    assert table["probability"].sum() == pytest.approx(1)
    assert table["exact"].isna().all()
    assert {"time", "responded"}.isdisjoint(answer.inputs)
    assert answer.inputs["near"][0].count(",") == 3
    with pytest.raises(ValueError, match="needs an attractor model"):
        ask(run, "wasp", resample=8)
    reference = at_random(run, 200, 0)
    s = run.model.describe(reference.x[:1]).s[0]
    weight = torch.zeros(1, 200).index_fill_(1, torch.tensor([3, 9]), 0.5)
    (text,) = meanings(run, s, reference, weight)
    for row in (3, 9):
        assert run.data.row_names[reference.y[row]] in text.split("as ")[1]
    if program == "emergent_communication":  # it decodes no input
        assert meanings(run, s, reference, 0 * weight) == [""]
        tree = run_of(program)
        unsaid = tree.model.language.sentences[:1], at_random(tree, 9, 0), torch.zeros(1, 9)
        assert meanings(tree, *unsaid) == [""]


def test_every_draw(tree: Untrained) -> None:
    chosen = Choices("branch1", 0, ("none", "left", "right"), lambda s: 1 + s[:, 0].long())
    inputs = read_inputs(tree, at_random(tree, 3, 0))
    table = samples(tree, inputs, draws=7, chosen=chosen)
    assert list(table["draw"]) == [*range(7)] * 3
    known = table.dropna(subset=["time"])
    own = dict(zip(inputs.names, inputs.values[:, 0].tolist(), strict=True))
    for row in known.to_dict("records"):
        value = ("none", "left", "right").index(row["choice"])
        assert row["correct"] == float(value == own[row["input"]])
    assert (table.loc[table["time"].isna(), "choice"] == "").all()
    assert (table["log_p"] <= 1e-5).all()
    assert table["last_change"].between(0, tree.model.steps).all()
    table.loc[0, ["time", "choice"]] = None, ""
    trials = as_hssm(table, chosen, 0.05, 3)
    assert trials.loc[0, ["rt", "response"]].tolist() == [-999, -999]
    assert trials["rt"][1:].tolist() == pytest.approx(((table["time"] + 1) / 20)[1:].fillna(-999))
    assert set(trials["response"]) <= {-999, 0, 1, 2}
    two = as_hssm(table, chosen._replace(names=("none", "left")), 1.0, 3)
    assert set(two["response"]) <= {-999, -1, 1}
    with pytest.raises(ValueError, match="name a feature with --feature"):
        as_hssm(table, None, 1.0, 3)
