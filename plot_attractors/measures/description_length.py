"""How much shorter sentences make the description of what they mean: prequential code lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from plot_attractors.measures.shuffled import Floats, Integers, feature_matrix, why_equal

BINS = 10  # of a continuous feature
FIRST = 16  # inputs that are coded before anything is learned; blocks double from there on
PRIOR = 1.0  # precision of the Gaussian prior of a classifier's weights
NO_INPUTS = f"fewer than {2 * FIRST} inputs, of which no decoder learns"


class DescriptionLength(NamedTuple):
    """Compositionality of a language system, and the code lengths it is made of.

    - ``value``: C = ``meaning`` / ``given``, no unit;
    - ``meaning``: K(Z) / N; ``given``: K(Z | W) / N; bits an input;
    - ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float
    meaning: float
    given: float
    reason: str


def of_features(
    sentences: ArrayLike,
    features: ArrayLike,
    categorical: Sequence[bool] | None = None,
    seed: int = 0,
) -> DescriptionLength:
    """Compositionality of the language system of sentences and features: C = K(Z) / K(Z | W).

    K(Z | W) is a prequential code length: inputs come in blocks, the first of 16, and each of the
    others as long as all before it. A decoder learns Z from W on all blocks so far, and the next
    block is coded by what it predicts: K(Z | W) = Σ_i −log₂ P(z_i | w_i; decoder of the blocks
    before). That holds the decoder's complexity K(f) and what it leaves open K(Z | W, f) in one
    sum. The first block is coded by a uniform distribution. K(Z) is the same code without
    sentences.

    Approximations: Kolmogorov complexity is replaced by the code lengths of one family of decoders,
    in which a sum over tokens makes the logits of every feature (logistic regression, weights with
    the prior N(0, 1)), so that whatever is said by a combination of tokens alone is paid for as if
    it were not said. K(Z) takes features as independent. The paper's C(Z) of a representation asks
    for the shortest of all languages; this is its special case of a given one, C^L(Z), where K(Z)
    does not depend on the language.

    Floor 1: sentences that tell nothing, or nothing by their parts (a little below, as a decoder
    that learns chance is worse than none). There is no ceiling: what is left of K(Z | W) is the
    cost of learning, and C grows with N; compare languages by as many inputs. The analysis lists C
    of the language that spells the features out.

    Args:
        sentences: (N, D) 0 and 1, which tokens, of sequences at which position.
        features: (N, F), NaN or −1 for "no value", a category of its own; continuous ones are put
            into ten quantile bins.
        categorical: which features are categorical; None: all.
        seed: of the order of inputs.

    Sources: Elmoznino, Jiralerspong, Bengio & Lajoie (2025), "Towards a formal theory of
    representational compositionality", Definition 2; Blier & Ollivier (2018), "The description
    length of deep learning models", for prequential codes.
    """
    meaning, kinds = feature_matrix(features, categorical)
    codes = number_values(meaning, kinds)
    bags = np.asarray(sentences, dtype=np.float64)
    n = len(bags)
    reason = why_equal(codes, "features", "features") or (NO_INPUTS if n < 2 * FIRST else "")
    if reason:
        return DescriptionLength(math.nan, math.nan, math.nan, reason)
    outcomes = codes.max(0, initial=0) + 1
    order = np.random.default_rng(seed).permutation(n)
    bags, meant = bags[order], one_hot(codes)[order]
    first = np.cumsum(outcomes) - outcomes
    nats = np.full(2, FIRST * float(np.log(outcomes).sum()))  # without sentences, and with them
    seen = FIRST
    while seen < n:
        past, following = slice(0, seen), slice(seen, min(2 * seen, n))
        nats += [
            _logistic(known[past], meant[past], known[following], meant[following], first)
            for known in (bags[:, :0], bags)
        ]
        seen = following.stop
    without, given = (nats / math.log(2) / n).tolist()
    return DescriptionLength(without / given, without, given, "")


def _logistic(
    known: Floats, meant: Floats, known_next: Floats, meant_next: Floats, first: Integers
) -> float:
    """Nats of meant_next (m, levels) by the classifier of all features at once, learned to the
    optimum from the n before; levels stand side by side, `first` (F,) of each feature.
    """
    d, levels = known.shape[1], meant.shape[1]
    width = np.diff(first, append=levels)
    start = np.log(meant.sum(0) + 0.5)  # as often as they were: what is best without sentences

    def log_p(x: Floats, weight: Floats) -> Floats:
        logits = x @ weight[:-1] + weight[-1]
        logits -= np.repeat(np.maximum.reduceat(logits, first, 1), width, 1)
        return logits - np.repeat(np.log(np.add.reduceat(np.exp(logits), first, 1)), width, 1)

    def cost(flat: Floats) -> tuple[float, Floats]:
        away = flat.reshape(d + 1, levels)
        logs = log_p(known, away + begin)
        error = np.exp(logs) - meant
        slope = np.vstack([known.T @ error, error.sum(0)]) + PRIOR * away
        return float(-(meant * logs).sum() + PRIOR / 2 * (away**2).sum()), slope.reshape(-1)

    begin = np.vstack([np.zeros((d, levels)), start])
    weight = begin
    if d:
        optimum = minimize(
            cost, np.zeros(begin.size), jac=True, method="L-BFGS-B",
            options={"maxiter": 200, "ftol": 1e-7, "gtol": 1e-3},
        )  # fmt: skip
        weight = begin + optimum.x.reshape(begin.shape)
    return float(-(meant_next * log_p(known_next, weight)).sum())


def number_values(array: Floats, kinds: Sequence[bool]) -> Integers:
    """(N, F) features as numbers from 0, all of which occur, in the order of their values.

    Continuous features (`kinds` false) with more than `BINS` values are put into quantile bins.
    """
    codes = np.empty(array.shape, dtype=np.intp)
    for k, discrete in enumerate(kinds):
        column = array[:, k]
        level, inverse = np.unique(column, return_inverse=True)
        if not discrete and len(level) > BINS:
            edges = np.quantile(column, np.arange(1, BINS) / BINS)
            binned = np.searchsorted(edges, column, side="right").astype(np.float64)
            inverse = np.unique(binned, return_inverse=True)[1]
        codes[:, k] = inverse.reshape(-1)
    return codes


def one_hot(codes: Integers) -> Floats:
    """(N, levels) of 0 and 1, the levels of all columns side by side, of codes (N, F)."""
    return np.concatenate([np.eye(column.max() + 1)[column] for column in codes.T], axis=1)
