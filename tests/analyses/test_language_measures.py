"""The analysis of language measures on languages of a known kind, and the corpus it leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from plot_attractors.data import Feature
from plot_attractors.language import Language
from plot_attractors.runs import registry

from ..fakes import Bags, Things
from ..small import SETTINGS, Untrained, measured

program = registry.load("analyses", "language_measures")

SMALL = SETTINGS["language_measures"]
COLOURS = Feature("colour", ("red", "green", "blue"))
SHAPES = Feature("shape", ("disc", "square", "star"))
GRID = torch.cartesian_prod(torch.arange(3.0), torch.arange(3.0))
LANGUAGE = Language((3, 3), min_length=0)


def things(rows: Tensor, *features: Feature, ordered: bool = False) -> Things:
    """Rows drawn uniformly, and a number that no two of them share; NaN is missing."""

    def draw(n: int) -> Tensor:
        return torch.cat([rows[torch.randint(len(rows), (n,))], torch.arange(float(n))[:, None]], 1)

    data = Things(features or (COLOURS, SHAPES), draw, ("train", "held_out"))
    data.ordered = ordered
    return data


def spelled(x: Tensor, first: int = 0) -> Tensor:
    """A token for each value of each of two features, none for a missing one."""
    code = x[:, :2].nan_to_num(-1).long() - first
    return (one_hot(code.clamp(min=0), 3 - first) * (code >= 0)[..., None]).flatten(1).float()


def named(x: Tensor) -> Tensor:
    """A name for every input, without system."""
    names = torch.randperm(9, generator=torch.Generator().manual_seed(4))
    names = names[(x[:, :2] @ torch.tensor([3.0, 1.0])).long()]
    return spelled(torch.stack([names // 3, names % 3], 1).float())


def summary(
    sentence: Callable[[Tensor], Tensor], data: Any = None, language: Language = LANGUAGE
) -> Any:
    """The row of training inputs."""
    torch.manual_seed(0)  # the same inputs
    run = Untrained(Bags(language, sentence), things(GRID) if data is None else data)
    tables = measured("language_measures", run, **SMALL | {"permutations": 19})
    program.draw(tables)
    table = tables["summary.csv"]
    assert list(table["split"].unique()) == ["train", "held_out"]
    return table.set_index("split").loc["train"]


def test_a_spelled_language_is_similar_to_its_features_and_names_are_not() -> None:
    best, worst = summary(spelled), summary(named)
    assert best["value"] == pytest.approx(1)
    assert best["p_value"] == 0.05
    assert best["null_mean"] < 0.5
    assert (best["n"], best["pairs"], best["reason"]) == (200, 19_900, "")
    assert worst["p_value"] <= 0.1  # names tell something,
    assert worst["holistic_p_value"] > 0.05  # and have no system
    assert abs(worst["value"] - worst["holistic_mean"]) < 4 * worst["holistic_sd"]


def test_the_levels_of_a_tree_that_a_path_does_not_reach_are_no_value() -> None:
    level = [Feature(f"level{k}", ("none", "left", "right")) for k in range(2)]
    paths = torch.tensor([[1.0, 0], [2, 0], [1, 1], [1, 2], [2, 1], [2, 2]])
    data = things(paths, *level, ordered=True)
    table = summary(lambda x: spelled(x, first=1), data, Language((2, 2)))
    assert table["value"] > 0.9


def test_continuous_and_missing_features() -> None:
    rows = torch.cartesian_prod(torch.arange(3.0), torch.linspace(0, 2, 21))
    rows[:20, 0] = torch.nan
    rows[::10, 1] = torch.nan  # an input of unknown size has no distance
    row = summary(spelled, things(rows, COLOURS, Feature("size")))
    assert row["n"] < 200
    assert 0.5 < row["value"] < 1  # sizes have three tokens


def test_copies_of_an_input_are_not_compared_with_each_other() -> None:
    rows = torch.cat([torch.randint(3, (24, 4)).float(), torch.arange(24.0)[:, None]], 1)
    data: Any = Things((COLOURS, SHAPES), lambda n: rows[torch.randint(24, (n,))])
    of = program.corpus(Bags(LANGUAGE, lambda x: spelled(x[:, 2:])), data, data.batch(200))
    assert len(of.tokens) == len(of.meaning) == 24
