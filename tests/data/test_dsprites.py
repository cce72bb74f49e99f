"""The renderer against geometry, the paper's law and hold-outs, the original's format, its cache,
and refusals.
"""

from __future__ import annotations

import math
import re
import tracemalloc
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.path import Path as Polygon
from torch import Tensor

from plot_attractors.data import DataSet, Labelled, dsprites
from plot_attractors.data.dsprites import (
    COLOURS,
    POSITION_WEIGHTS,
    RGB,
    ColouredSprites,
    SpriteImages,
    load_sprites,
    read_dsprites,
    render_dsprites,
)
from plot_attractors.data.sprites import SHAPES, render
from plot_attractors.runs import registry

GRID = torch.linspace(0, 1, 32)
SCALES = torch.linspace(0.5, 1, 6)


@pytest.fixture(scope="module")
def data() -> ColouredSprites:
    return load_sprites(side=32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "plot-attractors"


def random_sprites(n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.arange(n) % 3, SCALES[torch.randint(6, (n,))], *GRID[torch.randint(32, (2, n))]


def outline(shape: int, size: float) -> np.ndarray:
    """(points, 2) of the formulas, about the centre, in pixels of a 64 × 64 image."""
    t = np.linspace(0, 2 * np.pi, 4001)
    if shape == 0:
        return (
            10
            * size
            * np.stack([np.cos(t), np.sin(t)], 1)
            / np.maximum(abs(np.cos(t)), abs(np.sin(t)))[:, None]
        )
    if shape == 1:
        return size * np.stack([12.75 * np.cos(t), 7.25 * np.sin(t)], 1)
    y = 10.4 * (13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 16 + 1.4
    return size * np.stack([9.6 * np.sin(t) ** 3, -y], 1)


def area(points: np.ndarray) -> float:
    (x, y), (u, v) = points[:-1].T, points[1:].T
    return abs(float((x * v - u * y).sum())) / 2


# The renderer


def test_areas_of_squares_are_whole_wherever_they_lie() -> None:
    x, y = torch.cartesian_prod(GRID, GRID).unbind(1)
    for size, expected in zip(SCALES, (100, 144, 196, 256, 324, 400), strict=True):
        images = render(torch.zeros(1024, dtype=torch.int64), size.expand(1024), x, y, smooth=False)
        assert ((images == 0) | (images == 1)).all()
        assert (images.sum((1, 2)) == expected).all()


@pytest.mark.parametrize("side", [64, 48, 32])
def test_pixels_without_coverage_are_those_whose_centre_lies_inside(side: int) -> None:
    sprites = random_sprites(30)
    images = render(*sprites, side, smooth=False).bool().numpy()
    centre = (np.arange(side) + 0.5) * 64 / side
    points = np.stack(np.meshgrid(centre, centre), -1).reshape(-1, 2)
    for image, (shape, size, x, y) in zip(
        images, zip(*(p.tolist() for p in sprites), strict=True), strict=True
    ):
        polygon = Polygon(outline(shape, size) + np.array([16 + 32 * x, 16 + 32 * y]))
        doubtful = points[image.reshape(-1) != polygon.contains_points(points)]
        # Only centres on the outline itself may be taken for either.
        assert all(np.hypot(*(polygon.vertices - point).T).min() < 0.02 for point in doubtful)


@pytest.mark.parametrize("side", [32, 24])
def test_coverage_is_the_covered_part_of_a_pixel(side: int) -> None:
    sprites = random_sprites(6)
    images = render(*sprites, side)
    fine = 32
    for k, image in enumerate(images):
        one = render(*(part[k : k + 1] for part in sprites), side * fine, smooth=False)
        torch.testing.assert_close(
            image, torch.nn.functional.avg_pool2d(one, fine)[0], atol=0.015 + 0.5 / fine, rtol=0
        )
        expected = area(outline(int(sprites[0][k]), float(sprites[1][k]))) * (side / 64) ** 2
        assert float(image.sum()) == pytest.approx(expected, rel=3e-3)


def test_shapes_stand_upright_and_y_points_down() -> None:
    one = torch.ones(1)
    low_left = render(torch.tensor([0]), 0.5 * one, 0 * one, one)[0]
    rows, columns = low_left.nonzero().T
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (43, 52, 11, 20)
    ellipse = render(torch.tensor([1]), one, 0.5 * one, 0.5 * one)[0]
    assert ellipse.sum(0).count_nonzero() > ellipse.sum(1).count_nonzero()  # wider than high
    torch.testing.assert_close(ellipse, ellipse.flip(0))
    heart = render(torch.tensor([2]), one, 0.5 * one, 0.5 * one)[0]
    torch.testing.assert_close(heart, heart.flip(1))
    width = (heart > 0).sum(1)[(heart > 0).any(1)]
    assert width[0] > width[-1]  # two lobes above, one tip below
    assert heart[26, 32] < heart[26, 36]  # and a cleft between the lobes


def test_long_batches_are_drawn_in_parts_and_empty_ones_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sprites = random_sprites(9)
    whole = render(*sprites, 20)
    monkeypatch.setattr("plot_attractors.data.sprites.CHUNK", 2 * 400)
    assert torch.equal(render(*sprites, 20), whole)
    assert render(*(part[:0] for part in sprites), 20).shape == (0, 20, 20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"side": 0}, "side of an image must be a positive whole number of pixels, not 0"),
        ({"side": 32.0}, "not 32.0"),
        ({"shape": torch.tensor([0, 3])}, r"0, 1 or 2 \(square, ellipse, heart\), not 3"),
        ({"size": torch.tensor([0.5, 0])}, "size of a sprite must be positive, not 0"),
        ({"size": torch.tensor([0.5, math.nan])}, "size of a sprite must be positive, not nan"),
        ({"x": torch.tensor([0.5, math.inf])}, "position of a sprite must be finite"),
        (
            {"y": torch.tensor([0.5])},
            r"must each have the shape \(n,\), not \(2,\), \(2,\), \(2,\), \(1,\)",
        ),
    ],
)
def test_renderer_refuses(change: dict[str, Any], message: str) -> None:
    good = {
        "shape": torch.tensor([0, 1]),
        "size": torch.ones(2),
        "x": torch.zeros(2),
        "y": torch.zeros(2),
    }
    with pytest.raises(ValueError, match=message):
        render(**(good | change))


