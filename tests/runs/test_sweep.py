"""Sweeps: what a file asks for, the names of its runs, and its mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from plot_attractors.runs import fit
from plot_attractors.runs.seeds import seeds
from plot_attractors.runs.sweep import read_sweep

TOYS = Path(__file__).parents[1] / "toy_programs"
MODEL = str(TOYS / "toy_model.py")


def test_seeds() -> None:
    assert seeds(" 5, 1 - 2,1") == [5, 1, 2]
    assert seeds("0-9999") == list(range(10_000))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "such as 0-4"),
        ("4-2", "'4-2' is not that"),
        ("-1", "not that"),
        ("0..4", "not that"),
        ("0-1-2", "not that"),
        ("1.5", "not that"),
        (f"{2**63}", "at most"),
        ("0-10000", "more than 10,000"),
        ("0-999999999999", "more than 10,000"),
    ],
)
def test_no_seeds(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        seeds(text)


def sweep(tmp_path: Path, text: str, name: str = "sweep.toml") -> Path:
    file = tmp_path / name
    file.write_text(text.replace("MODEL", f'"{MODEL}"').replace("OUT", f'"{tmp_path / "out"}"'))
    return file


def test_runs_are_all_combinations_and_their_names_say_what_differs(tmp_path: Path) -> None:
    text = """
        programs = ["hbv", "table"]
        preset = "smoke"
        seeds = "0-1"
        out = OUT

        [settings]
        epsilon = [0.04, 0.05]
        walk.share = 0.5
        language.groups = [[2, 2]]
        batch = [32]
    """
    result = read_sweep(sweep(tmp_path, text))
    assert result.out == tmp_path / "out"
    assert len(result.runs) == len({run.name for run in result.runs}) == 8
    rest = "language.groups=2,2-batch=32"
    assert result.runs[0].name == f"hbv-epsilon=0.04-{rest}-seed=0"
    assert result.runs[-1].path == tmp_path / "out" / f"table-epsilon=0.05-{rest}-seed=1"
    expected = {"epsilon": 0.04, "walk.share": 0.5, "language.groups": [2, 2]}
    assert result.runs[0].settings == {**expected, "batch": 32}
    assert (result.runs[0].preset, result.runs[0].inference) == ("smoke", None)


def test_lists_of_programs_and_presets_are_in_the_names(tmp_path: Path) -> None:
    text = """
        programs = "hbv"
        inference = ["gflownet_em", "exact_em"]
        preset = ["smoke", "demo"]
        seeds = [3, 5]
    """
    result = read_sweep(sweep(tmp_path, text, "compared.toml"))
    assert result.out == Path("runs/compared").absolute()
    assert result.runs[0].name == "hbv-gflownet_em-smoke-seed=3"
    assert result.runs[-1].name == "hbv-exact_em-demo-seed=5"


MISTAKES = r"""
programs = ["hbv" => is no TOML file
seed = 3 => sweep.toml: there is no setting 'seed': did you mean 'seeds'\? There are programs,
seeds = "0-4" => names no program: give it programs = \["hbv"\], say$
programs = 3 => the setting 'programs' takes values separated by commas, each text, and 3 is
programs = [] => names no program
programs = ["hbw"] => hbw-seed=0: there is no model or data set 'hbw': did you mean 'hbv'
programs = ["hbv"]; seeds = "0-x" => sweep.toml: seeds are whole numbers
programs = ["hbv"]; threads = 0 => 'threads' takes a whole number from 1 to 1,024, and 0 is not
programs = ["hbv"]; preset = "smok" => no preset 'smok': did you mean 'smoke'
programs = ["hbv"]; settings = 3 => settings in .* is a table, \[settings\], not 3
programs = ["hbv"]; settings.epsilom = [1] => no setting 'epsilom': did you mean 'epsilon'
programs = ["hbv"]; settings.epsilon = ["a"] => 'epsilon' takes a number
programs = ["hbv"]; settings.epsilon = [] => the setting 'epsilon' in .* is an empty list
programs = ["hbv"]; settings = {cycles = 0, e_updates = 1} => 'e_updates' has no effect
programs = ["hbv", "dsprites"]; settings.depth = [4] => dsprites-depth=4-seed=0: .*no setting
programs = ["hbv"]; settings.epsilon = [0.1, 0.1] => two runs of the sweep would be hbv-epsilon=0.1
programs = ["hbv"]; seeds = "0-5000"; settings.epsilon = [0.1, 0.2] => asks for 10,002 runs
programs = ["hbv"]; slurm.partition = "a" => no setting 'slurm.partition'
"""


@pytest.mark.parametrize("mistake", MISTAKES.strip().splitlines())
def test_a_mistake_is_answered_with_one_sentence(tmp_path: Path, mistake: str) -> None:
    text, _, expected = mistake.partition(" => ")
    with pytest.raises(ValueError, match=expected) as raised:
        read_sweep(sweep(tmp_path, text.replace("; ", "\n")))
    assert len(str(raised.value).splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no file .*none\.toml"):
        read_sweep(tmp_path / "none.toml")


def test_a_directory_that_holds_another_run_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    text = "programs = MODEL\nout = OUT\npreset = 'smoke'\nsettings.learning_rate = 0.1"
    run = read_sweep(sweep(tmp_path, text)).runs[0]
    fit(MODEL, preset="smoke", out=run.path)
    with pytest.raises(ValueError, match=r"other settings \(learning_rate is 0\.01 there and 0\.1"):
        read_sweep(sweep(tmp_path, text))
