"""Guides that no other test executes: their blocks run, and do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyro
import pytest

from plot_attractors import runs
from plot_attractors.runs import registry

from ..small import untrained

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


def executed(page: str) -> dict[str, Any]:
    """What the Python blocks of a page define."""
    scope: dict[str, Any] = {"__name__": "page"}
    text = (HOW_TO / page).read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(block, scope)
    return scope


@pytest.mark.parametrize("model", ["attractor", "vqvae"])
@pytest.mark.parametrize("says_pairs", [True, False])
def test_a_data_set_of_ones_own(tmp_path: Path, model: str, says_pairs: bool) -> None:
    """Six pairs of tokens, as the page says, where the data do not say how many suit them."""
    (block,) = re.findall(r"```python\n(.*?)```", (HOW_TO / "data-sets.md").read_text(), re.DOTALL)
    said = re.sub(r" *pairs = 3.*\n", "", block)
    assert said != block
    (tmp_path / "rings.py").write_text(block if says_pairs else said)
    built, data = runs.untrained(model, data=tmp_path / "rings.py")
    assert built.language.groups == (2,) * (3 if says_pairs else 6)
    assert data.batch(5).x.shape == (5, 2)


def test_another_reward_agrees_with_its_posterior() -> None:
    scope = executed("variants.md")
    kinder, model = scope["log_r"], scope["model"]
    plain = registry.load("models", "attractor").build(scope["config"], scope["data"])
    plain.load_state_dict(model.state_dict())
    harsher = plain.reward.log_pairs(scope["q"], plain.sentences)
    assert (kinder >= harsher - 1e-5).all()
    assert (kinder > harsher + 0.1).any()


def test_balance_of_one_step_programs_finds_both_embeddings() -> None:
    try:
        scope = executed("one-step-losses.md")
    finally:
        pyro.enable_validation(True)  # which the page switches off
    assert float(scope["share"]) == pytest.approx(0.75, abs=0.12)


def test_an_analysis_in_the_short_form(tmp_path: Path) -> None:
    run = untrained()
    executed("analyses.md")["analyze"](SimpleNamespace(model=run.model, data=run.data), tmp_path)
    assert re.fullmatch(r"[123]\.\d\d tokens\n", (tmp_path / "length.txt").read_text())


def test_a_tracker_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    executed("trackers.md")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("20 pretrain ")
    assert printed[-1] == "closed"
