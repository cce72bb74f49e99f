"""People's data beside a model: correlations by hand, ceilings of known noise, refusals."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr

from plot_attractors.data.table import SAMPLE
from plot_attractors.runs import Run, fit, registry

from ..small import Untrained, untrained

program = registry.load("analyses", "people")
SIZES = {"draws": 8, "decoder_inputs": 300, "decoder_updates": 30}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "RESAMPLES", 200)


@pytest.fixture(scope="module")
def run() -> Untrained:
    torch.manual_seed(0)
    made = untrained("table", path=SAMPLE, names="animal", labels="class")
    vars(made)["data_config"] = SimpleNamespace(names="animal")
    return made


def measured(run: Untrained, frame: pd.DataFrame, folder: Path) -> dict[str, Any]:
    frame.to_csv(folder / "human.csv", index=False)
    tables: dict[str, Any] = program.measure(
        run, program.Config(human=folder / "human.csv", **SIZES)
    )
    return tables


def test_typicality(run: Untrained, tmp_path: Path) -> None:
    names = list(run.data.row_names[:30])
    frame = pd.DataFrame({"name": names, "typicality": np.arange(30.0), "sd": 10.0, "n": 4})
    ceiling = np.array(program.noise_ceiling(frame, "typicality", pd.Series(0, names)))
    tables = measured(run, frame, tmp_path)
    rows, summary = tables["inputs.csv"], tables["summary.csv"]
    assert {*summary["within"]} == {False, True}
    summary = summary[~summary["within"]].set_index("model")
    for name in ("information_lost", "likeliest", "entropy"):
        expected = spearmanr(rows["human_typicality"], rows[name]).statistic
        assert summary.loc[name, "rho"] == pytest.approx(expected)
        assert summary.loc[name, "low"] <= expected <= summary.loc[name, "high"]
        bounds = summary.loc[name, ["ceiling_low", "ceiling_high"]].tolist()
        assert bounds == pytest.approx(sorted(ceiling * np.sign(expected)))


def test_ratings_of_the_table_that_the_model_was_trained_on(run: Any, tmp_path: Path) -> None:
    frame = pd.read_csv(SAMPLE)[:40].assign(familiar=np.arange(40) / 3, time=np.arange(40) / 7)
    frame.to_csv(tmp_path / "human.csv", index=False)
    people = program.read_people(run, tmp_path / "human.csv")
    assert people.columns == ["familiar", "time"]  # and no column of the table


def test_no_row_is_a_part_of_its_own_prototype(run: Untrained, tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": run.data.row_names[:5], "typicality": np.arange(5.0)})
    tables = measured(run, frame, tmp_path)
    x, y = run.data.x.float(), run.data.labels[:, 0]
    k = next(k for k in range(5) if (y == y[k]).sum() > 1)
    others = (y == y[k]) & (torch.arange(len(y)) != k)
    expected = float((x[k] - x[others].mean(0)).norm())
    assert tables["inputs.csv"]["input_distance"][k] == pytest.approx(expected, rel=0.1)


def test_the_ceiling_of_means_with_sd_and_n() -> None:
    generator = np.random.default_rng(0)
    truth = generator.normal(size=500)
    ratings = truth + 3 * generator.normal(size=(20, 500))
    mean = ratings.mean(0)
    names = [f"n{k}" for k in range(500)]
    frame = pd.DataFrame({"name": names, "typicality": mean, "sd": ratings.std(0), "n": 20})
    whole = pd.Series(0, names)
    low, high = program.noise_ceiling(frame, "typicality", whole)
    assert low < np.corrcoef(mean, truth)[0, 1] < high < low + 0.06
    # pairs in a class each: the mean of two tells little, and is no bias
    pairs = pd.Series(np.arange(500) // 2, names)
    assert program.noise_ceiling(frame, "typicality", pairs) == pytest.approx((low, high), abs=0.06)
    # what differs between classes alone is no reliability within them
    group = pd.Series(np.arange(500) % 2, names)
    shifted = frame.assign(typicality=mean + 100 * group.to_numpy())
    within = program.noise_ceiling(shifted, "typicality", group)
    assert within == pytest.approx((low, high), abs=0.01)
    assert program.noise_ceiling(shifted, "typicality", whole)[0] > 0.999


def test_ranks_within_classes() -> None:
    """A correlation that stems from the means of classes alone is none within them."""
    generator = np.random.default_rng(2)
    group = np.repeat([0, 1], 100)
    a, b = (generator.normal(size=200) + 10 * group for _ in range(2))
    assert program.correlation(a, b, np.zeros(200))[0] > 0.7
    rho, low, high, n = program.correlation(a, b, group)
    assert abs(rho) < 0.2
    assert low < 0 < high
    assert n == 200
    alone = np.concatenate([group, [2, 3, -1, -1]])  # classes of one, and none known
    more = np.concatenate([a, [0, 1, 5, 6]]), np.concatenate([b, [1, 0, 6, 5]])
    assert program.correlation(*more, alone)[3] == 200
    # of a class each: the mean of Spearman's ρ of the two, which are as large
    both = [spearmanr(a[group == g], b[group == g]).statistic for g in (0, 1)]
    assert rho == pytest.approx(np.mean(both))


NAMES = ["wasp", "robin", "bee", "lion", "tiger", "seal", "trout"]


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        ({"name": NAMES}, "people's data have name and typicality or other ratings"),
        ({"name": NAMES, "typicality": ["high"] * 7}, "which is no number"),
        ({"name": ["a", "b"], "typicality": [1, 2]}, "0 names in common .* others: 'a', 'b'"),
    ],
)
def test_refusals(run: Untrained, frame: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        measured(run, pd.DataFrame(frame), tmp_path)
    with pytest.raises(ValueError, match=r"needs a table .* --set human=norms\.csv"):
        program.measure(run, program.Config())


def test_every_model_of_sentences_stands_beside_people(tmp_path: Path) -> None:
    data = {"path": SAMPLE, "names": "animal", "labels": ("class",)}
    paths = [
        fit(name, preset="smoke", data="table", settings=data, out=tmp_path / name)
        for name in ("attractor", "vqvae")
    ]
    names = list(Run(paths[0]).data.row_names[:30])
    frame = pd.DataFrame({"name": names, "typicality": np.arange(30.0)})
    frame.to_csv(tmp_path / "human.csv", index=False)
    config = {"human": tmp_path / "human.csv", **SIZES}
    both = program.measure(Run(paths[0]), program.Config(others=(paths[1],), **config))
    alone = program.measure(Run(paths[1]), program.Config(**config))
    models = both["models.csv"]
    assert set(models["model"]) == {"this run", "exact posterior", str(paths[1])}
    own = models[models["model"] == "this run"]
    assert (own[["difference", "se"]].dropna() == 0).all(axis=None)
    assert "time" not in alone["inputs.csv"]
    assert set(alone["models.csv"]["model"]) == {"this run"}


def test_differences_are_paired() -> None:
    generator = np.random.default_rng(0)
    human = generator.normal(size=60)
    near, far = (human + size * generator.normal(size=60) for size in (0.5, 3))
    one = np.zeros(60)
    difference, error = program.paired(human, far, near, one)
    rho = [spearmanr(human, x).statistic for x in (far, near)]
    assert difference == pytest.approx(rho[0] - rho[1])
    assert 0.02 < error < 0.2
    assert program.paired(human, near, near, one) == (0, 0)
    # what is shared by both cancels
    assert program.paired(human, near + 1e-3 * far, near, one)[1] < 0.02
