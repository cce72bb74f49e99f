"""The attractor model: the parts of Table 1, and the Pyro programs made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyro
import torch
from pyro import poutine
from pyro.distributions import Bernoulli, Normal
from torch import Tensor, nn

from plot_attractors.gflownet.trajectories import rollout, simulate
from plot_attractors.language import Language
from plot_attractors.language.policy import SentencePolicy, draw_prior, prior_policy
from plot_attractors.model.networks import (
    Discretizer,
    Dynamics,
    FlowCorrection,
    ImageDecoder,
    InputDecoder,
    InputEncoder,
    LogPartition,
    SentenceEncoder,
    VectorDecoder,
)
from plot_attractors.model.nn import MaskedLinear
from plot_attractors.model.posterior import ExactPosterior
from plot_attractors.model.protocols import Description
from plot_attractors.model.readout import Readout
from plot_attractors.model.reward import Clamp, Decodability, Reward, gaussian_kl

__all__ = ["ROWS", "AttractorModel", "Encoding"]

ROWS = 1024  # trajectories simulated at once: what fits into a core's cache


@dataclass(frozen=True)
class Encoding:
    """Inputs as the E-step sees them: P(z0 | x), and the initial states z0 (B, d), which stand for
    x in every part that sees it. Without gradients.
    """

    distribution: Normal
    z0: Tensor

    def __getitem__(self, index: Tensor | slice) -> Encoding:
        q = self.distribution
        return Encoding(Normal(q.loc[index], q.scale[index]), self.z0[index])


class AttractorModel(nn.Module):
    """*Discrete, compositional, and symbolic representations through attractor dynamics*: all parts
    of its Table 1, and the Pyro programs that say how they belong together.

    `model` and `guide` are Eqs. *traj_prob_backward* and *traj_prob_forward*, unrolled from the
    single steps `forward_step` and `backward_step` that training scores; `vae_model` and
    `vae_guide` are Eq. *mstep_loss*. `phi` parts are trained in the M-step, `theta` parts in the
    E-step. `reward`, `posterior` and `readout` are R, the exact P(s | x) and P(s | z).

    Args:
        language: the sentences and P(s).
        encoder, …, log_partition: the parts of Table 1.
        steps: T.
        epsilon: ε of the first backward step P←(z_T | ẑ_s, T + 1, x) = N(ẑ_s, ε²).
        decodability, floor, clamp, inverse_temperature: of the `Reward`.
        exact_readout: P(s | z) by `Readout`, where it can be, or by the discretizer.
        sample_z0: z0 is drawn from P(z0 | x) (Algorithm 2), not its mean (Section *Experiments*).
    """

    def __init__(
        self,
        language: Language,
        *,
        encoder: InputEncoder,
        decoder: InputDecoder | VectorDecoder | ImageDecoder,
        sentence_encoder: SentenceEncoder,
        forward_dynamics: nn.Module | Dynamics,
        backward_dynamics: Dynamics,
        discretizer: Discretizer,
        flow_correction: FlowCorrection,
        log_partition: LogPartition,
        steps: int = 20,
        epsilon: float = 0.05,
        decodability: Decodability = "none",
        floor: float = -float("inf"),
        clamp: Clamp = "kl",
        inverse_temperature: float = 1.0,
        exact_readout: bool = True,
        sample_z0: bool = False,
    ) -> None:
        super().__init__()
        self.language = language
        self.encoder, self.decoder, self.sentence_encoder = encoder, decoder, sentence_encoder
        self.forward_dynamics, self.backward_dynamics = forward_dynamics, backward_dynamics
        self.discretizer, self.flow_correction = discretizer, flow_correction
        self.log_partition = log_partition
        self.steps, self.epsilon, self.sample_z0 = steps, epsilon, sample_z0
        beta = inverse_temperature
        self.reward = Reward(sentence_encoder, language, decodability, floor, clamp, beta)
        self.posterior = ExactPosterior(self.reward)
        self.exact_readout = exact_readout
        self.sentence_policy: Discretizer | None = None

    def sentence_prior(self, n: int) -> SentencePolicy:
        """n sentences from P(s)^β, normalised, as a policy that builds them token by token."""
        return prior_policy(self.language.power(self.reward.beta), (n,), self.device)

    def draw_prior(self, n: int) -> Tensor:
        """(n, width) sentences from P(s)^β; faster than those of `sentence_prior`."""
        return draw_prior(self.language.power(self.reward.beta), n, self.device)

    def add_sentence_policy(self) -> Discretizer:
        """Gives the model P_θ(s | z0), which proposes sentences of an input: a network like the
        discretizer's, with parameters of its own. Where tokens have no axes it is plain: z0 lies at
        no embedding, so what tells near ones apart does not help, and costs three times as much.
        """
        axes = isinstance(self.sentence_encoder.mean, MaskedLinear)
        self.sentence_policy = self.discretizer.like(plain=not axes)
        return self.sentence_policy

    @property
    def phi(self) -> list[nn.Parameter]:
        """Parameters of the M-step."""
        return _parameters(self.encoder, self.decoder, self.sentence_encoder)

    @property
    def theta(self) -> list[nn.Parameter]:
        """Parameters of the E-step."""
        dynamics = self.forward_dynamics, self.backward_dynamics
        return _parameters(*dynamics, self.discretizer, self.flow_correction, self.log_partition)

    @property
    def readout(self) -> Readout:
        """P(s | z)."""
        return Readout(self.posterior, self.discretizer, self.epsilon, self.exact_readout)

    @property
    def latent(self) -> int:
        """d, the size of z."""
        return self.sentence_encoder.mean.out_features

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    # -- states of inputs, and embeddings of sentences -------------------------------------------
    @torch.no_grad()
    def encode(self, x: Tensor) -> Encoding:
        """P(z0 | x), and z0: its mean, or a sample."""
        q = self.encoder(x)
        return Encoding(q, q.sample() if self.sample_z0 else q.loc)

    @torch.no_grad()
    def reconstruct(self, x: Tensor) -> Bernoulli:
        """P(x | z0) at the mean of P(z0 | x), before the dynamics discretise it."""
        decoded: Bernoulli = self.decoder(self.encoder(x).loc)
        return decoded

    def embed(self, s: Tensor) -> Tensor:
        """(…, d) ẑ_s of sentences s (…, width)."""
        z_hat: Tensor = self.sentence_encoder(s).loc
        return z_hat

    @property
    def sentences(self) -> Tensor:
        """(S, width) all sentences, listed."""
        return self.language.sentences.to(self.device)

    def embeddings(self) -> Tensor:
        """(S, d) ẑ_s of all sentences, listed."""
        return self.embed(self.sentences)

    def terminal_kernel(self, s: Tensor) -> Normal:
        """P←(z_T | ẑ_s, T + 1, x) = N(ẑ_s, ε²), without gradients."""
        return Normal(self.embed(s).detach(), self.epsilon)

    # -- single steps, as Pyro programs ----------------------------------------------------------
    def forward_step(self, z: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
        """z_{t+1} ~ P_θ(z_{t+1} | z_t), at the site "z"."""
        return pyro.sample("z", self.forward_dynamics(z, t, context).to_event(1))

    def backward_step(self, z: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
        """z_{t−1} ~ P←_θ(z_{t−1} | z_t, t, x), at the site "z"."""
        return pyro.sample("z", self.backward_dynamics(z, t, context).to_event(1))

    # -- the generative story and its inference, as Pyro programs --------------------------------
    def model(self, x: Tensor) -> None:
        """Eq. *traj_prob_backward*: s ~ P(s), z_T ~ N(ẑ_s, ε²), z_t ~ P←(z_t | z_{t+1}, t+1, z0)
        down to 1; the other factors of R(s; x), as s is drawn before z_T. Sites s, z_1 … z_T, z_0.
        """
        with pyro.plate("inputs", x.shape[0]):
            e = self._initial_state(x)
            s = pyro.sample("s", self.sentence_prior(x.shape[0]))
            z = pyro.sample(f"z_{self.steps}", self.terminal_kernel(s).to_event(1))
            pyro.factor("reward", self.reward(e.distribution, None, s) - self.reward.log_prior(s))
            rollout(self.backward_step, z, range(self.steps, 1, -1), e.z0, -1)

    def guide(
        self, x: Tensor, forward_step: Callable[..., Tensor] | None = None
    ) -> tuple[Encoding, Tensor, Tensor]:
        """Eq. *traj_prob_forward*: z_{t+1} ~ P(z_{t+1} | z_t) from z0, then s ~ P(s | z_T).

        Returns the inputs as encoded, z (T + 1, B, d) and s (B, width). Another step, which
        explores, may take the place of the policy's.
        """
        with pyro.plate("inputs", x.shape[0]):
            e = self._initial_state(x)
            z = rollout(forward_step or self.forward_step, e.z0, range(self.steps), e.z0, 1)
            s = pyro.sample("s", self.readout(z[-1], e.z0))
        return e, torch.stack(torch.broadcast_tensors(*z)), s  # plates around it add dimensions

    def _initial_state(self, x: Tensor) -> Encoding:
        with torch.no_grad():
            q = self.encoder(x)
        if self.sample_z0:
            return Encoding(q, pyro.sample("z_0", q.to_event(1)))
        # auxiliary: else Pyro warns that the guide has a site which the model only observes
        with poutine.infer_config(config_fn=lambda site: {"is_auxiliary": True}):
            return Encoding(q, pyro.deterministic("z_0", q.loc, event_dim=1))

    def vae_model(
        self,
        x: Tensor,
        s: Tensor | None = None,
        *,
        q: Normal | None = None,
        vae_weight: float = 1.0,
        kl_weight: float = 1.0,
        beta: float = 0.25,
    ) -> None:
        """Eq. *mstep_loss*: z0 ~ N(0, 1), x ~ P(x | z0), and the information loss as a factor when
        s is given. `vae_weight` scales the VAE's loss, `kl_weight` its KL (the paper: 1, 1). q is
        P(z0 | x), where it was computed before.
        """
        with pyro.plate("inputs", x.shape[0]):
            prior = Normal(torch.zeros(1, device=x.device), 1.0).expand([len(x), self.latent])
            if s is not None:
                q = self.encoder(x) if q is None else q
                pyro.factor("information_loss", -self.information_loss(q, s, beta))
            with poutine.scale(scale=vae_weight * kl_weight):
                z0 = pyro.sample("z_0", prior.to_event(1))
            with poutine.scale(scale=vae_weight):
                pyro.sample("x", self.decoder(z0).to_event(x.dim() - 1), obs=x)

    def vae_guide(
        self, x: Tensor, s: Tensor | None = None, *, q: Normal | None = None, **weights: float
    ) -> None:
        """z0 ~ P_φ(z0 | x)."""
        scale = weights.get("vae_weight", 1.0) * weights.get("kl_weight", 1.0)
        q = self.encoder(x) if q is None else q
        with pyro.plate("inputs", x.shape[0]), poutine.scale(scale=scale):
            pyro.sample("z_0", q.to_event(1))

    def information_loss(self, q: Normal, s: Tensor, beta: float = 0.25) -> Tensor:
        """(B,) KL(P(z0|x) ‖ SG P(z0|ẑ_s)) + β KL(SG P(z0|x) ‖ P(z0|ẑ_s)), nats, of q = P(z0|x)
        (Eq. *weighted_kl*).
        """
        p = self.sentence_encoder(s)
        moves_z0 = gaussian_kl(q, Normal(p.loc.detach(), p.scale.detach()))
        moves_sentence = gaussian_kl(Normal(q.loc.detach(), q.scale.detach()), p)
        return moves_z0 + beta * moves_sentence

    # -- simulation ------------------------------------------------------------------------------
    def trajectories(self, z0: Tensor, steps: int | None = None) -> Tensor:
        """(steps + 1, B, d) forward trajectories from z0 (B, d); T steps by default."""
        return simulate(self.forward_step, z0, self.steps if steps is None else steps, z0).z

    @torch.no_grad()
    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """`draws` trajectories from each of the inputs x (B, …): z_T and s ~ P(s | z_T)."""
        z0 = self.encode(x).z0.repeat_interleave(draws, 0)
        z = torch.cat([self.trajectories(part)[-1] for part in z0.split(ROWS)])
        s = self.readout(z, z0).sample()
        return Description(z.unflatten(0, (-1, draws)), s.unflatten(0, (-1, draws)))


def _parameters(*parts: nn.Module) -> list[nn.Parameter]:
    return [p for part in parts for p in part.parameters()]
