"""Rows of metrics in a CSV file, and in TensorBoard."""

from __future__ import annotations

from pathlib import Path

import pytest

from plot_attractors.runs import Run
from plot_attractors.runs.tracking import CSVTracker

from .test_run import train


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

    path = train(tmp_path / "run", tensorboard=True)
    events = EventAccumulator(str(path / "tensorboard"))
    events.Reload()
    logged = {event.step: event.value for event in events.Scalars("fit_loss")}
    metrics = Run(path).metrics().dropna(subset="fit_loss").set_index("step")["fit_loss"]
    assert logged == pytest.approx(metrics.to_dict(), rel=1e-6)


def test_without_its_package_there_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"a package: pip install 'plot-attractors\[tensorboard\]'"
    ):
        train(tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()
