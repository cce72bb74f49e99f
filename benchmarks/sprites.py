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
from plot_attractors.runs import registry

IMAGES = 4096
UPDATES = 16  # in a round: two wakes, four of the discretizer
PHASES = {
    "warm_up": "M-update",
    "token_updates": "update of tokens alone",
    "final_e_updates": "E-update",
}
LANGUAGES = ((8, 3), (16, 5), (32, 5), (32, 7), (64, 7))  # tokens, most in a sentence
TRAJECTORIES = (12, 24, 48, 96, 192)


def inference(tokens: int = 32, longest: int = 7, **settings: object) -> object:
    """GFlowNet-EM of sprites with a language of so many tokens, about to start its first phase."""
    models, em = (
        registry.load("models", "dsprites"),
        registry.load("inference", "gflownet_em_sampled"),
    )
    config = models.Config(groups=(1,) * tokens, max_length=longest, **models.PRICES)
    data = models.load_data(config)
    full = {k: v for k, v in models.PRESETS["full"].items() if k not in models.PRICES}
    training = {**full, "searched": 64, "replay": 64, **settings}
    return em.build(models.build(config, data), data, em.Config(**training))


def per_update(phase: str, **settings: object) -> float:
    """Milliseconds an update of a phase."""
    only = dict.fromkeys(("pretrain", "pretrain_turned", "warm_up_turned", *PHASES), 0)
    of = inference(**{**only, phase: 10**6, "token_trials": 1, **settings})
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
            count = inference(tokens, longest).model.language.count
            label = f"{count:,} ({tokens} tokens, at most {longest})"
            times[label] = per_update(phase, tokens=tokens, longest=longest)
        table(f"{name}, sentences", times)
    updates = {str(n): per_update("final_e_updates", sleep_trajectories=n) for n in TRAJECTORIES}
    table("E-update, trajectories", updates)
    print(f"\n{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB at most")


if __name__ == "__main__":
    main()
