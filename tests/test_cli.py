"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from plot_attractors import cli
from plot_attractors.runs import Run, registry, store

TOYS = Path(__file__).parent / "toy_programs"
MODEL = str(TOYS / "toy_model.py")
ANALYSIS = str(TOYS / "toy_analysis.py")


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def error_of(result: Result) -> str:
    """The one sentence of a failed call."""
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    return lines[0].removeprefix("Error: ")


FIT = ("fit", MODEL, "--set", "columns=2", "--set", "replay.updates=3", "--log-every", "3")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "run"
    result = call(*FIT, "--out", path)
    assert result.exit_code == 0, result.output
    return path


def test_fit_changes_settings_and_prints_plain_lines(run: Path, tmp_path: Path) -> None:
    config = Run(run).config
    assert config["inference"]["replay"]["updates"] == 3
    assert (config["data"]["columns"], config["run"]["log_every"]) == (2, 3)
    again = call(*FIT, "--out", run)
    assert again.exit_code == 0
    assert "finished (30 updates)" in again.stderr
    other = tmp_path / "other"
    result = call("fit", MODEL, "--preset", "smoke", "--out", other, "--seed", "3", "--resume")
    *_, last, ready = result.stdout.splitlines()
    line = r"100%  replay 0  11/11  replay_loss \S+  sampled \S+  \S+ minutes in all$"
    assert re.match(line, last)
    assert ready == f"{other} is ready: plot-attractors analyze {other}"
    assert "\x1b" not in result.stdout


MISTAKES = r"""
fit no_such_program => there is no program 'no_such_program' in models
fit MODEL --set colums=2 => no setting 'colums': did you mean 'columns'\? There are
fit hbv --set epsilo=2 => did you mean 'epsilon'\? plot-attractors settings
fit vqvae --inference gflownet_em => AttractorModel.* VQVAE: leave --inference out
fit hbv --data hbv => hbv and hbv are both data sets: leave --data out
fit images --data photos => No such file or directory: '.*photos'
fit dsprites --set latent=0 => 'latent' takes a whole number from 1 to 16,384, and '0' is
analyze nowhere => nowhere is not the directory of a run
analyze RUN ANALYSIS --set drws=3 => no setting 'drws': did you mean 'draws'
analyze RUN training ANALYSIS --set draws=3 => name the analysis that 'draws' is a setting of
analyze pretrained:nothing => there is no trained model 'pretrained:nothing' in this package
export RUN out => was fitted by a program of your own
"""


@pytest.mark.parametrize("mistake", MISTAKES.strip().splitlines())
def test_a_mistake_is_answered_with_one_sentence(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    monkeypatch.chdir(tmp_path)
    command, _, sentence = mistake.partition(" => ")
    places = {"MODEL": MODEL, "ANALYSIS": ANALYSIS, "RUN": run}
    result = call(*(places.get(word, word) for word in command.split()))
    assert re.search(sentence, error_of(result))


def test_a_fault_in_a_program_names_its_kind_and_debug_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, data = tmp_path / "mine.py", (TOYS / "toy_data.py").read_text()
    mine.write_text(data.replace("    return Data(config)", "    return {}['key']"))
    arguments = ["fit", MODEL, "--data", mine, "--out", tmp_path / "run"]
    assert error_of(call(*arguments)) == "KeyError: 'key' (PLOT_ATTRACTORS_DEBUG=1 shows where)"
    monkeypatch.setenv("PLOT_ATTRACTORS_DEBUG", "1")
    assert isinstance(call(*arguments).exception, KeyError)


def test_list_shows_every_program_with_its_first_line() -> None:
    result = call("list")
    assert result.exit_code == 0
    for kind in registry.KINDS:
        assert kind in result.stdout
        for name in registry.names(kind):
            line = registry.describe(registry.find(kind, name))
            assert re.search(rf"^  {name} +{re.escape(line)}$", result.stdout, re.MULTILINE)


def test_analyze_tells_what_failed_and_does_the_rest(run: Path) -> None:
    chosen = ("--set", "toy_analysis.draws=5")
    result = call("analyze", run, "calibration", ANALYSIS, *chosen)
    assert result.exit_code == 1
    assert result.stderr.startswith("calibration failed: calibration needs ")
    folder = run / "analyses" / "toy_analysis"
    assert result.stdout.startswith(f"toy_analysis: {folder} (")
    assert (folder / "summary.csv").read_text().endswith(",5\n")
    assert (folder / "predictions.png").is_file()
    assert call("analyze", run, ANALYSIS, "--set", "draws=7").exit_code == 0
    assert (folder / "summary.csv").read_text().endswith(",7\n")


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = f"fit {MODEL} --out {run} --set pause=0.05 --checkpoint-seconds 0".split()
    process = subprocess.Popen(
        [sys.executable, "-m", "plot_attractors", *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (store.progress(run) or (0, 0))[0] < 2:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    done, _ = Run(run).position
    assert 2 <= done < 33
    assert f"interrupted after update {done} of 33" in said
    assert "--set pause=0.05 --checkpoint-seconds 0 --resume" in said
    assert "go on with it (--resume)" in error_of(call(*arguments))
    assert call(*arguments, "--resume").exit_code == 0
    assert Run(run).position == (33, 33)


def test_reading_a_run_runs_no_file_that_it_brought_along(tmp_path: Path, run: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(run, copied)
    assert call("analyze", copied, ANALYSIS).exit_code == 0
    mark, bomb = tmp_path / "mark", copied / "analyses" / "toy_analysis" / "evil.py"
    bomb.write_text(f"open({str(mark)!r}, 'w').close()\n")
    (bomb.parent / ".program").write_text(str(bomb))
    assert call("report", copied).exit_code == 0
    config = (copied / "config.toml").read_text()
    for named in (str(bomb), "evil.py"):
        (copied / "config.toml").write_text(config.replace(MODEL, named))
        assert "which came along with it, and would be run" in error_of(call("report", copied))
    assert not mark.exists()


def test_copies_of_programs(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    assert call("copy", "attractor", own).exit_code == 0
    assert own.read_bytes() == registry.find("models", "attractor").read_bytes()
    assert "is there already" in error_of(call("copy", "attractor", own))
    assert "in models and inference" in error_of(call("copy", "vqvae", tmp_path / "v.py"))
    assert call("copy", "vqvae", tmp_path / "v.py", "--kind", "inference").exit_code == 0


def test_a_model_is_asked_and_sampled(run: Path, tmp_path: Path) -> None:
    answer = call("ask", "pretrained:hbv", "LR", "--draws", "50", "--most", "3")
    assert "LR: its exact posterior is as uncertain as" in answer.stdout
    assert answer.stdout.count("class ") >= 2
    out = tmp_path / "samples.csv"
    sampled = call("samples", "pretrained:hbv", "-o", out, "--inputs", "4", "--draws", "3")
    assert f"{out}: 12 draws of 4 inputs" in sampled.stdout
    assert "says no sentences" in error_of(call("ask", run, "0"))
