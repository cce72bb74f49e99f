"""Runs grouped into variants: runs that differ in the seed only are seeds of one variant."""

from __future__ import annotations

import json
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plot_attractors.runs import Run, store
from plot_attractors.runs.settings import as_text, flatten

__all__ = [
    "Variant", "all_runs", "differing", "group", "labels", "name_of", "settings_of",
]  # fmt: skip

PROGRAMS = "program", "data", "inference"
MOST_NAMED = 3  # programs and settings in the name of a variant


class Variant(NamedTuple):
    """Runs of the same programs and settings, by seed, and what sets them apart from the others."""

    name: str
    runs: tuple[Run, ...]

    @property
    def first(self) -> Run:
        return self.runs[0]


def name_of(program: str) -> str:
    """A program's name, also of a user's own file."""
    return Path(program).stem if program.endswith(".py") else program


def settings_of(run: Run) -> dict[str, Any]:
    """Everything but the seed that decides what a run learns, by dotted names."""
    settings: dict[str, Any] = {key: name_of(run.config["run"][key]) for key in PROGRAMS}
    settings["preset"] = run.preset
    for part in store.TABLES[1:]:
        settings |= flatten(run.config[part])
    return settings


def differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the settings that are not the same in all that have them."""
    values = defaultdict(list)
    for table in settings:
        for key, value in table.items():
            values[key].append(value)
    return [key for key, of in values.items() if any(value != of[0] for value in of)]


def all_runs(variants: Iterable[Variant]) -> list[Run]:
    """The runs of all variants."""
    return [run for variant in variants for run in variant.runs]


def labels(runs: Iterable[Run]) -> dict[Path, str]:
    """A name for each run, by its path: that of its directory, where no other run has it."""
    paths = [run.path for run in runs]
    count = Counter(path.name for path in paths)
    return {path: path.name if count[path.name] == 1 else str(path) for path in paths}


def group(runs: Iterable[Run]) -> list[Variant]:
    """Variants in the order of their first run; the runs of each by seed, each directory once."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in {run.path.resolve(): run for run in runs}.values():
        identity = [run.data_name, run.program_name, run.inference_name, settings_of(run)]
        groups[json.dumps(identity, sort_keys=True, default=str)].append(run)
    members = [
        sorted(seeds, key=lambda run: (run.seed, run.path.name)) for seeds in groups.values()
    ]
    settings = [settings_of(seeds[0]) for seeds in members]
    keys = differing(settings)
    names = [_name(table, keys) for table in settings]
    if len(members) > 1:
        letters = [*string.ascii_uppercase, *(str(k) for k in range(27, len(members) + 1))]
        names = [f"{letter}: {name}" for letter, name in zip(letters, names, strict=False)]
    return [Variant(name, tuple(seeds)) for name, seeds in zip(names, members, strict=True)]


def _name(settings: Mapping[str, Any], keys: Sequence[str]) -> str:
    own = [key for key in keys if key in settings]
    parts = [
        settings[key] if key in PROGRAMS else f"{key} {as_text(settings[key])}"
        for key in own[:MOST_NAMED]
    ]
    return ", ".join(parts + ["…"] * (len(own) > MOST_NAMED)) or str(settings["program"])
