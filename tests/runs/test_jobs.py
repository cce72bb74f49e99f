"""Runs of a sweep as processes, and as commands for a cluster."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner, Result

from plot_attractors import cli
from plot_attractors.runs import Run, fit, store
from plot_attractors.runs.compare import compare
from plot_attractors.runs.sweep import read_sweep, status

from .test_run import assert_equal, checkpoint

MODEL = Path(__file__).parents[1] / "toy_programs" / "toy_model.py"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["sweep", *map(str, arguments)])


def sweep(folder: Path, *lines: str) -> Path:
    file = folder / "sweep.toml"
    text = [f'programs = "{MODEL}"', 'preset = "smoke"', f'out = "{folder / "out"}"', *lines]
    file.write_text("\n".join(text))
    return file


def states(file: Path) -> dict[str, str]:
    return {result.run.name: result.state for result in status(read_sweep(file))}


def wait_for(condition: Callable[[], object], seconds: float = 300) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it takes too long"
        time.sleep(0.05)


def assert_same_model(a: Path, b: Path) -> None:
    assert_equal(*(checkpoint(path)["inference"]["model"] for path in (a, b)))


def own_inference(folder: Path, *lines: str) -> Path:
    """The toy inference program, whose `build` begins with these lines."""
    file, toy = folder / "own_inference.py", MODEL.with_name("toy_inference.py")
    head = (
        "import os, pathlib, signal\nfrom plot_attractors.runs import registry\n"
        f"toy = registry.load('inference', {str(toy)!r})\n"
        "Config, PRESETS = toy.Config, toy.PRESETS\n"
    )
    last = "return toy.build(model, data, config)"
    body = "".join(f"    {line}\n" for line in (*lines, last))
    file.write_text(f"{head}def build(model, data, config):\n{body}")
    return file


def test_a_failed_run_is_named_and_the_same_command_starts_it_again(tmp_path: Path) -> None:
    # whether the loss becomes infinite is up to a file that the second time is not there
    mark = tmp_path / "broken"
    broken = f"if config.cycles == 2 and pathlib.Path({str(mark)!r}).exists():"
    own = own_inference(tmp_path, broken, "    raise ZeroDivisionError('by purpose')")
    mark.touch()
    file = sweep(tmp_path, f'inference = "{own}"', "[settings]", "cycles = [1, 2]")
    assert len(call(file, "--dry-run").stdout.splitlines()) == 2
    assert not list((tmp_path / "out").glob("toy*"))

    first = call(file, "--jobs", "2")
    assert first.exit_code == 1
    assert "toy_model-cycles=2-seed=0 failed: ZeroDivisionError: by purpose" in first.stderr
    done, failed = "toy_model-cycles=1-seed=0", "toy_model-cycles=2-seed=0"
    assert states(file) == {done: "done", failed: "failed"}
    table = call(file, "--status").stdout
    assert "replay_loss" in table
    assert "11/11" in table
    at = (tmp_path / "out" / done / "checkpoint.pt").stat().st_mtime_ns

    mark.unlink()
    again = call(file)
    assert again.exit_code == 0, again.output
    assert states(file) == dict.fromkeys((done, failed), "done")
    assert (tmp_path / "out" / done / "checkpoint.pt").stat().st_mtime_ns == at  # not repeated
    alone = fit(MODEL, own, preset="smoke", out=tmp_path / "alone", settings={"cycles": 2})
    assert_same_model(alone, tmp_path / "out" / failed)


def test_ctrl_c_stops_runs_with_their_checkpoints_and_the_same_command_goes_on(
    tmp_path: Path,
) -> None:
    file = sweep(tmp_path, 'seeds = "0-2"', "[settings]", "pause = 2")
    command = [sys.executable, "-m", "plot_attractors", "sweep", str(file), "--jobs", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    paths = [run.path for run in read_sweep(file)]
    wait_for(lambda: all(store.progress(path) for path in paths[:2]))
    time.sleep(3)  # the first checkpoint is of no update, and an update takes two seconds
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all processes
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Interrupted." in said
    assert list(states(file).values()) == ["stopped", "stopped", "not begun"]
    for path in paths[:2]:
        position, total = store.progress(path) or (0, 0)
        assert 0 < position < total  # by the checkpoint of the interruption
    table = compare(paths[:2])  # at any moment
    assert list(table["seed"].dropna()) == [0, 1]

    assert call(file, "--jobs", "3").exit_code == 0
    assert set(states(file).values()) == {"done"}
    whole = fit(MODEL, preset="smoke", seed=1, out=tmp_path / "whole")
    assert_same_model(whole, paths[1])


def test_commands_are_those_of_the_runs(tmp_path: Path) -> None:
    """What a cluster's scheduler is given: each trains its run, which the sweep then knows."""
    file = sweep(tmp_path, 'seeds = "0-1"', "threads = 2", "[settings]", "cycles = [2]")
    lines = call(file, "--commands").stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("plot-attractors fit ") for line in lines)
    assert CliRunner().invoke(cli.app, shlex.split(lines[1])[1:]).exit_code == 0
    assert list(states(file).values()) == ["not begun", "done"]
    assert call(file, "--commands").stdout.splitlines() == lines[:1]
    first, second = (run.path for run in read_sweep(file))
    assert call(file).exit_code == 0
    assert Run(first).config["run"].pop("seed") == 0
    assert Run(second).config["run"].pop("seed") == 1
    assert Run(first).config["inference"] == Run(second).config["inference"]
