"""Guides: their blocks run, and do what they say."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributions import MultivariateNormal

from plot_attractors.gflownet import psis
from plot_attractors.runs import registry

from ..small import as_built

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


def executed(page: str, capsys: pytest.CaptureFixture[str] | None = None) -> dict[str, Any]:
    """What the Python blocks of a page define; they print what the page shows after them."""
    scope: dict[str, Any] = {"__name__": "page"}
    text = (HOW_TO / page).read_text(encoding="utf-8")
    for block, shown in re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", text, re.DOTALL):
        exec(block, scope)
        if capsys is not None:
            printed = capsys.readouterr().out
            assert not shown or printed == shown
    return scope


@pytest.mark.parametrize("model", ["attractor", "vqvae"])
@pytest.mark.parametrize("says_pairs", [True, False])
def test_a_data_set_of_ones_own(tmp_path: Path, model: str, says_pairs: bool) -> None:
    """Six pairs of tokens, as the page says, where the data do not say how many suit them."""
    (block,) = re.findall(r"```python\n(.*?)```", (HOW_TO / "data-sets.md").read_text(), re.DOTALL)
    said = re.sub(r" *pairs = 3.*\n", "", block)
    assert said != block
    (tmp_path / "rings.py").write_text(block if says_pairs else said)
    built, data = as_built(model, data=tmp_path / "rings.py")
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
    scope = executed("one-step-losses.md")
    assert float(scope["share"]) == pytest.approx(0.75, abs=0.12)


@pytest.mark.parametrize("page", ["trajectory-balance", "attractors", "own-language-of-thought"])
def test_blocks_print_what_the_page_shows(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    executed(f"{page}.md", capsys)


def test_a_diffusion_sampler_finds_all_modes() -> None:
    scope = executed("diffusion-samplers.md")
    w = scope["w"]
    assert float(w.logsumexp(0)) - math.log(len(w)) == pytest.approx(math.log(5), abs=0.1)
    assert float(w.mean()) == pytest.approx(1.2, abs=0.3)
    assert (torch.bincount(scope["nearest"], minlength=4) / len(w) > 0.15).all()


def test_calibration_tells_a_dependent_guide_from_an_independent_one() -> None:
    scope = executed("diagnose-any-fit.md")
    results = scope["results"]
    assert results["dependent"]["calibrated"].all()
    assert not results["independent"]["calibrated"].any()
    result = psis(scope["tree"]).isel(chain=0)
    inputs = torch.stack([torch.ones(10), scope["times"]])
    evidence = MultivariateNormal(torch.zeros(10), torch.eye(10) + inputs.T @ inputs)
    assert abs(float(result["log_z"]) - float(evidence.log_prob(scope["y"]))) < 0.01
    assert result["pareto_k"] < 0.5
