"""Transitions a second of the E-step, and what the Pyro layer costs over the same arithmetic
without it.

One thread, default sizes of `models/hbv.py` and of both inference programs, validation off as
in training. Every pair is measured in turns in one run and by processor time, so that other work on
the machine touches both alike; the table holds medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from shared import arguments, begin, header, parser, row
from torch import Tensor

from plot_attractors.gflownet import Trajectories, exploring, simulate
from plot_attractors.gflownet.trajectories import score_backward, score_forward
from plot_attractors.runs import registry

REPEATS = 60
SMALL = {"REPEATS": 1}
Scores = Callable[[Trajectories], tuple[Tensor, Tensor]]


def in_turns(*runs: Callable[[], object]) -> list[list[float]]:
    """Processor seconds of every call, the runs in turns, reversed every other time."""
    for run in runs:
        run()
    seconds: list[list[float]] = [[] for _ in runs]
    for k in range(REPEATS):
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


def main() -> None:
    arguments(globals(), parser(__doc__))
    begin()
    torch.manual_seed(0)
    hbv = registry.load("models", "hbv")
    paper, taught = (
        registry.load("inference", n) for n in ("detailed_balance_em", "wake_sleep_em")
    )
    config = hbv.Config()
    data = hbv.load_data(config)
    model = hbv.build(config, data)
    no_m_steps = {"pretrain": 0, "cycles": 0}
    c = paper.Config(e_updates=10**9, **no_m_steps)
    e_step = paper.build(model, data, c)
    sleep = taught.build(model, data, taught.Config(warm_up=0, final_e_updates=10**9, **no_m_steps))
    e_step.step()  # fills the buffer
    sleep.step()

    def layered(of: Trajectories) -> tuple[Tensor, Tensor]:
        return score_forward(model.forward_step, of), score_backward(model.backward_step, of)

    def direct(of: Trajectories) -> tuple[Tensor, Tensor]:
        """The same by the dynamics themselves: no program, trace or handler."""
        (z, context), t = of, of.times
        log_pf = model.forward_dynamics(z[:-1], t[:-1], context).log_prob(z[1:]).sum(-1)
        log_pb = model.backward_dynamics(z[2:], t[2:], context).log_prob(z[1:-1]).sum(-1)
        return log_pf, torch.cat([torch.zeros_like(z[:1, :, 0]), log_pb])

    z0 = model.encode(data.batch(c.batch).x).z0
    trajectories = simulate(model.forward_step, z0, model.steps, z0)
    pairs = zip(layered(trajectories), direct(trajectories), strict=True)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in pairs), "both score the same"

    def score(scores: Scores) -> Callable[[], None]:
        def run() -> None:
            log_pf, log_pb = scores(trajectories)
            (log_pf - log_pb).mean().backward()

        return run

    def simulation(step: Callable[..., Tensor]) -> Callable[[], object]:
        return lambda: simulate(step, z0, model.steps, z0)

    def direct_step(z: Tensor, t: Any, context: Tensor) -> Tensor:
        return model.forward_dynamics(z, t, context).sample()

    max_step, count = model.forward_dynamics.max_step, c.batch * model.steps
    explores = exploring(model.forward_dynamics, c.alpha_dyn, max_step, c.within)
    print(f"{count:,} transitions a batch, {len(model.sentences)} sentences\n")
    header("what", "Pyro ms", "direct ms", "transitions/s", "overhead")
    scoring = in_turns(score(layered), score(direct))
    report("scores of both dynamics, with gradients", count, *scoring)
    simulations = in_turns(simulation(model.forward_step), simulation(direct_step))
    report("simulation forwards", count, *simulations)
    report("simulation with exploration", count, *in_turns(simulation(explores)))
    report("an E-update by detailed balance", count, *in_turns(e_step.step))
    report("an E-update by wake-sleep", 32 * 12 + 256 + 192, *in_turns(sleep.step))


if __name__ == "__main__":
    main()
