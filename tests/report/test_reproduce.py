"""How to reproduce a run: the command that a report shows."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from plot_attractors.cli.shared import parse
from plot_attractors.report import reproduce
from plot_attractors.runs import Run

from .untrained import untrained


@pytest.mark.parametrize(
    ("preset", "changed"),
    [
        ("full", {"vocabulary": 500}),
        ("smoke", {"steps": 8, "language.groups": (3, 2), "hold_out": False}),
        ("demo", {"reward.beta": 0.5, "dynamics.memory": 1.0}),
    ],
)
def test_the_command_gives_the_same_settings(
    tmp_path: Path, preset: str, changed: dict[str, Any]
) -> None:
    run = Run(untrained(tmp_path / "a run", seed=7, preset=preset, **changed))
    words = shlex.split(reproduce.commands(run)[0])
    assert words[:5] == ["plot-attractors", "fit", "attractor", "--data", "hbv"]
    assert words.count("--set") == len(changed)
    given = parse(words[i + 1] for i, word in enumerate(words) if word == "--set")
    named = {word: words[words.index(word) + 1] for word in ("--preset", "--seed")}
    again = untrained(
        tmp_path / "again", seed=int(named["--seed"]), preset=named["--preset"], **given
    )
    assert Run(again).config == run.config
