"""How much shorter sentences make the description of what they mean: prequential code lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import gammaln, log_ndtr

from plot_attractors.measures._arguments import (
    Floats,
    Integers,
    feature_matrix,
    why_equal,
)
from plot_attractors.measures._counts import BINS, indicators, number_values

FIRST = 16  # inputs that are coded before anything is learned; blocks double from there on
PRECISION = 1 / 16  # of real numbers, in standard deviations of their column
PRIOR = 1.0  # precision of the Gaussian prior of a classifier's weights
ROUNDING = PRECISION**2 / 12  # variance of what that leaves open
RIDGES = 10.0 ** np.arange(-4, 6)  # of which the evidence chooses
NO_INPUTS = f"fewer than {2 * FIRST} inputs, of which no decoder learns"


class DescriptionLength(NamedTuple):
    """Compositionality of a language system, and the code lengths it is made of.

    - ``value``: C = ``meaning`` / ``given``, no unit;
    - ``meaning``: K(Z) / N; ``given``: K(Z | W) / N; ``sentences``: K(W) / N; bits an input;
    - ``blocks``: (B, 4) of each block of the prequential code, how many inputs were seen before it,
      how many it has, and its code lengths, bits an input, without and with sentences;
    - ``reason``: why ``value`` is NaN, otherwise "".
    """

    value: float
    meaning: float
    given: float
    sentences: float
    blocks: Floats
    reason: str


# Given what is known (n, D) of the inputs so far, what they mean (n, …), and what is known of the
# next m inputs: nats that the meaning of these takes.
Coder = Callable[[Floats, Floats, Floats, Floats], float]


def of_features(
    sentences: ArrayLike,
    symbols: ArrayLike,
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
    does not depend on the language. K(W) = −log₂ of the Dirichlet(½)-multinomial probability of the
    symbols of each group or position is given beside it: K(W) + K(Z | W) is what inputs take if
    they are described by sentences.

    Floor 1: sentences that tell nothing, or nothing by their parts (a little below, as a decoder
    that learns chance is worse than none). There is no ceiling: what is left of K(Z | W) is the
    cost of learning, and C grows with N; compare languages by as many inputs. The analysis lists C
    of the language that spells the features out.

    Args:
        sentences: (N, D) 0 and 1, which tokens, of sequences at which position.
        symbols: (N, P) whole numbers, which token stands in each group or at each position.
        features: (N, F), NaN or −1 for "no value", a category of its own; continuous ones are put
            into ten quantile bins.
        categorical: which features are categorical; None: all.
        seed: of the order of inputs.

    Sources: Elmoznino, Jiralerspong, Bengio & Lajoie (2025), "Towards a formal theory of
    representational compositionality", Definition 2; Blier & Ollivier (2018), "The description
    length of deep learning models", for prequential codes.
    """
    meaning, kinds = feature_matrix(features, categorical)
    codes, _ = number_values(meaning, kinds, BINS)
    if reason := why_equal(codes, "features", "features"):
        return _nothing(reason)
    outcomes = codes.max(0, initial=0) + 1
    one_hot, first = indicators(codes)[0].toarray(), np.cumsum(outcomes) - outcomes
    uniform = float(np.log(outcomes).sum())

    def code(known: Floats, meant: Floats, known_next: Floats, meant_next: Floats) -> float:
        return _logistic(known, meant, known_next, meant_next, first)

    return _compare(sentences, symbols, one_hot, code, uniform, seed)


def of_vectors(
    sentences: ArrayLike, symbols: ArrayLike, vectors: ArrayLike, seed: int = 0
) -> DescriptionLength:
    """The same of sentences and real vectors, such as latent states of inputs.

    As `of_features`, but the decoder is a Bayesian linear regression whose prior has the greatest
    evidence, in closed form, and columns are coded each by itself. They are divided by their
    standard deviation, known to both codes, and coded to a sixteenth of it, the first block by
    N(0, 1). C depends on that precision, as it does in the paper; the difference of the two code
    lengths hardly does. Columns that do not vary are left out.

    Args: as of `of_features`; vectors are (N, d), finite.
    """
    z = np.asarray(vectors, dtype=np.float64)
    deviation = z.std(0) if len(z) else np.zeros(z.shape[1])
    z = (z - z.mean(0) if len(z) else z)[:, deviation > 1e-9] / deviation[deviation > 1e-9]
    if z.shape[1] == 0:
        return _nothing("no column of the vectors varies" if len(z) else "there are no vectors")
    return _compare(sentences, symbols, z, _ridge, None, seed)


