"""A continuum between two inputs: categories at the end, a gradient at the start."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm
from torch import Tensor

from plot_attractors.analysis import ask, responses, sampling, shape
from plot_attractors.analysis.responses import Choices
from plot_attractors.analysis.style import BLUE, GREEN, GREY, ORANGE, RED, lettered, plain
from plot_attractors.measures.attractors import binomial_interval
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

logger = logging.getLogger("plot_attractors")

TITLE = "A continuum"
CAPTIONS = {
    "continuum": (
        "Morphs between two inputs, a (0) and b (1): of bits, each has a share of the bits of b, "
        "in several orders; of others, what is decoded on the way from z0 of a to z0 of b. A "
        "choice is b where the sentence tells more of b than of a, log R(s; b) > log R(s; a). "
        "(a) The morphs. (b) Identification: share of choices of b at T with 95 % intervals, by "
        "the exact posterior, and, dashed, in a series, upwards and downwards, each morph begun "
        "half way from where the last one ended. (c) Time of the response: mean, and 10 to 90 %. "
        "(d) Discrimination of neighbouring morphs by their states at t, d′; dotted: of what is "
        "chosen at T alone."
    )
}


@dataclass(frozen=True)
class Config:
    between: tuple[str, ...] = setting(
        (),
        "two inputs, as of `plot-attractors ask`, or values of a feature, as colour=red, whose "
        "mean in z0 is decoded; default: two classes of the tree, or the commonest values of "
        "the first categorical feature",
    )
    points: Size = setting(11, "morphs, both ends among them")
    draws: Size = setting(1024, "trajectories of each")
    orders: Size = setting(8, "orders in which bits of a become those of b")


NEEDS = (
    shape.ATTRACTORS
    & shape.CATEGORIES
    & shape.needs_inputs(sampling.BITS, sampling.REAL, sampling.NUMBERS, sampling.IMAGES)
)


# -- measures --------------------------------------------------------------------------------------

CARRY = 0.5  # of the last state, in series
CLASS_INPUTS = 4096  # among which those with a value are averaged


class Ends(NamedTuple):
    """The two ends x (2, …), and their names."""

    x: Tensor
    names: list[str]


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Morphs between two inputs, and what becomes of them.

    - ``morphs.csv``, a row for each morph: ``morph``, from 0 to 1; ``chosen``, the share of b at T,
      ``low``, ``high`` (Wilson); ``exact``: by the exact posterior; ``up`` and ``down``, in series;
      ``responded``; ``time``, ``q10``, ``q90`` of responses within 2T;
    - ``discrimination.csv`` (t, morph, d, labels): d′ between a morph and the next one by states at
      t, see `d_prime`; ``labels``: z(P_b of the next) − z(P_b) of choices at T alone;
    - ``summary.csv`` (statistic, value): `summarise`; ``morphs.npz``: the inputs.

    Raises ValueError where the ends are not two different inputs, without missing values.
    """
    model = run.model
    ends = find_ends(run, config.between)
    x = morphs(run, ends.x, config.points, config.orders)  # (points, orders, …)
    points, orders = x.shape[:2]
    e = model.encode(x.flatten(0, 1))
    each = max(1, config.draws // orders)
    z0 = e.z0.repeat_interleave(each, 0)
    z = responses.simulate(model, z0)
    chosen = between(model, ends.x)
    result = responses.respond(model, z, chosen.category)
    choice = result.course[model.steps].view(points, -1)
    exact = responses.exact_choices(model, e.distribution, chosen)[:, 1].view(points, orders)
    n = choice.shape[1]
    low, high = binomial_interval(choice.sum(1), n)
    time = result.time.view(points, -1)
    low_time, high_time = time.nanquantile(torch.tensor([0.1, 0.9]), 1)
    table = pd.DataFrame({
        "morph": torch.linspace(0, 1, points), "chosen": choice.double().mean(1),
        "low": low, "high": high, "exact": exact.mean(1),
        "up": series(model, e.z0.view(points, orders, -1), each, chosen),
        "down": series(model, e.z0.view(points, orders, -1).flip(0), each, chosen)[::-1],
        "responded": (~time.isnan()).double().mean(1), "time": time.nanmean(1),
        "q10": low_time, "q90": high_time,
    })  # fmt: skip
    states = z[: model.steps + 1].view(model.steps + 1, points, -1, z.shape[-1])
    pairs = discrimination(states, choice, model.epsilon)
    images = np.array(sampling.kind_of_inputs(run) == sampling.IMAGES)
    shown = {"morphs": x[:, 0].numpy(), "names": np.array(ends.names), "images": images}
    return {
        "summary.csv": summarise(table, pairs), "morphs.csv": table,
        "discrimination.csv": pairs, "morphs.npz": shown,
    }  # fmt: skip


def find_ends(run: Run, names: tuple[str, ...]) -> Ends:
    """The two inputs of these names, or prototypes of the commonest values of the first feature."""
    names = names or _commonest(run)
    ends = [_end(run, name) for name in names]
    x = torch.cat(ends)
    if [len(end) for end in ends] != [1, 1] or x.isnan().any() or torch.equal(*x):
        raise ValueError(
            "a continuum is between two inputs that decode differently, and miss nothing: set "
            f"between=FIRST,SECOND, and not {', '.join(names)}"
        )
    return Ends(x, list(names))


def _commonest(run: Run) -> tuple[str, ...]:
    if classes := getattr(run.data, "class_names", ()):
        return tuple(classes[:2])
    features = [f for f in getattr(run.data, "features", ()) if f.categorical]
    batch = ask.at_random(run, CLASS_INPUTS, run.seed)
    column = [f.name for f in run.data.features].index(features[0].name)
    values = run.data.feature_values(batch)[:, column]
    outcomes, counts = values[~values.isnan()].long().unique(return_counts=True)
    most = outcomes[counts.argsort(descending=True, stable=True)[:2]].tolist()
    return tuple(f"{features[0].name}={features[0].outcomes[v]}" for v in most)


def _end(run: Run, text: str) -> Tensor:
    """(n, …) inputs, the prototype of a class of the tree, or that of values of features."""
    classes = getattr(run.data, "class_names", ())
    if text in classes:
        prototype: Tensor = run.data.prototypes[[classes.index(text)]]
        return prototype
    if "=" not in text:
        return ask.read_inputs(run, text).x
    batch = ask.at_random(run, CLASS_INPUTS, run.seed)
    kept = ask.having(run.data, batch, text)
    z0 = run.model.encode(batch.x[kept]).z0.mean(0, keepdim=True)
    return _decoded(run, z0)


def _decoded(run: Run, z0: Tensor) -> Tensor:
    """(n, …) what is decoded of z0 (n, d), bits as 0 or 1."""
    mean: Tensor = run.model.decoder(z0).mean
    return (mean > 0.5).float() if sampling.kind_of_inputs(run) == sampling.BITS else mean


def morphs(run: Run, ends: Tensor, points: int, orders: int) -> Tensor:
    """(points, orders, …) inputs from a to b, `ends` (2, …).

    Of bits, a share k / (points − 1) of those that differ is as in b, in random orders; of others,
    what is decoded of z0 on the straight line, and one order.
    """
    share = torch.linspace(0, 1, points)
    differing = int((ends[0] != ends[1]).sum())
    if sampling.kind_of_inputs(run) != sampling.BITS:
        a, b = run.model.encode(ends).z0
        return _decoded(run, torch.lerp(a, b, share[:, None]))[:, None]
    if differing < points - 1:
        share = torch.linspace(0, 1, differing + 1)
        logger.warning("the ends differ in %d bits: there are %d morphs", differing, differing + 1)
    rank = torch.rand(orders, ends.shape[-1])
    rank = rank.masked_fill(ends[0] == ends[1], math.inf).argsort(-1).argsort(-1)
    taken = rank < (share * differing).round()[:, None, None]
    return torch.where(taken, ends[1], ends[0])


def between(model: AttractorModel, ends: Tensor) -> Choices:
    """The choice of b, 1, where a sentence tells more of b: log R(s; b) > log R(s; a)."""
    q = model.encode(ends).distribution

    def category(s: Tensor) -> Tensor:
        log_r = model.reward.log_pairs(q, s)
        return (log_r[1] > log_r[0]).long()

    return Choices("end", 0, ("a", "b"), category)


def series(model: AttractorModel, z0: Tensor, draws: int, chosen: Choices) -> list[float]:
    """The share of b at T of morphs (points, orders, d) one after the other, each begun half way
    between its own z0 and the state in which the last one ended.
    """
    state, shares = None, []
    for own in z0.repeat_interleave(draws, 1):
        mixed = own if state is None else torch.lerp(own, state, CARRY)
        z = responses.simulate(model, own, model.steps, start=mixed)
        state = z[-1, :, : model.latent]
        choice = responses.choices_at(model, state, chosen.category)
        shares.append(float(choice.double().mean()))
    return shares


def d_prime(a: Tensor, b: Tensor, sd: float) -> float:
    r"""The distance of two clouds of states (n, d), in standard deviations along the best line, to
    an observer with noise `sd` of his own:

    .. math:: d'^2 = \Delta_1^\top (\Sigma + \mathrm{sd}^2 1)^{-1} \Delta_2,

    with differences Δ of the means of two halves, whose noise is independent, so that clouds of one
    distribution have 0 in the mean; Σ is the mean covariance. A square below 0 counts as 0.
    """
    covariance = (torch.cov(a.T) + torch.cov(b.T)) / 2
    covariance = covariance + sd**2 * torch.eye(a.shape[-1], dtype=a.dtype)
    first, second = (b[k::2].mean(0) - a[k::2].mean(0) for k in (0, 1))
    square = float(first @ torch.linalg.solve(covariance, second))
    return math.sqrt(max(square, 0.0))


def discrimination(states: Tensor, choice: Tensor, sd: float) -> pd.DataFrame:
    """d′ between neighbours at every t, of states (T + 1, points, n, d) and choices (points, n)."""
    rows, (points, n) = [], choice.shape
    mixed = torch.randperm(n)  # halves hold all orders
    p = ((choice.sum(1) + 0.5) / (n + 1)).numpy()
    labels = np.abs(np.diff(norm.ppf(p)))
    for t, z in enumerate(states[:, :, mixed].double()):
        for k in range(points - 1):
            d = d_prime(z[k], z[k + 1], sd)
            middle = (k + 0.5) / (points - 1)
            rows.append({"t": t, "morph": middle, "d": d, "labels": float(labels[k])})
    return pd.DataFrame(rows)


def summarise(table: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Statistics of a continuum.

    - ``boundary``: where P(b) first passes ½, by linear interpolation; ``width``: the part of the
      continuum from P(b) = ¼ to ¾; both ``_exact``, too;
    - ``hysteresis``: mean of ``down`` less ``up``;
    - ``time_middle``, ``time_ends``: mean time where P(b) is from ¼ to ¾, and elsewhere;
    - ``categorical_0``, ``categorical_T``: d′ of the pair across the boundary over the mean of all
      others, at t = 0 and at T, NaN without a boundary, or where no other is told apart.
    """
    x, steps = table["morph"].to_numpy(), int(pairs["t"].max())
    values = {}
    for name, column in (("", "chosen"), ("_exact", "exact")):
        p = table[column].to_numpy()
        values[f"boundary{name}"] = crossing(x, p, 0.5)
        values[f"width{name}"] = abs(crossing(x, p, 0.75) - crossing(x, p, 0.25))
    values["hysteresis"] = float((table["down"] - table["up"]).mean())
    middle = table["chosen"].between(0.25, 0.75)
    values["time_middle"] = float(table.loc[middle, "time"].mean())
    values["time_ends"] = float(table.loc[~middle, "time"].mean())
    for name, t in (("0", 0), ("T", steps)):
        at = pairs[pairs["t"] == t]
        d, away = at["d"].to_numpy(), np.abs(at["morph"].to_numpy() - values["boundary"])
        nearest = away.argmin()
        others = np.delete(d, nearest)
        known = not math.isnan(values["boundary"]) and others.sum() > 0
        values[f"categorical_{name}"] = float(d[nearest] / others.mean()) if known else math.nan
    return pd.DataFrame({"statistic": list(values), "value": list(values.values())})


def crossing(x: np.ndarray, p: np.ndarray, level: float) -> float:
    """Where p (n,) over x (n,) first passes a level, by linear interpolation; NaN for nowhere.

    >>> crossing(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.4, 0.6]), 0.5)
    0.75
    """
    above = p >= level
    change = np.flatnonzero(above[1:] != above[:-1])
    if not len(change):
        return math.nan
    k = change[0]
    return float(x[k] + (level - p[k]) / (p[k + 1] - p[k]) * (x[k + 1] - x[k]))


# -- figures ---------------------------------------------------------------------------------------


def draw(tables: dict[str, Any]) -> dict[str, Figure]:
    """The continuum, its identification, times and discrimination."""
    figure = Figure(figsize=(13, 5.5), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=(0.4, 1))
    shown = tables["morphs.npz"]
    _draw_morphs(figure.add_subplot(grid[0, :]), shown)
    a, b = (plain(str(name)) for name in shown["names"])
    first, second, third = (figure.add_subplot(grid[1, column]) for column in range(3))
    table = tables["morphs.csv"]
    x = table["morph"]
    first.plot(x, table["exact"], ":", color=GREY, label="exact posterior")
    first.plot(x, table["up"], "--", color=GREEN, label=f"series from {a} to {b}")
    first.plot(x, table["down"], "--", color=ORANGE, label=f"series from {b} to {a}")
    bars = [table["chosen"] - table["low"], table["high"] - table["chosen"]]
    first.errorbar(x, table["chosen"], yerr=bars, fmt="o-", color=BLUE, markersize=4, label="at T")
    first.set(title=lettered("b", "Identification"), ylabel=f"share of choices of {b}")
    second.fill_between(x, table["q10"], table["q90"], color=BLUE, alpha=0.2, linewidth=0)
    second.plot(x, table["time"], "o-", color=BLUE, markersize=4)
    second.set(title=lettered("c", "Time of the response"), ylabel="steps")
    pairs = tables["discrimination.csv"]
    steps = int(pairs["t"].max())
    times = sorted({0, steps // 4, steps // 2, steps})
    for t, colour in zip(times, (GREY, GREEN, ORANGE, BLUE), strict=False):
        at = pairs[pairs["t"] == t]
        third.plot(at["morph"], at["d"], "o-", color=colour, markersize=3, label=f"t = {t}")
    third.plot(at["morph"], at["labels"], ":", color=RED, label="choices at T")
    third.set_yscale("symlog", linthresh=1)
    third.yaxis.set_major_formatter("{x:g}")
    third.set(title=lettered("d", "Discrimination of neighbours"), ylabel="d′")
    for axes in (first, second, third):
        axes.set_xlabel(f"from {a} to {b}")
    figure.legend(fontsize=8, loc="outside lower center", ncols=5)
    return {"continuum": figure}


def _draw_morphs(axes: Axes, shown: Any) -> None:
    x = np.asarray(shown["morphs"])
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_visible(False)
    if shown["images"]:
        gap = np.ones((*x.shape[1:3], 2))
        strip = np.concatenate([part for k in x for part in (k, gap)][:-1], -1)
        strip = strip if len(strip) == 3 else np.repeat(strip[:1], 3, 0)
        axes.imshow(strip.transpose(1, 2, 0).clip(0, 1))
    else:
        axes.imshow(x.reshape(len(x), -1), cmap="Greys", aspect="auto", interpolation="nearest")
        axes.set_ylabel("a to b")
    a, b = (plain(str(name)) for name in shown["names"])
    axes.set_title(lettered("a", f"Morphs from {a} to {b}"))
