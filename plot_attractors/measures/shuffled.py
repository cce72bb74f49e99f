"""Measures of a language beside those of shuffled languages, and features as measures take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

# Of sentences and features, (N, …) each: a number, an array, or a tuple with a field ``value``.
# All other arguments are bound by `functools.partial`.
Measure = Callable[[Any, Any], Any]
Shuffle = Literal["inputs", "meanings"]

_TIE = 1e-12  # values that differ by rounding alone are equal
MISSING = -1.0


def feature_matrix(
    features: ArrayLike, categorical: Sequence[bool] | None
) -> tuple[Floats, tuple[bool, ...]]:
    """(N, F) features, −1 for missing categorical values; and which features are categorical."""
    array = np.asarray(features, dtype=np.float64)
    kinds = (True,) * array.shape[1] if categorical is None else tuple(categorical)
    return np.where(np.array(kinds, dtype=bool) & np.isnan(array), MISSING, array), kinds


def why_equal(rows: NDArray[Any], name: str, columns: str) -> str:
    """Why rows (N, M) do not differ, or "" if some do."""
    if len(rows) == 0:
        return "there are no inputs"
    if rows.shape[1] == 0:
        return f"there are no {columns}"
    return f"all {name} are equal" if bool((rows == rows[0]).all()) else ""


class ShuffledNull(NamedTuple):
    """A measure over shuffled languages, of the shape of the measure's value.

    - ``mean``, ``sd``: over shuffled languages;
    - ``p_value``: (1 + #{null ≥ value}) / (1 + permutations).
    """

    mean: Any
    sd: Any
    p_value: Any


def shuffled_null(
    measure: Measure,
    sentences: ArrayLike,
    features: ArrayLike,
    permutations: int = 100,
    seed: int = 0,
    *,
    shuffle: Shuffle = "inputs",
) -> ShuffledNull:
    """A measure of languages that have the same sentences, of which it is known what they tell.

    Shuffled over inputs, sentences tell nothing: what the measure is above zero is its bias.
    Shuffled over meanings (distinct rows of features), every input gets a random one of the
    sentences of the meaning that its own meaning is mapped to, by a random permutation of meanings:
    sentences tell meanings apart as well as before, but similar meanings have no similar sentences.
    That is a holistic language, which a compositional one exceeds. Where many inputs share a
    meaning, only the second null is a test of compositionality. Permutations for which the measure
    is NaN are left out.
    """
    sentences, meaning = np.asarray(sentences), np.asarray(features)
    n, rng = len(sentences), np.random.default_rng(seed)
    orders = _over_meanings(meaning, rng) if shuffle == "meanings" else lambda: rng.permutation(n)
    values = np.stack([_value(measure(sentences[orders()], meaning)) for _ in range(permutations)])
    return of_values(values, _value(measure(sentences, meaning)))


def of_values(values: Floats, own: Floats | float) -> ShuffledNull:
    """Of values (permutations, …) of shuffled languages, and of the language's own (…)."""
    here = ~np.isnan(values)
    count = here.sum(0)
    mean = _divide(np.where(here, values, 0.0).sum(0), count)
    sd = np.sqrt(_divide((np.where(here, values - mean, 0.0) ** 2).sum(0), count))
    defined = (count > 0) & ~np.isnan(own)
    above = (values - own >= -_TIE).sum(0)
    return ShuffledNull(mean, sd, np.where(defined, (1 + above) / (1 + count), np.nan))


def _divide(total: Floats, count: Integers) -> Floats:
    """total / count, NaN where the count is not positive."""
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)


def _value(result: Any) -> Floats:
    return np.asarray(getattr(result, "value", result), dtype=np.float64)


def _over_meanings(features: NDArray[Any], rng: np.random.Generator) -> Callable[[], Integers]:
    """A function that draws, for every input, an input of the meaning that its own is mapped to."""
    rows, _ = feature_matrix(features, None)
    _, code, size = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    code = code.reshape(-1)
    inputs, start = np.argsort(code, kind="stable"), np.cumsum(size) - size

    def draw() -> Integers:
        other = rng.permutation(len(size))[code]
        drawn: Integers = inputs[start[other] + rng.integers(size[other])]
        return drawn

    return draw
