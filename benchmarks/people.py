"""The 5-4 categories on one axis: people, rules, exemplars, prototypes, and attractors.

    python benchmarks/people.py runs/people

Writes into the folder, and prints as tables:

- summary.csv, parameters.csv, predictions.png: rules, exemplars and prototypes, each with its
  parameters inferred from people's answers, and settled attractors (`compare_answers`);
- axis.csv, axis.png: the probability of "A" for each stimulus, and the entropy of what is believed,
  as thinking goes on: steps of Markov chains over rules, updates of a policy that builds rules, and
  steps of the dynamics of attractor models, trained on the nine examples with their category as a
  fifth bit and asked with that bit missing; beside exact Bayes and people. The printed table has
  medians and ranges over SEEDS.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyro
import torch
from matplotlib.figure import Figure
from shared import arguments, as_in_training, header, parser, row
from torch import Tensor

from plot_attractors.analysis.responses import simulate
from plot_attractors.analysis.sampling import nearest_sentence
from plot_attractors.gflownet import VarGrad
from plot_attractors.language_of_thought import (
    MetropolisHastings,
    RulePolicy,
    compare_answers,
    exact_posterior,
    exemplar_answers,
    given_answers,
    grammar_answers,
    prototype_answers,
)
from plot_attractors.language_of_thought.people import Answers, Comparison
from plot_attractors.language_of_thought.rational_rules import FIVE_FOUR, program, rule_grammar
from plot_attractors.runs import Run
from plot_attractors.runs.run import fit

MAX_RULES, DRAWS, CHAINS, STEPS, UPDATES = 14, 300, 2000, 1000, 1000
SEEDS, PRESET, TRAJECTORIES = (0, 1, 2), "demo", 500
SHOWN = FIVE_FOUR.category >= 0
SMALL = {
    "MAX_RULES": 8, "DRAWS": 4, "CHAINS": 20, "STEPS": 3, "UPDATES": 3, "SEEDS": (0,),
    "PRESET": "smoke", "TRAJECTORIES": 4,
}  # fmt: skip


def answers() -> Answers:
    names, stimuli, category, human = FIVE_FOUR
    return Answers(names, stimuli, category, human, None, SHOWN.expand(len(names), -1))


def entropy(shares: Tensor) -> float:
    return float(-torch.xlogy(shares, shares).sum())


def moments(last: int) -> list[int]:
    """1, 2, 4, … up to a last one."""
    return sorted({*(2**k for k in range(20) if 2**k < last), last})


def line(by: str, seed: int, steps: int, seconds: float, p: Tensor, h: float) -> pd.DataFrame:
    return pd.DataFrame({
        "by": by, "seed": seed, "steps": steps, "seconds": seconds, "name": FIVE_FOUR.names,
        "p": p.tolist(), "entropy": h,
    })  # fmt: skip


def chains(grammar: Any, seed: int) -> list[pd.DataFrame]:
    """Entropy of the shares of expressions among the chains: at most log CHAINS."""
    torch.manual_seed(seed)
    kernel = MetropolisHastings(partial(program, grammar), chains=CHAINS)
    kernel.setup(0)
    state, rows, start = kernel.initial_params, [], time.process_time()
    for step in range(1, STEPS + 1):
        state = kernel.sample(state)
        if step in moments(STEPS):
            rules, spent = state["expression"], time.process_time() - start
            shares = rules.unique(dim=0, return_counts=True)[1] / CHAINS
            p = grammar.value(rules).float().mean(0)
            rows.append(line("Markov chains", seed, step, spent, p, entropy(shares)))
    return rows


def policy(grammar: Any, seed: int) -> list[pd.DataFrame]:
    torch.manual_seed(seed)
    network = RulePolicy(grammar)

    def guide() -> None:
        pyro.sample("expression", network.derivations())

    loss = VarGrad(64, loss="huber")
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    rows, spent, value = [], 0.0, grammar.value(grammar.derivations).float()
    for update in range(1, UPDATES + 1):
        start = time.process_time()
        optimizer.zero_grad()
        loss.differentiable_loss(partial(program, grammar), guide).backward()
        optimizer.step()
        spent += time.process_time() - start
        if update in moments(UPDATES):
            with torch.no_grad():
                parts = grammar.derivations.split(2000)
                q = torch.cat([network.derivations().log_prob(part) for part in parts]).exp()
            rows.append(line("GFlowNet", seed, update, spent, q @ value, entropy(q)))
    return rows


def attractors(folder: Path, seed: int) -> list[pd.DataFrame]:
    """Steps of the dynamics of a model trained on the examples, of each 24 rows, a third of them
    without the category; the sentence nearest to the state is decoded.
    """
    table = folder / "five_four.csv"
    examples = torch.cat([FIVE_FOUR.stimuli, FIVE_FOUR.category[:, None]], 1)[SHOWN]
    frame = pd.DataFrame(examples.numpy(), columns=["f1", "f2", "f3", "f4", "A"], dtype=object)
    unknown = frame.assign(A="")
    pd.concat([frame] * 16 + [unknown] * 8).to_csv(table, index=False)
    out = folder / f"attractors-{seed}"
    given: Any = {"preset": PRESET, "seed": seed, "resume": out.exists(), "out": out}
    run = Run(fit("table", data=table, settings={"missing": "ignore"}, **given))
    model, rows = run.model, []
    missing = torch.full((len(FIVE_FOUR.names), 1), torch.nan)
    with torch.no_grad():
        torch.manual_seed(seed)
        z0 = model.encode(torch.cat([FIVE_FOUR.stimuli.float(), missing], 1)).z0
        start = time.process_time()
        z = simulate(model, z0.repeat_interleave(TRAJECTORIES, 0))
        spent = (time.process_time() - start) / len(z0)
        for t in range(len(z)):
            s = nearest_sentence(model, z[t]).s.unflatten(0, (len(z0), TRAJECTORIES))
            p = model.decoder(model.embed(s)).mean[..., 4].mean(1)
            keys = model.language.key(s)
            h = [entropy(k.unique(return_counts=True)[1] / TRAJECTORIES) for k in keys]
            rows.append(line("attractors", seed, t, spent * t / len(z), p, float(np.mean(h))))
    return rows


def axis(folder: Path) -> pd.DataFrame:
    grammar = rule_grammar(max_rules=MAX_RULES)
    start = time.process_time()
    log_p = exact_posterior(partial(program, grammar)).log_p
    exact = log_p.exp() @ grammar.value(grammar.derivations).double()
    spent = time.process_time() - start
    people = line("people", 0, 0, np.nan, FIVE_FOUR.human, np.nan)
    rows = [people, line("exact Bayes", 0, 0, spent, exact, entropy(log_p.exp()))]
    for seed in SEEDS:
        rows += [*chains(grammar, seed), *policy(grammar, seed), *attractors(folder, seed)]
        pd.concat(rows).to_csv(folder / "axis.csv", index=False, float_format="%.4g")
    return pd.concat(rows)


def figure(table: pd.DataFrame) -> Figure:
    """P("A") of every stimulus by steps, mean over seeds; dots are people, rings exact Bayes."""
    kinds = ["Markov chains", "GFlowNet", "attractors"]
    picture = Figure(figsize=(12, 4), layout="constrained")
    fixed = {
        by: table[table["by"] == by].set_index("name")["p"] for by in ("people", "exact Bayes")
    }
    for axes, by in zip(picture.subplots(1, 3, sharey=True), kinds, strict=True):
        part = table[table["by"] == by]
        means = part.pivot_table(index="steps", columns="name", values="p")
        for name in map(str, means):
            k = FIVE_FOUR.names.index(name)
            colour = ("tab:orange", "tab:blue", "0.5")[(1, 0, -1).index(int(FIVE_FOUR.category[k]))]
            axes.plot(means.index, means[name], color=colour, linewidth=1)
            last = means.index[-1]
            right = last * (1.15 if by != "attractors" else 1.03)
            axes.plot(right, fixed["people"][name], "o", color=colour, markersize=4)
            axes.plot(
                right, fixed["exact Bayes"][name], "o", color=colour, mfc="none", markersize=6
            )
        axes.set(title=by, xlabel="updates" if by == "GFlowNet" else "steps", ylim=(0, 1))
        if by != "attractors":
            axes.set_xscale("log")
    picture.axes[0].set_ylabel('P("A"): orange A, blue B, grey never shown')
    return picture


def summary(table: pd.DataFrame) -> None:
    header("by", "steps", "seconds", "entropy, nats", "R² with people", "R² with exact Bayes")
    fixed = {by: table[table["by"] == by]["p"].to_numpy() for by in ("people", "exact Bayes")}
    for by, part in table.groupby("by", sort=False):
        for steps in sorted(part["steps"].unique())[:: max(1, part["steps"].nunique() // 5)]:
            now = part[part["steps"] == steps]
            r2 = {
                name: [np.corrcoef(one["p"], p)[0, 1] ** 2 for _, one in now.groupby("seed")]
                for name, p in fixed.items()
            }
            cells = [f"{np.median(v):.2f} ({min(v):.2f} to {max(v):.2f})" for v in r2.values()]
            row(by, steps, f"{now['seconds'].median():.3g}", f"{now['entropy'].mean():.2f}", *cells)


def compared(table: pd.DataFrame) -> Comparison:
    data = answers()
    settled = table[table["by"] == "attractors"]
    settled = settled[settled["steps"] == settled["steps"].max()]
    p = settled.pivot_table(index="name", values="p").loc[list(data.names), "p"]
    models = {
        "rules": grammar_answers(rule_grammar(max_rules=MAX_RULES), data),
        "exemplars": exemplar_answers(data),
        "prototypes": prototype_answers(data),
        "attractors": given_answers(torch.tensor(p.to_numpy()), data),
    }
    return compare_answers(models, data, draws=DRAWS)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", nargs="?", type=Path)
    given = arguments(globals(), options)
    given.folder.mkdir(parents=True, exist_ok=True)
    as_in_training()
    table = axis(given.folder)
    figure(table).savefig(given.folder / "axis.png", dpi=120)
    summary(table)
    comparison = compared(table)
    for name in ("summary", "parameters"):
        frame = getattr(comparison, name)
        frame.to_csv(given.folder / f"{name}.csv", index=False, float_format="%.4g")
    comparison.figure().savefig(given.folder / "predictions.png", dpi=120)
    print(comparison.summary.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
