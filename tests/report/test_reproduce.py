"""How to reproduce a run: the command that a report shows."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from plot_attractors.report import report, reproduce
from plot_attractors.runs import Run, fit, settings

from .untrained import untrained

TOYS = Path(__file__).parents[1] / "toy_programs"


@pytest.mark.parametrize(
    ("preset", "changed"),
    [
        ("full", {}),
        ("smoke", {"steps": 8, "language.groups": (3, 2), "hold_out": False}),
        ("demo", {"language.max_length": 4, "reward.beta": 0.5, "dynamics.sees": ("time",)}),
        ("full", {"vocabulary": 500}),
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
    again = untrained(tmp_path / "again", seed=7, preset=preset, **given)
    assert Run(again).config == run.config
    assert words[words.index("--preset") + 1] == preset
    assert words[words.index("--seed") + 1] == "7"


def test_groups_presets_and_required_settings_are_in_the_command(tmp_path: Path) -> None:
    changed = {"replay.size": 5}
    run = fit(TOYS / "toy_model.py", preset="demo", out=tmp_path, settings=changed, log_every=7)
    command = reproduce.commands(Run(run))[0]
    assert "--log-every 7" in command
    assert [word for word in shlex.split(command) if "=" in word] == ["replay.size=5"]
    sprites = Run(untrained(tmp_path / "sprites", program="dsprites", vocabulary=0))
    assert "--set vocabulary=0" in reproduce.commands(sprites)[0]
    table = Run(untrained(tmp_path / "table", program="table", path="animals.csv"))
    assert f"--set path={Path('animals.csv').absolute()}" in reproduce.commands(table)[0]


def test_the_command_of_a_program_that_is_gone(tmp_path: Path) -> None:
    run = untrained(tmp_path / "run")
    text = (run / "config.toml").read_text()
    gone = f'program = "{tmp_path / "gone.py"}"'
    (run / "config.toml").write_text(text.replace('program = "attractor"', gone))
    (run / "environment.json").write_text(json.dumps({"command": "plot-attractors fit gone.py"}))
    assert "plot-attractors fit gone.py" in report(run).read_text()
