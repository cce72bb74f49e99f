"""What faults do to runs.

Kinds: kill_training, kill_analysis, kill_report (kill -9 at random moments, then the same command
again), full_disk (no file may grow beyond a size), two_processes, clock (files of tomorrow),
read_only, malformed (tables, vectors, settings and files of runs); all, if none is named. Writes
FOLDER/faults.csv: how many trials were refused in one sentence (or went on to the end), accepted
rightly, and wrong: a traceback, an exit status that is none of ours, a result that differs from
that of a run without faults, or one that was lost. It fails where any was wrong.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from shared import among, arguments, parser
from typer.testing import CliRunner

from plot_attractors import cli
from plot_attractors.runs.store import load_checkpoint

PROGRAM = [sys.executable, "-m", "plot_attractors"]
FIT = ["fit", "hbv", "--preset", "smoke", "--threads", "1", "--checkpoint-seconds", "0"]
TIMES = 100  # a command is killed
LIMITS = (0, 100, 1000, 10_000, 100_000, 200_000, 400_000)  # bytes that a file may have
MALFORMED = 500
REFUSED, RIGHT, WRONG = "refused or resumed", "accepted rightly", "wrong"


def started(
    *command: str | Path, before: Sequence[str] = (), **options: Any
) -> subprocess.Popen[str]:
    parts = [*before, *PROGRAM, *map(str, command)]
    return subprocess.Popen(parts, stdout=-1, stderr=-1, text=True, **options)


def finished(*command: str | Path, **options: Any) -> tuple[int, str]:
    """Exit status, and what stands on stderr."""
    process = started(*command, **options)
    _, told = process.communicate(timeout=600)
    return process.returncode, told


def refused(status: int, told: str) -> bool:
    """Whether a command gave one sentence, and the status of an error."""
    lines = [line for line in told.splitlines() if "Error:" in line]
    return status == 2 and "Traceback" not in told and len(lines) == 1


def parameters(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = load_checkpoint(run)["inference"]["model"]
    return found


def same(run: Path, other: Path) -> bool:
    here, there = parameters(run), parameters(other)
    return here.keys() == there.keys() and all(torch.equal(here[k], there[k]) for k in here)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that is not in the making, but for archives of samples, which hold a date."""
    files = [f for f in folder.rglob("*") if f.is_file() and f.suffix != ".nc"]
    return {str(f): f.read_bytes() for f in files if "/." not in str(f.relative_to(folder.parent))}


def killed(seconds: float, *command: str | Path) -> None:
    process = started(*command)
    time.sleep(seconds)
    process.kill()
    process.communicate()


def duration(*command: str | Path) -> float:
    begun = time.monotonic()
    assert finished(*command)[0] == 0
    return time.monotonic() - begun


def kill_training(folder: Path, whole: Path) -> Iterator[str]:
    took = duration(*FIT, "--out", folder / "timed")
    for k in range(TIMES):
        run = folder / f"killed-{k}"
        killed(random.uniform(0.3, 1.0) * took, *FIT, "--out", run, "--resume")
        status, _ = finished(*FIT, "--out", run, "--resume")
        yield REFUSED if status == 0 and same(run, whole) else WRONG
        shutil.rmtree(run)


def looks(run: Path) -> list[list[str | Path]]:
    return [["analyze", run, "data"], ["report", run]]


def kill_again(command: list[str | Path], made: Path) -> Iterator[str]:
    """A command that replaces what it made before: that stands until the new one is complete."""
    took = duration(*command)
    before = contents(made)
    for _ in range(TIMES):
        killed(random.uniform(0.3, 1.0) * took, *command)
        yield REFUSED if contents(made) == before else WRONG


def kill_analysis(folder: Path, whole: Path) -> Iterator[str]:
    run = folder / "analysed"
    shutil.copytree(whole, run)
    command: list[str | Path] = ["analyze", run, "data", "--jobs", "1"]
    yield from kill_again(command, run / "analyses")
    yield REFUSED if finished(*command)[0] == 0 else WRONG


def kill_report(folder: Path, whole: Path) -> Iterator[str]:
    run = folder / "reported"
    shutil.copytree(whole, run)
    finished("analyze", run, "data")
    yield from kill_again(["report", run], run / "report.html")


