"""Values of expressions: what a rule means is a constant, or a function of the values inside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from plot_attractors.language_of_thought.grammar import Grammar

__all__ = ["Kind", "Meanings"]

CELLS = 50_000_000  # numbers that are held at once


class Kind(NamedTuple):
    """What the values of a nonterminal are like."""

    shape: torch.Size
    dtype: torch.dtype


class Meanings:
    """Evaluates derivations of a grammar, many at once.

    A derivation is read from its end, so that the values inside a rule are on a stack when it comes
    to be applied: one stack for each nonterminal, one call of a rule's function for all derivations
    that have it at one place.

    Args:
        grammar: whose rules they are.
        meanings: of each rule, in their order: a constant, a function of as many values as the
            rule has nonterminals, written for one expression (`torch.func.vmap` makes it one of
            many), or None: the value of the only nonterminal inside.

    Raises ValueError where a rule has no meaning, or its function cannot be called so.
    """

    def __init__(self, grammar: Grammar, meanings: Sequence[Any]) -> None:
        self._grammar = grammar
        self._call: dict[int, Callable[..., Tensor]] = {}
        self.constant: dict[int, Tensor] = {}
        for k, meaning in enumerate(meanings):
            inside, right = int(grammar.arity[k]), grammar.rules[k][1]
            if meaning is None and len(right) == inside == 1:
                self._call[k] = lambda value: value
            elif meaning is None or callable(meaning) != bool(inside):
                raise ValueError(
                    f"The meaning of {self._name(k)} must be a "
                    f"{f'function of {inside} values' if inside else 'value'}, as the nonterminals "
                    f"are {', '.join(grammar.nonterminals)}, not {meaning!r}."
                )
            elif inside:
                self._call[k] = meaning
            else:
                self.constant[k] = torch.as_tensor(meaning)
        self.kinds = self._kinds()
        # of each nonterminal that has any: the numbers of its rules that are constants, (R,) the
        # place of each among them, and their values
        self._constants: dict[int, tuple[Tensor, Tensor]] = {}
        for n, kind in enumerate(self.kinds):
            own = [k for k in (grammar.left == n).nonzero()[:, 0].tolist() if k in self.constant]
            if own:
                place = torch.full((len(grammar.rules) + 1,), -1)  # the last: of no rule
                place[own] = torch.arange(len(own))
                self._constants[n] = (
                    place,
                    torch.cat([self._as(self.constant[k][None], kind) for k in own]),
                )

    def _name(self, rule: int) -> str:
        left, right = self._grammar.rules[rule]
        return repr(f"{left} → {' '.join(right)}")

    @staticmethod
    def _as(values: Tensor, kind: Kind) -> Tensor:
        """(n, *shape) of values (n, …) that broadcast to the shape."""
        between = (1,) * (1 + len(kind.shape) - values.ndim)
        full = values.reshape(len(values), *between, *values.shape[1:])
        return full.to(kind.dtype).expand(len(values), *kind.shape)

    def _apply(self, rule: int, values: list[Tensor]) -> Tensor:
        """(n, …) of (n, …) values of each nonterminal inside."""
        try:
            result: Tensor = vmap(self._call[rule])(*values)
        except Exception as error:
            raise ValueError(
                f"The meaning of {self._name(rule)} cannot be computed of {len(values)} values "
                f"{', '.join(str(tuple(v.shape[1:])) for v in values)}, by operations of torch on "
                f"tensors (torch.where for if, & for and): {error}"
            ) from error
        return result

    def _kinds(self) -> list[Kind]:
        """Shape and type that values of each nonterminal's rules can all be brought to."""
        grammar = self._grammar
        known: dict[int, Kind] = {}
        value: dict[int, Tensor] = {}  # one of each nonterminal, on which functions are tried
        while True:
            before = dict(known)
            for rule, left in enumerate(grammar.left.tolist()):
                inside = [c for c in grammar.children[rule].tolist() if c >= 0]
                if not all(c in known for c in inside):
                    continue
                own = self.constant.get(rule)
                if own is None:
                    own = self._apply(
                        rule, [self._as(value[c][None], known[c]).clone() for c in inside]
                    )[0]
                old = known.get(left, Kind(own.shape, own.dtype))
                try:
                    shape = torch.broadcast_shapes(old.shape, own.shape)
                except RuntimeError:
                    raise ValueError(
                        f"The value of {self._name(rule)} has shape {tuple(own.shape)}, others of "
                        f"{grammar.nonterminals[left]!r} have {tuple(old.shape)}: a nonterminal is "
                        "a type, give each type one."
                    ) from None
                known[left] = Kind(shape, torch.promote_types(old.dtype, own.dtype))
                value.setdefault(left, own)
            if known == before:
                return [known[n] for n in range(len(grammar.nonterminals))]

    def values(self, rules: Tensor) -> Tensor:
        """(…, *shape) of derivations (…, max_rules).

        Raises ValueError where a row is no whole derivation.
        """
        if not bool(self._grammar.complete(rules).all()):
            raise ValueError("Only whole derivations have a value: a row of rules is none.")
        flat, kind = rules.reshape(-1, rules.shape[-1]), self.kinds[self._grammar.start_symbol]
        size = max(kind.shape.numel() for kind in self.kinds) * rules.shape[-1]
        few = flat.split(max(1, CELLS // max(1, size)))
        parts = [self._evaluate(part) for part in few]
        return torch.cat(parts).view(*rules.shape[:-1], *kind.shape)

    def _evaluate(self, rules: Tensor) -> Tensor:
        grammar, (n, longest) = self._grammar, rules.shape
        children = grammar.children.tolist()
        left, active = grammar.left[rules.clamp(min=0)], rules >= 0
        stacks, heights = [], torch.zeros(len(self.kinds), n, dtype=torch.int64)
        for k, kind in enumerate(self.kinds):
            inside = (grammar.children == k).sum(-1)[rules.clamp(min=0)]
            change = torch.where(active, (left == k).long() - inside, 0)
            most = int(change.flip(-1).cumsum(-1).amax()) if n else 0
            stacks.append(torch.empty(n, max(1, most), *kind.shape, dtype=kind.dtype))
        for t in reversed(range(longest)):
            order = rules[:, t].argsort()
            counts = torch.bincount(rules[:, t] + 1, minlength=len(grammar.rules) + 1)
            for rule, rows in enumerate(order.split(counts.tolist())):
                if rule - 1 not in self._call or not len(rows):
                    continue
                values = []
                for child in children[rule - 1]:
                    if child >= 0:  # the first is on top, as it was read last
                        heights[child, rows] -= 1
                        values.append(stacks[child][rows, heights[child, rows]])
                of = int(grammar.left[rule - 1])
                value = self._as(self._apply(rule - 1, values), self.kinds[of])
                stacks[of][rows, heights[of, rows]] = value
                heights[of, rows] += 1
            for k, (place, table) in self._constants.items():
                which = place[rules[:, t]]
                rows = (which >= 0).nonzero()[:, 0]
                stacks[k][rows, heights[k, rows]] = table[which[rows]]
                heights[k, rows] += 1
        return stacks[grammar.start_symbol][:, 0]
