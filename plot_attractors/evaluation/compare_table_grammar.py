"""Learned sentences of a table beside conjunctions of its columns: tables of the comparison."""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data import BinaryTable
from plot_attractors.evaluation.metrics.bootstrap import bootstrap, resample
from plot_attractors.evaluation.metrics.divergence import jensen_shannon
from plot_attractors.evaluation.sampling import number_rows
from plot_attractors.evaluation.token_meaning import numbered_rows, row_names
from plot_attractors.language_of_thought import GrammarModel
from plot_attractors.runs import Run

ROWS = 256  # of which the posterior over expressions is held at once
CELLS = 20_000_000  # divergences of a sentence, an expression and a column that are held at once


def measure(run: Run, grammar: GrammarModel, inputs: int, draws: int) -> dict[str, pd.DataFrame]:
    """Compares a model with a grammar of columns, by its exact posterior, on a table's first rows.

    Both answer each input with a probability of 1 for each column: the mean over sentences s ~
    P(s | x) of what s is decoded to, `draws` of them, and over expressions of the share of rows of
    which the expression is true that have a 1. How far apart two answers are is the Jensen-Shannon
    divergence of each column, bits.

    - ``summary.csv`` (split, column, n, js, low, high, floor, shuffled): means over inputs, with 95
      % bootstrap intervals; column "all": the mean over columns. floor: of as many draws of the
      grammar's own posterior; shuffled: of the grammar's answer to another input.
    - ``rows.csv`` (row, name, split, sentence, share, expression, probability, js): the sentence
      drawn most often, the likeliest expression, and the divergence, mean over columns.
    - ``translations.csv`` (sentence, usage, expression, residual, dealt): each sentence and the
      expression whose answer is nearest to what it is decoded to; residual: that divergence, mean
      over columns; dealt: the same of a sentence made of columns of other ones, each its own.
    """
    model, data = run.model, run.data
    assert isinstance(data, BinaryTable)
    rows, split = numbered_rows(data, inputs)
    x = data.rows(rows)
    s = model.describe(x, draws).s
    flat = s.flatten(0, 1)
    index, first = number_rows(model.language.key(flat))
    decoded = model.decoder(model.embed(flat[first])).mean.double()  # (S, columns)
    index = index.view(len(x), draws)
    learned = decoded[index].mean(1)

    true = grammar.extension.double()
    known = true.sum(-1) > 0
    means: Any = grammar.objects.probabilities
    told = true[known] @ means.double() / true[known].sum(-1, keepdim=True)  # (E, columns)
    texts = [grammar.grammar.text(rule).replace(" ", " ∧ ") for rule in grammar.derivations[known]]
    answers, drawn, best = [], [], []
    for part in x.split(ROWS):
        p = grammar.posterior(part).log_p.exp()[:, known]
        answers.append(p @ told)
        drawn.append(told[p.multinomial(draws, replacement=True)].mean(1))
        best.append(torch.stack(p.max(-1)))
    bayes = torch.cat(answers)
    likeliest = torch.cat(best, -1)
    other = torch.randperm(len(x)).roll(1)
    js = {
        "js": _divergence(learned, bayes),
        "floor": _divergence(torch.cat(drawn), bayes),
        "shuffled": _divergence(learned, bayes[other]),
    }
    usage = torch.bincount(index.flatten(), minlength=len(first)) / index.numel()
    top = index.mode(-1).values
    shares = (index == top[:, None]).double().mean(-1)
    names = [model.language.name(row) for row in flat[first]]
    number, probability = likeliest[1].long(), likeliest[0]
    listed = {
        "row": rows.numpy(), "name": row_names(data, rows), "split": split,
        "sentence": [names[k] for k in top.tolist()], "share": shares.numpy(),
        "expression": [texts[k] for k in number.tolist()],
        "probability": probability.numpy(), "js": js["js"].mean(-1).numpy(),
    }  # fmt: skip
    order = usage.argsort(descending=True)
    nearest, residual = _nearest(decoded[order], told)
    mixed = torch.stack([column[torch.randperm(len(column))] for column in decoded.T], -1)
    translations = {
        "sentence": [names[k] for k in order.tolist()], "usage": usage[order].numpy(),
        "expression": [texts[k] for k in nearest.tolist()], "residual": residual.numpy(),
        "dealt": _nearest(mixed, told)[1].numpy(),
    }  # fmt: skip
    return {
        "summary.csv": _summary(data, x, split, js),
        "rows.csv": pd.DataFrame(listed),
        "translations.csv": pd.DataFrame(translations),
    }


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    """(…, columns) Jensen-Shannon divergence, bits, of probabilities of 1, broadcast."""
    return jensen_shannon(torch.stack([p, 1 - p], -1), torch.stack([q, 1 - q], -1))


def _nearest(decoded: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
    """The number (S,) of the expression whose answer, of told (E, columns), is nearest to each of
    decoded (S, columns), and the divergence (S,), mean over columns.
    """
    parts = []
    for few in decoded.split(max(1, CELLS // told.numel())):
        parts.append(_divergence(few[:, None], told).mean(-1).min(-1))
    return torch.cat([p.indices for p in parts]), torch.cat([p.values for p in parts])


def _summary(data: BinaryTable, x: Tensor, split: list[str], js: dict[str, Tensor]) -> pd.DataFrame:
    tables = []
    for name in dict.fromkeys(split):
        chosen = torch.tensor([of == name for of in split])
        parts = {
            key: torch.cat([of[chosen].mean(-1, keepdim=True), of[chosen]], -1)
            for key, of in js.items()
        }
        found = bootstrap(parts["js"], resample(x[chosen]))
        columns: dict[str, Any] = {
            "split": name, "column": ["all", *data.columns], "n": int(chosen.sum()),
            "js": found.value, "low": found.low, "high": found.high,
        }  # fmt: skip
        columns |= {key: parts[key].mean(0) for key in ("floor", "shuffled")}
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables)