# The paper's data


def test_contract(data: ColouredSprites) -> None:
    assert isinstance(data, DataSet)
    assert isinstance(data, Labelled)
    assert data.splits == ("train", "position", "position+colour", "position+shape")
    assert [(f.name, f.outcomes) for f in data.features] == [
        ("colour", COLOURS), ("shape", SHAPES), ("size", ()), ("x", ()), ("y", ()),
    ]  # fmt: skip
    assert RGB[[COLOURS.index(c) for c in ("red", "yellow", "magenta", "white")]].tolist() == [
        [1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 1, 1],
    ]  # fmt: skip
    for split in data.splits:
        batch = data.batch(50, split)
        assert batch.x.shape == (50, *data.input_shape) == (50, 3, 32, 32)
        assert data.input_shape == batch.x[0].shape
        assert batch.x.dtype == torch.float32
        assert batch.x.min() >= 0
        assert batch.x.max() <= 1
        assert torch.equal(batch.labels, data.rows[batch.y])
        values = data.feature_values(batch)
        assert torch.equal(values[:, :2].long(), batch.labels[:, :2])
        torch.testing.assert_close(values[:, 2], 0.5 + batch.labels[:, 2] / 10)
        torch.testing.assert_close(values[:, 3:], batch.labels[:, 3:] / 31)


def test_images_show_their_features(data: ColouredSprites) -> None:
    torch.manual_seed(0)
    batch = data.batch(400)
    mass = batch.x.sum(1)
    centre = (torch.arange(32) + 0.5) * 2
    values = data.feature_values(batch)
    x, y = ((mass.sum(k) * centre).sum(1) / mass.sum((1, 2)) for k in (1, 2))
    torch.testing.assert_close(x, 16 + 32 * values[:, 3], atol=0.05, rtol=0)
    up = batch.labels[:, 1] < 2  # the heart's centre of mass is not its centre
    torch.testing.assert_close(y[up], (16 + 32 * values[:, 4])[up], atol=0.05, rtol=0)
    # The brightest pixel is covered whole, so it shows the colour; most are nearest to their own.
    colour = batch.x.flatten(2).amax(2)
    nearest = torch.cdist(colour, RGB).argmin(1)
    assert (nearest == batch.labels[:, 0]).float().mean() > 0.93
    noise = (colour - RGB[batch.labels[:, 0]]).abs()
    assert float(noise.square().mean().sqrt()) == pytest.approx(0.2, rel=0.1)
    assert noise.max() <= 1


