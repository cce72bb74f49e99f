"""People beside the model: ratings and times of the same inputs."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from pyro.distributions import Normal
from scipy.stats import rankdata
from torch import Tensor

from plot_attractors.analysis import ask, responses, sampling, shape
from plot_attractors.analysis.probes import DecoderTraining
from plot_attractors.analysis.responses import Choices, Responses
from plot_attractors.data.columns import read_columns
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.reward import gaussian_kl
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

logger = logging.getLogger("plot_attractors")

TITLE = "People"


@dataclass(frozen=True)
class Config(DecoderTraining):
    human: Path | None = setting(
        None,
        "a table of people's data: name and typicality, or other ratings or times, one a column; "
        "with sd and n of means, or without",
    )
    feature: str = setting("", "whose value is the choice; default: the first categorical one")
    draws: Size = setting(128, "trajectories, or sentences, of each input")
    others: tuple[Path, ...] = setting((), "runs of other models on the same data, to compare with")


NEEDS = shape.DESCRIBED
NAMED_ONLY = "a table of people's data: analyze RUN people --set human=norms.csv"


RESAMPLES = 1000
FEWEST = 5  # inputs that people's data and the model share
MEMBERS = 4096  # inputs, whose mean is the prototype of a class


class People(NamedTuple):
    """People's data: rows, names of inputs, each once, and columns of numbers."""

    frame: pd.DataFrame
    names: list[str]
    columns: list[str]


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Rank correlations of people's data with the model's.

    - ``summary.csv`` (human, model, within, rho, low, high, n, ceiling_low, ceiling_high):
      Spearman's ρ over n inputs, 95 % bootstrap interval over inputs; `noise_ceiling`, below 0
      where ρ is. ``within``: of ranks within each value of the feature;
    - ``inputs.csv``: `by_input` of a model with attractors, `by_sentence` of others, and people's
      mean;
    - ``models.csv`` (human, model, number, within, rho, low, high, n, difference, se): the numbers
      of `by_sentence` of this run, of the exact posterior where it is known, and of `others`; the
      ``difference`` of ρ from this run's, in absolute value, with its standard error by the same
      bootstrap samples: below 0 where the other tells less of people.

    Ratings are ``typicality``, or the columns of numbers that are not whole, as times, of a table
    with names of inputs, as that of the training.

    Raises ValueError for a table without these columns, or that names other inputs.
    """
    model = run.model
    people = read_people(run, config.human)
    inputs = named_inputs(run, people.names)
    chosen = responses.choices(run, config.feature, config)
    if isinstance(model, AttractorModel):
        e = model.encode(inputs.x)
        z0 = e.z0.repeat_interleave(config.draws, 0)
        z = responses.simulate(model, z0)
        result = responses.respond(model, z, chosen.category).by_draws(config.draws)
        s = model.readout(z[model.steps], z0).sample().unflatten(0, (-1, config.draws))
        exact = sampling.exact_draws(model, e.distribution, config.draws).s
        said = {
            "this run": by_sentence(run, inputs, chosen, s),
            "exact posterior": by_sentence(run, inputs, chosen, exact),
        }
        table = by_input(run, inputs, s, chosen, result)
    else:
        s = model.describe(inputs.x, config.draws).s
        said = {"this run": by_sentence(run, inputs, chosen, s)}
        table = said["this run"]
    for path in config.others:
        other = Run(path)
        of_other = responses.choices(other, chosen.feature, config)
        same = named_inputs(other, people.names)
        s = other.model.describe(same.x, config.draws).s
        said[str(path)] = by_sentence(other, same, of_other, s)
    rows, models = [], []
    numbers = table.select_dtypes("number")
    sizes = [c for c in numbers if numbers[c].notna().sum() - _commonest(numbers[c]) >= FEWEST - 1]
    if not sizes:
        raise ValueError(
            "the model's numbers of these inputs are alike: name other inputs, or more"
        )
    value = inputs.values[:, chosen.column].numpy()  # NaN where it is not known
    for column, within in itertools.product(people.columns, (False, True)):
        human = people.frame.groupby("name")[column].mean().reindex(people.names).to_numpy(float)
        group = value if within else np.zeros(len(value))
        own_frame = people.frame
        if column != "typicality":  # to which sd and n belong
            own_frame = own_frame.drop(columns=["sd", "n"], errors="ignore")
        ceiling = noise_ceiling(own_frame, column, pd.Series(group, people.names))
        for name in map(str, sizes):
            rho, low, high, n = correlation(human, numbers[name].to_numpy(float), group)
            bounds = sorted(-x for x in ceiling) if rho < 0 else ceiling
            rows.append({
                "human": column, "model": name, "within": within, "rho": rho, "low": low,
                "high": high, "n": n, "ceiling_low": bounds[0], "ceiling_high": bounds[1],
            })  # fmt: skip
        own = said["this run"].select_dtypes("number")
        for (name, part), number in itertools.product(said.items(), own):
            theirs, ours = (t[number].to_numpy(float) for t in (part, own))
            rho, low, high, n = correlation(human, theirs, group)
            difference, error = paired(human, theirs, ours, group)
            models.append({
                "human": column, "model": name, "number": number, "within": within, "rho": rho,
                "low": low, "high": high, "n": n, "difference": difference, "se": error,
            })  # fmt: skip
        table[f"human_{column}"] = human
    return {
        "summary.csv": pd.DataFrame(rows), "inputs.csv": table, "models.csv": pd.DataFrame(models)
    }  # fmt: skip


def _commonest(column: pd.Series) -> int:
    """How many have the commonest value: what the others differ in may be chance alone."""
    return int(column.value_counts().iloc[:1].sum())


def read_people(run: Run, path: Path | None) -> People:
    """People's data of a file; names that the model's data do not know are left out, which the log
    says; ValueError where next to none is known, or columns are missing.
    """
    if path is None:
        raise ValueError(f"this needs {NAMED_ONLY}")
    named = str(getattr(run.data_config, "names", ""))  # what the model's data call them
    table = read_columns(Path(path).expanduser(), texts=["name", named])
    frame = table.frame
    if named and "name" not in frame.columns:
        frame = frame.rename(columns={named: "name"})
    others = frame.drop(columns=["sd", "n", "typicality"], errors="ignore").select_dtypes("number")
    # ratings, as those of norms, or times
    numbers = [str(c) for c in others if (frame[c].dropna() % 1 != 0).mean() > 0.5]
    if whole := [str(c) for c in others if c not in numbers]:
        logger.warning("whole numbers are no ratings, and left out: %s", ", ".join(whole))
    numbers = [c for c in frame.columns if c == "typicality"] + numbers
    if not numbers or "name" not in frame.columns:
        raise ValueError(
            f"{Path(path).name} has the columns {', '.join(map(str, frame.columns))}, and people's "
            "data have name and typicality or other ratings"
        )
    frame = frame.assign(**{c: table.numbers(c, optional=True) for c in numbers})
    known = [*getattr(run.data, "row_names", ()), *getattr(run.data, "class_names", ())]
    frame = frame.assign(name=frame["name"].astype(str).str.strip())
    every = list(dict.fromkeys(frame["name"]))
    unknown = [name for name in every if name not in known]
    kept = frame[~frame["name"].isin(unknown)]
    names = [name for name in every if name in known]
    if len(names) < FEWEST:
        raise ValueError(
            f"{Path(path).name} has {len(names)} names in common with the model's data, and "
            f"{FEWEST} are needed; others: {', '.join(map(repr, unknown[:3])) or 'none'}"
        )
    if unknown:
        logger.warning(
            "%d of %d names are no inputs of the model, and are left out: %s",
            len(unknown), len(every), ", ".join(unknown[:5]),
        )  # fmt: skip
    return People(kept.reset_index(drop=True), names, numbers)


def named_inputs(run: Run, names: Sequence[str]) -> ask.Inputs:
    each = [ask.read_inputs(run, name) for name in names]
    parts = zip(*((one.x, one.y, one.values) for one in each), strict=True)
    x, y, values = (torch.cat(part) for part in parts)
    return ask.Inputs(x, list(names), y, values)


def by_sentence(run: Run, inputs: ask.Inputs, chosen: Choices, s: Tensor) -> pd.DataFrame:
    """Numbers of inputs that every model of sentences has, by sentences s (B, draws, width):
    ``own_choice``, the probability of the input's own value; ``commonest``, of the commonest
    sentence; ``entropy`` of sentences and ``choice_entropy`` of choices, nats.
    """
    choice = responses.choices_of(run.model, s, chosen.category)
    p = responses.shares(choice, len(chosen.names))
    own = inputs.values[:, [chosen.column]].nan_to_num(-1).long()
    rows = []
    for k, name in enumerate(inputs.names):
        number, _ = sampling.number_rows(run.model.language.key(s[k]))
        share = torch.bincount(number).double() / s.shape[1]
        rows.append({
            "name": name,
            "own_choice": float(p[k, own[k]]) if own[k] >= 0 else math.nan,
            "commonest": float(share.max()),
            "entropy": float(-(share * share.log()).sum()),
            "choice_entropy": float(-torch.special.xlogy(p[k], p[k]).sum()),
        })  # fmt: skip
    return pd.DataFrame(rows)


def by_input(
    run: Run, inputs: ask.Inputs, s: Tensor, chosen: Choices, result: Responses
) -> pd.DataFrame:
    """The model's numbers of inputs, from sentences s (B, draws, width) read at the ends of
    trajectories, and the responses of these (B, draws):

    - ``information_lost``: mean D_KL(P(z0 | x) ‖ P(z0 | ẑ_s)) of sentences read at T, nats;
    - ``own_choice``: the probability of the input's own value among the choices of responses, and
      ``own_choice_exact`` of the exact posterior; ``likeliest``: the greatest P(s | x) of what is
      read; ``entropy``: of sentences read at T, nats;
    - ``time``: mean of responses, steps; ``responded``: share of them;
    - ``distance``: of z0 from the mean z0 of inputs of the data with the same value;
      ``input_distance``: of x from their mean x, without any model.
    """
    model = run.model
    e = model.encode(inputs.x)
    choice, time = result.choice, result.time
    own = inputs.values[:, chosen.column].nan_to_num(-1).long()
    exact = responses.exact_choices(model, e.distribution, chosen)
    batch = ask.at_random(run, MEMBERS, run.seed)
    known = run.data.feature_values(batch)[:, chosen.column]
    others = model.encode(batch.x).z0
    rows = []
    for k, name in enumerate(inputs.names):
        number, first = sampling.number_rows(model.language.key(s[k]))
        share, each = torch.bincount(number).double() / s.shape[1], s[k][first]
        q = Normal(e.distribution.loc[k, None], e.distribution.scale[k, None])
        lost = gaussian_kl(q, model.sentence_encoder(each)).double()
        row = {
            "name": name,
            "information_lost": float((share * lost).sum()),
            "likeliest": float(ask.log_posterior(model, q, each).max().exp()),
            "entropy": float(-(share * share.log()).sum()),
            "time": float(time[k].nanmean()),
            "responded": float((choice[k] >= 0).double().mean()),
        }
        if own[k] >= 0:
            alike = known == own[k]
            if getattr(run.data, "row_names", ()):  # an input is no part of its own prototype
                alike &= batch.y != inputs.y[k]
            chose = choice[k][choice[k] >= 0]
            row["value"] = chosen.names[int(own[k])]
            row["own_choice"] = float((chose == own[k]).double().mean())
            row["own_choice_exact"] = float(exact[k, own[k]])
            row["distance"] = float((e.z0[k] - others[alike].mean(0)).norm())
            row["input_distance"] = float((inputs.x[k] - batch.x[alike].nanmean(0)).norm())
        rows.append(row)
    return pd.DataFrame(rows)


def correlation(a: np.ndarray, b: np.ndarray, group: np.ndarray) -> tuple[float, float, float, int]:
    """Spearman's ρ of a (n,) and b (n,), of ranks within each `group` (n,), its 95 % bootstrap
    interval, and n known.
    """
    known = np.isfinite(a) & np.isfinite(b)
    number, size = np.unique(group[known], return_counts=True)
    # classes of one, and inputs without a class, have no rank within
    known &= (group >= 0) & np.isin(group, number[size > 1])
    a, b, group = a[known], b[known], group[known]
    if len(a) < FEWEST:
        return math.nan, math.nan, math.nan, len(a)
    values = [_spearman(a, b, weight[known], group) for weight in _resampled(len(known))]
    if not np.isfinite(values).any():  # all are alike
        return math.nan, math.nan, math.nan, len(a)
    low, high = np.nanquantile(values, [0.025, 0.975])
    return _spearman(a, b, np.ones(len(a)), group), float(low), float(high), len(a)


def paired(
    human: np.ndarray, a: np.ndarray, b: np.ndarray, group: np.ndarray
) -> tuple[float, float]:
    """|ρ| of a (n,) with people's less that of b (n,), of the inputs that all know, and its
    standard error over bootstrap samples of them.
    """
    known = np.isfinite(human) & np.isfinite(a) & np.isfinite(b) & (group >= 0)
    human, a, b, group = (x[known] for x in (human, a, b, group))

    def difference(weight: np.ndarray) -> float:
        return abs(_spearman(human, a, weight, group)) - abs(_spearman(human, b, weight, group))

    if len(human) < FEWEST:
        return math.nan, math.nan
    values = np.array([difference(weight) for weight in _resampled(len(human))])
    known = np.isfinite(values)
    return difference(np.ones(len(human))), float(values[known].std()) if known.any() else math.nan


def _resampled(n: int) -> Iterator[np.ndarray]:
    """How often each of n inputs is in a bootstrap sample."""
    generator = np.random.default_rng(0)
    for _ in range(RESAMPLES):
        yield np.bincount(generator.integers(n, size=n), minlength=n)


def _spearman(a: np.ndarray, b: np.ndarray, weight: np.ndarray, group: np.ndarray) -> float:
    """ρ of values with whole weights, as of copies: of ranks within each group, less their mean."""
    a, b, group = (np.repeat(x, weight.astype(int)) for x in (a, b, group))
    x, y = _centred_ranks(a, group), _centred_ranks(b, group)
    size = float((x @ x) * (y @ y)) ** 0.5
    return float(x @ y) / size if len(a) >= 3 and size > 0 else math.nan


def _centred_ranks(a: np.ndarray, group: np.ndarray) -> np.ndarray:
    ranks = np.zeros(len(a))
    for value in np.unique(group):
        here = group == value
        each = rankdata(a[here])
        ranks[here] = (each - each.mean()) / len(each)  # groups count alike, whatever their size
    return ranks


def noise_ceiling(frame: pd.DataFrame, column: str, group: pd.Series) -> tuple[float, float]:
    r"""A 95 % bootstrap interval, over inputs, of the correlation that a model without error has
    with people's means within each `group` (by name): :math:`\sqrt\varrho`, with the reliability
    :math:`\varrho = 1 - \overline{sd^2 / n} / var` of means with the columns sd and n; NaN without
    these.

    Source: Spearman (1904).
    """
    if not {"sd", "n"} <= {*frame.columns}:
        return math.nan, math.nan
    table = frame.set_index("name").sort_index()
    each = table[column].groupby(group.where(group >= 0).reindex(table.index).to_numpy())
    size, centred = each.transform("size"), table[column] - each.transform("mean")
    table["square"] = centred**2 * size / (size - 1).where(size > 1)
    table["error"] = table["sd"] ** 2 / table["n"]
    table = table.dropna(subset=["square", "error"])
    square, error = (table[name].to_numpy(float) for name in ("square", "error"))
    if len(table) < FEWEST:
        logger.warning("no noise ceiling of %s: too few inputs with sd and n", column)
        return math.nan, math.nan
    values = np.array([1 - (w @ error) / max(w @ square, 1e-300) for w in _resampled(len(table))])
    alone = 1 - error.sum() / max(square.sum(), 1e-300)
    unbiased = values + alone - values.mean()
    low, high = np.quantile(unbiased, [0.025, 0.975]).clip(0, 1) ** 0.5
    return float(low), float(high)
