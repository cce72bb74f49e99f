"""Transitions a second of the E-step, and what the Pyro layer costs over the same arithmetic
without it.

    python benchmarks/transitions.py

One thread, default sizes of `models/hbv.py` and `inference/gflownet_em.py`, validation off as in
training. Every pair is measured in turns in one run and by processor time, so that other work on
the machine touches both alike; the table holds medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyro
import torch
from torch import Tensor

from plot_attractors.gflownet import DetailedBalance, Trajectories, exploring, simulate
from plot_attractors.runs import registry


@dataclass(frozen=True)
class DirectBalance(DetailedBalance):
    """Detailed balance whose scores call the dynamics themselves: no program, no trace, no
    handler.
    """

    model: Any = None

    def scores(self, trajectories: Trajectories) -> tuple[Tensor, Tensor]:
        (z, context), t = trajectories, trajectories.times
        log_pf = self.model.forward_dynamics(z[:-1], t[:-1], context).log_prob(z[1:]).sum(-1)
        log_pb = self.model.backward_dynamics(z[2:], t[2:], context).log_prob(z[1:-1]).sum(-1)
        return log_pf, torch.cat([torch.zeros_like(z[:1, :, 0]), log_pb])


def in_turns(repeats: int, *runs: Callable[[], object]) -> list[list[float]]:
    """Processor seconds of every call, the runs taking turns, the order reversed every
    other time.
    """
    for run in runs:
        run()
    seconds: list[list[float]] = [[] for _ in runs]
    for k in range(repeats):
        order = range(len(runs)) if k % 2 == 0 else reversed(range(len(runs)))
        for i in order:
            start = time.process_time()
            runs[i]()
            seconds[i].append(time.process_time() - start)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=60, help="measurements of everything (60)")
    parser.add_argument("--csv", type=Path, help="write the table to this file, too")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    pyro.enable_validation(False)
    hbv, program = registry.load("models", "hbv"), registry.load("inference", "gflownet_em")
    config = hbv.Config()
    # every update a wake update with detailed balance: on-policy trajectories, and as many of sleep
    # and the buffer
    settings = program.Config(sleep_weight=0.0, balance_weight=0.02)
    data = hbv.load_data(config)
    model = hbv.build(config, data)
    inference = program.build(model, data, settings)
    inference.position = next(
        sum(p.updates for p in inference.schedule[:i])
        for i, p in enumerate(inference.schedule)
        if p.name == "e_step"
    )
    inference.begin(inference.phase)
    inference.position += (
        1  # inside of the phase, and at no refresh of the buffer, which is measured by itself
    )

    layered = inference.balance
    direct = DirectBalance(
        layered.forward_step, layered.backward_step, layered.loss, layered.delta, model=model
    )
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

    sleep_only = program.build(model, data, program.Config(wake_every=10**9))
    sleep_only.position = inference.position
    count = settings.trajectories * model.steps
    scoring = in_turns(arguments.repeats, score(layered), score(direct))
    updates = in_turns(arguments.repeats, update(layered), update(direct))
    steps = in_turns(arguments.repeats, simulation(model.forward_step), simulation(direct_step))
    exploring_step = exploring(
        model.forward_dynamics, settings.alpha_dyn, model.forward_dynamics.max_step
    )
    (exploration,) = in_turns(max(1, arguments.repeats // 4), simulation(exploring_step))
    (sleep,) = in_turns(arguments.repeats, sleep_only.e_step)
    (refresh,) = in_turns(
        max(1, arguments.repeats // 10), lambda: inference.populate(settings.fresh)
    )

    rows: list[tuple[str, ...]] = [("what", "Pyro ms", "direct ms", "transitions/s", "overhead")]

    def row(
        what: str, seconds: float, direct: str = "", overhead: str = "", count: int = count
    ) -> tuple[str, ...]:
        return what, f"{1e3 * seconds:.2f}", direct, f"{count / seconds:,.0f}", overhead

    for what, (a, b) in {
        "scores of both dynamics, with gradients": scoring,
        "simulation forwards": steps,
        "one wake update with balance": updates,
    }.items():
        overhead = statistics.median(x / y for x, y in zip(a, b, strict=True)) - 1
        n = count * (1 + (b is updates[1]))
        rows.append(
            row(
                what,
                statistics.median(a),
                f"{1e3 * statistics.median(b):.2f}",
                f"{overhead:+.1%}",
                n,
            )
        )
    rows.append(row("simulation with exploration", statistics.median(exploration)))
    share = statistics.median(refresh) / settings.refresh
    rows.append(
        row(
            "the same with its share of the refresh",
            statistics.median(updates[0]) + share,
            count=2 * count,
        )
    )
    scored = settings.sleep_trajectories * (settings.walk + settings.waits) + settings.prior_states
    rows.append(row("one sleep update, transitions scored", statistics.median(sleep), count=scored))
    for cells in rows:
        print("{:46} {:>9} {:>10} {:>14} {:>9}".format(*cells))
    print(
        f"\n{settings.trajectories} trajectories of {model.steps} steps, {len(model.sentences)} "
        f"sentences, one thread"
    )
    if arguments.csv:
        lines = [",".join(cell.replace(",", "") for cell in cells) for cells in rows]
        arguments.csv.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
