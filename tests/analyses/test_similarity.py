"""The analysis of similarity on languages of a known kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from plot_attractors.analysis import corpora
from plot_attractors.data import Batch, Feature
from plot_attractors.language import Language
from plot_attractors.measures.similarity import topographic_similarity
from plot_attractors.model.protocols import Description
from plot_attractors.runs import registry

from ..small import Untrained, measured

similarity = registry.load("analyses", "similarity")

COLUMNS = (
    "measure,split,value,low,high,null_mean,null_sd,p_value,"
    "holistic_mean,holistic_sd,holistic_p_value,n,pairs,reason"
)
COLOURS = Feature("colour", ("red", "green", "blue"))
SHAPES = Feature("shape", ("disc", "square", "star"))


class Things:
    """Inputs that are their own features, drawn uniformly, and a number that no two of them share;
    NaN is missing.
    """

    def __init__(self, rows: Tensor, features: tuple[Feature, ...], ordered: bool = False) -> None:
        self.rows, self.features, self.ordered = rows, features, ordered
        self.bits, self.label_names, self.splits = rows.shape[1], (), ("train", "held_out")

    def batch(self, n: int, split: str = "train") -> Batch:
        y = torch.randint(len(self.rows), (n,))
        return Batch(torch.cat([self.rows[y], torch.arange(float(n))[:, None]], 1), y, y[:, None])

    def feature_values(self, batch: Batch) -> Tensor:
        return batch.x[:, :-1]


class Speller:
    """A token for every value of every feature, and none for a missing one; of an ordered language,
    in their order.
    """

    latent = 2

    def __init__(self, language: Language, first: int = 0) -> None:
        self.language, self.first = language, first

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        x = x[:, :-1]
        code = x.nan_to_num(-1).long() - self.first
        if self.language.ordered:  # a position for each feature, a group for each token
            s = one_hot(code + 3 * torch.arange(x.shape[1]), self.language.tokens)
        else:
            s = one_hot(code.clamp(min=0), self.language.groups[0]) * (code >= 0)[..., None]
        s = s.flatten(1).float()[:, None].expand(-1, draws, -1)
        return Description(torch.zeros(*s.shape[:-1], self.latent), s)

    def embed(self, s: Tensor) -> Tensor:
        return s[..., : self.latent]


class Babbler(Speller):
    """Sentences that have nothing to do with the input."""

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        return super().describe(torch.randint_like(x, 3), draws)


class Namer(Speller):
    """A name for every input, without system."""

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        names = torch.randperm(9, generator=torch.Generator().manual_seed(4))
        names = names[(x[:, :2] @ torch.tensor([3.0, 1.0])).long()]
        return super().describe(torch.stack([names // 3, names % 3, names], 1).float(), draws)


class Mute(Speller):
    def describe(self, x: Tensor, draws: int = 1) -> Description:
        return super().describe(torch.zeros_like(x), draws)


GRID = torch.cartesian_prod(torch.arange(3.0), torch.arange(3.0))
LANGUAGE = Language((3, 3), min_length=0)


DATA = Things(GRID, (COLOURS, SHAPES))
SMALL = {"inputs": 200, "max_pairs": 3000, "resamples": 10}


def analyzed(model: Any, data: Any) -> dict[str, pd.DataFrame]:
    """The tables, of which the summary is of training inputs, by measure."""
    settings = SMALL | {"permutations": 19, "meaning_permutations": 19}
    tables = measured("similarity", Untrained(model, data), **settings)
    registry.load("analyses", "similarity").draw(tables)
    table = tables["summary.csv"]
    assert ",".join(table.columns) == COLUMNS
    assert list(table["split"].unique()) == ["train", "held_out"]
    return tables | {"summary.csv": table[table["split"] == "train"].set_index("measure")}


def similarity_of(model: Any, data: Any) -> Any:
    return analyzed(model, data)["summary.csv"].loc["topographic_similarity"]


def test_a_spelled_language_is_perfect() -> None:
    tables = analyzed(Speller(LANGUAGE), DATA)
    row = tables["summary.csv"].loc["topographic_similarity"]
    assert row["value"] == pytest.approx(1)
    assert row["p_value"] == 0.05
    assert row["null_mean"] < 0.5
    assert (row["n"], row["pairs"], row["reason"]) == (200, 3000, "")
    pairs = tables["pairs.csv"]  # two tokens for each feature that differs
    np.testing.assert_array_equal(pairs["tokens"], 2 * pairs["distance"])


def test_names_without_system_are_not_compositional() -> None:
    row = similarity_of(Namer(LANGUAGE), DATA)
    assert row["p_value"] <= 0.1  # they tell something,
    assert row["holistic_p_value"] > 0.05  # and have no system
    assert abs(row["value"] - row["holistic_mean"]) < 4 * row["holistic_sd"]


def test_random_sentences_are_no_better_than_their_null() -> None:
    row = similarity_of(Babbler(LANGUAGE), DATA)
    assert abs(row["value"] - row["null_mean"]) < 4 * row["null_sd"]
    assert row["low"] < row["value"] < row["high"]


def test_what_does_not_vary_has_reasons_for_values() -> None:
    assert similarity_of(Mute(LANGUAGE), DATA)["reason"] == "all sentences are equal"
    for data in (Things(GRID[:1], (COLOURS, SHAPES)), Small(torch.zeros(1, 3), GRID[:1])):
        constant = similarity_of(Speller(LANGUAGE), data)
        assert np.isnan(constant["value"])
        assert constant["reason"]


def test_the_levels_of_a_tree_that_a_path_does_not_reach_are_no_value() -> None:
    level = [Feature(f"level{k}", ("none", "left", "right")) for k in range(2)]
    paths = torch.tensor([[1.0, 0], [2, 0], [1, 1], [1, 2], [2, 1], [2, 2]])
    data: Any = Things(paths, tuple(level), ordered=True)
    assert similarity_of(Speller(Language((2, 2)), first=1), data)["value"] > 0.9


def test_tokens_of_an_ordered_language_count_wherever_they_stand() -> None:
    language = Language((1,) * 6, max_length=2, ordered=True)
    assert similarity_of(Speller(language), DATA)["value"] == pytest.approx(1)


def test_continuous_and_missing_features() -> None:
    rows = torch.cartesian_prod(torch.arange(3.0), torch.linspace(0, 2, 21))
    rows[:20, 0] = torch.nan
    rows[::10, 1] = torch.nan  # an input of unknown size has no distance
    row = similarity_of(Speller(LANGUAGE), Things(rows, (COLOURS, Feature("size"))))
    assert row["n"] < 200
    assert 0.5 < row["value"] < 1  # sizes have three tokens


class Small(Things):
    """A table: the rows themselves are drawn, again and again."""

    def __init__(self, rows: Tensor, meaning: Tensor) -> None:
        super().__init__(rows, (COLOURS, SHAPES))
        self.meaning = meaning

    def batch(self, n: int, split: str = "train") -> Batch:
        y = torch.randint(len(self.rows), (n,))
        return Batch(self.rows[y], y, y[:, None])

    def feature_values(self, batch: Batch) -> Tensor:
        return self.meaning[batch.y]


def test_copies_of_an_input_are_not_compared_with_each_other() -> None:
    """Names of 24 rows, features by chance: ρ is 0 on average, and p-values are uniform."""
    result = []
    for seed in range(40):
        rows = torch.cat([torch.randint(3, (24, 2)), torch.arange(24)[:, None]], 1).float()
        data: Any = Small(rows, torch.randint(3, (24, 2)).float())
        of = corpora.corpus(Speller(LANGUAGE), data, data.batch(200))
        result.append(
            topographic_similarity(of.tokens, of.meaning, seed=seed, resamples=10, permutations=19)
        )
    table = pd.DataFrame(result)
    assert (table["n"] == 24).all()
    assert (table["pairs"] == 276).all()
    assert table["value"].mean() == pytest.approx(0, abs=0.05)  # five standard errors
    assert table["p_value"].mean() == pytest.approx(0.5, abs=0.2)
    assert (table["p_value"] < 0.26).mean() < 0.6
    assert ((table["low"] < 0) & (table["high"] > 0)).mean() > 0.7


def test_numbers_that_measure_nothing_are_refused() -> None:
    for name, least in (("permutations", 1), ("resamples", 2), ("max_pairs", 3)):
        with pytest.raises(ValueError, match=f"^{name} must be .* not {least - 1}$"):
            similarity.Config(**{name: least - 1})
