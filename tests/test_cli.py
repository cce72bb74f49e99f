"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from plot_attractors import cli
from plot_attractors.runs import Progress, Run, registry
from plot_attractors.runs.analyze import analyze

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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "run"
    result = call(
        "fit", MODEL, "--out", path, "--set", "columns=2", "--set", "cycles=2", "--log-every", "3"
    )
    assert result.exit_code == 0, result.output
    return path


def test_fit_changes_settings_and_prints_plain_lines(run: Path) -> None:
    config = Run(run).config
    assert (
        config["model"]["columns"],
        config["inference"]["cycles"],
        config["run"]["log_every"],
    ) == (2, 2, 3)
    again = call(
        "fit", MODEL, "--out", run, "--set", "columns=2", "--set", "cycles=2", "--log-every", "3"
    )
    assert again.exit_code == 0
    assert "Nothing to do: " in again.stdout
    assert "finished (22 updates)" in again.stdout


def test_lines_of_a_fit_without_a_terminal(tmp_path: Path) -> None:
    result = call(
        "fit", MODEL, "--preset", "smoke", "--out", tmp_path / "run", "--seed", "3", "--resume"
    )
    lines = result.stdout.splitlines()
    assert re.match(
        r"100%  replay 0  11/11  replay_loss \S+  sampled \S+  \d+ s in all$", lines[-2]
    )
    assert lines[-1] == f"{tmp_path / 'run'} is ready: plot-attractors analyze {tmp_path / 'run'}"
    assert "\x1b" not in result.stdout


