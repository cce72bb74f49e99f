"""Every model and inference program runs small, and every variant has the property that it is named
after.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from plot_attractors.data import ImageSet
from plot_attractors.runs import registry
from plot_attractors.runs.settings import resolve, to_table

MODELS = (
    "hbv",
    "table",
    "dsprites",
    "images",
    "langevin",
    "length_prior",
    "time_and_input_dependent",
)
INFERENCE = ("exact_em", "gflownet_em", "gflownet_em_sampled")
KINDS = (  # models, and the inference programs that fit them
    (MODELS, INFERENCE),
    (("vqvae",), ("vqvae",)),
    (("emergent_communication",), ("emergent_communication",)),
    (
        ("tree_grammar", "slot_grammar", "sprite_grammar"),
        ("enumeration", "grammar_mcmc", "grammar_gflownet"),
    ),
    (("fully_compositional", "not_compositional"), ("hard_coded",)),
)


def animals(path: Path, rows: int = 40) -> Path:
    rng = np.random.default_rng(0)
    family = rng.integers(0, 4, rows)
    x = (rng.random((rows, 12)) < np.where(rng.random((4, 12)) < 0.5, 0.9, 0.1)[family]).astype(int)
    x[0], x[1] = 0, 1  # no constant column
    frame = pd.DataFrame(x, columns=[f"trait{k}" for k in range(12)])
    frame["family"] = np.array(["cat", "dog", "bird", "fish"])[family]
    frame.to_csv(path, index=False)
    return path


def faces(path: Path, rows: int = 40) -> Path:
    np.save(path, np.random.default_rng(0).integers(0, 256, (rows, 20, 24), dtype=np.uint8))
    return path


def small(model: str, tmp_path: Path, **overrides: object) -> tuple[object, torch.nn.Module]:
    program = registry.load("models", model)
    if model == "table":
        overrides |= {"data": animals(tmp_path / "animals.csv"), "labels": ("family",)}
    if model == "images":
        overrides |= {"images": faces(tmp_path / "faces.npy")}
    config = program.Config(**{**program.PRESETS["smoke"], **overrides})
    data = program.load_data(config)
    return data, program.build(config, data)


@pytest.mark.parametrize("inference", INFERENCE)
@pytest.mark.parametrize("model", MODELS)
def test_every_pair_of_programs_trains(model: str, inference: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    data, built = small(model, tmp_path)
    before = {k: v.clone() for k, v in built.state_dict().items()}
    program = registry.load("inference", inference)
    fit = program.build(built, data, program.Config(**program.PRESETS["smoke"]))
    while not fit.done:
        assert all(np.isfinite(v) for v in fit.step().values())
    moved = {
        k.split(".")[0] for k, v in built.state_dict().items() if not torch.equal(v, before[k])
    }
    phi = {"encoder", "decoder", "sentence_encoder"}
    theta = {
        "forward_dynamics",
        "backward_dynamics",
        "discretizer",
        "flow_correction",
        "log_partition",
    }
    balance = {"flow_correction", "log_partition"}  # trained by the balance losses alone
    trained = {
        "exact_em": phi,
        "gflownet_em": (phi | theta) - balance,
        "gflownet_em_sampled": phi | theta,
    }
    learned = {"token_costs"} if built.odds_cost and inference == "gflownet_em_sampled" else set()
    assert moved == trained[inference] | learned
    assert fit.summary()["sentences_in_use"] >= 1


@pytest.mark.parametrize("model", ["hbv", "table", "dsprites", "images"])
def test_the_text_to_the_letter_trains(model: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    program, em = registry.load("models", model), registry.load("inference", "gflownet_em_sampled")
    data, built = small(model, tmp_path, **program.PRESETS["paper"])
    assert built.decodability in ("posterior", "density")
    few = {"cycles": 1, "e_updates": 3, "m_updates": 2, "final_e_updates": 2}
    fit = em.build(built, data, em.Config(**{**em.PRESETS["smoke"], **em.PRESETS["paper"], **few}))
    metrics: dict[str, float] = {}
    while not fit.done:
        metrics |= fit.step()
    assert {"balance_loss", "discretizer_loss", "m_loss"} <= set(
        metrics
    )  # and no likelihood of sleep
    assert "sleep_loss" not in metrics
    assert all(np.isfinite(v) for v in metrics.values())


def test_the_preset_diverse_differs_from_full_in_what_makes_sentences_diverse(
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    program, em = (
        registry.load("models", "dsprites"),
        registry.load("inference", "gflownet_em_sampled"),
    )
    configs = {"model": program.Config, "inference": em.Config}
    presets = {"model": program.PRESETS, "inference": em.PRESETS}
    phases = (
        "pretrain",
        "pretrain_turned",
        "warm_up",
        "warm_up_turned",
        "token_updates",
        "final_e_updates",
    )
    few = dict.fromkeys(phases, 2) | {"token_trials": 1}
    full, diverse = (resolve(configs, presets, name, few) for name in ("full", "diverse"))
    before, after = (
        {k: v for part in found.values() for k, v in to_table(part).items()}
        for found in (full, diverse)
    )
    changed = {key for key, value in before.items() if after[key] != value}
    assert changed == {"reward_exponent", "forward_sees", "walk", "first", "noise", "walk_law"}
    config = replace(diverse["model"], side=16, units=32, auxiliary_units=32, fourier_features=32)
    data = program.load_data(config)
    fit = em.build(program.build(config, data), data, replace(diverse["inference"], batch=32))
    losses = []
    while not fit.done:
        metrics = fit.step()
        assert all(np.isfinite(v) for v in metrics.values())
        losses += [metrics["sleep_loss"]] if "sleep_loss" in metrics else []
    assert len(losses) == 2


def test_a_posterior_over_sentences_that_nobody_lists_is_refused(tmp_path: Path) -> None:
    em = registry.load("inference", "gflownet_em_sampled")
    data, built = small(
        "dsprites", tmp_path, groups=(1,) * 32, max_length=7, decodability="posterior"
    )
    with pytest.raises(
        ValueError, match=r"sums over all sentences, and 4,514,872 .*: choose 'none' or 'density'"
    ):
        em.build(built, data, em.Config(**em.PRESETS["smoke"]))


@pytest.mark.parametrize("inference", ["exact_em", "gflownet_em"])
def test_programs_that_list_sentences_say_which_one_does_not(
    inference: str, tmp_path: Path
) -> None:
    program = registry.load("inference", inference)
    data, built = small("dsprites", tmp_path, groups=(1,) * 32, max_length=7)
    with pytest.raises(
        ValueError, match=r"4,514,872 are more than 100,000: take --inference gflownet_em_sampled"
    ):
        program.build(built, data, program.Config(**program.PRESETS["smoke"]))


LEARNED = {  # parts of models that training changes
    "vqvae": {"encoder", "decoder", "continuous_decoder", "codes"},
    "emergent_communication": {"sender", "receiver"},
    "grammar_gflownet": {"builder"},
}


@pytest.mark.parametrize(
    ("model", "inference"),
    [(model, name) for models, names in KINDS[1:] for model in models for name in names],
)
def test_a_comparison_model_trains(model: str, inference: str, tmp_path: Path) -> None:
    others = [
        {"data": animals(tmp_path / "animals.csv"), "labels": ("family",)},
        {"data": "dsprites", "side": 16},
    ]
    grammar = model.endswith("grammar")  # its words are those of one data set
    for overrides in ({}, *others[: 0 if grammar else 2]):
        torch.manual_seed(0)
        data, built = small(model, tmp_path, **overrides)
        before = {k: v.clone() for k, v in built.state_dict().items()}
        program = registry.load("inference", inference)
        fit = program.build(built, data, program.Config(**program.PRESETS["smoke"]))
        while not fit.done:
            assert all(np.isfinite(v) for v in fit.step().values())
        moved = {
            k.split(".")[0] for k, v in built.state_dict().items() if not torch.equal(v, before[k])
        }
        assert moved == LEARNED.get(inference, set())
        assert fit.summary()["tokens_in_use"] >= 1


def test_every_model_and_inference_of_the_shelf_is_trained_here() -> None:
    assert {model for models, _ in KINDS for model in models} == set(registry.names("models"))
    assert {name for _, names in KINDS for name in names} == set(registry.names("inference"))
    for models, names in KINDS[1:]:
        assert {registry.load("models", model).INFERENCE for model in models} <= set(names)


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_pairs_that_cannot_go_together_are_refused_in_a_sentence(kind: int, tmp_path: Path) -> None:
    """Every model is refused by the inference programs of all other kinds."""
    models, _ = KINDS[kind]
    others = [name for k, (_, names) in enumerate(KINDS) for name in names if k != kind]
    for model in models:
        data, built = small(model, tmp_path)
        for inference in others:
            program = registry.load("inference", inference)
            with pytest.raises(
                ValueError, match=r"this inference program fits .*: leave --inference out"
            ):
                program.build(built, data, program.Config(**program.PRESETS["smoke"]))


def test_exact_em_raises_the_evidence_of_its_sentences(tmp_path: Path) -> None:
    """log Σ_s R(s; x), what the sentences together tell about an input, grows by nats within a
    hundred updates.
    """
    torch.manual_seed(0)
    data, model = small("hbv", tmp_path)
    program = registry.load("inference", "exact_em")
    fit = program.build(model, data, program.Config(pretrain=200, m_updates=200, batch=64))
    values = []
    while not fit.done:
        if fit.position in (200, 399):
            values.append(fit.summary()["log_z"])
        fit.step()
    assert values[1] > values[0] + 1


def test_the_time_and_input_dependent_variant_sees_both(tmp_path: Path) -> None:
    _, model = small("time_and_input_dependent", tmp_path)
    _, plain = small("hbv", tmp_path)
    z, c = torch.zeros(1, 8), torch.zeros(1, 8)
    for m, differs in ((model, True), (plain, False)):
        f = m.forward_dynamics
        assert (f(z, 3.0, c).loc != f(z, 7.0, c).loc).any().item() is differs
        assert (f(z, 3.0, c).loc != f(z, 3.0, c + 1).loc).any().item() is differs


def test_the_length_prior_prefers_short_sentences(tmp_path: Path) -> None:
    _, model = small("length_prior", tmp_path)
    s = model.sentences
    log_p = model.language.log_prior(s)
    assert torch.isclose(log_p.exp().sum(), torch.tensor(1.0))
    shortest, longest = s.sum(-1).min(), s.sum(-1).max()
    cost = (log_p[s.sum(-1) == shortest][0] - log_p[s.sum(-1) == longest][0]) / (longest - shortest)
    assert torch.isclose(cost, torch.tensor(0.5))


def test_a_table_sizes_its_language_to_its_distinct_rows(tmp_path: Path) -> None:
    program = registry.load("models", "table")
    for rows, pairs in ((6, 3), (14, 4)):
        config = program.Config(
            data=animals(tmp_path / f"{rows}.csv", rows), labels=("family",), units=16
        )
        data = program.load_data(config)
        assert len(torch.unique(torch.as_tensor(data.x), dim=0)) <= 2**pairs
        assert program.build(config, data).language.groups == (2,) * pairs


def test_a_table_with_fewer_rows_than_a_batch_is_refused_in_a_sentence(tmp_path: Path) -> None:
    data, model = small("table", tmp_path)
    program = registry.load("inference", "gflownet_em")
    with pytest.raises(ValueError, match="40 training rows"):
        program.build(model, data, program.Config(batch=64))


def test_a_decoder_of_images_starts_with_their_mean(tmp_path: Path) -> None:
    data, model = small("images", tmp_path)
    assert isinstance(data, ImageSet)
    start = model.decoder(torch.zeros(1, model.latent)).loc.mean()
    assert torch.isclose(start, data.images.float().mean() / 255, atol=0.05)


@pytest.mark.parametrize("model", ["vqvae", "emergent_communication"])
def test_baselines_learn_images_of_ones_own(model: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    program, em = registry.load("models", model), registry.load("inference", model)
    settings = {
        **program.PRESETS["smoke"],
        "data": "images",
        "images": faces(tmp_path / "faces.npy"),
        "side": 16,
    }
    data = program.load_data(program.Config(**settings))
    built = program.build(program.Config(**settings), data)
    fit = em.build(built, data, em.Config(**em.PRESETS["smoke"]))
    while not fit.done:
        assert all(np.isfinite(v) for v in fit.step().values())
    assert built.describe(data.batch(5).x).s.shape == (5, 1, 32)
    with pytest.raises(ValueError, match="--set images="):
        program.load_data(program.Config(data="images"))


def test_no_rule_recognises_images_of_ones_own(tmp_path: Path) -> None:
    program = registry.load("models", "fully_compositional")
    config = program.Config(data="images", images=faces(tmp_path / "faces.npy"), side=16)
    with pytest.raises(ValueError, match="leave this model out"):
        program.build(config, program.load_data(config))


def test_no_images_is_a_sentence() -> None:
    program = registry.load("models", "images")
    with pytest.raises(ValueError, match="--set images="):
        program.load_data(program.Config())


def test_no_table_is_a_sentence() -> None:
    program = registry.load("models", "table")
    with pytest.raises(ValueError, match="--set data="):
        program.load_data(program.Config())


OPTIONS: tuple[dict[str, object], ...] = (
    {"ordered": True},
    {"z0": "sample"},
    {"context": "x"},
    {"first_backward_step": "learned"},
    {"decodability": "posterior"},
    {"decodability": "density"},
    {"canonical": False},
    {"discretizer_sees_input": True, "sentence_readout": "discretizer"},
    {"forward_sees": ("time",)},
    {"fourier_axes": True, "discretizer_features": 8},
    {"min_length": 0, "fourier_features": 0, "start": False, "reward_floor": -50.0},
)
ROADS: tuple[dict[str, object], ...] = (
    {"sleep_kernel": "backward_dynamics", "sleep_sentences": "prior", "sleep_full_length": True},
    {
        "sleep_sentences": "met",
        "substrings": True,
        "balance": "sub_trajectory",
        "robust": "squared",
        "mala_steps": 2,
    },
)


@pytest.mark.parametrize("inference", INFERENCE[1:])
@pytest.mark.parametrize("option", OPTIONS, ids=lambda o: "-".join(o))
def test_every_option_of_the_model_trains_on_every_road(
    option: dict[str, object], inference: str, tmp_path: Path
) -> None:
    program = registry.load("inference", inference)
    updates = dict.fromkeys(("pretrain", "warm_up", "e_updates", "m_updates", "final_e_updates"), 2)
    few = {**program.PRESETS["smoke"], **updates}
    for road in ROADS:
        torch.manual_seed(0)
        data, model = small("hbv", tmp_path, **option)
        if inference == "gflownet_em_sampled" and "first_backward_step" in option:
            with pytest.raises(ValueError, match="leave first_backward_step at 'fixed'"):
                program.build(model, data, program.Config(**few))
            continue
        if inference == "gflownet_em_sampled" and "decodability" in option:
            road = {**road, "flow_sentences": "sampled"}
        fit = program.build(model, data, program.Config(**{**few, **road}))
        while not fit.done:
            assert all(np.isfinite(v) for v in fit.step().values())
