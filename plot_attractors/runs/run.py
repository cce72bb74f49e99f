"""Runs: fit a model program with an inference program into a directory, and read it again."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import tomlkit
import torch

from plot_attractors.data.checks import ARRAYS, array_kind, digests, read_array
from plot_attractors.runs import pretrained, registry, store
from plot_attractors.runs import settings as settings_
from plot_attractors.runs.loop import Interrupted, Loop, Progress, cuda_devices

__all__ = [
    "Interrupted", "Progress", "Run", "default_path", "defaults_of", "fit", "plan", "programs",
]  # fmt: skip

PROGRAMS: dict[registry.Kind, tuple[str, str]] = {  # name in the table run, table of settings
    "datasets": ("data", "data"), "models": ("program", "model"),
    "inference": ("inference", "inference"),
}  # fmt: skip
STANDARD = "full", "demo", "smoke"  # presets that a program need not have
ATTRACTOR = "attractor"  # the model where a data set stands in the place of one

logger = logging.getLogger("plot_attractors")


def defaults_of(model_program: ModuleType) -> tuple[str, str]:
    """The data set and the inference program where a run names none: ``DATA`` and ``INFERENCE`` of
    the model's Config, or hbv and the engine.
    """
    config = model_program.Config
    return getattr(config, "DATA", "hbv"), getattr(config, "INFERENCE", "gflownet_em")


def default_path(run: Mapping[str, Any]) -> Path:
    """Directory of a run that was given none, by its table ``run`` of config.toml:
    ``runs/<program>-<data>-<inference>-<preset>-<seed>``.
    """
    names = [Path(run[key]).stem for key in ("program", "data", "inference")]
    return Path("runs", "-".join([*names, run["preset"], str(run["seed"])]))


class LoadedPrograms(NamedTuple):
    """The programs of a run, and their names or paths."""

    data: ModuleType
    model: ModuleType
    inference: ModuleType
    names: tuple[str, str, str]  # in this order

    @property
    def parts(self) -> dict[str, ModuleType]:
        return {"data": self.data, "model": self.model, "inference": self.inference}

    @property
    def configs(self) -> dict[str, type]:
        return {part: program.Config for part, program in self.parts.items()}

    @property
    def presets(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Presets of each part, for data of the KIND that the data set's program names."""
        kind = getattr(self.data, "KIND", Path(self.names[0]).stem)
        return {part: settings_.presets_of(module, kind) for part, module in self.parts.items()}


class Plan(NamedTuple):
    """A run that was not begun: its directory, its config.toml, its Configs and programs."""

    path: Path
    config: dict[str, Any]
    configs: dict[str, Any]
    programs: LoadedPrograms
    changed: Mapping[str, Any]  # settings beside the preset, by dotted names


def plan(
    program: str | Path,
    inference: str | Path | None = None,
    *,
    data: str | Path | None = None,
    preset: str = "full",
    seed: int = 0,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    log_every: int = 100,
) -> Plan:
    """What `fit` would do, with the same arguments; raises the same ValueErrors for programs,
    presets and settings, and writes nothing.
    """
    loaded = programs(program, inference, data)
    presets = loaded.presets
    settings = _with_path(data, settings or {})
    of_both = [part for part in ("model", "inference") if preset in presets[part]]
    if len(of_both) == 1 and preset not in STANDARD:
        raise ValueError(
            f"only the {of_both[0]} program has the preset {preset!r}: name another one beside it"
        )
    configs = settings_.resolve(loaded.configs, presets, preset, settings)
    settings_.refuse_inert(configs, settings)
    run: dict[str, Any] = {
        key: registry.identifier(kind, name)
        for (kind, (key, _)), name in zip(PROGRAMS.items(), loaded.names, strict=True)
    }
    run |= {"preset": preset, "seed": seed, "log_every": log_every}
    config = {"run": run, **{part: settings_.to_table(value) for part, value in configs.items()}}
    out = default_path(run) if out is None else Path(out).expanduser()
    return Plan(out, config, configs, loaded, settings_.flatten(settings))


