"""How to reproduce a run: the command that a report shows."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from plot_attractors.report import report, reproduce
from plot_attractors.runs import Run, settings

from .untrained import untrained


@pytest.mark.parametrize(
    ("preset", "changed"),
    [
        ("full", {"vocabulary": 500}),
        ("smoke", {"steps": 8, "language.groups": (3, 2), "hold_out": False}),
        ("demo", {"reward.beta": 0.5, "dynamics.sees": ("time",)}),
    ],
)
def test_the_command_gives_the_same_settings(
    tmp_path: Path, preset: str, changed: dict[str, Any]
) -> None:
    run = Run(untrained(tmp_path / "a run", seed=7, preset=preset, **changed))
    words = shlex.split(reproduce.commands(run)[0])
    assert words[:5] == ["plot-attractors", "fit", "attractor", "--data", "hbv"]
    assert words.count("--set") == len(changed)
    given = settings.parse(words[i + 1] for i, word in enumerate(words) if word == "--set")
    named = {word: words[words.index(word) + 1] for word in ("--preset", "--seed")}
    again = untrained(
        tmp_path / "again", seed=int(named["--seed"]), preset=named["--preset"], **given
    )
    assert Run(again).config == run.config


def test_required_settings_are_in_the_command(tmp_path: Path) -> None:
    table = Run(untrained(tmp_path / "table", program="table", path="animals.csv"))
    assert f"--set path={Path('animals.csv').absolute()}" in reproduce.commands(table)[0]


def test_the_command_of_a_program_that_is_gone(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    text = (run / "config.toml").read_text()
    gone = f'program = "{tmp_path / "gone.py"}"'
    (run / "config.toml").write_text(text.replace('program = "attractor"', gone))
    (run / "environment.json").write_text(json.dumps({"command": "plot-attractors fit gone.py"}))
    assert "plot-attractors fit gone.py" in report(run).read_text()
