"""How to reproduce a run: commands, versions, machine."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from pathlib import Path
from typing import Any

from plot_attractors.runs import Run, default_path, pretrained, store
from plot_attractors.runs.run import plan, programs
from plot_attractors.runs.settings import as_text, fields, flatten

__all__ = ["commands", "machine", "shown_path"]


def shown_path(run: Run) -> str:
    """Path of a run as it is shown: relative to the working directory where it lies below, or
    ``pretrained:NAME``.
    """
    if pretrained.name_of(run.path) is not None:
        return pretrained.shown(run.path)
    with contextlib.suppress(ValueError, OSError):
        return str(run.path.resolve().relative_to(Path.cwd()))
    return str(run.path)


def commands(run: Run) -> list[str]:
    """The commands that train and analyse the run anew.

    Settings are those that its preset lacks; of a program that is gone, the command given then.
    """
    path = shown_path(run)
    try:
        if store.has_weights_alone(run.path):  # it is trained anew into another directory
            path = str(default_path(run.config["run"]))
        fit = ["plot-attractors", "fit", *_options(run), "--out", path]
    except (ValueError, TypeError):
        fit = shlex.split(str(run.environment.get("command", "")))
    return [shlex.join(command) for command in (fit, ["plot-attractors", "analyze", path])]


def machine(run: Run) -> dict[str, Any]:
    """Commit, versions, machine and times of a training."""
    environment = run.environment
    commit = environment.get("commit")
    if commit and environment.get("dirty"):
        commit = f"{commit}, with changes"
    facts = {"commit": commit, "python": environment.get("python")}
    facts |= environment.get("versions", {})
    keys = ("platform", "processors", "threads", "device", "started", "ended")
    facts |= {key: environment.get(key) for key in keys}
    return {key: value for key, value in facts.items() if value is not None}


def _options(run: Run) -> list[str]:
    """What follows ``plot-attractors fit``."""
    given = {
        "data": run.data_name, "inference": run.inference_name, "preset": run.preset,
        "seed": run.seed, "log-every": run.config["run"].get("log_every", 100),
        "threads": run.environment.get("threads"),
    }  # fmt: skip
    options = [part for k, v in given.items() if v is not None for part in (f"--{k}", str(v))]
    settings = (f"{name}={as_text(value)}" for name, value in _changed(run).items())
    return [run.program_name, *options, *(part for one in settings for part in ("--set", one))]


def _changed(run: Run) -> dict[str, Any]:
    """The settings of a run that its preset does not give, by dotted names."""
    loaded = programs(run.program_name, run.inference_name, run.data_name)
    needed = {
        f"{part}.{name}": run.config[part][name]
        for part, config in loaded.configs.items()
        for name, setting in fields(config).items()
        if setting.default is dataclasses.MISSING
    }
    given = {name.partition(".")[2]: value for name, value in needed.items()}
    names = run.program_name, run.inference_name
    of = plan(*names, data=run.data_name, preset=run.preset, seed=run.seed, settings=given)
    preset = flatten(of.config)
    values = flatten({part: run.config[part] for part in loaded.parts})
    changed = {k: v for k, v in values.items() if k in needed or preset.get(k) != v}
    return {name.partition(".")[2]: value for name, value in changed.items()}
