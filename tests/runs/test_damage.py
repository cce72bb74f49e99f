"""A run that was changed or damaged says so, whatever reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from plot_attractors.report import report
from plot_attractors.runs import Run, fit, tables
from plot_attractors.runs.analyze import analyze, redraw
from plot_attractors.runs.compare import compare
from plot_attractors.runs.store import load_checkpoint

TOYS = Path(__file__).parents[1] / "toy_programs"
MODEL, ANALYSIS = TOYS / "toy_model.py", TOYS / "toy_analysis.py"


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    return fit(MODEL, preset="smoke", out=tmp_path / "run", log_every=5)


def of(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what a checkpoint holds, with checksums that fit."""
    checkpoint = torch.load(path / "checkpoint.pt", weights_only=True)
    change(checkpoint)
    torch.save(checkpoint, path / "checkpoint.pt")


def test_every_flipped_byte_is_noticed(trained: Path) -> None:
    whole = (trained / "checkpoint.pt").read_bytes()
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(len(whole), (300,), generator=generator).tolist()
    for place in [*places, *range(-67, 0)]:
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        (trained / "checkpoint.pt").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"is damaged|cannot be read as") as error:
            load_checkpoint(trained)
        assert "\n" not in str(error.value)


def test_settings_that_were_changed_after_training(trained: Path) -> None:
    file = trained / "config.toml"
    file.write_text(file.read_text().replace("noise = 0.1", "noise = 0.2"))
    sentence = r"config.toml was changed after training .noise is 0.1 in the checkpoint and 0.2 in"
    for read in (
        lambda: Run(trained),
        lambda: report(trained),
        lambda: compare([trained]),
        lambda: fit(
            MODEL, preset="smoke", out=trained, log_every=5, resume=True, settings={"noise": 0.2}
        ),
    ):
        with pytest.raises(ValueError, match=sentence):
            read()


def test_a_checkpoint_without_a_part_or_with_what_is_not_finite(trained: Path) -> None:
    def spoil(checkpoint: dict[str, Any]) -> None:
        next(iter(checkpoint["inference"]["model"].values())).fill_(torch.nan)

    of(trained, spoil)
    with pytest.raises(ValueError, match=r"has a model whose .* is not finite: fit it again"):
        _ = Run(trained).model
    of(trained, lambda checkpoint: checkpoint["inference"].pop("model"))
    with pytest.raises(ValueError, match="holds no model: fit it again"):
        _ = Run(trained).model
    of(trained, lambda checkpoint: checkpoint.pop("total"))
    with pytest.raises(ValueError, match="is no whole checkpoint: it lacks total"):
        _ = Run(trained).model


def test_a_flipped_byte_in_a_table_is_noticed(trained: Path) -> None:
    analyze(trained, [ANALYSIS])
    folder = trained / "analyses" / "toy_analysis"
    for file in [f for f in folder.iterdir() if f.suffix in (".csv", ".npz")]:
        whole = file.read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 20)):
            damaged = bytearray(whole)
            damaged[place] ^= 1
            file.write_bytes(damaged)
            with pytest.raises(
                ValueError, match=f"{file.name} is damaged: .* make the analysis toy"
            ):
                tables.read(folder)
            if file.suffix == ".csv":
                report(trained)
                assert "or is damaged" in (trained / "report.html").read_text()
        file.write_bytes(whole)
    assert tables.read(folder)
    (redrawn,) = redraw(trained, [ANALYSIS])
    assert redrawn.error is None


def test_metrics_of_a_finished_run_that_are_gone_or_damaged(
    trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = trained / "metrics.csv"
    whole = file.read_bytes()
    assert len(Run(trained).metrics())
    assert not caplog.text
    file.write_bytes(whole.replace(b"0", b"1", 1))
    assert Run(trained).metrics().empty
    assert "metrics.csv is damaged" in caplog.text
    file.unlink()
    report(trained)
    assert "metrics.csv is gone: nothing is shown of the training" in caplog.text


@pytest.mark.parametrize(
    "content",
    ["[1, 2]", '{"versions": 5, "seconds": "x", "commit": 3, "command": [], "threads": "a"}'],
)
def test_an_environment_of_another_kind_is_as_none(trained: Path, content: str) -> None:
    (trained / "environment.json").write_text(content)
    assert report(trained).is_file()
    assert compare([trained]) is not None


def test_what_can_be_shown_of_a_touched_analysis_is_shown(trained: Path) -> None:
    analyze(trained, [ANALYSIS, "training"])
    folder = trained / "analyses" / "toy_analysis"
    (folder / "predictions.svg").unlink()
    picture = folder / "predictions.png"
    picture.write_bytes(picture.read_bytes()[:60])
    (folder / ".about.json").write_bytes(b"\xff\xfe")
    page = report(trained).read_text()
    assert "predictions cannot be read" in page
    assert "Toy analysis" in page


def test_touched_analyses_are_refused_in_a_sentence(trained: Path, tmp_path: Path) -> None:
    analyze(trained, [ANALYSIS])
    folder = trained / "analyses" / "toy_analysis"
    (folder.parent / ".toy_analysis.x.tmp").mkdir()
    assert analyze(trained, [ANALYSIS])[0].error is None
    (folder / "points.csv").unlink()
    assert "lacks 'points.csv', which its figures are drawn" in str(
        redraw(trained, [ANALYSIS])[0].error
    )
    (folder / ".checksums.json").write_text("[1")
    assert ".checksums.json is damaged" in str(redraw(trained, [ANALYSIS])[0].error)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert "is a link or a file" in str(analyze(trained, [ANALYSIS])[0].error)