def test_nearest_colour_is_right_in_968_of_1000(data: ColouredSprites) -> None:
    """The number in the how-to."""
    torch.manual_seed(0)
    y = (data.rows[:, 1:] == torch.tensor([0, 5, 15, 15])).all(1).nonzero().flatten()
    assert len(y) == 7
    right = [
        torch.cdist(data.exemplars(y).flatten(2).amax(2), RGB).argmin(1) == torch.arange(7)
        for _ in range(2000)
    ]
    assert float(torch.stack(right).float().mean()) == pytest.approx(0.968, abs=0.006)


def test_noise_is_half_normal_and_towards_the_other_end(data: ColouredSprites) -> None:
    torch.manual_seed(0)
    y = (data.rows == torch.tensor([COLOURS.index("red"), 0, 5, 15, 15])).all(1).nonzero()[0]
    rgb = data.exemplars(y.expand(20_000)).flatten(2).amax(2)
    n = (rgb - torch.tensor([1.0, 0, 0])).abs()
    assert (rgb[:, 0] <= 1).all()
    for one in n.T:
        assert float(one.square().mean().sqrt()) == pytest.approx(
            0.2, abs=4 * 0.2 / math.sqrt(2 * len(one))
        )
        assert float(one.mean()) == pytest.approx(
            0.2 * math.sqrt(2 / math.pi), abs=4 * 0.1206 / math.sqrt(len(one))
        )
    assert torch.corrcoef(n.T).fill_diagonal_(0).abs().max() < 4 / math.sqrt(len(n))


def test_factors_follow_the_papers_law(data: ColouredSprites) -> None:
    assert len(POSITION_WEIGHTS) == 31
    assert sum(POSITION_WEIGHTS) == 95
    # The pattern 1, 2, 3, 4, 5, 4, 3, 2, 1, four times with shared ends, of which the outermost are
    # left out.
    assert [*POSITION_WEIGHTS[7:16]] == [1, 2, 3, 4, 5, 4, 3, 2, 1]
    torch.manual_seed(0)
    free = load_sprites(side=8, hold_out=False)
    n = 20_000
    labels = free.batch(n).labels
    laws = [
        torch.ones(7),
        torch.ones(3),
        torch.ones(6),
        *2 * [torch.tensor(POSITION_WEIGHTS).float()],
    ]
    for column, law in zip(labels.T, laws, strict=True):
        p = law / law.sum()
        z = (torch.bincount(column, minlength=len(p)) / n - p) / (p * (1 - p) / n).sqrt()
        assert z.abs().max() < 4.5
    assert torch.corrcoef(labels.T.float()).fill_diagonal_(0).abs().max() < 4.5 / math.sqrt(n)


def test_hold_outs_are_the_papers_and_training_has_none_of_them(data: ColouredSprites) -> None:
    colour, shape, _, x, y = data.rows.T
    members = {name: set(rows.tolist()) for name, rows in data.members.items()}

    def combinations(mask: Tensor) -> set[int]:
        return set(mask.nonzero().flatten().tolist())

    assert members["position"] == combinations((x >= 8) & (x < 16) & (y >= 16) & (y < 24))
    yellow = colour == COLOURS.index("yellow")
    assert members["position+colour"] == combinations(
        (x >= 16) & (x < 24) & (y >= 8) & (y < 16) & yellow
    )
    oval = (colour == COLOURS.index("magenta")) & (shape == SHAPES.index("ellipse"))
    assert members["position+shape"] == combinations(oval)
    for name in data.splits[1:]:
        assert not members[name] & members["train"]
    assert set.union(*members.values()) == set(range(len(data.rows)))
    # One cell is a sixteenth, nearly; the law is that of training and held-out rows alike.
    share = data.weights[data.members["position"]].sum() / data.weights.sum()
    assert float(share) == pytest.approx((24 / 95) ** 2)
    torch.manual_seed(0)
    for name in data.splits:
        assert set(data.batch(5000, name).y.tolist()) <= members[name]
    # Every value of every feature occurs in training, so that only combinations are new.
    train = data.rows[data.members["train"]]
    assert [len(column.unique()) for column in train.T] == [7, 3, 6, 31, 31]


