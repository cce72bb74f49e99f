"""The sleep phase: maximum likelihood of the forward dynamics on bridges to sampled sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple

import torch
from pyro.distributions import Normal
from torch import Tensor
from torch.distributions import Normal as TorchNormal

from plot_attractors.gflownet.trajectories import Step, Trajectories, expected_score_step
from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.model.protocols import along_axes, require
from plot_attractors.processes import per_rank
from plot_attractors.ranges import Positive, Range, Size, check_ranges
from plot_attractors.training.bridge import Bridge
from plot_attractors.training.sentences import Sentences

__all__ = ["OffSentence", "Sleep", "Transitions", "bridge_of", "off_sentence", "sleep_loss"]

PERSISTENCE = 0.7  # ρ of the stationary part
STATIONARY_STEPS = 4  # of it that are scored, with the weight of all
PRIOR_STATES = 192  # at embeddings of sentences from P(s): rare ones need basins as deep as any
PRIOR_WEIGHT = 0.3  # of these, beside the stationary steps of a trajectory
PERTURBED = 0.1  # part of these that start far from embeddings
OFF_SENTENCE_STATES = 24  # that are at no sentence, where sentences factor
TOO_MANY = 2  # tokens at most that such a state has more than a sentence may
RETURN_SPEED = 0.9  # of max_step: length of a mean step of restoring transitions


@dataclass(frozen=True)
class Sleep:
    trajectories: Size = 96  # in an update
    steps: Size = 4  # of the walk
    first: Annotated[float, Range(0, 1, above=True)] = 0.8  # part of the way in the first of them
    noise: Positive = 0.12  # standard deviation of the walk
    # least and greatest sd of perturbed starts
    perturbed_sd: tuple[Positive, Positive] = (0.3, 0.6)
    exact: bool = False  # mean and variance of a walk's next state over all sentences, not the
    # sampled one's, where sentences factor: less noise, at 1.4 times the time

    def __post_init__(self) -> None:
        check_ranges(self)


class OffSentence(NamedTuple):
    """States z (n, d) at no sentence, the embedding z_hat (n, d) of the nearest, and z0 (n, d)."""

    z: Tensor
    z_hat: Tensor
    z0: Tensor


class Transitions(NamedTuple):
    """States, one a row, with the known distribution N(mean, sd²) of their next state.

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

    def cross_entropy(self, step: Step) -> Tensor:
        """−Σ weight · E[log P_F(z′ | z)], z′ ~ N(mean, sd²), nats, in closed form."""
        to = TorchNormal(self.mean, self.sd, validate_args=False)
        scores = expected_score_step(step, self.z, to, self.time, self.context)
        return -(scores * self.weight[:, 0]).sum()


def bridge_of(model: AttractorModel, c: Sleep) -> Bridge:
    """The backward kernel of the sleep phase.

    Raises ValueError where the walk or its parts are outside their range, exact moments are asked
    for of sentences that do not factor, or the forward dynamics have no `max_step`.
    """
    if c.exact and not model.posterior.factored:
        raise ValueError(
            "sleep.exact needs sentences that factor: set token_axes, without decodability and "
            "reward floor, or leave it out"
        )
    bridge = Bridge(model.steps, model.epsilon, c.steps, c.first, c.noise, PERSISTENCE)
    if model.steps > c.steps:
        max_step(model)  # restoring transitions need it
    return bridge


def sleep_loss(
    model: AttractorModel,
    kernel: Bridge,
    e: Encoding,
    s: Tensor,
    c: Sleep,
    off: Callable[[Encoding], OffSentence | None],
) -> Tensor:
    """−log P_F, nats a step, of bridges (`bridge_of`) from inputs e to sentences s (n, width), and
    of restoring transitions at sentences from the prior (*Wake-sleep*), and from states off all
    sentences, which `off` gives.
    """
    with torch.no_grad():
        z_hat = model.embed(s)
        path = kernel.sample(e.z0, z_hat)
        to = bridge_transitions(kernel, path, z_hat, STATIONARY_STEPS)
        if c.exact:
            to = exact_transitions(model, kernel, path, e, to)
        if PRIOR_STATES and model.steps > c.steps:
            to = to.join(prior_transitions(model, kernel, e, c, off))
    return to.cross_entropy(model.forward_step) / model.steps


