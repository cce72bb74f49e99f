"""Morphemes: which parts of sentences stand for which parts of meanings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import xlogy

__all__ = ["Morpheme", "morphemes"]

DIGITS = 9  # of bits: weights that agree in these are ties


class Morpheme(NamedTuple):
    """A form (tokens in a row, or a set of them) and a meaning (a set), the mutual information of
    their presence, bits, and in how many of the sentences that are left both are.
    """

    form: tuple[Hashable, ...]
    meaning: tuple[Hashable, ...]
    information: float
    together: int


def morphemes(
    sentences: Sequence[Sequence[Hashable]],
    meanings: Sequence[Collection[Hashable]],
    *,
    longest: int = 3,
    largest: int = 2,
    most: int = 100,
    ordered: bool = True,
) -> list[Morpheme]:
    r"""CSAR: count, select, ablate, repeat; the most certain morphemes first.

    Candidates are all pairs of a form, an n-gram of a sentence, and a meaning, a subset of what an
    input means, that stand together in some input. Their weight is the mutual information of two
    bits, whether an input has the form and whether it has the meaning:

    .. math:: I = \sum_{f, m \in \{0, 1\}} p(f, m) \log_2 \frac{p(f, m)}{p(f)\, p(m)}

    The pair of the greatest weight is selected (of ties the one whose weight was greatest at first,
    then whose form was selected least often, the longer form, the smaller meaning) and both its
    parts are taken out of the inputs that have both, so that they explain no more. Weights are
    computed anew, but never rise. It ends when no pair has a weight above 0. Tokens that are taken
    out leave a gap, across which there is no n-gram. Of several places of a form the one is taken
    out whose loss costs other pairs least.

    Unlike in the source, pairs that stand together less often than by chance are no candidates.

    Args:
        sentences: N of them.
        meanings: N sets of what is meant, such as values of features.
        longest: most tokens of a form; largest: most elements of a meaning.
        most: most morphemes that are selected.
        ordered: False for sets of tokens, whose forms are subsets.

    Raises ValueError: as many sentences as meanings are needed.

    >>> for m in morphemes(["ab", "ac", "db", "dc"], [{1, 3}, {1, 4}, {2, 3}, {2, 4}]):
    ...     print(m)
    Morpheme(form=('a',), meaning=(1,), information=1.0, together=2)
    Morpheme(form=('b',), meaning=(3,), information=1.0, together=2)
    Morpheme(form=('c',), meaning=(4,), information=1.0, together=2)
    Morpheme(form=('d',), meaning=(2,), information=1.0, together=2)

    Source: Boldt & Mortensen (2025), "Morpheme induction for emergent language".
    """
    if len(sentences) != len(meanings):
        raise ValueError(f"{len(sentences)} sentences cannot have {len(meanings)} meanings")
    forms = _Parts(sentences, longest, ordered)
    meant = _Parts([list(m) for m in meanings], largest, ordered=False)
    n = len(sentences)
    together = (forms.matrix(range(n)).T @ meant.matrix(range(n))).toarray()
    weight = _information(together, forms.counts, meant.counts, n)
    first = weight.copy()
    selected: Counter[int] = Counter()
    result: list[Morpheme] = []
    longer = np.array([len(form) for form in forms.names])
    smaller = -np.array([len(meaning) for meaning in meant.names])
    while len(result) < most and weight.size and (best := weight.max()) > 0:
        f, m = np.nonzero(weight == best)
        often = np.array([-selected[k] for k in f.tolist()])
        ranked = np.lexsort((-m, -f, smaller[m], longer[f], often, first[f, m]))
        form, meaning = int(f[ranked[-1]]), int(m[ranked[-1]])
        rows = [k for k in range(n) if form in forms.present[k] and meaning in meant.present[k]]
        names = forms.names[form], meant.names[meaning]
        result.append(Morpheme(*names, float(best), len(rows)))
        selected[form] += 1
        before = forms.matrix(rows), meant.matrix(rows)
        counts = forms.counts.copy(), meant.counts.copy()
        for k in rows:
            strength = weight[:, sorted(meant.present[k])].max(1)
            forms.remove(k, form, strength)
            meant.remove(k, meaning)
        change = forms.matrix(rows).T @ meant.matrix(rows) - before[0].T @ before[1]
        change = change.tocoo()
        together[change.row, change.col] += change.data
        # the weight of a pair changes only where one of its parts is somewhere no more
        for part, old in enumerate(counts):
            fewer = np.flatnonzero(old != (forms, meant)[part].counts)
            at = (fewer, slice(None)) if part == 0 else (slice(None), fewer)
            new = _information(together[at], forms.counts[at[0]], meant.counts[at[1]], n)
            weight[at] = np.minimum(weight[at], new)
    return result


class _Parts:
    """Which parts (n-grams, or subsets) each of N sequences has, of all parts `names`."""

    def __init__(self, rows: Sequence[Sequence[Hashable]], most: int, ordered: bool) -> None:
        self.rows: list[list[Hashable | None]] = [  # None: a gap
            list(row) if ordered else sorted(set(row), key=str) for row in rows
        ]
        self.most, self.ordered = most, ordered
        each = [list(self._parts(row)) for row in self.rows]
        self.names = list(dict.fromkeys(part for parts in each for part in parts))
        self.number = {part: k for k, part in enumerate(self.names)}
        self.present = [{self.number[part] for part in parts} for parts in each]
        self.counts = np.zeros(len(self.names), dtype=int)
        for parts in self.present:
            self.counts[list(parts)] += 1

    def _parts(self, row: Sequence[Hashable | None]) -> Iterable[tuple[Hashable, ...]]:
        for size in range(1, self.most + 1):
            if self.ordered:
                parts: Iterable[tuple[Hashable | None, ...]] = zip(
                    *(row[k:] for k in range(size)), strict=False
                )
            else:
                parts = combinations(row, size)
            yield from (part for part in parts if None not in part)

    def matrix(self, rows: Iterable[int]) -> csr_matrix:
        """(rows, parts) 0 and 1, which parts they have."""
        present = [sorted(self.present[k]) for k in rows]
        ends = np.cumsum([0, *map(len, present)])
        index = np.fromiter((k for parts in present for k in parts), int, ends[-1])
        shape = len(present), len(self.names)
        return csr_matrix((np.ones(len(index), dtype=int), index, ends), shape)

    def remove(self, k: int, part: int, strength: np.ndarray | None = None) -> None:
        """Takes a part out of a row, at the place where the strongest part that goes is weakest."""
        name, row = self.names[part], self.rows[k]
        if not self.ordered:
            options = [[None if token in name else token for token in row]]
        else:
            size = len(name)
            places = [j for j in range(len(row) - size + 1) if tuple(row[j : j + size]) == name]
            options = [[*row[:j], *[None] * size, *row[j + size :]] for j in places]
        kept = [{self.number[one] for one in self._parts(option)} for option in options]

        def loss(j: int) -> float:
            gone = sorted(self.present[k] - kept[j] - {part})
            return float(strength[gone].max()) if gone and strength is not None else 0.0

        best = min(range(len(options)), key=loss)
        self.counts[list(self.present[k] - kept[best])] -= 1
        self.rows[k], self.present[k] = options[best], kept[best]


def _information(together: np.ndarray, forms: np.ndarray, meant: np.ndarray, n: int) -> np.ndarray:
    """(F, M) bits; 0 where they are not together more often than by chance."""
    f, m = forms[:, None], meant[None]
    cells = together, f - together, m - together, n - f - m + together
    margins = f * m, f * (n - m), (n - f) * m, (n - f) * (n - m)
    nats = sum(
        xlogy(cell, cell * n) - xlogy(cell, margin)
        for cell, margin in zip(cells, margins, strict=True)
    )
    bits = np.round(nats / (n * np.log(2)), DIGITS) if n else np.zeros_like(together, dtype=float)
    return np.where(together * n > f * m, bits, 0.0)
