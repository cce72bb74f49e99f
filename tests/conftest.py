"""Settings of all tests: Pyro's checks on, one thread, a fixed random state before each."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["PLOT_ATTRACTORS_VALIDATE"] = "1"  # Pyro's checks stay on inside of trainings, too

import pyro
import torch

torch.set_num_threads(1)

# Tests that -m "not slow" leaves out: beginnings of their names as pytest -v shows them, so a
# folder, a file, FILE::test or FILE::test[parameters] each.
SLOW: tuple[str, ...] = ()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _validated_and_seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with pyro.validation_enabled(True):
        yield