def bridge_transitions(
    kernel: Bridge, trajectories: Trajectories, z_hat: Tensor, stationary: int
) -> Transitions:
    """The walk of bridges to ẑ (B, d), and so many of their stationary steps, drawn anew.

    Stationary steps are alike at all times, so a few stand for all. The weights are for the mean
    over trajectories of the sum over steps.
    """
    z, context = trajectories
    left = kernel.steps - kernel.walk
    few = min(stationary, left)
    t = torch.cat([torch.arange(kernel.walk), kernel.walk + torch.randperm(left)[:few]])
    weight = torch.tensor([1.0] * kernel.walk + [left / max(few, 1)] * few) / z.shape[1]
    to = kernel.forward_transition(t, z[t], z[0], z_hat)
    rows = [z[t], to.mean, to.stddev, t[:, None, None], context, weight[:, None, None]]
    return Transitions(*(r.to(z).expand(len(t), z.shape[1], -1).flatten(0, 1) for r in rows))


def exact_transitions(
    model: AttractorModel, kernel: Bridge, path: Trajectories, e: Encoding, to: Transitions
) -> Transitions:
    """The walk with mean and variance of the next state over all sentences, along each axis.

    P(s | z_t, x) ∝ R(s; x) N(z_t; E[z_t | z0, ẑ_s], v_t) factors, and these two moments are all
    that the likelihood of diagonal Gaussian steps asks for: the same expectation, less noise.
    """
    posterior, of = model.posterior(e.distribution), model.posterior.factors()
    assert of is not None
    assert isinstance(posterior, FactoredSentences)  # see `bridge_of`
    axes, p = model.posterior.along_axes(of)
    t = torch.arange(kernel.walk)
    v, z, z0 = kernel.variance.to(e.z0)[t, None, None], path.z[t][..., axes], e.z0[:, axes]
    off = z - kernel.mean(t, z0, p.loc)
    scores = posterior.scores - 0.5 * torch.where(v > 0, off.square() / v, 0.0)
    shares = FactoredSentences(posterior.language, posterior.factors, scores).marginals
    along = kernel.forward_transition(t, z, z0, p.loc).mean
    zero = torch.zeros(len(t), *e.z0.shape).to(z)
    middle = zero.index_add(-1, axes, shares * along)
    spread = zero.index_add(-1, axes, shares * (along - middle[..., axes]).square())
    mean, variance = to.mean.clone(), to.sd.square()
    rows, used = len(t) * len(e.z0), axes.unique()
    mean[:rows, used] = middle[..., used].flatten(0, 1)
    variance[:rows] += spread.flatten(0, 1)
    return to._replace(mean=mean, sd=variance.sqrt())


def prior_transitions(
    model: AttractorModel,
    kernel: Bridge,
    e: Encoding,
    c: Sleep,
    off: Callable[[Encoding], OffSentence | None],
) -> Transitions:
    """Stationary steps at sentences from the prior, perturbed starts that are restored to theirs,
    and off-sentence states that are restored to the nearest sentence.

    Without perturbed starts, the few states that leave where trajectories pass drift away. Without
    off-sentence states, dynamics learn what to do along each axis, and states rest where each axis
    is at its tokens though these be too many for a sentence.
    """
    n = per_rank(PRIOR_STATES)
    s = model.draw_prior(n)
    context = e.z0[torch.randint(len(e.z0), (n,))]
    z_hat = model.embed(s)
    few, (least, greatest) = round(PERTURBED * n), c.perturbed_sd
    perturbed = least + (greatest - least) * torch.rand(few, 1)
    sd = torch.cat([perturbed, torch.full((n - few, 1), kernel.epsilon)]).to(z_hat)
    z, speed = z_hat + sd * torch.randn_like(z_hat), RETURN_SPEED * max_step(model)
    weight = (kernel.steps - kernel.walk) / n
    to = restoring_transitions(kernel, z, z_hat, context, speed, weight)
    to = to._replace(weight=PRIOR_WEIGHT * to.weight)
    if (from_off := off(e)) is None:
        return to
    weight = float(to.weight[0])
    return to.join(restoring_transitions(kernel, *from_off, speed, weight))


