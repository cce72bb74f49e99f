"""The examples: the sweep is one, and topics by GFlowNet-EM are fitted, and summed rightly."""

from __future__ import annotations

import itertools
import math
import sys
from io import StringIO
from pathlib import Path

import pandas as pd
import pyro
import pytest
import torch

from plot_attractors.runs.sweep import read_sweep

from ..small import module_at

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_sweep() -> None:
    result = read_sweep(EXAMPLES / "sweep.toml")
    assert len(result) == 10
    assert result[0].path.parent == Path("runs/epsilon").absolute()


def test_topics(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    topics = module_at(EXAMPLES / "topics.py")
    monkeypatch.setattr(topics, "WORDS", 5)
    given = ["topics", "--seconds", "0.3", "--seeds", "3", "--held-out", "2"]
    monkeypatch.setattr(sys, "argv", given)
    threads = torch.get_num_threads()
    topics.main()
    torch.set_num_threads(threads)
    pyro.enable_validation(True)
    table = pd.read_csv(StringIO(capsys.readouterr().out))
    assert len(table) == 3
    assert table.iloc[:, 2:].notna().any(axis=1).all()


def test_the_evidence_of_topics_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over all topics of all words, of mixtures by the Dirichlet-multinomial formula."""
    topics = module_at(EXAMPLES / "topics.py")
    monkeypatch.setattr(topics, "WORDS", 4)
    k, alpha = topics.TOPICS, topics.ALPHA
    torch.manual_seed(0)
    learned = torch.rand(k, topics.VOCABULARY).softmax(-1)
    words = torch.tensor([[0, 3, 3, 8], [1, 1, 1, 1]])
    total = torch.zeros(2)
    for z in itertools.product(range(k), repeat=4):
        counts = torch.bincount(torch.tensor(z), minlength=k)
        prior = math.lgamma(k * alpha) - math.lgamma(k * alpha + 4)
        prior += float((torch.lgamma(counts + alpha) - math.lgamma(alpha)).sum())
        total += math.exp(prior) * learned[torch.tensor(z), words].prod(-1)
    assert topics.log_evidence(words, learned) == pytest.approx(float(total.log().mean()), abs=1e-4)
