"""Where the time of a training goes.

A sampling profiler over updates of every phase of the default run of `fit hbv` and `fit dsprites`,
one thread, by processor time: milliseconds an update, shares of what they are spent on, and what
part of the machine's peak they reach. Floating-point operations are counted by PyTorch; the peak is
that of one product of square matrices of 1,024. `a run` is a real one, shortened, with its logging,
summaries and checkpoints.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import pandas as pd
import torch
from shared import arguments, begin, header, parser, row, schedule
from torch.utils.flop_counter import FlopCounterMode

from plot_attractors.runs import fit

DATA = {"hbv": "gflownet_em", "dsprites": "wake_sleep_em"}
PRESET = "full"
SHORT: dict[str, Any] = {  # of a real run
    "hbv": {
        "pretrain": 75, "warm_up": 250, "cycles": 1, "e_updates": 50, "final_e_updates": 1000,
    },
    "dsprites": {
        "pretrain": 150, "warm_up": 100, "vocabulary": 50, "final_e_updates": 500,
    },
}  # fmt: skip
EVERY = 0.002  # seconds of processor time between samples
SECONDS = 8.0  # of a phase
BEGUN, COUNTED = 20, 48  # updates before a phase is measured; those whose operations are counted
SMALL = {
    "SECONDS": 0.1, "BEGUN": 1, "COUNTED": 1, "PRESET": "smoke", "SHORT": dict.fromkeys(DATA),
}  # fmt: skip
# a sample counts for the first line here that names a file on its stack, from the innermost on
PARTS: dict[str, tuple[str, ...]] = {
    "backward": ("torch/autograd/",),
    "optimizer": ("torch/optim/", "torch/nn/utils/clip_grad"),
    "networks": ("torch/nn/",),
    "pyro": ("/pyro/", "torch/distributions/"),
    "sentences": ("plot_attractors/language/", "training/sentences", "training/vocabulary/"),
    "summaries": ("training/schedule.py:summary",),
    "logging": ("plot_attractors/runs/",),
    "data": ("plot_attractors/data/",),
    "other": ("",),
}


class Profiler:
    """Counts which part the processor is in, every two milliseconds of its time."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Profiler:
        signal.signal(signal.SIGPROF, self._note)
        signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _note(self, _: int, frame: FrameType | None) -> None:
        stack = []
        while frame is not None:
            stack.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
            frame = frame.f_back
        self.counts[part_of(stack)] += 1

    def shares(self) -> dict[str, float]:
        total = sum(self.counts.values())
        return {part: self.counts[part] / total for part in PARTS}


def part_of(stack: list[str]) -> str:
    if any(place in line for line in stack for place in PARTS["summaries"]):
        return "summaries"
    for line in stack:
        for part, places in PARTS.items():
            if part != "summaries" and any(place and place in line for place in places):
                return part
        if "plot_attractors/" in line:  # tensor operations of the library itself
            break
    return "other"


def seconds_of(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def peak() -> float:
    """Floating-point operations a second of a product of matrices."""
    a = torch.randn(1024, 1024)
    return 2 * 1024**3 / min(seconds_of(lambda: a @ a) for _ in range(8))


def profiled(data: str, best: float) -> Iterator[dict[str, Any]]:
    """Every phase, in the middle of its updates, and a whole run."""
    whole = schedule(data, DATA[data])
    for phase, end in zip(whole.schedule, whole._ends, strict=True):
        if phase.cycle and phase.name != "e_step":
            continue
        whole.position = end - phase.updates
        for _ in range(BEGUN):
            whole.step()
        whole.position = end - phase.updates // 2
        updates, spent = 0, 0.0
        with Profiler() as profiler:
            while spent < SECONDS and updates < phase.updates // 2 - 64:
                spent, updates = spent + seconds_of(whole.step), updates + 1
        with FlopCounterMode(display=False) as flops:
            for _ in range(COUNTED):
                whole.step()
        operations = flops.get_total_flops() / COUNTED
        yield {
            "model": data, "phase": phase.name, "ms": 1e3 * spent / updates, **profiler.shares(),
            "gflop": operations / 1e9, "of_peak": operations * updates / spent / best,
        }  # fmt: skip
    with TemporaryDirectory() as folder, Profiler() as profiler:
        spent = seconds_of(lambda: fit(data, preset=PRESET, out=folder, settings=SHORT[data]))
    yield {"model": data, "phase": f"a run in {spent:.0f} s", **profiler.shares()}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("file", nargs="?", type=Path, help="CSV, of the rows that are printed")
    file = arguments(globals(), options).file
    begin()
    best = peak()
    print(f"peak: {best / 1e9:.0f} GFLOP a second\n")
    columns, rows = ["model", "phase", "ms", *PARTS, "gflop", "of_peak"], []
    header(*columns)
    for data in DATA:
        for line in profiled(data, best):
            rows.append(line)
            cells = (line.get(column, "") for column in columns)
            row(*(f"{cell:.3g}" if isinstance(cell, float) else cell for cell in cells))
    if file:
        pd.DataFrame(rows)[columns].to_csv(file, index=False, float_format="%.3g")


if __name__ == "__main__":
    main()