@torch.no_grad()
def off_sentence(
    model: AttractorModel, e: Encoding, c: Sleep, sentences: Sentences, n: int | None = None
) -> OffSentence | None:
    """`off_sentence_states` of n of the inputs e (24 in all processes), and the embeddings of the
    nearest sentences; None where no sentence can be too long, and no axis is unused.
    """
    longer, unused = _ways_off(model, sentences)
    if longer is None and not len(unused):
        return None
    rows = torch.randint(len(e.z0), (n or per_rank(OFF_SENTENCE_STATES),))
    z = off_sentence_states(model, e[rows].distribution, c.perturbed_sd, sentences)
    return OffSentence(z, model.embed(sentences.nearest(z)), e.z0[rows])


def restoring_transitions(
    kernel: Bridge, z: Tensor, z_hat: Tensor, context: Tensor, max_step: float, weight: float
) -> Transitions:
    """A stationary step of states z (n, d) at ẑ (n, d), its mean at most `max_step` long: where z
    is far from ẑ, it walks there.
    """
    to = kernel.stationary(z, z_hat)
    step = to.mean - z
    speed = max_step / step.norm(dim=-1, keepdim=True)
    time = torch.randint(kernel.walk, kernel.steps, (len(z), 1)).to(z)
    mean = z + speed.clamp(max=1) * step
    return Transitions(z, mean, to.stddev, time, context, torch.full_like(time, weight))


def off_sentence_states(
    model: AttractorModel, q: Normal, perturbed_sd: tuple[float, float], sentences: Sentences
) -> Tensor:
    """(n, d) states at no sentence, of inputs with P(z0 | x) = q (n, d).

    Half of them are where a sentence of up to two tokens too many would be, ∝ R(s; x), the others
    at sentences ∝ R(s; x), but N(0, sd²) away along each unused axis. All are of one kind where the
    other cannot be.
    """
    n, (longer, unused) = len(q.loc), _ways_off(model, sentences)
    half = 0 if longer is None else n // 2 if len(unused) else n
    s = sentences.draw(Normal(q.loc[half:], q.scale[half:]))
    if half:
        first = sentences.draw(Normal(q.loc[:half], q.scale[:half]), language=longer)
        s = torch.cat([first, s])
    z = model.terminal_kernel(s).sample()
    if len(unused):
        sd = torch.empty(n - half, len(unused)).uniform_(*perturbed_sd).to(z)
        z[half:, unused] += sd * torch.randn_like(sd)
    return z


def _ways_off(model: AttractorModel, sentences: Sentences) -> tuple[Language | None, Any]:
    """The language of what is too long, where it can be drawn; the axes that no token moves."""
    layer = along_axes(model.sentence_encoder)
    unused: Any = () if layer is None else layer.unused
    longer = too_long(model.language.power(model.reward.beta))
    return longer if longer and sentences.can_speak(longer) else None, unused


def too_long(language: Language) -> Language | None:
    """What would be sentences of one or two tokens more than a sentence may have; None for none."""
    shortest = language.longest + 1
    longest = min(language.longest + TOO_MANY, len(language.groups))
    if shortest > longest:
        return None
    return replace(language, min_length=shortest, max_length=longest)


def max_step(model: AttractorModel) -> float:
    """The bound of a mean step of the forward dynamics; ValueError where they have none."""
    return float(
        require(model.forward_dynamics, "max_step", "training walks back in steps that they can do")
    )
