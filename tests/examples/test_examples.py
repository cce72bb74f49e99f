"""The examples: the sweep is one, and the commands of Kubernetes' and SkyPilot's files train."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from plot_attractors.runs import Run, store
from plot_attractors.runs.sweep import read_sweep

EXAMPLES = Path(__file__).parents[2] / "examples"


def read(name: str) -> dict[str, Any]:
    result: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    return result


def train(command: str, out: Path, **environment: str) -> Run:
    """Runs the command of an example, its volume in another folder, at the size of a smoke test."""
    executable = f"{sys.executable} -m plot_attractors"
    for name in ("~/venv/bin/plot-attractors", "plot-attractors"):
        command = command.replace(f"exec {name}", f"exec {executable}")
    command = f"{command.replace('/runs/', f'{out}/').strip()} --preset smoke"
    subprocess.run(["sh", "-c", command], check=True, env={**os.environ, **environment})
    return Run(out / "hbv-3")


def test_sweep() -> None:
    result = read_sweep(EXAMPLES / "sweep.toml")
    assert len(result.runs) == 10
    assert result.out == Path("runs/epsilon").absolute()


def test_kubernetes(tmp_path: Path) -> None:
    """An indexed Job, by the fields that it must have, and by a schema where one is installed."""
    job = read("kubernetes.yaml")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    assert 1 <= spec["parallelism"] <= spec["completions"]
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] in ("Never", "OnFailure")  # a Job takes no other
    (container,) = pod["containers"]
    assert {"name", "image", "command", "args"} <= container.keys()
    assert [m["name"] for m in container["volumeMounts"]] == [v["name"] for v in pod["volumes"]]
    run = train(container["args"][0], tmp_path, JOB_COMPLETION_INDEX="3")
    assert run.seed == 3
    assert store.progress(run.path) == (102, 102)
    pytest.importorskip("kubernetes_validate").validate(job, "1.31", strict=True)


def test_skypilot(tmp_path: Path) -> None:
    """A task by its fields, as SkyPilot documents them: it has no small validator of its own."""
    task = read("skypilot.yaml")
    known = {"name", "workdir", "envs", "resources", "file_mounts", "setup", "run"}
    assert task.keys() == known
    assert all(isinstance(value, str) for value in task["envs"].values())
    assert task["resources"].keys() <= {"cpus", "memory", "use_spot"}
    assert task["file_mounts"]["/runs"]["mode"] == "MOUNT_CACHED"
    assert "-c constraints.txt" in task["setup"]
    run = train(task["run"], tmp_path, SEED="3")
    assert run.seed == 3
    assert store.progress(run.path) == (102, 102)
