"""The networks of Table 1, one class each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor, nn

from plot_attractors.language import Language
from plot_attractors.language.policy import SentencePolicy
from plot_attractors.model.bits import KnownBits
from plot_attractors.model.memory import RECALLED, Memory, recall, width
from plot_attractors.model.nn import (
    MLP,
    Fourier,
    ImageGenerator,
    MaskedLinear,
    encoding_network,
    time_features,
)

__all__ = [
    "BackwardTokenPolicy",
    "Discretizer",
    "Dynamics",
    "FlowCorrection",
    "HopfieldDynamics",
    "ImageDecoder",
    "InputDecoder",
    "InputEncoder",
    "LogPartition",
    "SentenceEncoder",
    "VectorDecoder",
    "bounded_step",
    "input_decoder",
]

LEAST_NOISE = 0.02  # standard deviation of a standardised real number, decoded
KEYS = 8  # dimensions of a pattern's key beside those of its sentence
REACH = 0.4  # of the distance from an input to its sentence, three even steps of a walk
LEAST_SPREAD = 0.1  # of these, in which they are standardised
SMALL_STEP = -4.0  # logit of the size of an untrained mean step
DARK = -3.0  # logit of a pixel of an untrained decoder


class InputEncoder(nn.Module):
    """P_φ(z0 | x) = N(μ(x), σ(μ(x))²), for inputs of a shape (bits,) or (channels, side, side).

    μ is a network of x, σ an MLP of μ through a sigmoid, within (0.01, 1).
    """

    def __init__(self, shape: Sequence[int], latent: int, units: int = 256) -> None:
        super().__init__()
        self.mean = encoding_network(shape, latent, units)
        self.sd = MLP(latent, latent, units=64, layers=2)

    def forward(self, x: Tensor) -> Normal:
        return self.around(self.mean(x))

    def around(self, mean: Tensor) -> Normal:
        """P(z0 | x) of an input with this mean state (…, d), observed or imagined."""
        return Normal(mean, 0.01 + 0.99 * torch.sigmoid(self.sd(mean)))


class InputDecoder(nn.Module):
    """P_φ(x | z) = Π_k Bernoulli(x_k; logits_k(z)), over the bits that are known."""

    def __init__(self, latent: int, outputs: int, units: int = 256, layers: int = 3) -> None:
        super().__init__()
        self.logits = MLP(latent, outputs, units, layers)

    def forward(self, z: Tensor) -> KnownBits:
        return KnownBits(logits=self.logits(z))


class VectorDecoder(nn.Module):
    """P_φ(x | z) = Π_k N(x_k; μ_k(z), σ²) of real numbers, standardised. One σ, at least 0.02, is
    learned: with one of its own, a column that hardly ever varies would soon be all that counts.
    Source: Rybkin et al. (2021), "Simple and effective VAE training with calibrated decoders".
    """

    def __init__(self, latent: int, outputs: int, units: int = 256) -> None:
        super().__init__()
        self.mean = MLP(latent, outputs, units)
        self.spread = nn.Parameter(torch.tensor(math.log(math.e - 1)))  # σ = 1.02

    @property
    def noise(self) -> Tensor:
        """() σ."""
        return LEAST_NOISE + nn.functional.softplus(self.spread)

    def forward(self, z: Tensor) -> Normal:
        return Normal(self.mean(z), self.noise)


class ImageDecoder(nn.Module):
    """P_φ(x | z) = Π_k N(x_k; μ_k(z), noise²) of images (channels, side, side) of values in [0, 1].

    μ = σ(g_c(z)) σ(h_c(z, place)) for channel c, with g linear: the colour of a scene, and how
    much of it there is at a place. Without g, a VAE of few dimensions bends seven colours into a
    plane before it finds the third channel, and linear embeddings cannot follow.
    """

    def __init__(self, latent: int, shape: Sequence[int], noise: float = 0.1) -> None:
        super().__init__()
        self.generator, self.noise = ImageGenerator(latent, shape), noise
        # From grey images, training turns them black so fast that units die; from dark ones not.
        nn.init.constant_(self.generator.growth[-1].bias, DARK)  # type: ignore[arg-type]
        self.gain = nn.Linear(latent, shape[0])

    @torch.no_grad()
    def start_at(self, mean: Tensor) -> None:
        """Begin with the mean (channels,) of images, half of it in each factor."""
        half = mean.clamp(0.02, 0.98).sqrt().logit()
        self.generator.growth[-1].bias.copy_(half)  # type: ignore[operator, union-attr]
        self.gain.bias.copy_(half)

    def forward(self, z: Tensor) -> Normal:
        return Normal(
            self.gain(z).sigmoid()[..., None, None] * self.generator(z).sigmoid(), self.noise
        )


def input_decoder(
    latent: int, shape: Sequence[int], units: int = 256, real: bool = False
) -> InputDecoder | VectorDecoder | ImageDecoder:
    """P_φ(x | z): `InputDecoder` for bits, or `VectorDecoder` for real numbers, of shape (D,), and
    `ImageDecoder` for images.
    """
    if len(shape) > 1:
        return ImageDecoder(latent, shape)
    return (VectorDecoder if real else InputDecoder)(latent, shape[0], units)


class SentenceEncoder(nn.Module):
    """P_φ(z0 | ẑ_s) = N(ẑ_s, σ(s)²): ẑ_s = e_φ(s) linear in the tokens of s, σ an MLP of them.

    With `axes`, every token moves ẑ_s along one latent axis and changes σ along this axis only.
    The field that draws states to the nearest of many embeddings is then a sum of fields of few
    embeddings, which networks learn, and sums over all sentences factor (`FactoredSentences`).

    Args:
        language, latent: of the sentences; d.
        axes: whether every token has one axis.
    """

    def __init__(self, language: Language, latent: int, axes: bool = False) -> None:
        super().__init__()
        width = language.width
        self.mean = (MaskedLinear if axes else nn.Linear)(width, latent)
        nn.init.normal_(self.mean.weight, std=2**0.5 / latent**0.5)  # ‖e_w‖ is about √2
        nn.init.zeros_(self.mean.bias)
        self.sd = MaskedLinear(width, latent) if axes else MLP(width, latent, units=64, layers=2)

    @property
    def along_axes(self) -> MaskedLinear | None:
        """ẑ_s, where every token moves it, and changes σ, along one latent axis."""
        return self.mean if isinstance(self.mean, MaskedLinear) else None

    def forward(self, s: Tensor) -> Normal:
        return self._normal(self.mean(s), self.sd(s))

    def additions_along_axes(self, s: Tensor) -> tuple[Normal, Normal]:
        """P(z0 | ẑ) of bags s (…, tokens), (…, d), and, (…, tokens), of s with each token added,
        along its own axis, of an encoder with `axes`.
        """
        layers: Any = (self.mean, self.sd)
        axes = layers[0].axes
        token = torch.arange(len(axes), device=axes.device)
        mean, sd = (layer(s) for layer in layers)
        more = (
            out[..., axes] + layer.weight[axes, token]
            for layer, out in zip(layers, (mean, sd), strict=True)
        )
        return self._normal(mean, sd), self._normal(*more)

    def _normal(self, mean: Tensor, sd: Tensor) -> Normal:
        return Normal(mean, 0.01 + 0.99 * torch.sigmoid(sd), validate_args=False)


def bounded_step(z: Tensor, out: Tensor, max_step: float, sd_range: tuple[float, float]) -> Normal:
    """N(z + max_step · sigmoid(m) · v/‖v‖, σ²): the transition kernel of both dynamics (Section
    *Model*).

    The mean moves by less than `max_step`, which is the paper's prior on gradual change; every σ
    lies in `sd_range`.

    Args:
        z: (…, d) the state.
        out: (…, 2d + 1) network output: direction v, pre-sigmoid size m, pre-sigmoid standard
        deviations.
    """
    d = z.shape[-1]
    v, m, r = out.split([d, 1, d], -1)
    norm = v.square().sum(-1, keepdim=True).clamp(min=1e-12).sqrt()
    low, high = sd_range
    return Normal(z + max_step * torch.sigmoid(m) * v / norm, low + (high - low) * torch.sigmoid(r))


class HopfieldDynamics(nn.Module):
    """P_θ(z_{t+1} | z_t): the state is drawn to one of n learned patterns, or between them.

    A modern Hopfield network (attention to patterns v_i with keys k_i) has an end and its variance,
    and the step goes a part of the way there, with noise of its own::

        w_i ∝ exp(a(z) · v_i − ½ c(z) · v_i² + q(z) · k_i + b_i)
        e = Σ_i w_i v_i,  u = Σ_i w_i v_i² − e²
        z′ ~ N(z + g(z)(e + δ(z) − z), g(z)² u + s(z)²)

    a, c, q, g, δ and s are outputs of one MLP of the state with its memory, as it is and as
    `recall` reads it; a = γ(z)(z + …). Keys begin at 1/σ_s² and ẑ_s/σ_s² of sentences,
    standardised, and 8 more numbers. This family contains the Gaussian steps whose moments are
    those of all sentences (`Bridge`).
    With `axes` every latent axis has patterns of its own, n / d of them.
    Source: Ramsauer et al. (2021), "Hopfield networks is all you need".

    Args:
        latent: d.
        memory: what the state has beside the latent axes; none for a state without memory.
        patterns: n.
        axes: whether every axis has patterns of its own.
        max_step, sd_range: bounds of the length of a mean step, and of s, the noise beside u. The
            first is wider where sentences are far from inputs (`prepare`).
    """

    scale: Tensor  # () of sentences, along their widest axis
    max_step: Tensor  # ()

    def __init__(
        self,
        latent: int,
        memory: Memory,
        *,
        patterns: int = 512,
        axes: bool = False,
        units: int = 128,
        max_step: float = 0.25,
        sd_range: tuple[float, float] = (0.001, 0.2),
    ) -> None:
        super().__init__()
        self.latent, self.amplitude = latent, memory.amplitude
        self.least, self.sd_range = max_step, sd_range
        self.register_buffer("max_step", torch.tensor(max_step))
        heads = latent if axes else 1
        n, d = max(1, patterns // heads), latent // heads
        self.pattern = nn.Parameter(torch.randn(heads, n, d))
        self.key = nn.Parameter(torch.empty(heads, n, 2 * d + KEYS))
        self.bias = nn.Parameter(torch.empty(heads, 1, n))
        self.register_buffer("scale", torch.ones(()))
        self.sizes = [1, *[latent] * 7, KEYS]
        seen = latent + memory.size + (RECALLED + latent) * bool(memory.size)
        self.net = MLP(seen, sum(self.sizes), units)
        last: Any = self.net[-1]
        nn.init.normal_(last.weight, std=0.02)
        nn.init.zeros_(last.bias)
        self._reset()

    @torch.no_grad()
    def _reset(self) -> None:
        nn.init.normal_(self.key, std=0.1)
        nn.init.zeros_(self.bias)

    @torch.no_grad()
    def prepare(self, p: Normal, far: float = 0.0) -> None:
        """Patterns and keys are of sentences with P(z0 | ẑ_s) = p (m, d) from now on: of different
        ones, as far as there are; mean steps may be 0.4 of `far`, the distance of inputs from their
        sentences.
        """
        self.max_step.fill_(max(self.least, REACH * far))
        heads, n, d = self.pattern.shape
        self.scale.copy_(width(p).max().clamp(min=0.1 * self.max_step))
        self._reset()
        for k in range(heads):
            own = torch.cat([part.unflatten(-1, (heads, d))[:, k] for part in (p.loc, p.scale)], -1)
            own = own.unique(dim=0)
            chosen = torch.randperm(len(own), device=own.device).repeat(-(-n // len(own)))[:n]
            v, sd = own[chosen].chunk(2, -1)
            precision = (self.scale / sd).square()
            key = torch.cat([precision, precision * v / self.scale], -1)
            spread = key.std(0, correction=0) + LEAST_SPREAD
            self.pattern[k], self.key[k, :, : 2 * d] = v, (key - key.mean(0)) / spread

    def forward(self, z: Tensor, t: Any = None, context: Tensor | None = None) -> Normal:
        """z (…, d + m) → Normal over (…, d)."""
        z, memory = z[..., : self.latent], z[..., self.latent :]
        seen = [z / self.scale]
        if memory.shape[-1]:
            seen += [memory / self.amplitude, recall(memory, self.amplitude)]
        out = self.net(torch.cat(seen, -1)).split(self.sizes, -1)
        gamma, shift, width, gain, offset, noise, *own, query = out
        gamma = 2 / self.scale**2 * gamma.exp()
        heads, _, d = self.pattern.shape
        near = gamma * (z + self.scale * shift), -0.5 * gamma * width.exp(), *own
        queries = [part.unflatten(-1, (heads, d)).movedim(-2, 0).flatten(1, -2) for part in near]
        queries.append(query.flatten(0, -2).expand(heads, -1, -1))
        v, square = self.pattern, self.pattern**2
        values = torch.cat([v, square], -1)  # as one, several times faster than one by one
        keys = torch.cat([values, self.key], -1).mT
        w = torch.baddbmm(self.bias, torch.cat(queries, -1), keys).softmax(-1)  # (heads, …, n)
        moments = (w @ values).movedim(0, -2).split(d, -1)
        end, mean_square = (part.reshape(z.shape) for part in moments)
        spread = (mean_square - end**2).clamp(min=0)
        gain = torch.sigmoid(gain - 1)
        step = gain * (end + 0.1 * self.scale * offset - z)
        length = step.norm(dim=-1, keepdim=True).clamp(min=1e-6)
        low, high = (math.log(bound) for bound in self.sd_range)
        own = (low + (high - low) * torch.sigmoid(noise + 0.5)).exp()
        sd = (gain**2 * spread + own**2).sqrt()
        mean = z + step * (self.max_step / length).clamp(max=1)
        return Normal(mean, sd, validate_args=False)


class Dynamics(nn.Module):
    """P(z_{t±1} | z_t, …) = N(z_t + bounded step, σ²), forward or backward (`bounded_step`).

    The paper's forward dynamics see the state only, its backward dynamics time and the input, too,
    of which z0 (the context) is what they see here (Table 1).

    Args:
        latent, steps: d, and T, the unit of time.
        memory: m, what the state has beside the latent axes.
        context, time: whether z0 and whether t are seen.
        last: the last time that training has, T of backward and T − 1 of forward dynamics; later
            ones are as it.
        fourier: random Fourier features of z, and of the context.
        max_step, sd_range: bounds of the mean step and of every standard deviation.
    """

    def __init__(
        self,
        latent: int,
        steps: int,
        *,
        memory: int = 0,
        context: bool = False,
        time: bool = False,
        last: int | None = None,
        fourier: Fourier = Fourier(),  # noqa: B008 (frozen)
        units: int = 256,
        max_step: float = 0.25,
        sd_range: tuple[float, float] = (0.001, 0.3),
    ) -> None:
        super().__init__()
        self.latent, self.steps, self.context, self.time = latent, steps, context, time
        self.last = steps + 1 if last is None else last
        self.max_step, self.sd_range = max_step, sd_range
        self.features = fourier.of(latent + memory)
        self.context_features = fourier.of(latent) if context else None
        seen = (latent + fourier.features) * (1 + context) + memory + 7 * time
        self.net = MLP(seen, 2 * latent + 1, units)
        # new dynamics stay near z0: with large steps they march away, their directions alike
        nn.init.constant_(self.net[-1].bias[latent : latent + 1], SMALL_STEP)  # type: ignore[index]

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor | None = None) -> Normal:
        """z (…, d + m), t a number or (…, 1), context (…, d), all broadcast → Normal (…, d)."""
        t = torch.as_tensor(t, dtype=z.dtype, device=z.device)
        t = t.reshape(1) if t.dim() == 0 else t
        seen: list[Any] = [z, context] if self.context else [z]
        shape = torch.broadcast_shapes(t.shape[:-1], *(part.shape[:-1] for part in seen))
        z = z.expand(*shape, -1)
        inputs = [self.features(z)]
        if self.context_features is not None:
            inputs.append(self.context_features(seen[1].expand(*shape, -1)))
        if self.time:
            inputs.append(time_features(t.clamp(max=self.last), self.steps).expand(*shape, -1))
        out = self.net(torch.cat(inputs, -1))
        return bounded_step(z[..., : self.latent], out, self.max_step, self.sd_range)


class Discretizer(nn.Module):
    """P_θ(s | z) = Π_i P_θ(s_i | s_:i, z): the sentence decoder, applied token by token until the
    end token (Table 1).

    Args:
        language, latent: of the sentences; d.
        context: whether it sees z0 too, P(s | z, x).
        canonical: one building order; False: any order, and `backward_policy` takes a token away.
        fourier: features of z, which tell neighbouring embeddings apart.
        sentence_encoder: if given, z − ẑ of the partial sentence is seen through the same
            features; its parameters stay its own.
    """

    def __init__(
        self,
        language: Language,
        latent: int,
        *,
        context: bool = False,
        canonical: bool = True,
        fourier: Fourier = Fourier(),  # noqa: B008 (frozen)
        units: int = 256,
        sentence_encoder: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.language, self.context = language, context
        self.canonical = canonical
        self._encoder = [] if sentence_encoder is None else [sentence_encoder]  # as in `Dynamics`
        self.latent, self.fourier, self.units = latent, fourier, units
        self.features = fourier.of(latent)
        seen = (latent + fourier.features) * (1 + len(self._encoder)) + latent * context
        self.net = MLP(language.width + seen, language.width + 1, units)
        order = None if self.canonical else BackwardTokenPolicy(language, latent, units)
        self.backward_policy = order

    def forward(
        self, z: Tensor, context: Tensor | None = None, explore: float = 0.0
    ) -> SentencePolicy:
        """P(s | z) of states z (…, d), with uniform tokens in the share `explore`."""
        z = z[..., : self.latent]
        state = self.features(z)
        if self.context and context is not None:
            state = torch.cat([state, context.expand(*z.shape[:-1], -1)], -1)

        def logits(partial: Tensor) -> Tensor:
            inputs = [partial, state.expand(*partial.shape[:-1], -1)]
            for encoder in self._encoder:
                inputs.append(self.features(z - encoder(partial).loc.detach()))
            return self.net(torch.cat(inputs, -1))

        shape = z.shape[:-1]
        return SentencePolicy(logits, self.language, shape, self.canonical, explore, z.device)

    def like(self, plain: bool = False) -> Discretizer:
        """A new one of the same kind. A plain one sees z and the partial sentence alone, and has
        half the units where this one sees z − ẑ of the partial sentence too.
        """
        more = plain and bool(self._encoder)
        return Discretizer(
            self.language,
            self.latent,
            context=self.context,
            canonical=self.canonical,
            fourier=Fourier() if plain else self.fourier,
            units=self.units // 2 if more else self.units,
            sentence_encoder=self._encoder[0] if self._encoder and not plain else None,
        ).to(next(self.parameters()).device)

    def score(self, s: Tensor, z: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(…) Σ log P(s_i | s_:i, z) and Σ log P←(s_:i | s_:i+1, z), nats, of a building order of
        s: the canonical one, which has one way back, or one drawn by the backward policy.
        """
        policy = self(z, context)
        if self.backward_policy is None:
            return policy.log_prob(s), torch.zeros((), device=z.device)
        ranks, log_pb = self.backward_policy.sample_order(s, z)
        return policy.log_prob_path(s, ranks), log_pb


