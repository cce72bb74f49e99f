"""What coloured sprites cost: images a second, and updates by the number of sentences and of
trajectories. python benchmarks/sprites.py

Times are milliseconds on one thread, the least of three rounds; ratios to the first row of a table
are what carries over to other machines. The last line is the most memory that the process has held.
"""

from __future__ import annotations

import resource

import torch
from shared import header, milliseconds, row

from plot_attractors.data import load_sprites
from plot_attractors.data.sprites import SHAPES, render
from plot_attractors.runs import registry, settings
from plot_attractors.training import Schedule

IMAGES = 4096
UPDATES = 16  # in a round: two wakes, four of the discretizer
PHASES = {
    "warm_up": "M-update",
    "vocabulary.updates": "update of tokens alone",
    "final_e_updates": "E-update",
}
LANGUAGES = ((8, 3), (16, 5), (32, 5), (32, 7), (64, 7))  # tokens, most in a sentence
TRAJECTORIES = (12, 24, 48, 96, 192)


def schedule(tokens: int = 32, longest: int = 7, **changed: object) -> Schedule:
    """EM of sprites with a language of so many tokens, about to start its first phase."""
    models, em = registry.load("models", "dsprites"), registry.load("inference", "wake_sleep_em")
    language = {"language.groups": (1,) * tokens, "language.max_length": longest}
    config = settings.from_table(models.Config, language)
    data = models.load_data(config)
    c = settings.from_table(em.Config, {**em.PRESETS_OF["dsprites"]["full"], **changed})
    return em.build(models.build(config, data), data, c)


def per_update(phase: str, tokens: int = 32, longest: int = 7, **changed: object) -> float:
    """Milliseconds an update of a phase."""
    others = ("pretrain", "vocabulary.rotate", "vocabulary.second_warm_up", *PHASES)
    only = {**dict.fromkeys(others, 0), phase: 10**6, **changed}
    of = schedule(tokens, longest, **only)
    of.step()
    return milliseconds(lambda: [of.step() for _ in range(UPDATES)]) / UPDATES


def table(title: str, times: dict[str, float]) -> None:
    print()
    header(title, "ms", "ratio")
    first = next(iter(times.values()))
    for name, ms in times.items():
        row(name, f"{ms:.1f}", f"{ms / first:.2f}")


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    images = {}
    for side in (32, 64):
        data = load_sprites(side=side)
        (x, y), shape = torch.rand(2, IMAGES), torch.randint(len(SHAPES), (IMAGES,))
        drawn = milliseconds(lambda x=x, y=y, s=shape, k=side: render(s, 0.5 + x / 2, x, y, k))
        images[f"{IMAGES} sprites drawn, side {side}"] = drawn
        batch = milliseconds(lambda data=data: data.batch(IMAGES))
        images[f"{IMAGES} of a batch, side {side}"] = batch
    table("images", images)
    for phase, name in PHASES.items():
        times = {}
        for tokens, longest in LANGUAGES:
            count = schedule(tokens, longest).model.language.count
            label = f"{count:,} ({tokens} tokens, at most {longest})"
            times[label] = per_update(phase, tokens, longest)
        table(f"{name}, sentences", times)
    key = "sleep.trajectories"
    updates = {str(n): per_update("final_e_updates", **{key: n}) for n in TRAJECTORIES}
    table("E-update, trajectories", updates)
    print(f"\n{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB at most")


if __name__ == "__main__":
    main()
