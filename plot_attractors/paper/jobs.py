"""What has to be done for the paper, and doing it: fits and analyses in processes of their own."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from plot_attractors.paper.fits import ATTRACTORS, DATA, MODELS, PRESETS, Program
from plot_attractors.paper.results import analyses_of
from plot_attractors.runs import registry, store
from plot_attractors.runs.run import plan as plan_fit

__all__ = [
    "KINDS", "Choice", "Outcome", "PlannedRun", "Running", "Step", "choose", "finished",
    "inapplicable", "lacking", "make", "plan", "steps_of",
]  # fmt: skip

Kind = Literal["fit", "analyze"]
KINDS: tuple[Kind, ...] = ("fit", "analyze")
PAGE = "page"  # beside KINDS: neither of them

_INAPPLICABLE = ".inapplicable"  # in the folder analyses of a run: names of what does not apply
_POLL_SECONDS = 0.1
_TICK_SECONDS = 1.0
_STOP_SECONDS = 60.0  # for a fit to write its checkpoint
_FAILED = re.compile(r"^(Error: .+|\w+ failed: .+)$", re.MULTILINE)
_SHARE = re.compile(r"^ *(\d+)%")  # how a line of a fit begins


# What there is to do.


class Choice(NamedTuple):
    """The data sets and models of the runs, and what is done with them."""

    data: tuple[str, ...] = DATA
    models: tuple[str, ...] = tuple(MODELS)
    kinds: tuple[Kind, ...] = KINDS


def choose(words: Sequence[str]) -> Choice:
    """The choice that words name: data sets, models, and fit, analyze or page. Words of one sort
    are alternatives, those of different sorts hold together; a sort that none names is whole.

    >>> choose(["hbv", "vqvae", "attractors"])[:2]
    (('hbv',), ('attractors', 'vqvae'))
    """
    known = [*DATA, *MODELS, *KINDS, PAGE]
    for word in words:
        if word not in known:
            raise ValueError(
                f"there is nothing called {word!r} to choose: {registry.suggestion(word, known)}"
                f"--only takes {', '.join(known[:-1])} or {PAGE}"
            )
    kinds: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in words)
    return Choice(
        tuple(data for data in DATA if data in words) or DATA,
        tuple(model for model in MODELS if model in words) or tuple(MODELS),
        kinds or (() if PAGE in words else KINDS),
    )


class PlannedRun(NamedTuple):
    """A model on a data set with a seed, and the directory of its run."""

    data: str
    model: str
    seed: int
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def analyses(self) -> list[str]:
        return analyses_of(self.data, self.model)


def plan(out: Path, preset: str, seeds: Sequence[int], choice: Choice) -> list[PlannedRun]:
    """The runs of a choice, seed by seed; ValueError where a directory holds a run of another
    preset or other settings.
    """
    runs = [
        PlannedRun(data, model, seed, out / "runs" / f"{data}-{model}-{seed}")
        for seed in seeds
        for data in choice.data
        for model in choice.models
    ]
    for run in runs:
        if not (run.path / "config.toml").is_file():
            continue
        there = store.read_config(run.path)["run"]["preset"]
        if there != preset:
            raise ValueError(
                f"{run.path} holds a run of the preset {there}: give --preset {there}, or choose "
                "another directory (--out)"
            )
        if "fit" in choice.kinds:  # a page may be made of what an earlier version has fitted
            name, settings = _program(run).name, _settings(run, preset)
            planned = plan_fit(name, None, preset, run.seed, run.path, settings)
            store.require_same(run.path, planned.config)
    return runs


def _program(run: PlannedRun) -> Program:
    return MODELS[run.model].programs[run.data]


def _settings(run: PlannedRun, preset: str) -> dict[str, Any]:
    return {**PRESETS[preset].settings.get(run.data, {}), **_program(run).settings}


def finished(path: Path) -> bool:
    """Whether a directory holds a run whose training has ended."""
    done = store.progress(path)
    return done is not None and done[0] >= done[1]


def inapplicable(run: PlannedRun) -> list[str]:
    """The analyses of a planned run that were found not to apply to it."""
    file = run.path / "analyses" / _INAPPLICABLE
    return file.read_text(encoding="utf-8").split() if file.is_file() else []


def lacking(run: PlannedRun) -> list[str]:
    """The analyses of a planned run that its directory does not hold, and that may apply."""
    names = [name for name in run.analyses if not (run.path / "analyses" / name).is_dir()]
    return [name for name in names if name not in inapplicable(run)]


@dataclass(frozen=True)
class Step:
    """A fit or the analyses of a run, as a command.

    ``weight``: about how long it takes, in units that are the same for all steps of a preset.
    """

    run: PlannedRun
    kind: Kind
    command: tuple[str, ...]
    log: Path
    weight: float

    @property
    def name(self) -> str:
        return f"{self.run.name} {self.kind}"


def steps_of(run: PlannedRun, preset: str, kinds: Sequence[Kind]) -> list[Step]:
    """What is left to do of a run, in order; nothing is analysed that is not fitted."""
    done = finished(run.path)
    minutes = MODELS[run.model].minutes[run.data] if preset != "smoke" else (1.0, 1.0)
    steps = []

    def step(kind: Kind, *arguments: str, weight: float) -> Step:
        command = (sys.executable, "-m", "plot_attractors", kind, *arguments)
        log = run.path.parents[1] / "log" / f"{run.name}-{kind}.log"
        return Step(run, kind, command, log, weight)

    if not done and "fit" in kinds:
        options = ["--preset", preset, "--seed", str(run.seed), "--out", str(run.path), "--resume"]
        options += _options(_settings(run, preset))
        steps.append(step("fit", _program(run).name, *options, weight=minutes[0]))
    names = lacking(run)
    if names and "analyze" in kinds and (done or steps):
        sizes = {name: PRESETS[preset].sizes.get(name, {}) for name in names}
        changed = {f"{name}.{key}": v for name, of in sizes.items() for key, v in of.items()}
        options = [str(run.path), *names, "--missing", "--jobs", "1", *_options(changed)]
        if run.model != ATTRACTORS:  # whose figures the page does not show
            options.append("--no-draw")
        steps.append(step("analyze", *options, weight=minutes[1]))
    return steps


def _options(settings: Mapping[str, Any]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


# Doing it.


class Outcome(NamedTuple):
    """How a step ended: `error` is a sentence, or nothing; `left_out`: steps that needed it."""

    step: Step
    seconds: float
    error: str = ""
    left_out: int = 0


@dataclass
class Running:
    """A step in its process, with the weight of what is left of it, and the steps that come after
    it.
    """

    step: Step
    rest: list[Step]
    process: subprocess.Popen[bytes] = field(repr=False)
    begun: float
    offset: int  # of the log, where this process began to write
    share_before: float = 0.0  # of a fit, done when this process began

    @classmethod
    def start(cls, steps: Sequence[Step]) -> Running:
        step, *rest = steps
        step.log.parent.mkdir(parents=True, exist_ok=True)
        environment = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", **os.environ}
        with step.log.open("ab") as log:
            log.write(f"$ {shlex.join(step.command)}\n".encode())
            log.flush()
            offset = log.tell()
            process = subprocess.Popen(
                step.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process, which stops that one
            )
        done = store.progress(step.run.path) if step.kind == "fit" else None
        before = done[0] / max(1, done[1]) if done else 0.0
        left = replace(step, weight=step.weight * (1 - before))
        return cls(left, list(rest), process, time.monotonic(), offset, before)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    @property
    def written(self) -> str:
        """What the process has written so far."""
        with self.step.log.open("rb") as log:
            log.seek(self.offset)
            return log.read().decode(errors="replace")

    @property
    def share(self) -> float | None:
        """The share of a fit that is done, by its last line; of analyses, by their folders."""
        if self.step.kind == "analyze":
            run = self.step.run
            return 1 - len(lacking(run)) / len(run.analyses)
        lines = self.written.splitlines()
        found = _SHARE.match(lines[-1]) if lines else None
        return int(found[1]) / 100 if found else None

    def outcome(self) -> Outcome:
        status = self.process.returncode
        if status == 0:
            self._note_inapplicable()
            return Outcome(self.step, self.seconds)
        text = self.written
        lines = _FAILED.findall(text) or text.strip().splitlines()[-1:]
        sentence = "; ".join(line.removeprefix("Error: ") for line in lines)
        if status < 0:
            sentence = f"killed by signal {-status}, perhaps for want of memory"
        error = sentence or f"exit status {status}"
        return Outcome(self.step, self.seconds, error, len(self.rest))

    def _note_inapplicable(self) -> None:
        """Keep what analyses, of which none failed, have left out."""
        run = self.step.run
        if self.step.kind == "analyze" and (names := lacking(run)):
            (run.path / "analyses").mkdir(exist_ok=True)
            text = "\n".join([*inapplicable(run), *names])
            store.write(run.path / "analyses" / _INAPPLICABLE, text.encode())


Queue = Sequence[Sequence[Step]]  # the steps of each run


def make(
    work: Queue,
    jobs: int,
    on_end: Callable[[Outcome], None],
    on_tick: Callable[[Sequence[Running], Queue], None],
) -> list[Outcome]:
    """Do the steps of every run, `jobs` at once, each in a process with a log of its own.

    A step that fails ends the steps of its run, and no others. `on_end` is called after each step;
    `on_tick` every second, with what runs and what waits. Whatever ends this function ends
    the processes, which leaves fits at a checkpoint and analyses whole or not there.

    Raises KeyboardInterrupt after SIGINT, SIGTERM or SIGHUP.
    """
    waiting = [list(steps) for steps in work if steps]
    running: list[Running] = []
    outcomes: list[Outcome] = []
    ticked = -_TICK_SECONDS
    with _interrupted_by_signals():
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    running.append(Running.start(waiting.pop(0)))
                for ended in [one for one in running if one.process.poll() is not None]:
                    running.remove(ended)
                    outcomes.append(ended.outcome())
                    if ended.rest and not outcomes[-1].error:
                        running.append(Running.start(ended.rest))
                    on_end(outcomes[-1])
                if time.monotonic() - ticked >= _TICK_SECONDS:
                    ticked = time.monotonic()
                    on_tick(running, waiting)
                time.sleep(_POLL_SECONDS)
        finally:
            _stop(running)
    return outcomes


def _stop(running: Sequence[Running]) -> None:
    """Ask processes to end, after a checkpoint, and end by force what has not in a minute."""
    for one in running:
        one.process.terminate()
    end = time.monotonic() + _STOP_SECONDS
    for one in running:
        try:
            one.process.wait(max(0.0, end - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            one.process.kill()
            one.process.wait()


@contextlib.contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as SIGINT does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            if number := getattr(signal, name, None):  # Windows has no SIGHUP
                before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
