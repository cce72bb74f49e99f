"""How compositional a language is: whether features have tokens of their own, and sentences are
sums of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from plot_attractors.evaluation.metrics._arguments import (
    MISSING,
    Floats,
    Integers,
    binary,
    check_at_least,
    check_rows,
    feature_matrix,
    matrix,
    why_equal,
)

__all__ = [
    "ContextIndependence",
    "Disentanglement",
    "Interval",
    "Measure",
    "MutualInformation",
    "Shuffle",
    "ShuffledNull",
    "TreeReconstruction",
    "bag_of_symbols_disentanglement",
    "context_independence",
    "mutual_information",
    "positional_disentanglement",
    "sampling_interval",
    "shuffled_null",
    "tree_reconstruction_error",
]

Measure = Callable[[Any, Any], Any]
Shuffle = Literal["inputs", "meanings"]

_TIE = 1e-12  # values that differ by rounding alone are equal


class Disentanglement(NamedTuple):
    """To what extent every symbol (or position) tells of one feature only.

    - ``value``: mean of ``per_symbol`` where it is not NaN, in [0, 1];
    - ``per_symbol``: (P,) (I₁ − I₂) / H, NaN where H = 0;
    - ``entropy``: (P,) H, bits; ``information``: (P, F) mutual information with every feature,
    bits, plug-in;
    - ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float
    per_symbol: Floats
    entropy: Floats
    information: Floats
    reason: str


class MutualInformation(NamedTuple):
    """What a whole sentence tells of every feature; all arrays are (F,).

    - ``value``: I(s; f), bits, plug-in; ``corrected``: with the Miller–Madow correction, which may
    be negative;
    - ``normalised``: ``value`` / H(f), in [0, 1], NaN for a constant feature;
    - ``entropy``: H(f), bits, plug-in;
    - ``reason``: why something is NaN, otherwise "".
    """

    value: Floats
    corrected: Floats
    normalised: Floats
    entropy: Floats
    reason: str


class ContextIndependence(NamedTuple):
    """How well feature values and tokens are aligned one to one.

    - ``value``: mean of ``per_level``, in [0, 1];
    - ``per_level``: (C,) p(v_c | c) · p(c | v_c) for every value c of a feature;
    - ``feature``, ``level``: (C,) the column and the value itself (−1 for "no value"; a bin's
    number where binned);
    - ``token``: (C,) v_c, the column of the token aligned with c;
    - ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float
    per_level: Floats
    feature: Integers
    level: Floats
    token: Integers
    reason: str


class TreeReconstruction(NamedTuple):
    """How far sentences are from sums of one vector per feature value.

    - ``value``: mean L1 distance of an input's sentence, in tokens; ``constant``: that of the mean
    sentence;
    - ``relative``: ``value`` / ``constant``: 0 for a fully additive language, 1 if features are no
    better than nothing;
    - ``fitted``, ``tested``: numbers of inputs; the same inputs if nothing is held out;
    - ``unseen``: tested inputs with a feature value that no fitted input has;
    - ``reason``: why ``value`` or ``relative`` is NaN, otherwise "".
    """

    value: float
    relative: float
    constant: float
    fitted: int
    tested: int
    unseen: int
    reason: str


class ShuffledNull(NamedTuple):
    """A measure over shuffled languages; all but ``reason`` are of the shape of the measure's
    value.

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


