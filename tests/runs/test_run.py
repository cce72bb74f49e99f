"""Runs: a resumed one equals an uninterrupted one bit for bit, and no crash costs the checkpoint.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import torch

from plot_attractors.runs import loop, registry, run as runs
from plot_attractors.runs.analyze import analyze
from plot_attractors.training.em import Phase
from plot_attractors.runs import Interrupted, Progress, Run, fit
from plot_attractors.runs.tracking import CSVTracker

TOYS = Path(__file__).parents[1] / "toy_programs"
MODEL = TOYS / "toy_model.py"
ANALYSIS = TOYS / "toy_analysis.py"
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
    del first["seconds"], second["seconds"]
    assert_equal(first, second)
    one, two = (pd.read_csv(path / "metrics.csv", dtype=str).drop(columns="seconds") for path in (a, b))
    pd.testing.assert_frame_equal(one, two)


class StopAt:
    """Sends the process a signal once the run is at an update."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, position: int, number: int = signal.SIGINT) -> None:
        inference = runs.registry.load("inference", TOYS / "toy_inference.py").ToyInference
        original = inference.step

        def step(trainer: Any) -> dict[str, float]:
            if trainer.position == position - 1:
                os.kill(os.getpid(), number)
            metrics: dict[str, float] = original(trainer)
            return metrics

        monkeypatch.setattr(inference, "step", step)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("whole") / "run")


def test_the_directory_holds_what_it_should(whole: Path) -> None:
    assert {path.name for path in whole.iterdir()} == {
        "config.toml",
        "metrics.csv",
        "checkpoint.pt",
        "environment.json",
    }
    config = Run(whole).config
    assert config["run"] == {
        "program": str(MODEL),
        "inference": str(TOYS / "toy_inference.py"),
        "preset": "full",
        "seed": 0,
        "log_every": 3,
    }
    assert (config["model"]["columns"], config["model"]["clip"], config["inference"]["cycles"]) == (3, "none", 3)
    environment = json.loads((whole / "environment.json").read_text())
    assert {"versions", "platform", "command", "started", "ended", "seconds"} <= environment.keys()
    assert environment["ended"] is not None


def test_rows_are_means_over_windows_that_end_with_their_phase(whole: Path, tmp_path: Path) -> None:
    metrics = Run(whole).metrics()
    assert list(metrics["step"][:6]) == [3, 6, 7, 10, 11, 14]
    assert list(metrics["phase"][:5]) == ["fit", "fit", "fit", "replay", "replay"]
    assert metrics["cycle"].iloc[-1] == 2
    single = Run(fit(MODEL, out=tmp_path / "single", log_every=1)).metrics()
    assert metrics["fit_loss"].iloc[0] == pytest.approx(single["fit_loss"][:3].mean(), rel=1e-12)
    assert metrics["replay_loss"].iloc[3] == pytest.approx(single["replay_loss"][7:10].mean(), rel=1e-12)


def test_how_often_metrics_are_summarised_leaves_the_training_alone(whole: Path, tmp_path: Path) -> None:
    often = fit(MODEL, out=tmp_path / "often", log_every=1)
    assert_equal(checkpoint(whole)["inference"], checkpoint(often)["inference"])


def test_seeds_differ_and_repeat(whole: Path, tmp_path: Path) -> None:
    assert_same_run(whole, train(tmp_path / "again"))
    other = train(tmp_path / "other", seed=1)
    assert not torch.equal(checkpoint(whole)["torch_rng"], checkpoint(other)["torch_rng"])


