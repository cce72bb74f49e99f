"""Runs: a resumed one equals an uninterrupted one bit for bit, and crashes keep the checkpoint."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from plot_attractors.runs import Interrupted, Run, fit, registry, store
from plot_attractors.runs.analyze import analyze

TOYS = Path(__file__).parents[1] / "toy_programs"
MODEL = TOYS / "toy_model.py"
TOTAL = 33


def train(out: Path, **arguments: Any) -> Path:
    return fit(MODEL, out=out, log_every=3, **{"checkpoint_seconds": 1e9, **arguments})


def checkpoint(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(path / "checkpoint.pt", weights_only=True)
    return loaded


def assert_equal(a: Any, b: Any, where: str = "") -> None:
    """Equal to the last bit, through all containers."""
    assert type(a) is type(b), where
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype, where
        assert torch.equal(a, b), where
    elif isinstance(a, Mapping):
        assert list(a) == list(b), where
        for key in a:
            assert_equal(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_equal(x, y, f"{where}/{i}")
    else:
        assert a == b, where


def assert_same_run(a: Path, b: Path) -> None:
    first, second = checkpoint(a), checkpoint(b)
    for one in (first, second):
        del one["seconds"]
        one["rows"] = [row | {"seconds": 0} for row in one["rows"]]
    assert_equal(first, second)
    one, two = (pd.read_csv(p / "metrics.csv", dtype=str).drop(columns="seconds") for p in (a, b))
    pd.testing.assert_frame_equal(one, two)


@contextmanager
def at_each_step(act: Callable[[Any], object]) -> Iterator[None]:
    """Something happens before each update."""
    inference = registry.load("inference", TOYS / "toy_inference.py").ToyInference
    step = inference.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference, "step", lambda trainer: (act(trainer), step(trainer))[1])
        yield


def train_until(position: int, out: Path, number: int = signal.SIGINT, **arguments: Any) -> None:
    """Train, and send the process a signal once the run is at an update."""

    def stop(trainer: Any) -> None:
        if trainer.position == position - 1:
            os.kill(os.getpid(), number)

    with at_each_step(stop), pytest.raises(Interrupted, match=f"after update {position} of 33"):
        train(out, **arguments)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("whole") / "run")


def test_the_directory_holds_what_it_should(whole: Path) -> None:
    files = {"config.toml", "metrics.csv", "checkpoint.pt", "environment.json", ".lock"}
    assert {path.name for path in whole.iterdir()} == files
    config = Run(whole).config
    names = {"program": "model", "data": "data", "inference": "inference"}
    programs = {name: str(TOYS / f"toy_{file}.py") for name, file in names.items()}
    assert config["run"] == {**programs, "preset": "full", "seed": 0, "log_every": 3}
    assert (config["data"]["columns"], config["model"]["clip"]) == (3, "none")
    assert config["inference"]["replay"] == {"updates": 4, "size": 20}
    assert "[inference.replay]" in (whole / "config.toml").read_text()
    environment = json.loads((whole / "environment.json").read_text())
    assert {"versions", "platform", "command", "started", "ended", "seconds"} <= environment.keys()
    assert environment["ended"] is not None


def test_rows_are_means_over_windows_that_end_with_their_phase(whole: Path, tmp_path: Path) -> None:
    metrics = Run(whole).metrics()
    assert list(metrics["step"][:6]) == [3, 6, 7, 10, 11, 14]
    assert list(metrics["phase"][:5]) == ["fit", "fit", "fit", "replay", "replay"]
    assert metrics["cycle"].iloc[-1] == 2
    often = fit(MODEL, out=tmp_path / "single", log_every=1)
    single = Run(often).metrics()
    assert metrics["fit_loss"].iloc[0] == pytest.approx(single["fit_loss"][:3].mean(), rel=1e-12)
    assert metrics["replay_loss"].iloc[3] == pytest.approx(
        single["replay_loss"][7:10].mean(), rel=1e-12
    )
    # how often metrics are summarised leaves the training alone
    assert_equal(checkpoint(whole)["inference"], checkpoint(often)["inference"])


def test_the_callers_random_state_is_left_alone(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    path = train(tmp_path / "run")
    _ = Run(path).model
    analyze(path, [TOYS / "toy_analysis.py"])
    assert torch.equal(before, torch.get_rng_state())


def test_denormal_numbers_are_zero_while_a_run_trains(tmp_path: Path) -> None:
    result, denormal = [], torch.tensor(1e-40)
    with at_each_step(lambda _: result.append(float(denormal * 1))):
        train(tmp_path / "run")
    assert result == [0.0] * TOTAL
    assert float(denormal * 1) > 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"seed": 1}, r"other settings \(run.seed: 0, not 1\)"),
        ({"settings": {"replay.size": "5"}}, r"\(inference.replay.size: 20, not 5\)"),
        ({"settings": {"replay.updates": 0, "replay.size": 5}}, "'replay.size' has no effect here"),
        ({"settings": {"cycles": 0, "activation": "relu"}}, "no effect here: with cycles=0"),
        ({"inference": "gflownet_em"}, "other settings|AttractorModel"),
    ],
)
def test_what_is_refused_leaves_a_run_as_it_is(
    whole: Path, arguments: dict[str, Any], sentence: str
) -> None:
    before = (whole / "checkpoint.pt").read_bytes()
    with pytest.raises(ValueError, match=sentence):
        train(whole, **arguments)
    assert (whole / "checkpoint.pt").read_bytes() == before


def test_a_run_resumed_after_signals_equals_an_uninterrupted_one(
    whole: Path, tmp_path: Path
) -> None:
    numbers = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    nohup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    handlers = [signal.getsignal(number) for number in numbers]
    # at the start, inside of a window, at the end of a phase, inside of the second phase, one after
    # the other, before the last update
    for position, number in zip((1, 2, 7, 9, 12, 13, 30, 32), numbers * 3, strict=False):
        train_until(position, tmp_path / "run", number, resume=True)
        assert checkpoint(tmp_path / "run")["position"] == position
        assert [signal.getsignal(number) for number in numbers] == handlers
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with at_each_step(lambda _: os.kill(os.getpid(), signal.SIGHUP)):  # as under nohup
        train(tmp_path / "run", resume=True)
    signal.signal(signal.SIGHUP, nohup)
    assert_same_run(whole, tmp_path / "run")


def test_rows_after_the_checkpoint_are_written_again(whole: Path, tmp_path: Path) -> None:
    """After a crash the file may be ahead of the checkpoint."""
    run = tmp_path / "run"
    train_until(5, run)
    early = (run / "checkpoint.pt").read_bytes()
    train(run, resume=True)
    (run / "checkpoint.pt").write_bytes(early)
    train(run, resume=True)
    assert_same_run(whole, run)


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_crash_while_the_checkpoint_is_written_keeps_the_one_before(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    run, original, calls = tmp_path / "run", getattr(os, call), iter(range(1000))

    def full(*arguments: Any) -> None:
        if next(calls) == 41:  # every other one is of a checkpoint
            raise OSError(errno.ENOSPC, "No space left on device")
        original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(OSError, match="No space left on device"):
            train(run, checkpoint_seconds=0.0)
    assert (run / ".checkpoint.pt.tmp").is_file()
    assert 0 < checkpoint(run)["position"] < TOTAL
    train(run, resume=True)
    assert_same_run(whole, run)


def test_a_second_process_is_kept_out_of_a_new_directory(tmp_path: Path) -> None:
    with store.lock(tmp_path / "run"), pytest.raises(ValueError, match="another process is train"):
        train(tmp_path / "run")
    assert train(tmp_path / "run") == tmp_path / "run"


def test_a_finished_run_returns_at_once(whole: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in whole.iterdir()}
    with caplog.at_level("INFO"):
        train(whole)
        train(whole, resume=True)
    assert {path.name: path.stat().st_mtime_ns for path in whole.iterdir()} == before
    assert caplog.messages == [f"nothing to do: {whole} is finished ({TOTAL} updates)"] * 2


def test_a_directory_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine")
    with pytest.raises(ValueError, match="not empty and holds no run"):
        train(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_what_cannot_be_resumed_gets_a_sentence(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_until(12, run)
    with pytest.raises(ValueError, match=rf"unfinished run \(update 12 of {TOTAL}\).*--resume"):
        train(run)
    saved, other = (run / "checkpoint.pt").read_bytes(), checkpoint(run)
    del other["inference"]["model"]
    torch.save(other, run / "checkpoint.pt")
    with pytest.raises(ValueError, match="another version of its programs, with other parts"):
        train(run, resume=True)
    (run / "checkpoint.pt").write_bytes(saved[: len(saved) // 2])
    with pytest.raises(ValueError, match=r"checkpoint\.pt cannot be read"):
        train(run, resume=True)
    (run / "checkpoint.pt").unlink()
    train(run)  # what ended before its first checkpoint does not block its directory
    assert checkpoint(run)["position"] == TOTAL


@pytest.mark.parametrize(
    ("settings", "sentence", "kept"),
    [
        ({"break_at": 15}, r"fit_loss is inf at update 15", 14),
        ({"nan_at": 10}, r"the parameter 0\.weight is not finite after update 10", 9),
    ],
)
def test_what_is_not_finite_stops_the_run(
    tmp_path: Path, settings: dict[str, int], sentence: str, kept: int
) -> None:
    with pytest.raises(FloatingPointError, match=sentence):
        train(tmp_path / "run", settings=settings, checkpoint_seconds=0.0)
    assert checkpoint(tmp_path / "run")["position"] == kept


def test_a_state_that_cannot_be_read_back_is_found_before_training(tmp_path: Path) -> None:
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        train(tmp_path / "run", settings={"unsafe": True})
    assert Run(tmp_path / "run").metrics().empty


def test_a_run_gives_its_model_data_and_settings(whole: Path) -> None:
    run = Run(whole)
    assert_equal(dict(run.model.state_dict()), dict(checkpoint(whole)["inference"]["model"]))
    assert not run.model.training
    assert torch.equal(run.data.slope, Run(whole).data.slope)  # drawn from the run's seed
    assert run.data_config.columns == 3
    assert run.position == (TOTAL, TOTAL)
    with pytest.raises(ValueError, match=r"no config\.toml"):
        Run(whole / "nothing")


def test_the_default_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = fit(MODEL, preset="demo", seed=4)
    assert path == Path("runs/toy_model-toy_data-toy_inference-demo-4")
    config = Run(tmp_path / path).config  # the inference program has presets for the kind of data
    assert (config["data"]["columns"], config["inference"]["replay"]["updates"]) == (2, 2)