def positional_disentanglement(
    sentences_by_position: ArrayLike,
    features: ArrayLike,
    categorical: Sequence[bool] | None = None,
    *,
    bins: int = 10,
) -> Disentanglement:
    """Posdis: mean over positions of (I₁ − I₂) / H, of those where the symbol is not always the
    same.

    I₁ and I₂ are the greatest and second greatest mutual information of the position's symbol with
    a feature (I₂ = 0 if there is only one feature), and H is the entropy of the position's symbol;
    all plug-in, bits.

    Source: Chaabouni et al. (2020), "Compositionality and generalization in emergent languages".

    Args:
        sentences_by_position: (N, positions) whole numbers; a number that stands for "nothing" is a
        symbol, too.
        features: (N, F); NaN or −1 in a categorical column means "no value", a category of its own.
        categorical: which of the F features are categorical (`None`: all).
        bins: quantile bins of a continuous feature with more distinct values than that.

    Raises:
        ValueError: if shapes do not fit, symbols are not whole numbers, or `bins` is below 2.
    """
    symbols = matrix(sentences_by_position, "sentences_by_position")
    if not bool((symbols == np.round(symbols)).all()):
        raise ValueError(
            "sentences_by_position must hold whole numbers, one symbol for each position."
        )
    return _disentanglement(symbols, features, categorical, bins, "positions")


def bag_of_symbols_disentanglement(
    sentences: ArrayLike,
    features: ArrayLike,
    categorical: Sequence[bool] | None = None,
    *,
    bins: int = 10,
) -> Disentanglement:
    """Bosdis: mean over symbols of (I₁ − I₂) / H, of those whose count is not the same in all
    sentences.

    I₁ and I₂ are the greatest and second greatest mutual information of the symbol's count in a
    sentence with a feature (I₂ = 0 if there is only one feature), and H is the entropy of that
    count; all plug-in, bits.

    Source: Chaabouni et al. (2020), "Compositionality and generalization in emergent languages".

    Args:
        sentences: (N, width) counts of tokens, of 0 and 1 for multi-hot vectors.
        features: (N, F); NaN or −1 in a categorical column means "no value", a category of its own.
        categorical: which of the F features are categorical (`None`: all).
        bins: quantile bins of a continuous feature with more distinct values than that.

    Raises:
        ValueError: if shapes do not fit, counts are not whole numbers from 0, or `bins` is below 2.
    """
    counts = matrix(sentences, "sentences")
    if not bool(((counts >= 0) & (counts == np.round(counts))).all()):
        raise ValueError(
            "sentences must hold counts of tokens, which are whole numbers from 0 (0 and 1 if "
            "multi-hot)."
        )
    return _disentanglement(counts, features, categorical, bins, "tokens")


def mutual_information(
    sentences: ArrayLike,
    features: ArrayLike,
    categorical: Sequence[bool] | None = None,
    *,
    bins: int = 10,
) -> MutualInformation:
    """I(s; f) = H(s) + H(f) − H(s, f), bits, of the whole sentence s, as one discrete variable, and
    every feature f.

    Plug-in, which is too high where sentences are many and inputs few; Miller–Madow adds (K − 1) /
    2N nats to each entropy of K values that occur, so (K_s + K_f − K_sf − 1) / (2 N ln 2) bits to
    I. That does not help where most sentences occur only once: I is then H(f) for any language, as
    `shuffled_null` shows.

    Source: Miller (1955), "Note on the bias of information estimates".

    Args:
        sentences: (N, width) of 0 and 1.
        features: (N, F); NaN or −1 in a categorical column means "no value", a category of its own.
        categorical: which of the F features are categorical (`None`: all).
        bins: quantile bins of a continuous feature with more distinct values than that.

    Raises:
        ValueError: if shapes do not fit, sentences are not 0/1, or `bins` is below 2.
    """
    words = binary(sentences)
    meaning, kinds = feature_matrix(features, categorical, len(words))
    codes, _ = _codes(meaning, kinds, bins)
    n, f = codes.shape
    if n == 0 or f == 0:
        nothing = np.full(f, np.nan)
        reason = "there are no inputs" if f else "there are no features"
        return MutualInformation(nothing, nothing, nothing, nothing, reason)
    packed = np.packbits(words.astype(bool), axis=1)  # fewer columns to sort by
    sentence = np.unique(packed, axis=0, return_inverse=True)[1].reshape(n, 1)
    information, _, entropy, excess = _information(sentence, codes)
    value = information[0]
    normalised = np.divide(value, entropy, out=np.full(f, np.nan), where=entropy > 0)
    constant = np.flatnonzero(entropy == 0).tolist()
    return MutualInformation(
        value,
        value + excess[0] / (2 * n * math.log(2)),
        normalised,
        entropy,
        f"constant features have no normalised value: columns {constant}" if constant else "",
    )


