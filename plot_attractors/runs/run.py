"""Runs: fit a model program with an inference program into a directory, and read it again."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import torch

from plot_attractors.data.checks import check_whole
from plot_attractors.data.digests import digests
from plot_attractors.runs import environment as environment_
from plot_attractors.runs import pretrained, registry, store
from plot_attractors.runs import settings as settings_
from plot_attractors.runs.effects import refuse_ignored
from plot_attractors.runs.loop import (
    Interrupted,
    Loop,
    Progress,
    cuda_devices,
    denormals_are_zero,
)
from plot_attractors.runs.registry import suggestion

__all__ = [
    "Interrupted", "Progress", "Run", "default_data", "default_inference", "default_path",
    "defaults_of", "fit", "plan", "programs", "untrained",
]  # fmt: skip

PROGRAMS: dict[registry.Kind, tuple[str, str]] = {  # name in the table run, table of settings
    "datasets": ("data", "data"), "models": ("program", "model"),
    "inference": ("inference", "inference"),
}  # fmt: skip
PARTS = [part for _, part in PROGRAMS.values()]
STANDARD = "full", "demo", "smoke"  # presets that a model need not have
DEFAULT_INFERENCE, DEFAULT_DATA = "gflownet_em", "hbv"
ATTRACTOR = "attractor"  # the model where a data set stands in the place of one
ARRAYS = (".npy", ".npz")

logger = logging.getLogger("plot_attractors")


def default_path(run: Mapping[str, Any], model_program: ModuleType) -> Path:
    """Directory of a run that was given none, by its table ``run`` of config.toml:
    ``runs/<program>[-<data>][-<inference>]-<preset>-<seed>``, without those that are the program's
    default; of the attractor model, the data's name.
    """
    program, data, inference = (Path(run[key]).stem for key in ("program", "data", "inference"))
    of_data, of_inference = defaults_of(model_program)
    parts = [data] if program == ATTRACTOR else [program] + [data] * (run["data"] != of_data)
    parts += [inference] * (run["inference"] != of_inference)
    return Path("runs", "-".join([*parts, run["preset"], str(run["seed"])]))


class LoadedPrograms(NamedTuple):
    """The programs of a run, and their names or paths."""

    data: ModuleType
    model: ModuleType
    inference: ModuleType
    names: tuple[str, str, str]  # in this order

    @property
    def parts(self) -> dict[str, ModuleType]:
        return dict(zip(PARTS, self[:3], strict=True))  # type: ignore[arg-type]

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
    without: dict[str, Any]  # the model's Config without each setting that acts in `build` alone


def plan(
    program: str | Path,
    inference: str | Path | None,
    preset: str,
    seed: int,
    out: str | Path | None,
    settings: Mapping[str, Any],
    log_every: int = 100,
    data: str | Path | None = None,
) -> Plan:
    """What `fit` would do, with the same arguments; raises the same ValueErrors for programs,
    presets and settings, and writes nothing.
    """
    loaded = programs(program, inference, data)
    settings = {**_path_of(loaded, data, settings), **settings}
    presets = loaded.presets
    for part, other, exempt in (("model", 2, ["full"]), ("inference", 1, STANDARD)):
        beside = presets[PARTS[other]]
        if preset in presets[part] and preset not in (*beside, *exempt):
            raise ValueError(
                f"the {PARTS[other]} program {loaded.names[other]} has no preset {preset!r}, only "
                f"{', '.join(beside)}: name another {PARTS[other]} program, which has it"
            )
    configs = settings_.resolve(loaded.configs, presets, preset, settings)
    settings_.refuse_inert(configs, settings)
    given, without = settings_.flatten(settings), dict[str, Any]()
    for name in given:
        if name.partition(".")[0] in getattr(loaded.model.Config, "BUILT", ()):
            rest = {other: value for other, value in given.items() if other != name}
            with contextlib.suppress(ValueError):  # the others need it
                without[name] = settings_.resolve(loaded.configs, presets, preset, rest)["model"]
            if without.get(name) == configs["model"]:
                del without[name]
    run: dict[str, Any] = {
        key: registry.identifier(kind, name)
        for (kind, (key, _)), name in zip(PROGRAMS.items(), loaded.names, strict=True)
    }
    run |= {"preset": preset, "seed": seed, "log_every": log_every}
    config = {"run": run, **{part: settings_.to_table(value) for part, value in configs.items()}}
    if out is None:
        out = default_path(run, loaded.model)
    if not str(out).strip() or str(out) == ".":
        raise ValueError("--out is empty: name a directory for the run, or leave --out out")
    if str(out).startswith(pretrained.PREFIX):
        raise ValueError(f"{out} is a model that was trained already: choose another --out")
    return Plan(Path(out).expanduser(), config, configs, loaded, without)


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
    tensorboard: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    log_every: int = 100,
    checkpoint_seconds: float = 60.0,
) -> Path:
    """Train a model and return the directory of the run; a finished run returns at once, unless its
    data changed.

    The directory holds ``config.toml``, ``metrics.csv`` (means over windows of updates that end
    with a phase at the latest), ``checkpoint.pt`` and ``environment.json``. Whatever stops the
    process, the last checkpoint stays whole; a run resumed from it equals an uninterrupted one bit
    for bit on the CPU with the same number of threads, but for the column ``seconds``. The caller's
    random state is left alone.

    Args:
        program: model program, by name or by path; or the name of a data set, which the attractor
            model is then fitted to.
        data: a data set, by the name or the path of its program, or the path of data of your own;
            by default `default_data`.
        inference: inference program; by default `default_inference`.
        preset: ``full``, ``demo``, ``smoke``, or another that the programs have.
        seed: seeds torch's global generator before data, model and inference are built.
        out: the directory; by default `default_path`.
        settings: overrides of either program's settings, by dotted names or nested, as text or as
            Python values.
        resume: go on with an unfinished run; where there is none, start.
        device: where to train, ``cpu`` or ``cuda``.
        tensorboard: write the metrics into event files, too, in the folder ``tensorboard``.
        on_progress: called a few times a second.
        log_every: updates in a row of the metrics.
        checkpoint_seconds: time between checkpoints; there is one at the start, at the end and at
            Ctrl-C, too.

    Raises:
        ValueError: an unknown program, preset, setting or device, a setting that has no effect, or
            a directory that holds something else.
        FloatingPointError: a metric or a parameter is not finite; the checkpoint before stays.
        Interrupted: SIGINT, SIGTERM, SIGHUP or SIGUSR2; the checkpoint was written.
        OSError: the directory cannot be written to.
    """
    check_whole("seed", seed, 0)
    check_whole("log_every, the updates in a row of the metrics,", log_every)
    for name, value, kind in (("resume", resume, bool), ("settings", settings or {}, dict)):
        if not isinstance(value, Mapping if kind is dict else kind):
            raise ValueError(f"{name} is a {kind.__name__}, not {value!r}")
    torch_device = _device(device)
    if tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise ValueError("TensorBoard needs a package: pip install 'plot-attractors[tensorboard]'")
    planned = plan(program, inference, preset, seed, out, settings or {}, log_every, data)
    if not _training.acquire(blocking=False):
        raise ValueError(
            "another training is under way in this process, and two would share random numbers and "
            "Pyro's parameters: start them in processes of their own, as plot-attractors sweep does"
        )
    try:
        with denormals_are_zero():
            _train(
                planned, torch_device, resume, tensorboard, on_progress, log_every,
                checkpoint_seconds,
            )  # fmt: skip
    finally:
        _training.release()
    return planned.path


_training = threading.Lock()


def untrained(
    program: str | Path,
    *,
    data: str | Path | None = None,
    preset: str = "full",
    settings: Mapping[str, Any] | None = None,
) -> tuple[Any, Any]:
    """A model as it is before training, and its data; arguments as of `fit`."""
    of, given = programs(program, None, data), settings or {}
    parts = {"data": of.data.Config, "model": of.model.Config}
    presets, values = of.presets, {**_path_of(of, data, given), **given}
    configs = settings_.resolve(parts, {part: presets[part] for part in parts}, preset, values)
    loaded = of.data.load(configs["data"])
    return of.model.build(configs["model"], loaded), loaded


def _train(
    planned: Plan,
    device: torch.device,
    resume: bool,
    tensorboard: bool,
    on_progress: Callable[[Progress], None] | None,
    log_every: int,
    checkpoint_seconds: float,
) -> None:
    path, config = planned.path, planned.config
    with contextlib.ExitStack() as stack:
        stack.enter_context(store.lock(path))
        fresh = not (path / "config.toml").exists()
        checkpoint = store.enter(path, config, resume)
        stack.enter_context(torch.random.fork_rng(devices=cuda_devices(device)))
        torch.manual_seed(config["run"]["seed"])
        try:
            loaded = planned.programs
            data = loaded.data.load(planned.configs["data"])
            digest = digests(data)
            store.require_same_data(path, (checkpoint or {}).get("data", {}), digest)
            if checkpoint is not None and checkpoint["position"] >= checkpoint["total"]:
                logger.info("nothing to do: %s is finished (%d updates)", path, checkpoint["total"])
                return
            if said := getattr(data, "summary", ""):
                logger.info("%s", said)
            if fresh:
                refuse_ignored(loaded.model, planned.configs["model"], data, planned.without)
            model = loaded.model.build(planned.configs["model"], data).to(device)
            if device.type != "cpu" and hasattr(data, "to"):
                data = data.to(device)
            before = _held(model)
            trainer = loaded.inference.build(model, data, planned.configs["inference"])
            _require_as_built(model, before)
            _require_updates(trainer, planned.configs["inference"])
        except Exception:
            if fresh:
                store.leave(path)  # what is refused does not take the place of the run to come
            raise
        Loop(
            path, config, device, checkpoint, model, trainer, tensorboard, on_progress, log_every,
            checkpoint_seconds, digest,
        ).run()  # fmt: skip


def _require_updates(trainer: Any, config: Any) -> None:
    """Refuses settings by which nothing would be trained; a program without settings may do so."""
    if getattr(trainer, "total", 1) == 0 and (names := settings_.leaves(type(config))):
        counts = [name for name in names if name.rpartition(".")[2].endswith("updates")]
        raise ValueError(
            "nothing would be trained, since every phase has 0 updates: set "
            f"{' or '.join(counts or names)} to 1 or more"
        )


def programs(
    program: str | Path, inference: str | Path | None = None, data: str | Path | None = None
) -> LoadedPrograms:
    """The programs of a run, as `fit` takes them."""
    if str(program) in registry.names("datasets"):  # fit hbv, fit table --data animals.csv
        if data is not None and _is_program(data):
            raise ValueError(
                f"{program} and {data} are both data sets: leave --data out, or name a model, as "
                f"in plot-attractors fit {ATTRACTOR} --data {data}"
            )
        program, data = ATTRACTOR, program
    elif re.fullmatch(r"\w+", str(program)) and str(program) not in registry.names("models"):
        known = (*registry.names("models"), *registry.names("datasets"))
        raise ValueError(
            f"there is no model or data set {str(program)!r}: {suggestion(str(program), known)}"
            f"There are {', '.join(known)}; a file of your own is given by its path, ending in .py"
        )
    model = registry.load("models", program)
    of_data = str(default_data(model) if data is None else _kind_of(data))
    inference = str(inference or default_inference(model))
    of_inference = registry.load("inference", inference)
    dataset = registry.load("datasets", of_data)
    return LoadedPrograms(dataset, model, of_inference, (of_data, str(program), inference))


def _is_program(data: str | Path) -> bool:
    """Whether this names a data set, and not a file or folder of data."""
    return str(data) in registry.names("datasets") or str(data).endswith(".py")


def _kind_of(data: str | Path) -> str | Path:
    """The data set that a file or folder is read as: a folder and an array of three dimensions or
    more as images, another array as vectors, any other file as a table.
    """
    path = Path(data).expanduser()
    if _is_program(data):
        return data
    if path.is_dir():
        return "images"
    if path.suffix.lower() not in ARRAYS:
        return "table"
    with contextlib.suppress(OSError, ValueError, BadZipFile):
        loaded = np.load(path, mmap_mode="r")
        arrays = [loaded] if path.suffix.lower() == ".npy" else loaded.values()
        if any(array.ndim > 2 for array in arrays):  # of an archive one at a time
            return "images"
    return "vectors"


def _path_of(
    loaded: LoadedPrograms, data: str | Path | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """The setting `path`, where data of a user's own are given."""
    if data is None or _is_program(data):
        return {}
    if "path" not in settings_.leaves(loaded.data.Config):
        raise ValueError(f"the data set {loaded.names[0]} makes its own data: leave --data out")
    if "path" in settings:
        raise ValueError(
            f"--data sets path, and so does --set path={settings['path']}: leave one out"
        )
    return {"path": str(data)}


