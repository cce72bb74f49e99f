"""No operation of an update waits for a device.

A dispatch mode counts on the CPU what a GPU would be waited for: numbers that are read, and shapes
that depend on values.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyro
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from plot_attractors.runs.run import plan
from plot_attractors.training import At, Schedule

WAITS = (
    "_local_scalar_dense",
    "nonzero",
    "masked_select",
    "unique",
    "_unique",
    "repeat_interleave",
)
# a number drawn on the CPU, how far forward trajectories go; which distractors are alike
ALLOWED = {"e_step": {"_local_scalar_dense": 1}, "gumbel_softmax": {"unique_dim": 1}}


class Dispatched(TorchDispatchMode):
    """Counts operations that wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = Counter[str]()

    def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::")
        by_mask = name.startswith("index") and any(
            index is not None and index.dtype == torch.bool
            for index in (args[1] if isinstance(args[1], list | tuple) else ())
        )
        if by_mask or name.startswith(WAITS):
            self.waits[name] += 1
        return func(*args, **(kwargs or {}))


def trainer(model: str, inference: str, data: str) -> Schedule:
    """As `fit` makes it."""
    torch.manual_seed(0)
    planned = plan(model, inference, "full", 0, None, {}, data=data)
    of, configs = planned.programs, planned.configs
    loaded = of.data.load(configs["data"])
    built = of.model.build(configs["model"], loaded)
    schedule: Schedule = of.inference.build(built, loaded, configs["inference"])
    return schedule


PHASES = {
    ("attractor", "gflownet_em", "hbv"): ("pretrain", "warm_up", "e_step", "m_step", "policy"),
    ("attractor", "gflownet_em", "dsprites"): ("warm_up",),  # annealed sentences
    ("attractor", "exact_em", "hbv"): ("pretrain", "warm_up"),
    ("algorithms", "detailed_balance_em", "hbv"): ("e_step", "m_step"),
    ("vqvae", "vqvae", "hbv"): ("train",),
    ("emergent_communication", "emergent_communication", "hbv"): ("gumbel_softmax",),
}


@pytest.mark.parametrize("programs", PHASES)
@pytest.mark.filterwarnings("ignore")
def test_updates_do_not_wait(programs: tuple[str, str, str]) -> None:
    schedule = trainer(*programs)
    phases = {phase.name: phase for phase in schedule.schedule}  # the last of each name
    for name in PHASES[programs]:
        phase = phases[name]
        if phase.begin is not None:
            phase.begin()
        with pyro.validation_enabled(False):
            phase.update(At(0, 0.0, False))  # may prepare
            for k in range(1, 5):
                with Dispatched() as dispatched:
                    metrics = phase.update(At(k, k / phase.updates, False))
                left = dispatched.waits - Counter(ALLOWED.get(name, {}))
                assert not left, (name, k, left)
        assert all(isinstance(metrics[name], torch.Tensor) for name in metrics if "loss" in name)


def test_what_waits_is_counted() -> None:
    x = torch.arange(4.0)
    with Dispatched() as dispatched:
        float(x.sum())
        x[x > 1]
        x.nonzero()
        x.unique()
        x[:2] + x[torch.tensor([1, 2])]
    assert sorted(dispatched.waits.elements()) == [
        "_local_scalar_dense", "_unique2", "index.Tensor", "nonzero"
    ]  # fmt: skip
