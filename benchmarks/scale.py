"""Cost of an update of `gflownet_em` for languages of 728 and of 704,494,192 sentences.

One thread, default sizes of `models/hbv.py`. Updates of both languages are measured in turns in one
run, by processor time, 16 at a time, since new inputs enter the pool every 16; the table holds
medians. Memory is the most that a process of its own held for that many updates.
"""

from __future__ import annotations

import statistics
from typing import Any

from shared import arguments, begin, header, memory, parser, row, schedule, updates

LANGUAGES: dict[str, dict[str, Any]] = {
    "728 sentences": {},
    "704,494,192 sentences": {"language.groups": (1,) * 64, "language.max_length": 7},
}
PHASES: dict[str, dict[str, Any]] = {
    "EM by the policy": {"warm_up": 10**9},
    "E-step": {"warm_up": 0, "policy_updates": 0, "final_e_updates": 10**9},
}
UPDATES, REPEATS = 16, 10
SMALL = {"UPDATES": 1, "REPEATS": 1}


def main() -> None:
    arguments(globals(), parser(__doc__))
    begin()
    header("phase", *(f"{name}, ms" for name in LANGUAGES), "ratio", "MiB", "MiB")
    for name, phase in PHASES.items():
        changed = [{"pretrain": 0, "cycles": 0, **phase, **of} for of in LANGUAGES.values()]
        fits = [schedule("hbv", "gflownet_em", c) for c in changed]
        for fit in fits:
            updates(fit, UPDATES)
        times = [[updates(fit, UPDATES) for fit in fits] for _ in range(REPEATS)]
        ms = [f"{statistics.median(t):.1f}" for t in zip(*times, strict=True)]
        ratio = statistics.median(b / a for a, b in times)
        most = [f"{memory(UPDATES, 'hbv', 'gflownet_em', c):.0f}" for c in changed]
        row(name, *ms, f"{ratio:.2f}", *most)


if __name__ == "__main__":
    main()