def test_batches_follow_the_seed(data: ColouredSprites) -> None:
    torch.manual_seed(3)
    first, second = data.batch(20), data.batch(20)
    torch.manual_seed(3)
    again = data.batch(20)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.x, second.x)
    torch.manual_seed(3)
    assert torch.equal(data.to("cpu").batch(20).x, first.x)


def test_nothing_held_out_and_refusals(data: ColouredSprites) -> None:
    assert ColouredSprites(render_dsprites(32), hold_out=False).splits == ("train",)
    with pytest.raises(
        ValueError, match="unknown split 'test': this data set has 'train' and 'position' and"
    ):
        data.batch(1, "test")
    with pytest.raises(ValueError, match="positive whole number, not 0"):
        data.batch(0)
    for side in (4, 500, 32.0, True):
        with pytest.raises(ValueError, match="from 8 to 128 pixels, not"):
            load_sprites(side=side)  # type: ignore[arg-type]
    few = SpriteImages(
        torch.zeros(3, 1, 32, 5, 8, 8, dtype=torch.uint8), torch.ones(1), GRID, GRID[:5]
    )
    with pytest.raises(
        ValueError,
        match="3 shapes and 32 positions on each axis, not 3 shapes and 32 by 5 positions",
    ):
        ColouredSprites(few)


# The original's format


def original(sizes: int = 2, orientations: int = 2, positions: int = 4) -> dict[str, np.ndarray]:
    """The arrays of a small file; orientations but the first are white, so that a mistake shows."""
    values = [
        np.ones(1), np.arange(1.0, 4), np.linspace(0.5, 1, sizes), np.linspace(0, 2 * np.pi, orientations),
        *2 * [np.linspace(0, 1, positions)],
    ]  # fmt: skip
    classes = np.stack(
        np.meshgrid(*(np.arange(len(v)) for v in values), indexing="ij"), -1
    ).reshape(-1, 6)
    found = np.stack([v[c] for v, c in zip(values, classes.T, strict=True)], 1)
    upright = classes[:, 3] == 0
    shape, size, _, x, y = torch.from_numpy(found[upright, 1:]).unbind(1)
    imgs = np.ones((len(classes), 64, 64), dtype=np.uint8)
    imgs[upright] = render(shape.long() - 1, size, x, y, smooth=False).byte().numpy()
    arrays = {"imgs": imgs, "latents_classes": classes.astype(np.int64), "latents_values": found}
    return {"metadata": np.array(["pickled in the original"])} | arrays


