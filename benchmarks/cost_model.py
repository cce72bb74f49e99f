"""What an update costs, in time and memory: a model of it, fitted to measurements and checked on
points that it has not seen.

Updates of the E-step of `gflownet_em` on binary vectors, one thread, by processor time. The time of
an update is

    t = a + b · operations + c · numbers,

with the floating-point operations of all matrix products, and the numbers
that layers between them read or write (`counts`); memory is m0 + 4 bytes · m · (activations of one
backward pass + 4 · parameters). a, b, c, m0 and m ≥ 0 are fitted by least squares of relative
errors. Prints measurements, what is predicted, and what it says of sizes that no machine here has.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import nnls
from shared import arguments, begin, header, memory, parser, row, schedule, updates
from torch.utils.flop_counter import FlopCounterMode

ROUNDS = 3
UPDATES = 16  # a renewal of the pool, and four of what is updated every fourth time
SHARE, STAY_STATES, PRIOR_STATES = 0.6, 256, 192  # see `training.walk`, `training.e_step`
WAKE, STATES, EVERY, LATER = 64, 256, 4, 2  # see `training.e_step`, `training.walk`
CANDIDATES, NEW = 16, 24  # see `training.pool`


@dataclass(frozen=True)
class Size:
    """Trajectories in an update, T, d, exclusive pairs of tokens, units of the dynamics, and of
    everything else.
    """

    batch: int = 32
    steps: int = 20
    latent: int = 8
    pairs: int = 6
    units: int = 256
    features: int = 256


FITTED = [
    Size(),
    *(Size(batch=b) for b in (8, 128, 512)),
    *(Size(steps=t) for t in (8, 80)),
    *(Size(latent=d) for d in (4, 64)),
    *(Size(pairs=k) for k in (3, 9)),
    *(Size(units=u) for u in (64, 1024)),
    *(Size(features=f) for f in (32, 1024)),
]
UNSEEN = [
    Size(batch=16, units=512),
    Size(batch=256, steps=40),
    Size(latent=32, features=512, pairs=8),
    Size(batch=96, latent=16, steps=10, units=128),
    Size(batch=384, units=512, features=512),
]
EXTREME = {
    "the default": Size(),
    "a million classes: 2^20 leaves, 32 pairs, d = 64": Size(latent=64, pairs=32, units=1024),
    "a billion sentences: 19 pairs": Size(pairs=19),
    "a batch of 65,536": Size(batch=65_536),
    "units 8,192, a batch of 65,536": Size(batch=65_536, units=8192, features=8192, latent=256),
}
SMALL = {
    "ROUNDS": 1, "UPDATES": 1, "FITTED": [Size(), Size(units=64)], "UNSEEN": [Size(batch=16)],
    "EXTREME": {"the default": Size()},
}  # fmt: skip


def perceptron(inputs: int, units: int, outputs: int, backward: int = 0, first: int = 0) -> int:
    """Multiplications of three layers for a row; `backward` times as many of a backward pass of all
    but the first, which has `first`: 1 where nothing before it learns.
    """
    return (1 + first) * inputs * units + (1 + backward) * (units * units + units * outputs)


def counts(c: Size) -> tuple[float, float, float]:
    """Of an update, in the mean: floating-point operations of matrix products; numbers that are
    read or written between them; numbers that a backward pass keeps.
    """
    d, f, u, tokens = c.latent, c.features, c.units, 2 * c.pairs
    small = u // 2
    field = d * f + perceptron(d + f, u, 2 * d + 1)  # the forward dynamics
    learned = 2 * d * f + perceptron(d + f, u, 2 * d + 1, backward=2, first=2)
    inputs = 2 * d + 7 + 2 * d + 1  # of the backward dynamics: z, z0, time, the forward step
    reverse = perceptron(inputs, small, 2 * d + 1, backward=2, first=1)
    reader = perceptron(tokens + d, small, tokens + 1)  # discretizer, sentence policy
    read_and_learned = perceptron(tokens + d, small, tokens + 1, backward=2, first=1)
    walk = round(SHARE * c.steps)  # K
    rows = c.batch * walk + STAY_STATES + PRIOR_STATES
    back = perceptron(inputs, small, 2 * d + 1) + field  # drawn, not learned
    sleep = rows * learned + c.batch * (walk - 1) * back
    scored = min(walk - 1 + LATER, c.steps - 1)
    wake = WAKE * (c.steps * field + scored * (field + reverse)) / EVERY
    reading = STATES * (c.pairs + 1) * read_and_learned / EVERY
    drawn = NEW * (1 / CANDIDATES + c.pairs - 1) * reader
    multiplications = sleep + wake + reading + drawn
    kept = rows * (2 * f + 4 * u + 12 * d)
    wide = (c.batch * walk + WAKE * (c.steps + scored) / EVERY) * (
        2 * f + 4 * u + 4 * small + 24 * d
    )
    read = (STATES * (c.pairs + 1) / EVERY + drawn / reader / 3) * (6 * small + 6 * tokens)
    paths = 6 * c.batch * (walk + 1) * d
    return 2 * multiplications, 3 * kept + wide + read + paths, kept


def training(c: Size) -> tuple[str, str, dict[str, Any]]:
    """Arguments of `schedule`: updates of the E-step at this size."""
    return "hbv", "gflownet_em", {
        "latent": c.latent, "steps": c.steps, "units": c.units, "auxiliary_units": c.units // 2,
        "language.groups": (2,) * c.pairs, "dynamics.features": c.features, "pretrain": 0,
        "cycles": 0, "warm_up": 0, "policy_updates": 0, "final_e_updates": 10**9,
        "walk.trajectories": c.batch,
    }  # fmt: skip


def milliseconds(c: Size) -> float:
    of = schedule(*training(c))
    updates(of, UPDATES)
    return statistics.median(updates(of, UPDATES) for _ in range(ROUNDS))


def counted(c: Size) -> float:
    """Floating-point operations of an update as PyTorch counts them."""
    of = schedule(*training(c))
    updates(of, UPDATES)
    with FlopCounterMode(display=False) as flops:
        updates(of, UPDATES)
    return float(flops.get_total_flops()) / UPDATES


def terms(c: Size) -> tuple[list[float], list[float]]:
    """What time (ms) and memory (MiB) are linear in."""
    operations, numbers, kept = counts(c)
    parameters = sum(p.numel() for p in schedule(*training(c)).model.parameters())
    activations = 4 * (kept + 4 * parameters) / 2**20
    return [1.0, operations / 1e9, numbers / 1e6], [1.0, activations]


def fitted(x: list[list[float]], y: list[float]) -> np.ndarray:
    """Coefficients ≥ 0 of least squares of relative errors."""
    rows = np.array(x) / np.array(y)[:, None]
    return nnls(rows, np.ones(len(y)))[0]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("file", nargs="?", type=Path, help="CSV, of the rows that are printed")
    file = arguments(globals(), options).file
    begin()
    measured = {c: (milliseconds(c), memory(UPDATES, *training(c))) for c in (*FITTED, *UNSEEN)}
    x = {c: terms(c) for c in measured}
    a = fitted([x[c][0] for c in FITTED], [measured[c][0] for c in FITTED])
    m = fitted([x[c][1] for c in FITTED], [measured[c][1] for c in FITTED])
    print(f"ms = {a[0]:.2f} + {a[1]:.2f} GFLOP + {a[2]:.2f} million numbers")
    print(f"MiB = {m[0]:.0f} + {m[1]:.2f} MiB of activations and parameters\n")
    rows = []
    for c, (ms, mib) in measured.items():
        by_time, by_memory = float(a @ x[c][0]), float(m @ x[c][1])
        rows.append({
            "size": name(c), "fitted": "no" if c in UNSEEN else "yes", "gflop": x[c][0][1],
            "gflop_counted": counted(c) / 1e9, "ms": ms, "ratio": ms / measured[FITTED[0]][0],
            "ms_predicted": by_time, "ms_error": by_time / ms - 1, "mib": mib,
            "mib_predicted": by_memory, "mib_error": by_memory / mib - 1,
        })  # fmt: skip
    table = pd.DataFrame(rows).round(3)
    header(*table)
    for line in table.itertuples(index=False):
        row(*line)
    worst = table[table["fitted"] == "no"][["ms_error", "mib_error"]].abs().max()
    errors = f"{worst['ms_error']:.0%}, {worst['mib_error']:.0%}"
    print(f"\nlargest error of what was not seen: {errors}\n")
    if file:
        table.to_csv(file, index=False, float_format="%.4g")
    header("what was not measured", "GFLOP an update", "seconds", "GiB")
    for what, c in EXTREME.items():
        of_time, of_memory = terms(c)
        row(what, f"{of_time[1]:,.0f}", f"{a @ of_time / 1e3:,.3f}", f"{m @ of_memory / 1024:,.1f}")


def name(c: Size) -> str:
    """What differs from the default."""
    own, default = asdict(c), asdict(Size())
    return ", ".join(f"{k} {v}" for k, v in own.items() if v != default[k]) or "default"


if __name__ == "__main__":
    main()
