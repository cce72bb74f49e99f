"""Choices and response times: what is chosen of an input, when, and what moves both."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.optimize import brentq, brute, nnls
from scipy.special import log_ndtr, ndtr
from scipy.stats import spearmanr
from torch import Tensor

from plot_attractors.analysis.ask import exact_entropy
from plot_attractors.analysis.parts import note
from plot_attractors.analysis.probes import DecoderTraining
from plot_attractors.analysis.responses import (
    Choices,
    Responses,
    choices,
    choices_of,
    exact_choices,
    follow,
    respond,
    shares,
    simulate,
)
from plot_attractors.analysis.sampling import (
    nearest_sentence,
    noise_radius,
    random_directions,
)
from plot_attractors.analysis.shape import ATTRACTORS, CATEGORIES
from plot_attractors.analysis.style import BLUE, CRIMSON, GREEN, GREY, ORANGE, PURPLE, plain
from plot_attractors.measures.attractors import binomial_interval
from plot_attractors.measures.bootstrap import bootstrap, resample
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.ranges import Size
from plot_attractors.runs import Run

logger = logging.getLogger("plot_attractors")

TITLE = "Choices and response times"
SLOW = True
CAPTIONS = {
    "times": (
        "A response is the first time at which a state is within 2 ε√d of an embedding and keeps "
        "its choice, the value of a feature, for three steps. (A) Quantiles (10, 30, 50, 70, 90 %) "
        "of the times of inputs, in groups of equal size, against the probability of their "
        "commonest choice. Crosses: a diffusion to two bounds, whose drift is proportional to the "
        "log odds of the exact posterior. (B) Mean time of each input against the entropy of its "
        "exact P(choice | input). (C) Share of right choices: at a deadline, read at t (line), and "
        "of responses, by their time among those of the same input, in fifths (dots, means over "
        "inputs with 95 % bootstrap intervals); dashed: that of the diffusion, which is the same "
        "at any time; dotted: draws from the exact posterior."
    ),
    "effects": (
        "(A) Noise of every step multiplied: right choices, responses, and their mean time as a "
        "part of the longest. (B) A start between z0 of the input (0) and z0 of another (1): share "
        "of responses that choose the other's value, and mean time; the other has the same value "
        "(grey) or another (colour). (C) A push in a random direction at time t: share of "
        "trajectories that choose otherwise T steps later, beside a twin that was not pushed; the "
        "lowest line is of twins without a push."
    ),
}


@dataclass(frozen=True)
class Config(DecoderTraining):
    feature: str = ""  # whose value is the choice; default: the least certain one
    inputs: Size = 128  # training inputs
    draws: Size = 128  # trajectories of each; an eighth of them for each noise, start and push


NEEDS = ATTRACTORS & CATEGORIES


# -- measures --------------------------------------------------------------------------------------

QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
NOISE = (0.5, 0.75, 1.0, 1.5, 2.0)
STARTS = (0.0, 0.25, 0.5, 0.75)
PUSHES = (0.0, 0.5, 1.0, 2.0)  # in half the median distance of ẑ_s to the nearest of another choice
PUSHED = 5  # times from 0 to T at which states are pushed
GROUPS = 5  # of inputs, or of responses


class Trials(NamedTuple):
    """Trajectories of B inputs: the responses (B, draws), the choices at every time (L + 1, B,
    draws), the inputs' own values (B,), −1 unknown, and the exact P(choice | x) (B, choices).
    """

    responses: Responses
    at: Tensor
    own: Tensor
    exact: Tensor


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Choices of the values of a feature, and their times in steps (`analysis.responses`).

    - ``summary.csv`` (statistic, value, feature): see `summarise`;
    - ``inputs.csv``, a row for each input: its own ``value``, the commonest ``choice``, its
      ``probability`` among responses and ``exact``, by the exact posterior, of which ``entropy`` of
      P(choice | x) is, nats; ``sentence_entropy`` nats; ``responded``; ``time``, ``sd``, ``q10`` …
      ``q90`` of the times of responses; ``correct``; ``diffusion_time``, see `fit_diffusion`;
    - ``deadlines.csv`` (t, correct, agreement): of the choices read at t, the share that is right,
      and the mean over inputs of the overlap Σ min of their distribution with the exact one;
    - ``conditional.csv`` (time, correct, low, high, n): see `conditional_accuracy`;
    - ``noise.csv`` (noise, correct, responded, time, sd): the noise of all steps multiplied;
    - ``starts.csv`` (start, congruent, other, correct, responded, time): trajectories that begin on
      the way to z0 of another input, of the same value or not;
    - ``pushes.csv`` (t, size, changed, low, high): share of choices T steps after t that are not
      those of a twin from the same state; a push of `size` half distances to another choice.

    Raises ValueError where the model has no attractors or the data no such feature.
    """
    model = run.model
    batch = run.data.batch(config.inputs)
    e = model.encode(batch.x)
    names = [f.name for f in getattr(run.data, "features", ()) if f.categorical]
    each = [choices(run, name, config) for name in names if not config.feature]
    each = each or [choices(run, config.feature, config)]

    def uncertainty(one: Choices) -> float:
        return float(entropy(exact_choices(model, e.distribution, one)).mean())

    chosen = max(each, key=uncertainty) if len(each) > 1 else each[0]
    values = run.data.feature_values(batch)[:, chosen.column]
    own = values.nan_to_num(-1).long()
    trials = make_trials(model, e, own, chosen, config.draws)
    inputs = by_input(model, e, trials, chosen)
    fitted = fit_diffusion(inputs)
    inputs["diffusion_time"], inputs["diffusion_probability"] = fitted.time, fitted.probability
    if math.isnan(fitted.a):
        logger.warning("no diffusion: the best one has the same mean time for all inputs")
    quantiles = diffusion_quantiles(fitted)
    for k, q in enumerate(QUANTILES):
        inputs[f"diffusion_q{100 * q:.0f}"] = quantiles[:, k]
    few = max(1, config.draws // 8)
    return {
        "summary.csv": summarise(chosen.feature, trials, inputs, fitted),
        "inputs.csv": inputs,
        "deadlines.csv": by_deadline(trials),
        "conditional.csv": conditional_accuracy(trials, resample(batch.x)),
        "noise.csv": by_noise(model, e, own, chosen, few),
        "starts.csv": by_start(model, e, own, chosen, few),
        "pushes.csv": by_push(model, e, chosen, few),
    }


def make_trials(
    model: AttractorModel, e: Encoding, own: Tensor, chosen: Choices, draws: int
) -> Trials:
    """Trajectories of the inputs e (B), and their exact choices."""
    z = simulate(model, e.z0.repeat_interleave(draws, 0))
    responses, at = follow(model, z, chosen.category)
    return Trials(
        _by_draws(responses, draws),
        at.unflatten(1, (-1, draws)),
        own,
        exact_choices(model, e.distribution, chosen),
    )


def _by_draws(responses: Responses, draws: int) -> Responses:
    """Of trajectories (B · draws,), as (B, draws)."""
    return Responses(*(part.unflatten(0, (-1, draws)) for part in responses))


def entropy(p: Tensor) -> Tensor:
    """(…) of probabilities p (…, choices), nats."""
    return -torch.special.xlogy(p, p).sum(-1)


def right(choice: Tensor, own: Tensor) -> Tensor:
    """Whether choices (B, draws) are the inputs' own values (B,); NaN where one is not known."""
    known = (choice >= 0) & (own >= 0)[:, None]
    return torch.where(known, (choice == own[:, None]).double(), torch.nan)


def by_input(model: AttractorModel, e: Encoding, trials: Trials, chosen: Choices) -> pd.DataFrame:
    choice, time = trials.responses
    p, exact = shares(choice, len(chosen.names)), trials.exact
    most = p.nan_to_num(-1).argmax(-1)
    quantiles = time.nanquantile(torch.tensor(QUANTILES), -1)
    known = ~time.isnan()
    mean = time.nanmean(-1)
    variance = (time - mean[:, None]).square().nanmean(-1)
    of_sentences = exact_entropy(model, e.distribution)
    if of_sentences is None:
        of_sentences = torch.full((len(mean),), torch.nan)
    columns: dict[str, Any] = {
        "value": [chosen.names[v] if v >= 0 else "" for v in trials.own.tolist()],
        "choice": [chosen.names[c] for c in most.tolist()],
        "probability": p.gather(-1, most[:, None])[:, 0],
        "exact": exact.gather(-1, most[:, None])[:, 0],
        "entropy": entropy(exact),
        "sentence_entropy": of_sentences,
        "responded": known.double().mean(-1),
        "time": mean,
        "sd": variance.sqrt(),
    }
    columns |= {f"q{100 * q:.0f}": part for q, part in zip(QUANTILES, quantiles, strict=True)}
    columns["correct"] = right(choice, trials.own).nanmean(-1)
    return pd.DataFrame({k: v.tolist() if isinstance(v, Tensor) else v for k, v in columns.items()})


class Diffusion(NamedTuple):
    """A diffusion to two bounds, the same for all inputs: the distance `a` of the bounds, the
    drift per nat of log odds `k`, and the time `t0` of all else; of each input the `drift`, the
    mean time, and the probability of the upper bound.
    """

    a: float
    k: float
    t0: float
    drift: np.ndarray
    time: np.ndarray
    probability: np.ndarray


def diffusion_moments(v: np.ndarray, a: float) -> tuple[np.ndarray, np.ndarray]:
    r"""P(upper bound) and mean decision time of a diffusion of unit noise, started half way between
    bounds that are a apart, of drift v:

    .. math:: P = \frac{1}{1 + e^{-a v}}, \qquad E[\tau] = \frac{a}{2 v} \tanh \frac{a v}{2}.

    >>> p, time = diffusion_moments(np.array([0.0, 1.0]), 2.0)
    >>> [round(float(x), 3) for x in (*p, *time)]
    [0.5, 0.881, 1.0, 0.762]
    """
    half = np.clip(a * v / 2, -300, 300)
    small = np.abs(half) < 1e-4
    ratio = np.where(small, 1 - half**2 / 3, np.tanh(half) / np.where(small, 1.0, half))
    return 1 / (1 + np.exp(-2 * half)), a**2 / 4 * ratio


TERMS = 10  # of the series, as many as times up to a² need, by which 0.99 or more have passed
EVIDENT = 1e-3  # least standard deviation of fitted mean times, in that of the times


def first_passage_cdf(t: float, v: float, a: float) -> float:
    r"""The probability that the diffusion of `diffusion_moments` has reached a bound by time t:

    .. math:: F(t) = 2 \cosh(v b_0) \sum_{k \ge 0} (-1)^k \Big[
        e^{-v b_k} \Phi\Big(\frac{v t - b_k}{\sqrt t}\Big) +
        e^{v b_k} \Phi\Big(\frac{-v t - b_k}{\sqrt t}\Big)\Big], \quad b_k = (k + \tfrac12) a.

    Source: the method of images; Feller (1968), "An introduction to probability theory", XIV.
    """
    b, v = (np.arange(TERMS) + 0.5) * a, abs(v)
    direct = np.exp(v * (b[0] - b)) * ndtr((v * t - b) / t**0.5)
    image = np.exp(v * (b[0] + b) + log_ndtr(-(v * t + b) / t**0.5))
    return float((1 + math.exp(-v * a)) * ((-1.0) ** np.arange(TERMS) @ (direct + image)))


def fit_diffusion(inputs: pd.DataFrame) -> Diffusion:
    """The diffusion whose choice probabilities and mean times are nearest to those of all inputs:
    least squares, each in units of its standard deviation over inputs; the drift of an input is k
    times the log odds of its commonest choice by the exact posterior.

    At a given a k times are linear in t0 and a², which are 0 or more. NaN where the best diffusion
    has one mean time for all inputs: bounds that meet, or no drift, say nothing of times.
    """
    exact = inputs["exact"].clip(1e-3, 1 - 1e-3)
    odds, p, time = (np.asarray(x, float) for x in (
        np.log(exact / (1 - exact)), inputs["probability"], inputs["time"],
    ))  # fmt: skip
    known = np.isfinite(p) & np.isfinite(time)
    none = Diffusion(math.nan, math.nan, math.nan, *np.full((3, len(p)), math.nan))
    if not known.any():
        return none
    scale = [max(float(x[known].std()), 1e-3) for x in (p, time)]

    def best(product: float) -> tuple[float, np.ndarray]:  # a k; the loss, and t0 and a²
        upper, decision = diffusion_moments(product * odds[known], 1.0)
        of_time = np.stack([np.ones(len(decision)), decision], 1)
        parts, error = nnls(of_time, time[known])
        errors = ((upper - p[known]) / scale[0]) ** 2
        return float(errors.sum() + (error / scale[1]) ** 2), parts

    log_product = brute(lambda x: best(math.exp(float(x[0])))[0], [slice(-5, 5, 0.1)]).item()
    product = math.exp(log_product)
    t0, square = best(product)[1].tolist()
    upper, decision = diffusion_moments(product * odds, 1.0)
    total = t0 + square * decision
    if total[known].std() < EVIDENT * scale[1]:
        return none
    a = square**0.5
    return Diffusion(a, product / a, t0, product / a * odds, total, upper)


def diffusion_quantiles(fitted: Diffusion) -> np.ndarray:
    """(B, quantiles) of the times of a diffusion, which are the same for both bounds."""
    if math.isnan(fitted.a):
        return np.full((len(fitted.drift), len(QUANTILES)), math.nan)
    times = [
        brentq(lambda u, v=v, q=q: first_passage_cdf(u, v, 1.0) - q, 1e-6, 1.0)
        for v in fitted.drift * fitted.a
        for q in QUANTILES
    ]
    return fitted.t0 + fitted.a**2 * np.reshape(times, (-1, len(QUANTILES)))


def by_deadline(trials: Trials) -> pd.DataFrame:
    n = trials.exact.shape[-1]
    rows = []
    for t, choice in enumerate(trials.at):
        overlap = torch.minimum(shares(choice, n), trials.exact).sum(-1)
        correct = right(choice, trials.own).nanmean()
        rows.append({"t": t, "correct": float(correct), "agreement": float(overlap.mean())})
    return pd.DataFrame(rows)


def conditional_accuracy(trials: Trials, times: Tensor) -> pd.DataFrame:
    """Right among responses, by their time: those of each input in groups of equal size, from its
    earliest to its latest. Means over n inputs, and 95 % bootstrap intervals by `times` of
    `resample`. (Of all responses together the late ones would be those of hard inputs.)
    """
    correct, time = right(trials.responses.choice, trials.own), trials.responses.time.double()
    groups = torch.full((2, len(time), GROUPS), torch.nan, dtype=torch.float64)
    for k, known in enumerate(~correct.isnan()):
        if known.sum() >= GROUPS:
            order = time[k, known].argsort(stable=True)
            for i, x in enumerate((time, correct)):
                parts = x[k, known][order].tensor_split(GROUPS)
                groups[i, k] = torch.stack([part.mean() for part in parts])
    mean, low, high = bootstrap(groups[1], times)
    n = int((~groups[1, :, 0].isnan()).sum())
    return pd.DataFrame({
        "time": groups[0].nanmean(0), "correct": mean, "low": low, "high": high, "n": n,
    })  # fmt: skip


def within(time: Tensor) -> tuple[float, float]:
    """Standard deviation and skewness of times (B, draws) of the same input, means over inputs."""
    centred = time.double() - time.double().nanmean(-1, keepdim=True)
    variance = centred.square().nanmean(-1)
    skewness = (centred**3).nanmean(-1) / variance**1.5
    return float(variance.sqrt().nanmean()), float(skewness.nanmean())


def _row(responses: Responses, own: Tensor) -> dict[str, float]:
    """Share of right choices among responses, of responses, and mean and sd of their times."""
    return {
        "correct": float(right(responses.choice, own).nanmean()),
        "responded": float((~responses.time.isnan()).double().mean()),
        "time": float(responses.time.nanmean()),
        "sd": within(responses.time)[0],
    }


def by_noise(
    model: AttractorModel, e: Encoding, own: Tensor, chosen: Choices, draws: int
) -> pd.DataFrame:
    rows = []
    for noise in NOISE:
        z = simulate(model, e.z0.repeat_interleave(draws, 0), noise=noise)
        result = _by_draws(respond(model, z, chosen.category), draws)
        rows.append({"noise": noise} | _row(result, own))
    return pd.DataFrame(rows)


def by_start(
    model: AttractorModel, e: Encoding, own: Tensor, chosen: Choices, draws: int
) -> pd.DataFrame:
    """Of each input another of the same value, and one of another value, where there is any."""
    rows = []
    for congruent in (True, False):
        alike = (own[:, None] == own) == congruent
        alike &= (own >= 0)[:, None] & (own >= 0) & ~torch.eye(len(own), dtype=torch.bool)
        kept = alike.any(-1).nonzero()[:, 0]
        if not len(kept):
            continue
        other = torch.multinomial(alike[kept].double(), 1)[:, 0]
        for start in STARTS:
            z0 = torch.lerp(e.z0[kept], e.z0[other], start) + model.onset.vector
            z = simulate(
                model,
                e.z0[kept].repeat_interleave(draws, 0),
                start=z0.repeat_interleave(draws, 0),
            )
            result = _by_draws(respond(model, z, chosen.category), draws)
            share = right(result.choice, own[other]).nanmean()
            row = {"start": start, "congruent": congruent, "other": float(share)}
            rows.append(row | _row(result, own[kept]))
    return pd.DataFrame(rows)


def by_push(model: AttractorModel, e: Encoding, chosen: Choices, draws: int) -> pd.DataFrame:
    """States at t of trajectories, pushed, and a twin of each that is not: both go on for T."""
    z0 = e.z0.repeat_interleave(draws, 0)
    z = simulate(model, z0, model.steps)
    unit = choice_distance(model, e, chosen)
    rows = []
    times = sorted({round(model.steps * k / PUSHED) for k in range(PUSHED + 1)})
    for t in times:
        state = z[t]
        twin = _later(model, state, z0, t, chosen)
        for size in PUSHES:
            pushed = state + size * unit * random_directions(model, state)
            changed = int((_later(model, pushed, z0, t, chosen) != twin).sum())
            low, high = binomial_interval(torch.tensor(changed), len(twin))
            rows.append({
                "t": t, "size": size, "changed": changed / len(twin),
                "low": float(low), "high": float(high),
            })  # fmt: skip
    return pd.DataFrame(rows)


def _later(model: AttractorModel, z: Tensor, z0: Tensor, t: int, chosen: Choices) -> Tensor:
    """(n,) the choices T steps after time t of states z (n, d)."""
    end = simulate(model, z0, model.steps, start=z, time=t)[-1]
    return choices_of(model, nearest_sentence(model, end).s, chosen.category)


def choice_distance(model: AttractorModel, e: Encoding, chosen: Choices) -> float:
    """The median, over sentences read of the inputs, of half the distance of ẑ_s to the nearest
    of another choice among them.
    """
    z = simulate(model, e.z0, model.steps)[-1]
    s = model.readout(z, e.z0).sample()
    embedding, choice = model.embed(s), chosen.category(s)
    distance = torch.cdist(embedding, embedding).masked_fill(choice[:, None] == choice, math.inf)
    nearest = distance.amin(-1)
    nearest = nearest[nearest.isfinite()]
    return float(nearest.median()) / 2 if len(nearest) else noise_radius(model)


def summarise(
    feature: str, trials: Trials, inputs: pd.DataFrame, fitted: Diffusion
) -> pd.DataFrame:
    """Statistics over inputs and responses, of choices of a feature's values.

    - ``responded``: share of trajectories with a response; ``at_once``: of these, at step 0 or 1;
      ``time``: mean of their times; ``sd``, ``skewness``: of those of an input, see `within`;
    - ``correct``: right among responses; ``correct_exact``: of draws from the exact posterior;
    - ``agreement``: the mean overlap of the choices of responses with the exact posterior's;
    - ``time_entropy``, ``sd_entropy``: rank correlation (Spearman) over inputs of mean and sd of
      the time with the entropy of the exact P(choice | x); ``time_sentence_entropy`` with that of
      P(s | x);
    - ``errors_later``: mean time of wrong responses less that of right ones to the same input, in
      steps, mean over inputs with both;
    - ``diffusion_a``, ``_k``, ``_t0``: of `fit_diffusion`; ``diffusion_variance``: the part of the
      variance of mean times over inputs that it explains, negative where worse than their mean;
      ``diffusion_correct``: its share of right choices, where the lower bound stands for all
      choices but the commonest, in proportion to their exact probabilities.
    """
    choice, time = trials.responses
    known = time[~time.isnan()]
    correct = right(choice, trials.own)
    exact = trials.exact.gather(-1, trials.own.clamp(min=0)[:, None])[:, 0]
    slow, fast = (torch.where(correct == k, time, torch.nan).nanmean(-1) for k in (0, 1))
    upper = torch.from_numpy(fitted.probability)
    common = torch.tensor(inputs["exact"].to_numpy(float))
    is_common = torch.tensor((inputs["choice"] == inputs["value"]).to_numpy())
    other = (1 - upper) * exact / (1 - common).clamp(min=1e-12)
    sd, skewness = within(time)
    overlap = torch.minimum(shares(choice, trials.exact.shape[-1]), trials.exact).sum(-1)
    error, spread = inputs["time"] - fitted.time, float(inputs["time"].var(ddof=0))
    values = {
        "responded": len(known) / time.numel(),
        "at_once": float((known <= 1).double().mean()),
        "time": float(known.mean()),
        "sd": sd,
        "skewness": skewness,
        "correct": float(correct.nanmean()),
        "correct_exact": float(exact[trials.own >= 0].mean()),
        "agreement": float(overlap.nanmean()),
        "time_entropy": _rank(inputs, "time", "entropy"),
        "sd_entropy": _rank(inputs, "sd", "entropy"),
        "time_sentence_entropy": _rank(inputs, "time", "sentence_entropy"),
        "errors_later": float((slow - fast).nanmean()),
        "diffusion_a": fitted.a,
        "diffusion_k": fitted.k,
        "diffusion_t0": fitted.t0,
        "diffusion_variance": float(1 - (error**2).mean() / spread) if spread else math.nan,
        "diffusion_correct": float(torch.where(is_common, upper, other)[trials.own >= 0].mean()),
    }
    return pd.DataFrame({"statistic": list(values), "value": list(values.values())}).assign(
        feature=feature
    )


def _rank(inputs: pd.DataFrame, a: str, b: str) -> float:
    pair = inputs[[a, b]].dropna()
    if len(pair) < 3 or pair.nunique().min() < 2:
        return math.nan
    return float(spearmanr(pair[a], pair[b]).statistic)


# -- figures ---------------------------------------------------------------------------------------


def draw(tables: dict[str, Any]) -> dict[str, Figure]:
    """Times, and what moves choices and times."""
    return {"times": draw_times(tables), "effects": draw_effects(tables)}


def draw_times(tables: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    left, middle, last = figure.subplots(1, 3)
    inputs = tables["inputs.csv"]
    summary = tables["summary.csv"].set_index("statistic")["value"]
    fits = not math.isnan(summary["diffusion_correct"])
    known = inputs.dropna(subset=["time"]).sort_values("probability")
    rows = np.array_split(np.arange(len(known)), GROUPS)
    groups = [known.iloc[part] for part in rows if len(part)]
    for q in QUANTILES:
        x = [part["probability"].mean() for part in groups]
        name = f"q{100 * q:.0f}"
        left.plot(x, [part[name].mean() for part in groups], "o-", color=BLUE, markersize=4)
        x = [part["diffusion_probability"].mean() for part in groups]
        y = [part[f"diffusion_{name}"].mean() for part in groups]
        left.plot(x, y, "x--", color=CRIMSON, linewidth=0.8)
    feature = str(tables["summary.csv"]["feature"].iloc[0])
    left.set(xlabel="P(commonest choice)", ylabel="time, steps")
    left.set_title(f"(A) Choice of {plain(feature)}: time by probability")
    note(left, "blue: model; red: diffusion" if fits else "no diffusion fits", fontsize=8)
    middle.plot(inputs["entropy"], inputs["time"], "o", color=BLUE, markersize=4, label="model")
    middle.plot(
        inputs["entropy"], inputs["diffusion_time"], "x", color=CRIMSON, markersize=4,
        label="diffusion" if fits else None,
    )  # fmt: skip
    middle.set(xlabel="entropy of the exact P(choice | input), nats", ylabel="mean time, steps")
    middle.set_title(f"(B) Rank correlation {summary['time_entropy']:.2f}")
    middle.legend()
    deadlines, conditional = tables["deadlines.csv"], tables["conditional.csv"]
    last.plot(deadlines["t"], deadlines["correct"], color=BLUE, label="at a deadline")
    last.vlines(conditional["time"], conditional["low"], conditional["high"], color=ORANGE)
    last.plot(
        conditional["time"], conditional["correct"], "o", color=ORANGE, markersize=4,
        label="of responses, by time",
    )  # fmt: skip
    if fits:
        share = summary["diffusion_correct"]
        last.axhline(share, color=CRIMSON, linestyle="--", label="diffusion, any time")
    last.axhline(summary["correct_exact"], color=GREY, linestyle=":", label="exact posterior")
    last.set(title="(C) Speed and accuracy", xlabel="time, steps", ylabel="share of right choices")
    last.legend()
    return figure


def draw_effects(tables: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(13, 5), layout="constrained")
    left, middle, last = figure.subplots(1, 3)
    noise, starts, pushes = (tables[f"{name}.csv"] for name in ("noise", "starts", "pushes"))
    longest = max(noise["time"].max(), starts["time"].max(), 1e-9)
    for name, colour, label in (
        ("correct", BLUE, "right choices"), ("responded", GREEN, "responses"),
    ):  # fmt: skip
        left.plot(noise["noise"], noise[name], "o-", color=colour, label=label)
    left.plot(noise["noise"], noise["time"] / longest, "o--", color=ORANGE, label="mean time *")
    left.set(title="(A) Noise", xlabel="noise of a step, multiplied", ylim=(0, 1.05))
    for congruent, part in starts.groupby("congruent"):
        colours = (GREY, GREY) if congruent else (BLUE, ORANGE)
        which = "same value" if congruent else "another value"
        middle.plot(part["start"], part["other"], "o-", color=colours[0], label=f"chosen: {which}")
        middle.plot(
            part["start"], part["time"] / longest, "o--", color=colours[1], label=f"time *: {which}"
        )
    middle.set(title="(B) Start on the way to another input", ylim=(0, 1.05))
    middle.set_xlabel("start, from z0 of the input to z0 of the other")
    for axes in (left, middle):
        note(axes, f"* in {longest:.1f} steps", "left", 0.06, fontsize=8)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=8)
    shades = (GREY, GREEN, BLUE, PURPLE)
    for (size, part), colour in zip(pushes.groupby("size"), shades, strict=False):
        last.plot(part["t"], part["changed"], "o-", color=colour, markersize=4, label=f"{size:g}")
        last.fill_between(
            part["t"], part["low"], part["high"], color=colour, alpha=0.2, linewidth=0
        )
    last.set(title="(C) A push at time t", xlabel="t, steps", ylabel="choices that change")
    last.set_ylim(0, None)
    last.legend(
        title="size, in half distances to another choice", fontsize=8, ncols=4,
        loc="upper center", bbox_to_anchor=(0.5, -0.16),
    )  # fmt: skip
    return figure
