"""Proposals of Metropolis-Hastings over expressions: subtrees anew, wrapped, or exchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from plot_attractors.language_of_thought.grammar import Grammar

__all__ = ["Move", "Proposal", "insert_or_delete", "regenerate", "swap"]


class Proposal(NamedTuple):
    """Expressions proposed from others; the old ones, at −inf, where there is nothing to propose.

    - ``rules``: (…, max_rules) the derivations;
    - ``log_ratio``: (…) log q(old | new) − log q(new | old).
    """

    rules: Tensor
    log_ratio: Tensor


Move = Callable[[Grammar, Tensor, Tensor], Proposal]
"""Of a grammar, log-probabilities (R,) of rules in new subtrees, derivations (…, max_rules). Each
way to a new expression is balanced by its own way back, also where several lead there.
"""


class Piece(NamedTuple):
    """Stretches of rows: the places `start` to `end` − 1 of rules (…, max_rules), both (…)."""

    rules: Tensor
    start: Tensor
    end: Tensor


def joined(pieces: Sequence[Piece]) -> tuple[Tensor, Tensor]:
    """Rows (…, max_rules) of the pieces one after the other, and (…) how long they are, which may
    be longer: the rest is then lost.
    """
    shape, longest = pieces[0].rules.shape, pieces[0].rules.shape[-1]
    place = torch.arange(longest)
    out, length = torch.full((*shape[:-1], longest + 1), -1), torch.zeros(shape[:-1]).long()
    for rules, start, end in pieces:
        own = torch.where(place < (end - start)[..., None], place + length[..., None], longest)
        source = (place + start[..., None]).clamp(max=longest - 1)
        out.scatter_(-1, own.clamp(max=longest), rules.gather(-1, source))
        length = length + (end - start)
    return out[..., :longest], length


def _proposed(grammar: Grammar, rules: Tensor, pieces: Sequence[Piece], log_ratio: Tensor,
              possible: Tensor) -> Proposal:  # fmt: skip
    new, length = joined(pieces)
    fits = possible & (length <= grammar.max_rules)
    log_ratio = log_ratio + grammar.length(rules).log() - length.log()
    return Proposal(
        torch.where(fits[..., None], new, rules), torch.where(fits, log_ratio, -torch.inf)
    )


def _place(grammar: Grammar, rules: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(…) a place in each derivation, uniformly, the end of its subtree, and its rule."""
    n, longest = grammar.length(rules), grammar.max_rules
    where = (torch.rand(n.shape) * n).long().clamp(max=longest - 1)
    end = grammar.subtree_ends(rules).gather(-1, where[..., None])[..., 0]
    return where, end, rules.gather(-1, where[..., None])[..., 0]


def _log_p(grammar: Grammar, log_p: Tensor, piece: Piece) -> Tensor:
    """(…) log-probability of the rules of a piece."""
    place = torch.arange(piece.rules.shape[-1])
    inside = (place >= piece.start[..., None]) & (place < piece.end[..., None])
    return grammar.counts(torch.where(inside, piece.rules, -1)) @ log_p


def regenerate(grammar: Grammar, log_p: Tensor, rules: Tensor) -> Proposal:
    r"""Choose one of the n rules of each derivation uniformly, and draw its subtree anew.

    With probabilities p of rules, an old subtree s and a new one s', and n' rules afterwards,

    .. math:: q(\text{old} | \text{new}) / q(\text{new} | \text{old}) = n \, p(s) / (n' \, p(s')).

    With rational rules as the prior this is the move of Goodman et al. (2008), Appendix; LOTlib3's
    and Fleet's `regenerate` are the same.
    """
    where, end, rule = _place(grammar, rules)
    drawn, ended = grammar.grow(log_p, grammar.left[rule], masked=False)
    zero, n = torch.zeros_like(where), grammar.length(rules)
    old, new = Piece(rules, where, end), Piece(drawn, zero, grammar.length(drawn))
    log_ratio = _log_p(grammar, log_p, old) - _log_p(grammar, log_p, new)
    pieces = [Piece(rules, zero, where), new, Piece(rules, end, n)]
    return _proposed(grammar, rules, pieces, log_ratio, ended)


