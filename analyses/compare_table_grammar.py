"""Learned sentences of a table beside conjunctions of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from plot_attractors.analysis.parts import note
from plot_attractors.analysis.sampling import (
    number_rows,
    numbered_rows,
    row_names,
)
from plot_attractors.analysis.shape import SENTENCES_OF_BITS, Needs
from plot_attractors.analysis.style import BLUE, GREY, ORANGE, plain
from plot_attractors.data import BinaryTable
from plot_attractors.language_of_thought import GrammarModel
from plot_attractors.language_of_thought.grammar import EMPTY
from plot_attractors.measures.bootstrap import bootstrap, resample
from plot_attractors.measures.divergence import jensen_shannon
from plot_attractors.ranges import Size
from plot_attractors.runs import Run, registry

TITLE = "Comparison with conjunctions of columns"
CAPTIONS = {
    "table": (
        "Learned sentences of a table beside conjunctions of its columns, whose use is exact "
        "Bayesian inference. Both answer an input with a probability of 1 for each column. (A) How "
        "far the answers are apart, for each column (Jensen-Shannon divergence; 0 bits: the same; "
        "95 % intervals over inputs); dashed: what a finite number of draws makes of the grammar "
        "itself; dotted: the grammar's answer to another input. (B) Each sentence is translated to "
        "the conjunction whose answer is nearest: the share of sentences at most so far from it, "
        "and the same of sentences whose columns were dealt anew among sentences, which mean "
        "nothing together. Only a blue line far to the left shows conjunctions in other words. (C) "
        "The sentences that are used most, their share, their conjunction, and how far it is."
    ),
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    inputs: Size = 500  # of each split
    draws: Size = 32  # sentences of each
    disjunctions: bool = False  # expressions with ∨, too, not conjunctions alone


NEEDS = SENTENCES_OF_BITS & Needs("a table", lambda run: isinstance(run.data, BinaryTable))


# -- measures --------------------------------------------------------------------------------------


MOST_LITERALS = 3  # of a conjunction
ROWS = 256  # of which the posterior over expressions is held at once
CELLS = 20_000_000  # divergences of a sentence, an expression and a column that are held at once


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
        chosen = torch.tensor([values == name for values in split])
        parts = {
            key: torch.cat([values[chosen].mean(-1, keepdim=True), values[chosen]], -1)
            for key, values in js.items()
        }
        estimate = bootstrap(parts["js"], resample(x[chosen]))
        columns: dict[str, Any] = {
            "split": name, "column": ["all", *data.columns], "n": int(chosen.sum()),
            "js": estimate.value, "low": estimate.low, "high": estimate.high,
        }  # fmt: skip
        columns |= {key: parts[key].mean(0) for key in ("floor", "shuffled")}
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables)


def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Compares a model with a grammar of conjunctions of columns, with `disjunctions` of rules with
    ∧ and ∨, as long as can be listed, at most three columns, by its exact posterior, on a table's
    first rows.

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
    grammar = _grammar(run.data, config.disjunctions)
    model, data = run.model, run.data
    assert isinstance(data, BinaryTable)
    rows, split = numbered_rows(data, config.inputs)
    x = data.rows(rows)
    s = model.describe(x, config.draws).s
    flat = s.flatten(0, 1)
    index, first = number_rows(model.language.key(flat))
    decoded = model.decoder(model.embed(flat[first])).mean.double()  # (S, columns)
    index = index.view(len(x), config.draws)
    learned = decoded[index].mean(1)

    true = grammar.extension.double()
    known = true.sum(-1) > 0
    means: Any = grammar.objects.probabilities
    told = true[known] @ means.double() / true[known].sum(-1, keepdim=True)  # (E, columns)
    texts = [grammar.grammar.text(rule) for rule in grammar.derivations[known]]
    if not config.disjunctions:
        texts = [text.replace(" ", " ∧ ") for text in texts]
    answers, drawn, best = [], [], []
    for part in x.split(max(1, min(ROWS, CELLS // len(known)))):
        p = grammar.posterior(part).log_p.exp()[:, known]
        answers.append(p @ told)
        drawn.append(told[p.multinomial(config.draws, replacement=True)].mean(1))
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


def _grammar(data: BinaryTable, disjunctions: bool) -> GrammarModel:
    """The grammar of a table, of expressions as long as can be listed."""
    program: Any = registry.load("models", "grammar")
    config = partial(program.Config, expressions="rules" if disjunctions else "conjunctions")
    for longest in range(MOST_LITERALS, 1, -1):
        try:
            return program.build(config(literals=longest), data)  # type: ignore[no-any-return]
        except ValueError:  # too many
            continue
    return program.build(config(literals=1), data)  # type: ignore[no-any-return]


# -- figures ---------------------------------------------------------------------------------------


MOST_COLUMNS, MOST_SENTENCES = 40, 18


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``table``, of training rows."""
    summary, translations = tables["summary.csv"], tables["translations.csv"]
    rows = summary[(summary["split"] == "train") & (summary["column"] != "all")]
    whole = summary[(summary["split"] == "train") & (summary["column"] == "all")].iloc[0]
    rows = rows.sort_values("js", ascending=False, kind="stable")[:MOST_COLUMNS]
    figure = Figure(figsize=(13, 9), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.15])
    axes = figure.add_subplot(grid[0, :])
    x = np.arange(len(rows))
    sides = [rows["js"] - rows["low"], rows["high"] - rows["js"]]
    look: Any = {"fmt": "o", "color": BLUE, "capsize": 2, "label": "sentences and conjunctions"}
    axes.errorbar(x, rows["js"], sides, **look)
    axes.plot(x, rows["floor"], color=GREY, linestyle="--", label="as many draws of the grammar")
    axes.plot(x, rows["shuffled"], color=ORANGE, linestyle=":", label="answer to another input")
    axes.set_xticks(x, [plain(str(name)) for name in rows["column"]], rotation=90, fontsize=7)
    mean = f"{whole['js']:.3f}, another input {whole['shuffled']:.3f}"
    axes.set(title=f"A  How far answers are apart (mean {mean} bits)", ylim=(0, None))
    axes.set_ylabel("Jensen-Shannon divergence, bits")
    axes.legend()
    _draw_residuals(figure.add_subplot(grid[1, 0]), translations)
    _draw_translations(figure.add_subplot(grid[1, 1]), translations)
    return {"table": figure}


