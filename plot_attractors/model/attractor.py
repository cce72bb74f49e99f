"""The attractor model: the parts of Table 1, the reward, and the Pyro programs made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyro
import torch
from pyro import poutine
from pyro.distributions import Bernoulli, Normal
from torch import Tensor, nn

from plot_attractors.language import MOST_SENTENCES, Language
from plot_attractors.language.factored import Factor, FactoredSentences, factors
from plot_attractors.language.policy import SentencePolicy, TabulatedSentences
from plot_attractors.language.token_prior import costs_by_share, equal_costs
from plot_attractors.model.nn import (
    MLP,
    FourierFeatures,
    ImageGenerator,
    MaskedLinear,
    encoding_network,
    time_features,
)
from plot_attractors.model.protocols import Description
from plot_attractors.model.steps import bounded_step

__all__ = [
    "AttractorModel",
    "BackwardTokenPolicy",
    "Discretizer",
    "Dynamics",
    "Encoding",
    "FlowCorrection",
    "ImageDecoder",
    "InputDecoder",
    "InputEncoder",
    "LogPartition",
    "SentenceEncoder",
    "gaussian_kl",
    "input_decoder",
    "pairwise_kl",
]


DARK = -3.0  # logit of a pixel of an untrained decoder


def gaussian_kl(p: Normal, q: Normal) -> Tensor:
    """D_KL(p ‖ q) in nats of diagonal Gaussians, summed over the last dimension."""
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log()).sum(-1)


def pairwise_kl(p: Normal, q: Normal) -> Tensor:
    """D_KL(p_b ‖ q_s) in nats for all pairs, (B, d) and (S, d) → (B, S), as three matrix
    products.
    """
    precision = q.scale.square().reciprocal()
    square = (p.scale.square() + p.loc.square()) @ precision.T - 2 * p.loc @ (q.loc * precision).T
    constant = (q.loc.square() * precision).sum(-1) + 2 * q.scale.log().sum(-1) - q.loc.shape[-1]
    return 0.5 * (square + constant) - p.scale.log().sum(-1, keepdim=True)


class InputEncoder(nn.Module):
    """P_φ(z0 | x) = N(μ(x), σ(μ(x))²): mean by a network of x, standard deviation by an MLP of the
    mean through a sigmoid.

    Args:
        shape: of an input: (bits,) or (channels, side, side).
        latent: d.
    """

    def __init__(
        self, shape: Sequence[int], latent: int, units: int = 256, layers: int = 3
    ) -> None:
        super().__init__()
        self.mean = encoding_network(shape, latent, units, layers)
        self.sd = MLP(latent, latent, units=64, layers=2)

    def forward(self, x: Tensor) -> Normal:
        return self.around(self.mean(x))

    def around(self, mean: Tensor) -> Normal:
        """P(z0 | x) of an input whose mean state is given: of an imagined one, too."""
        return Normal(mean, 0.01 + 0.99 * torch.sigmoid(self.sd(mean)))


class InputDecoder(nn.Module):
    """P_φ(x | z) = Π_k Bernoulli(x_k; logits_k(z))."""

    def __init__(self, latent: int, outputs: int, units: int = 256, layers: int = 3) -> None:
        super().__init__()
        self.logits = MLP(latent, outputs, units, layers)

    def forward(self, z: Tensor) -> Bernoulli:
        return Bernoulli(logits=self.logits(z))


class ImageDecoder(nn.Module):
    """P_φ(x | z) = Π_k N(x_k; μ_k(z), noise²) of images whose numbers are from 0 to 1, as the mean
    μ is.

    μ = σ(g_c(z)) σ(h_c(z, place)) for channel c, with g linear: what colour a scene has, and how
    much there is of it at a place. Without g a VAE of few dimensions bends seven colours into a
    plane, like a wheel, before it finds the third channel, and a linear language has no words for a
    wheel.

    Args:
        latent: d.
        shape: (channels, side, side).
        noise: standard deviation of a pixel.

    Raises ValueError where noise is not a finite number above 0.
    """

    def __init__(self, latent: int, shape: Sequence[int], noise: float = 0.1) -> None:
        super().__init__()
        if not 0 < noise < math.inf:
            raise ValueError(
                f"pixel_noise is a standard deviation, a finite number above 0, not {noise:g}."
            )
        self.generator, self.noise = ImageGenerator(latent, shape), noise
        # Grey at first, images would turn black so fast that networks die on the way; dark at
        # first, they do not.
        nn.init.constant_(self.generator.growth[-1].bias, DARK)  # type: ignore[arg-type]
        self.gain = nn.Linear(latent, shape[0])

    def forward(self, z: Tensor) -> Normal:
        return Normal(
            self.gain(z).sigmoid()[..., None, None] * self.generator(z).sigmoid(), self.noise
        )


def input_decoder(
    latent: int, shape: Sequence[int], units: int = 256
) -> InputDecoder | ImageDecoder:
    """P_φ(x | z) for inputs of a shape: `InputDecoder` for vectors of bits, (bits,), and
    `ImageDecoder` for images.
    """
    return InputDecoder(latent, shape[0], units) if len(shape) == 1 else ImageDecoder(latent, shape)


class SentenceEncoder(nn.Module):
    """P_φ(z0 | ẑ_s) = N(ẑ_s, σ(s)²): ẑ_s = e_φ(s) linear in the sentence's features, σ by an MLP of
    them.

    With `axes`, every feature moves ẑ_s along one latent axis, and changes σ along this axis only,
    by one linear layer. The field that draws states to the nearest of many embeddings is then one
    field of few embeddings along each axis, which networks learn, and sums over all sentences are
    exact however many there are (`FactoredSentences`).
    """

    def __init__(
        self, language: Language, latent: int, axes: bool = False, spread: float = 0.5
    ) -> None:
        super().__init__()
        self.mean = (MaskedLinear if axes else nn.Linear)(language.width, latent)
        nn.init.normal_(self.mean.weight, std=spread)
        nn.init.zeros_(self.mean.bias)
        self.sd = (
            MaskedLinear(language.width, latent)
            if axes
            else MLP(language.width, latent, units=64, layers=2)
        )

    def forward(self, s: Tensor) -> Normal:
        return Normal(self.mean(s), 0.01 + 0.99 * torch.sigmoid(self.sd(s)))


class Dynamics(nn.Module):
    """P(z_{t±1} | z_t, …), a Gaussian whose mean moves by less than `max_step`; forward or backward
    dynamics.

    The paper's forward dynamics see the state only, and a learned vector added to it at t = 0
    (`start=True`); its backward dynamics see time and the context too (Table 1).

    Args:
        latent: d, the size of z.
        steps: T, the unit of time.
        context: size of the context that is seen; 0 for none.
        time: whether t is seen.
        last: the last step that is learned, T + 1 of backward dynamics and T − 1 of forward ones;
        later ones are as it.
        start: whether a learned vector is added to z at t = 0.
        features, scale, axes: random Fourier features of z, and as many of a context of its size,
            the standard deviation of their frequencies, and whether each is along one latent axis.
        max_step, sd_range: bounds of the mean step and of every standard deviation.
        reverse_of: dynamics that these run backwards. Round an attractor a chain and its reversal
            are alike, so these start as the same kernel, see its (detached) output, and learn the
            difference.
    """

    def __init__(
        self,
        latent: int,
        steps: int,
        context: int = 0,
        time: bool = False,
        start: bool = False,
        features: int = 0,
        scale: float = 3.0,
        axes: bool = False,
        units: int = 256,
        layers: int = 3,
        max_step: float = 0.25,
        sd_range: tuple[float, float] = (0.001, 0.3),
        reverse_of: Dynamics | None = None,
        last: int | None = None,
    ) -> None:
        super().__init__()
        self.steps, self.context, self.time = steps, context, time
        self.last = steps + 1 if last is None else last
        self.max_step, self.sd_range = max_step, sd_range
        self._reverse_of = (
            [] if reverse_of is None else [reverse_of]
        )  # in a list: its parameters are not these's
        self.start = nn.Parameter(torch.zeros(latent)) if start else None
        self.features = FourierFeatures(latent, features, scale, axes) if features else None
        of_context = features if context == latent else 0  # z0, whose axes are those of z
        self.context_features = (
            FourierFeatures(context, of_context, scale, axes) if of_context else None
        )
        seen = (
            latent
            + features
            + context
            + of_context
            + 7 * time
            + (2 * latent + 1) * len(self._reverse_of)
        )
        self.net = MLP(seen, 2 * latent + 1, units, layers)
        if reverse_of is not None:
            nn.init.zeros_(self.net[-1].weight)  # type: ignore[arg-type]
            nn.init.zeros_(self.net[-1].bias)  # type: ignore[arg-type]

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
        """z (…, d), t a number or (…, 1) and context (…, c), all broadcast → Normal over (…, d)."""
        out = self.raw(z, t, context)
        return bounded_step(z.expand(*out.shape[:-1], -1), out, self.max_step, self.sd_range)

    def raw(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Tensor:
        """(…, 2d + 1) direction of the mean step, its size and the standard deviations before their
        sigmoids.
        """
        t = torch.as_tensor(t, dtype=z.dtype, device=z.device)
        t = t.reshape(1) if t.dim() == 0 else t
        shapes = [z.shape[:-1], t.shape[:-1]] + (
            [context.shape[:-1]] if self.context and context is not None else []
        )
        shape = torch.broadcast_shapes(*shapes)
        z = z.expand(*shape, -1)
        h = z if self.start is None else z + (t == 0) * self.start
        inputs = [h if self.features is None else self.features(h)]
        if self.context:
            if context is None:
                raise ValueError(
                    f"These dynamics see a context of size {self.context}: pass it as the third "
                    f"argument."
                )
            context = context.expand(*shape, -1)
            inputs.append(
                context if self.context_features is None else self.context_features(context)
            )
        if self.time:
            inputs.append(time_features(t.clamp(max=self.last), self.steps).expand(*shape, -1))
        if not self._reverse_of:
            return self.net(torch.cat(inputs, -1))
        with torch.no_grad():
            v, rest = (
                self._reverse_of[0]
                .raw(z, t.clamp(min=1), context)
                .split([d := z.shape[-1], d + 1], -1)
            )
            like = torch.cat([torch.nn.functional.normalize(v, dim=-1), rest], -1)
        return like + self.net(torch.cat([*inputs, like], -1))


class Discretizer(nn.Module):
    """P_θ(s | z) = Π_i P_θ(s_i | s_:i, z): the sentence decoder, applied token by token until the
    end token (Table 1).

    With `canonical=False` tokens come in any order and `backward` is the policy that takes one away
    again. `features`, `scale` and `axes` as of `Dynamics`: neighbouring embeddings are told apart
    by fine differences of z. With a `sentence_encoder` (whose parameters are not its own, and not
    trained by it) it also sees the residual z − ẑ of the partial sentence, what the tokens still to
    come have to say, through the same features.
    """

    def __init__(
        self,
        language: Language,
        latent: int,
        context: int = 0,
        canonical: bool = True,
        features: int = 0,
        scale: float = 3.0,
        axes: bool = False,
        units: int = 256,
        layers: int = 3,
        sentence_encoder: SentenceEncoder | None = None,
    ) -> None:
        super().__init__()
        self.language, self.context, self.canonical = (
            language,
            context,
            canonical or language.ordered,
        )
        self._encoder = (
            [] if sentence_encoder is None else [sentence_encoder]
        )  # in a list, as in `Dynamics`
        self.features = FourierFeatures(latent, features, scale, axes) if features else None
        seen = (latent + features) * (1 + len(self._encoder)) + context
        self.net = MLP(language.width + seen, language.width + 1, units, layers)
        self.backward_policy = (
            None if self.canonical else BackwardTokenPolicy(language, latent, units)
        )

    def forward(
        self, z: Tensor, context: Tensor | None = None, explore: float = 0.0
    ) -> SentencePolicy:
        features = self.features or (lambda z: z)
        state = features(z)
        if self.context and context is not None:
            state = torch.cat([state, context.expand(*z.shape[:-1], -1)], -1)

        def logits(partial: Tensor) -> Tensor:
            inputs = [partial, state.expand(*partial.shape[:-1], -1)]
            for encoder in self._encoder:
                inputs.append(features(z - encoder.mean(partial).detach()))
            return self.net(torch.cat(inputs, -1))

        return SentencePolicy(
            logits, self.language, z.shape[:-1], self.canonical, explore, z.device
        )


class BackwardTokenPolicy(nn.Module):
    """P←(s_:i | s_:i+1, z): which token to take away; deterministic, hence absent, for a canonical
    building order.
    """

    def __init__(self, language: Language, latent: int, units: int = 256) -> None:
        super().__init__()
        self.language = language
        self.net = MLP(language.width + latent, language.width, units)

    def sample_order(self, s: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """A building order drawn by removals, (…, width) ranks as in `log_prob_path`, and its
        log-probability (…).
        """
        partial, ranks = s.clone(), torch.zeros_like(s)
        log_p = torch.zeros(s.shape[:-1], device=s.device)
        for _ in range(self.language.longest):
            left = partial.sum(-1)
            going = left > 0
            logits = self.net(torch.cat([partial, z.expand(*s.shape[:-1], -1)], -1))
            logits = torch.where((partial > 0) | ~going[..., None], logits, -torch.inf)
            step = torch.distributions.Categorical(logits=logits, validate_args=False)
            choice = step.sample()
            log_p = log_p + torch.where(going, step.log_prob(choice), 0.0)
            removed = nn.functional.one_hot(choice, s.shape[-1]) * going[..., None]
            ranks = ranks + removed * (left - 1)[..., None]
            partial = partial - removed.to(partial)
        return ranks, log_p


class FlowCorrection(nn.Module):
    """log-space flow correction (T − t) · g_θ(z, t, context): no effect at t = T, larger far from
    it (*Flow correction*).
    """

    def __init__(
        self, latent: int, steps: int, context: int, units: int = 256, layers: int = 3
    ) -> None:
        super().__init__()
        self.steps = steps
        self.net = MLP(latent + context + 7, 1, units, layers)

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
        """(…, d), (…, 1), (…, c) → (…)."""
        t = torch.as_tensor(t, dtype=z.dtype, device=z.device)
        t = t.reshape(1) if t.dim() == 0 else t
        shape = z.shape[:-1]
        inputs = [z, context.expand(*shape, -1), time_features(t, self.steps).expand(*shape, -1)]
        return ((self.steps - t) * self.net(torch.cat(inputs, -1)))[..., 0]


class LogPartition(nn.Module):
    """log Z_θ(z, context) of the discretizer's own trajectory balance (Eq. *discretizer_loss*)."""

    def __init__(self, latent: int, context: int, units: int = 256, layers: int = 3) -> None:
        super().__init__()
        self.net = MLP(latent + context, 1, units, layers)

    def forward(self, z: Tensor, context: Tensor) -> Tensor:
        return self.net(torch.cat([z, context.expand(*z.shape[:-1], -1)], -1))[..., 0]


