"""Rational rules on the 5-4 categories: answers beside people's, by enumeration and by
Metropolis-Hastings.
"""

from __future__ import annotations

import time

import torch
from shared import arguments, parser

from plot_attractors.language_of_thought.mcmc import SubtreeRegeneration
from plot_attractors.language_of_thought.rational_rules import (
    FIVE_FOUR,
    classifies,
    program,
    rule_grammar,
    rule_posterior,
)

OUTLIERS, MOST = (1.0, 2.0, 4.0, 6.0), (11, 14, 16, 17)  # b; productions of a rule
CHAINS, WARM_UP, STEPS = 256, 200, 300
SMALL = {"OUTLIERS": (1.0,), "MOST": (11,), "CHAINS": 4, "WARM_UP": 2, "STEPS": 2}


def agreement(answers: torch.Tensor) -> str:
    """R² and root mean squared difference from people's answers."""
    r = torch.corrcoef(torch.stack([answers, FIVE_FOUR.human.double()]))[0, 1]
    rmse = (answers - FIVE_FOUR.human).square().mean().sqrt()
    return f"R² {float(r**2):.3f}  RMSE {float(rmse):.3f}"


def main() -> None:
    arguments(globals(), parser(__doc__))
    torch.manual_seed(0)
    answers = torch.zeros(16)
    for outlier in OUTLIERS:
        for most in MOST:
            begun = time.monotonic()
            grammar = rule_grammar(4, most)
            found, log_p = rule_posterior(grammar, outlier)
            answers = found if outlier == 1.0 else answers
            best = grammar.text(grammar.derivations[log_p.argmax()])
            print(
                f"b = {outlier:g}, at most {most} productions, {len(log_p):>6} rules: "
                f"{agreement(found)}  likeliest {best}  {time.monotonic() - begun:.1f} s"
            )
    grammar = rule_grammar(4, 60)
    kernel = SubtreeRegeneration(lambda: program(grammar, outlier=1.0, copies=CHAINS))
    kernel.setup(WARM_UP)
    state, total, begun = kernel.initial_params, torch.zeros(16), time.monotonic()
    for step in range(WARM_UP + STEPS):
        state = kernel.sample(state)
        if step >= WARM_UP:
            total += classifies(grammar, state["expression"], FIVE_FOUR.stimuli).float().mean(0)
    sampled, seconds = (total / STEPS).double(), time.monotonic() - begun
    print(f"b = 1, at most 60 productions, chains: {agreement(sampled)}  {seconds:.1f} s")
    print("stimulus  people  enumerated  sampled")
    for name, *values in zip(FIVE_FOUR.names, FIVE_FOUR.human, answers, sampled, strict=True):
        print("{:>8}  {:6.2f}  {:10.2f}  {:7.2f}".format(name, *values))


if __name__ == "__main__":
    main()
