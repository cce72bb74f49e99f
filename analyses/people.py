"""People beside the model: ratings, times and similarity of the same inputs."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from pyro.distributions import Normal
from scipy.stats import rankdata
from torch import Tensor

from plot_attractors.analysis import ask, responses, sampling, shape
from plot_attractors.analysis.probes import DecoderTraining
from plot_attractors.analysis.responses import Choices, Responses
from plot_attractors.analysis.style import BLUE, GREY, LIGHT_GREY
from plot_attractors.data.columns import read_columns
from plot_attractors.model.reward import gaussian_kl
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

logger = logging.getLogger("plot_attractors")

TITLE = "People"
CAPTIONS = {
    "people": (
        "Rank correlations (Spearman) of people's numbers with the model's, over inputs or pairs, "
        "with 95 % bootstrap intervals over inputs; hollow: of ranks within each class. Grey: the "
        "noise ceiling, a 95 % interval of the correlation that a model without error would have. "
        "Names of the model's numbers: see summary.csv."
    )
}


@dataclass(frozen=True)
class Config(DecoderTraining):
    human: Path | None = setting(
        None,
        "a table of people's data: name and typicality, or other ratings or times, one a column; "
        "or first, second and similarity; with a column rater, or sd and n of a mean, or without",
    )
    feature: str = setting("", "whose value is the choice; default: the first categorical one")
    draws: Size = setting(128, "trajectories of each input")


NEEDS = shape.ATTRACTORS
NAMED_ONLY = "a table of people's data: analyze RUN people --set human=norms.csv"


# -- measures --------------------------------------------------------------------------------------

RESAMPLES = 1000
SPLITS = 3  # of raters into halves, in each of these
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
      Spearman's ρ over n inputs or pairs, 95 % bootstrap interval over inputs; `noise_ceiling`,
      below 0 where ρ is. ``within``: of ranks within each value of the feature (ratings
      alone);
    - ``inputs.csv``, of ratings: `by_input`, and people's mean;
    - ``pairs.csv``, of similarity: ``first``, ``second``, ``human`` and the model's numbers.

    Ratings are ``typicality``, or the columns of numbers that are not whole, as times, of a table
    with names of inputs, as that of the training. ``similarity`` of a pair is compared with
    ``overlap``, Σ_s min(P(s | x), P(s | x′)) of sentences read at T, ``states_0`` and
    ``states_T``, minus the distance of mean states at 0 and T.

    Raises ValueError for a table without these columns, or that names other inputs.
    """
    model = run.model
    people = read_people(run, config.human)
    inputs = named_inputs(run, people.names)
    e = model.encode(inputs.x)
    z = responses.simulate(model, e.z0.repeat_interleave(config.draws, 0))
    if people.columns == ["similarity"]:
        return of_pairs(run, people, inputs, z)
    chosen = responses.choices(run, config.feature, config)
    result = responses.respond(model, z, chosen.category).by_draws(config.draws)
    table = by_input(run, inputs, z, chosen, result)
    rows = []
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
        band = noise_ceiling(people.frame, ["name"], column, pd.Series(group, people.names))
        for name in map(str, sizes):
            model_numbers = numbers[name].to_numpy(float)
            row = _row(column, name, human, model_numbers, None, band, group)
            rows.append(row | {"within": within})
        table[f"human_{column}"] = human
    return {"summary.csv": pd.DataFrame(rows), "inputs.csv": table}


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
    frame = read_columns(Path(path).expanduser(), texts=["name", "first", "second", named]).frame
    if named and "name" not in frame.columns:
        frame = frame.rename(columns={named: "name"})
    if {"first", "second", "similarity"} <= {*frame.columns}:
        columns, numbers = ["first", "second"], ["similarity"]
    elif "typicality" in frame.columns:
        columns, numbers = ["name"], ["typicality"]
    else:  # ratings, as those of norms, or times
        frame = frame.drop(columns=["sd", "n"], errors="ignore")  # one would not belong to several
        columns, floats = ["name"], frame.select_dtypes("float")
        numbers = [str(c) for c in floats if (frame[c].dropna() % 1 != 0).mean() > 0.5]
    if not numbers or not {*columns} <= {*frame.columns}:
        raise ValueError(
            f"{Path(path).name} has the columns {', '.join(map(str, frame.columns))}, and people's "
            "data have name and typicality or other ratings, or first, second and similarity"
        )
    known = [*getattr(run.data, "row_names", ()), *getattr(run.data, "class_names", ())]
    frame = frame.assign(**{name: frame[name].astype(str).str.strip() for name in columns})
    every = list(dict.fromkeys(frame[columns].to_numpy().ravel().tolist()))
    unknown = [name for name in every if name not in known]
    kept = frame[~frame[columns].isin(unknown).any(axis=1)]
    names = list(dict.fromkeys(kept[columns].to_numpy().ravel().tolist()))
    if len(names) < FEWEST:
        raise ValueError(
            f"{Path(path).name} has {len(names)} names in common with the model's data, and "
            f"{FEWEST} are needed: {', '.join(map(repr, unknown[:3]))} are no inputs"
        )
    if unknown:
        logger.warning(
            "%d of %d names are no inputs of the model, and are left out: %s",
            len(unknown), len(every), ", ".join(unknown[:5]),
        )  # fmt: skip
    kept = kept.assign(**{name: pd.to_numeric(kept[name]) for name in numbers})
    return People(kept.reset_index(drop=True), names, numbers)


