"""The loss of the E-step of several seeds at once, its networks stacked along a leading dimension.

An update of the forward dynamics of `fit hbv` by a large part of it, the likelihood of walks, by
`torch.func.vmap` over seeds, beside that of one seed. One thread, processor time, in turns in one
run; the table holds medians and the ratio, which stacking is to make less than the number of seeds.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from shared import arguments, begin, header, parser, row, schedule
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from plot_attractors.gflownet import Trajectories
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.training.walk import sleep_loss

SEEDS, REPEATS = (1, 2, 5), 40
SMALL = {"SEEDS": (1, 2), "REPEATS": 1}
NO_PHASE_BEFORE = {"pretrain": 0, "warm_up": 0, "policy_updates": 0, "cycles": 0}


class Loss(nn.Module):
    """The sleep loss of a model, as a module, so that its parameters can be stacked."""

    def __init__(self, model: AttractorModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, z: Tensor, z0: Tensor) -> Tensor:
        return sleep_loss(self.model, Trajectories(z.transpose(0, 1), z0))


def update(losses: list[Loss], rows: list[list[Tensor]]) -> Callable[[], None]:
    """An update of the forward dynamics, of all these seeds in one call."""
    if len(losses) == 1:
        (loss,), (of,) = losses, rows
        optimizer = torch.optim.Adam(loss.model.theta, fused=True)
        total = lambda: loss(*of)  # noqa: E731
    else:
        base = copy.deepcopy(losses[0])
        stacked, buffers = stack_module_state(losses)
        parameters = {k: v.detach() for k, v in stacked.items()}
        of_theta = [v.requires_grad_() for k, v in parameters.items() if "forward_dynamics" in k]
        optimizer = torch.optim.Adam(of_theta, fused=True)
        of = [torch.stack(column) for column in zip(*rows, strict=True)]

        def one(p: Any, b: Any, *arguments: Tensor) -> Any:
            return functional_call(base, (p, b), arguments)

        each = vmap(one, randomness="different")
        total = lambda: each(parameters, buffers, *of).sum()  # noqa: E731

    def step() -> None:
        optimizer.zero_grad()
        total().backward()
        optimizer.step()

    return step


def main() -> None:
    arguments(globals(), parser(__doc__))
    begin()
    torch.distributions.Distribution.set_default_validate_args(False)  # vmap cannot ask a value
    fits = [schedule("hbv", "gflownet_em", NO_PHASE_BEFORE) for _ in range(max(SEEDS))]
    rows = []
    for fit in fits:
        fit.step()
        drawn = fit.state["walks"].draw(96)
        rows.append([drawn[name] for name in ("z", "z0")])
    losses = [Loss(fit.model) for fit in fits]
    steps = {n: update(losses[:n], rows[:n]) for n in SEEDS}
    times: dict[int, list[float]] = {n: [] for n in SEEDS}
    for repeat in range(-2, REPEATS):
        for n, step in steps.items():
            start = time.process_time()
            step()
            if repeat >= 0:
                times[n].append(1e3 * (time.process_time() - start))
    header("seeds", "ms", "ratio")
    for n, of in times.items():
        ratio = statistics.median(x / y for x, y in zip(of, times[SEEDS[0]], strict=True))
        row(n, f"{statistics.median(of):.1f}", f"{ratio:.2f}")


if __name__ == "__main__":
    main()
