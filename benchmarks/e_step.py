"""E-steps compared: new dynamics on the encoder and the sentences of a trained run.

    python benchmarks/e_step.py runs/hbv-100 runs/e-steps "gradual" --seed 100 --updates 5000
    python benchmarks/e_step.py runs/hbv-100 runs/e-steps "no memory" --set dynamics.memory=0

A run, a folder, a name and an inference program, whose last E-step trains new dynamics and a new
discretizer, while encoder, decoder, sentence encoder and sentence policy stay as they are; settings
are its own and the model's. Appends a row to e_step.csv in the folder.

Columns, of 64 training inputs × 256 draws: total variation from the exact posterior above its
floor (tv, tv_5T; tv_discretizer as the learned discretizer reads), slope, distance of z_T to the
nearest embedding (ε√d), ELBO, log Z and EUBO (nats), effective share of path weights with k̂,
sentences in use.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from shared import arguments, as_in_training, parser

from plot_attractors.cli.shared import parse
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.runs import Run, registry, settings
from plot_attractors.runs.run import programs

calibration = registry.load("analyses", "calibration")
SIZES = calibration.Config(64, 256, 512, 16)
NO_OTHER = {"pretrain": 0, "warm_up": 0, "cycles": 0}
FIXED = ("encoder.", "decoder.", "sentence_encoder.", "sentence_policy.")
SMALL = {
    "SIZES": calibration.Config(4, 8, 8, 2), "run": "pretrained:hbv",
    "updates": 4, "name": "small",
}  # fmt: skip


def new_dynamics(
    run: Run, names: tuple[str, str], preset: str, updates: int, changed: dict[str, Any], seed: int
) -> Any:
    """A schedule that is about to begin its last E-step."""
    loaded = programs(*names, run.data_name)
    known = settings.flatten(settings.to_table(run.model_config))
    own, model_s = (settings.fields(part.Config) for part in (loaded.inference, loaded.model))
    values = {k: v for k, v in known.items() if k in model_s and v is not None} | changed
    values |= {k: v for k, v in NO_OTHER.items() if k in own}
    if "vocabulary" in own:  # tokens have their axes
        values["vocabulary"] = 0
    if "final_e_updates" in own:
        values["final_e_updates"] = updates
    else:  # alternating cycles: the E-step after them
        values |= {"e_updates": updates}
    parts = {part: loaded.configs[part] for part in ("model", "inference")}
    configs = settings.resolve(parts, loaded.presets, preset, values)
    data = run.data  # what encoder and sentences were trained on
    torch.manual_seed(seed)
    model = loaded.model.build(configs["model"], data)
    trained = run.model.state_dict()
    if "sentences.candidates" in own and any(k.startswith("sentence_policy.") for k in trained):
        model.add_sentence_policy()
    fixed = tuple(name for name in FIXED if getattr(model, name[:-1]) is not None)
    kept = {k: v for k, v in trained.items() if k.startswith(fixed)}
    model.load_state_dict(kept, strict=False)
    return loaded.inference.build(model, data, configs["inference"]), data


@torch.no_grad()
def judge(model: AttractorModel, data: Any) -> dict[str, float]:
    """The columns of a row."""
    result = calibration.calibrate(model, data, "train", SIZES)
    times = sorted(result.estimates)
    first, last, floor = result.estimates[times[0]], result.estimates[times[-1]], result.control
    row: dict[str, float] = {
        "tv": first["tv"] - floor["tv"],
        "tv_5T": last["tv"] - floor["tv"],
        "tv_discretizer": first["tv_discretizer"] - floor["tv_discretizer"],
        "slope": first.get("slope", math.nan),
        "distance": first["distance"],
        "distance_5T": last["distance"],
        "sentences": first["sentences_in_use"],
        "log_z": result.log_z,
    }
    return row | {name: result.paths[name][0] for name in ("elbo", "eubo", "ess_512", "k_hat_512")}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("run", nargs="?", help="a trained run")
    options.add_argument("folder", nargs="?", type=Path, help="where the table is")
    options.add_argument("name", nargs="?", help="of the row")
    options.add_argument(
        "--model", default="attractor", help="a model program with the run's parts"
    )
    options.add_argument("--inference", default="gflownet_em", help="an inference program")
    options.add_argument("--preset", default="full", help="of the inference program")
    options.add_argument("--updates", type=int, default=5000)
    options.add_argument("--seed", type=int, default=100)
    options.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    given = arguments(globals(), options)
    as_in_training()
    torch.manual_seed(given.seed)
    run = Run(given.run)
    schedule, data = new_dynamics(
        run,
        (given.model, given.inference),
        given.preset,
        given.updates,
        parse(given.set),
        given.seed,
    )
    start = time.process_time()
    while not schedule.done:
        schedule.step()
    row: dict[str, Any] = {"name": given.name, "seed": given.seed, "updates": schedule.position}
    row["seconds"] = time.process_time() - start
    torch.manual_seed(given.seed + 1)
    row |= judge(schedule.model.eval(), data)
    file = given.folder / "e_step.csv"
    given.folder.mkdir(parents=True, exist_ok=True)
    before = [pd.read_csv(file)] if file.exists() else []
    pd.concat([*before, pd.DataFrame([row])]).to_csv(file, index=False)
    print(pd.Series(row).to_string(float_format=lambda v: f"{v:.3f}"))


if __name__ == "__main__":
    main()