def _draw_residuals(axes: Axes, table: pd.DataFrame) -> None:
    for name, colour, label in (
        ("residual", BLUE, "sentences"), ("dealt", ORANGE, "columns dealt anew"),
    ):  # fmt: skip
        part = table.sort_values(name)
        share = (
            part["usage"].cumsum()
            if name == "residual"
            else np.arange(1, len(part) + 1) / len(part)
        )
        axes.step(part[name], share, where="post", color=colour, label=label)
    axes.set(title="B  Translated to the nearest conjunction", ylim=(0, 1), xlim=(0, None))
    axes.set(xlabel="divergence, bits, mean over columns", ylabel="share of sentences")
    axes.legend(loc="lower right")


def _draw_translations(axes: Axes, table: pd.DataFrame) -> None:
    axes.set_axis_off()
    axes.set_title("C  The sentences used most, and their conjunctions")
    if (table["expression"] == EMPTY).all():
        note(axes, "nothing was learned: no sentence says more than ∅, of all rows", top=0.5)
    shown = table[:MOST_SENTENCES]
    for row, (_, line) in enumerate(shown.iterrows()):
        y = 1 - (row + 0.7) / MOST_SENTENCES
        axes.text(0.0, y, plain(line["sentence"], 20), fontsize=8, va="center")
        axes.text(0.24, y, f"{line['usage']:.1%}", fontsize=8, va="center", ha="right", color=GREY)
        axes.text(0.27, y, plain(line["expression"], 60), fontsize=8, va="center")
        axes.text(
            1.0, y, f"{line['residual']:.2f}", fontsize=8, va="center", ha="right", color=GREY
        )