class BackwardTokenPolicy(nn.Module):
    """P←(s_:i | s_:i+1, z): which token to take away; absent for a canonical building order."""

    def __init__(self, language: Language, latent: int, units: int = 256) -> None:
        super().__init__()
        self.language = language
        self.net = MLP(language.width + latent, language.width, units)

    def sample_order(self, s: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """A building order drawn by removals: (…, width) ranks as in `log_prob_path`, and its
        log-probability (…), nats.
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
    """(T − t) · g_θ(z, t, x), nats: 0 at t = T, larger far from it (*Flow correction*)."""

    def __init__(self, latent: int, steps: int, units: int = 256) -> None:
        super().__init__()
        self.steps = steps
        self.net = MLP(2 * latent + 7, 1, units)

    def forward(self, z: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
        """(…, d), (…, 1), (…, d) → (…)."""
        t = torch.as_tensor(t, dtype=z.dtype, device=z.device)
        t = t.reshape(1) if t.dim() == 0 else t
        shape = z.shape[:-1]
        inputs = [z, context.expand(*shape, -1), time_features(t, self.steps).expand(*shape, -1)]
        return ((self.steps - t) * self.net(torch.cat(inputs, -1)))[..., 0]


class LogPartition(nn.Module):
    """log Z_θ(z, x) of the discretizer's own trajectory balance (Eq. *discretizer_loss*)."""

    def __init__(self, latent: int, units: int = 256) -> None:
        super().__init__()
        self.net = MLP(2 * latent, 1, units)

    def forward(self, z: Tensor, context: Tensor) -> Tensor:
        return self.net(torch.cat([z, context.expand(*z.shape[:-1], -1)], -1))[..., 0]