def defaults_of(model_program: ModuleType) -> tuple[str, str]:
    """Names of the data set and of the inference program where a run names none."""
    inference = registry.identifier("inference", default_inference(model_program))
    return default_data(model_program), inference


def default_inference(model_program: ModuleType) -> str:
    """The inference program that a model's Config names as its ``INFERENCE``, or the engine."""
    return str(getattr(model_program.Config, "INFERENCE", DEFAULT_INFERENCE))


def default_data(model_program: ModuleType) -> str:
    """The data set that a model's Config names as its ``DATA``, or hbv."""
    return str(getattr(model_program.Config, "DATA", DEFAULT_DATA))


def _device(device: str) -> torch.device:
    try:
        parsed = torch.device(device)
    except RuntimeError:
        raise ValueError(f"there is no device {device!r}: give cpu or cuda") from None
    if parsed.type == "cuda" and not torch.cuda.is_available():
        raise ValueError("torch finds no device cuda on this machine: give cpu")
    if parsed.type not in ("cpu", "cuda"):
        raise ValueError(f"there is no training on the device {device!r}: give cpu or cuda")
    return parsed


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
        store.check_settings(self.path, self.config)

    def __repr__(self) -> str:
        return f"Run({pretrained.shown(self.path)!r})"

    @property
    def program_name(self) -> str:
        """Name of the model program, or the path of a user's own file."""
        return str(self.config["run"]["program"])

    @property
    def inference_name(self) -> str:
        """Name of the inference program, or the path of a user's own file."""
        return str(self.config["run"]["inference"])

    @property
    def data_name(self) -> str:
        """Name of the data set's program, or the path of a user's own file."""
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
        """The model program's Config."""
        return self._config("models")

    @cached_property
    def inference_config(self) -> Any:
        """The inference program's Config; ValueError where it has not all of the settings any more
        that the run was trained with.
        """
        try:
            return self._config("inference")
        except ValueError as error:
            raise ValueError(
                f"{self.path} was trained by {self.inference_name} of another version: {error}"
            ) from error

    def _config(self, kind: registry.Kind) -> Any:
        part, program = self.programs[kind]
        return settings_.from_table(registry.load(kind, program).Config, self.config[part])

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions, machine, commit, command line and times; empty where the file is missing."""
        return environment_.read(self.path)

    @cached_property
    def data(self) -> Any:
        """The data that the run was trained on; ValueError where they were changed since."""
        with self._seeded():
            return self._load_data()

    def _load_data(self) -> Any:
        told = logging.getLogger("plot_attractors.data")  # what it says was said at the training
        level = told.level
        told.setLevel(logging.ERROR)
        try:
            data = registry.load("datasets", self.data_name).load(self.data_config)
        finally:
            told.setLevel(level)
        if then := store.data_digests(self.path):
            store.require_same_data(self.path, then, digests(data))
        return data

    def check_data(self) -> None:
        """Raises ValueError where the data were changed since the training; data that cannot be
        read are left to those who need them.
        """
        if store.data_digests(self.path):
            try:
                _ = self.data
            except store.OtherData:
                raise
            except Exception as error:  # of a program, of any kind
                logger.debug("%s: %s", self.path, error)

    @cached_property
    def inference(self) -> Any:
        """The inference at the last checkpoint, as built around `model`; ValueError where only the
        weights of the model were kept.
        """
        if store.has_weights_alone(self.path):
            raise ValueError(f"{self.path} holds a trained model, and nothing of its inference")
        state, program = self._state()["inference"], registry.load("inference", self.inference_name)
        with self._seeded():
            model = self._built()
            inference = program.build(model, self.data, self.inference_config)
        with store.compatible(self.path):
            inference.load_state_dict(state)
        self.__dict__["model"] = model.eval()
        return inference

    @cached_property
    def model(self) -> Any:
        """The trained model, built by its program alone."""
        state = self._state()["inference"]["model"]
        with self._seeded():
            model = self._built()
        with store.compatible(self.path):
            model.load_state_dict(state)
        return model.eval()

    def _state(self) -> dict[str, Any]:
        """The last checkpoint, with a model whose numbers are finite."""
        checkpoint = store.load_checkpoint(self.path)
        if "model" not in checkpoint.get("inference", {}):
            raise ValueError(f"the checkpoint of {self.path} holds no model: fit it again")
        for name, value in checkpoint["inference"]["model"].items():
            if value.is_floating_point() and not bool(value.isfinite().all()):
                raise ValueError(
                    f"{self.path} has a model whose {name} is not finite: fit it again"
                )
        return checkpoint

    def _built(self) -> torch.nn.Module:
        """The model as at the start of the run; the data that were loaded for it are kept."""
        data = self._load_data()
        self.__dict__.setdefault("data", data)
        model: torch.nn.Module = registry.load("models", self.program_name).build(
            self.model_config, data
        )
        return model

    def ask(self, what: Any, draws: int = 1000, most: int = 5, seed: int = 0) -> Any:
        """What the trained attractor model says of an input, how sure, and how fast: tables of
        inputs and sentences; see `analysis.ask.ask`, and `analysis.ask.read_inputs` for what may
        stand for inputs.
        """
        from plot_attractors.analysis import ask

        return ask.ask(self, what, draws, most, seed)

    @property
    def position(self) -> tuple[int, int]:
        """Updates done at the last checkpoint, and updates of the whole schedule."""
        checkpoint = store.load_checkpoint(self.path)
        return int(checkpoint["position"]), int(checkpoint["total"])

    def metrics(self) -> pd.DataFrame:
        """The rows of ``metrics.csv``: step, phase, cycle, seconds, what the inference reports;
        none where it is missing or damaged, which the log says of a finished run.
        """
        file = self.path / "metrics.csv"
        if fault := store.metrics_fault(self.path):
            logger.warning("%s %s: nothing is shown of the training", file, fault)
            return pd.DataFrame()
        try:
            return pd.read_csv(file)
        except (pd.errors.EmptyDataError, FileNotFoundError):
            return pd.DataFrame()

    @contextlib.contextmanager
    def _seeded(self) -> Iterator[None]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            yield
