"""What a state remembers of its input, and the bridge from an input to a sentence."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor, nn

__all__ = ["PERSISTENCE", "RECALLED", "STATIONARY_SD", "Bridge", "Memory", "recall", "width"]

PERSISTENCE = 0.7  # ρ of steps in a basin
STATIONARY_SD = (1 - PERSISTENCE**2) ** 0.5  # √(1 − ρ²) of their noise, in ε
FADING = 0.8  # ρ of memory: its trace is legible up to K, and below its noise at T
CLOCK = 5.0  # at t = 0, in amplitudes of the trace
RECALLED = 14  # times that memory tells apart
LEAST_CLOCK = 1e-3  # of that at t = 0, for a logarithm
LEGIBLE = 0.1  # amplitude of the clock below which the trace is not trusted
WALK = 0.4  # K / T
LONGEST_STEP = 0.65  # of the bound of a mean step
LEAST_VARIANCE = 1e-10


class Memory(nn.Module):
    """m axes of the state beside the d latent ones, in which every embedding is 0, and which fade.

    At t = 0 they hold a clock, 5a, and a trace of the input, a z0 / σ with the standard deviation σ
    of z0 along each axis; m = 1 + d. Dynamics of the state alone tell by them how long ago
    they began, and from where. The flow is N(0, ε²) in them, whatever the sentence, so that
    detailed balance holds for an AR(1) of any ρ, with b_t = ρ^t b_0 and v_t = ε²(1 − ρ^{2t})::

        b_{t+1} | b_t      ~ N(ρ b_t, (1 − ρ²) ε²)
        b_t | b_0          ~ N(ρ^t b_0, v_t)
        b_t | b_{t+1}, b_0 ~ N(ρ^t b_0 + ρ (v_t / v_{t+1}) (b_{t+1} − ρ^{t+1} b_0),
                               (1 − ρ²) ε² v_t / v_{t+1})

    Args:
        latent: d.
        amplitude: a; 0: no memory, m = 0.
        epsilon: ε.
    """

    scale: Tensor  # (d,) σ

    def __init__(self, latent: int, amplitude: float, epsilon: float) -> None:
        super().__init__()
        self.amplitude, self.epsilon = amplitude, epsilon
        self.size = 1 + latent if amplitude else 0  # m
        self.register_buffer("scale", torch.ones(latent or 1))

    def start(self, z0: Tensor) -> Tensor:
        """(…, m) memory at t = 0 of inputs with z0 (…, d)."""
        clock = torch.full_like(z0[..., :1], CLOCK)
        trace = torch.cat([clock, z0 / self.scale], -1)
        return self.amplitude * trace[..., : self.size]

    def marginal(self, z0: Tensor, t: Tensor | float) -> Normal:
        """(…, m) memory at time t, a number or (…, 1); ∞: faded."""
        t = torch.as_tensor(t, dtype=z0.dtype, device=z0.device)
        variance = self.epsilon**2 * (1 - FADING ** (2 * t))
        return _normal(FADING**t * self.start(z0), variance)

    def log_prob(self, memory: Tensor, t: Tensor, z0: Tensor) -> Tensor:
        """(…) log-density of memory (…, m) at times t (…, 1), nats; 0 at t = 0: it is given."""
        log_p: Tensor = self.marginal(z0, t).log_prob(memory).sum(-1)
        return torch.where(t[..., 0] > 0, log_p, 0.0)

    def forward(self, memory: Tensor) -> Normal:
        """The transition from memory (…, m)."""
        sd = (1 - FADING**2) ** 0.5 * self.epsilon
        return Normal(FADING * memory, sd, validate_args=False)

    def backward_step(self, memory: Tensor, t: Tensor | float, z0: Tensor) -> Normal:
        """The transition to time t − 1 from memory (…, m) at t."""
        before, now = self.marginal(z0, t - 1), self.marginal(z0, t)
        ratio = (before.scale / now.scale).square()
        mean = before.loc + FADING * ratio * (memory - now.loc)
        return _normal(mean, (1 - FADING**2) * self.epsilon**2 * ratio)


def recall(memory: Tensor, amplitude: float) -> Tensor:
    """(…, 14 + d) what memory (…, m) tells: a bump at each of the times 0 to 13 that it may be, by
    the clock; and the trace as it was at t = 0, divided by the clock as long as that is legible.
    """
    clock, trace = (memory / amplitude).tensor_split([1], -1)
    t = (clock.abs() / CLOCK + LEAST_CLOCK).log() / math.log(FADING)
    bumps = (-2 * (t - torch.arange(RECALLED, device=t.device)).square()).exp()
    return torch.cat([bumps, CLOCK * trace * clock / (clock.square() + LEGIBLE**2)], -1)


class Bridge(nn.Module):
    """P←(z_{t−1} | z_t, t, z0): a Brownian bridge from z0, and after K = 0.4 T steps the forward
    dynamics themselves, which are then to be reversible.

    With τ_t = 1 − (1 − t/K)² and one σ for each latent axis, given the sentence::

        z_t | s       ~ N((1 − τ_t) z0 + τ_t ẑ_s, τ_t² ε² + σ² τ_t (1 − τ_t)),   t ≤ K
        z_{t−1} | z_t ~ N(z0 + β (z_t − z0), σ² β (τ_t − τ_{t−1})),   β = τ_{t−1} / τ_t

    Time slows down towards K, where sentences part: with τ = t / K the last step alone would have
    to choose among embeddings, which no Gaussian does. The flow of the walk is then known,
    F(z, t; x) = Σ_s R(s; x) N(z; z_t | s), and from K on it is Σ_s R(s; x) N(z; ẑ_s, ε²).
    Source: Zhang and Chen (2022), "Path integral sampler".

    Args:
        latent, steps, epsilon: d, T, ε.
        forward_dynamics: P_θ(z_{t+1} | z_t), with the bound `max_step` of a mean step.
    """

    sd: Tensor  # (d,) σ

    def __init__(
        self, latent: int, steps: int, epsilon: float, forward_dynamics: nn.Module
    ) -> None:
        super().__init__()
        self.latent, self.epsilon = latent, epsilon
        self.walk = max(1, round(WALK * steps))  # K
        self._forward = [forward_dynamics]  # in a list: its parameters are not this module's
        self.register_buffer("sd", torch.full((latent,), epsilon))

    @torch.no_grad()
    def prepare(self, p: Normal) -> None:
        """σ is as wide as sentences in use, with P(z0 | ẑ_s) = p (n, d), are: `width`. But mean
        steps towards a sentence, with a root mean square up to 1.5 σ / K, must be within the bound
        of a step: at most 0.65 of it.
        """
        sd = width(p)
        most = LONGEST_STEP * getattr(self._forward[0], "max_step", torch.inf) * self.walk / 1.5
        self.sd.copy_((sd * (most / sd.norm()).clamp(max=1)).clamp(min=self.epsilon))

    def _tau(self, t: Tensor) -> Tensor:
        return 1 - (1 - (t / self.walk).clamp(0, 1)).square()

    @torch.no_grad()
    def forward(self, z: Tensor, t: Tensor | float, z0: Tensor) -> Normal:
        """z (…, d + m), t a number or (…, 1), z0 (…, d) → Normal over (…, d)."""
        t = torch.as_tensor(t, dtype=z.dtype, device=z.device).clamp(min=1)
        before, now = self._tau(t - 1), self._tau(t)
        back = before / now
        loc = z0 + back * (z[..., : self.latent] - z0)
        variance = (self.sd**2 * back * (now - before)).expand_as(loc)
        if bool((t > self.walk).any()):
            to = self._forward[0](z, t, z0)
            after = t > self.walk
            loc = torch.where(after, to.loc, loc)
            variance = torch.where(after, to.scale**2, variance)
        return _normal(loc, variance)

    def marginal(self, z0: Tensor, z_hat: Tensor, t: Tensor) -> Normal:
        """(…, d) z_t | s of embeddings z_hat (…, d) at times t (…, 1)."""
        tau = self._tau(t)
        return _normal(torch.lerp(z0, z_hat, tau), self._variance(tau))

    def _variance(self, tau: Tensor) -> Tensor:
        return (tau * self.epsilon) ** 2 + self.sd**2 * tau * (1 - tau)

    def step(self, z: Tensor, z0: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """a, b and v (…, d) of z_{t+1} | z_t, s ~ N(a + b ẑ_s, v) at states z (…, d) and times t
        (…, 1): of the bridge, and from K on of the AR(1) at ẑ_s.
        """
        now, then = self._tau(t), self._tau(t + 1)
        v = self._variance(then)  # of z_{t+1} | s
        back = now / then
        w = self.sd**2 * back * (then - now)  # of z_t | z_{t+1}
        gain = torch.where(now > 0, v * back / (back**2 * v + w).clamp(min=LEAST_VARIANCE), 0.0)
        a = gain * z + (1 - then - gain * (1 - back * then)) * z0
        b, v = then * (1 - gain * back), v * (1 - gain * back)
        walks = t < self.walk
        return (
            torch.where(walks, a, PERSISTENCE * z),
            torch.where(walks, b, 1 - PERSISTENCE),
            torch.where(walks, v, (STATIONARY_SD * self.epsilon) ** 2),
        )


def width(p: Normal) -> Tensor:
    """(d,) the median σ_s of sentences with P(z0 | ẑ_s) = p (n, d), or the sd of ẑ_s if less."""
    scale = p.scale.contiguous()  # torch.median reads expanded tensors wrongly
    return scale.median(0).values.minimum(p.loc.std(0))


def _normal(loc: Tensor, variance: Any) -> Normal:
    sd = variance.clamp(min=LEAST_VARIANCE).sqrt()
    return Normal(loc, sd, validate_args=False)
