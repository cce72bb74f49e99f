"""`make bench` runs every program of benchmarks/, and how these read their command lines."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ..small import module_at

ROOT = Path(__file__).parents[2]
PROGRAMS = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - {"shared"}


def commands(*variables: str) -> list[tuple[str, str]]:
    """Programs that `make bench` would run, each with --small or nothing."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    outside = {k: v for k, v in os.environ.items() if k != "SMALL" and not k.startswith("MAKE")}
    command = ["make", "--dry-run", "bench", *variables]
    made = subprocess.run(
        command, cwd=ROOT, env=outside, check=True, capture_output=True, text=True
    )
    return re.findall(r"benchmarks/(\w+)\.py( --small)?", made.stdout)


def test_every_program_is_run_small_and_samplers_at_their_size() -> None:
    assert sorted(commands("SMALL=1")) == [(name, " --small") for name in sorted(PROGRAMS)]
    assert commands() == [("samplers", "")]


def test_small_changes_constants_and_defaults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = module_at(ROOT / "benchmarks" / "shared.py")

    def asked(*words: str) -> tuple[int, Any]:
        """A program's constant, and what it is asked to do."""
        program: dict[str, Any] = {"SIZE": 9, "SMALL": {"SIZE": 1, "seeds": [0]}}
        options = shared.parser("Measures.")
        options.add_argument("folder", nargs="?", type=Path)
        options.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
        monkeypatch.setattr(sys, "argv", ["program.py", *words])
        given = shared.arguments(program, options)
        return program["SIZE"], given

    size, given = asked("there")
    assert (size, given.seeds, given.folder) == (9, [0, 1], Path("there"))
    size, given = asked("--small")
    assert (size, given.seeds, [*given.folder.iterdir()]) == (1, [0], [])
    size, given = asked("there", "--small", "--seeds", "5")
    assert (size, given.seeds, given.folder) == (1, [5], Path("there"))
    with pytest.raises(SystemExit):
        asked()
    assert capsys.readouterr().err.endswith("error: name a folder, or add --small\n")


def test_a_sampler_that_has_learned_nothing_is_in_balance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a Brownian motion and its bridge to N(0, σ²): log Z at every trajectory."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    samplers = importlib.import_module("samplers")
    monkeypatch.setattr(samplers, "STEPS", 10)
    sigma, log_z = 1.5, 0.7

    def log_reward(z: Any) -> Any:
        return torch.distributions.Normal(0.0, sigma).log_prob(z).sum(-1) + log_z

    torch.manual_seed(0)
    target = samplers.Target("Gaussian", 3, sigma, log_reward, log_z, None)
    sampler = samplers.Sampler(target)
    samplers.zero(sampler.factor)  # without ∇log R its drift is 0 at first
    total = sampler.ratios(sampler.simulated(50)).total
    torch.testing.assert_close(total, torch.full((50,), log_z), atol=1e-3, rtol=0)
    # a backward policy without the bridge's narrowing is not in balance
    wrong = lambda before, now, sigma: (before / now, sigma * (now - before).sqrt())  # noqa: E731
    monkeypatch.setattr(samplers, "bridge", wrong)
    assert sampler.ratios(sampler.simulated(50)).total.std() > 0.5
