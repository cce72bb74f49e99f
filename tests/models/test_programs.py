"""Every model and inference program runs small, and each variant does what its name says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from plot_attractors.runs import registry
from plot_attractors.runs.run import plan, programs

from ..attractors import HBV, assert_resumes, changed, schedule, snapshot, sprites, with_data
from ..small import SETTINGS, measured, untrained

MODELS = ["hbv", "table", "dsprites", "images", "vectors"]
PHI = {"encoder", "decoder", "sentence_encoder"}
THETA = {"forward_dynamics", "backward_dynamics", "discretizer"}
WIDTHS = {"memory"}  # which is measured, as those of the backward dynamics
TRAINED = {  # parts of models, by the inference programs that train them
    "detailed_balance_em": PHI | THETA | {"flow_correction", "log_partition"},
    "gflownet_em": PHI | THETA | WIDTHS | {"sentence_policy"},
    "vqvae": {"encoder", "decoder", "continuous_decoder", "codes"},
    "emergent_communication": {"sender", "receiver"},
    "grammar": set(),
    "hard_coded": set(),
}
KINDS = (  # models, and the inference programs that fit them
    (MODELS, ["gflownet_em"]),
    (["algorithms"], ["detailed_balance_em"]),
    (["vqvae"], ["vqvae"]),
    (["emergent_communication"], ["emergent_communication"]),
    (["grammar"], ["grammar"]),
    (["fully_compositional", "not_compositional"], ["hard_coded"]),
)
EM = {"pretrain": 2, "warm_up": 4, "cycles": 1, "e_updates": 8, "final_e_updates": 4}
WORDS = EM | {"e_updates": 3, "sentences.temperatures": 3, "vocabulary": 4}
LETTERS = {"pretrain": 2, "cycles": 1, "e_updates": 3, "m_updates": 2, "replay": 40, "batch": 8}
SHORT: dict[str, dict[str, Any]] = {
    "gflownet_em": EM, "detailed_balance_em": LETTERS,
    "vqvae": {"updates": 3}, "emergent_communication": {"updates": 3},
}  # fmt: skip
ANY = ("vqvae", "emergent_communication", "fully_compositional")  # models, of all kinds of data
CASES = [(name, None, inference) for names, (inference, *_) in KINDS for name in names]
CASES += [(name, data, programs(name).names[2]) for name in ANY for data in ("table", "dsprites")]
CASES += [(name, data, name) for name in ANY[:2] for data in ("images", "vectors")]


@pytest.mark.parametrize(("name", "of", "inference"), CASES)
def test_every_program_trains(name: str, of: str | None, inference: str, files: Any) -> None:
    model, data = with_data(files.get(of or name, {}), name, of)
    before, fit = snapshot(model), schedule(inference, model, data, SHORT.get(inference, {}))
    while not fit.done:
        assert all(map(math.isfinite, fit.step().values()))
    assert changed(model, before) == TRAINED[inference]
    assert model.describe(data.batch(5).x, 2).s.shape[:2] == (5, 2)
    if inference == programs(name).names[2]:  # a default has no dead network
        parameters = model.named_parameters()
        assert not [key for key, p in parameters if key in before and torch.equal(p, before[key])]


PAPER = registry.load("models", "algorithms").PRESETS["paper"]
RESUMED: dict[str, Any] = {  # inference program, its settings, model program and its settings
    "gflownet": ("gflownet_em", EM | {"e_updates": 3}, "hbv", HBV),
    "gflownet, tokens": ("gflownet_em", WORDS, "dsprites", {}),
    "letter": ("detailed_balance_em", LETTERS, "algorithms", HBV),
    "letter, paper": ("detailed_balance_em", LETTERS, "algorithms", HBV | PAPER),
    "vqvae": ("vqvae", {"updates": 8}, "vqvae", {}),
    "vqvae, modern": (
        "vqvae", {"updates": 8, "dictionary": "moving_average"}, "vqvae", {"null_code": True}
    ),
    "game": ("emergent_communication", {"updates": 6}, "emergent_communication", {}),
}  # fmt: skip


@pytest.mark.parametrize("case", RESUMED)
def test_a_resumed_schedule_equals_an_uninterrupted_one(case: str) -> None:
    inference, settings, name, of_model = RESUMED[case]

    def build() -> Any:
        made = sprites(of_model) if name == "dsprites" else with_data(of_model, name)
        return schedule(inference, *made, settings)

    assert_resumes(build, stops=(13, 17) if "vocabulary" in settings else (3, 7, 13))


@pytest.mark.parametrize(("name", "factor"), [("hbv", "posterior"), ("dsprites", "density")])
def test_the_papers_reward(name: str, factor: str) -> None:
    reward = plan("algorithms", data=name, preset="paper").configs["model"].reward
    assert reward.decodability == factor


@pytest.mark.parametrize("name", [names[0] for names, _ in KINDS[2:]])
@pytest.mark.parametrize("analysis", ["decodability", "composition", "language_measures"])
def test_analyses_of_language_are_made_of_every_model(name: str, analysis: str) -> None:
    assert measured(analysis, untrained(name), **SETTINGS[analysis])


def test_every_program_is_trained_here(files: Any) -> None:
    known = {model for models, _ in KINDS for model in models}
    assert known == {*registry.names("models"), *registry.names("datasets")} - {"attractor"}
    assert set(TRAINED) == set(registry.names("inference"))
    for name in ("images", "vectors"):
        with pytest.raises(ValueError, match="leave this model out"):
            with_data(files[name], "fully_compositional", name)


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_pairs_that_cannot_go_together_are_refused(kind: int) -> None:
    """A model is refused by the inference programs of all other kinds."""
    model, data = with_data({}, KINDS[kind][0][0])
    for inference in set(TRAINED) - {*KINDS[kind][1]}:
        lacks = "trains flow_correction and log_partition, .*: take plot-attractors fit algo"
        lacks += "|a Bridge, not Dynamics: take detailed_balance_em, or a Bridge"
        with pytest.raises(ValueError, match=f"{lacks}|this inference .*: leave --inference o"):
            schedule(inference, model, data, {})


# -- what each model is


def test_a_table_sizes_its_language_to_its_distinct_rows(files: Any, tmp_path: Path) -> None:
    frame = pd.read_csv(files["table"]["path"]).fillna(0)
    for rows, pairs in ((6, 3), (14, 4)):
        frame[:rows].to_csv(tmp_path / "few.csv", index=False)
        given = {"path": str(tmp_path / "few.csv"), "labels": ("family",), "language.groups": ()}
        assert with_data(given, "table")[0].language.groups == (2,) * pairs


def test_a_decoder_of_images_starts_with_their_mean(files: Any) -> None:
    model, data = with_data(files["images"], "images")
    start = model.decoder(torch.zeros(1, model.latent)).loc.mean()
    assert torch.isclose(start, data.images.float().mean() / 255, atol=0.05)