def write(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return path


def test_original_is_read_back(tmp_path: Path, cache: Path) -> None:
    path = write(tmp_path / "small.npz", original())
    first = read_dsprites(path, 64)
    assert [file.suffix for file in cache.iterdir()] == [""]
    for read in (first, read_dsprites(path, 64)):  # from the file, then from the cache
        assert read.images.shape == (3, 2, 4, 4, 64, 64)
        assert read.sizes.tolist() == [0.5, 1]
        torch.testing.assert_close(read.x, torch.linspace(0, 1, 4))
        for shape, size, x, y in np.ndindex(3, 2, 4, 4):
            place = read.sizes[size], read.x[x], read.y[y]
            one = render(torch.tensor([shape]), *(p[None] for p in place), smooth=False)[0]
            assert torch.equal(read.images[shape, size, x, y], 255 * one.byte())
    with pytest.raises(
        ValueError, match=r"small\.npz' is not of the paper's sprites: .* not 3 shapes and 4 by 4"
    ):
        load_sprites(path)
    half = read_dsprites(path, 32).images
    means = torch.nn.functional.avg_pool2d(first.images.flatten(0, 3).float(), 2)
    assert torch.equal(half, means.round().byte().view(half.shape))


def test_a_file_with_all_positions_makes_the_papers_data(
    tmp_path: Path, data: ColouredSprites
) -> None:
    path = write(tmp_path / "dsprites.npz", original(1, 1, 32))
    read = load_sprites(path, side=32)
    assert read.splits == data.splits
    assert len(read.rows) == 7 * 3 * 31 * 31
    ours = render_dsprites(32).images[:, :1].float() / 255
    theirs = read_dsprites(path, 32).images.float() / 255
    assert (
        float((ours - theirs).abs().mean()) < 0.005
    )  # coverage of quarter pixels, beside our finer one
    assert read.batch(3, "position+colour").x.shape == (3, 3, 32, 32)


def test_memory_does_not_grow_with_the_orientations(tmp_path: Path) -> None:
    arrays = original(1, 100, 4)
    path = write(tmp_path / "many.npz", arrays)
    tracemalloc.start()
    read_dsprites(path, 64)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert arrays["imgs"].nbytes > 19e6
    assert peak < 4e6


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"imgs": None, "latents_values": None}, "it has no 'imgs' and no 'latents_values'"),
        ({"imgs": lambda a: a.astype(np.int32)}, "'imgs' holds int32, not uint8"),
        (
            {"imgs": lambda a: a[:-1]},
            r"'imgs' has the shape \(191, 64, 64\), where \(192, 64, 64\) belongs to its latents",
        ),
        ({"imgs": lambda a: a[:, ::2]}, r"\(192, 32, 64\), where"),
        ({"imgs": lambda a: np.asfortranarray(a)}, "Fortran"),
        ({"imgs": lambda a: 255 * a}, "'imgs' holds 255, where only 0 and 1 can stand"),
        (
            {"latents_classes": lambda a: a.astype(float)},
            "'latents_classes' holds float64, not int64",
        ),
        (
            {"latents_classes": lambda a: a[:, :5]},
            r"'latents_classes' has the shape \(192, 5\), not \(N, 6\)",
        ),
        (
            {"latents_classes": lambda a: a[:-1]},
            "'latents_classes' has 191 rows and 'latents_values' 192",
        ),
        (
            {"latents_classes": lambda a: a + np.array([0, 0, 0, 0, 0, 1])},
            "not every combination of the factors once",
        ),
        (
            {"latents_classes": lambda a: a[:, [0, 1, 2, 3, 5, 4]].copy()},
            "not in order: x is not where it belongs",
        ),
        (
            {"latents_values": lambda a: a[:, [0, 1, 2, 3, 5, 4]].copy()},
            "'latents_values' of x do not increase with its class",
        ),
        (
            {"latents_values": lambda a: a * np.nan},
            "'latents_values' of colour do not increase with its class",
        ),
        ({"latents_values": lambda a: a + np.array([0, 1, 0, 0, 0, 0])}, "the shapes 1, 2 and 3"),
        (
            {"latents_values": lambda a: a * [1, 1, 1, 1, 64, 64]},
            "positions are not between 0 and 1",
        ),
    ],
)
def test_foreign_files_are_refused(
    tmp_path: Path, cache: Path, change: dict[str, Any], reason: str
) -> None:
    arrays = original()
    for key, altered in change.items():
        array = arrays.pop(key)
        if altered:
            arrays[key] = altered(array)
    sentence = refusal(write(tmp_path / "foreign.npz", arrays))
    assert re.search(reason, sentence)
    assert not cache.exists()


def refusal(path: Path) -> str:
    """The one sentence with which a file is refused; it names the file, and what was expected."""
    with pytest.raises(
        ValueError, match=r"cannot be read as dSprites \(.+\): expected dsprites_ndarray_"
    ) as caught:
        read_dsprites(path)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert str(path) in sentence
    assert "'imgs' (N, 64, 64) uint8" in sentence
    return sentence


