"""Sweeps: what a file asks for, the names of its runs, and its mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from plot_attractors.runs import fit
from plot_attractors.runs.sweep import read_sweep, seeds

TOYS = Path(__file__).parents[1] / "toy_programs"
MODEL = str(TOYS / "toy_model.py")


def test_seeds() -> None:
    assert seeds(" 5, 1 - 2,1") == [5, 1, 2]
    for text in ("", "4-2", "-1", "0..4", "0-1-2", "1.5"):
        with pytest.raises(ValueError):  # noqa: PT011
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
    assert len(result) == len({run.name for run in result}) == 8
    rest = "language.groups=2,2-batch=32"
    assert result[0].name == f"hbv-epsilon=0.04-{rest}-seed=0"
    assert result[-1].path == tmp_path / "out" / f"table-epsilon=0.05-{rest}-seed=1"
    expected = {"epsilon": 0.04, "walk.share": 0.5, "language.groups": [2, 2]}
    assert result[0].settings == {**expected, "batch": 32}
    assert (result[0].preset, result[0].inference) == ("smoke", None)


def test_lists_of_programs_and_presets_are_in_the_names(tmp_path: Path) -> None:
    text = """
        programs = "hbv"
        inference = ["gflownet_em", "exact_em"]
        preset = ["smoke", "demo"]
        seeds = [3, 5]
    """
    result = read_sweep(sweep(tmp_path, text, "compared.toml"))
    assert result[0].path.parent == Path("runs/compared").absolute()
    assert result[0].name == "hbv-gflownet_em-smoke-seed=3"
    assert result[-1].name == "hbv-exact_em-demo-seed=5"


MISTAKES = r"""
seed = 3 => there is no setting 'seed': did you mean 'seeds'\? There are programs,
seeds = "0-4" => the setting 'programs' has no default
programs = 3 => the setting 'programs' takes values separated by commas, each text, and 3 is
programs = ["hbw"] => there is no program 'hbw' in models: did you mean 'hbv'
programs = ["hbv"]; threads = 0 => 'threads' takes a whole number from 1 to 1,024, and 0 is not
programs = ["hbv"]; preset = "smok" => no preset 'smok': did you mean 'smoke'
programs = ["hbv"]; settings.epsilom = [1] => no setting 'epsilom': did you mean 'epsilon'
programs = ["hbv"]; settings.epsilon = ["a"] => 'epsilon' takes a number
programs = ["hbv"]; settings = {cycles = 0, e_updates = 1} => 'e_updates' has no effect
programs = ["hbv", "dsprites"]; settings.depth = [4] => no setting 'depth'
programs = ["hbv"]; slurm.partition = "a" => no setting 'slurm.partition'
"""


@pytest.mark.parametrize("mistake", MISTAKES.strip().splitlines())
def test_a_mistake_is_answered_with_one_sentence(tmp_path: Path, mistake: str) -> None:
    text, _, expected = mistake.partition(" => ")
    with pytest.raises(ValueError, match=expected) as raised:
        read_sweep(sweep(tmp_path, text.replace("; ", "\n")))
    assert len(str(raised.value).splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_directory_that_holds_another_run_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    text = "programs = MODEL\nout = OUT\npreset = 'smoke'\nsettings.learning_rate = 0.1"
    run = read_sweep(sweep(tmp_path, text))[0]
    fit(MODEL, preset="smoke", out=run.path)
    with pytest.raises(ValueError, match=r"other settings \(learning_rate is 0\.01 there and 0\.1"):
        read_sweep(sweep(tmp_path, text))
