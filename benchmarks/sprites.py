"""What coloured sprites cost: images a second, and updates by the number of sentences and of
trajectories.

Times are milliseconds on one thread, the least of three rounds; ratios to the first row of their
kind are what carries over to other machines. The last line is the most memory that was held.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from shared import arguments, begin, header, milliseconds, most_memory, parser, row, schedule

from plot_attractors.data import load_sprites
from plot_attractors.data.sprites import SHAPES, render

IMAGES = 4096
UPDATES = 16  # in a round: two wakes, four of the discretizer
PHASES = {
    "warm_up": "M-update",
    "vocabulary.updates": "update of tokens alone",
    "final_e_updates": "E-update",
}
LANGUAGES = ((8, 3), (16, 5), (32, 5), (32, 7), (64, 7))  # tokens, most in a sentence
TRAJECTORIES = (8, 16, 32, 64, 128)
SMALL = {"IMAGES": 64, "UPDATES": 1, "LANGUAGES": LANGUAGES[:2], "TRAJECTORIES": (8,)}


def training(phase: str, tokens: int = 32, longest: int = 7, **changed: int) -> Any:
    """EM of sprites with a language of so many tokens, which begins with a phase, and stays."""
    language = {"language.groups": (1,) * tokens, "language.max_length": longest}
    others = ("pretrain", "vocabulary.rotate", "vocabulary.second_warm_up", *PHASES)
    only = {**dict.fromkeys(others, 0), phase: 10**6}
    return schedule("dsprites", "wake_sleep_em", {**language, **only, **changed})


def per_update(of: Any) -> float:
    of.step()
    return milliseconds(lambda: [of.step() for _ in range(UPDATES)]) / UPDATES


def rows(kind: str, times: dict[str, float]) -> None:
    first = next(iter(times.values()))
    for name, ms in times.items():
        row(f"{kind}{name}", f"{ms:.1f}", f"{ms / first:.2f}")


def main() -> None:
    arguments(globals(), parser(__doc__))
    begin()
    header("what", "ms", "ratio")
    torch.manual_seed(0)
    images = {}
    for side in (32, 64):
        data = load_sprites(side=side)
        (x, y), shape = torch.rand(2, IMAGES), torch.randint(len(SHAPES), (IMAGES,))
        drawn = milliseconds(partial(render, shape, 0.5 + x / 2, x, y, side))
        images[f"sprites drawn, side {side}"] = drawn
        batch = milliseconds(partial(data.batch, IMAGES))
        images[f"of a batch, side {side}"] = batch
    rows(f"{IMAGES} ", images)
    for phase, name in PHASES.items():
        times = {}
        for tokens, longest in LANGUAGES:
            of = training(phase, tokens, longest)
            label = f"{of.model.language.count:,} sentences ({tokens} tokens, at most {longest})"
            times[label] = per_update(of)
        rows(f"{name}, ", times)
    key = "walk.trajectories"
    updates = {n: per_update(training("final_e_updates", **{key: n})) for n in TRAJECTORIES}
    rows("E-update, ", {f"{n} trajectories": ms for n, ms in updates.items()})
    print(f"\n{most_memory():.0f} MiB at most")


if __name__ == "__main__":
    main()
