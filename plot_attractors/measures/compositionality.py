"""How compositional a language is: whether features have tokens of their own and add up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from plot_attractors.measures._arguments import (
    MISSING,
    Floats,
    feature_matrix,
    why_equal,
)
from plot_attractors.measures._counts import (
    BINS,
    indicators,
    number_values,
    plug_in_information,
)

# All measures take features (N, F) and `categorical`, which of the F are (None: all). NaN or −1 in
# a categorical column means "no value", a category of its own. A continuous feature with more than
# BINS distinct values is put into as many quantile bins. `reason` says why a result is NaN.


class Disentanglement(NamedTuple):
    """To what extent every symbol (or position) tells of one feature only.

    - ``value``: mean of ``per_symbol`` where it is not NaN, in [0, 1];
    - ``per_symbol``: (P,) (I₁ − I₂) / H, NaN where H = 0;
    - ``entropy``: (P,) H; ``information``: (P, F) with every feature; bits, plug-in.
    """

    value: float
    per_symbol: Floats
    entropy: Floats
    information: Floats
    reason: str


class MutualInformation(NamedTuple):
    """What a whole sentence tells of every feature; all arrays are (F,).

    - ``value``: I(s; f); ``entropy``: H(f); bits, plug-in;
    - ``normalised``: ``value`` / H(f), in [0, 1], NaN for a constant feature.
    """

    value: Floats
    normalised: Floats
    entropy: Floats
    reason: str


class ContextIndependence(NamedTuple):
    """How well feature values and tokens are aligned one to one.

    - ``value``: mean over values of features, in [0, 1].
    """

    value: float
    reason: str


class TreeReconstruction(NamedTuple):
    """How far sentences are from sums of one vector per feature value.

    - ``value``: mean L1 distance of a sentence, in tokens; ``constant``: of the mean sentence;
    - ``relative``: ``value`` / ``constant``: 0 where they are sums, 1 if features tell nothing.
    """

    value: float
    relative: float
    constant: float
    reason: str


def positional_disentanglement(
    sentences_by_position: ArrayLike, features: ArrayLike, categorical: Sequence[bool] | None = None
) -> Disentanglement:
    """Posdis: mean over positions of (I₁ − I₂) / H, of those where the symbol varies.

    I₁ and I₂ are the greatest and second greatest mutual information of the position's symbol with
    a feature (I₂ = 0 if there is only one), and H is the symbol's entropy; plug-in, bits.
    `sentences_by_position` (N, positions) holds whole numbers; one that stands for "nothing" is a
    symbol, too.

    Source: Chaabouni et al. (2020), "Compositionality and generalization in emergent languages".
    """
    return _disentanglement(sentences_by_position, features, categorical, "positions")


def bag_of_symbols_disentanglement(
    sentences: ArrayLike, features: ArrayLike, categorical: Sequence[bool] | None = None
) -> Disentanglement:
    """Bosdis: as `positional_disentanglement`, of the counts of tokens in place of positions.

    `sentences` (N, width) holds counts from 0, 0 and 1 for multi-hot vectors.

    Source: Chaabouni et al. (2020), "Compositionality and generalization in emergent languages".
    """
    return _disentanglement(sentences, features, categorical, "tokens")


def mutual_information(
    sentences: ArrayLike, features: ArrayLike, categorical: Sequence[bool] | None = None
) -> MutualInformation:
    """I(s; f) = H(s) + H(f) − H(s, f), bits, of the whole sentence s (N, width) and every feature.

    Plug-in, which is too high where sentences are many and inputs few: where most sentences occur
    only once, I is H(f) for any language, as `shuffled_null` shows.
    """
    bags = np.asarray(sentences, dtype=np.float64)
    meaning, kinds = feature_matrix(features, categorical)
    codes, _ = number_values(meaning, kinds, BINS)
    n, f = codes.shape
    if n == 0 or f == 0:
        nothing = np.full(f, np.nan)
        reason = "there are no inputs" if f else "there are no features"
        return MutualInformation(nothing, nothing, nothing, reason)
    packed = np.packbits(bags.astype(bool), axis=1)  # fewer columns to sort by
    sentence = np.unique(packed, axis=0, return_inverse=True)[1].reshape(n, 1)
    information, _, entropy = plug_in_information(sentence, codes)
    normalised = np.divide(information[0], entropy, out=np.full(f, np.nan), where=entropy > 0)
    constant = np.flatnonzero(entropy == 0).tolist()
    reason = f"constant features have no normalised value: columns {constant}" if constant else ""
    return MutualInformation(information[0], normalised, entropy, reason)


def context_independence(
    sentences: ArrayLike, features: ArrayLike, categorical: Sequence[bool] | None = None
) -> ContextIndependence:
    """CI = mean over feature values c of p(v_c | c) · p(c | v_c), with v_c = argmax_v p(c | v).

    p(v | c) is the share of inputs with value c whose sentence (N, width) holds token v, and
    p(c | v) the share of inputs with token v that have value c. Of tokens with the same p(c | v),
    v_c is the one with the greatest p(v | c). Left out are "no value", which needs no token, and
    constant features, whose value has p(c | v) = 1 for all tokens.

    Source: Bogin, Geva & Berant (2018), "Emergence of communication in an interactive world with
    consistent speakers".
    """
    bags = np.asarray(sentences, dtype=np.float64)
    meaning, kinds = feature_matrix(features, categorical)
    codes, levels = number_values(meaning, kinds, BINS)
    one_hot, feature = indicators(codes)
    level = np.concatenate([np.empty(0), *levels])
    chosen = np.array([len(x) > 1 for x in levels], dtype=bool)[feature]
    chosen &= ~(np.array(kinds, dtype=bool)[feature] & (level == MISSING))
    reason = why_equal(codes, "features", "features")
    if not reason and not bags.any():
        reason = "no sentence has a token"
    if not reason and not chosen.any():
        reason = "no feature has a value"
    if reason:
        return ContextIndependence(math.nan, reason)
    both = np.asarray(one_hot.T @ bags)[chosen]  # (C, width) inputs with value c and token v
    with_token, with_level = bags.sum(0), np.asarray(one_hot.sum(0)).reshape(-1)[chosen]
    none = np.full(both.shape, -1.0)
    level_given_token = np.divide(both, with_token, out=none, where=with_token > 0)
    best = level_given_token == level_given_token.max(1, keepdims=True)
    token = np.where(best, both, -1.0).argmax(1)
    row = np.arange(len(token))
    product = both[row, token] / with_level * level_given_token[row, token]
    return ContextIndependence(float(product.mean()), "")


def tree_reconstruction_error(
    sentences: ArrayLike, features: ArrayLike, categorical: Sequence[bool] | None = None
) -> TreeReconstruction:
    """TRE = mean over inputs x of |s(x) − Σ_k η(k, f_k(x))|₁, one vector η per value of a feature.

    The composition is a sum, and all derivations are flat. The vectors η minimise
    Σ_x |s(x) − Σ_k η(k, f_k(x))|₂², so that the result is deterministic; the constant vector that
    `relative` compares with is the mean sentence. Any language is below 1 if feature values are
    many and inputs few.

    Source: Andreas (2019), "Measuring compositionality in representation learning".
    """
    bags = np.asarray(sentences, dtype=np.float64)
    meaning, kinds = feature_matrix(features, categorical)
    codes, _ = number_values(meaning, kinds, BINS)
    reason = ""
    if len(bags) == 0:
        reason = "there are no inputs"
    elif 0 in (bags.shape[1], codes.shape[1]):
        reason = "there are no features" if bags.shape[1] else "there are no tokens"
    if reason:
        return TreeReconstruction(math.nan, math.nan, math.nan, reason)
    one_hot = indicators(codes)[0].toarray()
    rest = bags - bags.mean(0)
    weight: Floats = scipy.linalg.lstsq(one_hot, rest, cond=1e-10, lapack_driver="gelsy")[0]
    value = float(np.abs(rest - one_hot @ weight).sum(1).mean())
    constant = float(np.abs(rest).sum(1).mean())
    if constant == 0:
        return TreeReconstruction(value, math.nan, constant, "all sentences are equal")
    return TreeReconstruction(value, value / constant, constant, "")


def _disentanglement(
    sentences: ArrayLike, features: ArrayLike, categorical: Sequence[bool] | None, columns: str
) -> Disentanglement:
    symbols = np.asarray(sentences, dtype=np.float64)
    meaning, kinds = feature_matrix(features, categorical)
    codes, _ = number_values(meaning, kinds, BINS)
    p, f = symbols.shape[1], codes.shape[1]
    reason = why_equal(symbols, "sentences", columns) or why_equal(codes, "features", "features")
    if reason:
        nothing = np.full(p, np.nan)
        return Disentanglement(math.nan, nothing, nothing, np.full((p, f), np.nan), reason)
    information, entropy, _ = plug_in_information(
        number_values(symbols, (True,) * p, None)[0], codes
    )
    ordered = np.sort(information, axis=1)
    gap = ordered[:, -1] - (ordered[:, -2] if f > 1 else 0.0)
    per_symbol = np.divide(gap, entropy, out=np.full(p, np.nan), where=entropy > 0)
    return Disentanglement(float(np.nanmean(per_symbol)), per_symbol, entropy, information, "")
