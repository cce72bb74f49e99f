"""Exported runs: the same model from a few small files, whose numbers can be measured again."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pandas as pd
import pytest
import torch

from plot_attractors.analysis import sampling
from plot_attractors.measures.registry import METRICS
from plot_attractors.report import export as export_
from plot_attractors.report.export import export
from plot_attractors.runs import Run, fit, pretrained, registry, store
from plot_attractors.runs.analyze import unmet
from plot_attractors.runs.numbers import numbers

TOYS = Path(__file__).parents[1] / "toy_programs"
FILES = {"card.md", "config.toml", "environment.json", "numbers.json", "weights.safetensors"}
LARGEST = 3_300_000  # bytes of all trained models in the package
SPREADS = 6  # standard deviations of five small samples that another may be off
SMALL = {
    "information_loss": {"inputs": 200, "lines": 1, "line_draws": 1},
    "calibration": {"inputs": 4, "wide_inputs": 4, "wide_draws": 1},
    "language_measures": {"inputs": 300, "resamples": 2, "permutations": 2},
}  # fmt: skip


def measured(run: Run, analysis: str) -> pd.DataFrame:
    """A small summary of an analysis; of `calibration` after T steps, of training inputs."""
    program = registry.load("analyses", analysis)
    sizes = program.Config(**SMALL[analysis])
    if analysis == "calibration":
        return program.tabulate(program.calibrate(run.model, run.data, "train", sizes))
    return program.measure(run, sizes)["summary.csv"]


def outside(run: Run, *analyses: str) -> list[str]:
    """Metrics that a run keeps and that are not what small analyses find, within their error: mean
    and standard deviation of five or more stand as "again" in what it keeps.
    """
    kept = json.loads((run.path / "numbers.json").read_text())
    tables, result = {name: measured(run, name) for name in analyses}, []
    for name, before in kept["again"].items():
        if (metric := METRICS[name]).analysis in tables:
            error = SPREADS * max(before["sd"], 0.01 * abs(before["mean"]), 1e-3)
            found = metric.read(tables[metric.analysis])
            near = [abs(before["mean"] - of) <= error for of in (found, kept["analyses"][name])]
            result += [] if all(near) else [name]
    return result


def test_the_weights_are_the_model_and_nothing_else_is_needed(made: tuple[Run, Path]) -> None:
    run, folder = made
    assert {file.name for file in folder.iterdir()} == FILES
    exported = Run(folder)
    assert exported.position == run.position
    assert exported.config == run.config
    trained, loaded = run.model.state_dict(), exported.model.state_dict()
    assert trained.keys() == loaded.keys()
    assert all(torch.equal(trained[name], loaded[name]) for name in trained)
    x = run.data.batch(4).x
    torch.manual_seed(1)
    first = run.model.describe(x, 8).z
    torch.manual_seed(1)
    assert torch.equal(first, exported.model.describe(x, 8).z)
    assert numbers(exported) == pytest.approx(numbers(run), nan_ok=True)


@pytest.mark.parametrize("name", pretrained.names())
def test_a_model_of_the_package_gives_the_numbers_of_its_card(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "LENGTHS", (1,))
    run = Run(pretrained.find(f"pretrained:{name}"))
    assert {file.name for file in run.path.iterdir()} == FILES
    assert run.preset == "full"
    analyses = [of for of in SMALL if not unmet(registry.load("analyses", of), run)]
    assert {
        METRICS[of].analysis for of in json.loads((run.path / "numbers.json").read_text())["again"]
    } == {*analyses}
    assert outside(run, *analyses) == []
    if name == "hbv":
        with torch.no_grad():
            for parameter in run.model.parameters():
                parameter.mul_(0.5)
        assert outside(run, "information_loss")


def test_the_models_of_the_package_are_small_and_have_limits() -> None:
    files = [file for file in pretrained.FOLDER.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= LARGEST
    texts = tomllib.loads(Path(export_.__file__).with_name("limits.toml").read_text())
    assert texts.keys() == {*pretrained.names()}
    assert all(of.keys() == {"data", "limits"} for of in texts.values())


def test_the_card_tells_of_the_run(made: tuple[Run, Path]) -> None:
    run, folder = made
    card, result = (folder / "card.md").read_text(), numbers(run)
    assert f"| {METRICS['p'].title} | {result['p']:.3f} |" in card
    assert "plot-attractors fit attractor --data hbv" in card
    assert "binary tree of prototypes" in card
    environment = json.loads((folder / "environment.json").read_text())
    assert not {"command", "platform"} & environment.keys()


def test_a_flipped_byte_is_noticed(made: tuple[Run, Path], tmp_path: Path) -> None:
    folder = shutil.copytree(made[1], tmp_path / "damaged")
    file = folder / pretrained.WEIGHTS
    whole = file.read_bytes()
    for place in torch.randint(8000, len(whole), (40,)).tolist():  # after the header, in weights
        damaged = bytearray(whole)
        damaged[place] ^= 0x15
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged: it is not what was saved"):
            store.load_checkpoint(folder)


def test_what_cannot_be_exported_or_gone_on_with_gets_a_sentence(
    made: tuple[Run, Path], tmp_path: Path
) -> None:
    run, folder = made
    toy = fit(TOYS / "toy_model.py", preset="smoke", out=tmp_path / "toy", log_every=5)
    for of, to, sentence in (
        (folder, "again", "is exported already"),
        (run, "toy", "is not empty and holds no exported run"),
        (toy, "out", r"by a program of your own, .*toy_data\.py"),
    ):
        with pytest.raises(ValueError, match=sentence):
            export(of, tmp_path / to)
    assert not (tmp_path / "out").exists()
    file = shutil.copytree(folder, tmp_path / "changed") / "config.toml"
    with pytest.raises(ValueError, match="without what training needs to go on"):
        fit("hbv", preset="smoke", out=file.parent, resume=True)
    assert all((file.parent / name).read_bytes() == (folder / name).read_bytes() for name in FILES)
    file.write_text(file.read_text().replace("epsilon = 0.035", "epsilon = 0.05"))
    with pytest.raises(ValueError, match="was changed after training"):
        Run(file.parent)
