"""What tokens tell of columns and labels, of a table or vectors, and what is said of each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data import Batch, BinaryTable, Vectors, is_real
from plot_attractors.evaluation.metrics.attractors import binomial_interval
from plot_attractors.evaluation.metrics.bootstrap import Estimate, resample
from plot_attractors.evaluation.sampling import require_listed, sentence_distribution, states_at
from plot_attractors.runs import Run

MOST_COLUMNS = 200  # of bits, those that vary most; of real numbers, that tokens tell most of
IN_WORDS = 4  # columns that a token is told by, each way
TYPICAL = 4  # rows
LOG_ODDS, DIFFERENCE = "log odds ratio", "difference"  # measures: nats, standard deviations


class Told(NamedTuple):
    """What is told of: names and kinds (column or label) of C columns, and x (n, C), 0 or 1, or the
    standardised numbers of vectors (n, C).
    """

    names: list[str]
    kinds: list[str]
    x: Tensor


def measure_rows(run: Run, draws: int, inputs: int) -> dict[str, pd.DataFrame]:
    """Tables of a `BinaryTable` or `Vectors`, of the first `inputs` rows, held-out ones included.

    P(s | x) is the mean of P(s | z_T), read exactly off `draws` end states of a row.

    - ``rows.csv`` (row, from 0; name; split; the labels; sentence, share, share_low, share_high;
      likeliest, probability): the sentence of the greatest mean P(s | z_T) over these end states,
      with the 95 % interval of as many draws (Wilson's; the best of many is too high in the mean);
      and the likeliest sentence of the exact posterior.
    - ``token_columns.csv`` (token, column, kind, measure, value, low, high): of training rows, the
      `log_odds_ratio` of every 0/1 column and every value of a label, nats, and the `difference` of
      every column of vectors, standard deviations.
    - ``token_meaning.csv`` (token, share, likelier, rarer, typical, opposite): the same in words.
      Those columns whose interval leaves out 0, the strongest first; likelier and rarer are higher
      and lower of vectors. Typical: the training rows whose columns speak most for the token, of
      those that hold it; opposite: whose columns speak most against it, of the others. share: mean
      P(token in the sentence | x).
    """
    model, data = require_listed(run.model), run.data
    rows, split = numbered_rows(data, inputs)
    x = data.rows(rows)
    encoding = model.encode(x)
    p = sentence_distribution(model, states_at(model, encoding, draws, [model.steps])[0])
    best, exact = p.max(-1), model.posterior.log_prob(encoding.distribution).exp().max(-1)
    read, likeliest = (
        [model.language.name(model.sentences[k]) for k in part.indices.tolist()]
        for part in (best, exact)
    )
    listed = {"row": rows.numpy(), "name": row_names(data, rows), "split": split}
    values = data.feature_values(Batch(x, rows, data.labels[rows]))
    for k, feature in enumerate(data.features):
        texts = dict(enumerate(feature.outcomes)) if feature.categorical else {}
        found = values[:, k].tolist()
        listed[feature.name] = ["" if v != v else texts.get(int(v), f"{v:g}") for v in found]
    low, high = binomial_interval(best.values * draws, draws)
    listed |= {
        "sentence": read, "share": best.values.numpy(),
        "share_low": low.numpy(), "share_high": high.numpy(),
        "likeliest": likeliest, "probability": exact.values.detach().numpy(),
    }  # fmt: skip

    trained = torch.tensor([name == "train" for name in split])
    held = (p @ model.language.bag(model.sentences).to(p))[trained]
    times = resample(x[trained])
    told, measures, found = _effects(data, x[trained], values[trained], held, times)
    tokens = [model.language.token_name(j) for j in range(model.language.tokens)]
    likelier, rarer = ("higher", "lower") if is_real(data) else ("likelier", "rarer")
    known = torch.where(told.x.isnan(), told.x.nanmean(0), told.x)
    parts, meanings = [], []
    for j, token in enumerate(tokens):
        value, low, high = (part[j] for part in found)
        of = {"token": token, "column": told.names, "kind": told.kinds, "measure": measures}
        parts.append(pd.DataFrame({**of, "value": value, "low": low, "high": high}))
        score, holds = known @ value.float(), held[:, j] >= 0.5
        meanings.append({
            "token": token, "share": float(held[:, j].mean()),
            likelier: _in_words(told.names, value, low > 0),
            rarer: _in_words(told.names, -value, high < 0),
            "typical": ", ".join(row_names(data, rows[trained][_most(score, holds)])),
            "opposite": ", ".join(row_names(data, rows[trained][_most(-score, ~holds)])),
        })  # fmt: skip
    return {
        "rows.csv": pd.DataFrame(listed),
        "token_columns.csv": pd.concat(parts),
        "token_meaning.csv": pd.DataFrame(meanings),
    }


def _most(score: Tensor, among: Tensor) -> Tensor:
    """The numbers of the rows with the greatest scores (n,), among some (n,)."""
    top = score.masked_fill(~among, -torch.inf).argsort(descending=True)[:TYPICAL]
    return top[among[top]]


def _effects(
    data: BinaryTable | Vectors, x: Tensor, values: Tensor, held: Tensor, times: Tensor
) -> tuple[Told, list[str], Estimate]:
    """What is told of, by which measures, and how much each token tells of it (tokens, C)."""
    labels = _labels(data, values)
    odds = log_odds_ratio(held, labels.x, times)
    if isinstance(data, BinaryTable):
        columns = _columns(data, x)
        found = log_odds_ratio(held, columns.x, times)
    else:
        found = difference(held, x, times)
        kept = found.value.abs().amax(0).topk(min(MOST_COLUMNS, x.shape[1])).indices.sort().values
        found = Estimate(*(part[:, kept] for part in found))
        names = [data.columns[k] for k in kept.tolist()]
        columns = Told(names, ["column"] * len(names), x[:, kept])
    measures = [DIFFERENCE if is_real(data) else LOG_ODDS] * len(columns.names)
    told = Told(
        columns.names + labels.names,
        columns.kinds + labels.kinds,
        torch.cat([columns.x, labels.x], -1),
    )
    both = zip(found, odds, strict=True)
    return (
        told,
        measures + [LOG_ODDS] * len(labels.names),
        Estimate(*(torch.cat(p, -1) for p in both)),
    )


def difference(held: Tensor, x: Tensor, times: Tensor) -> Estimate:
    r"""(tokens, C) mean of standardised columns x (n, C) where a token is held, less that where it
    is not, in standard deviations:

    .. math:: \frac{\sum_i p_i x_i + \bar x}{\sum_i p_i + 1}
        - \frac{\sum_i (1 - p_i) x_i + \bar x}{\sum_i (1 - p_i) + 1}, \quad p_i = P(w \mid x_i).

    An average row is added on either side, so that a token that is always there, or never, has 0.
    held (n, tokens) is P(token in the sentence | x_i), times (resamples, n) of `resample` gives
    95 % percentile intervals.

    Example:
        >>> held = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
        >>> difference(held, 2 * held - 1, torch.ones(1, 4)).value  # 2/3 less -2/3
        tensor([[1.3333]], dtype=torch.float64)
    """
    x = x.double()

    def of(one: Tensor, weight: Tensor) -> Tensor:
        """(resamples, C) of one token (n,), at weights (resamples, n) of the rows."""
        n, of_token, whole = weight.sum(-1, True), (weight @ one)[:, None], weight @ x
        mean, with_it = whole / n, (weight * one) @ x
        return (with_it + mean) / (of_token + 1) - (whole - with_it + mean) / (n - of_token + 1)

    return _of_tokens(of, held, times)


def log_odds_ratio(held: Tensor, x: Tensor, times: Tensor) -> Estimate:
    r"""(tokens, C) log odds of x = 1 where a token is held, less those where it is not, nats:

    .. math:: \log \frac{n_{11} + p}{n_{10} + 1 - p} - \log \frac{n_{01} + p}{n_{00} + 1 - p},
        \quad n_{ab} = \sum_i P(w = a \mid x_i) [x_{ic} = b].

    p is the share of 1s in the column: an average row is added on either side, so that a token that
    is always there, or never, has 0. So has a column that is constant.
    held (n, tokens) is P(token in the sentence | x_i), x (n, C) is 0 or 1, or NaN, which is left
    out; times (resamples, n) of `resample` gives 95 % percentile intervals.

    Example:
        >>> held = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
        >>> log_odds_ratio(held, held, torch.ones(1, 4)).value  # log 25
        tensor([[3.2189]], dtype=torch.float64)
    """
    known, x = (~x.isnan()).double(), x.double().nan_to_num()

    def ratio(one: Tensor, weight: Tensor) -> Tensor:
        """(resamples, C) of one token (n,), at weights (resamples, n) of the rows."""
        n, of_token, of_column = weight @ known, weight @ (one[:, None] * known), weight @ x
        p = of_column / n
        both = weight @ (one[:, None] * x)
        present = (both + p) / (of_token - both + 1 - p)
        absent = (of_column - both + p) / (n - of_token - of_column + both + 1 - p)
        found = (present / absent).log().nan_to_num(0)  # where all are 0 in a resample, or 1
        return found.round(decimals=9)

    return _of_tokens(ratio, held, times)


def _of_tokens(of: Callable[[Tensor, Tensor], Tensor], held: Tensor, times: Tensor) -> Estimate:
    """A statistic (resamples, C) of a token (n,) and weights (resamples, n), of all tokens held
    (n, tokens), at equal weights and with percentile intervals from times (resamples, n).
    """
    tokens, once = held.double().T, torch.ones(1, len(held)).double()
    levels = torch.tensor([0.025, 0.975]).double()
    value = torch.cat([of(one, once) for one in tokens])
    if not value.numel():  # no columns: there are no quantiles of nothing
        return Estimate(value, value, value)
    low, high = torch.stack([of(one, times.double()).quantile(levels, 0) for one in tokens], 1)
    return Estimate(value, low, high)


def numbered_rows(data: BinaryTable | Vectors, most: int) -> tuple[Tensor, list[str]]:
    """The numbers of the first rows, increasing, and the split of each."""
    order = torch.cat(list(data.members.values())).argsort()[:most]
    split = [name for name, rows in data.members.items() for _ in rows]
    return torch.cat(list(data.members.values()))[order], [split[k] for k in order.tolist()]


def row_names(data: BinaryTable | Vectors, rows: Tensor) -> list[str]:
    return [data.row_names[k] if data.row_names else f"row {k}" for k in rows.tolist()]


def _columns(data: BinaryTable, x: Tensor) -> Told:
    """The columns that vary most among rows x (n, bits), in the table's order."""
    mean = x.nanmean(0)
    kept = (mean * (1 - mean)).topk(min(MOST_COLUMNS, data.bits)).indices.sort().values
    return Told([data.columns[k] for k in kept.tolist()], ["column"] * len(kept), x[:, kept])


def _labels(data: BinaryTable | Vectors, values: Tensor) -> Told:
    """The values of categorical labels, whose numbers are values (n, F)."""
    names, parts = list[str](), [values[:, :0]]
    for feature, column in zip(data.features, values.T, strict=True):
        names += [f"{feature.name}={value}" for value in feature.outcomes]
        parts.append((column[:, None] == torch.arange(len(feature.outcomes))).float())
    return Told(names, ["label"] * len(names), torch.cat(parts, -1))


def _in_words(names: list[str], strength: Tensor, known: Tensor) -> str:
    """For example "feathers (3.9), eggs (2.1)": the strongest of those that are known, nats."""
    order = strength.masked_fill(~known, -torch.inf).argsort(descending=True)[:IN_WORDS].tolist()
    return ", ".join(f"{names[k]} ({abs(float(strength[k])):.1f})" for k in order if known[k])
