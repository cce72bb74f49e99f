"""Cost of an update of `gflownet_em` for languages of 728 and of 704,494,192 sentences:
python benchmarks/scale.py [REPEATS]

One thread, default sizes of `models/hbv.py`. Updates of both languages are measured in turns in one
run, by processor time, 16 at a time, since new inputs enter the pool every 16; the table holds
medians. Memory is the most that a process of its own held for that many updates.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

import torch
from shared import header, most_memory, row

from plot_attractors.runs import registry
from plot_attractors.runs.settings import from_table

LANGUAGES: dict[str, dict[str, Any]] = {
    "728 sentences": {},
    "704,494,192 sentences": {"language.groups": (1,) * 64, "language.max_length": 7},
}
PHASES: dict[str, dict[str, int]] = {
    "EM by the policy": {"warm_up": 10**9},
    "E-step": {"warm_up": 0, "policy_updates": 0, "final_e_updates": 10**9},
}
UPDATES = 16


def schedule(language: str, phase: str) -> Any:
    torch.manual_seed(0)
    hbv, engine = registry.load("models", "hbv"), registry.load("inference", "gflownet_em")
    config = from_table(hbv.Config, LANGUAGES[language])
    data = hbv.load_data(config)
    settings = {"pretrain": 0, "cycles": 0, **PHASES[phase]}
    return engine.build(hbv.build(config, data), data, engine.Config(**settings))


def run(fit: Any) -> float:
    start = time.process_time()
    for _ in range(UPDATES):
        fit.step()
    return time.process_time() - start


def memory(language: str, phase: str) -> float:
    """MiB at most, of a process of its own."""
    found = subprocess.run(
        [sys.executable, __file__, language, phase], capture_output=True, text=True, check=True
    )
    return float(found.stdout)


def main(repeats: int = 10) -> None:
    torch.set_num_threads(1)
    header("phase", *(f"{name}, ms" for name in LANGUAGES), "ratio", "MiB", "MiB")
    for phase in PHASES:
        fits = [schedule(language, phase) for language in LANGUAGES]
        for fit in fits:
            run(fit)
        seconds = [[run(fit) for fit in fits] for _ in range(repeats)]
        ms = [f"{1e3 * statistics.median(s) / UPDATES:.1f}" for s in zip(*seconds, strict=True)]
        ratio = statistics.median(b / a for a, b in seconds)
        most = [f"{memory(language, phase):.0f}" for language in LANGUAGES]
        row(phase, *ms, f"{ratio:.2f}", *most)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        torch.set_num_threads(1)
        run(schedule(*sys.argv[1:]))
        print(most_memory())
    else:
        main(*map(int, sys.argv[1:]))
