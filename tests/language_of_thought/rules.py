"""A recursive grammar: disjunctive normal form over binary features f1, f2, …"""

from __future__ import annotations

from plot_attractors.language_of_thought import Grammar


def rule_grammar(features: int, max_rules: int) -> Grammar:
    """D of conjunctions C of predicates P."""
    names = [f"F{k}" for k in range(1, features + 1)]
    values = {f"F{k}": (f"f{k}=0", f"f{k}=1") for k in range(1, features + 1)}
    sides = {"D": ("C", "C ∨ D"), "C": ("P", "P ∧ C"), "P": tuple(names), **values}
    return Grammar(sides, max_rules=max_rules)