def test_the_callers_random_state_is_left_alone(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    path = train(tmp_path / "run")
    _ = Run(path).model
    analyze(path, [ANALYSIS])
    assert torch.equal(before, torch.get_rng_state())


# Inside of a window, at its end, at the end of a phase, inside of the second phase, before the last
# update.
@pytest.mark.parametrize("position", [1, 3, 7, 9, 20, 32])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_resumed_after_a_signal_equals_an_uninterrupted_one(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, position: int, number: int
) -> None:
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    with monkeypatch.context() as patch:
        StopAt(patch, position, number)
        with pytest.raises(Interrupted, match=f"after update {position} of {TOTAL}"):
            train(tmp_path / "run")
    assert checkpoint(tmp_path / "run")["position"] == position
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers
    train(tmp_path / "run", resume=True)
    assert_same_run(whole, tmp_path / "run")


def test_a_run_interrupted_many_times_equals_an_uninterrupted_one(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for position in (2, 4, 5, 12, 13, 30):
        with monkeypatch.context() as patch:
            StopAt(patch, position)
            with pytest.raises(Interrupted):
                train(tmp_path / "run", resume=True)
    train(tmp_path / "run", resume=True)
    assert_same_run(whole, tmp_path / "run")


def test_rows_after_the_checkpoint_are_dropped_and_written_again(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash later than the checkpoint: the file is ahead of it, with a torn row and a column that
    it lacks.
    """
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        StopAt(patch, 5)
        with pytest.raises(Interrupted):
            train(run)
    early = (run / "checkpoint.pt").read_bytes()
    train(run, resume=True)
    (run / "checkpoint.pt").write_bytes(early)
    lines = (run / "metrics.csv").read_text().splitlines(keepends=True)
    (run / "metrics.csv").write_text("".join(lines[:-1]) + lines[-1][:7])
    train(run, resume=True)
    assert_same_run(whole, run)


KILLED = """
    import os, signal, sys
    from plot_attractors.runs import registry, run as runs

    name, when = sys.argv[1], int(sys.argv[2])
    calls = 0
    original = getattr(os, name)

    def killing(*arguments):
        global calls
        if "checkpoint" in str(arguments[0]) or (name == "fsync" and ".checkpoint.pt.tmp" in os.readlink(
                f"/proc/self/fd/{arguments[0]}")):
            calls += 1
            if calls == when:
                os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments)

    if name in ("fsync", "replace"):
        setattr(os, name, killing)
    runs.fit(sys.argv[3], out=sys.argv[4], log_every=3, checkpoint_seconds=0.0, resume=True,
             settings={"pause": sys.argv[5]})
"""


def start(name: str, when: int, out: Path, pause: float = 0.0) -> subprocess.Popen[bytes]:
    arguments = [name, str(when), str(MODEL), str(out), str(pause)]
    environment = {**os.environ, "PYTHONPATH": str(Path(runs.__file__).parents[2])}
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(KILLED), *arguments], env=environment)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds the file of a descriptor in /proc")
@pytest.mark.parametrize(("name", "when"), [("fsync", 9), ("replace", 20)])
def test_a_kill_while_the_checkpoint_is_written_keeps_the_one_before(
    whole: Path, tmp_path: Path, name: str, when: int
) -> None:
    run = tmp_path / "run"
    assert start(name, when, run).wait(60) == -signal.SIGKILL
    assert (run / ".checkpoint.pt.tmp").is_file()
    assert checkpoint(run)["position"] == when - 2  # the first is that of the start
    train(run, resume=True)
    assert_same_run(whole, run)


def test_a_kill_at_any_moment_keeps_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("getpid", 0, run, pause=0.02)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (run / "metrics.csv").is_file() and len((run / "metrics.csv").read_text().splitlines()) > 3:
            break
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert 3 <= checkpoint(run)["position"] < TOTAL
    train(run, resume=True, settings={"pause": 0.02})
    expected = train(tmp_path / "whole", settings={"pause": 0.02})
    assert_same_run(expected, run)


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = start("getpid", 0, run, pause=0.2)
    try:
        deadline = time.monotonic() + 60
        while not (run / "checkpoint.pt").is_file() and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(ValueError, match="another process is training"):
            train(run, resume=True, settings={"pause": 0.2})
    finally:
        process.kill()
        process.wait()


def test_a_full_disk_gets_a_sentence_and_keeps_the_checkpoint(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    original, calls = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"cannot write to .*the disk is full.*checkpoint.*whole"):
            train(run, checkpoint_seconds=0.0)
    assert 0 < checkpoint(run)["position"] < TOTAL
    train(run, resume=True)
    assert_same_run(whole, run)


def test_a_finished_run_returns_at_once(whole: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in whole.iterdir()}
    with caplog.at_level("INFO"):
        train(whole)
        train(whole, resume=True)
    assert {path.name: path.stat().st_mtime_ns for path in whole.iterdir()} == before
    assert caplog.messages == [f"nothing to do: {whole} is finished ({TOTAL} updates)"] * 2


def test_a_directory_with_something_else_is_refused(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"other settings \(seed is 0 there and 1 here\)"):
        train(whole, seed=1)
    with pytest.raises(ValueError, match=r"other settings \(columns is 3 there and 5 here\)"):
        train(whole, settings={"columns": "5"}, resume=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(ValueError, match="not empty and holds no run"):
        train(tmp_path / "notes")
    with pytest.raises(ValueError, match="is a file"):
        train(tmp_path / "notes" / "a.txt")
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["a.txt"]


def test_an_unfinished_run_asks_for_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        StopAt(patch, 5)
        with pytest.raises(Interrupted):
            train(tmp_path / "run")
    with pytest.raises(ValueError, match=rf"unfinished run \(update 5 of {TOTAL}\).*--resume"):
        train(tmp_path / "run")
    (tmp_path / "run" / "checkpoint.pt").unlink()
    with pytest.raises(ValueError, match="before its first update"):
        train(tmp_path / "run")


def test_a_torn_checkpoint_gets_a_sentence(whole: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    content = (run / "checkpoint.pt").read_bytes()
    (run / "checkpoint.pt").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"checkpoint\.pt cannot be read"):
        train(run, resume=True)


def test_a_checkpoint_of_other_parts_gets_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        StopAt(patch, 5)
        with pytest.raises(Interrupted):
            train(tmp_path / "run")
    checkpoint = torch.load(tmp_path / "run" / "checkpoint.pt")
    del checkpoint["inference"]["model"]
    torch.save(checkpoint, tmp_path / "run" / "checkpoint.pt")
    with pytest.raises(ValueError, match="run was fitted by another version of its programs, with other parts"):
        train(tmp_path / "run", resume=True)


def test_lost_rows_get_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        StopAt(patch, 12)
        with pytest.raises(Interrupted):
            train(tmp_path / "run")
    (tmp_path / "run" / "metrics.csv").write_text("")
    with pytest.raises(ValueError, match=r"metrics\.csv has lost rows"):
        train(tmp_path / "run", resume=True)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(FloatingPointError, match=r"fit_loss is inf at update 15 \(fit, cycle 1\)"):
        train(tmp_path / "run", settings={"break_at": 15}, checkpoint_seconds=0.0)
    assert checkpoint(tmp_path / "run")["position"] == 14


def test_parameters_that_are_not_finite_are_never_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inference = runs.registry.load("inference", TOYS / "toy_inference.py").ToyInference
    original = inference.step

    def step(trainer: Any) -> Any:
        metrics = original(trainer)
        if trainer.position == 10:
            next(trainer.model.parameters()).data.fill_(float("nan"))
        return metrics

    monkeypatch.setattr(inference, "step", step)
    with pytest.raises(FloatingPointError, match=r"the parameter 0\.weight is not finite after update 10"):
        train(tmp_path / "run", checkpoint_seconds=0.0)
    assert checkpoint(tmp_path / "run")["position"] == 9


def test_a_state_that_cannot_be_read_back_is_found_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inference = runs.registry.load("inference", TOYS / "toy_inference.py").ToyInference
    monkeypatch.setattr(inference, "state_dict", lambda self: {"data": self.data})
    with pytest.raises(ValueError, match="weights_only=True"):
        train(tmp_path / "run")


def test_a_run_gives_its_model_data_and_settings(whole: Path) -> None:
    run = Run(whole)
    saved = checkpoint(whole)["inference"]["model"]
    assert_equal(dict(run.model.state_dict()), dict(saved))
    assert not run.model.training
    # drawn from the run's seed, both times
    assert torch.equal(run.data.slope, Run(whole).inference.data.slope)
    assert run.inference.position == TOTAL
    assert run.model_config.columns == 3
    assert run.position == (TOTAL, TOTAL)
    with pytest.raises(ValueError, match=r"no config\.toml"):
        Run(whole / "nothing")


def test_a_run_takes_the_inference_that_its_model_names_unless_told(tmp_path: Path) -> None:
    named = tmp_path / "named.py"
    named.write_text((TOYS / "toy_model.py").read_text())  # its INFERENCE lies beside it
    (tmp_path / "toy_inference.py").write_text((TOYS / "toy_inference.py").read_text())
    assert Run(fit(named, out=tmp_path / "a")).inference_name == str(tmp_path / "toy_inference.py")
    told = fit(named, TOYS / "toy_inference.py", out=tmp_path / "b")
    assert Run(told).inference_name == str(TOYS / "toy_inference.py")


def test_a_refused_pair_of_programs_leaves_no_directory(tmp_path: Path) -> None:
    for path in (tmp_path / "new", tmp_path / "empty"):
        if path.name == "empty":
            path.mkdir()
        with pytest.raises(ValueError, match=r"of the kind AttractorModel.* VQVAE: leave --inference out"):
            fit("vqvae", "exact_em", preset="smoke", out=path)
        assert not path.exists()
    fit("vqvae", preset="smoke", out=tmp_path / "new")  # without it, in the same place
    with pytest.raises(ValueError, match="other settings"):
        fit("vqvae", "exact_em", preset="smoke", out=tmp_path / "new")
    assert Run(tmp_path / "new").position == (40, 40)


def test_default_directories_name_the_inference_only_when_it_is_another() -> None:
    assert runs.default_path("hbv", "gflownet_em", "demo", 3, "gflownet_em") == Path("runs/hbv-demo-3")
    assert runs.default_path("/a/mine.py", "exact_em", "full", 0, "gflownet_em") == Path("runs/mine-exact_em-full-0")


def test_the_default_directory_is_below_the_working_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert fit(MODEL, preset="smoke", seed=4) == Path("runs/toy_model-smoke-4")
    assert (tmp_path / "runs/toy_model-smoke-4/checkpoint.pt").is_file()


def test_progress_counts_every_update_and_estimates_the_rest(tmp_path: Path) -> None:
    seen: list[Progress] = []
    train(tmp_path / "run", on_progress=seen.append)
    assert [p.position for p in seen] == sorted(p.position for p in seen)
    assert (seen[-1].position, seen[-1].total, seen[-1].remaining) == (TOTAL, TOTAL, 0.0)
    assert all(p.remaining is not None and p.remaining >= 0 for p in seen)


def test_what_begins_a_phase_does_not_count_for_its_updates() -> None:
    clock = loop.Clock([Phase("m_step", 0, 10), Phase("m_step", 1, 10)])
    clock.add("m_step", 30.0, first=True)
    assert clock.remaining(1) == pytest.approx(30 * 19)
    clock.add("m_step", 0.1)
    assert clock.remaining(2) == pytest.approx(0.1 * 18)
    clock.add("m_step", 30.0, first=True)
    assert clock.remaining(11) == pytest.approx(0.1 * 9)


def test_a_run_in_a_thread_trains_too(whole: Path, tmp_path: Path) -> None:
    """Signal handlers belong to the main thread alone."""
    thread = threading.Thread(target=train, args=(tmp_path / "run",))
    thread.start()
    thread.join()
    assert_same_run(whole, tmp_path / "run")


def test_one_failing_analysis_loses_neither_the_others_nor_its_earlier_results(whole: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    earlier = run / "analyses" / "failing_analysis"
    earlier.mkdir(parents=True)
    (earlier / "summary.csv").write_text("whole\n")
    results = analyze(run, [TOYS / "failing_analysis.py", ANALYSIS])
    assert [(r.name, type(r.error)) for r in results] == [("failing_analysis", KeyError), ("toy_analysis", type(None))]
    assert (earlier / "summary.csv").read_text() == "whole\n"
    assert (run / "analyses/toy_analysis/predictions.svg").is_file()
    assert sorted(path.name for path in (run / "analyses").iterdir()) == ["failing_analysis", "toy_analysis"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_analysis_named_twice_is_made_once(whole: Path, tmp_path: Path, jobs: int) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    assert [r.error for r in analyze(run, [ANALYSIS, str(ANALYSIS)], jobs=jobs)] == [None]
    other = Path(shutil.copy(ANALYSIS, tmp_path))
    with pytest.raises(ValueError, match="would both write analyses/toy_analysis"):
        analyze(run, [ANALYSIS, other], jobs=jobs)


def test_an_analysis_does_not_depend_on_those_before_it(whole: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    table = run / "analyses/toy_analysis/summary.csv"
    analyze(run, [ANALYSIS])
    alone = table.read_text()
    torch.manual_seed(99)
    analyze(run, [TOYS / "failing_analysis.py", ANALYSIS])
    assert table.read_text() == alone


def test_analyses_at_once_equal_analyses_in_turn(whole: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    names = [TOYS / "failing_analysis.py", ANALYSIS]
    seen: list[list[str]] = []
    analyze(run, names)
    alone = (run / "analyses/toy_analysis/summary.csv").read_text()
    shutil.rmtree(run / "analyses")
    results = analyze(run, names, jobs=2, on_running=lambda at: seen.append(list(at)))
    assert [(r.name, type(r.error)) for r in results] == [("failing_analysis", KeyError), ("toy_analysis", type(None))]
    assert (run / "analyses/toy_analysis/summary.csv").read_text() == alone
    assert seen[0] == ["failing_analysis", "toy_analysis"]
    with pytest.raises(ValueError, match="must be 1 or more, not 0"):
        analyze(run, names, jobs=0)


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
    logged = [(event.step, event.value) for event in events.Scalars("fit_loss")]
    metrics = Run(path).metrics().dropna(subset="fit_loss")
    assert [step for step, _ in logged] == list(metrics["step"])
    assert [value for _, value in logged] == pytest.approx(list(metrics["fit_loss"]), rel=1e-6)


def test_a_tracker_that_is_not_there_gets_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no tracker 'tensorbord': did you mean 'tensorboard'"):
        train(tmp_path / "run", trackers=["tensorbord"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"wandb needs a package: pip install 'plot-attractors\[wandb\]'"):
        train(tmp_path / "run", trackers=["wandb"])
    assert not (tmp_path / "run").exists()


def test_wandb_goes_on_with_the_run_that_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[dict[str, Any]] = []
    logged: list[int] = []

    class Recorder:
        def log(self, metrics: dict[str, Any], step: int) -> None:
            logged.append(step)

        def finish(self) -> None:
            logged.append(-1)

    def init(**arguments: Any) -> Recorder:
        begun.append(arguments)
        return Recorder()

    package = ModuleType("wandb")
    package.__spec__ = ModuleSpec("wandb", None)
    vars(package)["init"] = init
    monkeypatch.setitem(sys.modules, "wandb", package)
    with monkeypatch.context() as patch:
        StopAt(patch, 5)
        with pytest.raises(Interrupted):
            train(tmp_path / "run", trackers=["wandb"])
    train(tmp_path / "run", trackers=["wandb"], resume=True)
    assert begun[0]["id"] == begun[1]["id"]
    assert begun[0]["config"]["model"]["columns"] == 3
    assert logged == [3, -1, *Run(tmp_path / "run").metrics()["step"][1:], -1]


@pytest.mark.parametrize("own", [True, False])
def test_what_a_model_sets_of_its_inference_is_for_that_program_alone(tmp_path: Path, own: bool) -> None:
    """Named or given by its path, its own program is the same; any other keeps its own preset."""
    (tmp_path / "mine.py").write_text(
        "from plot_attractors.runs import registry\n"
        "hbv = registry.load('models', 'hbv')\n"
        "Config, load_data, build = hbv.Config, hbv.load_data, hbv.build\n"
        "INFERENCE = 'exact_em'\n"
        "PRESETS = {'smoke': {**hbv.PRESETS['smoke'], 'pretrain': 3}}\n"
    )
    inference = str(registry.folder("inference") / "exact_em.py") if own else "gflownet_em"
    run = Run(fit(str(tmp_path / "mine.py"), inference, preset="smoke", out=tmp_path / "run"))
    assert (run.config["inference"]["pretrain"] == 3) == own
