"""Several processes of torchrun: equal parameters, means of gradients, one run directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from plot_attractors import processes
from plot_attractors.runs import Run, fit, store

TOYS = Path(__file__).parents[1] / "toy_programs"
SLICED: dict[str, Any] = {
    "program": str(TOYS / "toy_model.py"),
    "inference": str(TOYS / "sliced_inference.py"),
    "log_every": 1,
}


def torchrun(count: int, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(count), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes, **more)


def fit_by(count: int, out: Path, **arguments: Any) -> tuple[int, str]:
    """The exit code and messages of a fit by so many processes."""
    text = json.dumps({**arguments, "out": str(out)})
    process = torchrun(count, str(TOYS / "fit_and_keep.py"), text)
    _, said = process.communicate(timeout=300)
    return process.returncode, said


def ends(out: Path, count: int) -> list[dict[str, Any]]:
    """What each process ended with."""
    return [torch.load(f"{out}-rank-{k}.pt", weights_only=True) for k in range(count)]


def assert_same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def metrics(path: Path) -> pd.DataFrame:
    return Run(path).metrics().drop(columns="seconds")


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(out=tmp_path_factory.mktemp("one") / "run", **SLICED)


@pytest.mark.parametrize("count", [2, 3])
def test_processes_with_a_slice_of_the_batch_each_do_what_one_does(
    one: Path, tmp_path: Path, count: int
) -> None:
    out = tmp_path / "run"
    code, said = fit_by(count, out, **SLICED)
    assert code == 0, said
    pd.testing.assert_frame_equal(metrics(out), metrics(one), rtol=1e-4)
    assert metrics(out)["loss"].iloc[-1] < 0.9 * metrics(out)["loss"].iloc[0]
    first, *others = ends(out, count)
    for other in others:
        assert_same(other["model"], first["model"])  # though begin drew at random
        assert not torch.equal(other["random"], first["random"])
    assert_same(Run(out).model.state_dict(), first["model"])
    files = {"config.toml", "metrics.csv", "checkpoint.pt", "environment.json"}
    assert {path.name for path in out.iterdir()} == files
    assert json.loads((out / "environment.json").read_text())["processes"] == count


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_run_goes_on_with_another_number_of_processes(
    one: Path, tmp_path: Path, before: int, after: int
) -> None:
    out = tmp_path / "run"
    slow = {**SLICED, "settings": {"pause": 0.1}}
    process = torchrun(
        before, "-m", "plot_attractors", "fit", SLICED["program"], "--inference",
        SLICED["inference"], "--out", str(out), "--log-every", "1", "--set", "pause=0.1",
        start_new_session=True,
    )  # fmt: skip
    ends_at = time.monotonic() + 300
    while not (out / "metrics.csv").is_file() or len((out / "metrics.csv").read_text()) < 200:
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # Ctrl-C at the terminal
    _, said = process.communicate(timeout=300)
    assert process.returncode != 0
    position, total = store.progress(out) or (0, 0)
    assert 0 < position < total
    assert said.count(f"Interrupted after update {position} of {total}") == 1
    command = "torchrun --nproc-per-node 2 -m plot_attractors fit" if before == 2 else "plot-attr"
    assert f"Go on with:\n  {command}" in said

    code, said = fit_by(after, out, resume=True, **slow)
    assert code == 0, said
    assert list(metrics(out)["step"]) == list(range(1, 25))
    pd.testing.assert_frame_equal(metrics(out), metrics(one), rtol=1e-4)


def test_a_mistake_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    process = torchrun(2, "-m", "plot_attractors", "fit", "hbv", "--out", str(tmp_path / "other"))
    said = process.communicate(timeout=300)[1]
    assert said.count("other is a file: choose another directory (--out)") == 1


def test_updates_of_its_own_are_refused(tmp_path: Path) -> None:
    own = {**SLICED, "settings": {"own": True}}
    assert (
        "every update must go through training.clipped_update"
        in fit_by(2, tmp_path / "own", **own)[1]
    )
    toy = {"program": SLICED["program"]}
    said = fit_by(2, tmp_path / "toy", **toy)[1]
    assert "several processes train what is a training.Schedule" in said
    assert not (tmp_path / "toy").exists()


def test_the_engine_learns_as_with_one_process(tmp_path: Path) -> None:
    engine: dict[str, Any] = {"program": "hbv", "preset": "smoke", "log_every": 10}
    engine["settings"] = {"walk.balance": "vargrad"}
    out = tmp_path / "two"
    code, said = fit_by(2, out, **engine)
    assert code == 0, said
    first, second = ends(out, 2)
    assert_same(first["model"], second["model"])
    two, alone = metrics(out), metrics(fit(out=tmp_path / "one", **engine))
    assert list(two["step"]) == list(alone["step"])
    losses = [name for name in two if name.endswith("_loss")]
    assert {"m_loss", "policy_loss", "sleep_loss", "wake_loss", "balance_loss"} <= {*losses}
    for name in losses:
        if name != "balance_loss":  # which is heavy-tailed
            far = ((two[name] - alone[name]).abs() - 0.25 * alone[name].abs()).dropna()
            assert len(far) > 0
            assert (far < 0.3).all(), name


def test_shares_without_torchrun() -> None:
    assert (processes.rank(), processes.size(), processes.per_rank(65)) == (0, 1, 65)
    assert processes.average({"loss": 2.0}) == {"loss": 2.0}
    assert processes.from_first(lambda: 3) == 3
