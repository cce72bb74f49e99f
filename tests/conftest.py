"""Settings of all tests: Pyro's checks on and its store empty, one thread, a fixed random state."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["PLOT_ATTRACTORS_VALIDATE"] = "1"  # Pyro's checks stay on inside of trainings, too

import pyro
import torch

torch.set_num_threads(1)
# A shell gives jobs in the background SIGINT ignored, which children would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that -m "not slow" leaves out: beginnings of their names as pytest -v shows them, so a
# folder, a file, FILE::test or FILE::test[parameters] each.
SLOW: tuple[str, ...] = (
    "tests/analyses/",
    "tests/analysis/test_arviz.py::test_the_",
    "tests/analysis/test_ask.py::test_an_input_with",
    "tests/analysis/test_probes.py::test_two_decoders_of_a_run_are_unlike_and_trained_once",
    "tests/analysis/test_sampling.py::test_draws_follow_the_listed_posterior",
    "tests/baselines/test_hard_coded.py::test_sprites_are_recognised_and_spelled_out",
    "tests/data/test_dsprites.py::test_contract",
    "tests/data/test_dsprites.py::test_coverage_is_the_covered_part_of_a_pixel",
    "tests/docs/test_how_to.py::test_a_diffusion_sampler",
    "tests/docs/test_how_to.py::test_balance",
    "tests/docs/test_how_to.py::test_calibration",
    "tests/docs/test_how_to.py::test_blocks_print_what_the_page_shows[trajectory",
    "tests/examples/",
    "tests/gflownet/test_flows.py::test_exponential_is_unbiased_and_logarithm_biased_downwards_the_less_the_larger_k",
    "tests/gflownet/test_trajectory_balance.py::test_a_learned_log_z_follows",
    "tests/gflownet/test_trajectory_balance.py::test_gaussian_with_every_kind_of_guide",
    "tests/inference/test_detailed_balance_em.py::test_each_step_trains",
    "tests/inference/test_gflownet_em.py::test_it_trains_where_nothing_can_be_listed",
    "tests/language/test_distributions.py::test_expands_and_does_not_depend_on_the_batch",
    "tests/language/test_distributions.py::test_samples_follow_log_prob",
    "tests/language_of_thought/test_mcmc.py::test_chains",
    "tests/language_of_thought/test_model.py::test_kinds_of_sprites",
    "tests/language_of_thought/test_policy.py::test_a_policy_learns",
    "tests/measures/test_calibration.py::test_controls",
    "tests/measures/test_information_loss.py::test_intervals_from_inputs_cover_and_those_from_draws_would_not",
    "tests/models/",
    "tests/paper/",
    "tests/report/test_export.py::",
    "tests/report/test_viewer.py::",
    "tests/runs/test_analyze.py::test_an_analysis_that_fails",
    "tests/runs/test_damage.py::test_every_flipped_byte_is_noticed",
    "tests/runs/test_sweep.py::test_a_failed_run",
    "tests/runs/test_pretrained.py::",
    "tests/runs/test_registry.py::test_a_name_and_a_path_find_the_same_file",
    "tests/test_cli.py::test_analyze_tells",
    "tests/test_cli.py::test_ctrl_c",
    "tests/test_layers.py::",
    "tests/training/test_phases.py::test_a_linear_encoder_begins_at_the_learned_tokens_and_leaves_their_axes",
    "tests/training/test_phases.py::test_an_inverse_temperature",
    "tests/training/test_sentences.py::test_draws_of_another_language",
    "tests/training/test_sentences.py::test_draws_follow_the_judges_posterior",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A small run of binary vectors, and its export as pretrained/tiny."""
    from plot_attractors.report.export import export
    from plot_attractors.runs import Run, fit
    from plot_attractors.runs.analyze import analyze
    from tests.small import SETTINGS

    folder = tmp_path_factory.mktemp("exported")
    path = fit("hbv", preset="smoke", out=folder / "run")
    settings = {
        "calibration": {"inputs": 2, "wide_inputs": 2, "wide_draws": 1},  # as many draws
        "information_loss": {"inputs": 100, "lines": 1, "line_draws": 1},
        "language_measures": SETTINGS["language_measures"],
    }
    results = analyze(path, settings, settings=settings)
    assert [result.error for result in results] == [None] * len(settings)
    return Run(path), export(Run(path), folder / "pretrained" / "tiny")


@pytest.fixture(autouse=True)
def _validated_and_seeded() -> Iterator[None]:
    torch.manual_seed(0)
    pyro.clear_param_store()
    with pyro.validation_enabled(True), pyro.settings.context(module_local_params=False):
        yield
