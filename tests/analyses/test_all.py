"""Every analysis on a run trained for a few updates: its files, its columns, and what they add up
to.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from plot_attractors.runs import Run, fit, registry
from plot_attractors.runs.analyze import analyze

from ..run_directory import lacking
from ..small import SETTINGS, random_decoder

ELSEWHERE = {"people"}
NAMES = sorted(SETTINGS.keys() | {"training"})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The smoke run, with all analyses, made with few inputs and draws."""
    path = fit("hbv", preset="smoke", out=tmp_path_factory.mktemp("analyses") / "run", log_every=5)
    result = Run(path)
    telling = Run(path)  # a few updates teach the decoder one answer to all
    with torch.random.fork_rng():
        torch.manual_seed(0)
        random_decoder(telling)
    others = [name for name in NAMES if name != "perturbation"]
    settings = {name: SETTINGS.get(name, {}) for name in NAMES}
    for made in [
        *analyze(path, others, settings={name: settings[name] for name in others}),
        *analyze(telling, ["perturbation"], settings={"perturbation": settings["perturbation"]}),
    ]:
        assert made.error is None, f"{made.name}: {made.error!r}"
    return result


def summary(run: Run, name: str, file: str = "summary.csv") -> pd.DataFrame:
    return pd.read_csv(run.path / "analyses" / name / file)


def test_every_analysis_is_tested() -> None:
    assert set(NAMES) | ELSEWHERE == set(registry.names("analyses"))


def test_the_reference_names_every_file_and_column(run: Run) -> None:
    assert lacking(run.path) == []


@pytest.mark.parametrize("name", NAMES)
def test_files_and_captions(run: Run, name: str) -> None:
    program = registry.load("analyses", name)
    assert not summary(run, name).empty
    files = (run.path / "analyses" / name).iterdir()
    pictures = {path.stem for path in files if path.suffix in (".png", ".svg")}
    assert bool(pictures) is hasattr(program, "draw")
    assert pictures <= getattr(program, "CAPTIONS", {}).keys()


def test_distributions_of_information_loss_give_back_the_table(run: Run) -> None:
    table = summary(run, "information_loss").set_index(["split", "steps"])
    distribution = summary(run, "information_loss", "distribution.csv")
    assert list(table.index.get_level_values("steps")) == [20, 40, 100] * 2
    assert table.groupby("split")["kl_exact"].nunique().eq(1).all()  # the control knows no steps
    for key, part in distribution.groupby(["split", "steps"]):
        d, f = part["d"].to_numpy(), part["sampler"].to_numpy()
        assert f.sum() == pytest.approx(1)
        assert part["exact"].sum() == pytest.approx(1)
        assert (d * f).sum() == pytest.approx(table.loc[key, "mean"])
        assert f[d < 0].sum() == pytest.approx(table.loc[key, "p_negative"])
        kept = f[d >= 0] / f[d >= 0].sum()
        k = d[d >= 0][kept > 0]
        kl = (kept[kept > 0] * np.log(kept[kept > 0] * 2.0 ** (k + 1))).sum()
        assert kl == pytest.approx(table.loc[key, "kl"])


def test_calibration_table(run: Run) -> None:
    table = summary(run, "calibration")
    table = table[table["split"] == "train"]
    wide = table.pivot(index="steps", columns="statistic", values="value")
    assert list(wide.index) == [20, 40, 100]
    once = ["elbo", "eubo", "ess_512", "k_hat_512"]  # at T alone
    once += [*wide.filter(regex="tv_(policy|brownian|encoder)")]
    assert wide.loc[[40, 100], once].isna().all(axis=None)
    first = wide.loc[20]
    few = first.index.str.contains("extrapolated")  # which have nothing to extrapolate from
    assert first[~few].notna().all()
    assert first["elbo"] < first["log_z"] < first["eubo"]
    assert 1 / 512 <= first["ess_512"] <= 1
    # an untrained sampler is worse than the noise of exact draws
    floor = table[table["steps"] == 20].set_index("statistic")["floor"]
    for name in ("tv", "tv_discretizer", "distance"):
        assert floor[name] < first[name]


def test_sentences_of_classes_add_up(run: Run) -> None:
    table, classes = summary(run, "sentences", "sentences.csv"), summary(run, "sentences")
    listed = table.groupby("class", sort=False)
    assert (listed["sampler"].sum() <= 1 + 1e-5).all()
    assert listed["sampler"].apply(lambda p: p.is_monotonic_decreasing).all()
    assert list(classes["class"]) == list(listed.groups) == list(run.data.class_names)
    tokens = np.load(run.path / "analyses" / "sentences" / "classes.npz")["tokens"]
    pairs = tokens.reshape(len(classes), -1, 2)  # tokens of a pair exclude each other
    assert (pairs.sum(-1) <= 1 + 1e-5).all()
    np.testing.assert_allclose(tokens.sum(-1), classes["length"], rtol=1e-4)


def test_training_table_has_a_row_for_every_phase(run: Run) -> None:
    table = summary(run, "training")
    steps = run.metrics().set_index("step")[["phase", "cycle"]]
    assert [*zip(table["phase"], table["cycle"], strict=True)] == [
        phase for phase, _ in itertools.groupby(steps.itertuples(index=False, name=None))
    ]
    assert table["updates"].sum() == run.position[1]
