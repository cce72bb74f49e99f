"""Transitions a second of the E-step, and what the Pyro layer costs over the same arithmetic
without it: python benchmarks/transitions.py [REPEATS]

One thread, default sizes of `models/hbv.py` and `inference/gflownet_em.py`, validation off as in
training. Every pair is measured in turns in one run and by processor time, so that other work on
the machine touches both alike; the table holds medians.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from shared import header, row
from torch import Tensor

from plot_attractors.gflownet import DetailedBalance, Trajectories, exploring, simulate
from plot_attractors.runs import registry


@dataclass(frozen=True)
class DirectBalance(DetailedBalance):
    """Detailed balance whose scores call the dynamics themselves: no program, trace or handler."""

    model: Any = None

    def scores(self, trajectories: Trajectories) -> tuple[Tensor, Tensor]:
        (z, context), t = trajectories, trajectories.times
        log_pf = self.model.forward_dynamics(z[:-1], t[:-1], context).log_prob(z[1:]).sum(-1)
        log_pb = self.model.backward_dynamics(z[2:], t[2:], context).log_prob(z[1:-1]).sum(-1)
        return log_pf, torch.cat([torch.zeros_like(z[:1, :, 0]), log_pb])


def in_turns(repeats: int, *runs: Callable[[], object]) -> list[list[float]]:
    """Processor seconds of every call, the runs in turns, reversed every other time."""
    for run in runs:
        run()
    seconds: list[list[float]] = [[] for _ in runs]
    for k in range(repeats):
        for i in sorted(range(len(runs)), reverse=bool(k % 2)):
            start = time.process_time()
            runs[i]()
            seconds[i].append(time.process_time() - start)
    return seconds


def report(what: str, count: int, pyro_: list[float], direct: list[float] | None = None) -> None:
    """A row: medians, transitions a second, and the median ratio of a pair."""
    seconds, others = statistics.median(pyro_), ("", "")
    if direct:
        overhead = statistics.median(x / y for x, y in zip(pyro_, direct, strict=True)) - 1
        others = f"{1e3 * statistics.median(direct):.2f}", f"{overhead:+.1%}"
    row(what, f"{1e3 * seconds:.2f}", others[0], f"{count / seconds:,.0f}", others[1])


def main(repeats: int = 60) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pyro.enable_validation(False)
    hbv, program = registry.load("models", "hbv"), registry.load("inference", "gflownet_em")
    config = hbv.Config()
    # every update a wake update with balance: on-policy trajectories, as many of sleep and buffer
    settings = program.Config(sleep_weight=0.0, balance_weight=0.02)
    data = hbv.load_data(config)
    model = hbv.build(config, data)
    inference = program.build(model, data, settings)
    names = [phase.name for phase in inference.schedule]
    before = inference.schedule[: names.index("e_step")]
    inference.position = sum(phase.updates for phase in before)
    inference.begin(inference.phase)
    inference.position += 1  # past the refresh of the buffer, which is measured by itself

    layered = inference.balance
    steps, robust = (layered.forward_step, layered.backward_step), (layered.loss, layered.delta)
    direct = DirectBalance(*steps, *robust, model=model)
    trajectories = inference.sleep(settings.trajectories)[-1]
    pairs = zip(layered.scores(trajectories), direct.scores(trajectories), strict=True)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in pairs), "both score the same"

    def score(balance: DetailedBalance) -> Callable[[], None]:
        def run() -> None:
            log_pf, log_pb = balance.scores(trajectories)
            (log_pf - log_pb).mean().backward()

        return run

    def update(balance: DetailedBalance) -> Callable[[], None]:
        def run() -> None:
            inference.balance = balance
            inference.e_step()

        return run

    def simulation(step: Callable[..., Tensor]) -> Callable[[], object]:
        z0, context = trajectories.z[0], trajectories.context
        return lambda: simulate(step, z0, model.steps, context)

    def direct_step(z: Tensor, t: Any, context: Tensor) -> Tensor:
        return model.forward_dynamics(z, t, context).sample()

    exploring_step = exploring(
        model.forward_dynamics, settings.alpha_dyn, model.forward_dynamics.max_step
    )
    sleep_only = program.build(model, data, program.Config(wake_every=10**9))
    sleep_only.position = inference.position
    few, count = max(1, repeats // 10), settings.trajectories * model.steps
    scored = settings.sleep_trajectories * (settings.walk + settings.waits) + settings.prior_states

    print(f"{count:,} transitions a batch, {len(model.sentences)} sentences, one thread")
    header("what", "Pyro ms", "direct ms", "transitions/s", "overhead")
    scoring = in_turns(repeats, score(layered), score(direct))
    report("scores of both dynamics, with gradients", count, *scoring)
    updates = in_turns(repeats, update(layered), update(direct))
    simulations = in_turns(repeats, simulation(model.forward_step), simulation(direct_step))
    report("simulation forwards", count, *simulations)
    report("one wake update with balance", 2 * count, *updates)
    explored = in_turns(max(1, repeats // 4), simulation(exploring_step))
    report("simulation with exploration", count, *explored)
    slept = in_turns(repeats, sleep_only.e_step)
    (refreshed,) = in_turns(few, lambda: inference.populate(settings.fresh))
    share = statistics.median(refreshed) / settings.refresh
    both = [seconds + share for seconds in updates[0]]
    report("a wake update with its share of the refresh", 2 * count, both)
    report("one sleep update, transitions scored", scored, *slept)


if __name__ == "__main__":
    main(*(int(n) for n in sys.argv[1:]))
