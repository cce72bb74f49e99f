"""What tokens tell of the named columns and labels of a table, and what is said of each row."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data import BinaryTable
from plot_attractors.evaluation.metrics.bootstrap import Estimate, resample
from plot_attractors.evaluation.sampling import require_listed, sentence_distribution, states_at
from plot_attractors.runs import Run

MOST_COLUMNS = 200  # those that vary most
IN_WORDS = 4  # columns that a token is told by, each way
TYPICAL = 4  # rows


class Told(NamedTuple):
    """What is told of: names and kinds (column or label) of C columns, and x (n, C), 0 or 1."""

    names: list[str]
    kinds: list[str]
    x: Tensor


def measure_rows(run: Run, draws: int, inputs: int) -> dict[str, pd.DataFrame]:
    """Tables of a `BinaryTable`, of its first `inputs` rows, held-out ones included.

    P(s | x) is the mean of P(s | z_T), read exactly off `draws` end states of a row.

    - ``rows.csv`` (row, from 0; name; split; the labels; sentence; share): the likeliest sentence.
    - ``token_columns.csv`` (token, column, kind, log_odds, low, high): `log_odds_ratio` of every
      column and every value of a label, of training rows.
    - ``token_meaning.csv`` (token, share, likelier, rarer, typical): the same in words. Those
      columns whose interval leaves out 0, the strongest first, and the training rows whose columns
      speak most for the token, of those that hold it. share: mean P(token in the sentence | x).
    """
    model, data = require_listed(run.model), run.data
    rows, split = _rows(data, inputs)
    x = data.x[rows].float()
    p = sentence_distribution(model, states_at(model, model.encode(x), draws, [model.steps])[0])
    best = p.max(-1)
    names = [model.language.name(model.sentences[k]) for k in best.indices.tolist()]
    listed = {"row": rows.numpy(), "name": _names(data, rows), "split": split}
    for k, feature in enumerate(data.features):
        values = ["", *feature.outcomes]
        listed[feature.name] = [values[code + 1] for code in data.labels[rows, k].tolist()]
    listed |= {"sentence": names, "share": best.values.numpy()}

    trained = torch.tensor([name == "train" for name in split])
    held = (p @ model.language.bag(model.sentences).to(p))[trained]
    told = _told_of(data, rows[trained])
    ratio = log_odds_ratio(held, told.x, resample(x[trained]))
    tokens = [model.language.token_name(j) for j in range(model.language.tokens)]
    parts, meanings = [], []
    for j, token in enumerate(tokens):
        value, low, high = (part[j] for part in ratio)
        of = {"token": token, "column": told.names, "kind": told.kinds}
        parts.append(pd.DataFrame({**of, "log_odds": value, "low": low, "high": high}))
        score = (told.x @ value.float()).masked_fill(held[:, j] < 0.5, -torch.inf)
        top = score.argsort(descending=True)[:TYPICAL]
        typical = rows[trained][top[held[top, j] >= 0.5]]
        meanings.append({
            "token": token, "share": float(held[:, j].mean()),
            "likelier": _in_words(told.names, value, low > 0),
            "rarer": _in_words(told.names, -value, high < 0),
            "typical": ", ".join(_names(data, typical)),
        })  # fmt: skip
    return {
        "rows.csv": pd.DataFrame(listed),
        "token_columns.csv": pd.concat(parts),
        "token_meaning.csv": pd.DataFrame(meanings),
    }


def log_odds_ratio(held: Tensor, x: Tensor, times: Tensor) -> Estimate:
    r"""(tokens, C) log odds of x = 1 where a token is held, less those where it is not, nats:

    .. math:: \log \frac{n_{11} + p}{n_{10} + 1 - p} - \log \frac{n_{01} + p}{n_{00} + 1 - p},
        \quad n_{ab} = \sum_i P(w = a \mid x_i) [x_{ic} = b].

    p is the share of 1s in the column: an average row is added on either side, so that a token that
    is always there, or never, has 0. So has a column that is constant.
    held (n, tokens) is P(token in the sentence | x_i), x (n, C) is 0 or 1, times (resamples, n) of
    `resample` gives 95 % percentile intervals.

    Example:
        >>> held = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
        >>> log_odds_ratio(held, held, torch.ones(1, 4)).value  # log 25
        tensor([[3.2189]], dtype=torch.float64)
    """
    x = x.double()

    def ratio(one: Tensor, weight: Tensor) -> Tensor:
        """(resamples, C) of one token (n,), at weights (resamples, n) of the rows."""
        n, of_token, of_column = weight.sum(-1, True), (weight @ one)[:, None], weight @ x
        p = of_column / n
        both = weight @ (one[:, None] * x)
        present = (both + p) / (of_token - both + 1 - p)
        absent = (of_column - both + p) / (n - of_token - of_column + both + 1 - p)
        found = (present / absent).log().nan_to_num(0)  # where all are 0 in a resample, or 1
        return found.round(decimals=9)

    values, ends = [], []
    for one in held.double().T:
        values.append(ratio(one, torch.ones(1, len(x)).double())[0])
        ends.append(ratio(one, times.double()).quantile(torch.tensor([0.025, 0.975]).double(), 0))
    low, high = torch.stack(ends, 1)
    return Estimate(torch.stack(values), low, high)


def _rows(data: BinaryTable, most: int) -> tuple[Tensor, list[str]]:
    """The numbers of the first rows, increasing, and the split of each."""
    order = torch.cat(list(data.members.values())).argsort()[:most]
    split = [name for name, rows in data.members.items() for _ in rows]
    return torch.cat(list(data.members.values()))[order], [split[k] for k in order.tolist()]


def _names(data: BinaryTable, rows: Tensor) -> list[str]:
    return [data.row_names[k] if data.row_names else f"row {k}" for k in rows.tolist()]


def _told_of(data: BinaryTable, rows: Tensor) -> Told:
    """The columns that vary most among some rows, in the table's order, and values of labels."""
    x = data.x[rows].float()
    kept = x.var(0).topk(min(MOST_COLUMNS, data.bits)).indices.sort().values
    names, parts = [data.columns[k] for k in kept.tolist()], [x[:, kept]]
    for k, feature in enumerate(data.features):
        names += [f"{feature.name}={value}" for value in feature.outcomes]
        parts.append((data.labels[rows, k, None] == torch.arange(len(feature.outcomes))).float())
    kinds = ["column"] * len(kept) + ["label"] * (len(names) - len(kept))
    return Told(names, kinds, torch.cat(parts, -1))


def _in_words(names: list[str], strength: Tensor, known: Tensor) -> str:
    """For example "feathers (3.9), eggs (2.1)": the strongest of those that are known, nats."""
    order = strength.masked_fill(~known, -torch.inf).argsort(descending=True)[:IN_WORDS].tolist()
    return ", ".join(f"{names[k]} ({abs(float(strength[k])):.1f})" for k in order if known[k])
