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
from plot_attractors.data import Batch, Feature
from plot_attractors.runs import Run, registry
from plot_attractors.runs.analyze import applies, require

from ..small import SETTINGS, untrained

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


class Numbers:
    """A user's own data: whole numbers from 0 to `most`, and a feature of two kinds."""

    input_shape, splits = (COLUMNS,), ("train",)
    features, label_names, ordered = (Feature("kind", ("few", "many")),), ("kind",), False

    def __init__(self, most: int) -> None:
        self.most = most

    def batch(self, n: int, split: str = "train") -> Batch:
        y = torch.randint(2, (n,))
        share = (0.2 + 0.6 * y.float())[:, None].expand(n, COLUMNS)
        x = torch.distributions.Binomial(self.most, share).sample()
        return Batch(x, y, y[:, None])

    def feature_values(self, batch: Batch) -> Tensor:
        return batch.labels.float()


def variant(kind: str, most: int = MOST) -> Run:
    model = untrained("hbv", depth=3, bits=COLUMNS).model
    model.decoder = Decoder(kind, most, model.latent).requires_grad_(False)
    run = Run.__new__(Run)
    of_run = {"seed": 0, "program": "counts", "inference": "any", "preset": "full"}
    run.path = Path("nowhere")
    run.config = {"run": of_run, "data": {}, "model": {}, "inference": {}}
    run.__dict__ |= {"model": model, "data": Numbers(most), "environment": {}}
    return run


def measured(name: str, run: Run, config: Any) -> Any:
    program = registry.load("analyses", name)
    require(program, name, run)
    return program.measure(run, config)


OF_BITS = {"information_loss"}  # which no other numbers make sense of
# of classes of this package, of a real run, or of people's data
NEVER = {"data", "training", "people"}
OF_OTHERS = {"compare_language_of_thought"}
DESCRIBED = ("composition", "decodability", "diversity", "language_measures")
ALL = sorted(registry.names("analyses"))


@pytest.mark.parametrize("name", ALL)
def test_every_analysis_is_made_of_counts_or_refuses_them(name: str) -> None:
    program, run = registry.load("analyses", name), variant("poisson")
    config = program.Config(**SETTINGS.get(name, {}))
    refused = name in OF_BITS | NEVER | OF_OTHERS
    assert applies(program, run) != refused
    if refused:
        with pytest.raises(ValueError, match="needs") as raised:
            measured(name, run, config)
        assert "\n" not in str(raised.value)
        return
    tables = program.measure(run, config)
    assert "ones.npz" not in tables
    assert name != "perturbation" or "summary.csv" not in tables  # of bits that differ
    assert name != "trajectories" or json.loads(tables["trajectories.json"])["bits"] is None
    assert program.draw(tables).keys() <= program.CAPTIONS.keys()


@pytest.mark.parametrize("kind", ["categorical", "bernoulli"])
def test_numbers_decoded_as_others_have_no_likelihood_or_no_mean(kind: str) -> None:
    run, met = variant(kind), {}
    for name in ("sentences", "continuum", "diagnostics", "information_loss", "trajectories"):
        met[name] = registry.load("analyses", name).NEEDS.met(run)
    assert met == {
        "sentences": False, "continuum": False, "information_loss": False,
        "diagnostics": kind == "categorical", "trajectories": True,
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted({*ALL} - {"data", "training"}))
def test_what_is_no_model_of_sentences_is_refused(name: str) -> None:
    run, program = variant("bernoulli", most=1), registry.load("analyses", name)
    run.__dict__["model"] = object()
    with pytest.raises(ValueError, match="needs"):
        require(program, name, run)
    if name in DESCRIBED:  # and data without features
        run = variant("bernoulli", most=1)
        run.data.features = ()
        assert not program.NEEDS.met(run)


def test_a_users_own_bits_are_analysed_as_bits() -> None:
    run = variant("bernoulli", most=1)
    assert kind_of_inputs(run) == "bits"
    for name in ("information_loss", "diagnostics", "perturbation", "sentences", "trajectories"):
        program = registry.load("analyses", name)
        assert program.NEEDS.met(run)
        tables = program.measure(run, program.Config(**SETTINGS[name]))
        assert ("ones.npz" in tables) == (name == "diagnostics")


def test_what_inputs_are_is_asked_without_a_random_number() -> None:
    run, before = variant("bernoulli"), torch.get_rng_state()
    assert kind_of_inputs(run) == "Numbers decoded as Bernoulli"
    assert torch.equal(torch.get_rng_state(), before)
