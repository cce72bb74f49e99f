"""Choices and response times: what is chosen of an input, when, and what moves both."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.stats import spearmanr
from torch import Tensor

from plot_attractors.analysis import shape
from plot_attractors.analysis.ask import exact_entropy
from plot_attractors.analysis.probes import DecoderTraining
from plot_attractors.analysis.responses import (
    Choices,
    Responses,
    choices,
    choices_at,
    exact_choices,
    respond,
    right,
    shares,
    simulate,
)
from plot_attractors.analysis.sampling import noise_radius, random_directions
from plot_attractors.analysis.style import BLUE, GREEN, GREY, ORANGE, PURPLE, plain
from plot_attractors.measures.attractors import binomial_interval
from plot_attractors.measures.bootstrap import bootstrap, resample
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

TITLE = "Choices and response times"
CAPTIONS = {
    "times": (
        "A response is the first time at which a state is within 2 ε√d of an embedding and keeps "
        "its choice, the value of a feature, for three steps. (A) Mean time of each input against "
        "the entropy of its exact P(choice | input), and their rank correlation. (B) Share of "
        "right choices: at a deadline, read at t (line), and of responses, by their time among "
        "those of the same input, in fifths (dots, means over inputs with 95 % bootstrap "
        "intervals); dotted: draws from the exact posterior."
    ),
    "effects": (
        "(A) Noise of every step multiplied: right choices, and responses. (B) A start between z0 "
        "of the input (0) and z0 of another (1), of the same value or another: share of responses "
        "that choose the other's value. (C) A push in a random direction at time t, of a size in "
        "half distances to another choice: share of trajectories that choose otherwise T steps "
        "later, beside a twin that was not pushed; the lowest line is of twins without a push."
    ),
}


@dataclass(frozen=True)
class Config(DecoderTraining):
    feature: str = setting("", "whose value is the choice; default: the least certain one")
    inputs: Size = setting(128, "training inputs")
    draws: Size = setting(128, "trajectories of each; an eighth for each noise, start and push")


NEEDS = shape.ATTRACTORS & shape.CATEGORIES


# -- measures --------------------------------------------------------------------------------------

QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
NOISE = (0.5, 0.75, 1.0, 1.5, 2.0)
STARTS = (0.0, 0.25, 0.5, 0.75)
PUSHES = (0.0, 0.5, 1.0, 2.0)  # in half the median distance of ẑ_s to the nearest of another choice
COLOURS = (GREY, GREEN, BLUE, PURPLE)  # of pushes by their size
PUSHED = 5  # times from 0 to T at which states are pushed
GROUPS = 5  # of responses


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Choices of the values of a feature, and their times in steps (`analysis.responses`).

    - ``summary.csv`` (statistic, value, feature): see `summarise`;
    - ``inputs.csv``, a row for each input: see `by_input`;
    - ``deadlines.csv`` (t, correct, agreement): of the choices read at t, the share that is right,
      and the mean over inputs of the overlap Σ min of their distribution with the exact one;
    - ``conditional.csv`` (time, correct, low, high, n): see `conditional_accuracy`;
    - ``noise.csv`` (noise, correct, responded, time, sd): the noise of all steps multiplied;
    - ``starts.csv`` (start, congruent, other, correct, responded, time, sd): trajectories that
      begin on the way to z0 of another input, of the same value or not;
    - ``pushes.csv`` (t, size, changed, low, high): share of choices T steps after t that are not
      those of a twin from the same state; a push of `size` half distances to another choice.

    Raises ValueError where the data have no such feature.
    """
    model, features = run.model, run.data.features
    batch = run.data.batch(config.inputs)
    e = model.encode(batch.x)
    names = [config.feature] if config.feature else [f.name for f in features if f.categorical]
    each = [choices(run, name, config) for name in names]

    def uncertainty(one: Choices) -> float:
        return float(entropy(exact_choices(model, e.distribution, one)).mean())

    chosen = max(each, key=uncertainty) if len(each) > 1 else each[0]
    own = run.data.feature_values(batch)[:, chosen.column].nan_to_num(-1).long()
    responses = responses_of(model, e.z0, chosen, config.draws)
    exact = exact_choices(model, e.distribution, chosen)
    inputs = by_input(model, e, responses, exact, own, chosen)
    few = max(1, config.draws // 8)
    return {
        "summary.csv": summarise(chosen.feature, responses, exact, own, inputs),
        "inputs.csv": inputs,
        "deadlines.csv": by_deadline(responses, exact, own),
        "conditional.csv": conditional_accuracy(responses, own, resample(batch.x)),
        "noise.csv": by_noise(model, e, own, chosen, few),
        "starts.csv": by_start(model, e, own, chosen, few),
        "pushes.csv": by_push(model, e, chosen, few),
    }


def responses_of(
    model: AttractorModel,
    z0: Tensor,
    chosen: Choices,
    draws: int,
    noise: float = 1.0,
    start: Tensor | None = None,
) -> Responses:
    """(B, draws) responses of trajectories of inputs with z0 (B, d), see `simulate`."""
    start = None if start is None else start.repeat_interleave(draws, 0)
    z = simulate(model, z0.repeat_interleave(draws, 0), noise=noise, start=start)
    return respond(model, z, chosen.category).by_draws(draws)


def entropy(p: Tensor) -> Tensor:
    """(…) of probabilities p (…, choices), nats."""
    return -torch.special.xlogy(p, p).sum(-1)


def by_input(
    model: AttractorModel,
    e: Encoding,
    responses: Responses,
    exact: Tensor,
    own: Tensor,
    chosen: Choices,
) -> pd.DataFrame:
    """A row for each input: its own ``value``; the commonest ``choice``, its ``probability`` among
    responses and ``exact``, by the exact posterior, of which ``entropy`` of P(choice | x) is, nats;
    ``sentence_entropy``, of P(s | x), nats; ``responded``; ``time``, ``sd``, ``q10`` … ``q90`` of
    the times of responses; ``correct``.
    """
    p, time = shares(responses.choice, len(chosen.names)), responses.time
    most = p.nan_to_num(-1).argmax(-1)
    quantiles = time.nanquantile(torch.tensor(QUANTILES), -1)
    mean = time.nanmean(-1)
    of_sentences = exact_entropy(model, e.distribution)
    if of_sentences is None:
        of_sentences = torch.full((len(mean),), torch.nan)
    columns: dict[str, Any] = {
        "value": [chosen.names[v] if v >= 0 else "" for v in own.tolist()],
        "choice": [chosen.names[c] for c in most.tolist()],
        "probability": p.gather(-1, most[:, None])[:, 0],
        "exact": exact.gather(-1, most[:, None])[:, 0],
        "entropy": entropy(exact),
        "sentence_entropy": of_sentences,
        "responded": (~time.isnan()).double().mean(-1),
        "time": mean,
        "sd": (time - mean[:, None]).square().nanmean(-1).sqrt(),
    }
    columns |= {f"q{100 * q:.0f}": part for q, part in zip(QUANTILES, quantiles, strict=True)}
    columns["correct"] = right(responses.choice, own).nanmean(-1)
    return pd.DataFrame({k: v.tolist() if isinstance(v, Tensor) else v for k, v in columns.items()})


def by_deadline(responses: Responses, exact: Tensor, own: Tensor) -> pd.DataFrame:
    rows = []
    for t, choice in enumerate(responses.course):
        overlap = torch.minimum(shares(choice, exact.shape[-1]), exact).sum(-1)
        correct = right(choice, own).nanmean()
        rows.append({"t": t, "correct": float(correct), "agreement": float(overlap.mean())})
    return pd.DataFrame(rows)


def conditional_accuracy(responses: Responses, own: Tensor, times: Tensor) -> pd.DataFrame:
    """Right among responses, by their time: those of each input in groups of equal size, from its
    earliest to its latest. Means over n inputs, and 95 % bootstrap intervals by `times` of
    `resample`. (Of all responses together the late ones would be those of hard inputs.)
    """
    correct, time = right(responses.choice, own), responses.time.double()
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


def spread(time: Tensor) -> float:
    """Standard deviation of times (B, draws) of the same input, mean over inputs."""
    centred = time.double() - time.double().nanmean(-1, keepdim=True)
    return float(centred.square().nanmean(-1).sqrt().nanmean())


def _row(responses: Responses, own: Tensor) -> dict[str, float]:
    """Share of right choices among responses, of responses, and mean and sd of their times."""
    return {
        "correct": float(right(responses.choice, own).nanmean()),
        "responded": float((~responses.time.isnan()).double().mean()),
        "time": float(responses.time.nanmean()),
        "sd": spread(responses.time),
    }


def by_noise(
    model: AttractorModel, e: Encoding, own: Tensor, chosen: Choices, draws: int
) -> pd.DataFrame:
    rows = []
    for noise in NOISE:
        result = responses_of(model, e.z0, chosen, draws, noise=noise)
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
            result = responses_of(model, e.z0[kept], chosen, draws, start=z0)
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
    return choices_at(model, end, chosen.category)


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
    feature: str, responses: Responses, exact: Tensor, own: Tensor, inputs: pd.DataFrame
) -> pd.DataFrame:
    """Statistics over inputs and responses, of choices of a feature's values.

    - ``responded``: share of trajectories with a response; ``at_once``: of these, at step 0 or 1;
      ``time``: mean of their times; ``sd``: of those of an input, mean over inputs;
    - ``correct``: right among responses; ``correct_exact``: of draws from the exact posterior;
    - ``agreement``: the mean overlap of the choices of responses with the exact posterior's;
    - ``time_entropy``, ``sd_entropy``: rank correlation (Spearman) over inputs of mean and sd of
      the time with the entropy of the exact P(choice | x); ``time_sentence_entropy`` with that of
      P(s | x).
    """
    choice, time = responses.choice, responses.time
    known = time[~time.isnan()]
    exact_own = exact.gather(-1, own.clamp(min=0)[:, None])[:, 0]
    overlap = torch.minimum(shares(choice, exact.shape[-1]), exact).sum(-1)
    values = {
        "responded": len(known) / time.numel(),
        "at_once": float((known <= 1).double().mean()),
        "time": float(known.mean()),
        "sd": spread(time),
        "correct": float(right(choice, own).nanmean()),
        "correct_exact": float(exact_own[own >= 0].mean()),
        "agreement": float(overlap.nanmean()),
        "time_entropy": _rank(inputs, "time", "entropy"),
        "sd_entropy": _rank(inputs, "sd", "entropy"),
        "time_sentence_entropy": _rank(inputs, "time", "sentence_entropy"),
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
    figure, (left, right) = shape.panels(2)
    inputs, feature = tables["inputs.csv"], str(tables["summary.csv"]["feature"].iloc[0])
    summary = tables["summary.csv"].set_index("statistic")["value"]
    left.plot(inputs["entropy"], inputs["time"], "o", color=BLUE, markersize=4)
    left.set(xlabel="entropy of the exact P(choice | input), nats", ylabel="mean time, steps")
    left.set_title(f"(A) Choice of {plain(feature)}: ρ = {summary['time_entropy']:.2f}")
    deadlines, conditional = tables["deadlines.csv"], tables["conditional.csv"]
    right.plot(deadlines["t"], deadlines["correct"], color=BLUE, label="at a deadline")
    right.vlines(conditional["time"], conditional["low"], conditional["high"], color=ORANGE)
    look: dict[str, Any] = {"color": ORANGE, "markersize": 4, "label": "of responses, by time"}
    right.plot(conditional["time"], conditional["correct"], "o", **look)
    right.axhline(summary["correct_exact"], color=GREY, linestyle=":", label="exact posterior")
    right.set(title="(B) Speed and accuracy", xlabel="time, steps", ylabel="share of right choices")
    right.legend()
    return figure


def draw_effects(tables: dict[str, Any]) -> Figure:
    figure, (left, middle, right) = shape.panels(3, 3, (4.3, 4))
    noise, starts, pushes = (tables[f"{name}.csv"] for name in ("noise", "starts", "pushes"))
    left.plot(noise["noise"], noise["correct"], "o-", color=BLUE, label="right choices")
    left.plot(noise["noise"], noise["responded"], "o-", color=GREEN, label="responses")
    left.set(title="(A) Noise", xlabel="noise of a step, multiplied", ylim=(0, 1.05))
    for congruent, part in starts.groupby("congruent"):
        label = "the same value" if congruent else "another value"
        colour = GREY if congruent else BLUE
        middle.plot(part["start"], part["other"], "o-", color=colour, label=label)
    middle.set(title="(B) Start on the way to another input", ylim=(0, 1.05))
    middle.set(xlabel="start, from z0 to z0 of the other", ylabel="choices of the other's value")
    for (size, part), colour in zip(pushes.groupby("size"), COLOURS, strict=False):
        right.plot(part["t"], part["changed"], "o-", color=colour, markersize=4, label=f"{size:g}")
        band = part["t"], part["low"], part["high"]
        right.fill_between(*band, color=colour, alpha=0.2, linewidth=0)
    right.set(title="(C) A push at time t", xlabel="t, steps", ylabel="choices that change")
    for axes in (left, middle, right):
        axes.legend(fontsize=8)
    return figure
