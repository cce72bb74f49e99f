"""Jobs of a sweep: submitit's local executor, and SLURM, of which the commands are imitated."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from plot_attractors import cli
from plot_attractors.runs import Run, fit, store
from plot_attractors.runs.compare import compare
from plot_attractors.runs.jobs import status
from plot_attractors.runs.sweep import read_sweep

from .test_run import assert_equal, checkpoint

pytest.importorskip("submitit")

MODEL = Path(__file__).parents[1] / "toy_programs" / "toy_model.py"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["sweep", *map(str, arguments)])


def sweep(folder: Path, *lines: str) -> Path:
    file = folder / "sweep.toml"
    text = [f'programs = "{MODEL}"', 'preset = "smoke"', f'out = "{folder / "out"}"', *lines]
    file.write_text("\n".join(text))
    return file


def states(file: Path) -> dict[str, str]:
    return {found.run.name: found.state for found in status(read_sweep(file).runs)}


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
    listed = call(file, "--dry-run")
    assert listed.exit_code == 0
    assert "2 runs to run, 0 done" in listed.stdout
    assert not list((tmp_path / "out").glob("toy*"))

    first = call(file, "--jobs", "2")
    assert first.exit_code == 1
    assert "toy_model-cycles=2-seed=0 failed: ZeroDivisionError: by purpose" in first.stderr
    assert "1 of 2 runs failed; the same command starts them again" in first.stderr
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
    assert "Nothing to do: all 2 runs" in call(file).stdout
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
    paths = [run.path for run in read_sweep(file).runs]
    wait_for(lambda: all(store.progress(path) for path in paths[:2]))
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to all processes
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Interrupted: the same command goes on" in said
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


def test_a_run_that_is_killed_is_said_to_have_failed(tmp_path: Path) -> None:
    own = own_inference(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    file = sweep(tmp_path, f'inference = "{own}"')
    (run,) = read_sweep(file).runs
    result = call(file)
    assert result.exit_code == 1
    assert f"{run.name} failed: it ended without a word, see the logs in" in result.stderr


def test_mistakes(tmp_path: Path) -> None:
    file = sweep(tmp_path, "[slurm]", 'timeout_min = "long"')
    wrong = call(file, "--executor", "slurmm")
    assert wrong.exit_code == 2
    assert "no executor 'slurmm': did you mean 'slurm'? Take local or slurm" in wrong.stderr
    without = call(file, "--executor", "slurm")
    assert without.exit_code == 2
    assert "there is no SLURM here" in without.stderr


# SLURM's commands, imitated: sbatch keeps the script, srun runs what it is given in its own place,
# scontrol notes what it is told, and sacct says that all jobs are in one state.
COMMANDS = {
    "sbatch": 'cp "$1" "$FOLDER/script.sh"; echo "Submitted batch job 12"',
    "srun": 'while [ "${1#--}" != "$1" ]; do if [ "$1" = --unbuffered ]; then shift; else shift 2;'
    ' fi; done\necho $$ > "$FOLDER/pid"; exec "$@"',
    "scontrol": 'echo "$@" >> "$FOLDER/told"',
    "sacct": 'echo "JobID|State|NodeList"; for i in 0 1; do echo "12_$i|$(cat "$FOLDER/state")|"; '
    "done",
}


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name, text in COMMANDS.items():
        command = folder / name
        command.write_text(f"#!/bin/bash\nFOLDER={shlex.quote(str(folder))}\n{text}\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (folder / "state").write_text("PENDING")
    return folder


def start(slurm: Path, task: int) -> subprocess.Popen[bytes]:
    """What SLURM does with a task of an array."""
    number = {"SLURM_JOB_ID": f"{13 + task}", "SLURM_ARRAY_JOB_ID": "12", "SLURM_PROCID": "0"}
    environment = {**os.environ, **number, "SLURM_ARRAY_TASK_ID": str(task)}
    return subprocess.Popen(["bash", str(slurm / "script.sh")], env=environment)


def test_slurm_gets_an_array_and_a_job_at_its_time_limit_is_queued_again(
    tmp_path: Path, slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = sweep(
        tmp_path, 'seeds = "0-1"', "[settings]", "pause = 0.4", "cycles = 2",
        "[slurm]", 'partition = "short"', "timeout_min = 60", "cpus_per_task = 2", "mem_gb = 4",
        "array_parallelism = 1",
    )  # fmt: skip
    assert "2 jobs are queued: 12_0 to 12_1" in call(file, "--executor", "slurm").stdout
    script = (slurm / "script.sh").read_text()
    for flag in ("array=0-1%1", "partition=short", "time=60", "cpus-per-task=2", "mem=4GB",
                 "job-name=out", "signal=USR2@90"):  # fmt: skip
        assert f"#SBATCH --{flag}\n" in script.replace("'", "")
    assert list(states(file).values()) == ["queued", "queued"]
    assert "Nothing to do" in call(file, "--executor", "slurm").stdout

    first, second = (run.path for run in read_sweep(file).runs)
    job = start(slurm, 0)
    wait_for(lambda: store.progress(first) and len((first / "metrics.csv").read_text()) > 0)
    time.sleep(0.5)
    assert states(file)[first.name] == "running"
    os.kill(int((slurm / "pid").read_text()), signal.SIGUSR2)  # the time is nearly up
    job.wait(timeout=300)
    assert (slurm / "told").read_text() == "requeue 12_0\n"
    position, total = store.progress(first) or (0, 0)
    assert 0 < position < total
    assert states(file)[first.name] == "queued"

    for task in (0, 1):
        assert start(slurm, task).wait(timeout=300) == 0
    assert list(states(file).values()) == ["done", "done"]
    settings = {"cycles": 2}
    whole = fit(MODEL, preset="smoke", out=tmp_path / "whole", settings=settings)
    assert_same_model(whole, first)
    assert Run(second).seed == 1
    steps = pd.read_csv(first / "metrics.csv")["step"]
    assert steps.is_monotonic_increasing
    assert steps.is_unique


def test_a_job_that_slurm_ended_can_be_started_again(tmp_path: Path, slurm: Path) -> None:
    file = sweep(tmp_path, 'seeds = "0-1"')
    assert call(file, "--executor", "slurm").exit_code == 0
    (slurm / "state").write_text("OUT_OF_MEMORY")
    submitit = pytest.importorskip("submitit")
    submitit.SlurmJob.watcher.clear()  # as in a new process
    assert list(states(file).values()) == ["failed", "failed"]
    assert "2 runs to run, 0 done" in call(file, "--dry-run").stdout


def test_what_submitit_refuses(tmp_path: Path, slurm: Path) -> None:
    file = sweep(tmp_path, "[slurm]", 'timeout_min = "long"')
    result = call(file, "--executor", "slurm")
    assert result.exit_code == 2
    assert "submitit refuses the table [slurm]: " in result.stderr
