"""Measures of a language beside those of shuffled languages, and of resampled inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plot_attractors.measures._arguments import Floats, Integers, feature_matrix

# Of sentences and features, (N, …) each: a number, an array, or a tuple with a field ``value``.
# All other arguments are bound by `functools.partial`.
Measure = Callable[[Any, Any], Any]
Shuffle = Literal["inputs", "meanings"]
Alternative = Literal["greater", "less"]

_TIE = 1e-12  # values that differ by rounding alone are equal


class ShuffledNull(NamedTuple):
    """A measure over shuffled languages, of the shape of the measure's value.

    - ``mean``, ``sd``: over shuffled languages;
    - ``p_value``: (1 + #{null ≥ value}) / (1 + permutations) for ``alternative="greater"``, ≤ for
      "less";
    - ``reason``: why ``mean`` is NaN (that of the measure), otherwise "".
    """

    mean: Any
    sd: Any
    p_value: Any
    reason: str


class Interval(NamedTuple):
    """Bounds of a 95 % interval, of the shape of the measure's value; NaN where that is."""

    low: Any
    high: Any


def shuffled_null(
    measure: Measure,
    sentences: ArrayLike,
    features: ArrayLike,
    permutations: int = 100,
    seed: int = 0,
    *,
    shuffle: Shuffle = "inputs",
    alternative: Alternative = "greater",
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
    results = [measure(sentences[orders()], meaning) for _ in range(permutations)]
    values = np.stack([_value(result) for result in results])
    found = _value(measure(sentences, meaning))
    here = ~np.isnan(values)
    count = here.sum(0)
    mean = _divide(np.where(here, values, 0.0).sum(0), count)
    sd = np.sqrt(_divide((np.where(here, values - mean, 0.0) ** 2).sum(0), count))
    excess = values - found if alternative == "greater" else found - values
    defined = (count > 0) & ~np.isnan(found)
    p_value = np.where(defined, (1 + (excess >= -_TIE).sum(0)) / (1 + count), np.nan)
    reason = ""
    if bool((count == 0).any()):
        reason = getattr(results[0], "reason", "") or "the measure is NaN for all permutations"
    if mean.ndim == 0:
        return ShuffledNull(float(mean), float(sd), float(p_value), reason)
    return ShuffledNull(mean, sd, p_value, reason)


def sampling_interval(
    measure: Measure, sentences: ArrayLike, features: ArrayLike, resamples: int = 100, seed: int = 0
) -> Interval:
    """value ± 1.96 standard deviations of the measure over bootstrap samples of inputs.

    It tells how far the value of other inputs may be, and nothing of the measure's bias, which
    `shuffled_null` shows. Percentiles are not taken: a bootstrap sample holds inputs more than
    once, which adds to the bias of plug-in information, so that they may all lie above the value.
    """
    sentences, meaning = np.asarray(sentences), np.asarray(features)
    value = _value(measure(sentences, meaning))
    n, rng = len(sentences), np.random.default_rng(seed)
    chosen = (rng.integers(n, size=n) for _ in range(resamples if n else 0))
    drawn = [_value(measure(sentences[i], meaning[i])) for i in chosen]
    values = np.stack([np.full(value.shape, np.nan), *drawn])
    here = ~np.isnan(values)
    count = here.sum(0)
    mean = np.where(here, values, 0.0).sum(0) / np.maximum(count, 1)
    square = (np.where(here, values - mean, 0.0) ** 2).sum(0)
    half = 1.96 * np.sqrt(_divide(square, count - 1))
    if value.ndim == 0:
        return Interval(float(value - half), float(value + half))
    return Interval(value - half, value + half)


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
