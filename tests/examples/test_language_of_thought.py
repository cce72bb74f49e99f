"""The number game, against Bayes' rule by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from plot_attractors.language_of_thought import exact_posterior

from ..small import module_at

EXAMPLES = Path(__file__).parents[2] / "examples"
numbers = module_at(EXAMPLES / "number_game.py")


def test_the_number_game() -> None:
    """Probabilities of a set, beside that of even numbers: prior and size principle by hand."""
    texts = [numbers.GRAMMAR.text(rules) for rules in numbers.GRAMMAR.derivations]
    shown = torch.tensor([10, 60])
    p = dict(zip(texts, exact_posterior(numbers.program, shown).log_p.exp().tolist(), strict=True))
    even = 0.99 / 50 + 1e-4
    for text, prior, *like in (
        ("multiple of 10", 1 / 5, 0.99 / 10 + 1e-4, 0.99 / 10 + 1e-4),
        ("from 10 to 70", 1 / 16, 0.99 / 61 + 1e-4, 0.99 / 61 + 1e-4),
        ("square", 1, 1e-4, 1e-4),
        ("not square", 1 / 7, 0.99 / 90 + 1e-4, 0.99 / 90 + 1e-4),
        ("power of 10", 1 / 5, 0.99 / 2 + 1e-4, 1e-4),
        ("( even or square )", 0.5 / 49, 0.99 / 55 + 1e-4, 0.99 / 55 + 1e-4),
        ("( even and even )", 0.5 / 49, even, even),
    ):
        assert p[text] / p["even"] == pytest.approx(prior * like[0] * like[1] / even**2, rel=1e-4)
    log_p = exact_posterior(numbers.program, torch.tensor([16, 8, 2, 64])).log_p
    assert texts[log_p.argmax()] == "power of 2"
