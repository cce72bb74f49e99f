"""A run that was changed or damaged says so, whatever reads it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import torch

from plot_attractors.report import report
from plot_attractors.runs import Run, fit
from plot_attractors.runs.compare import compare
from plot_attractors.runs.store import load_checkpoint

from .test_run import assert_equal

MODEL = Path(__file__).parents[1] / "toy_programs" / "toy_model.py"


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    return fit(MODEL, preset="smoke", out=tmp_path / "run", log_every=5)


def test_every_flipped_byte_is_noticed(trained: Path) -> None:
    whole, saved = (trained / "checkpoint.pt").read_bytes(), load_checkpoint(trained)
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(len(whole), (100,), generator=generator).tolist()
    for place in [*places, *range(-200, 0)]:
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        (trained / "checkpoint.pt").write_bytes(damaged)
        with suppress(ValueError):
            assert_equal(load_checkpoint(trained), saved)  # padding and dates may be others


def test_settings_that_were_changed_after_training(trained: Path) -> None:
    file = trained / "config.toml"
    file.write_text(file.read_text().replace("noise = 0.1", "noise = 0.2"))
    sentence = r"config.toml was changed after training .data.noise: 0.1, not 0.2"
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