def fit(
    program: str | Path,
    inference: str | Path | None = None,
    *,
    data: str | Path | None = None,
    preset: str = "full",
    seed: int = 0,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    device: str = "cpu",
    on_progress: Callable[[Progress], None] | None = None,
    log_every: int = 100,
    checkpoint_seconds: float = 60.0,
) -> Path:
    """Train a model and return the directory of the run; a finished run returns at once, unless its
    data changed.

    The directory holds ``config.toml``, ``metrics.csv`` (means over windows of `log_every` updates
    that end with a phase at the latest), ``checkpoint.pt`` and ``environment.json``, written every
    `checkpoint_seconds`, at the start, at the end and at Ctrl-C. Whatever stops the process, the
    last checkpoint stays whole; a run resumed from it equals an uninterrupted one bit for bit on
    the CPU with the same number of threads, but for the column ``seconds``. The caller's random
    state is left alone.

    Args:
        program: model program, by name or by path; or the name of a data set, which the attractor
            model is then fitted to.
        data: a data set, by the name or the path of its program, or the path of data of your own.
        inference: inference program; what is not named is as of `defaults_of`.
        preset: ``full``, ``demo``, ``smoke``, or another that the programs have.
        seed: seeds torch's global generator before data, model and inference are built.
        out: the directory; by default `default_path`.
        settings: overrides by dotted names or nested, as text or as Python values.
        resume: go on with an unfinished run; where there is none, start.
        on_progress: called a few times a second.

    Raises:
        ValueError: an unknown program, preset or setting, a setting that has no effect, or a
            directory that holds something else.
        FloatingPointError: a metric or a parameter is not finite; the checkpoint before stays.
        Interrupted: SIGINT, SIGTERM, SIGHUP or SIGUSR2; the checkpoint was written.
    """
    planned = plan(
        program, inference, data=data, preset=preset, seed=seed, out=out, settings=settings,
        log_every=log_every,
    )  # fmt: skip
    from plot_attractors.training.schedule import denormals_are_zero  # slow to import

    with denormals_are_zero():
        _train(planned, torch.device(device), resume, on_progress, checkpoint_seconds)
    return planned.path


def _train(planned: Plan, device: torch.device, resume: bool, *options: Any) -> None:
    path, config, loaded = planned.path, planned.config, planned.programs
    with store.lock(path), torch.random.fork_rng(devices=cuda_devices(device)):
        checkpoint = store.enter(path, config, resume)
        torch.manual_seed(config["run"]["seed"])
        data = loaded.data.load(planned.configs["data"])
        digest = digests(data)
        store.require_same_data(path, (checkpoint or {}).get("data", {}), digest)
        if checkpoint is not None and checkpoint["position"] >= checkpoint["total"]:
            logger.info("nothing to do: %s is finished (%d updates)", path, checkpoint["total"])
            return
        own = planned.configs["model"]
        with torch.random.fork_rng(devices=[]):
            settings_.refuse_ignored(lambda c: loaded.model.build(c, data), own, planned.changed)
        model = loaded.model.build(own, data).to(device)
        if device.type != "cpu" and hasattr(data, "to"):
            data = data.to(device)
        before = _held(model)
        trainer = loaded.inference.build(model, data, planned.configs["inference"])
        _require_as_built(model, before)
        if checkpoint is None:
            store.write(path / "config.toml", tomlkit.dumps(config).encode())
        Loop(path, config, device, checkpoint, model, trainer, digest, *options).run()


def programs(
    program: str | Path, inference: str | Path | None = None, data: str | Path | None = None
) -> LoadedPrograms:
    """The programs of a run, as `fit` takes them."""
    if str(program) in registry.names("datasets"):  # fit hbv, fit table --data animals.csv
        if data is not None and _is_program(data):
            raise ValueError(f"{program} and {data} are both data sets: leave --data out")
        program, data = ATTRACTOR, program
    model = registry.load("models", program)
    of_data, of_inference = defaults_of(model)
    of_data = of_data if data is None else _kind_of(data)
    of_inference = str(inference or of_inference)
    dataset, trainer = registry.load("datasets", of_data), registry.load("inference", of_inference)
    return LoadedPrograms(dataset, model, trainer, (of_data, str(program), of_inference))


def _is_program(data: str | Path) -> bool:
    """Whether this names a data set, and not a file or folder of data."""
    return str(data) in registry.names("datasets") or str(data).endswith(".py")


