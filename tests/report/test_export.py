"""Exported runs: the same model from a few small files, whose numbers can be measured again."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest
import torch

from plot_attractors.measures.registry import METRICS
from plot_attractors.report import export as export_
from plot_attractors.report.export import export
from plot_attractors.runs import Run, fit, pretrained, registry, store
from plot_attractors.runs.analyze import analyze, applies
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


def outside(run: Run) -> list[str]:
    """Metrics that a run keeps and that are not what small analyses find, within their error: mean
    and standard deviation of five stand as "again" in what it keeps.
    """
    kept = json.loads((run.path / "numbers.json").read_text())
    names = [name for name in SMALL if applies(registry.load("analyses", name), run)]
    made = analyze(run, names, settings={name: SMALL[name] for name in names})
    assert [one.error for one in made] == [None] * len(names)
    found, result = numbers(run), []
    for name, before in kept["again"].items():
        error = SPREADS * max(before["sd"], 0.01 * abs(before["mean"]), 1e-3)
        if (
            not abs(before["mean"] - found[name])
            <= error
            >= abs(before["mean"] - kept["analyses"][name])
        ):
            result.append(name)
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
def test_a_model_of_the_package_gives_the_numbers_of_its_card(name: str, tmp_path: Path) -> None:
    folder = pretrained.FOLDER / name
    assert {file.name for file in folder.iterdir()} == FILES
    run = Run(shutil.copytree(folder, tmp_path / name))
    assert run.preset == "full"
    assert outside(run) == []
    if name == "hbv":
        with torch.no_grad():
            for parameter in run.model.parameters():
                parameter.mul_(0.5)
        assert outside(run)


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


def test_a_flipped_byte_is_noticed_or_harmless(made: tuple[Run, Path], tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(made[1], folder)
    file = folder / pretrained.WEIGHTS
    whole, expected = file.read_bytes(), store.load_checkpoint(folder)
    places = torch.randint(len(whole), (60,), generator=torch.Generator().manual_seed(0)).tolist()
    noticed = 0
    for place in [*places, *range(0, 3000, 60)]:
        damaged = bytearray(whole)
        damaged[place] ^= 0x15
        file.write_bytes(damaged)
        try:
            result = store.load_checkpoint(folder)
        except ValueError:
            noticed += 1
            continue
        model = result["inference"].pop("model")
        assert result == {**expected, "inference": {}}
        assert all(torch.equal(model[n], t) for n, t in expected["inference"]["model"].items())
    assert noticed > 100


def test_what_cannot_be_exported_or_gone_on_with_gets_a_sentence(
    made: tuple[Run, Path], tmp_path: Path
) -> None:
    run, folder = made
    toy = fit(TOYS / "toy_model.py", preset="smoke", out=tmp_path / "toy", log_every=5)
    without = shutil.ignore_patterns("analyses")
    bare = shutil.copytree(run.path, tmp_path / "bare", ignore=without)
    for of, to, sentence in (
        (folder, "again", "is exported already"),
        (run, "toy", "is not empty and holds no exported run"),
        (toy, "out", r"by a program of your own, .*toy_data\.py"),
        (bare, "out", "has no analyses to tell of"),
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
