"""Inference over expressions, beside their enumerated posterior:

    python benchmarks/thought.py runs/thought.csv

Total variation from the posterior after as many seconds of processor time on one thread, for each
method and seed, appended to a CSV; then a table of medians. Methods:

- chains: shares of expressions in the second half of the steps of 256 chains, all cold ones;
- best: the joint density renormalised over the 10,000 best expressions that chains proposed;
- policy: P(expression) of a policy trained by VarGrad, 64 particles;
- trials: weighted particles of sequential Monte Carlo, as many as fit into the seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from shared import arguments, begin, header, parser, row
from torch import Tensor

from plot_attractors.gflownet import Replay, VarGrad
from plot_attractors.language.language import row_key
from plot_attractors.language_of_thought import (
    Best,
    ExpressionSearch,
    Grammar,
    MetropolisHastings,
    RulePolicy,
    exact_posterior,
    insert_or_delete,
    learn,
    regenerate,
    swap,
)
from plot_attractors.language_of_thought.rational_rules import program as five_four
from plot_attractors.language_of_thought.rational_rules import rule_grammar

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import number_game

SECONDS = (1.0, 4.0, 16.0)
CHAINS, KEPT, PARTICLES = 256, 10_000, 64
LADDER = (1.0, 2.0, 4.0, 8.0)
RATE = 2e-3
SMALL = {"SECONDS": (0.05, 0.2), "CHAINS": 8, "seeds": [0], "problems": ["60"]}


class Problem(NamedTuple):
    """A program, and what it is called with after each trial; the last is all data."""

    program: Callable[..., Any]
    grammar: Grammar
    trials: list[tuple[Any, ...]]

    @property
    def data(self) -> tuple[Any, ...]:
        return self.trials[-1]


def numbers(shown: str) -> Problem:
    n = torch.tensor([*map(int, shown.split())])
    trials = [(n[:k],) for k in range(1, len(n) + 1)]
    return Problem(number_game.program, number_game.GRAMMAR, trials)


def categories() -> Problem:
    grammar = rule_grammar(max_rules=14)
    return Problem(partial(five_four, grammar), grammar, [()])


PROBLEMS: dict[str, Callable[[], Problem]] = {
    **{
        shown: partial(numbers, shown)
        for shown in ("60", "16 8 2 64", "16 23 19 20", "60 80 10 30")
    },
    "5-4 categories": categories,
}


class Index:
    """The number of each derivation in the grammar's list."""

    def __init__(self, grammar: Grammar) -> None:
        self.order = row_key(grammar.derivations).sort()

    def __call__(self, rules: Tensor) -> Tensor:
        return self.order.indices[torch.searchsorted(self.order.values, row_key(rules))]

    def shares(self, rules: Tensor, weight: Tensor | None = None) -> Tensor:
        """(E,) of derivations (n, max_rules)."""
        weight = torch.full((len(rules),), 1 / len(rules)) if weight is None else weight
        return torch.zeros(len(self.order.values)).index_add_(0, self(rules), weight.float())


Estimate = Iterator[Callable[[], Tensor]]
"""After each step, how to make (E,) of what is known so far."""


def chains(problem: Problem, index: Index, best: bool = False, **given: Any) -> Estimate:
    store = Best(KEPT) if best else None
    kernel = MetropolisHastings(problem.program, chains=CHAINS, best=store, **given)
    kernel.setup(0, *problem.data)
    state = kernel.initial_params
    seen: list[Tensor] = []

    def estimate() -> Tensor:
        if store is not None:
            return index.shares(store.rules, store.log_joint.softmax(0))
        return index.shares(torch.cat(seen[len(seen) // 2 :]))

    while True:
        state = kernel.sample(state)
        seen.append(state["expression"][kernel.cold])
        yield estimate


def policy(problem: Problem, index: Index, off_policy: Any) -> Estimate:
    import pyro

    network = RulePolicy(problem.grammar)

    def guide(*data: Any) -> None:
        pyro.sample("expression", network.derivations())

    loss = VarGrad(PARTICLES, loss="huber", off_policy=off_policy(problem.grammar))
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE)

    @torch.no_grad()
    def estimate() -> Tensor:
        rules = problem.grammar.derivations.split(2000)
        return torch.cat([network.derivations().log_prob(part) for part in rules]).exp()

    while True:
        optimizer.zero_grad()
        loss.differentiable_loss(problem.program, guide, *problem.data).backward()
        optimizer.step()
        yield estimate


def trials(problem: Problem, index: Index) -> Estimate:
    """Particles double from run to run: the last one took about half of the time."""
    particles = 125
    while True:
        particles *= 2
        curve = learn(problem.program, problem.trials, particles)
        yield partial(index.shares, curve.rules[-1], curve.log_weight[-1].exp())


METHODS: dict[str, Callable[[Problem, Index], Estimate]] = {
    "chains: regenerate": chains,
    "chains: regenerate, insert or delete, swap": partial(
        chains, moves=[regenerate, insert_or_delete, swap]
    ),
    "chains: regenerate, tempering": partial(chains, temperatures=LADDER),
    "best": partial(chains, best=True),
    "policy: on-policy": partial(policy, off_policy=lambda grammar: []),
    "policy: local search": partial(policy, off_policy=lambda g: [ExpressionSearch(g, 5)]),
    "policy: replay, local search": partial(
        policy, off_policy=lambda g: [Replay(2000), ExpressionSearch(g, 5)]
    ),
    "trials": trials,
}


def distances(name: str, problem: Problem, index: Index, p: Tensor, seed: int) -> list[float]:
    """Total variation at each of SECONDS."""
    torch.manual_seed(seed)
    steps, result, spent, estimate = METHODS[name](problem, index), [], 0.0, None
    for seconds in SECONDS:
        while spent < seconds or estimate is None:
            start = time.process_time()
            estimate = next(steps)
            spent += time.process_time() - start
        result.append(float((estimate() - p).abs().sum() / 2))
    return result


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", nargs="?", type=Path, metavar="file")
    options.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=PROBLEMS)
    options.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    options.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    given = arguments(globals(), options)
    file = given.folder / "rows.csv" if given.small else given.folder
    begin()
    for title in given.problems:
        problem = PROBLEMS[title]()
        index = Index(problem.grammar)
        p = exact_posterior(problem.program, *problem.data).log_p.exp().float()
        for name in given.methods:
            for seed in given.seeds:
                found = distances(name, problem, index, p, seed)
                lines = pd.DataFrame({
                    "problem": title, "expressions": len(p), "method": name, "seed": seed,
                    "seconds": SECONDS, "total_variation": found,
                })  # fmt: skip
                header_too = not file.exists()
                lines.to_csv(file, mode="a", header=header_too, index=False, float_format="%.4g")
    table = pd.read_csv(file)
    header("problem", "method", *(f"{s:g} s" for s in SECONDS))
    for (title, name), part in table.groupby(["problem", "method"], sort=False):
        cells = part.groupby("seconds")["total_variation"]
        row(title, name, *(f"{v.median():.3f} ({v.min():.3f} to {v.max():.3f})" for _, v in cells))


if __name__ == "__main__":
    main()
