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

from plot_attractors.analysis.ask import at_random, having, read_inputs
from plot_attractors.analysis.parts import write
from plot_attractors.analysis.responses import (
    Choices,
    choices_at,
    choices_of,
    exact_choices,
    respond,
    simulate,
)
from plot_attractors.analysis.sampling import (
    BITS,
    IMAGES,
    NUMBERS,
    REAL,
    kind_of_inputs,
    nearest_sentence,
)
from plot_attractors.analysis.shape import ATTRACTORS, CATEGORIES, needs_inputs
from plot_attractors.analysis.style import BLUE, CRIMSON, GREEN, GREY, ORANGE, plain
from plot_attractors.measures.attractors import binomial_interval
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Size
from plot_attractors.runs import Run

logger = logging.getLogger("plot_attractors")

TITLE = "A continuum"
CAPTIONS = {
    "continuum": (
        "Morphs between two inputs, a (0) and b (1): of bits, each has a share of the bits of b, "
        "in several orders; of others, what is decoded on the way from z0 of a to z0 of b. A "
        "choice is b where the sentence tells more of b than of a, log R(s; b) > log R(s; a). "
        "(A) Identification: share of choices of b at T with 95 % intervals, and that of the exact "
        "posterior; dashed: the same in a series, upwards and downwards, each morph begun half way "
        "from where the last one ended. (B) Time of the response: mean, and 10 to 90 %. "
        "(C) Discrimination of neighbouring morphs by their states at t, d′; dotted: of what is "
        "chosen at T alone. (D) The trace: what states at t tell of the morph beyond the sentence "
        "that is read at T, nats, least squares; in grey, of shuffled morphs. Orange: the share of "
        "the variance of z0 − ẑ_s of training inputs that states tell."
    )
}


@dataclass(frozen=True)
class Config:
    # two inputs, as of `plot-attractors ask`, or values of a feature, as colour=red, whose mean in
    # z0 is decoded; default: two classes of the tree, or the commonest values of the first
    # categorical feature
    between: tuple[str, ...] = ()
    points: Size = 11  # morphs, both ends among them
    draws: Size = 256  # trajectories of each
    orders: Size = 8  # orders in which bits of a become those of b


NEEDS = ATTRACTORS & CATEGORIES & needs_inputs(BITS, REAL, NUMBERS, IMAGES)


# -- measures --------------------------------------------------------------------------------------

CARRY = 0.5  # of the last state, in series
CLASS_INPUTS = 4096  # among which those with a value are averaged
LEAST = 50  # trajectories of a sentence, of which the trace is measured
TRACED = 10  # sentences at most
TRACED_INPUTS, TRACED_DRAWS = 1024, 8  # of which z0 is traced


