"""The data figure: a tree counted by hand; images with their labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from plot_attractors.analysis.style import lettered
from plot_attractors.data import ColouredSprites, HierarchicalBinaryVectors
from plot_attractors.runs import registry
from tests.small import Untrained

analysis = registry.load("analyses", "data")


def drawn(data: Any, name: str) -> tuple[dict[str, Any], Figure]:
    """The tables of a data set, and its figure."""
    run: Any = Untrained(None, data)
    assert analysis.NEEDS.met(run)
    tables = analysis.measure(run, analysis.Config(exemplars=2000))
    figures: dict[str, Figure] = analysis.draw(tables)
    assert list(figures) == [name]
    figures[name].canvas.draw()
    return tables, figures[name]


def titles(figure: Figure) -> list[str]:
    return [title for axes in figure.axes if (title := axes.get_title())]


def test_of_a_tree() -> None:
    data = HierarchicalBinaryVectors(depth=3, bits=8)
    tables, figure = drawn(data, "data")
    classes, arrays = tables["summary.csv"], tables["data.npz"]
    assert classes["path"].tolist() == list(data.class_names)
    assert classes["ones"].tolist() == [4, 4, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    assert classes["class"][classes["held_out"] == 1].tolist() == data.held_out_classes.tolist()
    assert arrays["exemplars"].shape == (42, 8)
    x = data.batch(40_000).x.numpy()
    off = ~np.eye(8, dtype=bool)
    expected = np.corrcoef(x, rowvar=False)
    np.testing.assert_allclose(arrays["correlation"][off], expected[off], atol=0.1)
    assert titles(figure)[2:4] == [
        lettered("c", "3 exemplars of each class"),
        lettered("d", "Correlation of the bits (2,000 training exemplars)"),
    ]


def test_of_sprites() -> None:
    tables, figure = drawn(data := ColouredSprites(), "inputs")
    summary = tables["summary.csv"].set_index("split")
    assert list(summary.index) == list(data.splits)
    assert summary["members"]["position+shape"] == 6 * 31 * 31
    assert summary["share"]["position+shape"] == pytest.approx(1 / 21)
    assert titles(figure)[-1] == "magenta\nellipse"