def sentence_code_length(symbols: ArrayLike) -> float:
    """K(W), bits: −log₂ of the Dirichlet(½)-multinomial probability of symbols (N, P), whole
    numbers, independent columns; a symbol that does not occur is not in the code.
    """
    total = 0.0
    for column in np.asarray(symbols).T:
        count = np.unique(column, return_counts=True)[1].astype(np.float64)
        half = np.full(len(count), 0.5)
        total += gammaln(half.sum() + count.sum()) - gammaln(half.sum())
        total += (gammaln(half) - gammaln(half + count)).sum()
    return float(total / math.log(2))


def _nothing(reason: str) -> DescriptionLength:
    nan = math.nan
    return DescriptionLength(nan, nan, nan, nan, np.empty((0, 4)), reason)


def _compare(
    sentences: ArrayLike,
    symbols: ArrayLike,
    meaning: Floats,
    code: Coder,
    first: float | None,
    seed: int,
) -> DescriptionLength:
    """Both prequential codes; `first`: nats of an input of the first block, None: by N(0, 1)."""
    bags = np.asarray(sentences, dtype=np.float64)
    n = len(bags)
    if n < 2 * FIRST:
        return _nothing(NO_INPUTS)
    order = np.random.default_rng(seed).permutation(n)
    bags, meaning = bags[order], meaning[order]
    if first is None:
        head = meaning[:FIRST]
        per_input = float(_gaussian_nats(head, np.ones_like(head)) / FIRST)
    else:
        per_input = first
    blocks = [(0, FIRST, per_input, per_input)]
    seen = FIRST
    while seen < n:
        end = min(2 * seen, n)
        past, following = slice(0, seen), slice(seen, end)
        nats = [
            code(known[past], meaning[past], known[following], meaning[following]) / (end - seen)
            for known in (bags[:, :0], bags)
        ]
        blocks.append((seen, end - seen, nats[0], nats[1]))
        seen = end
    table = np.array(blocks)
    table[:, 2:] /= math.log(2)
    without, given = (table[:, 1] @ table[:, 2:] / n).tolist()
    return DescriptionLength(
        without / given, without, given, sentence_code_length(symbols) / n, table, ""
    )


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
        found = minimize(
            cost, np.zeros(begin.size), jac=True, method="L-BFGS-B",
            options={"maxiter": 200, "ftol": 1e-7, "gtol": 1e-3},
        )  # fmt: skip
        weight = begin + found.x.reshape(begin.shape)
    return float(-(meant_next * log_p(known_next, weight)).sum())


def _ridge(known: Floats, meant: Floats, known_next: Floats, meant_next: Floats) -> float:
    """Nats of meant_next (m, d) by Bayesian linear regression on the n before.

    Weights have the prior N(0, σ² / λ), of all columns the λ of the greatest evidence.
    """
    n = len(known)
    centre, mean = known.mean(0), meant.mean(0)
    left, singular, right = np.linalg.svd(known - centre, full_matrices=False)
    kept = singular > 1e-9
    left, square, right = left[:, kept], singular[kept] ** 2, right[kept]
    y = meant - mean
    target = left.T @ y
    rest = np.maximum((y**2).sum(0) - (target**2).sum(0), 0.0)
    shrunk = RIDGES[:, None] / (square + RIDGES[:, None])  # (R, r)
    variance = (shrunk @ target**2 + rest) / n + ROUNDING
    cost = n * np.log(variance).sum(1) - meant.shape[1] * np.log(shrunk).sum(1)
    ridge, variance = RIDGES[cost.argmin()], variance[cost.argmin()]
    weight = right.T @ ((np.sqrt(square) / (square + ridge))[:, None] * target)
    x = known_next - centre
    along = (x @ right.T) ** 2
    unseen = np.maximum((x**2).sum(1) - along.sum(1), 0.0)  # in directions that did not vary
    uncertain = 1 + 1 / n + along @ (1 / (square + ridge)) + unseen / ridge
    return _gaussian_nats(meant_next - mean - x @ weight, uncertain[:, None] * variance)


def _gaussian_nats(error: Floats, variance: Floats) -> float:
    """Nats of errors (m, d) to `PRECISION`, by Gaussians of variances (m, d)."""
    half, sd = PRECISION / 2, np.sqrt(variance)
    near, far = log_ndtr((half - np.abs(error)) / sd), log_ndtr((-half - np.abs(error)) / sd)
    return float(-(near + np.log1p(-np.exp(far - near))).sum())