def test_the_live_view_shows_phase_losses_and_remaining_time() -> None:
    screen = io.StringIO()
    view = cli._View(Console(file=screen, force_terminal=True, width=100))
    with view:
        view.show(
            Progress(
                30, 120, "E-step", 2, {"db_loss": 0.12345, "sentences_in_use": 312.0}, 9.0, 75.4
            )
        )
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    for part in (
        "E-step, cycle 2",
        "30/120",
        "1 min 15 s left",
        "db_loss 0.1235",
        "sentences_in_use 312",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fit", "no_such_program"], r"there is no program 'no_such_program' in models: "),
        (["fit", "nowhere/mine.py"], r"there is no program file nowhere/mine\.py$"),
        (
            ["fit", MODEL, "--set", "colums=2"],
            r"no setting 'colums': did you mean 'columns'\? There are columns",
        ),
        (
            ["fit", MODEL, "--set", "columns=two"],
            r"'columns' takes a whole number, and 'two' is not that$",
        ),
        (
            ["fit", MODEL, "--set", "activation=gelu"],
            r"takes one of tanh, relu, and 'gelu' is not that$",
        ),
        (
            ["fit", MODEL, "--set", "columns"],
            r"a setting is written key=value, and 'columns' is not$",
        ),
        (["fit", MODEL, "--preset", "dmo"], r"no preset 'dmo': did you mean 'demo'\?"),
        (["fit", MODEL, "--device", "gpu"], r"there is no device 'gpu': give cpu or cuda$"),
        (["fit", MODEL, "--track", "csvv"], r"no tracker 'csvv': did you mean 'csv'\?"),
        (["fit", MODEL, "--set", "break_at=2"], r"fit_loss is inf at update 2 \(fit, cycle 0\)"),
        (
            ["fit", "vqvae", "--inference", "gflownet_em_sampled"],
            r"AttractorModel.* VQVAE: leave --inference out",
        ),
        (
            ["fit", "hbv", "--preset", "smoke", "--inference", "vqvae"],
            r"fits models of the kind VQVAE, and this model",
        ),
        (
            ["fit", "hbv", "--data", "a.csv"],
            r"the program hbv makes its own data: leave --data out",
        ),
        (
            ["fit", "table", "--data", "a.csv", "--set", "data=b.csv"],
            r"so does --set data=b.csv: leave one out",
        ),
        (["fit", "table", "--data", "none.csv"], r"none\.csv"),
        (
            ["fit", "images", "--data", "photos"],
            r"there is no '.*photos': give the path of a folder of images",
        ),
        (
            ["fit", "dsprites", "--data", "none.npz"],
            r"none\.npz' does not exist: give the path of dsprites_ndarray",
        ),
        (["fit", "dsprites", "--set", "latent=0"], r"latent is the size of z, at least 1, not 0"),
        (
            ["fit", "dsprites", "--set", "pixel_noise=0"],
            r"pixel_noise is a standard deviation, .* above 0, not 0",
        ),
        (
            ["fit", "dsprites", "--preset", "smoke", "--set", "label_length=0"],
            r"label_length is .* at least 1, or no",
        ),
        (
            ["fit", "vqvae", "--set", "images=a.npz"],
            r"images is not read with data=hbv: set data=dsprites or data=im",
        ),
        (
            ["fit", "vqvae", "--set", "data=dsprites", "--set", "table=a.csv"],
            r"table is not read with data=dsprites: ",
        ),
        (["analyze", "nowhere"], r"nowhere is not the directory of a run"),
        (["report", "nowhere"], r"nowhere is not the directory of a run"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.search(sentence, error_of(call(*arguments)))


def test_cuda_where_there_is_none_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "torch finds none" in error_of(
        call("fit", MODEL, "--device", "cuda", "--out", tmp_path / "run")
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(
    os.name != "posix" or (os.geteuid() == 0 and not Path("/proc").is_dir()), reason="needs /proc"
)
def test_a_place_that_cannot_be_written_gets_a_sentence() -> None:
    assert "cannot write to /proc/run" in error_of(call("fit", MODEL, "--out", "/proc/run"))


def test_a_fault_in_a_program_names_its_kind_and_debug_shows_it(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        Path(MODEL).read_text().replace("    return Data(config)", "    return {}['key']")
    )
    arguments = [
        "fit",
        str(mine),
        "--inference",
        str(TOYS / "toy_inference.py"),
        "--out",
        str(tmp_path / "run"),
    ]
    assert error_of(call(*arguments)) == "KeyError: 'key' (--debug shows where)"
    assert isinstance(call(*arguments, "--debug", "--resume").exception, KeyError)


def test_list_shows_every_program_with_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    result = call("list")
    assert result.exit_code == 0
    for shelf in registry.SHELVES:
        assert shelf in result.stdout
        for name in registry.names(shelf):
            assert re.search(rf"^  {name} ", result.stdout, re.MULTILINE)
    monkeypatch.setattr(registry, "folder", lambda shelf: TOYS)
    assert "  toy_model         A straight line through points with noise" in call("list").stdout


def test_analyze_tells_what_failed_and_does_the_rest(run: Path) -> None:
    result = call("analyze", run, TOYS / "failing_analysis.py", ANALYSIS)
    assert result.exit_code == 1
    assert (
        result.stderr.strip()
        == "failing_analysis failed: KeyError: 'no such column' (--debug shows where)"
    )
    assert result.stdout.startswith(f"toy_analysis: {run / 'analyses' / 'toy_analysis'} (")
    assert (run / "analyses" / "toy_analysis" / "summary.csv").is_file()
    assert call("analyze", run, ANALYSIS).exit_code == 0


def test_without_names_all_analyses_that_apply_are_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yes.py").write_text(
        "def analyze(run, out): (out / 'summary.csv').write_text('a\\n1\\n')\n"
    )
    (tmp_path / "no.py").write_text(
        "def applies(run): return False\ndef analyze(run, out): 1 / 0\n"
    )
    monkeypatch.setattr(
        registry,
        "names",
        lambda shelf: ("no", "yes") if shelf == "analyses" else pytest.fail("another shelf"),
    )
    monkeypatch.setattr(registry, "folder", lambda shelf: tmp_path)
    assert [(result.name, result.error) for result in analyze(run)] == [("yes", None)]
    named = analyze(run, ["no"])
    assert isinstance(named[0].error, ZeroDivisionError)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    code = "from plot_attractors.cli import main; main()"
    arguments = ["fit", MODEL, "--out", str(run), "--set", "pause=0.05", "--log-every", "1"]
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parent.parent)}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], env=environment, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (run / "metrics.csv").is_file() and (run / "metrics.csv").read_text().count("\n") > 2:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    done, _ = Run(run).position
    assert 2 <= done < 33
    assert f"Interrupted after update {done} of 33" in stderr
    assert "--set pause=0.05 --log-every 1 --resume" in stderr
    assert "go on with it (--resume)" in error_of(call(*arguments))
    assert call(*arguments, "--resume").exit_code == 0
    assert Run(run).position == (33, 33)
