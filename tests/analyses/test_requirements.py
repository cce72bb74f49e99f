"""What analyses ask of data and decoder: counts, codes and other numbers are no bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from pyro.distributions import Bernoulli, Categorical, Poisson
from torch import Tensor, nn

from plot_attractors.analysis.sampling import kind_of_inputs
from plot_attractors.data import Feature
from plot_attractors.runs import Run, registry

from ..fakes import Things
from ..small import SETTINGS, measured, untrained

MOST, COLUMNS = 5, 16  # the greatest number, and how many there are in an input


class Decoder(nn.Module):
    """P(x | z) of a kind, of numbers up to `most`."""

    def __init__(self, kind: str, most: int, latent: int) -> None:
        super().__init__()
        self.kind, each = kind, most + 1 if kind == "categorical" else 1
        self.map = nn.Linear(latent, COLUMNS * each)

    def forward(self, z: Tensor) -> Any:
        out = self.map(z)
        if self.kind == "categorical":
            return Categorical(logits=out.unflatten(-1, (COLUMNS, -1)))
        return Poisson(out.exp()) if self.kind == "poisson" else Bernoulli(logits=out)


def variant(kind: str, most: int = MOST) -> Run:
    model = untrained("hbv", depth=3, bits=COLUMNS).model
    model.decoder = Decoder(kind, most, model.latent).requires_grad_(False)
    run = Run.__new__(Run)
    of_run = {"seed": 0, "program": "counts", "inference": "any", "preset": "full"}
    run.path = Path("nowhere")
    run.config = {"run": of_run, "data": {}, "model": {}, "inference": {}}
    numbers = torch.distributions.Binomial(most, torch.full((COLUMNS,), 0.5))
    data = Things((Feature("first"),), lambda n: numbers.sample(torch.Size([n])))
    run.__dict__ |= {"model": model, "data": data, "environment": {}}
    return run


KINDS = ("diagnostics", "information_loss", "perturbation", "sentences", "trajectories")


@pytest.mark.parametrize("kind", ["poisson", "bernoulli"])
def test_counts_are_no_bits_and_a_users_own_bits_are(kind: str) -> None:
    run, bits = variant(kind, MOST if kind == "poisson" else 1), kind == "bernoulli"
    assert (kind_of_inputs(run) == "bits") is bits
    assert registry.load("analyses", "information_loss").NEEDS.met(run) is bits
    tables = {
        name: measured(name, run, **SETTINGS[name])
        for name in KINDS
        if bits or name != "information_loss"
    }
    assert ("checks.csv" in tables["diagnostics"]) is bits
    assert bits or "summary.csv" not in tables["perturbation"]  # of bits that differ
    view = json.loads(tables["trajectories"]["trajectories.json"])
    assert (view["bits"] is not None) is bits


@pytest.mark.parametrize("kind", ["categorical", "bernoulli"])
def test_numbers_decoded_as_others_have_no_likelihood_or_no_mean(kind: str) -> None:
    run, before = variant(kind), torch.get_rng_state()
    met = {name: registry.load("analyses", name).NEEDS.met(run) for name in (*KINDS, "continuum")}
    assert met == {
        "sentences": False, "continuum": False, "information_loss": False, "perturbation": True,
        "diagnostics": kind == "categorical", "trajectories": True,
    }  # fmt: skip
    assert torch.equal(torch.get_rng_state(), before)  # asked without a random number