def full_disk(folder: Path, whole: Path) -> Iterator[str]:
    for limit in LIMITS:
        run = folder / f"full-{limit}"

        def small(limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        status, told = finished(*FIT, "--out", run, preexec_fn=small)
        again, _ = finished(*FIT, "--out", run, "--resume")
        held = again == 0 and same(run, whole)
        yield (RIGHT if status == 0 else REFUSED) if held and status in (0, 2) else WRONG
        if not held:
            print(limit, status, told[-300:])
        for command in looks(run):
            status, told = finished(*command, preexec_fn=small)
            fine = status == 0 or (status in (1, 2) and "Traceback" not in told)
            yield (RIGHT if status == 0 else REFUSED) if fine else WRONG


def two_processes(folder: Path, whole: Path) -> Iterator[str]:
    for k in range(10):
        run = folder / f"two-{k}"
        pair = [started(*FIT, "--out", run, "--resume") for _ in range(2)]
        told = [process.communicate()[1] for process in pair]
        ends = sorted(process.returncode for process in pair)
        one = ends in ([0, 2], [0, 0]) and not any("Traceback" in text for text in told)
        yield REFUSED if one and same(run, whole) else WRONG


def clock(folder: Path, whole: Path) -> Iterator[str]:
    run = folder / "clock"
    killed(0.8 * duration(*FIT, "--out", folder / "clock-timed"), *FIT, "--out", run)
    tomorrow = time.time() + 86_400
    for file in run.rglob("*"):
        os.utime(file, (tomorrow, tomorrow))
    status, _ = finished(*FIT, "--out", run, "--resume")
    yield RIGHT if status == 0 and same(run, whole) else WRONG
    for command in looks(run):
        yield RIGHT if finished(*command)[0] == 0 else WRONG


def read_only(folder: Path, whole: Path) -> Iterator[str]:
    """Without root's right to write everywhere."""
    without = ["setpriv", "--bounding-set=-dac_override,-fowner"] if os.geteuid() == 0 else []
    run = folder / "read-only"
    shutil.copytree(whole, run)
    places = [run, *run.rglob("*")]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    fit: list[str | Path] = [*FIT, "--out", run / "new"]
    for command in [fit, *looks(run)]:
        status, told = finished(*command, before=without)
        yield REFUSED if status in (1, 2) and "Traceback" not in told else WRONG
    for place in places:
        place.chmod(0o755)


def malformed(folder: Path, whole: Path) -> Iterator[str]:
    """Small commands in this process: each ends in one sentence, or rightly."""
    rng = np.random.default_rng(0)
    makers: list[Callable[[Path, Any], list[str | Path]]] = [
        bad_table, bad_array, bad_setting, bad_run, bad_command,
    ]  # fmt: skip
    random.seed(0)
    for k in range(MALFORMED):
        place = folder / f"malformed-{k}"
        place.mkdir()
        if makers[k % len(makers)] is bad_run:
            shutil.copytree(whole, place / "run")
        command = makers[k % len(makers)](place, rng)
        result = CliRunner().invoke(cli.app, [str(part) for part in command])
        told = result.stderr
        if result.exit_code == 0:
            yield RIGHT
        elif result.exit_code in (1, 2) and len(ONE.findall(told)) == 1 and not OURS.search(told):
            yield REFUSED
        else:
            print(command, result.exit_code, repr(result.exception), told[-300:])
            yield WRONG
        shutil.rmtree(place)


ONE = re.compile("Error:|─ Error ─")  # of ours, or of the options of a command
OURS = re.compile("Traceback|--debug shows|Warning:")  # signs of a fault that nobody foresaw
TINY = ["--preset", "smoke", "--threads", "1"]
CELLS = (
    "", "2", "-1", "nan", "inf", "1e400", "abc", "NA", "0.5", "true", "\N{SNOWMAN}", '"', "0,1",
    "1\n", "99999999999999999999", "\0", "=1+1", "<b>",
)  # fmt: skip


def bad_table(place: Path, rng: Any) -> list[str | Path]:
    x = rng.integers(0, 2, (12, 4)).astype(str).astype(object)
    for _ in range(int(rng.integers(1, 4))):
        x[rng.integers(12), rng.integers(4)] = CELLS[rng.integers(len(CELLS))]
    header = ["a", "b", "c", "d"]
    if rng.random() < 0.3:
        header[rng.integers(4)] = ["", "a", "label", "a b", "$x$"][rng.integers(5)]
    text = "\n".join([",".join(header), *(",".join(row) for row in x)])
    if rng.random() < 0.1:
        text = text[: int(rng.integers(len(text)))]
    file = place / "t.csv"
    file.write_text(
        text, encoding=["utf-8", "utf-16", "latin-1"][int(rng.integers(3))], errors="replace"
    )
    more = [["--set", "labels=d"], ["--set", "names=a"], ["--set", "at_least=a"], []][
        int(rng.integers(4))
    ]
    return ["fit", "table", "--data", file, *more, *TINY, "--out", place / "run"]


def bad_array(place: Path, rng: Any) -> list[str | Path]:
    arrays: list[Any] = [
        np.zeros((4, 3)), np.zeros((0, 3)), np.zeros(5), np.full((5, 3), np.nan), np.eye(4),
        np.eye(4, dtype=complex), np.array([["a"]]), np.zeros((3, 2, 2)), np.full((4, 4), 1e300),
        np.eye(5, dtype=bool), np.full((3, 3), np.inf), rng.normal(size=(2, 2)),
    ]  # fmt: skip
    file = place / ("x.npy" if rng.random() < 0.5 else "x.npz")
    chosen = arrays[int(rng.integers(len(arrays)))]
    np.save(file, chosen) if file.suffix == ".npy" else np.savez(file, x=chosen)
    if rng.random() < 0.4:
        content = bytearray(file.read_bytes())
        content[int(rng.integers(len(content)))] ^= 0xFF
        file.write_bytes(content[: int(rng.integers(1, len(content) + 1))])
    program = ["vectors", "images", "table"][int(rng.integers(3))]
    return ["fit", program, "--data", file, *TINY, "--out", place / "run"]


def bad_setting(place: Path, rng: Any) -> list[str | Path]:
    names = (
        "latent", "units", "steps", "epsilon", "depth", "bits", "language.groups", "dynamics.sees",
        "language.max_length", "reward.beta", "m_step.batch", "e_updates", "walk.share", "cycles",
        "lr", "no_such", "language", "vocabulary.rotate", "hold_out", "sentences.candidates",
    )  # fmt: skip
    values = ("", "-1", "0", "1e99", "nan", "inf", "none", "abc", "1,1", "true", "1e-320", "10**9")
    name, value = names[int(rng.integers(len(names)))], values[int(rng.integers(len(values)))]
    if name == "depth" and value == "0":
        value = "-0"
    return ["fit", "hbv", *TINY, "--set", f"{name}={value}", "--out", place / "run"]


def bad_run(place: Path, rng: Any) -> list[str | Path]:
    run = place / "run"
    file = (
        run
        / ["config.toml", "environment.json", "checkpoint.pt", "metrics.csv"][int(rng.integers(4))]
    )
    content = bytearray(file.read_bytes())
    kind = int(rng.integers(5))
    if kind == 0:
        file.unlink()
    elif kind == 1:
        file.write_bytes(content[: int(rng.integers(len(content)))])
    elif kind == 2:
        for _ in range(3):
            content[int(rng.integers(len(content)))] ^= int(rng.integers(1, 256))
        file.write_bytes(content)
    elif kind == 3:
        file.write_bytes(json.dumps([1, {"a": None}]).encode())
    else:
        file.unlink()
        file.mkdir()
    command: list[list[str | Path]] = [
        ["analyze", run, "data", "--jobs", "1"], ["report", run], ["compare", run],
        [*FIT, "--out", run, "--resume"],
    ]  # fmt: skip
    return command[int(rng.integers(len(command)))]


def bad_command(place: Path, rng: Any) -> list[str | Path]:
    commands: list[list[str | Path]] = [
        ["fit", "hbvv"], ["fit", "hbv", "--preset", "fulll"], ["fit", "hbv", "--seed", "-1"],
        ["fit", "hbv", "--device", "tpu", *TINY, "--out", place / "run"], ["analyze", place],
        ["analyze", place / "none"], ["report", place], ["compare", place, place / "none"],
        ["fit", "hbv", "--inference", "vqvae", *TINY, "--out", place / "run"],
        ["fit", "hbv", "--track", "mlflow", *TINY, "--out", place / "run"],
        ["fit", "hbv", "--set", "a", *TINY, "--out", place / "run"], ["settings", "no"],
        ["fit", "vqvae", "--set", "data=none.csv", *TINY, "--out", place / "run"],
        ["fit", "hbv", "--data", place, *TINY, "--out", place / "run"], ["copy", "hbv", place],
        ["fit", "images", "--data", place, *TINY, "--out", place / "run"],
        ["fit", "hbv", "--threads", "0"], ["fit", "hbv", "--log-every", "0"],
    ]  # fmt: skip
    return commands[int(rng.integers(len(commands)))]


KINDS = (
    kill_training, kill_analysis, kill_report, full_disk, two_processes, clock, read_only,
    malformed,
)  # fmt: skip
SMALL = {"TIMES": 1, "LIMITS": (1000,), "MALFORMED": 5, "kinds": ["read_only", "malformed"]}


def main() -> None:
    names, options = [kind.__name__ for kind in KINDS], parser(__doc__)
    options.add_argument("folder", nargs="?", type=Path, metavar="FOLDER", help="a new one")
    options.add_argument("kinds", nargs="*", metavar="KIND", type=among(names), default=names)
    given = arguments(globals(), options)
    random.seed(0)
    torch.set_num_threads(1)
    whole = given.folder / "whole"
    assert finished(*FIT, "--out", whole)[0] == 0
    rows = []
    for kind in KINDS:
        if kind.__name__ not in given.kinds:
            continue
        begun = time.monotonic()
        place = given.folder / kind.__name__
        place.mkdir()
        counts = Counter(kind(place, whole))
        shutil.rmtree(place, ignore_errors=True)
        row = {"fault": kind.__name__, "trials": counts.total()}
        row |= {name: counts[name] for name in (REFUSED, RIGHT, WRONG)}
        rows.append(row | {"minutes": round((time.monotonic() - begun) / 60, 1)})
        pd.DataFrame(rows).to_csv(given.folder / "faults.csv", index=False)
        print(rows[-1], flush=True)
    raise SystemExit(any(row[WRONG] for row in rows))


if __name__ == "__main__":
    main()