def _prior_of_state(model: AttractorModel, _: Any = None) -> None:
    """P(s) as the state of a model says: what tokens cost, where that is learned, to the power that
    R is raised to.
    """
    power, costs = (
        model.exponent,
        model.token_costs.tolist() if model.odds_cost else model.language_costs[1],
    )
    of_length = power * model.language_costs[0]
    model.language = replace(
        model.language, length_cost=of_length, token_costs=tuple(power * cost for cost in costs)
    )


@dataclass(frozen=True)
class Encoding:
    """Inputs as the E-step sees them: P(z0|x), the initial states z0, and what context-dependent
    parts see. All detached.
    """

    distribution: Normal
    z0: Tensor
    context: Tensor

    def __getitem__(self, index: Tensor) -> Encoding:
        q = self.distribution
        return Encoding(Normal(q.loc[index], q.scale[index]), self.z0[index], self.context[index])

    def __add__(self, other: Encoding) -> Encoding:
        """The inputs of both, one after the other."""
        p, q = self.distribution, other.distribution
        distribution = Normal(torch.cat([p.loc, q.loc]), torch.cat([p.scale, q.scale]))
        return Encoding(
            distribution, torch.cat([self.z0, other.z0]), torch.cat([self.context, other.context])
        )


class AttractorModel(nn.Module):
    """*Discrete, compositional, and symbolic representations through attractor dynamics*, all parts
    of its Table 1.

    `phi` parts (encoder, decoder, sentence encoder) are trained in the M-step, `theta` parts in the
    E-step. The four Pyro programs `model`, `guide`, `vae_model` and `vae_guide` say how they belong
    together; `forward_step` and `backward_step` are their single steps.

    Args:
        language: the sentences and P(s).
        latent: d, the size of z.
        encoder, decoder, sentence_encoder, forward_dynamics, backward_dynamics, discretizer,
        flow_correction,
            log_partition: the parts.
        steps: T.
        epsilon: ε of the fixed first backward step P←(z | ẑ_s, T+1, x) = N(ẑ_s, ε²).
        first_backward_step: 'fixed', or 'learned': the backward dynamics at T + 1 started at ẑ_s.
        z0: 'mean' of P(z0 | x) (Section *Experiments*) or a 'sample'.
        context: 'z0' or 'x', what stands for the input in every part that sees it.
        decodability: 'none' (R does not involve z_T, as the E-step text says), 'posterior' (Eq.
            *reward*: log P(s | z_T), normalised over s) or 'density' (log N(z_T; ẑ_s, σ_φ(s)²), not
            normalised).
        reward_floor: clamp of −KL from below in nats; −inf for none.
        reward_exponent: β, the power of R that sentences are said in proportion to in E-steps, and
            once training has ended with one; see `temper`.
        sentence_readout: 'exact', P(s | z) ∝ N(z; ẑ_s, ε²) P(s), needs a listed language; or the
        learned 'discretizer'.
    """

    token_costs: Tensor  # (tokens,) nats, where `price_by_share` was asked for
    tempered: Tensor  # () bool, whether `reward_exponent` is in force, where it is not 1

    def __init__(
        self,
        language: Language,
        latent: int,
        encoder: nn.Module,
        decoder: nn.Module,
        sentence_encoder: nn.Module,
        forward_dynamics: nn.Module,
        backward_dynamics: nn.Module,
        discretizer: nn.Module,
        flow_correction: nn.Module,
        log_partition: nn.Module,
        steps: int = 20,
        epsilon: float = 0.05,
        first_backward_step: Literal["fixed", "learned"] = "fixed",
        z0: Literal["mean", "sample"] = "mean",
        context: Literal["z0", "x"] = "z0",
        decodability: Literal["none", "posterior", "density"] = "none",
        reward_floor: float = -math.inf,
        reward_exponent: float = 1.0,
        sentence_readout: Literal["exact", "discretizer"] = "exact",
    ) -> None:
        super().__init__()
        self.language, self.latent = language, latent
        self.encoder, self.decoder, self.sentence_encoder = encoder, decoder, sentence_encoder
        self.forward_dynamics, self.backward_dynamics = forward_dynamics, backward_dynamics
        self.discretizer, self.flow_correction, self.log_partition = (
            discretizer,
            flow_correction,
            log_partition,
        )
        self.steps, self.epsilon = steps, epsilon
        self.first_backward_step, self.z0, self.context = first_backward_step, z0, context
        self.decodability, self.reward_floor, self.sentence_readout = (
            decodability,
            reward_floor,
            sentence_readout,
        )
        self.odds_cost, self.least_share = 0.0, 0.0
        if not 0 < reward_exponent < math.inf:
            raise ValueError(
                f"reward_exponent must be a finite number above 0 (1: R itself), not "
                f"{reward_exponent:g}."
            )
        self.reward_exponent = reward_exponent
        self.language_costs = (
            language.length_cost,
            language.token_costs,
        )  # before they are raised to a power
        if reward_exponent != 1:
            self.register_buffer("tempered", torch.tensor(False))
        self.register_load_state_dict_post_hook(_prior_of_state)

    # -- the prior ---------------------------------------------------------------------------------
    def price_by_share(self, odds_cost: float, least_share: float) -> None:
        """From now on `learn_prior` finds what each token costs in P(s), beside `length_cost`, by
        how often it is said (`costs_by_share`); what is found is part of the model's state. Until
        then, and where sentences do not factor, all cost alike (`equal_costs`).

        Raises ValueError for ordered sequences, and where odds_cost is not above 0 or sentences are
        too short for every token to have the least share.
        """
        language = self.language
        if language.ordered:
            raise ValueError("odds_cost needs bags of words: set it to 0, or ordered to false")
        most = min(language.longest / language.tokens, 1 / max(language.groups))
        if odds_cost <= 0 or not 0 < least_share < most:
            raise ValueError(
                f"odds_cost must be above 0 (0: all cost alike), and least_share above 0 and below "
                f"{most:.3g}, which "
                f"{language.tokens} tokens can have in sentences of {language.longest}, not "
                f"{odds_cost:g} and "
                f"{least_share:g}"
            )
        if not self.odds_cost:
            self.register_buffer("token_costs", torch.zeros(language.tokens, device=self.device))
        self.odds_cost, self.least_share = odds_cost, least_share
        self.forget_prior()

    def charge(self, costs: Tensor) -> None:
        """Tokens cost so much (tokens,) in P(s), nats, beside `length_cost`, where `price_by_share`
        was asked for.
        """
        self.token_costs.copy_(costs)
        _prior_of_state(self)

    def forget_prior(self) -> None:
        """Tokens cost alike again, where `price_by_share` was asked for."""
        if self.odds_cost:
            self.charge(equal_costs(self.language, self.odds_cost))

    @torch.no_grad()
    def learn_prior(self, q: Normal) -> None:
        """Tokens cost what their shares in sentences of inputs with P(z0 | x) = q (n, d) say, where
        `price_by_share` was asked for and sentences factor.
        """
        if self.odds_cost and self.factored:
            law = self.posterior(q)
            assert isinstance(law, FactoredSentences)
            self.charge(costs_by_share(law, self.odds_cost, self.least_share))

    @property
    def exponent(self) -> float:
        """The power of R that is in force: `reward_exponent` β, or 1."""
        return self.reward_exponent if self.reward_exponent != 1 and bool(self.tempered) else 1.0

    def temper(self, on: bool) -> None:
        """Whether R^β = exp(−β D_KL) P(s)^β, with β = `reward_exponent`, takes the place of R from
        now on, P(s)^β being normalised, and takes the place of P(s) in P(s | z_T), too; the factor
        in z_T is not raised. It is part of the model's state.

        Inference programs do so in E-steps: with β < 1 sentences are more diverse and less sure,
        with β > 1 surer. What tokens cost, and what sentences mean, they learn by R itself, but for
        labels that are read from trajectories. Bengio et al. (2021), "Flow network based generative
        models for non-iterative diverse candidate generation", raise rewards so.
        """
        if self.reward_exponent != 1:
            self.tempered.fill_(on)
            _prior_of_state(self)

    # -- parameters --------------------------------------------------------------------------------
    @property
    def phi(self) -> list[nn.Parameter]:
        """Parameters of the M-step."""
        return [
            p for m in (self.encoder, self.decoder, self.sentence_encoder) for p in m.parameters()
        ]

    @property
    def theta(self) -> list[nn.Parameter]:
        """Parameters of the E-step."""
        parts = (
            self.forward_dynamics,
            self.backward_dynamics,
            self.discretizer,
            self.flow_correction,
            self.log_partition,
        )
        return [p for m in parts for p in m.parameters()]

    # -- what is computed of an input and of the language ------------------------------------------
    def encode(self, x: Tensor) -> Encoding:
        """P(z0 | x), z0 by the option `z0`, and the context by the option `context`; nothing
        carries a gradient.
        """
        with torch.no_grad():
            q = self.encoder(x)
            z0 = q.sample() if self.z0 == "sample" else q.loc
            return Encoding(q, z0, z0 if self.context == "z0" else x)

    @torch.no_grad()
    def reconstruct(self, x: Tensor) -> Bernoulli:
        """P(x | z0) at the mean of P(z0 | x), before the dynamics discretise it."""
        decoded: Bernoulli = self.decoder(self.encoder(x).loc)
        return decoded

    @property
    def sentences(self) -> Tensor:
        """(S, width) all sentences."""
        return self.language.sentences.to(self.device)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def embeddings(self) -> Tensor:
        """(S, d) ẑ_s of all sentences."""
        return self.sentence_encoder(self.sentences).loc

    def embed(self, s: Tensor) -> Tensor:
        """(…, d) ẑ_s of sentences s (…, width)."""
        return self.sentence_encoder(s).loc

    def log_reward(self, q: Normal, s: Tensor | None = None) -> Tensor:
        """log R(s; x) = −D_KL(P(z0|x) ‖ P(z0|ẑ_s)) + log P(s), nats (Eq. *reward* without the
        factor in z_T), or that of R^β (`temper`).

        (B, S) for all sentences, or (…) for one sentence `s` (…, width) an input.
        """
        if s is None:
            return self.log_rewards(q, self.sentences)
        return self.log_fidelity(q, s) + self.language.log_prior(s)

    def log_rewards(self, q: Normal, s: Tensor) -> Tensor:
        """(B, n) log R(s; x) of every pair of B inputs and sentences s (n, width), nats."""
        kl = pairwise_kl(q, self.sentence_encoder(s))
        return self.exponent * (-kl).clamp(min=self.reward_floor) + self.language.log_prior(s)

    def log_fidelity(self, q: Normal, s: Tensor) -> Tensor:
        """(…) −D_KL(P(z0|x) ‖ P(z0|ẑ_s)), not below `reward_floor`, nats, times the `exponent` in
        force: the factor of Eq. *reward* that says how much of x is kept in s (…, width).
        """
        return self.exponent * (-gaussian_kl(q, self.sentence_encoder(s))).clamp(
            min=self.reward_floor
        )

    def log_decodability(self, z: Tensor, s: Tensor | None = None) -> Tensor:
        """The factor of the reward in z_T by the option `decodability`: (…, S), or (…) for given
        sentences; 0 for 'none'.
        """
        if self.decodability == "none":
            return torch.zeros((), device=z.device)
        with torch.no_grad():  # a factor of the E-step's reward: φ is fixed there
            q = self.sentence_encoder(
                s if s is not None and self.decodability == "density" else self.sentences
            )
        if s is not None and self.decodability == "density":
            return q.log_prob(z).sum(-1)
        v = q.scale.square()
        log_n = (
            z.square() @ (-0.5 / v).T
            + z @ (q.loc / v).T
            - (q.loc.square() / (2 * v) + v.log() / 2).sum(-1)
        )
        log_n = log_n - 0.5 * z.shape[-1] * math.log(2 * math.pi)
        if self.decodability == "posterior":
            log_n = (log_n + self.language.log_prior(self.sentences)).log_softmax(-1)
        if s is None:
            return log_n
        index = self.index(s)[
            ..., None
        ]  # s may have more leading dimensions than z: several sentences a state
        return log_n.expand(*index.shape[:-1], -1).gather(-1, index)[..., 0]

    def index(self, s: Tensor) -> Tensor:
        """Row numbers (…) of the sentences s (…, width) in `sentences`."""
        return (2 * s @ self.sentences.T - self.sentences.sum(-1)).argmax(-1)

    def log_posterior(self, q: Normal) -> Tensor:
        """(B, S) log P(s | x) ∝ R(s; x), the ground truth of the sampler: exact where the reward
        does not involve z_T, else with that factor taken at ẑ_s.
        """
        log_r = self.log_reward(q)
        if self.decodability != "none":
            log_r = log_r + self.log_decodability(self.embeddings()).diagonal()
        return log_r.log_softmax(-1)

    def first_backward_kernel(self, s: Tensor, context: Tensor) -> Normal:
        """P←(z_T | ẑ_s, T+1, x): N(ẑ_s, ε²), or the backward dynamics at T + 1 by
        `first_backward_step='learned'`.
        """
        z_hat = self.sentence_encoder(s).loc.detach()
        if self.first_backward_step == "fixed":
            return Normal(z_hat, self.epsilon)
        return self.backward_dynamics(z_hat, float(self.steps + 1), context)

    def log_sentence_given_state(self, z: Tensor) -> Tensor:
        """(…, S) exact log P(s | z), P(s | z) ∝ N(z; ẑ_s, ε²) P(s)."""
        z_hat, v = self.embeddings(), self.epsilon**2
        log_n = (z @ z_hat.T - 0.5 * z_hat.square().sum(-1)) / v
        return (log_n + self.language.log_prior(self.sentences)).log_softmax(-1)

    def sentence_given_state(
        self, z: Tensor, context: Tensor | None = None
    ) -> SentencePolicy | TabulatedSentences | FactoredSentences:
        """P(s | z) as a distribution, by the option `sentence_readout`; the discretizer's, too,
        where an exact one would have to list more sentences than can be listed.
        """
        exact = self.sentence_readout == "exact"
        if exact and (of := self.factors()) is not None:
            return FactoredSentences(self.language, of, self.readout_scores(z, of))
        if exact and self.language.count <= MOST_SENTENCES:
            return TabulatedSentences(self.log_sentence_given_state(z), self.language)
        return self.discretizer(z, context)

    def readout_scores(self, z: Tensor, of: Sequence[Factor]) -> list[Tensor]:
        """(…, U) log N(z; ẑ_s, ε²) of states z (…, d) along the axis of each factor, for its
        subsets.
        """
        with torch.no_grad():
            kernels = [(axis, Normal(p.loc, self.epsilon)) for axis, p in self.along_axes(of)]
        return [kernel.log_prob(z[..., axis, None, None])[..., 0] for axis, kernel in kernels]

    # -- sums over all sentences, where tokens move one axis each ----------------------------------
    def factors(self, language: Language | None = None) -> tuple[Factor, ...] | None:
        """The parts of the language, or of another of the same tokens, whose tokens move one latent
        axis each; None where ẑ_s has no such parts.
        """
        layer, language = self.sentence_encoder.mean, language or self.language
        return (
            factors(language, tuple(layer.axes.tolist()))
            if isinstance(layer, MaskedLinear)
            else None
        )

    @property
    def factored(self) -> bool:
        """Whether P(s | x) is a product of factors, so that it is known exactly without listing
        sentences.
        """
        plain = self.decodability == "none" and self.reward_floor == -math.inf
        return plain and self.factors() is not None

    def posterior(
        self, q: Normal, language: Language | None = None
    ) -> TabulatedSentences | FactoredSentences:
        """P(s | x) ∝ R(s; x) of inputs with P(z0 | x) = q (…, d), exact, as `log_posterior`.

        Where sentences factor, another language of the same tokens may take the place of the
        model's own: its P(s), and its fewest and most tokens. Raises ValueError where sentences
        neither factor nor can be listed.
        """
        of = self.factors(language)
        if of is None or not self.factored:
            if language not in (None, self.language):
                raise ValueError(
                    "another language needs sentences that factor: set token_axes, or leave it out"
                )
            return TabulatedSentences(self.log_posterior(q), self.language)
        power = self.exponent

        def fidelity(axis: int, p: Normal) -> Tensor:
            of_axis = Normal(
                q.loc[..., axis, None, None], q.scale[..., axis, None, None], validate_args=False
            )
            return -power * gaussian_kl(of_axis, p)

        scores = [fidelity(axis, p) for axis, p in self.along_axes(of)]
        silent = self.sentence_encoder(torch.zeros(1, self.language.width, device=self.device))
        for axis in self.sentence_encoder.mean.idle.tolist():  # type: ignore[union-attr, operator]
            p = Normal(silent.loc[:, axis, None], silent.scale[:, axis, None])
            scores[0] = scores[0] + fidelity(axis, p)
        return FactoredSentences(language or self.language, of, scores)

    def along_axes(self, of: Sequence[Factor]) -> Iterator[tuple[int, Normal]]:
        """The latent axis of each factor, and P(z0 | ẑ_s) along it, (U, 1), of the factor's subsets
        alone.
        """
        layer: Any = self.sentence_encoder.mean
        for axis, factor in zip(layer.axes.unique().tolist(), of, strict=True):
            p = self.sentence_encoder(factor.subsets.to(self.device))
            yield axis, Normal(p.loc[:, axis, None], p.scale[:, axis, None], validate_args=False)

    # -- single steps, as Pyro programs ------------------------------------------------------------
    def forward_step(
        self, z: Tensor, t: Tensor | float, context: Tensor, name: str = "z"
    ) -> Tensor:
        """z_{t+1} ~ P_θ(z_{t+1} | z_t), at the site `name`."""
        return pyro.sample(name, self.forward_dynamics(z, t, context).to_event(1))

    def backward_step(
        self, z: Tensor, t: Tensor | float, context: Tensor, name: str = "z"
    ) -> Tensor:
        """z_{t−1} ~ P←_θ(z_{t−1} | z_t, t, x), at the site `name`."""
        return pyro.sample(name, self.backward_dynamics(z, t, context).to_event(1))

    # -- the generative story and its inference, as Pyro programs ----------------------------------
    def model(self, x: Tensor) -> dict[str, Tensor]:
        """Eq. *traj_prob_backward*: s ~ P(s), z_T ~ N(ẑ_s, ε²), z_t ~ P←(z_t | z_{t+1}, t+1, z0)
        down to 1, factor R(z_T, s; x).
        """
        sites: dict[str, Tensor] = {}
        with pyro.plate("inputs", x.shape[0]):
            encoding = self._initial_state(x)
            prior = SentencePolicy(
                self.language.prior_logits, self.language, x.shape[:1], device=x.device
            )
            s = sites["s"] = pyro.sample("s", prior)
            kernel = self.first_backward_kernel(s, encoding.context)
            z = sites[f"z_{self.steps}"] = pyro.sample(f"z_{self.steps}", kernel.to_event(1))
            decodability = self.log_decodability(z, s)
            for t in range(self.steps, 1, -1):
                name = f"z_{t - 1}"
                z = sites[name] = self.backward_step(z, float(t), encoding.context, name)
            pyro.factor("log_reward", self.log_fidelity(encoding.distribution, s) + decodability)
        return sites

    def guide(self, x: Tensor) -> dict[str, Tensor]:
        """Eq. *traj_prob_forward*: z_{t+1} ~ P(z_{t+1} | z_t) from z0, then s ~ P(s | z_T)."""
        sites: dict[str, Tensor] = {}
        with pyro.plate("inputs", x.shape[0]):
            encoding = self._initial_state(x)
            z = encoding.z0
            for t in range(self.steps):
                name = f"z_{t + 1}"
                z = sites[name] = self.forward_step(z, float(t), encoding.context, name)
            sites["s"] = pyro.sample("s", self.sentence_given_state(z, encoding.context))
        return sites

    def _initial_state(self, x: Tensor) -> Encoding:
        with torch.no_grad():
            q = self.encoder(x)
        if self.z0 == "sample":
            z0 = pyro.sample("z_0", q.to_event(1))
        else:  # auxiliary: else Pyro warns that the guide has a site which the model only observes
            with poutine.infer_config(config_fn=lambda site: {"is_auxiliary": True}):
                z0 = pyro.deterministic("z_0", q.loc, event_dim=1)
        return Encoding(q, z0, z0 if self.context == "z0" else x)

    def vae_model(
        self,
        x: Tensor,
        s: Tensor | None = None,
        vae_weight: float = 1.0,
        kl_weight: float = 1.0,
        **weights: float,
    ) -> Tensor:
        """Eq. *mstep_loss*: z0 ~ N(0, 1), x ~ P(x | z0), and the information-loss term as a factor
        when s is given.

        `vae_weight` scales the VAE's loss, `kl_weight` its KL to the prior within it (the β of a
        β-VAE; the paper: 1).
        """
        with pyro.plate("inputs", x.shape[0]):
            prior = Normal(torch.zeros(1, device=x.device), 1.0).expand([x.shape[0], self.latent])
            if s is not None:
                pyro.factor("information_loss", -self.information_loss(x, s, **weights))
            with poutine.scale(scale=vae_weight * kl_weight):
                z0 = pyro.sample("z_0", prior.to_event(1))
            with poutine.scale(scale=vae_weight):
                pyro.sample("x", self.decoder(z0).to_event(x.dim() - 1), obs=x)
        return z0

    def vae_guide(
        self,
        x: Tensor,
        s: Tensor | None = None,
        vae_weight: float = 1.0,
        kl_weight: float = 1.0,
        **weights: float,
    ) -> Tensor:
        """z0 ~ P_φ(z0 | x)."""
        with pyro.plate("inputs", x.shape[0]), poutine.scale(scale=vae_weight * kl_weight):
            return pyro.sample("z_0", self.encoder(x).to_event(1))

    def information_loss(
        self, x: Tensor, s: Tensor, encoder_weight: float = 1.0, sentence_weight: float = 0.25
    ) -> Tensor:
        """w_x KL(P(z0|x) ‖ SG P(z0|ẑ_s)) + w_s KL(SG P(z0|x) ‖ P(z0|ẑ_s)), nats (…); the paper has
        w_x = 1, w_s = β = 0.25.
        """
        q, p = self.encoder(x), self.sentence_encoder(s)
        moves_z0 = gaussian_kl(q, Normal(p.loc.detach(), p.scale.detach()))
        moves_sentence = gaussian_kl(Normal(q.loc.detach(), q.scale.detach()), p)
        return encoder_weight * moves_z0 + sentence_weight * moves_sentence

    # -- simulation --------------------------------------------------------------------------------
    @torch.no_grad()
    def trajectories(
        self, z0: Tensor, steps: int | None = None, context: Tensor | None = None
    ) -> Tensor:
        """(steps + 1, B, d) forward trajectories from z0 (B, d); `context` defaults to z0."""
        context = z0 if context is None else context
        z = [z0]
        for t in range(self.steps if steps is None else steps):
            z.append(self.forward_dynamics(z[-1], float(t), context).sample())
        return torch.stack(z)

    @torch.no_grad()
    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """`draws` trajectories from each of the inputs x (B, …): z_T and s ~ P(s | z_T)."""
        e = self.encode(x)
        z0, context = (part.repeat_interleave(draws, 0) for part in (e.z0, e.context))
        z = self.trajectories(z0, context=context)[-1]
        s = self.sentence_given_state(z, context).sample()
        return Description(z.unflatten(0, (-1, draws)), s.unflatten(0, (-1, draws)))
