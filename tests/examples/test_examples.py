"""The examples: the sweep is one, and topics by GFlowNet-EM are fitted."""

from __future__ import annotations

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
    monkeypatch.setattr(sys, "argv", ["topics", "--seconds", "0.3", "--seeds", "3"])
    threads = torch.get_num_threads()
    topics.main()
    torch.set_num_threads(threads)
    pyro.enable_validation(True)
    table = pd.read_csv(StringIO(capsys.readouterr().out))
    assert list(table["method"]) == list(topics.METHODS)
    assert table["distance"].between(0, 1).all()
    assert topics.distance(topics.TRUE.flip(0)) < 1e-6  # topics have no order
    assert topics.distance(torch.full_like(topics.TRUE, 1 / topics.VOCABULARY)) > 0.5
