"""The data of a run are those that it was trained on, or it says so wherever it opens."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from plot_attractors.data import digests, read_images, read_vectors
from plot_attractors.data.checks import differences
from plot_attractors.report import report
from plot_attractors.report.export import _pack
from plot_attractors.runs import Run, fit, store
from plot_attractors.runs.analyze import analyze

RNG = np.random.default_rng(0)
BITS = RNG.integers(0, 2, (40, 4))
NAMES = [f"thing {k}" for k in range(40)]
FAMILY = ["cat", "dog"] * 20
SETTINGS = {"names": "name", "labels": "family"}


def things(**columns: Any) -> pd.DataFrame:
    frame = pd.DataFrame(BITS, columns=list("abcd")).assign(name=NAMES, family=FAMILY)
    return frame.assign(**columns)


def write(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_csv(path, index=False)
    return path


def flipped(path: Path) -> None:
    """One bit of all."""
    other = BITS.copy()
    other[7, 2] ^= 1
    write(things(c=other[:, 2]), path)


CHANGES: list[tuple[Callable[[Path], Any], str]] = [
    (flipped, "values"),
    (lambda p: write(things().iloc[::-1], p), "labels, names, values"),
    (lambda p: write(things(family=["dog", *FAMILY[1:]]), p), "labels"),
    (lambda p: write(things(name=["thing", *NAMES[1:]]), p), "names"),
    (lambda p: write(things().rename(columns={"b": "e"}), p), "columns"),
    (lambda p: write(things().iloc[:39], p), "labels, names, splits, values"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    file = write(things(), folder / "things.csv")
    fit("vqvae", data=file, preset="smoke", settings=SETTINGS, out=folder / "run")
    return folder


@pytest.fixture
def data(trained: Path) -> Any:
    """The file that the run was trained on, which is put back."""
    file = trained / "things.csv"
    yield file
    write(things(), file)


@pytest.mark.parametrize(("change", "what"), CHANGES)
def test_changed_data_are_refused_wherever_a_run_is_read(
    data: Path, change: Callable[[Path], Any], what: str
) -> None:
    run = data.parent / "run"
    change(data)
    sentence = f"the data are not those that {run} was trained on, but have other {what}: put the"
    reads: list[Callable[[], Any]] = [
        lambda: Run(run).data,
        lambda: Run(run).model,
        lambda: analyze(run),
        lambda: report(run),
    ]
    for read in reads:
        with pytest.raises(ValueError, match=sentence):
            read()
    assert not (run / "analyses").exists()
    assert not (run / "report.html").exists()


def test_data_without_a_change_open_and_data_that_are_gone_are_told_by_who_needs_them(
    data: Path,
) -> None:
    run = data.parent / "run"
    os.utime(data, (1, 1))
    data.write_text(data.read_text().replace("\n", "\r\n"))  # another way to write the same
    assert Run(run).data.x.tolist() == BITS.tolist()
    assert Run(run).model is not None
    data.unlink()
    assert report(run).is_file()
    (run / "report.html").unlink()
    with pytest.raises(ValueError, match="No such file"):
        _ = Run(run).model


def test_fit_notices_changed_data_of_a_run_finished_or_not(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Path(shutil.copytree(data.parent / "run", tmp_path / "run"))
    again = partial(fit, "vqvae", data=data, preset="smoke", settings=SETTINGS, out=run)
    with caplog.at_level("INFO"):
        again()
    assert "nothing to do" in caplog.text
    flipped(data)
    sentence = r"but have other values: put .* another directory \(--out\)"
    with pytest.raises(ValueError, match=sentence):
        again()
    checkpoint = store.load_checkpoint(run)
    unfinished = {**checkpoint, "position": checkpoint["position"] - 1}
    store.save_checkpoint(run, unfinished, store.read_config(run))
    before = (run / "checkpoint.pt").read_bytes()
    with pytest.raises(ValueError, match=sentence):
        again(resume=True)
    assert (run / "checkpoint.pt").read_bytes() == before


def test_exported_weights_know_their_data(data: Path, tmp_path: Path) -> None:
    run = Run(data.parent / "run")
    shutil.copy(run.path / "config.toml", tmp_path)
    content = _pack(run.model.state_dict(), run.config, run.position[0], digests(run.data))
    (tmp_path / "weights.safetensors").write_bytes(content)
    assert Run(tmp_path).model is not None
    flipped(data)
    with pytest.raises(ValueError, match="but have other values: put"):
        _ = Run(tmp_path).model


# Other kinds of data.


def test_vectors_are_told_to_the_bit(tmp_path: Path) -> None:
    x = RNG.normal(size=(40, 3)).astype(np.float32)
    label = pd.DataFrame({"kind": FAMILY, "size": x[:, 0]})

    def load(array: np.ndarray, **columns: Any) -> Any:
        np.save(tmp_path / "x.npy", array)
        return read_vectors(tmp_path / "x.npy", write(label.assign(**columns), tmp_path / "t.csv"))

    then = digests(load(x))
    last = x.copy()
    last.view(np.uint32)[5, 1] ^= 1
    for array, columns, what in (
        (np.asfortranarray(x), {}, []),  # which lies otherwise on the disk
        (last, {}, ["values"]),
        (x, {"kind": ["dog", *FAMILY[1:]]}, ["labels"]),
        (x[:, :2], {}, ["columns", "values"]),
    ):
        assert differences(then, digests(load(array, **columns))) == what


def test_images_are_told_by_their_pixels_and_names(tmp_path: Path) -> None:
    pixels = RNG.integers(0, 256, (6, 16, 16), dtype=np.uint8)

    def of(images: np.ndarray, **options: Any) -> dict[str, str]:
        for k, image in enumerate(images):
            (tmp_path / "ab"[k % 2]).mkdir(exist_ok=True)
            Image.fromarray(image).save(tmp_path / "ab"[k % 2] / f"{k}.png", **options)
        return digests(read_images(tmp_path, side=16))

    one = pixels.copy()
    one[3, 5, 5] ^= 1
    then = of(pixels)
    assert differences(then, of(one)) == ["images"]
    assert differences(then, of(pixels, compress_level=0)) == []
    (tmp_path / "a" / "0.png").rename(tmp_path / "b" / "0.png")
    moved = digests(read_images(tmp_path, side=16))
    assert differences(then, moved) == ["images", "labels", "names"]
