"""Sweeps: what a file asks for, its mistakes, and its runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from plot_attractors import cli
from plot_attractors.runs import fit, store
from plot_attractors.runs.sweep import read_sweep

from .test_run import MODEL, assert_equal, checkpoint


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["sweep", *map(str, arguments)])


def sweep(folder: Path, text: str) -> Path:
    file = folder / "sweep.toml"
    file.write_text(text.replace("MODEL", f'"{MODEL}"').replace("OUT", f'"{folder / "out"}"'))
    return file


TOY = "programs = MODEL\npreset = 'smoke'\nout = OUT\n"


def states(file: Path) -> dict[str, str]:
    return {run.name: run.state for run in read_sweep(file)}


def test_runs_are_all_combinations_and_their_names_say_what_differs(tmp_path: Path) -> None:
    text = """
        programs = ["hbv", "table"]
        inference = ["gflownet_em", "detailed_balance_em"]
        preset = "smoke"
        seeds = "0-1"
        out = OUT

        [settings]
        epsilon = [0.04, 0.05]
        dynamics.memory = 1.0
        language.groups = [[2, 3]]
        batch = [32]
    """
    result = read_sweep(sweep(tmp_path, text))
    assert len(result) == len({run.name for run in result}) == 16
    rest = "language.groups=2,3-batch=32"
    assert result[0].name == f"hbv-gflownet_em-epsilon=0.04-{rest}-seed=0"
    last = f"table-detailed_balance_em-epsilon=0.05-{rest}-seed=1"
    assert result[-1].path == tmp_path / "out" / last
    expected = {"epsilon": 0.04, "dynamics.memory": 1.0, "language.groups": [2, 3]}
    assert result[0].arguments["settings"] == {**expected, "batch": 32}
    assert result[0].arguments["preset"] == "smoke"
    (run,) = read_sweep(sweep(tmp_path, "programs = 'hbv'\nseeds = [3]"))
    assert run.path == Path("runs/sweep/hbv-seed=3").absolute()


MISTAKES = r"""
seed = 3 => there is no setting 'seed': did you mean 'seeds'\? There are programs,
programs = 3 => the setting 'programs' takes values separated by commas, each text, and 3 is
programs = ["hbw"] => there is no program 'hbw' in models: did you mean 'hbv'
programs = ["hbv"]; settings = {cycles = 0, e_updates = 1} => 'e_updates' has no effect
programs = ["hbv", "dsprites"]; settings.depth = [4] => no setting 'depth'
"""


@pytest.mark.parametrize("mistake", MISTAKES.strip().splitlines())
def test_a_mistake_is_answered_with_one_sentence(tmp_path: Path, mistake: str) -> None:
    text, _, expected = mistake.partition(" => ")
    with pytest.raises(ValueError, match=expected) as raised:
        read_sweep(sweep(tmp_path, text.replace("; ", "\n")))
    assert len(str(raised.value).splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_failed_run_is_named_and_the_same_command_goes_on(tmp_path: Path) -> None:
    toy = MODEL.with_name("toy_inference.py")
    mark, own = tmp_path / "broken", tmp_path / "own_inference.py"
    own.write_text(
        "import pathlib\nfrom plot_attractors.runs import registry\n"
        f"toy = registry.load('inference', {str(toy)!r})\n"
        "Config, PRESETS = toy.Config, toy.PRESETS\n"
        "def build(model, data, config):\n"
        f"    if config.cycles == 2 and pathlib.Path({str(mark)!r}).exists():\n"
        "        raise ZeroDivisionError('by purpose')\n"
        "    return toy.build(model, data, config)\n"
    )
    mark.touch()
    file = sweep(tmp_path, f"{TOY}inference = '{own}'\nsettings.cycles = [1, 2, 3]")
    done, failed, begun = (f"toy_model-cycles={k}-seed=0" for k in (1, 2, 3))
    with store.lock(tmp_path / "out" / begun):  # as another process that takes part holds it
        first = call(file)
    assert first.exit_code == 1
    assert "toy_model-cycles=2-seed=0 failed: ZeroDivisionError: by purpose" in first.stderr
    assert states(file) == {done: "done", failed: "not begun", begun: "not begun"}
    table = call(file, "--status").stdout
    assert "11/11" in table
    at = (tmp_path / "out" / done / "checkpoint.pt").stat().st_mtime_ns

    mark.unlink()
    again = call(file)
    assert again.exit_code == 0, again.output
    assert states(file) == dict.fromkeys((done, failed, begun), "done")
    assert (tmp_path / "out" / done / "checkpoint.pt").stat().st_mtime_ns == at  # not repeated
    alone = fit(MODEL, own, preset="smoke", out=tmp_path / "alone", settings={"cycles": 2})
    models = (checkpoint(path)["inference"] for path in (alone, tmp_path / "out" / failed))
    assert_equal(*models)
    file.write_text(file.read_text() + "\nsettings.learning_rate = 0.1")
    with pytest.raises(ValueError, match=r"other settings \(inference.learning_rate: 0\.01, not"):
        read_sweep(file)
