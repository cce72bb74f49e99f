"""The renderer against geometry, and the paper's distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from matplotlib.path import Path as Polygon
from torch import Tensor

from plot_attractors.data import DataSet, Labelled
from plot_attractors.data.sprites import (
    COLOURS,
    POSITION_WEIGHTS,
    RGB,
    SHAPES,
    ColouredSprites,
    render,
)

GRID = torch.linspace(0, 1, 32)
SCALES = torch.linspace(0.5, 1, 6)


@pytest.fixture(scope="module")
def data() -> ColouredSprites:
    return ColouredSprites(side=32)


def random_sprites(n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.arange(n) % 3, SCALES[torch.randint(6, (n,))], *GRID[torch.randint(32, (2, n))]


def outline(shape: int, size: float) -> np.ndarray:
    """(points, 2) of the formulas, about the centre, in pixels of a 64 × 64 image."""
    t = np.linspace(0, 2 * np.pi, 4001)
    if shape == 0:
        circle = np.stack([np.cos(t), np.sin(t)], 1)
        return 10 * size * circle / abs(circle).max(1, keepdims=True)
    if shape == 1:
        return size * np.stack([12.75 * np.cos(t), 7.25 * np.sin(t)], 1)
    y = 10.4 * (13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) / 16 + 1.4
    return size * np.stack([9.6 * np.sin(t) ** 3, -y], 1)


def area(points: np.ndarray) -> float:
    (x, y), (u, v) = points[:-1].T, points[1:].T
    return abs(float((x * v - u * y).sum())) / 2


# The renderer


def test_coverage_is_the_covered_part_of_a_pixel() -> None:
    side, sprites = 24, random_sprites(6)
    fine = 16  # points of a pixel across
    along = (np.arange(side * fine) + 0.5) * 64 / (side * fine)
    points = np.stack(np.meshgrid(along, along), -1).reshape(-1, 2)
    of_sprites = zip(*(part.tolist() for part in sprites), strict=True)
    for image, (shape, size, x, y) in zip(render(*sprites, side), of_sprites, strict=True):
        polygon = outline(shape, size)
        inside = Polygon(polygon[::10] + 16 + 32 * np.array([x, y])).contains_points(points)
        covered = torch.from_numpy(inside.reshape(side, fine, side, fine).mean((1, 3))).float()
        torch.testing.assert_close(image, covered, atol=0.015 + 0.5 / fine, rtol=0)
        expected = area(polygon) * (side / 64) ** 2
        assert float(image.sum()) == pytest.approx(expected, rel=3e-3)


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


def test_noise_is_half_normal_and_towards_the_other_end(data: ColouredSprites) -> None:
    torch.manual_seed(0)
    y = (data.rows == torch.tensor([COLOURS.index("red"), 0, 5, 15, 15])).all(1).nonzero()[0]
    rgb = data.exemplars(y.expand(20_000)).flatten(2).amax(2)
    n = (rgb - torch.tensor([1.0, 0, 0])).abs()
    assert (rgb[:, 0] <= 1).all()
    assert n.max() <= 1
    error = 4 / math.sqrt(len(n))
    assert n.square().mean(0).sqrt().tolist() == pytest.approx([0.2] * 3, abs=error * 0.2)
    mean = 0.2 * math.sqrt(2 / math.pi)
    assert n.mean(0).tolist() == pytest.approx([mean] * 3, abs=error * 0.1206)
    assert torch.corrcoef(n.T).fill_diagonal_(0).abs().max() < error


def test_factors_follow_the_papers_distribution(data: ColouredSprites) -> None:
    assert len(POSITION_WEIGHTS) == 31
    assert sum(POSITION_WEIGHTS) == 95
    # 1, 2, 3, 4, 5, 4, 3, 2, 1, four times with shared ends, without the outermost
    assert [*POSITION_WEIGHTS[7:16]] == [1, 2, 3, 4, 5, 4, 3, 2, 1]
    torch.manual_seed(0)
    free = ColouredSprites(side=8, hold_out=False)
    n = 20_000
    labels = free.batch(n).labels
    positions = torch.tensor(POSITION_WEIGHTS).float()
    expected = [torch.ones(7), torch.ones(3), torch.ones(6), positions, positions]
    for column, weights in zip(labels.T, expected, strict=True):
        p = weights / weights.sum()
        z = (torch.bincount(column, minlength=len(p)) / n - p) / (p * (1 - p) / n).sqrt()
        assert z.abs().max() < 4.5
    assert torch.corrcoef(labels.T.float()).fill_diagonal_(0).abs().max() < 4.5 / math.sqrt(n)


def test_hold_outs_are_the_papers_and_training_has_none_of_them(data: ColouredSprites) -> None:
    colour, shape, _, x, y = data.rows.T
    members = {name: set(rows.tolist()) for name, rows in data.members.items()}

    def combinations(mask: Tensor) -> set[int]:
        return set(mask.nonzero().flatten().tolist())

    yellow, magenta = (colour == COLOURS.index(name) for name in ("yellow", "magenta"))
    cells = (x >= 8) & (x < 16) & (y >= 16) & (y < 24), (x >= 16) & (x < 24) & (y >= 8) & (y < 16)
    assert members["position"] == combinations(cells[0])
    assert members["position+colour"] == combinations(cells[1] & yellow)
    assert members["position+shape"] == combinations(magenta & (shape == SHAPES.index("ellipse")))
    for name in data.splits[1:]:
        assert not members[name] & members["train"]
    assert set.union(*members.values()) == set(range(len(data.rows)))
    # One cell is a sixteenth, nearly; the distribution is that of all rows.
    share = data.weights[data.members["position"]].sum() / data.weights.sum()
    assert float(share) == pytest.approx((24 / 95) ** 2)
    torch.manual_seed(0)
    for name in data.splits:
        assert set(data.batch(5000, name).y.tolist()) <= members[name]
    # Every value of every feature occurs in training, so that only combinations are new.
    train = data.rows[data.members["train"]]
    assert [len(column.unique()) for column in train.T] == [7, 3, 6, 31, 31]


def test_unknown_splits(data: ColouredSprites) -> None:
    with pytest.raises(ValueError, match="unknown split 'test': this data set has 'train' and"):
        data.batch(1, "test")
