"""How much shorter sentences make the description of what they mean: prequential code lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import gammaln
from torch import Tensor

from plot_attractors.evaluation.metrics._arguments import Floats, feature_matrix
from plot_attractors.evaluation.metrics._counts import BINS, indicators, number_values

FIRST = 16  # inputs that are coded before anything is learned; blocks double from there on
PRECISION = 1 / 16  # of real numbers, in standard deviations of their column
PRIOR = 1.0  # precision of the Gaussian prior of a classifier's weights
RIDGES = 10.0 ** np.arange(-3, 6)  # of which leave-one-out errors choose
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
    if codes.shape[1] == 0:
        return _nothing("there are no features")
    outcomes = codes.max(0, initial=0) + 1
    one_hot = indicators(codes)[0].toarray() if len(codes) else codes.astype(np.float64)
    uniform = float(np.log(outcomes).sum())

    def code(known: Floats, meant: Floats, known_next: Floats, meant_next: Floats) -> float:
        return _logistic(known, meant, known_next, meant_next, outcomes.tolist())

    return _compare(sentences, symbols, one_hot, code, uniform, seed)


def of_vectors(
    sentences: ArrayLike, symbols: ArrayLike, vectors: ArrayLike, seed: int = 0
) -> DescriptionLength:
    """The same of sentences and real vectors, such as latent states of inputs.

    As `of_features`, but the decoder is a ridge regression whose penalty leave-one-out errors
    choose, in closed form, and P(z | w) a Gaussian of these errors' variance, of each column by
    itself. Columns are divided by their standard deviation, known to both codes, and coded to a
    sixteenth of it (log₂ 16 = 4 bits above the differential code length); the first block by
    N(0, 1). C depends on that precision, as it does in the paper; differences of code lengths do
    not. Columns that do not vary are left out.

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
        per_input = float(_gaussian_nats(head, np.ones(head.shape[1])) / FIRST)
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
    value, reason = without / given, ""
    if without <= 0 or given <= 0:
        value, reason = math.nan, "the code is finer than the precision of the vectors"
    return DescriptionLength(
        value, without, given, sentence_code_length(symbols) / n, table, reason
    )


def _logistic(
    known: Floats, meant: Floats, known_next: Floats, meant_next: Floats, outcomes: list[int]
) -> float:
    """Nats of meant_next (m, levels) by the classifier of all features at once, learned to the
    optimum from the n before; levels side by side, `outcomes` of each feature.
    """
    x, y = torch.from_numpy(known), torch.from_numpy(meant)
    start = (y.sum(0) + 0.5).log()  # as often as they were: what is best without sentences
    bias = start.clone().requires_grad_()
    weight = torch.zeros(x.shape[1], y.shape[1], dtype=torch.float64, requires_grad=True)

    def nats(x: Tensor, y: Tensor) -> Tensor:
        parts = (x @ weight + bias).split(outcomes, -1)
        return -(y * torch.cat([part.log_softmax(-1) for part in parts], -1)).sum()

    if x.shape[1]:
        with torch.enable_grad():
            optimizer = torch.optim.LBFGS(
                [weight, bias], max_iter=100, tolerance_grad=1e-3, tolerance_change=1e-3,
                line_search_fn="strong_wolfe",
            )  # fmt: skip

            def closure() -> Tensor:
                optimizer.zero_grad()
                penalty = weight.square().sum() + (bias - start).square().sum()
                loss = nats(x, y) + PRIOR / 2 * penalty
                loss.backward()  # type: ignore[no-untyped-call]
                return loss

            optimizer.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        return float(nats(torch.from_numpy(known_next), torch.from_numpy(meant_next)))


def _ridge(known: Floats, meant: Floats, known_next: Floats, meant_next: Floats) -> float:
    """Nats of meant_next (m, d) by ridge regression on the n before, to `PRECISION`."""
    n = len(known)
    centre, mean = known.mean(0), meant.mean(0)
    left, singular, right = np.linalg.svd(known - centre, full_matrices=False)
    kept = singular > 1e-9
    left, singular, right = left[:, kept], singular[kept], right[kept]
    target = left.T @ (meant - mean)
    best: tuple[float, Floats, Floats] | None = None
    for ridge in RIDGES:
        shrunk = singular**2 / (singular**2 + ridge)
        hat = (left**2) @ shrunk + 1 / n
        error = (meant - mean - left @ (shrunk[:, None] * target)) / (1 - hat)[:, None]
        variance = (error**2).mean(0)
        score = float(np.log(variance + PRECISION**2 / 12).sum())
        if best is None or score < best[0]:
            weight = right.T @ ((shrunk / singular)[:, None] * target)
            best = score, variance, weight
    assert best is not None
    _, variance, weight = best
    error = meant_next - mean - (known_next - centre) @ weight
    return _gaussian_nats(error, variance)


def _gaussian_nats(error: Floats, variance: Floats) -> float:
    """Nats of errors (m, d) by Gaussians of variances (d,), to `PRECISION`, whose own rounding adds
    a twelfth of its square.
    """
    v = variance + PRECISION**2 / 12
    density = 0.5 * (error**2 / v + np.log(2 * math.pi * v)).sum()
    return float(density - error.size * math.log(PRECISION))