def named_inputs(run: Run, names: Sequence[str]) -> ask.Inputs:
    each = [ask.read_inputs(run, name) for name in names]
    parts = zip(*((one.x, one.y, one.values) for one in each), strict=True)
    x, y, values = (torch.cat(part) for part in parts)
    return ask.Inputs(x, list(names), y, values)


def by_input(
    run: Run, inputs: ask.Inputs, z: Tensor, chosen: Choices, result: Responses
) -> pd.DataFrame:
    """The model's numbers of inputs, from trajectories z (L + 1, B · draws, d) and their responses
    (B, draws):

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
    n, draws = len(inputs.names), z.shape[1] // len(inputs.names)
    z0 = e.z0.repeat_interleave(draws, 0)
    s = model.readout(z[model.steps], z0).sample().unflatten(0, (n, draws))
    choice, time = result.choice, result.time
    own = inputs.values[:, chosen.column].nan_to_num(-1).long()
    exact = responses.exact_choices(model, e.distribution, chosen)
    batch = ask.at_random(run, MEMBERS, run.seed)
    known = run.data.feature_values(batch)[:, chosen.column]
    others = model.encode(batch.x).z0
    rows = []
    for k, name in enumerate(inputs.names):
        number, first = sampling.number_rows(model.language.key(s[k]))
        share, each = torch.bincount(number).double() / draws, s[k][first]
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


def of_pairs(run: Run, people: People, inputs: ask.Inputs, z: Tensor) -> dict[str, pd.DataFrame]:
    """People's similarity of pairs beside sentences and states."""
    model, n = run.model, len(inputs.names)
    draws = z.shape[1] // n
    z0 = model.encode(inputs.x).z0.repeat_interleave(draws, 0)
    s = model.readout(z[model.steps], z0).sample()
    number = sampling.number_rows(model.language.key(s))[0].view(n, draws)
    most = int(number.max()) + 1
    p = torch.stack([torch.bincount(row, minlength=most) for row in number]) / draws
    overlap = torch.stack([torch.minimum(row, p).sum(-1) for row in p])
    states = z[[0, model.steps]].unflatten(1, (n, draws)).mean(2)  # (2, n, d)
    column = "similarity"
    table = people.frame.groupby(["first", "second"], sort=False)[column].mean().reset_index()
    a, b = (torch.tensor([people.names.index(x) for x in table[k]]) for k in ("first", "second"))
    human = table[column].to_numpy(float)
    band = noise_ceiling(people.frame, ["first", "second"], column)
    pairs = (a.numpy(), b.numpy())
    near = -(states[:, a] - states[:, b]).norm(dim=-1)
    model_numbers = {"overlap": overlap[a, b], "states_0": near[0], "states_T": near[1]}
    table = table.rename(columns={column: "human"})
    table = table.assign(**{name: part.numpy() for name, part in model_numbers.items()})
    rows = [_row(column, k, human, table[k].to_numpy(), pairs, band) for k in model_numbers]
    return {"summary.csv": pd.DataFrame(rows), "pairs.csv": table}


