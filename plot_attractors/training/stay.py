"""What dynamics do after the walk: they stay in the basin of a sentence.

It is assumed that F(z; x) = Σ_s R(s; x) N(z; ẑ_s, ε²) from then on; the walk comes near it, no
more. Balance then asks that steps leave F as it is. In a basin by itself the AR(1)
N(ẑ_s + ρ(z − ẑ_s), (1 − ρ²)ε²) is a solution, whatever x, and a reversible one; −ρ, reflections and
rotations have residual 0, too, and ρ is chosen. Likelihood of this step has a closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.model.onset import PERSISTENCE, STATIONARY_SD
from plot_attractors.model.protocols import along_axes
from plot_attractors.training.sentences import Sentences

__all__ = [
    "OFF_SENTENCE_STATES",
    "Basins",
    "OffSentence",
    "Transitions",
    "off_sentence",
    "posterior_transitions",
    "prior_transitions",
    "restoring_transitions",
]

PRIOR_STATES = 192  # at embeddings of sentences from P(s): rare ones need basins as deep as any
PRIOR_WEIGHT = 0.3  # of these, beside the states of sentences of the posterior
PERTURBED = 0.1  # part of these that start far from embeddings
OFF_SENTENCE_STATES = 24  # that are at no sentence, where sentences factor
TOO_MANY = 2  # tokens at most that such a state has more than a sentence may
RETURN_SPEED = 0.9  # of max_step: length of a mean step of restoring transitions


@dataclass(frozen=True)
class Basins:
    """Steps from time `walk` to T = `steps`, of an AR(1) at an embedding."""

    steps: int
    walk: int
    epsilon: float
    max_step: float  # bound of a mean step of the dynamics

    def stationary(self, z: Tensor, z_hat: Tensor) -> Normal:
        """One step at ẑ, forward or backward: N(ẑ + ρ(z − ẑ), (1 − ρ²)ε²)."""
        return Normal(torch.lerp(z_hat, z, PERSISTENCE), STATIONARY_SD * self.epsilon)


class OffSentence(NamedTuple):
    """States z (n, d) at no sentence, the embedding z_hat (n, d) of the nearest, and z0 (n, d)."""

    z: Tensor
    z_hat: Tensor
    z0: Tensor


class Transitions(NamedTuple):
    """States, one a row, at an embedding, with the known distribution N(mean, sd²) of their next
    state.

    `z`, `mean`, `sd` (n, d), `time` (n, 1), `context` (n, d), `weight` (n, 1).
    """

    z: Tensor
    mean: Tensor
    sd: Tensor
    time: Tensor
    context: Tensor
    weight: Tensor

    def join(self, other: Transitions) -> Transitions:
        """The rows of both."""
        return Transitions(*(torch.cat(pair) for pair in zip(self, other, strict=True)))

    def cross_entropy(self, transition: Callable[..., Normal]) -> Tensor:
        """−Σ weight · E[log P_F(z′ | z)], z′ ~ N(mean, sd²), nats, in closed form: of a Gaussian
        step of scale σ, log P_F(mean | z) − ½ Σ (sd / σ)².
        """
        step = transition(self.z, self.time, self.context)
        log_p = step.log_prob(self.mean).sum(-1)
        scores = log_p - 0.5 * (self.sd / step.scale).square().sum(-1)
        return -(scores * self.weight[:, 0]).sum()


def posterior_transitions(
    model: AttractorModel, basins: Basins, e: Encoding, s: Tensor
) -> Transitions:
    """A step of states N(ẑ_s, ε²) of sentences s (n, width) of inputs e, which stays."""
    z_hat = model.embed(s)
    z = z_hat + basins.epsilon * torch.randn_like(z_hat)
    weight = (basins.steps - basins.walk) / len(s)
    return restoring_transitions(basins, z, z_hat, e.z0, basins.max_step, weight)


def prior_transitions(
    model: AttractorModel,
    basins: Basins,
    e: Encoding,
    perturbed_sd: tuple[float, float],
    from_off: OffSentence | None,
) -> Transitions:
    """Stationary steps at sentences from the prior, perturbed starts that are restored to theirs,
    and off-sentence states that are restored to the nearest sentence.

    Without perturbed starts, the few states that leave where trajectories pass drift away. Without
    off-sentence states, dynamics learn what to do along each axis, and states rest where each axis
    is at its tokens though these be too many for a sentence.
    """
    n = PRIOR_STATES
    s = model.draw_prior(n)
    context = e.z0[torch.randint(len(e.z0), (n,))]
    z_hat = model.embed(s)
    few, (least, greatest) = round(PERTURBED * n), perturbed_sd
    perturbed = least + (greatest - least) * torch.rand(few, 1)
    sd = torch.cat([perturbed, torch.full((n - few, 1), basins.epsilon)]).to(z_hat)
    noise, speed = sd * torch.randn_like(z_hat), RETURN_SPEED * basins.max_step
    noise[:few].masked_fill_(model.onset.axis, 0)  # from where inputs begin no state returns
    z = z_hat + noise
    weight = PRIOR_WEIGHT * (basins.steps - basins.walk) / n
    to = restoring_transitions(basins, z, z_hat, context, speed, weight)
    if from_off is None:
        return to
    return to.join(restoring_transitions(basins, *from_off, speed, weight))


@torch.no_grad()
def off_sentence(
    model: AttractorModel,
    e: Encoding,
    perturbed_sd: tuple[float, float],
    sentences: Sentences,
    n: int = OFF_SENTENCE_STATES,
) -> OffSentence | None:
    """`off_sentence_states` of n of the inputs e, and the embeddings of the nearest sentences;
    None where no sentence can be too long, and no axis is unused.
    """
    layer = along_axes(model.sentence_encoder)
    unused: Any = () if layer is None else layer.unused
    longer = too_long(model.language.power(model.reward.beta))
    if longer and not sentences.can_speak(longer):
        longer = None
    if longer is None and not len(unused):
        return None
    rows = torch.randint(len(e.z0), (n,))
    q = e[rows].distribution
    z = off_sentence_states(model, q, perturbed_sd, sentences, longer, unused)
    return OffSentence(z, model.embed(sentences.nearest(z)), e.z0[rows])


def restoring_transitions(
    basins: Basins,
    z: Tensor,
    z_hat: Tensor,
    context: Tensor,
    max_step: float,
    weight: float,
) -> Transitions:
    """A stationary step of states z (n, d) at ẑ (n, d), its mean at most `max_step` long: where z
    is far from ẑ, it walks there.
    """
    to = basins.stationary(z, z_hat)
    step = to.mean - z
    speed = max_step / step.norm(dim=-1, keepdim=True)
    time = torch.randint(basins.walk, basins.steps, (len(z), 1)).to(z)
    mean = z + speed.clamp(max=1) * step
    weights = torch.full_like(time, weight)
    return Transitions(z, mean, to.stddev, time, context, weights)


def off_sentence_states(
    model: AttractorModel,
    q: Normal,
    perturbed_sd: tuple[float, float],
    sentences: Sentences,
    longer: Language | None,
    unused: Any,
) -> Tensor:
    """(n, d) states at no sentence, of inputs with P(z0 | x) = q (n, d).

    Half of them are where a sentence of a `longer` language would be, ∝ R(s; x), the others at
    sentences ∝ R(s; x), but N(0, sd²) away along each axis that no token moves, `unused`. All are
    of one kind where the other cannot be.
    """
    n = len(q.loc)
    half = 0 if longer is None else n // 2 if len(unused) else n
    s = sentences.draw(Normal(q.loc[half:], q.scale[half:]))
    if half:
        first = sentences.draw(Normal(q.loc[:half], q.scale[:half]), language=longer)
        s = torch.cat([first, s])
    z = model.terminal_kernel(s).sample()
    if len(unused):
        sd = torch.empty(n - half, len(unused)).uniform_(*perturbed_sd).to(z)
        z[half:, unused] += sd * torch.randn_like(sd)
        z[half:] = torch.where(model.onset.axis, model.embed(s[half:]), z[half:])
    return z


def too_long(language: Language) -> Language | None:
    """What would be sentences of one or two tokens more than a sentence may have; None for none."""
    shortest = language.longest + 1
    longest = min(language.longest + TOO_MANY, len(language.groups))
    if shortest > longest:
        return None
    return replace(language, min_length=shortest, max_length=longest)
