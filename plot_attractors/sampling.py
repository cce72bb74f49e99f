"""What analyses draw from a trained attractor model: end states, exact control states, sentence laws, path weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from pyro.distributions import Normal
from torch import Tensor
from torch.distributions import Categorical

from .attractor import AttractorModel, Encoding
from .em import in_use_threshold
from .gflownet.beam import BestSentences, beam_search
from .gflownet.trajectories import Trajectories, score_backward, score_forward
from .metrics import in_use
from .metrics.attractors import nearest

__all__ = [
    "LENGTHS",
    "ExactDraws",
    "best_sentences",
    "exact_draws",
    "exact_states",
    "is_listed",
    "NearestSentence",
    "nearest_sentence",
    "path_log_weight",
    "require_attractors",
    "require_bits",
    "require_listed",
    "sentence_law",
    "sentences_in_use",
    "settle",
    "shows_bits",
    "states_at",
]

LENGTHS = (1, 2, 5)  # multiples of T at which samplers are judged
MOST_SENTENCES = 100_000  # that Language lists
ROWS = 4096  # trajectories simulated at once
SEARCHED = 512  # states whose nearest sentence is looked for at once
CELLS = 4_000_000  # entries of a (draws, sentences) table held at once


def is_listed(model: Any) -> bool:
    """Whether this is an attractor model whose sentences can be listed, so that its posterior is known exactly."""
    return isinstance(model, AttractorModel) and model.language.count <= MOST_SENTENCES


def require_attractors(model: Any) -> AttractorModel:
    """The model, or a ValueError where it is another kind of model."""
    if not isinstance(model, AttractorModel):
        raise ValueError(f"this analysis needs an attractor model, not {type(model).__name__}: leave it out")
    return model


def require_listed(model: Any) -> AttractorModel:
    """The model, or a ValueError that says why there is no exact posterior to compare it with."""
    model = require_attractors(model)
    if not is_listed(model):
        raise ValueError(
            f"the language has {model.language.count:,} sentences, more than the {MOST_SENTENCES:,} that can be "
            "listed: this analysis needs the exact posterior, so leave it out or take a smaller language"
        )
    return model


def shows_bits(data: Any) -> bool:
    """Whether inputs are vectors of bits, and not images."""
    return len(getattr(data, "input_shape", (0,))) == 1


def require_bits(data: Any) -> None:
    """A ValueError where inputs are no vectors of bits."""
    if not shows_bits(data):
        raise ValueError("this analysis compares decoded bits, and the inputs are images: leave it out")


@torch.no_grad()
def states_at(model: AttractorModel, encoding: Encoding, draws: int, times: Sequence[int]) -> Tensor:
    """(len(times), B, draws, d) states at increasing times of forward trajectories, `draws` for each of B inputs.

    One simulation up to the last time serves all of them.
    """
    z0, context = (part.repeat_interleave(draws, 0) for part in (encoding.z0, encoding.context))
    chunks = [
        model.trajectories(z, times[-1], c)[list(times)]
        for z, c in zip(z0.split(ROWS), context.split(ROWS), strict=True)
    ]
    return torch.cat(chunks, 1).unflatten(1, (-1, draws))


@torch.no_grad()
def exact_states(model: AttractorModel, encoding: Encoding, draws: int) -> tuple[Tensor, Tensor]:
    """End states of a perfect sampler: s ~ π(s | x) exactly, z_T ~ P←(z_T | ẑ_s), which is N(ẑ_s, ε²) unless learned.

    Returns z (B, draws, d) and the sentences' rows (B, draws).
    """
    index = Categorical(logits=model.log_posterior(encoding.distribution)).sample(torch.Size([draws])).T
    z = model.first_backward_kernel(model.sentences[index], encoding.context[:, None]).sample()
    return z, index


class ExactDraws(NamedTuple):
    """What a perfect sampler says of B inputs: log Z(x) = log Σ_s R(s; x) (B,), nats, and s ~ π(s | x) (B, draws,
    width).
    """

    log_z: Tensor
    s: Tensor


@torch.no_grad()
def exact_draws(model: AttractorModel, q: Normal, draws: int, rows: int = 65_536) -> ExactDraws:
    """Sums and draws from R(s; x) over all sentences, in chunks, for inputs with P(z0 | x) = q (B, d).

    The first pass sums the chunks, the second draws within those that are hit. 4,514,872 sentences of 32 tokens take 14
    seconds a pass for 64 inputs on one core, and 34 MB. Not for rewards that involve z_T.
    """
    sums = [model.log_rewards(q, s.to(model.device)).logsumexp(-1).double() for s in model.language.chunks(rows)]
    mass = torch.stack(sums, -1)
    chunk = Categorical(logits=mass).sample(torch.Size([draws])).T  # (B, draws)
    s = torch.zeros(*chunk.shape, model.language.width, device=model.device)
    for k, part in enumerate(model.language.chunks(rows)):
        hit = (chunk == k).any(-1).nonzero()[:, 0]
        if len(hit):
            part = part.to(model.device)
            law = Categorical(logits=model.log_rewards(Normal(q.loc[hit], q.scale[hit]), part))
            s[hit] = torch.where((chunk[hit] == k)[..., None], part[law.sample(torch.Size([draws])).T], s[hit])
    return ExactDraws(mass.logsumexp(-1), s)


@torch.no_grad()
def sentences_in_use(model: AttractorModel, x: Tensor) -> Tensor:
    """(S,) whether a sentence is in use for inputs x (B, …): its mean posterior is above a tenth of an equal share."""
    return in_use(model.log_posterior(model.encode(x).distribution).exp(), in_use_threshold(len(model.sentences)))


@torch.no_grad()
def settle(model: AttractorModel, z: Tensor, embedding: Tensor, steps: int) -> Tensor:
    """(n, d) where states z (n, d) beside embeddings ẑ_s (n, d) are after `steps` steps of the forward dynamics.

    The first step is that of t = 1, since at t = 0 a learned vector may be added. There is no input: parts that see
    one see ẑ_s as z0, or an input decoded there, as in the sleep of the inference programs.
    """
    context = embedding if model.context == "z0" else model.decoder(embedding).sample()
    for t in range(1, steps + 1):
        z = model.forward_dynamics(z, float(t), context).sample()
    return z


@torch.no_grad()
def sentence_law(model: AttractorModel, z: Tensor) -> Tensor:
    """(B, S) the mean over draws of P(s | z), the exact readout; z (B, draws, d)."""
    rows = max(1, CELLS // (z.shape[1] * len(model.sentences)))
    return torch.cat([model.log_sentence_given_state(part).exp().mean(1) for part in z.split(rows)])


def best_sentences(model: AttractorModel, q: Normal, beams: int, keep: int) -> BestSentences:
    """The best sentences of inputs with P(z0 | x) = q (B, d), by a beam over their tokens: see `beam_search`."""
    each = Normal(q.loc[:, None], q.scale[:, None])
    return beam_search(lambda s: model.log_reward(each, s), model.language, len(q.loc), beams, keep, model.device)


class NearestSentence(NamedTuple):
    """Of states (…): s (…, width) and the Euclidean distance (…) of the embedding that is nearest."""

    s: Tensor
    distance: Tensor


@torch.no_grad()
def nearest_sentence(model: AttractorModel, z: Tensor) -> NearestSentence:
    """The sentence whose ẑ_s is nearest to each state z (…, d), of all if they can be listed, else by a beam search."""
    flat = z.flatten(0, -2)
    if is_listed(model):
        found = nearest(flat, model.embeddings())
        s, distance = model.sentences[found.row], found.distance
    else:
        parts = []
        for part in flat.split(SEARCHED):

            def closeness(s: Tensor, part: Tensor = part) -> Tensor:
                return -(model.embed(s) - part[:, None]).square().sum(-1)

            parts.append(beam_search(closeness, model.language, len(part), keep=1, device=model.device))
        s = torch.cat([best.s[:, 0] for best in parts])
        distance = torch.cat([(-best.log_reward[:, 0]).sqrt() for best in parts])
    return NearestSentence(s.unflatten(0, z.shape[:-1]), distance.unflatten(0, z.shape[:-1]))


@torch.no_grad()
def path_log_weight(model: AttractorModel, encoding: Encoding, z: Tensor, s: Tensor) -> Tensor:
    r"""(B,) log w, nats, of trajectories z (T + 1, B, d) from `encoding.z0`, and sentences s (B, width).

    .. math:: \log w = \log R(z_T, s; x) P_\leftarrow(z_T | \hat z_s)
        \prod_{t=1}^{T-1} P_\leftarrow(z_t | z_{t+1}, t+1, x)
        - \log P(s | z_T) \prod_{t=0}^{T-1} P_\theta(z_{t+1} | z_t)

    z0 is given, so the backward factor at t = 0 is 1. E[w] under the guide is Z(x) = Σ_s R(s; x); E[log w] under the
    guide is a lower and under the normalised model an upper bound of log Z(x). Source: Eqs. *traj_prob_forward* and
    *traj_prob_backward*.
    """
    trajectories = Trajectories(z, encoding.context)
    forward = score_forward(model.forward_step, trajectories).sum(0)
    backward = score_backward(model.backward_step, trajectories).sum(0)
    log_reward = model.log_reward(encoding.distribution, s) + model.log_decodability(z[-1], s)
    first = model.first_backward_kernel(s, encoding.context).log_prob(z[-1]).sum(-1)
    readout = model.sentence_given_state(z[-1], encoding.context).log_prob(s)
    return log_reward + first + backward - forward - readout