def _row(
    human_name: str,
    model_name: str,
    human: np.ndarray,
    model: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray] | None,
    band: tuple[float, float],
    group: np.ndarray | None = None,
) -> dict[str, Any]:
    rho, low, high, n = correlation(human, model, pairs, group)
    band = (-band[1], -band[0]) if rho < 0 else band
    return {
        "human": human_name, "model": model_name, "within": False, "rho": rho,
        "low": low, "high": high, "n": n, "ceiling_low": band[0], "ceiling_high": band[1],
    }  # fmt: skip


def correlation(
    a: np.ndarray,
    b: np.ndarray,
    pairs: tuple[np.ndarray, np.ndarray] | None = None,
    group: np.ndarray | None = None,
) -> tuple[float, float, float, int]:
    """Spearman's ρ of a (n,) and b (n,), its 95 % bootstrap interval, and n known; of ranks within
    each `group` (n,), if there is one.

    Inputs are resampled, not pairs, which share inputs: those of an input drawn twice count four
    times with another such, and pairs of an input with itself are left out.
    """
    known = np.isfinite(a) & np.isfinite(b)
    if group is not None:  # classes of one, and inputs without a class, have no rank within
        number, size = np.unique(group[known], return_counts=True)
        known &= (group >= 0) & np.isin(group, number[size > 1])
    first, second = pairs or (np.arange(len(a)),) * 2
    group = np.zeros(len(a)) if group is None else group
    a, b, first, second, group = (np.asarray(x)[known] for x in (a, b, first, second, group))
    if len(a) < FEWEST:
        return math.nan, math.nan, math.nan, len(a)
    values = [_spearman(a, b, weight, group) for weight in _resampled(first, second)]
    if not np.isfinite(values).any():  # all are alike
        return math.nan, math.nan, math.nan, len(a)
    low, high = np.nanquantile(values, [0.025, 0.975])
    return _spearman(a, b, np.ones(len(a)), group), float(low), float(high), len(a)


def _resampled(first: np.ndarray, second: np.ndarray) -> Iterator[np.ndarray]:
    """How often each pair of inputs (n,), or each input with itself, is in a bootstrap sample."""
    inputs = int(max(first.max(), second.max())) + 1
    generator = np.random.default_rng(0)
    for _ in range(RESAMPLES):
        times = np.bincount(generator.integers(inputs, size=inputs), minlength=inputs)
        yield times[first] * (1 if (first == second).all() else times[second])


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


