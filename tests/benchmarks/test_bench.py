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
PROGRAMS = {
    path.stem: text
    for path in (ROOT / "benchmarks").glob("*.py")
    if '__name__ == "__main__"' in (text := path.read_text())
}


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


def test_every_program_is_run_small() -> None:
    assert sorted(commands("SMALL=1")) == [(name, " --small") for name in sorted(PROGRAMS)]


def test_those_that_name_the_machine_are_run_at_their_sizes() -> None:
    timed = sorted(name for name, text in PROGRAMS.items() if "    begin()\n" in text)
    assert sorted(commands()) == [(name, "") for name in timed]
    assert len(timed) < len(PROGRAMS)


@pytest.fixture
def shared() -> Any:
    return module_at(ROOT / "benchmarks" / "shared.py")


def asked(shared: Any, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[dict[str, Any], Any]:
    """A program's constants, and what it is asked to do."""
    program = {"SIZE": 9, "SMALL": {"SIZE": 1, "seeds": [0]}}
    options = shared.parser("Measures.")
    options.add_argument("folder", nargs="?", type=Path)
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    monkeypatch.setattr(sys, "argv", ["program.py", *words])
    return program, shared.arguments(program, options)


def test_small_changes_constants_and_defaults(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program, given = asked(shared, monkeypatch, "there")
    assert (program["SIZE"], given.seeds, given.folder) == (9, [0, 1], Path("there"))
    program, given = asked(shared, monkeypatch, "--small")
    assert (program["SIZE"], given.seeds) == (1, [0])
    assert not list(given.folder.iterdir())
    program, given = asked(shared, monkeypatch, "there", "--small", "--seeds", "5")
    assert (program["SIZE"], given.seeds, given.folder) == (1, [5], Path("there"))


def test_a_folder_must_be_named(
    shared: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        asked(shared, monkeypatch)
    assert capsys.readouterr().err.endswith("error: name a folder, or add --small\n")


@pytest.mark.parametrize("name", ["SIZES", "seedes"])
def test_small_names_only_what_there_is(
    name: str, shared: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["program.py", "--small"])
    options = shared.parser("Measures.")
    options.add_argument("--seeds", type=int, default=1)
    with pytest.raises(KeyError, match=name):
        shared.arguments({"SIZE": 9, "SMALL": {"SIZE": 1, name: 2}}, options)


def test_a_sampler_that_has_learned_nothing_is_in_balance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a Brownian motion and its bridge to N(0, σ²): log Z at every trajectory."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    samplers = importlib.import_module("samplers")
    sigma, log_z = 1.5, 0.7

    def log_reward(z: Any) -> Any:
        return torch.distributions.Normal(0.0, sigma).log_prob(z).sum(-1) + log_z

    torch.manual_seed(0)
    target = samplers.Target("Gaussian", 3, sigma, log_reward, log_z, None, coordinates=False)
    sampler = samplers.Sampler(target)  # its drift is 0 at first
    total = samplers.ratios(sampler, samplers.on_policy(sampler, 50)).total
    torch.testing.assert_close(total, torch.full((50,), log_z), atol=1e-3, rtol=0)
    # a backward policy without the bridge's narrowing is not in balance
    wrong = lambda before, now, sigma: (before / now, sigma * (now - before).sqrt())  # noqa: E731
    monkeypatch.setattr(samplers, "bridge", wrong)
    assert samplers.ratios(sampler, samplers.on_policy(sampler, 50)).total.std() > 0.5
