"""The data figure: tables of a tree, a table, sprites and images, and the panels drawn of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from plot_attractors.data import HierarchicalBinaryVectors, load_sprites, read_images, read_table
from plot_attractors.runs import registry
from tests.small import Untrained

analysis = registry.load("analyses", "data")
plot = analysis.draw

FEW = {"exemplars": 2000, "swatches": 4}


def drawn(data: Any, name: str) -> tuple[dict[str, Any], list[str]]:
    """The tables of a data set, and the titles of its figure's panels."""
    run: Any = Untrained(None, data)
    tables = analysis.measure(run, analysis.Config(**FEW))
    figures: dict[str, Figure] = plot(tables)
    assert list(figures) == [name]
    figures[name].canvas.draw()
    titles = [axes.get_title() for axes in figures[name].axes]
    return tables, [title for title in titles if title]


def test_of_a_tree() -> None:
    data = HierarchicalBinaryVectors(depth=3, bits=8)
    tables, titles = drawn(data, "data")
    classes, arrays = tables["summary.csv"], tables["data.npz"]
    assert classes["path"].tolist() == list(data.class_names)
    assert classes["ones"].tolist() == [4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert classes["class"][classes["held_out"] == 1].tolist() == data.held_out_classes.tolist()
    assert arrays["exemplars"].shape == (42, 8)
    x = data.batch(40_000).x.numpy()
    off = ~np.eye(8, dtype=bool)
    expected = np.corrcoef(x, rowvar=False)
    np.testing.assert_allclose(arrays["correlation"][off], expected[off], atol=0.1)
    assert titles[2] == "C  3 exemplars of each class"
    assert titles[3] == "D  Correlation of the bits (2,000 training exemplars)"


@pytest.mark.parametrize("columns", [3, 50])
def test_of_a_table(tmp_path: Path, columns: int) -> None:
    bits = np.arange(60 * columns).reshape(60, columns) * 7919 % 13 < 5
    head = [f"c{k}" for k in range(columns)]
    lines = [",".join([*head, "family"])]
    for k, row in enumerate(bits.astype(int)):
        lines.append(",".join([*map(str, row), "" if k < 2 else f"f{k % 25}"]))
    (tmp_path / "t.csv").write_text("\n".join(lines))
    data = read_table(tmp_path / "t.csv", labels=("family",))
    tables, titles = drawn(data, "table")
    summary, labels = tables["summary.csv"], tables["labels.csv"]
    assert summary["column"].tolist() == head
    assert summary["mean"].to_numpy() == pytest.approx(bits.mean(0))
    assert labels["rows"].sum() == 60
    assert labels["rows"][labels["value"] == "unspecified"].tolist() == [2]
    matrix = tables["table.npz"]["correlation"]
    assert not matrix.diagonal().any()
    assert matrix[1, 2] == pytest.approx(np.corrcoef(bits[:, 1], bits[:, 2])[0, 1])
    assert titles == [
        "A  Share of 1s in each column (60 rows)", "B  Correlation of the columns",
        "C  Label family",
    ]  # fmt: skip


@pytest.mark.parametrize("held_out", [True, False])
def test_of_sprites(held_out: bool) -> None:
    data = load_sprites(hold_out=held_out)
    tables, titles = drawn(data, "sprites")
    summary = tables["summary.csv"].set_index("split")
    assert list(summary.index) == list(data.splits)
    if held_out:
        assert summary["combinations"]["position+shape"] == 6 * 31 * 31
        assert summary["share"]["position+shape"] == pytest.approx(1 / 21)
    places = tables["sprites.npz"]["places"]
    assert places.sum() == pytest.approx(100, rel=1e-5)
    assert bool((places == 0).any()) == held_out
    assert len(titles) == (7 if held_out else 4)


def test_of_images(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 16, 16), dtype=np.uint8)
    for k, image in enumerate(images):
        file = tmp_path / "pets" / ("cats" if k < 30 else "dogs") / f"{k:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    rows = [f"{'cats' if k < 30 else 'dogs'}/{k:02}.png,{k / 2}" for k in range(40)]
    (tmp_path / "f.csv").write_text("\n".join(["file,weight", *rows]))
    data = read_images(
        tmp_path / "pets", tmp_path / "f.csv", side=16, held_out_fraction=0.25, continuous="weight"
    )
    tables, titles = drawn(data, "images")
    assert tables["summary.csv"]["images"].tolist() == [30, 10]
    assert tables["features.csv"]["images"].sum() == 40 * len(data.features)
    mean = torch.from_numpy(images).float().mean(0)
    expected = 255 * mean / mean.max()
    np.testing.assert_allclose(tables["images.npz"]["mean"][0, 0], expected, atol=1)
    assert titles[:2] == ["A  Training (30 of 30)", "B  Held out (10 of 10)"]
