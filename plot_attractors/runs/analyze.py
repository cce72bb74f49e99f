"""Analyses: programs that turn a run into tables and figures in its folder ``analyses``."""

from __future__ import annotations

import contextlib
import json
import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from plot_attractors.runs import Run, pretrained, registry, tables
from plot_attractors.runs.settings import from_table
from plot_attractors.runs.store import is_alive

__all__ = [
    "AnalysisResult", "about", "analyze", "applies", "condition", "redraw", "require", "slow",
]  # fmt: skip

ABOUT = ".about.json"  # in the folder of an analysis: its program, title and captions

Settings = Mapping[str, Any]

logger = logging.getLogger("plot_attractors")


class AnalysisResult(NamedTuple):
    """Outcome of one analysis program: its folder, and the error that stopped it, if any."""

    name: str
    out: Path
    seconds: float
    error: Exception | None
    left: int = 0  # analyses still to be made


def analyze(
    run: str | Path | Run,
    names: str | Path | Iterable[str | Path] | None = None,
    *,
    settings: Mapping[str, Settings] | None = None,
    missing: bool = False,
    quick: bool = False,
    draw: bool = True,
    out: str | Path | None = None,
    jobs: int = 1,
    on_result: Callable[[AnalysisResult], None] | None = None,
) -> list[AnalysisResult]:
    """Run analysis programs on a run, each into ``analyses/<name>``.

    Each starts from the seed after the run's, so that its result does not depend on the others. One
    that fails leaves its earlier results and the other analyses alone; where only its figures fail,
    its tables are kept, and the error says so. An analysis program may
    define ``NEEDS``, see `plot_attractors.analysis.shape`; where a run lacks it, the analysis is
    left out, with its `condition` in the log, or refused if it was named.

    Args:
        run: a run, or its directory, or ``pretrained:NAME``.
        names: analysis programs, by name or by path, each made once; by default all that apply.
        settings: overrides of the fields of an analysis' Config, by the name of the analysis.
        missing: only those that apply and that the run does not have yet.
        quick: of all, without those whose programs say that they are ``SLOW``.
        draw: whether figures are drawn; without, `redraw` does it later.
        out: where to copy a model of the package to, whose analyses are written there; by default
            ``./pretrained-NAME``.
        jobs: analyses made at once, each in a process of its own on its share of the cores; 1 makes
            them one after the other in this process. Other numbers of threads may round differently
            in the last digits.
        on_result: called after each.

    Raises:
        ValueError: the directory holds no fitted run, its data were changed since, a name or a
            setting is unknown, two programs have one name, `out` holds something else or is not
            needed, or jobs is below 1.
    """
    run = run if isinstance(run, Run) else Run(run)
    _ = run.position  # refuses a directory that holds no fitted run
    run.check_data()
    if jobs < 1:
        raise ValueError(f"the number of analyses at once must be 1 or more, not {jobs}")
    names = [names] if isinstance(names, str | Path) else names
    named = names is not None and bool(names := list(names))
    files = (registry.find("analyses", name) for name in names or registry.names("analyses"))
    paths = list(dict.fromkeys(files))
    for path in paths:
        if alike := [str(other) for other in paths if other.stem == path.stem and other != path]:
            raise ValueError(
                f"{path} and {alike[0]} would both write analyses/{path.stem}: rename one of them"
            )
    if quick and not named:
        left_out = slow()
        paths = [path for path in paths if path.stem not in left_out]
    changed = settings or {}
    _check_settings(paths, changed)
    if (path := pretrained.writable(run.path, out)) != run.path:
        run = Run(path)
    if missing:
        paths = [path for path in paths if not (run.path / "analyses" / path.stem).is_dir()]
        named = False
    results: dict[Path, AnalysisResult] = {}
    without: list[Path] = []  # analyses that do not apply

    def end(path: Path, result: AnalysisResult | None) -> None:
        if result is None:
            logger.info("left out: %s", condition(registry.load("analyses", path), path.stem))
            without.append(path)
            return
        result = result._replace(left=len(paths) - len(results) - len(without) - 1)
        results[path] = result
        if on_result is not None:
            on_result(result)

    jobs = min(jobs, len(paths))
    if jobs <= 1:
        for path in paths:
            end(path, _analyze(run, path, named, draw, changed.get(path.stem, {})))
        return list(results.values())
    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    threads = max(1, torch.get_num_threads() // jobs)
    pool = ProcessPoolExecutor(jobs, context, _begin_process, (run.path, threads))
    with _threads_of_processes(threads), pool:
        futures = {
            pool.submit(_analyze_in_process, path, named, draw, changed.get(path.stem, {})): path
            for path in paths
        }
        try:
            for future in as_completed(futures):
                end(futures[future], future.result())
        except BrokenProcessPool:
            dead = [path.stem for path in paths if _incomplete(run, path)]
            raise MemoryError(
                f"the process of an analysis was killed, that of {' or '.join(dead)}, perhaps for "
                "want of memory: try --jobs 1"
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [results[path] for path in paths if path in results]


def _check_settings(paths: Sequence[Path], changed: Mapping[str, Settings]) -> None:
    by_name = {path.stem: path for path in paths}
    for name, of_analysis in changed.items():
        if name not in by_name:
            raise ValueError(
                f"there are settings of {name!r}, which is not made: "
                f"{registry.suggestion(name, by_name)}These are {', '.join(by_name)}"
            )
        program = registry.load("analyses", by_name[name])
        if of_analysis and not hasattr(program, "measure"):
            raise ValueError(f"the analysis {name} has no settings: leave --set out")
        if of_analysis:
            from_table(program.Config, of_analysis)


# The run of a process that makes analyses, kept so that they share what they compute of the model.
_analyzed: Run


@contextlib.contextmanager
def _threads_of_processes(threads: int) -> Iterator[None]:
    """Processes that start meanwhile give NumPy and SciPy as many threads as torch, where the user
    has not said how many.
    """
    unset = [name for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, str(threads)))
    try:
        yield
    finally:
        for name in unset:
            del os.environ[name]


def _begin_process(path: Path, threads: int) -> None:
    global _analyzed
    os.environ.setdefault("MPLBACKEND", "Agg")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    torch.set_num_threads(threads)
    _analyzed = Run(path)


def _analyze_in_process(
    path: Path, named: bool, draw: bool, changed: Settings
) -> AnalysisResult | None:
    result = _analyze(_analyzed, path, named, draw, changed)
    try:
        pickle.loads(pickle.dumps(result))
    except Exception:  # not every error can be sent to another process
        assert result is not None
        return result._replace(error=RuntimeError(f"{type(result.error).__name__}: {result.error}"))
    return result


def slow() -> list[str]:
    """Names of the analyses that take most of the time, by ``SLOW`` in their programs."""
    names = registry.names("analyses")
    return [name for name in names if getattr(registry.load("analyses", name), "SLOW", False)]


def applies(program: ModuleType, run: Run) -> bool:
    """Whether a run has what an analysis program ``NEEDS``, and it need not be named."""
    return not hasattr(program, "NAMED_ONLY") and _met(program, run)


def _met(program: ModuleType, run: Run) -> bool:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        return not hasattr(program, "NEEDS") or bool(program.NEEDS.met(run))


def condition(program: ModuleType, name: str) -> str:
    """What an analysis needs of a run, a sentence without its full stop."""
    return f"{name} needs {getattr(program, 'NAMED_ONLY', program.NEEDS.words)}"


def require(program: ModuleType, name: str, run: Run) -> None:
    """Raises the ValueError of an analysis that was named, and cannot be made of a run."""
    if not _met(program, run):
        raise ValueError(f"{name} needs {program.NEEDS.words}: leave it out")


def _temporary(run: Run, path: Path) -> Path:
    """Where an analysis of this process writes until it is complete."""
    return run.path / "analyses" / f".{path.stem}.{os.getpid()}.tmp"


def _incomplete(run: Run, path: Path) -> list[tuple[Path, int]]:
    """Where processes write an analysis, or did before they died, and their numbers."""
    folders = (run.path / "analyses").glob(f".{path.stem}.*.tmp")
    numbers = [(folder, folder.name.split(".")[-2]) for folder in folders]
    return [(folder, int(number)) for folder, number in numbers if number.isdecimal()]


def _analyze(
    run: Run, path: Path, named: bool, draw: bool, changed: Settings
) -> AnalysisResult | None:
    """One analysis program on a run; None where it does not apply and was not named."""
    out = run.path / "analyses" / path.stem
    temporary = _temporary(run, path)
    begun = time.monotonic()
    error: Exception | None = None
    try:
        program = registry.load("analyses", path)
        if not named and not applies(program, run):
            return None
        require(program, path.stem, run)
        for place in (out.parent, out):
            if place.is_symlink() or (place.exists() and not place.is_dir()):
                raise ValueError(f"{place} is a link or a file, where a folder belongs: remove it")
        for folder, process in _incomplete(run, path):
            if folder == temporary or not is_alive(process):
                shutil.rmtree(folder, ignore_errors=True)
        temporary.mkdir(parents=True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed + 1)
            if hasattr(program, "measure"):
                config = from_table(program.Config, changed)
                tables.write(temporary, program.measure(run, config))
                try:
                    if draw:
                        tables.draw(program, temporary)
                except (Exception, SystemExit) as caught:
                    error = ValueError(
                        f"its tables are complete, in {out}, and its figures could not be drawn: "
                        f"{type(caught).__name__}: {' '.join(str(caught).split())}"
                    )
                    error.__cause__ = caught
            else:
                program.analyze(run, temporary)
        kept = {
            "program": registry.identifier("analyses", path),
            "title": getattr(program, "TITLE", _title(path.stem)),
            "captions": getattr(program, "CAPTIONS", {}),
        }
        (temporary / ABOUT).write_text(json.dumps(kept), encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        temporary.rename(out)
    except Exception as caught:
        error = caught
    except SystemExit as ended:
        error = ValueError(registry.exit_sentence(ended))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return AnalysisResult(path.stem, out, time.monotonic() - begun, error)


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def about(folder: Path) -> tuple[str, dict[str, str]]:
    """TITLE and CAPTIONS of the program that filled the folder of an analysis, as it kept them; no
    program of the folder's is run.
    """
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        kept = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        return str(kept["title"]), {str(k): str(v) for k, v in kept["captions"].items()}
    with contextlib.suppress(ValueError):
        if folder.name in registry.names("analyses"):
            program = registry.load("analyses", folder.name)
            return program.TITLE, program.CAPTIONS
    return _title(folder.name), {}


def redraw(
    run: str | Path,
    names: str | Path | Iterable[str | Path] | None = None,
    on_result: Callable[[AnalysisResult], None] | None = None,
) -> list[AnalysisResult]:
    """Draw the figures of analyses anew from the tables in their folders, without the model.

    By default all that programs of the package made and can be drawn from tables; those of a user's
    own are named by their path. `on_result` is called after each. Raises ValueError where the
    directory is no run, or holds no tables of a named analysis.
    """
    path = Run(run).path
    names = [names] if isinstance(names, str | Path) else names
    programs = {Path(name).stem: name for name in names or ()}
    given = list(programs)
    made = sorted(p.name for p in (path / "analyses").glob("*") if not p.name.startswith("."))
    results = []
    for name in given or made:
        folder, begun = path / "analyses" / name, time.monotonic()
        if name not in made:
            raise ValueError(f"{path} has no tables of {name}: make the analysis first")
        error: Exception | None = None
        try:
            if name not in programs and name not in registry.names("analyses"):
                logger.info("%s is left as it is: name the file of its program", name)
                continue
            program = registry.load("analyses", programs.get(name, name))
            if hasattr(program, "draw"):
                with tables.complete(folder):
                    tables.draw(program, folder)
            elif not given:
                continue
            else:
                error = ValueError("its program draws while it measures: make the analysis again")
        except Exception as caught:
            error = caught
        results.append(AnalysisResult(name, folder, time.monotonic() - begun, error))
        if on_result is not None:
            on_result(results[-1])
    return results
