"""Context-free grammars over expressions, and their derivations as rows of rule numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from plot_attractors.language_of_thought.meaning import Meanings

__all__ = ["Grammar", "Partial", "conjunctions", "literals", "paths"]

Alternative = str | tuple[str, Any] | tuple[str, Any, float]
"""The right-hand side of a rule, what it means, and its weight among the alternatives."""

EMPTY = "∅"  # the alternative without tokens
MOST_LISTED = 2_000_000


class Partial(NamedTuple):
    """Derivations that are being built.

    - ``rules``: (…, max_rules) int64, rule numbers in the order of the derivation, then −1;
    - ``symbol``: (…) int64, the nonterminal to be rewritten next; any where none is.
    """

    rules: Tensor
    symbol: Tensor


class Grammar:
    """A context-free grammar, and its derivations as rows of numbers.

    An expression is its leftmost derivation: the numbers of its rules in the order in which they
    rewrite the leftmost nonterminal, −1 after the last. So a subtree is a stretch of the row, and
    all expressions are one tensor.

    Args:
        alternatives: for every nonterminal the right-hand sides that it may be rewritten to, each
            of symbols separated by spaces; symbols without alternatives are terminals, ``"∅"`` is
            nothing. Rules are numbered in this order; derivations start from the first nonterminal.
            With a meaning, (text, meaning) or (text, meaning, weight), expressions have values: see
            `value`. Weights are 1 by default, and need not sum to 1.
        max_rules: the longest derivation; a grammar without recursion needs none.

    Raises ValueError where a nonterminal yields no finite expression, a recursive grammar has no
    `max_rules`, or no expression is as short.

    Example:
        >>> sides = ("∅", "left", "right")
        >>> grammar = Grammar({"S": ("A B",), "A": sides, "B": sides})
        >>> len(grammar.derivations), grammar.text(grammar.derivations[-1])
        (9, 'right right')
        >>> grammar.subtree_ends(grammar.derivations[-1]).tolist()
        [3, 2, 3]
        >>> n = torch.arange(1, 7)
        >>> sets = ("even", n % 2 == 0), ("( set and set )", torch.logical_and), (
        ...     "over number", lambda k: n > k
        ... )
        >>> grammar = Grammar({"set": sets, "number": [(str(k), k) for k in (2, 4)]}, max_rules=4)
        >>> rules = grammar.derivations[-1]
        >>> grammar.text(rules), grammar.value(rules).int().tolist()
        ('( over 4 and even )', [0, 0, 0, 0, 0, 1])
    """

    start_symbol = 0

    def __init__(
        self,
        alternatives: Mapping[str, Sequence[Alternative]],
        max_rules: int | None = None,
    ) -> None:
        for left, sides in alternatives.items():
            if isinstance(sides, str) or not all(isinstance(side, str | tuple) for side in sides):
                raise ValueError(
                    f"Alternatives of {left!r} are a sequence of texts, (text, meaning) or (text, "
                    "meaning, weight): a single one needs a comma after it."
                )
        self.nonterminals = tuple(alternatives)
        number = {symbol: k for k, symbol in enumerate(self.nonterminals)}
        table = [
            (left, *((right, None, 1.0) if isinstance(right, str) else (*right, 1.0)[:3]))
            for left, sides in alternatives.items()
            for right in sides
        ]
        self.rules = tuple((left, tuple(right.split())) for left, right, _, _ in table)
        self._meanings = [meaning for _, _, meaning, _ in table]
        for left, right, _, weight in table:
            if not 0 < weight < math.inf:
                raise ValueError(f"The weight of '{left} → {right}' must be a positive number.")
        weights = torch.tensor([float(weight) for *_, weight in table])
        self.left = torch.tensor([number[left] for left, _ in self.rules])  # (R,)
        total = torch.zeros(len(number)).index_add_(0, self.left, weights)
        # (R,) log-probabilities of rules, by their weights among the alternatives
        self.log_p = (weights / total[self.left]).log()
        self.weights = weights  # (R,)
        inside = [[number[s] for s in right if s in number] for _, right in self.rules]
        most = max(1, *map(len, inside))
        # (R, most) nonterminals, in order, then −1
        self.children = torch.tensor([c + [-1] * (most - len(c)) for c in inside])
        self.arity = torch.tensor([len(c) for c in inside])  # (R,)
        self.shortest = self._lengths("amin")  # (N,) fewest rules that a nonterminal takes
        if endless := [self.nonterminals[k] for k in self.shortest.isinf().nonzero()[:, 0]]:
            raise ValueError(f"{endless[0]} yields no finite expression.")
        longest = float(self._lengths("amax")[self.start_symbol])
        if max_rules is None and math.isinf(longest):
            raise ValueError("A recursive grammar has no longest expression: give max_rules.")
        self.max_rules = int(longest) if max_rules is None else max_rules
        if self.shortest[self.start_symbol] > self.max_rules:
            raise ValueError(f"No expression has as few as max_rules={max_rules} rules.")
        # the change of the fewest rules that are still to come, when a rule is applied
        of_children = torch.where(self.children >= 0, self.shortest[self.children], 0.0).sum(-1)
        self._still = (of_children - self.shortest[self.left]).long()

    def _lengths(self, best: Literal["amin", "amax"]) -> Tensor:
        """(N,) fewest or most rules that each nonterminal takes; inf where none."""
        lengths = torch.full((len(self.nonterminals),), math.inf if best == "amin" else 0.0)
        for _ in range(len(self.nonterminals) + 1):
            before = lengths
            total = 1 + torch.where(self.children >= 0, before[self.children], 0.0).sum(-1)
            lengths = before.scatter_reduce(0, self.left, total, best, include_self=False)
        # without recursion nothing grows after as many rounds as there are nonterminals
        return torch.where(lengths == before, lengths, math.inf)

    def counts(self, rules: Tensor) -> Tensor:
        """(…, R) how often each rule occurs in derivations (…, max_rules)."""
        counts = torch.zeros(*rules.shape[:-1], len(self.rules) + 1, device=rules.device)
        ones = torch.ones_like(rules, dtype=counts.dtype)
        return counts.scatter_add_(-1, rules + 1, ones)[..., 1:]

    @staticmethod
    def length(rules: Tensor) -> Tensor:
        """(…) number of rules of derivations (…, max_rules)."""
        return (rules >= 0).sum(-1)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The different terminals of the rules that have any, in their order: the tokens of its
        sentences.
        """
        return tuple(dict.fromkeys(filter(None, self._terminals)))

    @cached_property
    def _terminals(self) -> list[str]:
        outside = {*self.nonterminals, EMPTY}
        return [" ".join(s for s in right if s not in outside) for _, right in self.rules]

    @cached_property
    def _token(self) -> Tensor:
        """(R, tokens) float32, 1 for the token of each rule that has terminals."""
        rows = [[float(token == text) for token in self.tokens] for text in self._terminals]
        return torch.tensor(rows).view(-1, len(self.tokens))

    def sentence(self, rules: Tensor) -> Tensor:
        """(…, tokens) float32, how often each token occurs; 0 or 1 for conjunctions."""
        return self.counts(rules) @ self._token.to(rules.device)

    def text(self, rules: Tensor) -> str:
        """The terminals of one derivation (max_rules,), separated by spaces; '∅' for none."""
        todo, tokens, row = [self.nonterminals[0]], [], iter(rules.tolist())
        while todo:
            symbol = todo.pop()
            if symbol in self.nonterminals:
                todo.extend(reversed(self.rules[next(row)][1]))
            elif symbol != EMPTY:
                tokens.append(symbol)
        return " ".join(tokens) or EMPTY

    def _opened(self, rules: Tensor) -> Tensor:
        """(…, max_rules) by how much each rule changes the number of open nonterminals."""
        return torch.where(rules >= 0, self.arity[rules.clamp(min=0)] - 1, 0)

    def subtree_ends(self, rules: Tensor) -> Tensor:
        """(…, max_rules) the end of the subtree of each rule, at places i to end − 1; 0: none."""
        opened = self._opened(rules)
        after = opened.cumsum(-1)  # open nonterminals, less 1
        place = torch.arange(rules.shape[-1], device=rules.device)
        later = place[None, :] >= place[:, None]
        closed = (after[..., None, :] == (after - opened)[..., :, None] - 1) & later
        return torch.where(rules >= 0, closed.int().argmax(-1) + 1, 0)

    def complete(self, rules: Tensor) -> Tensor:
        """(…) whether rows (…, max_rules) are whole derivations, from the start on."""
        opened = self._opened(rules)
        after = opened.cumsum(-1)
        started = self.left[rules[..., 0].clamp(min=0)] == self.start_symbol
        running = after - opened + 1 > 0  # before each rule a nonterminal is open
        return started & ((rules >= 0) == running).all(-1) & (after[..., -1] == -1)

    def allowed(self, partial: Partial) -> Tensor:
        """(…, R) rules that rewrite the next symbol and leave room for the rest in `max_rules`."""
        active = partial.rules >= 0
        # fewest rules of the whole derivation, if everything that is open ends as soon as it can
        start = int(self.shortest[self.start_symbol])
        fewest = start + torch.where(active, self._still[partial.rules.clamp(min=0)] + 1, 0).sum(-1)
        fits = fewest[..., None] + self._still + 1 <= self.max_rules
        return fits & (self.left == partial.symbol[..., None])

    def prefixes(self, rules: Tensor) -> Partial:
        """The (max_rules, …) partial derivations of derivations (…, max_rules), first to last."""
        place = torch.arange(rules.shape[-1], device=rules.device)
        before = place < place.view(-1, *[1] * rules.dim())
        return Partial(torch.where(before, rules, -1), self.left[rules.clamp(min=0)].movedim(-1, 0))

    def grow(
        self, logits: Callable[[Partial], Tensor] | Tensor, symbol: Tensor, masked: bool
    ) -> tuple[Tensor, Tensor]:
        """Derivations of nonterminals `symbol` (…), drawn rule by rule by torch's global generator.

        Args:
            logits: partial derivations → (…, R), or (R,) for rules whose probabilities depend on
                nothing; rules of other nonterminals than the next are masked here.
            masked: leave out rules that would not end in time, for derivations of the start only.

        Returns:
            rules (…, max_rules), and (…) whether each derivation ended within `max_rules`.
        """
        shape, n, deep = symbol.shape, symbol.numel(), self.max_rules * self.children.shape[-1] + 2
        rules = torch.full((n, self.max_rules), -1)
        # nonterminals to rewrite; the last column is for waste
        stack = torch.zeros(n, deep + 1, dtype=torch.int64)
        stack[:, 0] = symbol.flatten()
        height = torch.ones(n, dtype=torch.int64)
        row = torch.arange(n)  # that go on; all of them where logits need the whole batch
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
                possible = possible | ~going[:, None]  # anything where nothing is left to draw
                p = logits(partial).reshape(n, -1).masked_fill(~possible, -torch.inf).softmax(-1)
            total = p.cumsum(-1)
            rule = (total > torch.rand(len(row), 1) * total[:, -1:]).int().argmax(-1)
            rules[row, t] = torch.where(going, rule, -1)
            children, arity = self.children[rule], self.arity[rule]
            place = (height[row] - 2 + arity)[:, None] - torch.arange(children.shape[-1])
            # the leftmost child on top
            place = torch.where((children >= 0) & going[:, None], place, deep)
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
            if sum(map(len, done)) + len(which) > MOST_LISTED:
                raise ValueError(
                    f"More than {MOST_LISTED:,} expressions are too many to list: lower max_rules."
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
        """(R,) log-probabilities of rules that make all expressions equally likely.

        Raises ValueError where the grammar is recursive.
        """
        if self._lengths("amax").isinf().any():
            raise ValueError("A recursive grammar has no uniform prior: take another one.")
        number = torch.ones(len(self.nonterminals), dtype=torch.float64)
        for _ in self.nonterminals:
            below = torch.where(self.children >= 0, number[self.children], 1.0).prod(-1)
            number = torch.zeros_like(number).index_add_(0, self.left, below)
        return (below / number[self.left]).log().float()

    @cached_property
    def _evaluator(self) -> Meanings:
        if all(meaning is None for meaning in self._meanings):
            raise ValueError(
                "This grammar's rules have no meanings: give (text, meaning) for each."
            )
        return Meanings(self, self._meanings)

    def value(self, rules: Tensor) -> Tensor:
        """(…, *shape) what derivations (…, max_rules) mean, such as (…, O) bool, of O objects.

        The meaning of a rule is a constant, or a function of the values of the nonterminals inside
        it, written for one expression by operations of torch; None for a rule that is one
        nonterminal: its value. A nonterminal is a type: its values have one shape and dtype, that
        all are broadcast to. A bound variable is an axis: with P of shape (O,) and R of (O, O),
        ("∃y R", lambda r: r.any(-1)) makes a P of an R.

        Raises ValueError where a meaning is missing or cannot be computed, or a row is no whole
        derivation.
        """
        return self._evaluator.values(rules)


def conjunctions(features: Mapping[str, Sequence[str]]) -> Grammar:
    """Conjunctions over features, each specified or left open: Π (values + 1) expressions.

    Six branches of left and right make the 729 sentences of hierarchical binary vectors.

    Raises ValueError where a value has the name of a feature, or a name holds a space.

    >>> len(conjunctions({"colour": ("red", "green"), "shape": ("square", "heart")}).derivations)
    9
    """
    words = ["expression", EMPTY, *features, *itertools.chain(*features.values())]
    if wrong := [word for word in words if words.count(word) > 1 or len(word.split()) != 1]:
        raise ValueError(f"{wrong[0]!r} is two things, or not one word: rename it.")
    values = {name: (EMPTY, *names) for name, names in features.items()}
    return Grammar({"expression": (" ".join(features),), **values})


def literals(names: Sequence[str], most: int) -> Grammar:
    """Conjunctions of up to `most` names or negated names, each name once, in their order:
    Σ_k C(n, k) 2^k expressions of n names.

    Spaces in names become underscores. Raises ValueError where two names are then the same.

    >>> grammar = literals(["milk", "legs"], 2)
    >>> [grammar.text(rules) for rules in grammar.derivations][:4], len(grammar.derivations)
    (['∅', 'milk', '¬milk', 'legs'], 9)
    """
    words = ["_".join(name.split()) for name in names]
    if twice := [word for word in words if words.count(word) > 1]:
        raise ValueError(
            f"two columns would both be called {twice[0]!r} in expressions: rename one."
        )
    sides = {}
    for k in range(len(words) + 1):
        for room in range(most + 1):
            after = [] if room == 0 else [(j, words[j]) for j in range(k, len(words))]
            sides[f"<{k},{room}>"] = (EMPTY, *(
                f"{sign}{word} <{j + 1},{room - 1}>" for j, word in after for sign in ("", "¬")
            ))  # fmt: skip
    start = f"<0,{most}>"
    return Grammar({start: sides[start], **sides})


def paths(depth: int, below_root: bool = False) -> Grammar:
    """Paths from the root of a binary tree of `depth` D: left, right, or an end, at every level.

    2^(D+1) − 1 paths, the empty one naming the root, or with `below_root` all others.

    >>> len(paths(2).derivations), len(paths(2, below_root=True).derivations)
    (7, 6)
    """
    levels: dict[str, tuple[str, ...]] = {
        f"level{k}": (EMPTY, f"left{k} level{k + 1}", f"right{k} level{k + 1}")
        for k in range(1, depth + 1)
    }
    if below_root:
        levels["level1"] = levels["level1"][1:]
    return Grammar({**levels, f"level{depth + 1}": (EMPTY,)})