def _with_path(data: str | Path | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the setting `path`, where data of a user's own are given."""
    return settings if data is None or _is_program(data) else {"path": str(data), **settings}


def _kind_of(data: str | Path) -> str:
    """The data set that a file or folder is read as: a folder and an array of three dimensions or
    more as images, another array as vectors, any other file as a table.
    """
    path = Path(data).expanduser()
    if _is_program(data):
        return str(data)
    if path.is_dir():
        return "images"
    if (kind := array_kind(path)) not in ARRAYS:
        return "table"
    array = np.load(path, mmap_mode="r") if kind == ".npy" else read_array(path)
    return "images" if array.ndim > 2 else "vectors"


def _held(model: torch.nn.Module) -> dict[str, Any]:
    """Attributes and parts of a model, by name."""
    parts = {**model._parameters, **model._buffers, **model._modules}
    plain = {k: v for k, v in vars(model).items() if k != "training" and not k.startswith("_")}
    return {**plain, **parts}


def _require_as_built(model: torch.nn.Module, before: Mapping[str, Any]) -> None:
    """Refuses an inference program that sets something of a model, which `Run.model` builds without
    it. It may fill a slot of the model's own, such as `sentence_policy`.
    """
    after = _held(model)
    new = after.keys() - before.keys() - vars(model).keys()  # plain attributes may be caches
    changed = {k for k, v in before.items() if v is not None and after.get(k) is not v}
    if names := ", ".join(sorted(new | changed)):
        raise ValueError(
            f"this inference program sets {names} of the model, and a trained model is opened "
            "without its inference program: let the model program build it (as a part, a buffer or "
            "a setting), or give it to training.Schedule as state"
        )


class Run:
    """A run's directory: settings, metrics, data and trained model, each read when asked for.

    The model comes from the last checkpoint, on the CPU, in evaluation mode; data that is drawn at
    random is the data of the training, as it is made from the same seed. ``pretrained:NAME`` stands
    for the directory of a model in the package (`runs.pretrained`).

    Raises ValueError where there is no such model, the directory holds no run, its config.toml was
    changed after training, or the run has no checkpoint yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = pretrained.find(path)
        self.config: dict[str, dict[str, Any]] = store.read_config(self.path)
        for _, program in self.programs.values():
            registry.refuse_within(self.path, program)
        store.require_untouched(self.path, store.glance(self.path), self.config)

    def __repr__(self) -> str:
        return f"Run({pretrained.shown(self.path)!r})"

    @property
    def program_name(self) -> str:
        """Name of the model program, or the path of a user's own file."""
        return str(self.config["run"]["program"])

    @property
    def inference_name(self) -> str:
        return str(self.config["run"]["inference"])

    @property
    def data_name(self) -> str:
        return str(self.config["run"]["data"])

    @property
    def programs(self) -> dict[registry.Kind, tuple[str, str]]:
        """Of each kind of program, its table in config.toml, and its name or path."""
        run = self.config["run"]
        return {kind: (part, str(run[key])) for kind, (key, part) in PROGRAMS.items()}

    @property
    def preset(self) -> str:
        return str(self.config["run"]["preset"])

    @property
    def seed(self) -> int:
        return int(self.config["run"]["seed"])

    @cached_property
    def data_config(self) -> Any:
        """The data set's Config."""
        return self._config("datasets")

    @cached_property
    def model_config(self) -> Any:
        return self._config("models")

    def _config(self, kind: registry.Kind) -> Any:
        part, program = self.programs[kind]
        return settings_.from_table(registry.load(kind, program).Config, self.config[part])

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions, machine, commit, command line and times; empty where the file is missing."""
        return store.read_environment(self.path)

    @cached_property
    def data(self) -> Any:
        """The data that the run was trained on; ValueError where they were changed since."""
        with self._seeded():
            return self._load_data()

    def _load_data(self) -> Any:
        data = registry.load("datasets", self.data_name).load(self.data_config)
        store.require_same_data(self.path, store.glance(self.path).get("data", {}), digests(data))
        return data

    @cached_property
    def model(self) -> Any:
        """The trained model, built by its program alone."""
        state = store.load_checkpoint(self.path)["inference"]["model"]
        with self._seeded():  # what building draws comes after what loading draws, as in training
            data = self._load_data()
            model = registry.load("models", self.program_name).build(self.model_config, data)
        self.__dict__.setdefault("data", data)
        with store.compatible(self.path):
            model.load_state_dict(state)
        return model.eval()

    @property
    def position(self) -> tuple[int, int]:
        """Updates done at the last checkpoint, and updates of the whole schedule."""
        checkpoint = store.load_checkpoint(self.path)
        return int(checkpoint["position"]), int(checkpoint["total"])

    def metrics(self) -> pd.DataFrame:
        """The rows of ``metrics.csv``, by the checkpoint: step, phase, cycle, seconds, what the
        inference reports; none of an exported run.
        """
        return pd.DataFrame(store.glance(self.path).get("rows", []))

    @contextlib.contextmanager
    def _seeded(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            yield
