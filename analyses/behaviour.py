"""Choices and response times: what is chosen of an input, when, and what a push changes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import pandas as pd
import torch
from scipy.stats import spearmanr
from torch import Tensor

from plot_attractors.analysis import shape
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
from plot_attractors.measures.attractors import binomial_interval
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

TITLE = "Choices and response times"


@dataclass(frozen=True)
class Config(DecoderTraining):
    feature: str = setting("", "whose value is the choice; default: the least certain one")
    inputs: Size = setting(128, "training inputs")
    draws: Size = setting(128, "trajectories of each; an eighth for each push")


NEEDS = shape.ATTRACTORS & shape.CATEGORIES


PUSHES = (0.0, 0.5, 1.0, 2.0)  # in half the median distance of ẑ_s to the nearest of another choice
TIMES = "time", "last_change"
PUSHED = 5  # times from 0 to T at which states are pushed


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """Choices of the values of a feature, and their times in steps (`analysis.responses`).

    - ``summary.csv`` (statistic, value, feature): see `summarise`;
    - ``inputs.csv``, a row for each input: see `by_input`;
    - ``deadlines.csv`` (t, correct, agreement): of the choices read at t, the share that is right,
      and the mean over inputs of the overlap Σ min of their distribution with the exact one;
    - ``pushes.csv`` (t, direction, size, changed, low, high): share of choices T steps after t that
      are not those of a twin from the same state, size 0 being the twins' own; a push of `size`
      half distances to another choice, in a random direction or towards the nearest embedding of
      another choice.

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
    z = simulate(model, e.z0.repeat_interleave(config.draws, 0))
    responses = respond(model, z, chosen.category).by_draws(config.draws)
    exact = exact_choices(model, e.distribution, chosen)
    inputs = by_input(responses, exact, own, chosen)
    return {
        "summary.csv": summarise(chosen.feature, responses, exact, own, inputs),
        "inputs.csv": inputs,
        "deadlines.csv": by_deadline(responses, exact, own),
        "pushes.csv": by_push(model, e, chosen, max(1, config.draws // 8)),
    }


def entropy(p: Tensor) -> Tensor:
    """(…) of probabilities p (…, choices), nats."""
    return -torch.special.xlogy(p, p).sum(-1)


def by_input(responses: Responses, exact: Tensor, own: Tensor, chosen: Choices) -> pd.DataFrame:
    """A row for each input: its own ``value``; the commonest ``choice``, its ``probability`` among
    responses and ``exact``, by the exact posterior, of which ``entropy`` of P(choice | x) is, nats;
    ``responded``; ``time``, the mean of the times of responses; ``last_change`` of the choice, the
    mean of all; ``correct``.
    """
    p, time = shares(responses.choice, len(chosen.names)), responses.time
    most = p.nan_to_num(-1).argmax(-1)
    return pd.DataFrame({
        "value": [chosen.names[v] if v >= 0 else "" for v in own.tolist()],
        "choice": [chosen.names[c] for c in most.tolist()],
        "probability": p.gather(-1, most[:, None])[:, 0],
        "exact": exact.gather(-1, most[:, None])[:, 0],
        "entropy": entropy(exact),
        "responded": (~time.isnan()).double().mean(-1),
        "time": time.nanmean(-1),
        "last_change": responses.last_change.mean(-1),
        "correct": right(responses.choice, own).nanmean(-1),
    })  # fmt: skip


def by_deadline(responses: Responses, exact: Tensor, own: Tensor) -> pd.DataFrame:
    rows = []
    for t, choice in enumerate(responses.course):
        overlap = torch.minimum(shares(choice, exact.shape[-1]), exact).sum(-1)
        correct = right(choice, own).nanmean()
        rows.append({"t": t, "correct": float(correct), "agreement": float(overlap.mean())})
    return pd.DataFrame(rows)


def by_push(model: AttractorModel, e: Encoding, chosen: Choices, draws: int) -> pd.DataFrame:
    """States at t of trajectories, pushed, and a twin of each that is not: both go on for T."""
    z0 = e.z0.repeat_interleave(draws, 0)
    z = simulate(model, z0, model.steps)
    s = model.readout(simulate(model, e.z0, model.steps)[-1], e.z0).sample()
    embedding, choice = model.embed(s), chosen.category(s)
    unit = choice_distance(model, embedding, choice)
    rows = []
    times = sorted({round(model.steps * k / PUSHED) for k in range(PUSHED + 1)})
    for t in times:
        state = z[t]
        twin = _later(model, state, z0, t, chosen)
        to = nearest_other(state, choices_at(model, state, chosen.category), embedding, choice)
        directions = {"random": random_directions(model, state), "other choice": to}
        for (direction, way), size in product(directions.items(), PUSHES):
            pushed = state + size * unit * way
            changed = int((_later(model, pushed, z0, t, chosen) != twin).sum())
            low, high = binomial_interval(torch.tensor(changed), len(twin))
            rows.append({
                "t": t, "direction": direction, "size": size, "changed": changed / len(twin),
                "low": float(low), "high": float(high),
            })  # fmt: skip
    return pd.DataFrame(rows)


def _later(model: AttractorModel, z: Tensor, z0: Tensor, t: int, chosen: Choices) -> Tensor:
    """(n,) the choices T steps after time t of states z (n, d)."""
    end = simulate(model, z0, model.steps, start=z, time=t)[-1]
    return choices_at(model, end, chosen.category)


def nearest_other(z: Tensor, own: Tensor, embedding: Tensor, choice: Tensor) -> Tensor:
    """(n, …) unit vectors from states z (n, d), or with their memory, whose choices are `own` (n,),
    to the nearest of the embeddings (m, d) of another choice (m,); 0 where there is none.
    """
    latent = z[:, : embedding.shape[1]]
    distance = torch.cdist(latent, embedding).masked_fill(own[:, None] == choice, math.inf)
    way = embedding[distance.argmin(-1)] - latent
    way = way / way.norm(dim=-1, keepdim=True).clamp(min=1e-9)
    way = torch.where(distance.amin(-1, keepdim=True).isfinite(), way, 0.0)
    return torch.nn.functional.pad(way, (0, z.shape[1] - way.shape[1]))


def choice_distance(model: AttractorModel, embedding: Tensor, choice: Tensor) -> float:
    """The median, over sentences read of the inputs, of half the distance of ẑ_s (n, d) to the
    nearest of another choice (n,) among them.
    """
    distance = torch.cdist(embedding, embedding).masked_fill(choice[:, None] == choice, math.inf)
    nearest = distance.amin(-1)
    nearest = nearest[nearest.isfinite()]
    return float(nearest.median()) / 2 if len(nearest) else noise_radius(model)


def summarise(
    feature: str, responses: Responses, exact: Tensor, own: Tensor, inputs: pd.DataFrame
) -> pd.DataFrame:
    """Statistics over inputs and responses, of choices of a feature's values.

    - ``responded``: share of trajectories with a response; ``at_once``: of these, at step 0 or 1;
      ``time``: mean of their times;
    - ``correct``: right among responses; ``correct_exact``: of draws from the exact posterior;
    - ``agreement``: the mean overlap of the choices of responses with the exact posterior's;
    - ``last_change``: mean over all trajectories of the last step up to T at which the choice
      changes: later where choices are uncertain, as in any course of draws; times of responses are
      for the most part those of arrival;
    - ``time_entropy``, ``last_change_entropy``: rank correlation (Spearman) over inputs of the mean
      time, or last change, and the entropy of the exact P(choice | x).
    """
    choice, time = responses.choice, responses.time
    known = time[~time.isnan()]
    exact_own = exact.gather(-1, own.clamp(min=0)[:, None])[:, 0]
    overlap = torch.minimum(shares(choice, exact.shape[-1]), exact).sum(-1)
    values = {
        "responded": len(known) / time.numel(),
        "at_once": float((known <= 1).double().mean()),
        "time": float(known.mean()),
        "correct": float(right(choice, own).nanmean()),
        "correct_exact": float(exact_own[own >= 0].mean()),
        "agreement": float(overlap.nanmean()),
        "last_change": float(responses.last_change.mean()),
        **{f"{name}_entropy": _rank(inputs[[name, "entropy"]].dropna()) for name in TIMES},
    }
    return pd.DataFrame({"statistic": list(values), "value": list(values.values())}).assign(
        feature=feature
    )


def _rank(pairs: pd.DataFrame) -> float:
    if len(pairs) < 3 or pairs.nunique().min() < 2:
        return math.nan
    return float(spearmanr(*pairs.to_numpy().T).statistic)
