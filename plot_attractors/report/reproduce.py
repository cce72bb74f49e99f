"""How to reproduce a run: commands, versions, machine."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
from pathlib import Path
from typing import Any

from plot_attractors.runs import Run, default_path, pretrained, registry, store
from plot_attractors.runs.run import ATTRACTOR, defaults_of, programs
from plot_attractors.runs.settings import as_text, flatten, leaves, resolve, to_table

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
    """The commands that train, analyse and report the run anew.

    Settings are those that its preset lacks; of a program that is gone, the command given then.
    """
    path = shown_path(run)
    try:
        if store.has_weights_alone(run.path):  # it is trained anew into another directory
            program = registry.load("models", run.program_name)
            path = str(default_path(run.config["run"], program))
        fit = ["plot-attractors", "fit", *_options(run), "--out", path]
    except (ValueError, TypeError):
        fit = shlex.split(str(run.environment.get("command", "")))
    rest = [["plot-attractors", "analyze", path], ["plot-attractors", "report", path]]
    return [shlex.join(command) for command in (fit, *rest) if command]


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
    loaded = programs(run.program_name, run.inference_name, run.data_name)
    of_data, of_inference = defaults_of(loaded.model)
    values = flatten({part: run.config[part] for part in loaded.parts})
    path = values.pop("data.path", "none")
    options = [run.program_name, "--data", run.data_name]
    if run.program_name == ATTRACTOR:  # by the short name
        options = [run.data_name] + (["--data", str(path)] if path != "none" else [])
    elif path != "none":
        options += ["--set", f"path={path}"]
    elif run.data_name == of_data:
        options = [run.program_name]
    options += ["--seed", str(run.seed)]
    if run.inference_name != of_inference:
        options += ["--inference", run.inference_name]
    if run.preset != "full":
        options += ["--preset", run.preset]
    if (every := run.config["run"].get("log_every", 100)) != 100:
        options += ["--log-every", str(every)]
    if isinstance(threads := run.environment.get("threads"), int):
        options += ["--threads", str(threads)]
    if run.environment.get("device", "cpu") != "cpu":
        options += ["--device", "cuda"]
    needed = {
        f"{part}.{field.name}"
        for part, config in loaded.configs.items()
        for field in dataclasses.fields(config)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    } & {f"{part}.{name}" for part, config in loaded.configs.items() for name in leaves(config)}
    given = {name.partition(".")[2]: values[name] for name in needed}
    preset = resolve(loaded.configs, loaded.presets, run.preset, given)
    before = flatten({part: to_table(config) for part, config in preset.items()})
    for name, value in values.items():
        if name in needed or before.get(name) != value:
            options += ["--set", f"{name.partition('.')[2]}={as_text(value)}"]
    return options