@pytest.mark.parametrize("part", [0, 0.01, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(tmp_path: Path, part: float) -> None:
    data = write(tmp_path / "whole.npz", original()).read_bytes()
    path = tmp_path / "part.npz"
    path.write_bytes(data[: int(part * len(data))])
    refusal(path)


def test_damage_inside_the_archive_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", **original())  # type: ignore[arg-type]
    with zipfile.ZipFile(tmp_path / "whole.npz") as archive:
        middle = archive.getinfo("imgs.npy").header_offset + 300_000
    data = bytearray((tmp_path / "whole.npz").read_bytes())
    data[middle] ^= 1  # one pixel
    (tmp_path / "damaged.npz").write_bytes(data)
    assert "CRC" in refusal(tmp_path / "damaged.npz")


def test_an_array_shorter_than_its_header_says_is_refused(tmp_path: Path) -> None:
    whole, short = write(tmp_path / "whole.npz", original()), tmp_path / "short.npz"
    for key in ("imgs", "latents_values"):
        with zipfile.ZipFile(whole) as source, zipfile.ZipFile(short, "w") as target:
            for name in source.namelist():
                target.writestr(name, source.read(name)[: -1 if name == f"{key}.npy" else None])
        assert f"'{key}' ends too early" in refusal(short)


def test_other_kinds_of_file_and_missing_ones(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    assert "not a zip file" in refusal(tmp_path / "text.npz")
    with pytest.raises(
        ValueError, match=r"none.npz' does not exist: give the path of dsprites_ndarray_.*, or none"
    ):
        load_sprites(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="is not a file: give the path"):
        load_sprites(tmp_path)
    path = write(tmp_path / "small.npz", original())
    for side in (48, 128, 0, True):
        with pytest.raises(ValueError, match=f"must be 64, 32, 16 or 8 pixels, not {side}"):
            read_dsprites(path, side)


# The cache


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that were read themselves, and not from the cache."""
    found: list[Path] = []
    read = dsprites._read_original
    monkeypatch.setattr(
        dsprites, "_read_original", lambda path: (found.append(path), read(path))[1]
    )
    return found


def test_cache_is_of_the_content(tmp_path: Path, cache: Path, reads: list[Path]) -> None:
    arrays = original()
    path = write(tmp_path / "a.npz", arrays)
    read_dsprites(path, 64)
    read_dsprites(path, 32)
    path.rename(tmp_path / "b.npz")
    read_dsprites(tmp_path / "b.npz")
    assert len(reads) == 1
    arrays["imgs"][0] = 0
    assert not read_dsprites(write(tmp_path / "b.npz", arrays)).images[0, 0, 0, 0].any()
    assert len(reads) == len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "folder"])
def test_damaged_cache_is_made_anew(
    tmp_path: Path, cache: Path, reads: list[Path], damage: str
) -> None:
    path = write(tmp_path / "a.npz", original())
    expected = read_dsprites(path).images
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    if damage == "flip":
        file.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    elif damage == "folder":
        file.unlink()
        (file / "in the way").mkdir(parents=True)
        with pytest.warns(
            UserWarning, match=r"a.npz will be read again next time, as .* cannot be written"
        ):
            assert torch.equal(read_dsprites(path).images, expected)
        assert [entry.name for entry in cache.iterdir()] == [file.name]
        return
    else:
        file.write_bytes(whole[: len(whole) // 2 if damage == "cut" else 0])
    assert torch.equal(read_dsprites(path).images, expected)
    assert len(reads) == 2
    assert file.read_bytes() == whole


@pytest.mark.parametrize("place", ["os.replace", "os.fsync"])
def test_interruption_leaves_nothing(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    path = write(tmp_path / "a.npz", original())
    with monkeypatch.context() as patch:
        patch.setattr(place, interrupt)
        with pytest.raises(KeyboardInterrupt):
            read_dsprites(path)
    assert list(cache.iterdir()) == []
    read_dsprites(path)
    assert len(list(cache.iterdir())) == 1


def test_our_own_sprites_are_written_nowhere(cache: Path) -> None:
    load_sprites(side=8)
    assert not cache.exists()


# The how-to and the figure


def test_how_to(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "dsprites.md").read_text(
        encoding="utf-8"
    )
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], {})
    printed = capsys.readouterr().out.splitlines()
    assert (
        printed[0]
        == f"{torch.Size([16, 3, 32, 32])} ('train', 'position', 'position+colour', 'position+shape')"
    )
    assert [line.split()[0] for line in printed[1:]] == ["colour", "shape", "size", "x", "y"]


def test_figure_and_tables(tmp_path: Path, data: ColouredSprites) -> None:
    analysis = registry.load("analyses", "data")
    torch.manual_seed(0)
    analysis.analyze(types.SimpleNamespace(data=data), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} >= {
        "sprites.png",
        "sprites.svg",
        "summary.csv",
        "features.csv",
    }
    assert "sprites" in analysis.CAPTIONS
    summary = pd.read_csv(tmp_path / "summary.csv").set_index("split")
    assert list(summary.index) == list(data.splits)
    assert summary["combinations"]["position+shape"] == 6 * 31 * 31
    assert summary["share"]["position+shape"] == pytest.approx(1 / 21)
    features = pd.read_csv(tmp_path / "features.csv")
    assert features.groupby(["split", "feature"])["probability"].sum().to_numpy() == pytest.approx(
        1
    )
    oval = features[(features["split"] == "position+shape") & (features["feature"] == "shape")]
    assert dict(zip(oval["value"], oval["probability"], strict=True)) == {
        "square": 0,
        "ellipse": 1,
        "heart": 0,
    }
