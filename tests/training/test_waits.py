"""No update of an E-step or an M-step waits for a device: no number of it is read."""

from __future__ import annotations

from typing import Any

import pyro
import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from plot_attractors.training import At

from ..attractors import HBV, schedule, with_data

READS = ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique")


class Reads(TorchDispatchMode):
    """Counts, on a CPU, what a GPU would be waited for."""

    count = 0

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.name().startswith(READS)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["pretrain", "warm_up", "e_step", "m_step", "policy"])
def test_no_number_of_an_update_is_read(name: str) -> None:
    fit = schedule("gflownet_em", *with_data(HBV), {})
    phase = next(phase for phase in fit.schedule if phase.name == name)
    if phase.begin is not None:
        phase.begin()
    with pyro.validation_enabled(False):
        phase.update(At(0, 0.0))  # programs are tried
        with Reads() as reads:
            phase.update(At(48, 0.1))
    assert reads.count == 0
