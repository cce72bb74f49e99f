"""Responses of a trained attractor model: what a trajectory chooses, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from pyro.distributions import Normal
from torch import Tensor
from torch.distributions import Categorical
from torch.nn.functional import one_hot

from plot_attractors.analysis.probes import DecoderTraining, feature_decoders
from plot_attractors.analysis.sampling import (
    exact_draws,
    is_listed,
    nearest_sentence,
    noise_radius,
    number_rows,
    number_sentences,
    path_log_weight,
)
from plot_attractors.measures.attractors import last_change
from plot_attractors.model.attractor import ROWS, AttractorModel, Encoding
from plot_attractors.runs import Run

RADIUS = 2.0  # in ε√d, of the neighbourhood of an embedding
HOLD = 3  # steps for which a choice must last
LENGTH = 2  # multiples of T up to which a response may come

Category = Callable[[Tensor], Tensor]
"""The choice (m,) int64 that each of sentences s (m, width) stands for."""


class Responses(NamedTuple):
    """Of trajectories (…): the choice int64, −1 where there is none, and its time in steps, NaN
    where there is none; the ``last_change``, the last time up to T at which the choice changes,
    which all have; and the ``course`` (L + 1, …), the choice of the sentence nearest at every time.
    """

    choice: Tensor
    time: Tensor
    last_change: Tensor
    course: Tensor

    def by_draws(self, draws: int) -> Responses:
        """Of trajectories (B · draws,), as (B, draws)."""
        return Responses(*(part.unflatten(-1, (-1, draws)) for part in self))


@torch.no_grad()
def simulate(
    model: AttractorModel,
    z0: Tensor,
    steps: int | None = None,
    start: Tensor | None = None,
    time: int = 0,
) -> Tensor:
    """(steps + 1, n, d) trajectories of inputs with z0 (n, d), 2T steps by default.

    States begin at `start`, with their memory, (n, d + m), or in the place of z0, (n, d).
    """
    steps = LENGTH * model.steps if steps is None else steps
    first = z0 if start is None else start
    parts = zip(first.split(ROWS), z0.split(ROWS), strict=True)
    z = [model.trajectories(z, steps, context=seen, start=time) for z, seen in parts]
    return torch.cat(z, 1)


@torch.no_grad()
def trials(model: AttractorModel, e: Encoding, resample: int = 1) -> tuple[Tensor, Tensor]:
    """(2T + 1, n, d + m) trajectories of inputs e (n,), and the sentences (n, width) read at T.

    Each is one of `resample`, drawn by their path weights (`path_log_weight`); 1: as they come.
    """
    rows = torch.arange(len(e.z0)).repeat_interleave(resample)
    z = simulate(model, e.z0[rows])
    s = model.readout(z[model.steps], e.z0[rows]).sample()
    if resample == 1:
        return z, s
    paths = z[: model.steps + 1].split(ROWS, 1)
    parts = zip(rows.split(ROWS), paths, s.split(ROWS), strict=True)
    log_w = torch.cat([path_log_weight(model, e[k], path, own) for k, path, own in parts])
    chosen = Categorical(logits=log_w.view(-1, resample)).sample()
    chosen = chosen + resample * torch.arange(len(chosen))
    return z[:, chosen], s[chosen]


@torch.no_grad()
def respond(model: AttractorModel, z: Tensor, category: Category | None = None) -> Responses:
    r"""The responses of trajectories z (L + 1, n, d), each (n,).

    A response is the first time t at which the state is within 2 ε√d of an embedding, and the
    choice of the nearest sentence is the same from t to t + 3:

    .. math:: \tau = \min\{t : \min_s \|z_t - \hat z_s\| \le 2 \varepsilon \sqrt d,\;
        c_t = c_{t+1} = c_{t+2} = c_{t+3}\}

    What never responds up to L − 3 has time NaN and choice −1. Without a `category` the choice is
    the sentence itself, by `number_sentences` of all nearest ones.
    """
    near = nearest_sentence(model, z)
    if category is None:
        choice = number_sentences(model, near.s)
    else:
        choice = choices_of(model, near.s, category)
    stays = near.distance <= radius(model)
    for k in range(1, HOLD + 1):
        stays[:-k] &= choice[k:] == choice[:-k]
    stays[-HOLD:] = False  # none of these can have lasted
    responded, first = stays.any(0), stays.float().argmax(0)
    chosen = choice.gather(0, first[None])[0]
    time = torch.where(responded, first.float(), torch.nan)
    last = last_change(choice[: model.steps + 1]).float()
    return Responses(torch.where(responded, chosen, -1), time, last, choice)


def radius(model: AttractorModel) -> float:
    """2 ε√d (`noise_radius`), within which a state is at an embedding."""
    return RADIUS * noise_radius(model)


def choices_of(model: AttractorModel, s: Tensor, category: Category) -> Tensor:
    """(…) the choices that sentences s (…, width) stand for; each sentence is looked at once."""
    number, row = number_rows(model.language.key(s).flatten())
    return category(s.flatten(0, -2)[row])[number].view(s.shape[:-1])


def choices_at(model: AttractorModel, z: Tensor, category: Category) -> Tensor:
    """(…) the choices that the sentences nearest to states z (…, d) stand for."""
    return choices_of(model, nearest_sentence(model, z).s, category)


def right(choice: Tensor, own: Tensor) -> Tensor:
    """(B, draws) whether choices are the inputs' own values (B,); NaN where one is −1."""
    known = (choice >= 0) & (own >= 0)[:, None]
    return torch.where(known, (choice == own[:, None]).double(), torch.nan)


