"""People's answers to what they learned of concepts, explained by rules, exemplars or prototypes.

Each explanation is a Pyro program whose parameters are inferred from the answers: production
probabilities of a grammar, attention to features, noise. All see the same items and answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyro
import torch
import xarray as xr
from pyro.distributions import Beta, Binomial, Dirichlet, Exponential, Gamma, LogNormal
from pyro.infer import MCMC, NUTS
from scipy.special import logsumexp
from torch import Tensor

from plot_attractors.language_of_thought.grammar import Grammar
from plot_attractors.pareto import arviz, psislw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Answers", "Comparison", "compare_answers", "exemplar_answers", "given_answers",
    "grammar_answers", "prototype_answers", "read_answers",
]  # fmt: skip


class Answers(NamedTuple):
    """Answers of people, a row each stimulus (of each trial, concept or participant).

    - ``names``: of the rows; ``stimuli``: (n, F) 0 or 1;
    - ``category``: (n,) 1 or 0, the label that was shown; −1 where none ever was;
    - ``yes``: (n,) share of answers "yes"; ``answers``: (n,) how many there were, or None;
    - ``before``: (n, n) bool, whether row j's label had been shown when row i was answered;
    - ``participant``: (n,) whose answers they are, or None: of all together.
    """

    names: Sequence[str]
    stimuli: Tensor
    category: Tensor
    yes: Tensor
    answers: Tensor | None
    before: Tensor
    participant: Sequence[str] | None = None


def read_answers(path: str | Path, features: Sequence[str]) -> Answers:
    """A CSV of people's answers.

    Columns: the `features`, of 0 and 1; `category`, 0, 1 or empty where no label was shown; `yes`,
    the share of answers "yes", or with a column `answers`, their number, how many were "yes".
    Optional: `name` of the row, `participant`, `concept`, and `trial`: what is shown of a concept
    is known at its later trials, to the same participant. Without trials all labels of a concept
    were shown before any answer.

    Raises ValueError where a column is missing or a number is no share.
    """
    table = pd.read_csv(path)
    if missing := [c for c in (*features, "category", "yes") if c not in table]:
        raise ValueError(
            f"{path} has no column {', '.join(missing)}: its columns are "
            f"{', '.join(table.columns)}; name the features, and add category and yes."
        )
    for column in {*features, "category", "yes", "answers", "trial"} & {*table.columns}:
        if not pd.api.types.is_numeric_dtype(table[column]):
            raise ValueError(f"{path}: column {column} holds text: code it as numbers.")
    bits = table[list(features)].to_numpy(float)
    if not np.isin(bits, (0, 1)).all() or not table["category"].dropna().isin((0, 1)).all():
        raise ValueError(f"{path}: features and category must be 0 or 1.")
    yes = table["yes"].to_numpy(float)
    number = table["answers"].to_numpy(float) if "answers" in table else None
    if number is not None:
        whole = (yes % 1 == 0) & (number % 1 == 0) & (yes >= 0) & (number >= 1)
        if not whole.all():
            raise ValueError(
                f"{path}: beside a column answers, yes is how many of them were yes, a whole "
                f"number, as in row {int(np.argmin(whole)) + 1} it is not."
            )
        yes = yes / number
    if not ((yes >= 0) & (yes <= 1)).all():
        raise ValueError(
            f"{path}: yes must be a share from 0 to 1, or with a column answers, at most as many."
        )
    category = table["category"].fillna(-1).to_numpy(int)
    groups = [c for c in ("concept", "participant") if c in table]
    code = (
        table.groupby(groups, sort=False, dropna=False).ngroup().to_numpy()
        if groups
        else 0 * category
    )
    known = (code[:, None] == code) & (category >= 0)
    if "trial" in table:
        trial = table["trial"].to_numpy(float)
        known &= trial[:, None] > trial
    return Answers(
        table["name"].astype(str).tolist() if "name" in table else [*map(str, table.index)],
        torch.tensor(bits).long(),
        torch.tensor(category),
        torch.tensor(yes).float(),
        None if number is None else torch.tensor(number).float(),
        torch.tensor(known),
        table["participant"].astype(str).tolist() if "participant" in table else None,
    )


# -- explanations


def _answered(p: Tensor, answers: Answers) -> Tensor:
    """Answers with these probabilities of a "yes" (n,), of which a share `lapse` are guesses."""
    lapse = pyro.sample("lapse", Beta(1.0, 9.0))
    p = pyro.deterministic("p", ((1 - lapse) * p + lapse / 2).clamp(1e-4, 1 - 1e-4))
    if answers.answers is None:  # shares of unknown numbers of answers
        size = pyro.sample("precision", Exponential(0.02))
        law: Any = Beta(p * size + 1e-3, (1 - p) * size + 1e-3)
        observed = answers.yes.clamp(1e-3, 1 - 1e-3)
    else:
        law, observed = Binomial(answers.answers, p), (answers.yes * answers.answers).round()
    with pyro.plate("answers", len(p)):
        pyro.sample("yes", law, obs=observed)
    return p


def grammar_answers(grammar: Grammar, answers: Answers) -> Callable[[], Tensor]:
    r"""Rules with inferred production probabilities θ and cost b of a mistake, in nats:

    .. math:: P(\text{yes}_i) = \sum_h [i \in h] \, P(h | \theta) e^{-b \, \text{mistakes}_i(h)} / Z

    with the mistakes on all labels shown before answer i. Source: Goodman et al. (2008); inference
    of θ from answers: Piantadosi, Tenenbaum and Goodman (2016), "The logical primitives of
    thought".

    Production probabilities `theta` (R,) of each nonterminal are Dirichlet, of the grammar's
    weights. The grammar's values are (n,) bool, of the stimuli of `answers`, in their order.
    """
    rules = grammar.derivations
    obeys = grammar.value(rules)
    if obeys.dtype != torch.bool or obeys.shape[1:] != answers.category.shape:
        raise ValueError(
            f"The grammar's values are {obeys.dtype} of shape {tuple(obeys.shape[1:])}, for "
            f"{len(answers.category)} answers: make it of answers.stimuli, true or false."
        )
    # expressions that say the same by the same rules are one, with their number
    both = torch.cat([obeys.float(), grammar.counts(rules)], -1)
    distinct, number = both.unique(dim=0, return_counts=True)
    obeys, counts = distinct.split([len(answers.category), len(grammar.rules)], -1)
    wrong = (obeys != answers.category) & (answers.category >= 0)
    mistakes = answers.before.float() @ wrong.float().T  # (n, E)
    left, none = grammar.left, torch.zeros(len(grammar.nonterminals))

    def program() -> Tensor:
        # Dirichlet probabilities, as Gamma rates over their sum: one site instead of many
        rates = pyro.sample("rates", Gamma(grammar.weights, 1.0).to_event(1))
        theta = rates / none.index_add(0, left, rates)[left]
        log_theta = pyro.deterministic("theta", theta).clamp(min=1e-30).log()
        cost = pyro.sample("cost", LogNormal(0.0, 1.0))
        log_p = counts @ log_theta + number.log() - cost * mistakes
        return _answered((log_p.softmax(-1) * obeys.T).sum(-1), answers)

    return program


def _attention(features: int) -> tuple[Tensor, Tensor]:
    """Weights of features, and how fast similarity falls with distance."""
    weights = pyro.sample("attention", Dirichlet(torch.ones(features)))
    return weights, pyro.sample("sensitivity", LogNormal(1.0, 1.0))


def exemplar_answers(answers: Answers) -> Callable[[], Tensor]:
    r"""Summed similarity to the examples seen, the generalized context model:

    .. math:: P(\text{yes}_i) = \frac{\sum_{j \in A} s_{ij}}{\sum_j s_{ij}}, \quad
              s_{ij} = e^{-c \sum_k w_k |x_{ik} - x_{jk}|}.

    Source: Nosofsky (1986), "Attention, similarity, and the identification-categorization
    relationship"; attention w sums to 1. Before any example: ½.
    """
    differs = (answers.stimuli[:, None] != answers.stimuli).float()  # (n, n, F)
    never = torch.where(answers.before, 0.0, -1e4)
    in_a = torch.where(answers.category == 1, 0.0, -1e4)
    in_b = torch.where(answers.category == 0, 0.0, -1e4)
    some = answers.before.any(-1)

    def program() -> Tensor:
        weights, c = _attention(answers.stimuli.shape[1])
        log_s = never - c * (differs @ weights)
        odds = (log_s + in_a).logsumexp(-1) - (log_s + in_b).logsumexp(-1)
        return _answered(torch.where(some, odds.sigmoid(), 0.5), answers)

    return program


def prototype_answers(answers: Answers) -> Callable[[], Tensor]:
    r"""Similarity to the mean of each category's examples, the multiplicative prototype model:

    .. math:: P(\text{yes}_i) = \frac{s_{iA}}{s_{iA} + s_{iB}}, \quad
              s_{iA} = e^{-c \sum_k w_k |x_{ik} - \bar x_{Ak}|}.

    Source: Minda and Smith (2001), "Prototypes in category learning". A category without examples
    lies in the middle.
    """
    x = answers.stimuli.float()
    distance = []
    for category in (1, 0):
        own = (answers.before & (answers.category == category)).float()
        mean = (own @ x + 1e-6) / (own.sum(-1, keepdim=True) + 2e-6)
        distance.append((x - mean).abs())

    def program() -> Tensor:
        weights, c = _attention(x.shape[1])
        a, b = (d @ weights for d in distance)
        return _answered((c * (b - a)).sigmoid(), answers)

    return program


def given_answers(p: Tensor, answers: Answers) -> Callable[[], Tensor]:
    """Probabilities p (n,) of a "yes" by any other model, such as attractors: only the share of
    guesses, and where numbers of answers are not known their precision, are inferred.
    """
    if p.shape != answers.category.shape or not bool(((p >= 0) & (p <= 1)).all()):
        raise ValueError(
            f"p holds {len(answers.category)} probabilities, one for each row of answers, not "
            f"{list(p.shape)}."
        )
    return lambda: _answered(p.float(), answers)


# -- comparison


class Comparison(NamedTuple):
    """What `compare_answers` returns.

    - ``summary`` (model, r2, rmse, elpd, elpd_error, least_certain): of posterior mean predictions
      and people's shares; expected log predictive density of a row left out (PSIS-LOO), nats, and
      its standard error; the greatest Pareto k̂, above 0.7 elpd is not to be trusted;
    - ``predictions`` (name, model, yes, mean, low, high): 95 % intervals of P(yes);
    - ``parameters`` (model, parameter, mean, low, high, r_hat);
    - ``participants`` (participant, model, elpd): the same density, summed over their answers;
      None where answers are of all together.
    """

    summary: pd.DataFrame
    predictions: pd.DataFrame
    parameters: pd.DataFrame
    participants: pd.DataFrame | None

    def figure(self) -> Figure:
        """People's shares beside each model's, with intervals."""
        from matplotlib.figure import Figure

        models = list(self.summary["model"])
        figure = Figure(figsize=(4 * len(models), 4), layout="constrained")
        axes = figure.subplots(1, len(models), sharex=True, sharey=True, squeeze=False)[0]
        for ax, model in zip(axes, models, strict=True):
            rows = self.predictions[self.predictions["model"] == model]
            sides = [rows["mean"] - rows["low"], rows["high"] - rows["mean"]]
            ax.plot([0, 1], [0, 1], color="0.8", zorder=0)
            ax.errorbar(rows["yes"], rows["mean"], sides, fmt="o", markersize=3, linewidth=1)
            labels: list[tuple[float, float, str]] = []
            for _, line in rows.sort_values("yes").iterrows():
                x, y, name = line["yes"], line["mean"], str(line["name"])
                near = [k for k, (a, b, _) in enumerate(labels) if max(x - a, abs(y - b)) < 0.05]
                if near:  # names of neighbours side by side
                    name = f"{labels.pop(near[-1])[2]}, {name}"
                labels.append((x, y, name))
            for x, y, name in labels:
                ax.annotate(name, (x, y), (5, -7), textcoords="offset points", fontsize=7)
            r2, elpd = self.summary.set_index("model").loc[model, ["r2", "elpd"]]
            ax.set(title=f"{model}: R² {r2:.2f}, elpd {elpd:.1f}", xlabel="people")
        axes[0].set(ylabel="model, 95 % intervals", xlim=(0, 1), ylim=(0, 1))
        return figure


def compare_answers(
    models: Mapping[str, Callable[[], Tensor]],
    answers: Answers,
    draws: int = 300,
    chains: int = 2,
    seed: int = 0,
) -> Comparison:
    """Posteriors of every model's parameters by NUTS, and what they predict of the same answers.

    Args:
        models: name → program, as `grammar_answers` and the others make them.
        draws: of each chain, after as many of warm-up.
        seed: of all draws.
    """
    tables: dict[str, list[pd.DataFrame]] = {"summary": [], "predictions": [], "parameters": []}
    pointwise = {}
    for name, program in models.items():
        posterior, p, log_p = _posterior(program, draws, chains, seed)
        smoothed, k, _ = psislw(-log_p.T)  # (n, draws) weights of leaving each answer out
        pointwise[name] = logsumexp(smoothed + log_p.T, -1) - logsumexp(smoothed, -1)
        yes, mean = answers.yes.numpy(), p.mean(0)
        low, high = np.quantile(p, [0.025, 0.975], axis=0)
        tables["summary"].append(pd.DataFrame([{
            "model": name, "r2": np.corrcoef(yes, mean)[0, 1] ** 2,
            "rmse": float(np.sqrt(np.mean((yes - mean) ** 2))),
            "elpd": pointwise[name].sum(),
            "elpd_error": pointwise[name].std() * len(yes) ** 0.5, "least_certain": k.max(),
        }]))  # fmt: skip
        tables["predictions"].append(pd.DataFrame({
            "name": answers.names, "model": name, "yes": yes, "mean": mean, "low": low,
            "high": high,
        }))  # fmt: skip
        tables["parameters"].append(_parameters(posterior, name))
    participants = None
    if answers.participant is not None:
        rows = pd.DataFrame({"participant": answers.participant, **pointwise})
        summed = rows.groupby("participant", sort=False).sum().reset_index()
        participants = summed.melt("participant", var_name="model", value_name="elpd")
    joined = {key: pd.concat(parts, ignore_index=True) for key, parts in tables.items()}
    return Comparison(**joined, participants=participants)


def _posterior(
    program: Callable[[], Tensor], draws: int, chains: int, seed: int
) -> tuple[xr.Dataset, Any, Any]:
    """Draws of parameters (chain, draw, …), and (chains · draws, n) P(yes) and the log-likelihood
    of each answer.
    """
    kept: dict[str, list[Any]] = {}
    log_p = []
    for chain in range(chains):
        pyro.set_rng_seed(seed + chain)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of first steps that fail, and of torch's tracing
            kernel = NUTS(program, jit_compile=True, ignore_jit_warnings=True, max_tree_depth=7)
            mcmc = MCMC(kernel, draws, draws, disable_progbar=True)
            mcmc.run()
        samples = mcmc.get_samples()
        named: dict[str, list[Tensor]] = {}
        for k in range(draws):
            given = pyro.poutine.condition(program, {n: value[k] for n, value in samples.items()})
            trace: Any = pyro.poutine.trace(given).get_trace()
            if "yes" not in trace.nodes or "p" not in trace.nodes:
                raise ValueError("A model of answers has sites p and yes, as grammar_answers has.")
            site = trace.nodes["yes"]
            for name, node in trace.nodes.items():
                if node["type"] == "sample" and name not in ("yes", "answers", "rates"):
                    named.setdefault(name, []).append(node["value"].detach())
            log_p.append(site["fn"].log_prob(site["value"]))
        for name, values in named.items():
            kept.setdefault(name, []).append(torch.stack(values).numpy())
    p = np.concatenate(kept.pop("p"))
    variables = {}
    for name, parts in kept.items():
        stacked = np.stack(parts)
        dims = ("chain", "draw", *(f"{name}_{k}" for k in range(stacked.ndim - 2)))
        variables[name] = (dims, stacked)
    return xr.Dataset(variables), p.astype(float), torch.stack(log_p).detach().double().numpy()


def _parameters(posterior: xr.Dataset, model: str) -> pd.DataFrame:
    r_hat, rows = arviz().rhat(posterior), []
    for name, values in posterior.data_vars.items():
        columns = values.values.reshape(values.shape[0] * values.shape[1], -1).T
        for k, column in enumerate(columns):
            low, high = np.quantile(column, [0.025, 0.975])
            rows.append({
                "model": model, "parameter": name if len(columns) == 1 else f"{name}[{k}]",
                "mean": column.mean(), "low": low, "high": high,
                "r_hat": float(r_hat[name].values.ravel()[k]),
            })  # fmt: skip
    return pd.DataFrame(rows)
