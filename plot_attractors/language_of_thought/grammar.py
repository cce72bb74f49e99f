"""Context-free grammars over expressions, and the laws of their derivations as distributions of
Pyro.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

__all__ = [
    "Derivations",
    "Grammar",
    "Partial",
    "ProbabilisticGrammar",
    "RationalRules",
    "conjunctions",
    "paths",
]

EMPTY = "∅"  # the alternative that says nothing
_MOST_LISTED = 2_000_000


class Partial(NamedTuple):
    """Derivations that are being built: the rules so far, and the nonterminal that is to be
    rewritten next.

    - ``rules``: (…, max_rules) int64, rule numbers in the order of the derivation, −1 where there
    is none yet;
    - ``symbol``: (…) int64, the nonterminal; anything where a derivation is complete.
    """

    rules: Tensor
    symbol: Tensor


class Grammar:
    """A context-free grammar, and its derivations as rows of numbers.

    An expression is its leftmost derivation: the numbers of its rules in the order in which they
    rewrite the leftmost
    nonterminal, −1 after the last. So a subtree is a stretch of the row, and all expressions
    together are one tensor.

    Args:
        alternatives: for every nonterminal the right-hand sides that it may be rewritten to, each
            of symbols separated by spaces; symbols without alternatives are terminals, and ``"∅"``
            is nothing. Rules are numbered in this order.
        start: the nonterminal that derivations start from; by default the first.
        max_rules: the longest derivation; a grammar without recursion needs none.

    Raises:
        ValueError: a nonterminal that yields no finite expression, an unknown start, or a recursive
            grammar without `max_rules`.

    Example:
        >>> grammar = Grammar({"S": ("A B",), "A": ("∅", "left", "right"), "B": ("∅", "left", "right")})
        >>> len(grammar.derivations), grammar.text(grammar.derivations[-1])
        (9, 'right right')
        >>> grammar.subtree_ends(grammar.derivations[-1]).tolist()
        [3, 2, 3]
    """

    def __init__(
        self,
        alternatives: Mapping[str, Sequence[str]],
        start: str | None = None,
        max_rules: int | None = None,
    ) -> None:
        self.nonterminals = tuple(alternatives)
        self.start = self.nonterminals[0] if start is None else start
        if self.start not in alternatives:
            raise ValueError(
                f"start must be one of the nonterminals {', '.join(self.nonterminals)}, not "
                f"{self.start}."
            )
        number = {symbol: k for k, symbol in enumerate(self.nonterminals)}
        self.rules = tuple(
            (left, tuple(right.split())) for left, sides in alternatives.items() for right in sides
        )
        self.start_symbol = number[self.start]
        self.left = torch.tensor([number[left] for left, _ in self.rules])  # (R,)
        inside = [
            [number[symbol] for symbol in right if symbol in number] for _, right in self.rules
        ]
        most = max(1, *map(len, inside))
        self.children = torch.tensor(
            [c + [-1] * (most - len(c)) for c in inside]
        )  # (R, most) nonterminals, in order
        self.arity = torch.tensor([len(c) for c in inside])  # (R,)
        self.shortest = self._lengths(min)  # (N,) fewest rules that a nonterminal takes
        bare = [self.nonterminals[k] for k, n in enumerate(self.shortest.tolist()) if math.isinf(n)]
        if bare:
            raise ValueError(
                f"{bare[0]} yields no finite expression: give it an alternative that ends."
            )
        longest = float(self._lengths(max)[self.start_symbol])
        if max_rules is None and math.isinf(longest):
            raise ValueError("A recursive grammar has no longest expression: give max_rules.")
        self.max_rules = int(longest) if max_rules is None else max_rules
        if self.shortest[self.start_symbol] > self.max_rules:
            raise ValueError(f"No expression has as few as max_rules={max_rules} rules.")
        # the change of the fewest rules that are still to come, when a rule is applied
        of_children = torch.where(self.children >= 0, self.shortest[self.children], 0.0).sum(-1)
        self._still = (of_children - self.shortest[self.left]).long()

    def _lengths(self, best: Callable[[list[float]], float]) -> Tensor:
        """(N,) fewest (`min`) or most (`max`) rules of a nonterminal's derivations, inf where there
        is none.
        """
        lengths = [math.inf if best is min else 0.0] * len(self.nonterminals)
        for _ in range(len(self.nonterminals) + 1):
            before = list(lengths)
            for k in range(len(lengths)):
                totals = [
                    1 + sum(before[c] for c in row if c >= 0)
                    for row, left in zip(self.children.tolist(), self.left.tolist(), strict=True)
                    if left == k
                ]
                lengths[k] = best(totals)
        # without recursion nothing grows after as many rounds as there are nonterminals
        return torch.tensor(
            [n if n == b else math.inf for n, b in zip(lengths, before, strict=True)]
        )

    def counts(self, rules: Tensor) -> Tensor:
        """(…, R) how often each rule occurs in derivations (…, max_rules)."""
        counts = torch.zeros(*rules.shape[:-1], len(self.rules) + 1, device=rules.device)
        return counts.scatter_add_(-1, rules + 1, torch.ones_like(rules, dtype=counts.dtype))[
            ..., 1:
        ]

    @staticmethod
    def length(rules: Tensor) -> Tensor:
        """(…) number of rules of derivations (…, max_rules)."""
        return (rules >= 0).sum(-1)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The terminals of the rules that have any, in the order of the rules: the words of the
        grammar's sentences.
        """
        return tuple(text for text in map(self._words, range(len(self.rules))) if text)

    def _words(self, rule: int) -> str:
        return " ".join(s for s in self.rules[rule][1] if s not in self.nonterminals and s != EMPTY)

    def sentence(self, rules: Tensor) -> Tensor:
        """(…, tokens) float32, how often the rules with a terminal occur: for conjunctions, a
        sentence's 0/1 vector.
        """
        spoken = [r for r in range(len(self.rules)) if self._words(r)]
        return self.counts(rules)[..., spoken]

    def text(self, rules: Tensor) -> str:
        """The terminals of one derivation (max_rules,) from left to right, separated by spaces; '∅'
        for none.
        """
        todo, words, row = [self.start], [], iter(rules.tolist())
        while todo:
            symbol = todo.pop()
            if symbol in self.nonterminals:
                todo.extend(reversed(self.rules[next(row)][1]))
            elif symbol != EMPTY:
                words.append(symbol)
        return " ".join(words) or EMPTY

    def subtree_ends(self, rules: Tensor) -> Tensor:
        """(…, max_rules) where the subtree of each rule ends: it takes places i to end − 1; 0 where
        there is none.
        """
        active = rules >= 0
        open_after = torch.where(active, self.arity[rules.clamp(min=0)] - 1, 0).cumsum(
            -1
        )  # open nonterminals, less 1
        before = open_after - torch.where(active, self.arity[rules.clamp(min=0)] - 1, 0)
        place = torch.arange(rules.shape[-1], device=rules.device)
        closed = (open_after[..., None, :] == before[..., :, None] - 1) & (
            place[None, :] >= place[:, None]
        )
        return torch.where(active, closed.int().argmax(-1) + 1, 0)

    def complete(self, rules: Tensor) -> Tensor:
        """(…) whether rows (…, max_rules) begin with the start and end where no nonterminal is open
        any more.
        """
        active = rules >= 0
        change = torch.where(active, self.arity[rules.clamp(min=0)] - 1, 0).cumsum(-1)
        before = (
            torch.cat([torch.zeros_like(change[..., :1]), change[..., :-1]], -1) + 1
        )  # nonterminals that are open
        started = self.left[rules[..., 0].clamp(min=0)] == self.start_symbol
        return started & (active == (before > 0)).all(-1) & (change[..., -1] == -1)

    def allowed(self, partial: Partial) -> Tensor:
        """(…, R) rules that rewrite the next symbol and leave room for the rest within
        `max_rules`.
        """
        active = partial.rules >= 0
        # fewest rules of the whole derivation, if everything that is open ends as soon as it can
        start = int(self.shortest[self.start_symbol])
        fewest = start + torch.where(active, self._still[partial.rules.clamp(min=0)] + 1, 0).sum(-1)
        fits = fewest[..., None] + self._still + 1 <= self.max_rules
        return fits & (self.left == partial.symbol[..., None])

    def prefixes(self, rules: Tensor) -> Partial:
        """The (max_rules, …) partial derivations that derivations (…, max_rules) were built
        through, first to last.
        """
        place = torch.arange(rules.shape[-1], device=rules.device)
        before = place < place.view(-1, *[1] * rules.dim())
        return Partial(torch.where(before, rules, -1), self.left[rules.clamp(min=0)].movedim(-1, 0))

    def grow(
        self, logits: Callable[[Partial], Tensor] | Tensor, symbol: Tensor, masked: bool
    ) -> tuple[Tensor, Tensor]:
        """Derivations of the nonterminals `symbol` (…), drawn rule by rule by torch's global
        generator.

        Args:
            logits: partial derivations → (…, R), or (R,) for rules whose probabilities depend on
                nothing; other rules than the next symbol's are masked here.
            masked: leave out rules that would not end in time; then the nonterminals must be the
            start.

        Returns:
            rules (…, max_rules), and (…) whether each derivation ended within `max_rules`.
        """
        shape, n, deep = symbol.shape, symbol.numel(), self.max_rules * self.children.shape[-1] + 2
        rules = torch.full((n, self.max_rules), -1)
        stack = torch.zeros(
            n, deep + 1, dtype=torch.int64
        )  # nonterminals to rewrite; the last column is for waste
        stack[:, 0] = symbol.flatten()
        height = torch.ones(n, dtype=torch.int64)
        row = torch.arange(
            n
        )  # of derivations that go on: all of them where logits need the whole batch
        for t in range(self.max_rules):
            if isinstance(logits, Tensor):
                row = row[height[row] > 0]
            going = height[row] > 0
            if not bool(going.any()):
                break
            top = stack[row, (height[row] - 1).clamp(min=0)]
            possible = self.left == top[:, None]
            if isinstance(logits, Tensor):
                p = torch.where(possible, logits.exp(), 0.0)
            else:
                partial = Partial(rules.view(*shape, -1), top.view(shape))
                possible = self.allowed(partial).view(n, -1) if masked else possible
                possible = (
                    possible | ~going[:, None]
                )  # whatever is drawn where nothing is left to draw
                p = logits(partial).reshape(n, -1).masked_fill(~possible, -torch.inf).softmax(-1)
            total = p.cumsum(-1)
            rule = (total > torch.rand(len(row), 1) * total[:, -1:]).int().argmax(-1)
            rules[row, t] = torch.where(going, rule, -1)
            children, arity = self.children[rule], self.arity[rule]
            place = (height[row] - 2 + arity)[:, None] - torch.arange(children.shape[-1])
            place = torch.where(
                (children >= 0) & going[:, None], place, deep
            )  # the leftmost child on top
            stack[row[:, None], place] = children
            height[row] = torch.where(going, height[row] - 1 + arity, height[row])
        return rules.view(*shape, -1), (height == 0).view(shape)

    @cached_property
    def derivations(self) -> Tensor:
        """(E, max_rules) all derivations, of the grammar's rules in order.

        Raises ValueError beyond 2,000,000 of them.
        """
        done: list[Tensor] = []
        rules = torch.full((1, self.max_rules), -1)
        stack = [[self.start_symbol]]  # of the rows; distinct stacks are few beside rows
        kind = torch.zeros(1, dtype=torch.int64)
        for t in range(self.max_rules):
            symbol = torch.tensor([s[-1] for s in stack])[kind]
            allowed = self.allowed(Partial(rules, symbol))
            which, rule = allowed.nonzero().unbind(-1)
            if sum(map(len, done)) + len(which) > _MOST_LISTED:
                raise ValueError(
                    f"More than {_MOST_LISTED:,} expressions are too many to list: take fewer "
                    f"max_rules."
                )
            rules = rules[which]
            rules[:, t] = rule
            pairs, kind = torch.stack([kind[which], rule], -1).unique(dim=0, return_inverse=True)
            grown = [
                tuple(stack[k][:-1] + [c for c in reversed(self.children[r].tolist()) if c >= 0])
                for k, r in pairs.tolist()
            ]
            ended = torch.tensor([not s for s in grown])[kind]
            done.append(rules[ended])
            rules = rules[~ended]
            if not len(rules):
                break
            distinct = sorted(set(grown) - {()})
            kind = torch.tensor([distinct.index(s) if s else -1 for s in grown])[kind][~ended]
            stack = [list(s) for s in distinct]
        return torch.cat(done)

    @cached_property
    def uniform(self) -> Tensor:
        """(R,) log-probabilities of rules under which every expression is equally likely: those of
        a nonterminal in proportion to the number of expressions below each. Only without recursion.
        """
        if any(math.isinf(n) for n in self._lengths(max).tolist()):
            raise ValueError(
                "A recursive grammar has no uniform law over its expressions: take another prior."
            )
        number = torch.ones(len(self.nonterminals), dtype=torch.float64)
        for _ in self.nonterminals:
            below = torch.where(self.children >= 0, number[self.children], 1.0).prod(-1)
            number = torch.zeros_like(number).index_add_(0, self.left, below)
        return (below / number[self.left]).log().float()

    @cached_property
    def indifferent(self) -> Tensor:
        """(R,) log-probabilities with all alternatives of a nonterminal equally likely."""
        return -torch.bincount(self.left)[self.left].float().log()