class Ends(NamedTuple):
    """The two ends x (2, …), and their names."""

    x: Tensor
    names: list[str]


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Morphs between two inputs, and what becomes of them.

    - ``morphs.csv``, a row for each morph: ``morph``, from 0 to 1; ``chosen``, the share of b at T,
      ``low``, ``high`` (Wilson); ``exact``: by the exact posterior; ``up`` and ``down``, in series;
      ``responded``; ``time``, ``q10``, ``q50``, ``q90`` of responses within 2T;
    - ``discrimination.csv`` (t, morph, d, labels): d′ between a morph and the next one by states at
      t, see `d_prime`; ``labels``: z(P_b of the next) − z(P_b) of choices at T alone;
    - ``trace.csv`` (t, nats, shuffled, z0_share): of the morph, see `trace`; of z0 of training
      inputs, see `z0_share`;
    - ``summary.csv`` (statistic, value): `summarise`; ``morphs.npz``: the inputs.

    Raises ValueError where the ends are not two, or are equal.
    """
    model = run.model
    ends = find_ends(run, config.between)
    x = morphs(run, ends.x, config.points, config.orders)  # (points, orders, …)
    points, orders = x.shape[:2]
    e = model.encode(x.flatten(0, 1))
    each = max(1, config.draws // orders)
    z0 = e.z0.repeat_interleave(each, 0)
    z = simulate(model, z0)
    chosen = between(model, ends.x)
    s = nearest_sentence(model, z[model.steps]).s
    choice = choices_of(model, s, chosen.category).view(points, -1)
    exact = exact_choices(model, e.distribution, chosen)[:, 1].view(points, orders).mean(1)
    n = choice.shape[1]
    low, high = binomial_interval(choice.sum(1), n)
    result = respond(model, z, chosen.category)
    time = result.time.view(points, -1)
    quantiles = time.nanquantile(torch.tensor([0.1, 0.5, 0.9]), 1)
    table = pd.DataFrame({
        "morph": torch.linspace(0, 1, points), "chosen": choice.double().mean(1),
        "low": low, "high": high, "exact": exact,
        "up": series(model, e.z0.view(points, orders, -1), each, chosen),
        "down": series(model, e.z0.view(points, orders, -1).flip(0), each, chosen)[::-1],
        "responded": (~time.isnan()).double().mean(1), "time": time.nanmean(1),
        "q10": quantiles[0], "q50": quantiles[1], "q90": quantiles[2],
    })  # fmt: skip
    states = z[: model.steps + 1].view(model.steps + 1, points, -1, z.shape[-1])
    pairs = discrimination(states, choice, model.epsilon)
    morph = torch.linspace(0, 1, points).repeat_interleave(n)
    seen = model.encode(run.data.batch(TRACED_INPUTS).x).z0.repeat_interleave(TRACED_DRAWS, 0)
    others = simulate(model, seen, model.steps)
    traced = trace(model, states.flatten(1, 2), s.view(points * n, -1), morph)
    traced["z0_share"] = z0_share(model, others, seen)
    names = np.array(ends.names)
    shown = {"morphs": x[:, 0].numpy(), "names": names, "kind": np.array(kind_of_inputs(run))}
    return {
        "summary.csv": summarise(table, pairs, traced),
        "morphs.csv": table,
        "discrimination.csv": pairs,
        "trace.csv": traced,
        "morphs.npz": shown,
    }


def find_ends(run: Run, names: tuple[str, ...]) -> Ends:
    """The two inputs of these names, or prototypes of the commonest values of the first feature."""
    if not names:
        names = _commonest(run)
    if len(names) != 2:
        raise ValueError(
            f"a continuum is between two inputs, not {len(names)}: set between=FIRST,SECOND"
        )
    x = torch.cat([_end(run, name) for name in names])
    if torch.equal(x[0].nan_to_num(-1), x[1].nan_to_num(-1)):
        raise ValueError(f"{names[0]} and {names[1]} are equal: there is nothing between them")
    if x.isnan().any():
        raise ValueError(
            "a continuum is between inputs without missing values, and one of these has some"
        )
    return Ends(x, list(names))


def _commonest(run: Run) -> tuple[str, ...]:
    if classes := getattr(run.data, "class_names", ()):
        return tuple(classes[:2])
    features = [f for f in getattr(run.data, "features", ()) if f.categorical]
    if not features:
        raise ValueError("say which two inputs the continuum is between: set between=FIRST,SECOND")
    batch = at_random(run, CLASS_INPUTS, run.seed)
    column = [f.name for f in run.data.features].index(features[0].name)
    values = run.data.feature_values(batch)[:, column]
    outcomes, counts = values[~values.isnan()].long().unique(return_counts=True)
    most = outcomes[counts.argsort(descending=True, stable=True)[:2]].tolist()
    return tuple(f"{features[0].name}={features[0].outcomes[v]}" for v in most)


def _end(run: Run, text: str) -> Tensor:
    """(1, …) an input, the prototype of a class of the tree, or that of values of features."""
    classes = getattr(run.data, "class_names", ())
    if text in classes:
        prototype: Tensor = run.data.prototypes[[classes.index(text)]]
        return prototype
    if "=" not in text:
        inputs = read_inputs(run, text)
        if len(inputs.x) != 1:
            raise ValueError(f"{text} holds {len(inputs.x)} inputs: an end is one of them")
        return inputs.x
    batch = at_random(run, CLASS_INPUTS, run.seed)
    kept = having(run.data, batch, text)
    z0 = run.model.encode(batch.x[kept]).z0.mean(0, keepdim=True)
    return _decoded(run, z0)


def _decoded(run: Run, z0: Tensor) -> Tensor:
    """(n, …) what is decoded of z0 (n, d), bits as 0 or 1."""
    mean: Tensor = run.model.decoder(z0).mean
    return (mean > 0.5).float() if kind_of_inputs(run) == BITS else mean


def morphs(run: Run, ends: Tensor, points: int, orders: int) -> Tensor:
    """(points, orders, …) inputs from a to b, `ends` (2, …).

    Of bits, a share k / (points − 1) of those that differ is as in b, in random orders; of others,
    what is decoded of z0 on the straight line, and one order.
    """
    share = torch.linspace(0, 1, points)
    differing = int((ends[0] != ends[1]).sum())
    if kind_of_inputs(run) != BITS:
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
        z = simulate(model, own, model.steps, start=mixed + model.onset.vector)
        state = z[-1]
        choice = choices_at(model, state, chosen.category)
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


def trace(model: AttractorModel, z: Tensor, s: Tensor, morph: Tensor) -> pd.DataFrame:
    r"""How much of the morph (n,) is left in states z (T + 1, n, d) beyond the sentences s
    (n, width) that are read at T.

    For each of the commonest sentences, the part R² of the variance of the morph that a linear
    function of z_t explains, of halves that it was not fitted to; −½ log(1 − R²) nats, which is the
    mutual information of jointly normal variables and a lower bound where the morph alone is
    normal; their mean, weighted by how often they are read. ``shuffled``: of morphs at random.
    """
    number = model.language.key(s).unique(return_inverse=True)[1]
    counts = number.bincount()
    kept = [k for k in counts.argsort(descending=True)[:TRACED].tolist() if counts[k] >= LEAST]
    groups = [(number == k).nonzero()[:, 0] for k in kept]
    groups = [g[torch.randperm(len(g))] for g in groups if morph[g].std() > 0]
    total, y = sum(map(len, groups)), morph[:, None].double()
    rows = []
    for t, state in enumerate(z.double()):
        nats = dict.fromkeys(("nats", "shuffled"), 0.0 if groups else math.nan)
        for g in groups:
            for name, other in (("nats", g), ("shuffled", g[torch.randperm(len(g))])):
                nats[name] -= len(g) / total / 2 * math.log(_unexplained(state[g], y[other]))
        rows.append({"t": t} | nats)
    return pd.DataFrame(rows)


def z0_share(model: AttractorModel, z: Tensor, z0: Tensor) -> list[float]:
    r"""For every t, the part of the variance of z0 − ẑ_s (n, d), what the sentence s read at T does
    not say of z0, that a linear function of z_t − ẑ_s explains; z (T + 1, n, d). One function for
    all sentences: a lower bound of the part that states explain.
    """
    s = model.embed(nearest_sentence(model, z[-1]).s)
    mixed = torch.randperm(len(s))
    rest = (z0 - s)[mixed].double()
    return [1 - _unexplained((state - s)[mixed].double(), rest) for state in z]


def _unexplained(z: Tensor, y: Tensor) -> float:
    """1 − R² of y (n, k) by z (n, d), fitted to one half and judged by the other, 10⁻⁶ to 1."""
    half = len(y) // 2
    z = torch.cat([z, torch.ones(len(z), 1, dtype=z.dtype)], -1)
    error = torch.zeros((), dtype=z.dtype)
    for fit, test in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        weights = torch.linalg.lstsq(z[fit], y[fit], driver="gelsd").solution
        error = error + (y[test] - z[test] @ weights).square().sum()
    return min(max(float(error / (y - y.mean(0)).square().sum()), 1e-6), 1.0)


def summarise(table: pd.DataFrame, pairs: pd.DataFrame, traced: pd.DataFrame) -> pd.DataFrame:
    """Statistics of a continuum.

    - ``boundary``: where P(b) first passes ½, by linear interpolation; ``width``: the part of the
      continuum from P(b) = ¼ to ¾; both ``_exact``, too;
    - ``hysteresis``: mean of ``down`` less ``up``;
    - ``time_middle``, ``time_ends``: mean time where P(b) is from ¼ to ¾, and elsewhere;
    - ``categorical_0``, ``categorical_T``: d′ of the pair across the boundary over the mean of all
      others, at t = 0 and at T, NaN without a boundary, or where no other is told apart;
      ``correlation_T``: of d′ at T with that of labels, over pairs;
    - ``trace_0``, ``trace_half``, ``trace_T``: nats at t = 0, T/2 and T, less that of shuffled;
      ``z0_half``, ``z0_T``: the share of the variance of z0.
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
    last = pairs[pairs["t"] == steps]
    values["correlation_T"] = float(last["d"].corr(last["labels"]))
    left = (traced["nats"] - traced["shuffled"]).to_numpy()
    for name, t in (("0", 0), ("half", steps // 2), ("T", steps)):
        values[f"trace_{name}"] = float(left[t])
        if t:
            values[f"z0_{name}"] = float(traced["z0_share"][t])
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
    """The continuum, its identification, times, discrimination and trace."""
    figure = Figure(figsize=(12, 8), layout="constrained")
    grid = figure.add_gridspec(3, 2, height_ratios=(0.5, 1, 1))
    shown = tables["morphs.npz"]
    _draw_morphs(figure.add_subplot(grid[0, :]), shown)
    a, b = (plain(str(name)) for name in shown["names"])
    panels = [figure.add_subplot(grid[row, column]) for row in (1, 2) for column in (0, 1)]
    table = tables["morphs.csv"]
    x = table["morph"]
    first, second, third, fourth = panels
    first.plot(x, table["exact"], ":", color=GREY, label="exact posterior")
    first.plot(x, table["up"], "--", color=GREEN, label="series from a to b")
    first.plot(x, table["down"], "--", color=ORANGE, label="series from b to a")
    bars = [table["chosen"] - table["low"], table["high"] - table["chosen"]]
    first.errorbar(x, table["chosen"], yerr=bars, fmt="o-", color=BLUE, markersize=4, label="at T")
    first.set(title="(A) Identification", xlabel=f"from {a} to {b}", ylabel="share of choices of b")
    first.legend(fontsize=8)
    second.fill_between(x, table["q10"], table["q90"], color=BLUE, alpha=0.2, linewidth=0)
    second.plot(x, table["time"], "o-", color=BLUE, markersize=4)
    second.set(title="(B) Time of the response", xlabel=f"from {a} to {b}", ylabel="steps")
    pairs = tables["discrimination.csv"]
    steps = int(pairs["t"].max())
    times = sorted({0, steps // 4, steps // 2, steps})
    for t, colour in zip(times, (GREY, GREEN, ORANGE, BLUE), strict=False):
        at = pairs[pairs["t"] == t]
        third.plot(at["morph"], at["d"], "o-", color=colour, markersize=3, label=f"t = {t}")
    third.plot(at["morph"], at["labels"], ":", color=CRIMSON, label="choices at T")
    third.set_yscale("symlog", linthresh=1)
    third.yaxis.set_major_formatter("{x:g}")
    third.set(title="(C) Discrimination of neighbours", xlabel=f"from {a} to {b}", ylabel="d′")
    third.legend(fontsize=8)
    traced = tables["trace.csv"]
    if traced["nats"].isna().all():
        write(fourth, "no sentence is read of several morphs")
    else:
        fourth.plot(traced["t"], traced["nats"], "o-", color=BLUE, markersize=3)
        fourth.plot(traced["t"], traced["shuffled"], color=GREY)
        fourth.set(xlabel="t, steps", ylabel="nats", ylim=(0, None))
        shares = fourth.twinx()
        shares.plot(traced["t"], traced["z0_share"], color=ORANGE)
        shares.set(ylabel="share of z0", ylim=(0, 1.02))
    fourth.set_title("(D) Trace of the stimulus, given the sentence")
    return {"continuum": figure}


def _draw_morphs(axes: Axes, shown: Any) -> None:
    x = np.asarray(shown["morphs"])
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set_visible(False)
    if str(shown["kind"]) == IMAGES:
        gap = np.ones((*x.shape[1:3], 2))
        strip = np.concatenate([part for k in x for part in (k, gap)][:-1], -1)
        strip = strip if len(strip) == 3 else np.repeat(strip[:1], 3, 0)
        axes.imshow(strip.transpose(1, 2, 0).clip(0, 1))
    else:
        axes.imshow(x.reshape(len(x), -1), cmap="Greys", aspect="auto", interpolation="nearest")
        axes.set_ylabel("a to b")
    a, b = (plain(str(name)) for name in shown["names"])
    axes.set_title(f"Morphs from {a} to {b}")