def context_independence(
    sentences: ArrayLike,
    features: ArrayLike,
    categorical: Sequence[bool] | None = None,
    *,
    bins: int = 10,
    count_missing: bool = True,
) -> ContextIndependence:
    """CI = mean over feature values c of p(v_c | c) · p(c | v_c), where v_c = argmax_v p(c | v)
    over tokens v.

    p(v | c) is the share of inputs with value c whose sentence holds token v, and p(c | v) the
    share of inputs with token v that have value c. Of tokens with the same p(c | v), v_c is the one
    with the greatest p(v | c). Constant features are left out: their only value has p(c | v) = 1
    for all tokens.

    Source: Bogin, Geva & Berant (2018), "Emergence of communication in an interactive world with
    consistent speakers".

    Args:
        sentences: (N, width) of 0 and 1.
        features: (N, F); NaN or −1 in a categorical column means "no value".
        categorical: which of the F features are categorical (`None`: all).
        bins: quantile bins of a continuous feature with more distinct values than that.
        count_missing: "no value" is a value that needs a token of its own; if false, C leaves it
        out.

    Raises:
        ValueError: if shapes do not fit, sentences are not 0/1, or `bins` is below 2.
    """
    words = binary(sentences)
    meaning, kinds = feature_matrix(features, categorical, len(words))
    codes, levels = _codes(meaning, kinds, bins)
    one_hot, feature = _one_hot(codes)
    level = np.concatenate([np.empty(0), *levels])
    chosen = np.array([len(x) > 1 for x in levels], dtype=bool)[feature]
    if not count_missing:
        chosen &= ~(np.array(kinds, dtype=bool)[feature] & (level == MISSING))
    reason = why_equal(codes, "features", "features")
    if not reason and not words.any():
        reason = "no sentence has a token"
    if not reason and not chosen.any():
        reason = "no feature has a value"
    if reason:
        nothing = np.empty(0, dtype=np.intp)
        return ContextIndependence(math.nan, np.empty(0), nothing, np.empty(0), nothing, reason)
    both = np.asarray(one_hot.T @ words)[chosen]  # (C, width) inputs with value c and token v
    with_token, with_level = words.sum(0), np.asarray(one_hot.sum(0)).reshape(-1)[chosen]
    level_given_token = np.divide(
        both, with_token, out=np.full(both.shape, -1.0), where=with_token > 0
    )
    best = level_given_token == level_given_token.max(1, keepdims=True)
    token = np.where(best, both, -1.0).argmax(1)
    row = np.arange(len(token))
    per_level = both[row, token] / with_level * level_given_token[row, token]
    return ContextIndependence(
        float(per_level.mean()), per_level, feature[chosen], level[chosen], token, ""
    )