class Derivations(TorchDistribution):
    """A law over derivations (max_rules,), built rule by rule: Π_t P(rule_t | rules before, next
    symbol).

    With `masked`, rules that would not end within `max_rules` are left out at every step, so that
    derivations always end and the law sums to 1. Without, over-long derivations are thrown away,
    and `log_prob` is that of the unlimited grammar: larger by the constant log P(at most max_rules
    rules) it would sum to 1 (0 for grammars without recursion).

    Args:
        grammar: of the derivations.
        logits: partial derivations → (…, R), of any scale; or (R,) log-probabilities that depend on
        nothing.
        batch_shape: shape of independent derivations.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    support = constraints.independent(constraints.integer, 1)

    def __init__(
        self,
        grammar: Grammar,
        logits: Callable[[Partial], Tensor] | Tensor,
        batch_shape: torch.Size | tuple[int, ...] = (),
        masked: bool = True,
    ) -> None:
        self.grammar, self.logits, self.masked = grammar, logits, masked
        super().__init__(
            torch.Size(batch_shape), torch.Size([grammar.max_rules]), validate_args=False
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Derivations:
        new = type(self).__new__(type(self)) if _instance is None else _instance
        new.__dict__.update({k: v for k, v in self.__dict__.items() if not k.startswith("_batch")})
        TorchDistribution.__init__(
            new, torch.Size(batch_shape), self.event_shape, validate_args=False
        )
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        symbol = torch.full((*sample_shape, *self.batch_shape), self.grammar.start_symbol)
        with torch.no_grad():
            rules, ended = self.grammar.grow(self.logits, symbol, self.masked)
            while not bool(ended.all()):  # only without `masked`
                again, now = self.grammar.grow(self.logits, symbol, self.masked)
                rules = torch.where(ended[..., None], rules, again)
                ended = ended | now
        return rules

    def log_prob(self, value: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(value.shape[:-1], self.batch_shape)
        rules = value.expand(*shape, -1)
        partial = self.grammar.prefixes(rules)
        active = rules.movedim(-1, 0) >= 0
        rewrites = self.grammar.left == partial.symbol[..., None]
        allowed = self.grammar.allowed(partial) if self.masked else rewrites
        allowed = allowed | ~active[..., None]
        logits = self.logits if isinstance(self.logits, Tensor) else self.logits(partial)
        log_p = logits.masked_fill(~allowed, -torch.inf).log_softmax(-1)
        picked = log_p.gather(-1, rules.movedim(-1, 0).clamp(min=0)[..., None])[..., 0]
        return (
            torch.where(active, picked, 0.0)
            .sum(0)
            .masked_fill(~self.grammar.complete(rules), -torch.inf)
        )


class ProbabilisticGrammar(Derivations):
    r"""A probabilistic context-free grammar: P(derivation) = Π_rules p(rule)^count.

    Args:
        log_p: (R,) log-probabilities of the rules, those of a nonterminal summing to 1; by default
            all alternatives of a nonterminal are equally likely (`Grammar.indifferent`);
            `Grammar.uniform` makes all expressions so.
    """

    def __init__(
        self,
        grammar: Grammar,
        log_p: Tensor | None = None,
        batch_shape: torch.Size | tuple[int, ...] = (),
    ) -> None:
        self.log_p = grammar.indifferent if log_p is None else log_p
        total = torch.zeros(len(grammar.nonterminals)).index_add_(
            0, grammar.left, self.log_p.exp().float()
        )
        if not torch.allclose(total, torch.ones(()), atol=1e-4):
            raise ValueError("The probabilities of the rules of every nonterminal must sum to 1.")
        super().__init__(grammar, self.log_p, batch_shape, False)

    def log_prob(self, value: Tensor) -> Tensor:
        log_p = (self.grammar.counts(value) @ self.log_p).masked_fill(
            ~self.grammar.complete(value), -torch.inf
        )
        return log_p.expand(torch.broadcast_shapes(value.shape[:-1], self.batch_shape))


class RationalRules(Derivations):
    r"""The rational-rules prior: rule probabilities of every nonterminal Y are Dirichlet(α), and
    integrated out,

    .. math:: P(\text{derivation}) = \prod_Y \frac{B(\alpha_Y + C_Y)}{B(\alpha_Y)},

    with the counts C_Y of Y's rules and the multivariate Beta function B. Rules that were used
    before are likelier to be used again. Source: Goodman, Tenenbaum, Feldman and Griffiths (2008),
    *A rational analysis of rule-based concept learning*, Cognitive Science 32, 108-154.

    Args:
        alpha: the pseudo-count of every rule.
    """

    def __init__(
        self, grammar: Grammar, alpha: float = 1.0, batch_shape: torch.Size | tuple[int, ...] = ()
    ) -> None:
        if not alpha > 0:
            raise ValueError(
                f"alpha, the pseudo-count of every rule, must be positive, not {alpha}."
            )
        self.alpha = alpha
        super().__init__(  # Pólya's urn: the next rule in proportion to α + count
            grammar,
            lambda partial: (alpha + grammar.counts(partial.rules)).log(),
            batch_shape,
            False,
        )

    def log_prob(self, value: Tensor) -> Tensor:
        left, counts = self.grammar.left, self.grammar.counts(value)
        alpha = torch.full((len(left),), self.alpha)
        summed = torch.zeros(*counts.shape[:-1], len(self.grammar.nonterminals))
        total = summed.index_add(-1, left, counts)
        prior = torch.zeros(len(self.grammar.nonterminals)).index_add_(0, left, alpha)
        log_p = (torch.lgamma(alpha + counts) - torch.lgamma(alpha)).sum(-1)
        log_p = log_p - (torch.lgamma(prior + total) - torch.lgamma(prior)).sum(-1)
        log_p = log_p.masked_fill(~self.grammar.complete(value), -torch.inf)
        return log_p.expand(torch.broadcast_shapes(value.shape[:-1], self.batch_shape))


def conjunctions(features: Mapping[str, Sequence[str]]) -> Grammar:
    """Conjunctions over features, each specified or left open: Π (values + 1) expressions.

    Six branches of left and right make the 729 sentences of hierarchical binary vectors. Coloured
    sprites have 7 colours, 3 shapes, and the size in 3 and both positions in 4 parts each: 8 · 4 ·
    4 · 5 · 5 = 3,200 expressions.

    >>> len(conjunctions({"colour": ("red", "green"), "shape": ("square", "heart", "ellipse")}).derivations)
    12
    """
    return Grammar(
        {"expression": (" ".join(features),), **{name: (EMPTY, *v) for name, v in features.items()}}
    )


def paths(depth: int, ending: str = "anywhere") -> Grammar:
    """Paths from the root of a binary tree: left, right, or an end, at every level.

    Args:
        depth: D, the levels.
        ending: "anywhere", 2^(D+1) − 1 paths of which the empty one names the root; "below_root",
        without it.

    >>> [len(paths(2, ending).derivations) for ending in ("anywhere", "below_root")]
    [7, 6]
    """
    levels: dict[str, tuple[str, ...]] = {
        f"level{k}": (EMPTY, f"left{k} level{k + 1}", f"right{k} level{k + 1}")
        for k in range(1, depth + 1)
    }
    if ending == "below_root":
        levels["level1"] = levels["level1"][1:]
    elif ending != "anywhere":
        raise ValueError(f"ending must be 'anywhere' or 'below_root', not {ending!r}.")
    return Grammar({**levels, f"level{depth + 1}": (EMPTY,)})
