"""The examples: the sweep is one, and the programs of GFlowNet-EM run and sum what they say."""

from __future__ import annotations

import itertools
import math
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pyro
import pytest
import torch
from torch.distributions import Bernoulli, Binomial
from torch.nn.functional import one_hot

from plot_attractors.runs.sweep import read_sweep

from ..small import module_at

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_sweep() -> None:
    result = read_sweep(EXAMPLES / "sweep.toml")
    assert len(result.runs) == 10
    assert result.out == Path("runs/epsilon").absolute()


# -- GFlowNet-EM of three models


def program(name: str) -> Any:
    return module_at(EXAMPLES / f"{name}.py")


@pytest.mark.parametrize(
    ("name", "options", "sizes", "rows"),
    [
        ("discrete_vae", [], {"CODES": 3}, 4),
        ("topics", ["--held-out", "2"], {"WORDS": 5}, 3),
        ("frozen_decoder", ["--images", "1", "--sweeps", "2"], {"HIDDEN": 8}, 5),
    ],
)
def test_programs_run(
    name: str,
    options: list[str],
    sizes: dict[str, int],
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = program(name)
    for constant, value in sizes.items():
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setattr(sys, "argv", [name, "--seconds", "0.3", "--seeds", "3", *options])
    threads = torch.get_num_threads()
    module.main()
    torch.set_num_threads(threads)
    pyro.enable_validation(True)
    table = pd.read_csv(StringIO(capsys.readouterr().out))
    assert len(table) == rows
    assert table.iloc[:, 2:].notna().any(axis=1).all()


def test_the_evidence_of_topics_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over all topics of all words, of mixtures by the Dirichlet-multinomial formula."""
    topics = program("topics")
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


def test_the_evidence_of_the_vae_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    vae = program("discrete_vae")
    monkeypatch.setattr(vae, "CODES", 2)
    torch.manual_seed(0)
    fitted, x = vae.VAE(), torch.randint(17, (3, 64)).float()
    codes = torch.tensor(list(itertools.product(range(vae.VALUES), repeat=2)))
    pixels = Binomial(16, logits=fitted.decoder(one_hot(codes, vae.VALUES).flatten(1).float()))
    log_p = pixels.log_prob(x[:, None]).sum(-1).logsumexp(-1) - math.log(len(codes))
    assert vae.log_evidence(fitted, x) == pytest.approx(float(log_p.detach().mean()), rel=1e-5)


def test_the_machine_of_the_frozen_decoder_by_brute_force() -> None:
    """p(h, v) ∝ exp(h W v + b v + c h), the lower half of v summed over all its values."""
    frozen = program("frozen_decoder")
    decoder = object.__new__(frozen.Decoder)
    frozen.STATES = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3)
    torch.manual_seed(0)
    decoder.weight, decoder.pixel, decoder.unit = torch.randn(3, 4), torch.randn(4), torch.randn(3)
    all_pixels = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 4)
    h = frozen.STATES
    energy = (
        h @ decoder.weight @ all_pixels.T + all_pixels @ decoder.pixel + (h @ decoder.unit)[:, None]
    )
    for seen in ([0.0, 1.0], [1.0, 1.0]):
        given = (all_pixels[:, :2] == torch.tensor(seen)).all(-1)
        expected = energy[:, given].logsumexp(-1)
        result = frozen.log_joint(decoder, torch.tensor([seen]))[0]
        torch.testing.assert_close(result, expected)
        log_p = Bernoulli(logits=decoder.logits(h)[:, :2]).log_prob(torch.tensor(seen)).sum(-1)
        torch.testing.assert_close(decoder.log_prior(h) + log_p, expected)