def noise_ceiling(
    frame: pd.DataFrame, keys: list[str], column: str, group: pd.Series | None = None
) -> tuple[float, float]:
    r"""A 95 % bootstrap interval, over inputs, of the correlation that a model without error has
    with the mean of people's numbers of each of `keys`, within each `group` (by key):
    :math:`\sqrt\varrho`, with the reliability ϱ of the mean, the correlation of two such samples.

    Of several raters :math:`\varrho = 2 r / (1 + r)`, with the rank correlation r of the means of
    two random halves of the raters; each may have rated a part. Of means with the columns sd and n:
    :math:`\varrho = 1 - \overline{sd^2 / n} / var`. NaN where neither is there; where raters share
    too few inputs, the log says so.

    Source: Spearman (1910) and Brown (1910) for ϱ of halves; Spearman (1904) for its root.
    """
    if {"sd", "n"} <= {*frame.columns}:
        table = frame.set_index(keys)
        each = table[column].groupby(_groups(table.index, group))
        size, centred = each.transform("size"), table[column] - each.transform("mean")
        table["square"] = centred**2 * size / (size - 1).where(size > 1)
        table["error"] = table["sd"] ** 2 / table["n"]
        table = table.dropna(subset=["square", "error"])
        index = table.index
        square, error = (table[name].to_numpy(float) for name in ("square", "error"))

        def reliability(weight: np.ndarray) -> float:
            return 1 - float(weight @ error) / max(float(weight @ square), 1e-300)

    elif "rater" in frame.columns:
        table = frame.pivot_table(
            index=keys, columns="rater", values=column, aggfunc=["sum", "count"], fill_value=0
        )
        total, count = (table[name].to_numpy(float) for name in ("sum", "count"))
        shared = (count > 0).sum(1) > 1  # rated by two or more
        index, total, count = table.index[shared], total[shared], count[shared]
        groups, generator = _groups(index, group), np.random.default_rng(1)

        def reliability(weight: np.ndarray) -> float:
            r = []
            for _ in range(SPLITS):
                half = generator.permutation(total.shape[1]) < total.shape[1] // 2
                n = [count[:, part].sum(1) for part in (half, ~half)]
                here = weight * (n[0] > 0) * (n[1] > 0) * np.isfinite(groups)
                a, b = (total[:, part].sum(1) for part in (half, ~half))
                r.append(_spearman(a / n[0].clip(1), b / n[1].clip(1), here, groups))
            mean = float(np.mean(r))
            return 2 * mean / (1 + mean) if mean > 0 else mean

    else:
        return math.nan, math.nan
    values = np.full(1, math.nan)
    if len(index) >= FEWEST:
        names = np.concatenate([index.get_level_values(k) for k in keys])
        every = np.unique(names, return_inverse=True)[1]
        resampled = _resampled(every[: len(index)], every[-len(index) :])
        values = np.array([reliability(weight) for weight in resampled])
    if not np.isfinite(values).any():
        logger.warning("no noise ceiling of %s: too few inputs with numbers of two raters", column)
        return math.nan, math.nan
    alone = np.nanmean([reliability(np.ones(len(index), int)) for _ in range(100)])
    unbiased = values + alone - np.nanmean(values)  # copies of inputs lower rank correlations
    low, high = np.nanquantile(unbiased, [0.025, 0.975]).clip(0, 1) ** 0.5
    return float(low), float(high)


def _groups(index: pd.Index, group: pd.Series | None) -> np.ndarray:
    """(n,) the group of each input, all the same without any; NaN where it is not known."""
    if group is None:
        return np.zeros(len(index))
    each = group.reindex(index).to_numpy(float)
    return np.where(each >= 0, each, np.nan)


# -- figures ---------------------------------------------------------------------------------------


def draw(tables: dict[str, Any]) -> dict[str, Figure]:
    """The correlations, and their noise ceilings."""
    table = tables["summary.csv"]
    figure, (axes,) = shape.panels(1, 1)
    names = [f"{human}: {model}" for human, model in table[["human", "model"]].to_numpy()]
    places = {name: y for y, name in enumerate(dict.fromkeys(names))}
    for name, row in zip(names, table.to_dict("records"), strict=True):
        y = places[name] + 0.3 * row["within"]
        axes.plot([row["ceiling_low"], row["ceiling_high"]], [y, y], color=LIGHT_GREY, linewidth=7)
        axes.plot([row["low"], row["high"]], [y, y], color=BLUE)
        axes.plot(row["rho"], y, "o", color=BLUE, mfc="white" if row["within"] else BLUE)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(places)), list(places))
    axes.invert_yaxis()
    axes.set(title="Rank correlations", xlabel="ρ", xlim=(-1, 1))
    return {"people": figure}