def shares(choice: Tensor, n: int) -> Tensor:
    """(B, n) the share of each choice among those (B, draws) that are not −1; NaN without any."""
    counts = torch.stack([(choice == c).sum(-1) for c in range(n)], -1).double()
    return counts / counts.sum(-1, keepdim=True)


class Choices(NamedTuple):
    """What is chosen among: the values of a feature, told of a sentence by a decoder."""

    feature: str
    column: int  # of the feature among those of the data
    names: tuple[str, ...]
    category: Category


def choices(run: Run, feature: str = "", training: DecoderTraining | None = None) -> Choices:
    """The values of a categorical feature, by default the first one, as choices: that of a sentence
    is the likeliest value at ẑ_s by a decoder trained on states and sentences (`feature_decoders`).

    Raises ValueError where the data have no such feature.
    """
    features = {f.name: f for f in getattr(run.data, "features", ()) if f.categorical}
    if (name := feature or next(iter(features), "")) not in features:
        known = ", ".join(features) or "none: name a label column"
        raise ValueError(f"the data have no categorical feature {name!r}: they have {known}")
    chosen = features[name]
    column = [f.name for f in run.data.features].index(chosen.name)
    decoder = feature_decoders(run, training or DecoderTraining())[0]
    model = run.model

    @torch.no_grad()
    def category(s: Tensor) -> Tensor:
        return decoder(model.embed(s)).split[column].argmax(-1)

    return Choices(chosen.name, column, chosen.outcomes, category)


EXACT = 512  # draws where sentences cannot be listed


@torch.no_grad()
def exact_choices(model: AttractorModel, q: Normal, chosen: Choices) -> Tensor:
    """(B, choices) float64 P(choice | x) = Σ_s P(s | x) 1[s stands for it], of inputs q (B, d), the
    exact posterior's; where sentences cannot be listed, of draws from it.
    """
    if is_listed(model):
        stands = one_hot(chosen.category(model.sentences), len(chosen.names)).double()
        return model.posterior.log_prob(q).double().exp() @ stands
    s = exact_draws(model, q, EXACT).s
    choice = choices_of(model, s, chosen.category)
    return one_hot(choice, len(chosen.names)).double().mean(1)