def insert_or_delete(grammar: Grammar, log_p: Tensor, rules: Tensor) -> Proposal:
    r"""Wrap a subtree into a rule of its own nonterminal, or take one out of such a rule.

    Either with probability ½, at a place chosen uniformly. An insertion chooses a rule r and one of
    its nonterminals that is its own left side, in proportion to p(r), puts the old subtree there
    and draws the others anew, s'. A deletion keeps one of the c(r) such subtrees, chosen uniformly:

    .. math::
        \frac{q(\text{delete})}{q(\text{insert})}
        = \frac{n}{n'} \cdot \frac{1}{c(r)} \cdot \frac{\sum_{r', j} p(r')}{p(r) \, p(s')}.

    It goes from "even" to "not even" and back in one step. Fleet's and LOTlib3's moves of this name
    do the same.
    """
    own = grammar.children == grammar.left[:, None]  # (R, most) places where it holds itself
    nested = own.sum(-1)
    p = torch.where(own, log_p.exp()[:, None], 0.0)
    total = torch.zeros(len(grammar.nonterminals)).index_add_(0, grammar.left, p.sum(-1))
    where, end, rule = _place(grammar, rules)
    zero, n = torch.zeros_like(where), grammar.length(rules)
    inserts = torch.rand(where.shape) < 0.5

    # deletion: which of the subtrees inside the rule stays
    ends = grammar.subtree_ends(rules)
    starts = [where + 1]
    for _ in range(own.shape[-1] - 1):
        last = starts[-1].clamp(max=grammar.max_rules - 1)[..., None]
        starts.append(torch.where(starts[-1] < end, ends.gather(-1, last)[..., 0], end))
    begin = torch.stack(starts, -1)  # (…, most); of children that there are not, the end
    until = torch.cat([begin[..., 1:], end[..., None]], -1)
    stays = _chosen(own[rule].float())
    kept = Piece(rules, *(v.gather(-1, stays[..., None])[..., 0] for v in (begin, until)))
    head, tail = Piece(rules, zero, where), Piece(rules, end, n)
    removed = _log_p(grammar, log_p, Piece(rules, where, end)) - _log_p(grammar, log_p, kept)
    deletion = _proposed(
        grammar, rules, [head, kept, tail],
        removed - total[grammar.left[rule]].clamp(min=1e-38).log() + nested[rule].log(),
        (nested[rule] > 0) & ~inserts,
    )  # fmt: skip

    # insertion: a rule, where in it the old subtree goes, and all others anew
    symbol = grammar.left[rule]
    choices = torch.where((grammar.left == symbol[..., None])[..., None], p, 0.0).flatten(-2)
    which = _chosen(choices)
    around, at = which // own.shape[-1], which % own.shape[-1]
    row = torch.full_like(rules, -1)
    row[..., 0] = around
    pieces, ended, added = [head, Piece(row, zero, zero + 1)], inserts.clone(), log_p[around]
    for j in range(own.shape[-1]):
        child = grammar.children[around, j]
        drawn, whole = grammar.grow(log_p, child.clamp(min=0), masked=False)
        fresh = (child >= 0) & (at != j)
        size = torch.where(fresh, grammar.length(drawn), 0)
        added = added + torch.where(fresh, grammar.counts(drawn) @ log_p, 0.0)
        ended = ended & (whole | ~fresh)
        pieces.append(Piece(drawn, zero, size))
        here = at == j
        pieces.append(Piece(rules, torch.where(here, where, 0), torch.where(here, end, 0)))
    insertion = _proposed(
        grammar, rules, [*pieces, tail],
        total[symbol].log() - nested[around].log() - added,
        ended & (total[symbol] > 0),
    )  # fmt: skip
    return Proposal(
        torch.where(inserts[..., None], insertion.rules, deletion.rules),
        torch.where(inserts, insertion.log_ratio, deletion.log_ratio),
    )


def _chosen(weights: Tensor) -> Tensor:
    """(…) a column of weights (…, n), in proportion to them; the first where all are 0."""
    total = weights.cumsum(-1)
    return (total > torch.rand(total.shape[:-1])[..., None] * total[..., -1:]).int().argmax(-1)


def swap(grammar: Grammar, log_p: Tensor, rules: Tensor) -> Proposal:
    """Exchange two subtrees of one nonterminal, neither inside the other, chosen uniformly; the way
    back is as likely. LOTlib3's `swap` exchanges children of one rule, which are among them.
    """
    (a, a_end, first), (b, b_end, second) = (_place(grammar, rules) for _ in range(2))
    later = a > b
    (a, b), (a_end, b_end) = ((torch.where(later, y, x), torch.where(later, x, y))
                              for x, y in ((a, b), (a_end, b_end)))  # fmt: skip
    zero, n = torch.zeros_like(a), grammar.length(rules)
    possible = (grammar.left[first] == grammar.left[second]) & (a_end <= b)
    b, b_end, middle = (torch.where(possible, v, a_end) for v in (b, b_end, b))
    pieces = [(zero, a), (b, b_end), (a_end, middle), (a, a_end), (b_end, n)]
    return _proposed(
        grammar, rules, [Piece(rules, *ends) for ends in pieces], torch.zeros(a.shape), possible
    )