def tree_reconstruction_error(
    sentences: ArrayLike,
    features: ArrayLike,
    categorical: Sequence[bool] | None = None,
    *,
    bins: int = 10,
    test_share: float = 0.0,
    seed: int = 0,
) -> TreeReconstruction:
    """TRE = mean over inputs x of |s(x) − Σ_k η(k, f_k(x))|₁, with one vector η for every value of
    every feature.

    The composition is a sum, and all derivations are flat. The vectors η minimise Σ_x |s(x) − Σ_k
    η(k, f_k(x))|₂², a linear least-squares problem, so that the result is deterministic; the
    constant vector that `relative` compares with is the least-squares one, too: the mean sentence.
    A value that no fitted input has tells nothing: its vector is the feature's mean one.

    Without held-out inputs, any language is below 1 if feature values are many and inputs few.

    Source: Andreas (2019), "Measuring compositionality in representation learning".

    Args:
        sentences: (N, width) of 0 and 1.
        features: (N, F); NaN or −1 in a categorical column means "no value", a category of its own.
        categorical: which of the F features are categorical (`None`: all).
        bins: quantile bins of a continuous feature with more distinct values than that.
        test_share: share of inputs, in [0, 1), to hold out from the fit and to take the error of
            (0: the error of all inputs, all of them fitted).
        seed: of the split.

    Raises:
        ValueError: if shapes do not fit, sentences are not 0/1, `bins` is below 2, or `test_share`
        is not in [0, 1).
    """
    words = binary(sentences)
    meaning, kinds = feature_matrix(features, categorical, len(words))
    codes, _ = _codes(meaning, kinds, bins)
    if not 0 <= test_share < 1:
        raise ValueError(
            f"test_share must be at least 0 and below 1, such as 0.2, not {test_share}."
        )
    order = (
        np.random.default_rng(seed).permutation(len(words)) if test_share else np.arange(len(words))
    )
    held_out = round(test_share * len(words))
    test, fit = (order[:held_out], order[held_out:]) if test_share else (order, order)
    reason = ""
    if len(words) == 0:
        reason = "there are no inputs"
    elif 0 in (len(test), len(fit)):
        reason = "too few inputs to hold some out"
    elif 0 in (words.shape[1], codes.shape[1]):
        reason = "there are no features" if words.shape[1] else "there are no tokens"
    if reason:
        return TreeReconstruction(math.nan, math.nan, math.nan, len(fit), len(test), 0, reason)
    sparse, feature = _one_hot(codes)
    one_hot = sparse.toarray()
    mean, count = words[fit].mean(0), one_hot[fit].sum(0)
    weight: Floats = scipy.linalg.lstsq(
        one_hot[fit], words[fit] - mean, cond=1e-10, lapack_driver="gelsy"
    )[0]
    # Every feature's vectors are put around their mean over fitted inputs. These means add up to
    # zero over features, so that fitted inputs keep their sums, while a value that was not seen
    # becomes the mean.
    block = np.zeros((codes.shape[1], words.shape[1]))
    np.add.at(block, feature, weight * count[:, None] / len(fit))
    weight = np.where(count[:, None] > 0, weight - block[feature], 0.0)
    value = float(np.abs(words[test] - mean - one_hot[test] @ weight).sum(1).mean())
    constant = float(np.abs(words[test] - mean).sum(1).mean())
    unseen = int((one_hot[test] @ (count == 0) > 0).sum())
    relative, reason = (
        (value / constant, "") if constant > 0 else (math.nan, "all sentences are equal")
    )
    return TreeReconstruction(value, relative, constant, len(fit), len(test), unseen, reason)


