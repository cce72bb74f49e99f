"""Settings of all tests: Pyro's checks on and its store empty, one thread, a fixed random state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["PLOT_ATTRACTORS_VALIDATE"] = "1"  # Pyro's checks stay on inside of trainings, too

import pyro
import torch

torch.set_num_threads(1)

# Tests that -m "not slow" leaves out: beginnings of their names as pytest -v shows them, so a
# folder, a file, FILE::test or FILE::test[parameters] each.
SLOW: tuple[str, ...] = (
    "tests/analyses/",
    "tests/examples/",
    "tests/models/",
    "tests/baselines/test_hard_coded.py::test_sprites_are_recognised_and_spelled_out",
    "tests/docs/test_how_to.py::test_balance",
    "tests/docs/test_how_to.py::test_calibration",
    "tests/docs/test_how_to.py::test_a_diffusion_sampler",
    "tests/docs/test_how_to.py::test_losses_of_pyro",
    "tests/analysis/test_arviz.py::test_the_",
    "tests/test_layers.py::",
    "tests/analysis/test_sampling.py::test_draws_follow_the_listed_posterior",
    "tests/gflownet/test_gallery.py::",
    "tests/gflownet/test_off_policy.py::test_local_search",
    "tests/gflownet/test_trajectory_balance.py::test_gaussian_with_every_kind_of_guide",
    "tests/gflownet/test_trajectory_balance.py::test_batch_plate_learns",
    "tests/gflownet/test_trajectory_balance.py::test_torch_optimizer",
    "tests/inference/test_exact_em.py::test_it_raises_the_evidence",
    "tests/inference/test_detailed_balance_em.py::test_a_resumed_schedule",
    "tests/inference/test_gflownet_em.py::test_a_resumed_schedule",
    "tests/inference/test_gflownet_em.py::test_it_trains_where_nothing_can_be_listed",
    "tests/inference/test_wake_sleep_em.py::test_a_resumed_schedule",
    "tests/language_of_thought/test_model.py::test_kinds_of_sprites",
    "tests/language_of_thought/test_model.py::test_trajectory_balance_finds",
    "tests/model/test_attractor.py::test_pyro_and_trajectory_balance",
    "tests/paper/",
    "tests/report/test_export.py::",
    "tests/report/test_viewer.py::",
    "tests/language_of_thought/test_table_grammar.py::test_shares_of_sentences",
    "tests/language/test_moves.py::test_steps_lead",
    "tests/model/test_parts.py::test_a_recurrent_sentence_encoder_trains",
    "tests/model/test_parts.py::test_a_run_opens_without",
    "tests/runs/test_analyze.py::test_what_does_not_apply",
    "tests/runs/test_damage.py::test_a_flipped_byte",
    "tests/runs/test_pretrained.py::",
    "tests/test_cli.py::test_a_program_that_ends",
    "tests/test_cli.py::test_an_analysis_whose",
    "tests/runs/test_analyze.py::test_an_analysis_that_fails",
    "tests/runs/test_jobs.py::test_a_failed_run",
    "tests/runs/test_jobs.py::test_ctrl_c",
    "tests/runs/test_jobs.py::test_slurm_gets",
    "tests/runs/test_run.py::test_a_kill_while",
    "tests/test_cli.py::test_analyze_tells",
    "tests/test_cli.py::test_ctrl_c",
    "tests/training/test_phases.py::test_an_inverse_temperature",
    "tests/training/test_sentences.py::test_draws_follow",
    "tests/training/test_sentences.py::test_the_policy_comes",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A small run, and its export (`tests.exported`)."""
    from tests import exported

    return exported.make(tmp_path_factory.mktemp("exported"))


@pytest.fixture(autouse=True)
def _validated_and_seeded() -> Iterator[None]:
    torch.manual_seed(0)
    pyro.clear_param_store()
    with pyro.validation_enabled(True), pyro.settings.context(module_local_params=False):
        yield
