"""A user's images: folders and arrays give one result; and a sentence that names what is wrong."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from plot_attractors.data import DataSet, Labelled, read_images

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (6, 16, 16), dtype=np.uint8)
MASKS = (GREY > 99).astype(np.uint8)  # 0 and 1
COLOURED = RNG.integers(0, 256, (6, 16, 16, 3), dtype=np.uint8)


def folder(path: Path, images: np.ndarray = COLOURED) -> Path:
    """Images 0.png … 5.png, three each in the subfolders cats and dogs."""
    for k, image in enumerate(images):
        file = path / ("cats" if k < 3 else "dogs") / f"{k}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    return path


def array(path: Path, images: np.ndarray = COLOURED) -> Path:
    np.save(path, images)
    return path


def table(path: Path, **columns: Any) -> Path:
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def refusal(*args: Any, **kwargs: Any) -> str:
    """The one sentence with which images are refused."""
    with pytest.raises(ValueError, match=r"\w") as caught:
        read_images(*args, **{"side": 16, **kwargs})
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


NAMES = [f"{'cats' if k < 3 else 'dogs'}/{k}.png" for k in range(6)]


def test_folder_and_arrays_read_alike(tmp_path: Path) -> None:
    expected = torch.from_numpy(COLOURED).movedim(-1, 1)
    pets = folder(tmp_path / "pets")
    (pets / ".thumbnails").mkdir()
    for name in ("cats/._0.png", ".thumbnails/0.png"):  # names with a dot are passed over
        (pets / name).write_bytes(b"no image")
    for path in (
        pets,
        array(tmp_path / "a.npy"),
        array(tmp_path / "b.npy", np.moveaxis(COLOURED, -1, 1)),
        array(tmp_path / "c.npy", COLOURED / 255),
    ):
        data = read_images(path, side=16)
        assert torch.equal(data.images, expected)
        assert data.input_shape == (3, 16, 16)


def test_grey_stays_grey_unless_another_image_is_coloured(tmp_path: Path) -> None:
    grey = folder(tmp_path / "grey", GREY)
    assert torch.equal(read_images(grey, side=16).images, torch.from_numpy(GREY)[:, None])
    for same in (MASKS > 0, MASKS.astype(np.float32), MASKS * 255):
        images = read_images(array(tmp_path / "b.npy", same), side=16).images
        assert torch.equal(images, torch.from_numpy(MASKS)[:, None] * 255)
    Image.fromarray(COLOURED[0]).save(grey / "coloured.png")
    mixed = read_images(grey, side=16).images
    assert mixed.shape == (7, 3, 16, 16)
    assert torch.equal(mixed[0, 0], mixed[0, 2])


def test_what_is_transparent_is_black(tmp_path: Path) -> None:
    white = np.full_like(GREY, 255)
    clear = folder(tmp_path, np.stack([white, white, white, GREY], -1))
    shown = read_images(clear, side=16).images
    assert shown.shape == (6, 3, 16, 16)
    assert (shown[:, 0].int() - torch.from_numpy(GREY).int()).abs().max() <= 1


def test_middle_square_and_side(tmp_path: Path) -> None:
    wide = np.zeros((2, 32, 64), np.uint8)
    wide[:, :16, 16:32] = 100  # the middle square's upper left quarter
    wide[1, 20, 40] = 255
    wide[:, :, :16] = wide[:, :, 48:] = 255  # cut off
    expected = torch.zeros(16, 16, dtype=torch.uint8)
    expected[:8, :8] = 100
    for path in (array(tmp_path / "wide.npy", wide), folder(tmp_path / "wide", wide)):
        assert torch.equal(read_images(path, side=16).images[0, 0], expected)
    for height, width in ((10, 10), (41, 30), (16, 16)):
        odd = RNG.integers(0, 256, (4, height, width), dtype=np.uint8)
        files, numbers = folder(tmp_path / f"{height}", odd), array(tmp_path / "a.npy", odd)
        read = [read_images(path, side=24).images for path in (files, numbers)]
        assert torch.equal(*read)
        assert read[0].shape == (4, 1, 24, 24)


def test_it_is_a_labelled_data_set(tmp_path: Path) -> None:
    data = read_images(folder(tmp_path / "pets"), side=16)
    assert isinstance(data, DataSet)
    assert isinstance(data, Labelled)
    (kind,) = data.features
    assert (kind.name, kind.outcomes) == ("folder", ("cats", "dogs"))
    batch = data.batch(50)
    assert torch.equal(batch.x, data.images[batch.y].float() / 255)
    assert torch.equal(data.feature_values(batch)[:, 0], (batch.y >= 3).float())
    assert torch.equal(batch.labels[:, 0], (batch.y >= 3).long())
    without = read_images(array(tmp_path / "x.npy"), side=16)
    assert without.features == ()


def test_features_come_from_a_table(tmp_path: Path) -> None:
    pets = folder(tmp_path / "pets")
    columns: dict[str, Any] = {
        "file": NAMES[::-1],
        "weight": [6.5, 5, None, 3, 2, 1],
        "legs": [4, 4, 4, 4, 3, None],
        "coat": list("bbaaba"),
        "split": ["train"] * 4 + ["held_out"] * 2,
    }
    rows = table(tmp_path / "pets.csv", **columns)
    data = read_images(pets, rows, side=16, held_out="split")
    features = {f.name: f.outcomes for f in data.features}
    assert features == {"weight": (), "legs": ("3", "4"), "coat": ("a", "b")}
    # in the order of the images
    assert data.values[:, 0].nan_to_num(-1).tolist() == [1, 2, 3, -1, 5, 6.5]
    assert data.values[:, 1].nan_to_num(-1).tolist() == [-1, 0, 1, 1, 1, 1]
    assert data.splits == ("train", "held_out")
    assert data.members["held_out"].tolist() == [0, 1]
    assert set(data.batch(99).y.tolist()) == {2, 3, 4, 5}
    chosen = read_images(pets, rows, side=16, labels=("legs",), continuous=("legs",))
    assert [(f.name, f.outcomes) for f in chosen.features] == [("legs", ())]


def test_rows_of_an_array_are_in_its_order(tmp_path: Path) -> None:
    rows = table(tmp_path / "rows.csv", digit=[3, 1, 4, 1, 5, 9], file=list("abcdef"))
    data = read_images(array(tmp_path / "digits.npy", GREY), rows, side=16)
    assert [f.outcomes for f in data.features] == [("1", "3", "4", "5", "9")]  # not the file names
    assert data.values[:, 0].tolist() == [1, 0, 2, 0, 3, 4]


def test_files_on_another_scale_are_refused(tmp_path: Path) -> None:
    masks = folder(tmp_path / "masks", MASKS)
    assert "is 0.00392 of white: multiply" in refusal(masks)
    Image.fromarray(np.where(GREY[5] < GREY.max(), GREY[5] // 64, 255).astype(np.uint8)).save(
        masks / "one.png"
    )
    assert read_images(masks, side=16).images.max() == 255  # one pixel is enough
    Image.fromarray(GREY[0].astype(np.uint16) * 257).save(masks / "deep.png")
    assert "deep.png' as an image with pixels of 1 or 8 bits: its pixels have" in refusal(masks)


@pytest.mark.parametrize(
    ("images", "sentence"),
    [
        (GREY // 16, "is 0.0588 of white: multiply"),
        (MASKS, "is 0.00392 of white: multiply"),
        (GREY.astype(np.int64), "holds int64 from 0 to 255: pixels are uint8 from 0 to 255, bool"),
        (GREY.astype(float), "holds float64 from 0 to 255: pixels are"),
        (GREY / 127.5 - 1, "from -1 to 1: pixels are"),
        (np.zeros_like(GREY), "holds one image"),
        (GREY[:, 0], "shape (6, 16)"),
        (np.zeros((6, 16, 16, 5), np.uint8), "shape (6, 16, 16, 5)"),
        (np.full((6, 8, 8), "a"), "it holds <U1, which are no real numbers"),
        (COLOURED[0], "shape (16, 16, 3)"),
        (GREY[:0], "shape (0, 16, 16)"),
    ],
)
def test_what_is_wrong_with_an_array(tmp_path: Path, images: np.ndarray, sentence: str) -> None:
    assert sentence in refusal(array(tmp_path / "a.npy", images))


@pytest.mark.parametrize("end", ["idx3-ubyte", "idx3-ubyte.gz"])
def test_the_format_of_mnist(tmp_path: Path, end: str) -> None:
    header = bytes([0, 0, 8, 3]) + np.array(GREY.shape, ">i4").tobytes()
    with (gzip.open if end[-1] == "z" else open)(path := tmp_path / end, "wb") as file:
        file.write(header + GREY.tobytes())
    expected = read_images(array(tmp_path / "a.npy", GREY), side=16)
    assert torch.equal(read_images(path, side=16).images, expected.images)


def test_what_is_wrong_with_a_path(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    torn = folder(tmp_path / "torn")
    (torn / "cats" / "0.png").write_bytes((torn / "cats" / "0.png").read_bytes()[:100])
    (tmp_path / "a.csv").write_text("label,p0\n")
    (tmp_path / "torn.npy").write_bytes(array(tmp_path / "whole.npy").read_bytes()[:300])
    for name, sentence in (
        ("nothing", "No such file"), ("empty", "holds no images"), ("torn", "0.png' as an image"),
        ("torn.npy", "torn.npy' as an array"), ("a.csv", "of a table of a label and pixels, numpy"),
    ):  # fmt: skip
        assert sentence in refusal(tmp_path / name)


@pytest.mark.parametrize(
    ("columns", "settings", "sentence"),
    [
        ({"coat": list("abcabc")}, {}, "no column 'file'"),
        ({"file": NAMES[:5]}, {}, "each image of pets, by its column 'file': see 'dogs/5.png'"),
        ({"file": [*NAMES, NAMES[0]]}, {}, "see 'cats/0.png'"),
        ({"file": [*NAMES[:5], None], "coat": 1}, {}, "needs one row for each image of pets"),
        ({"file": NAMES, "weight": np.inf}, {}, "column 'weight' of a.csv has inf in row 1"),
        (None, {"continuous": ("coat",)}, "holds 'a', which is no number"),
    ],
)
def test_what_is_wrong_with_a_table(
    tmp_path: Path, columns: dict[str, Any] | None, settings: dict[str, Any], sentence: str
) -> None:
    rows = table(tmp_path / "a.csv", **(columns or {"file": NAMES, "coat": list("abcabc")}))
    assert sentence in refusal(folder(tmp_path / "pets"), rows, **settings)


def test_tables_that_do_not_fit(tmp_path: Path) -> None:
    images = array(tmp_path / "x.npy")
    assert "'coat' is a column of a table: say which" in refusal(images, labels=("coat",))
    assert "5 rows" in refusal(images, table(tmp_path / "f.csv", digit=range(5)))