def shuffled_null(
    measure: Measure,
    sentences: ArrayLike,
    features: ArrayLike,
    permutations: int = 100,
    seed: int = 0,
    *,
    shuffle: Shuffle = "inputs",
    alternative: Literal["greater", "less"] = "greater",
) -> ShuffledNull:
    """A measure of languages that have the same sentences, of which it is known what they tell.

    Shuffled over inputs, sentences tell nothing: what the measure is above zero is its bias.
    Shuffled over meanings
    (distinct rows of features), every meaning has the sentences of another one: they tell it apart
    as well as before, but similar meanings have no similar sentences. That is a holistic language,
    which a compositional one exceeds. Where many inputs share a meaning, only the second null is a
    test of compositionality.

    Permutations for which the measure is NaN are left out.

    Args:
        measure: a function of sentences and features that returns a number, an array, or a tuple
            with a field ``value``; bind all other arguments by `functools.partial`, and take
            another field by a lambda: ``lambda s, f: tree_reconstruction_error(s, f).relative``.
        sentences: (N, …) as the measure wants them.
        features: (N, F).
        permutations: number of shuffled languages, at least 1.
        seed: of the permutations.
        shuffle: "inputs": sentences are permuted over inputs; "meanings": each input gets a random
            one of the sentences of the meaning that its own meaning is mapped to, by a random
            permutation of meanings.
        alternative: what counts as extreme: "less" for errors.

    Raises:
        ValueError: if numbers of rows differ, `permutations` is below 1, or an option is not among
        those above.
    """
    words, meaning = _rows(sentences, features)
    check_at_least("permutations", permutations, 1)
    if shuffle not in get_args(Shuffle):
        raise ValueError(
            f"shuffle is {shuffle!r}; it must be one of {', '.join(map(repr, get_args(Shuffle)))}."
        )
    if alternative not in ("greater", "less"):
        raise ValueError(f"alternative is {alternative!r}; it must be 'greater' or 'less'.")
    n, rng = len(words), np.random.default_rng(seed)
    orders = _over_meanings(meaning, rng) if shuffle == "meanings" else lambda: rng.permutation(n)
    results = [measure(words[orders()], meaning) for _ in range(permutations)]
    values = np.stack([_value(result) for result in results])
    found = _value(measure(words, meaning))
    here = ~np.isnan(values)
    count = here.sum(0)
    mean = np.divide(
        np.where(here, values, 0.0).sum(0), count, out=np.full(count.shape, np.nan), where=count > 0
    )
    square = np.where(here, values - mean, 0.0) ** 2
    sd = np.sqrt(np.divide(square.sum(0), count, out=np.full(count.shape, np.nan), where=count > 0))
    excess = values - found if alternative == "greater" else found - values
    p_value = np.where(
        (count > 0) & ~np.isnan(found), (1 + (excess >= -_TIE).sum(0)) / (1 + count), np.nan
    )
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

    Args:
        measure, sentences, features: as in `shuffled_null`.
        resamples: number of bootstrap samples, at least 2.
        seed: of the resamples.

    Raises:
        ValueError: if numbers of rows differ, or `resamples` is below 2.
    """
    words, meaning = _rows(sentences, features)
    check_at_least("resamples", resamples, 2)
    value = _value(measure(words, meaning))
    n, rng = len(words), np.random.default_rng(seed)
    chosen = (rng.integers(n, size=n) for _ in range(resamples if n else 0))
    values = np.stack(
        [np.full(value.shape, np.nan), *(_value(measure(words[i], meaning[i])) for i in chosen)]
    )
    here = ~np.isnan(values)
    count = here.sum(0)
    mean = np.where(here, values, 0.0).sum(0) / np.maximum(count, 1)
    square = (np.where(here, values - mean, 0.0) ** 2).sum(0)
    half = 1.96 * np.sqrt(
        np.divide(square, count - 1, out=np.full(count.shape, np.nan), where=count > 1)
    )
    if value.ndim == 0:
        return Interval(float(value - half), float(value + half))
    return Interval(value - half, value + half)


def _rows(sentences: ArrayLike, features: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    words, meaning = np.asarray(sentences), np.asarray(features)
    if words.ndim == 0 or meaning.ndim == 0:
        raise ValueError(
            "sentences and features must be arrays with one row per input, not single numbers."
        )
    check_rows(len(words), len(meaning))
    return words, meaning


def _value(result: Any) -> Floats:
    return np.asarray(getattr(result, "value", result), dtype=np.float64)


def _over_meanings(features: NDArray[Any], rng: np.random.Generator) -> Callable[[], Integers]:
    """A function that draws (N,) for every input an input of the meaning that its own one is mapped
    to.
    """
    rows = np.nan_to_num(matrix(features, "features"), nan=MISSING)
    _, code, size = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    code = code.reshape(-1)
    inputs, start = np.argsort(code, kind="stable"), np.cumsum(size) - size

    def draw() -> Integers:
        other = rng.permutation(len(size))[code]
        drawn: Integers = inputs[start[other] + rng.integers(size[other])]
        return drawn

    return draw


def _codes(array: Floats, kinds: Sequence[bool], bins: int | None) -> tuple[Integers, list[Floats]]:
    """(N, F) features as numbers from 0, all of which occur, and the values of each feature in that
    order.

    Continuous features with more than `bins` values are put into quantile bins (`None`: not), whose
    value is a number.
    """
    if bins is not None:
        check_at_least("bins", bins, 2)
    codes, levels = np.empty(array.shape, dtype=np.intp), []
    for k, discrete in enumerate(kinds):
        column = array[:, k]
        level, inverse = np.unique(column, return_inverse=True)
        if bins is not None and not discrete and len(level) > bins:
            edges = np.quantile(column, np.arange(1, bins) / bins)
            level, inverse = np.unique(
                np.searchsorted(edges, column, side="right").astype(np.float64), return_inverse=True
            )
        codes[:, k] = inverse.reshape(-1)
        levels.append(level)
    return codes, levels


def _one_hot(codes: Integers) -> tuple[Any, Integers]:
    """Sparse (N, levels) of 0 and 1, with the levels of all columns side by side, and (levels,)
    which column's.
    """
    n, m = codes.shape
    sizes = codes.max(0, initial=-1) + 1
    columns = codes + np.cumsum(sizes) - sizes
    entries = np.ones(n * m), columns.reshape(-1), np.arange(n + 1) * m
    one_hot = scipy.sparse.csr_matrix(entries, shape=(n, int(sizes.sum())))
    return one_hot, np.repeat(np.arange(m), sizes)


def _entropy(counts: Floats, block: Integers, blocks: int, n: int) -> Floats:
    """(blocks,) −Σ p log₂ p, bits, of the positive counts of each block, all of which add
    up to n.
    """
    p = counts / n
    return np.asarray(np.bincount(block, p * np.log2(1 / p), minlength=blocks), dtype=np.float64)


def _information(a: Integers, b: Integers) -> tuple[Floats, Floats, Floats, Integers]:
    """Plug-in I (P, F) of all columns of a (N, P) with those of b (N, F), their entropies (P,),
    (F,), bits.

    And K_a + K_b − K_ab − 1 (P, F), of the numbers K of values that occur.
    """
    n, p, f = len(a), a.shape[1], b.shape[1]
    one_hot_a, block_a = _one_hot(a)
    one_hot_b, block_b = _one_hot(b)
    joint = (one_hot_a.T @ one_hot_b).tocoo()
    cell = block_a[joint.row] * f + block_b[joint.col]
    entropy_a = _entropy(np.asarray(one_hot_a.sum(0)).reshape(-1), block_a, p, n)
    entropy_b = _entropy(np.asarray(one_hot_b.sum(0)).reshape(-1), block_b, f, n)
    entropy_ab = _entropy(joint.data, cell, p * f, n).reshape(p, f)
    excess = (
        (a.max(0) + 1)[:, None]
        + (b.max(0) + 1)
        - np.bincount(cell, minlength=p * f).reshape(p, f)
        - 1
    )
    return (
        np.maximum(entropy_a[:, None] + entropy_b - entropy_ab, 0.0),
        entropy_a,
        entropy_b,
        excess,
    )


def _disentanglement(
    symbols: Floats,
    features: ArrayLike,
    categorical: Sequence[bool] | None,
    bins: int,
    columns: str,
) -> Disentanglement:
    meaning, kinds = feature_matrix(features, categorical, len(symbols))
    codes, _ = _codes(meaning, kinds, bins)
    p, f = symbols.shape[1], codes.shape[1]
    if reason := why_equal(symbols, "sentences", columns) or why_equal(
        codes, "features", "features"
    ):
        return Disentanglement(
            math.nan, np.full(p, np.nan), np.full(p, np.nan), np.full((p, f), np.nan), reason
        )
    symbol_codes, _ = _codes(symbols, (True,) * p, None)
    information, entropy, _, _ = _information(symbol_codes, codes)
    ordered = np.sort(information, axis=1)
    gap = ordered[:, -1] - (ordered[:, -2] if f > 1 else 0.0)
    per_symbol = np.divide(gap, entropy, out=np.full(p, np.nan), where=entropy > 0)
    return Disentanglement(float(np.nanmean(per_symbol)), per_symbol, entropy, information, "")
