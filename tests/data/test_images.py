"""A user's images: folders and arrays give one result; and a sentence that names what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from plot_attractors.data import DataSet, ImageSet, Labelled, read_images

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (6, 16, 16), dtype=np.uint8)
COLOURED = RNG.integers(0, 256, (6, 16, 16, 3), dtype=np.uint8)


def folder(path: Path, images: np.ndarray = COLOURED) -> Path:
    """Images 0.png … 5.png, three each in the subfolders cats and dogs."""
    for k, image in enumerate(images):
        file = path / ("cats" if k < 3 else "dogs") / f"{k}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    return path


def array(path: Path, images: np.ndarray = COLOURED, **others: np.ndarray) -> Path:
    np.save(path, images) if path.suffix == ".npy" else np.savez(path, images=images, **others)
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


def test_folder_and_arrays_read_alike(tmp_path: Path) -> None:
    expected = torch.from_numpy(COLOURED).movedim(-1, 1)
    first = np.moveaxis(COLOURED, -1, 1)
    paths = [
        folder(tmp_path / "pets"),
        array(tmp_path / "a.npy"),
        array(tmp_path / "b.npz", first, other=np.zeros(3)),
    ]
    for path in [*paths, array(tmp_path / "c.npy", COLOURED / 255)]:
        data = read_images(path, side=16)
        assert torch.equal(data.images, expected)
        assert data.name == path.name
        assert data.input_shape == (3, 16, 16)


def test_names_that_start_with_a_dot_are_passed_over(tmp_path: Path) -> None:
    pets = folder(tmp_path / "pets")
    before = read_images(pets, side=16).images
    (pets / "cats" / "._0.png").write_bytes(b"no image")
    (pets / ".thumbnails").mkdir()
    (pets / ".thumbnails" / "0.png").write_bytes(b"no image")
    assert torch.equal(read_images(pets, side=16).images, before)


def test_grey_stays_grey_unless_another_image_is_coloured(tmp_path: Path) -> None:
    grey = folder(tmp_path / "grey", GREY)
    assert torch.equal(read_images(grey, side=16).images, torch.from_numpy(GREY)[:, None])
    assert read_images(
        array(tmp_path / "bool.npy", GREY > 128), side=16
    ).images.unique().tolist() == [0, 255]
    Image.fromarray(COLOURED[0]).save(grey / "coloured.png")
    mixed = read_images(grey, side=16).images
    assert mixed.shape == (7, 3, 16, 16)
    assert torch.equal(mixed[0, 0], mixed[0, 2])


def test_sixteen_bits_are_scaled_and_what_is_transparent_is_black(tmp_path: Path) -> None:
    deep, clear = tmp_path / "deep", tmp_path / "clear"
    deep.mkdir()
    clear.mkdir()
    for k, image in enumerate(GREY):
        Image.fromarray(image.astype(np.uint16) * 257).save(deep / f"{k}.png")
        Image.fromarray(np.stack([np.full_like(image, 255)] * 3 + [image], -1)).save(
            clear / f"{k}.png"
        )
    assert torch.equal(read_images(deep, side=16).images, torch.from_numpy(GREY)[:, None])
    shown = read_images(clear, side=16).images
    assert shown.shape == (6, 3, 16, 16)
    assert (shown[:, 0].int() - torch.from_numpy(GREY).int()).abs().max() <= 1
    Image.fromarray(GREY[0].astype(np.float32) / 255).save(deep / "7.tif")
    assert "7.tif' cannot be read as an image with pixels of 1, 8 or 16 bits" in refusal(deep)


def test_arrays_of_foreign_kinds(tmp_path: Path) -> None:
    swapped = read_images(array(tmp_path / "swapped.npy", (GREY / 255).astype(">f4")), side=16)
    assert torch.equal(swapped.images, torch.from_numpy(GREY)[:, None])
    foreign = array(tmp_path / "sprites.npz", COLOURED)
    np.savez(foreign, imgs=COLOURED, metadata=np.array({"author": "someone"}, dtype=object))
    assert read_images(foreign, side=16).input_shape == (3, 16, 16)


def test_middle_square_and_side(tmp_path: Path) -> None:
    wide = np.zeros((2, 32, 64), np.uint8)
    wide[:, :16, 16:32] = 100  # the middle square's upper left quarter
    wide[1, 20, 40] = 255
    wide[:, :, :16] = wide[:, :, 48:] = 255  # cut off
    expected = torch.zeros(16, 16, dtype=torch.uint8)
    expected[:8, :8] = 100
    for path in (array(tmp_path / "wide.npy", wide), folder(tmp_path / "wide", wide)):
        assert torch.equal(read_images(path, side=16).images[0, 0], expected)
    assert read_images(array(tmp_path / "small.npy", GREY), side=32).images.shape == (6, 1, 32, 32)


@pytest.mark.parametrize(("height", "width"), [(10, 10), (41, 30), (28, 29)])
def test_any_size_reads_alike(height: int, width: int, tmp_path: Path) -> None:
    images = RNG.integers(0, 256, (4, height, width), dtype=np.uint8)
    from_folder = read_images(folder(tmp_path / "some", images), side=16)
    assert torch.equal(
        from_folder.images, read_images(array(tmp_path / "some.npy", images), side=16).images
    )


def test_it_is_a_labelled_data_set(tmp_path: Path) -> None:
    data = read_images(folder(tmp_path / "pets"), side=16)
    assert isinstance(data, DataSet)
    assert isinstance(data, Labelled)
    assert data.splits == ("train",)
    (kind,) = data.features
    assert (kind.name, kind.outcomes) == ("folder", ("cats", "dogs"))
    batch = data.batch(50)
    assert torch.equal(batch.x, data.images[batch.y].float() / 255)
    assert torch.equal(data.feature_values(batch)[:, 0], (batch.y >= 3).float())
    assert torch.equal(batch.labels[:, 0], (batch.y >= 3).long())


def test_features_come_from_a_table(tmp_path: Path) -> None:
    pets = folder(tmp_path / "pets")
    names = [f"{'cats' if k < 3 else 'dogs'}/{k}.png" for k in range(6)]
    columns: dict[str, Any] = {
        "file": names[::-1],
        "weight": [6.5, 5, None, 3, 2, 1],
        "legs": [4, 4, 4, 4, 3, None],
        "coat": list("bbaaba"),
        "split": ["train"] * 4 + ["held_out"] * 2,
    }
    data = read_images(pets, table(tmp_path / "pets.csv", **columns), side=16, held_out="split")
    assert [(f.name, f.outcomes) for f in data.features] == [
        ("weight", ()),
        ("legs", ("3", "4")),
        ("coat", ("a", "b")),
    ]
    assert data.values[:, 0].nan_to_num(-1).tolist() == [
        1,
        2,
        3,
        -1,
        5,
        6.5,
    ]  # in the order of the images
    assert data.values[:, 1].nan_to_num(-1).tolist() == [-1, 0, 1, 1, 1, 1]
    assert data.splits == ("train", "held_out")
    assert data.members["held_out"].tolist() == [0, 1]
    assert set(data.batch(99).y.tolist()) == {2, 3, 4, 5}
    chosen = read_images(pets, tmp_path / "pets.csv", side=16, labels="legs", continuous="legs")
    assert [(f.name, f.outcomes) for f in chosen.features] == [("legs", ())]
    assert [
        f.name
        for f in read_images(
            pets, tmp_path / "pets.csv", side=16, ignore=("split", "coat")
        ).features
    ] == [
        "weight",
        "legs",
    ]


def test_rows_of_an_array_are_in_its_order(tmp_path: Path) -> None:
    rows = table(tmp_path / "rows.csv", digit=[3, 1, 4, 1, 5, 9], file=list("abcdef"))
    data = read_images(
        array(tmp_path / "digits.npy", GREY), rows, side=16, held_out_fraction=0.5, seed=1
    )
    assert [f.outcomes for f in data.features] == [
        ("1", "3", "4", "5", "9")
    ]  # file names mean nothing here
    assert data.values[:, 0].tolist() == [1, 0, 2, 0, 3, 4]
    assert int(data.held_out.sum()) == 3
    assert not set(data.members["train"].tolist()) & set(data.members["held_out"].tolist())


def test_what_is_wrong_with_images_is_one_sentence(tmp_path: Path) -> None:
    assert "there is no" in refusal(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert "holds no images" in refusal(tmp_path / "empty")
    torn = folder(tmp_path / "torn")
    (torn / "cats" / "0.png").write_bytes((torn / "cats" / "0.png").read_bytes()[:100])
    assert "0.png" in refusal(torn)
    (tmp_path / "notes.txt").write_text("hello")
    assert "notes.txt is neither" in refusal(tmp_path / "notes.txt")
    (tmp_path / "torn.npy").write_bytes(array(tmp_path / "whole.npy").read_bytes()[:300])
    assert "torn.npy" in refusal(tmp_path / "torn.npy")
    assert "shape (6, 16)" in refusal(array(tmp_path / "flat.npy", GREY[:, 0]))
    assert "shape (6, 16, 16, 5)" in refusal(
        array(tmp_path / "five.npy", np.zeros((6, 16, 16, 5), np.uint8))
    )
    assert "from 0 to 255" in refusal(array(tmp_path / "large.npy", GREY.astype(float)))
    assert "int64" in refusal(array(tmp_path / "whole.npy", GREY.astype(np.int64)))
    assert "call the one 'images'" in refusal(two_arrays(tmp_path / "two.npz"))
    assert "holds <U1, which are no pixels" in refusal(
        array(tmp_path / "words.npy", np.full((6, 8, 8), "a"))
    )
    assert "shape (16, 16, 3)" in refusal(array(tmp_path / "alone.npy", COLOURED[0]))
    assert "one image again" in refusal(array(tmp_path / "same.npy", np.ones_like(GREY)))
    assert "one image:" in refusal(array(tmp_path / "one.npy", GREY[:1]))
    assert "(0, 16, 16): it holds no pixels" in refusal(array(tmp_path / "none.npy", GREY[:0]))
    assert "are no pixels" in refusal(array(tmp_path / "long.npy", GREY.astype(np.longdouble)))
    assert "from 8 to 128" in refusal(array(tmp_path / "good.npy"), side=4)


def two_arrays(path: Path) -> Path:
    np.savez(path, a=GREY, b=GREY)
    return path


def test_what_is_wrong_with_a_table_is_one_sentence(tmp_path: Path) -> None:
    pets = folder(tmp_path / "pets")
    names = [f"{'cats' if k < 3 else 'dogs'}/{k}.png" for k in range(6)]
    assert "say which file" in refusal(pets, labels="coat")
    assert "no column 'file'" in refusal(pets, table(tmp_path / "a.csv", coat=list("abcabc")))
    assert "no row for 'dogs/5.png'" in refusal(pets, table(tmp_path / "b.csv", file=names[:5]))
    assert "'dogs/6.png', which is not in pets" in refusal(
        pets, table(tmp_path / "c.csv", file=[*names, "dogs/6.png"])
    )
    assert "more than one row for 'cats/0.png'" in refusal(
        pets, table(tmp_path / "d.csv", file=[*names, names[0]])
    )
    good = table(tmp_path / "e.csv", file=names, coat=list("abcabc"))
    assert "no column 'coats': did you mean 'coat'" in refusal(pets, good, labels="coats")
    assert "named as continuous, but holds 'a'" in refusal(pets, good, continuous="coat")
    assert "either" in refusal(pets, good, held_out="coat", held_out_fraction=0.5)
    assert "'coat'" in refusal(pets, good, held_out="coat")
    assert "leaves a split empty" in refusal(pets, held_out_fraction=0.01)
    for role in ({"ignore": "coat"}, {"held_out": "coat"}):
        assert "column 'coat' of" not in (said := refusal(pets, good, labels="coat", **role))
        assert "'coat' is named twice" in said
    blank = table(tmp_path / "g.csv", file=[*names[:5], None], coat=list("abcabc"))
    assert "row 6 of g.csv (counting from 1, header excluded) names no file" in refusal(pets, blank)
    odd = table(tmp_path / "h.csv", file=names, empty=[None] * 6, weight=[1.5, np.inf, 2, 3, 4, 5])
    assert "column 'empty' of h.csv is empty" in refusal(pets, odd)
    assert "column 'weight' of h.csv holds infinity" in refusal(pets, odd, ignore="empty")
    assert "5 rows" in refusal(array(tmp_path / "x.npy"), table(tmp_path / "f.csv", digit=range(5)))
    assert "save it as CSV" in refusal(pets, array(tmp_path / "y.npz"))


def test_image_sets_tell_shapes_and_splits(tmp_path: Path) -> None:
    data: ImageSet = read_images(array(tmp_path / "x.npy"), side=16)
    assert data.features == ()
    assert data.batch(3).labels.shape == (3, 0)
    with pytest.raises(ValueError, match="unknown split"):
        data.batch(3, "held_out")


def test_an_array_without_a_table_has_no_features(tmp_path: Path) -> None:
    np.save(tmp_path / "digits.npy", np.random.default_rng(0).random((5, 8, 8)))
    data = read_images(tmp_path / "digits.npy", side=8)
    batch = data.batch(7)
    assert data.features == ()
    assert data.feature_values(batch).shape == batch.labels.shape == (7, 0)
