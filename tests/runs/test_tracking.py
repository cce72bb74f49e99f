"""Trackers: rows of metrics in a CSV file, in TensorBoard, in Weights & Biases."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from plot_attractors.runs import Run
from plot_attractors.runs.tracking import CSVTracker

from .test_run import train, train_until


def test_csv_columns_may_turn_up_late(tmp_path: Path) -> None:
    tracker = CSVTracker(tmp_path / "m.csv")
    tracker.log(1, {"a": 1.5})
    tracker.log(2, {"a": 2.5, "b": 0.1})
    tracker.log(3, {"b": 1e-17})
    tracker.close()
    assert (tmp_path / "m.csv").read_text() == "step,a,b\n1,1.5,\n2,2.5,0.1\n3,,1e-17\n"
    CSVTracker(tmp_path / "m.csv", rows=1, columns=["step", "a"]).close()
    assert (tmp_path / "m.csv").read_text() == "step,a\n1,1.5\n"


def test_tensorboard_takes_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path = train(tmp_path / "run", trackers=["csv", "tensorboard"])
    events = EventAccumulator(str(path / "tensorboard"))
    events.Reload()
    logged = {event.step: event.value for event in events.Scalars("fit_loss")}
    metrics = Run(path).metrics().dropna(subset="fit_loss").set_index("step")["fit_loss"]
    assert logged == pytest.approx(metrics.to_dict(), rel=1e-6)


def test_a_tracker_whose_package_is_not_there_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"a package: pip install 'plot-attractors\[wandb\]'"):
        train(tmp_path / "run", trackers=["wandb"])
    assert not (tmp_path / "run").exists()


def test_wandb_goes_on_with_the_run_that_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[dict[str, Any]] = []
    logged: list[int] = []

    class Recorder:
        def log(self, metrics: dict[str, Any], step: int) -> None:
            logged.append(step)

        def finish(self) -> None:
            logged.append(-1)

    package = ModuleType("wandb")
    package.__spec__ = ModuleSpec("wandb", None)
    vars(package)["init"] = lambda **arguments: begun.append(arguments) or Recorder()
    monkeypatch.setitem(sys.modules, "wandb", package)
    train_until(5, tmp_path / "run", trackers=["wandb"])
    train(tmp_path / "run", trackers=["wandb"], resume=True)
    assert begun[0]["id"] == begun[1]["id"]
    assert begun[0]["config"]["data"]["columns"] == 3
    assert logged == [3, -1, *Run(tmp_path / "run").metrics()["step"][1:], -1]
