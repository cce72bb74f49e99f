"""What tests of Pyro programs begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pyro
import pytest
import torch


@pytest.fixture
def fresh() -> Iterator[None]:
    """No parameters in the store, seed 0, everything checked."""
    pyro.clear_param_store()
    torch.manual_seed(0)
    checks = ("validate_poutine", "validate_infer", "validate_distributions_pyro")
    with pyro.settings.context(module_local_params=False, **dict.fromkeys(checks, True)):
        yield
    pyro.clear_param_store()
