"""The attractor model: the parts of Table 1, and the Pyro programs made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.distributions import Bernoulli, Normal
from pyro.poutine.runtime import am_i_wrapped
from torch import Tensor, nn

from plot_attractors.gflownet.trajectories import rollout
from plot_attractors.language import Language
from plot_attractors.language.policy import draw_prior, prior_policy
from plot_attractors.model.memory import Memory
from plot_attractors.model.networks import (
    Discretizer,
    FlowCorrection,
    ImageDecoder,
    InputDecoder,
    InputEncoder,
    LogPartition,
    SentenceEncoder,
    VectorDecoder,
)
from plot_attractors.model.posterior import ExactPosterior, Readout
from plot_attractors.model.protocols import (
    Description,
    along_axes,
    check_parts,
    checked_inputs,
    probing,
)
from plot_attractors.model.reward import Decodability, Reward, gaussian_kl

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

    Parts may be replaced: what read the old one reads the new one. What a part must be is
    `model.protocols.PARTS`: all are tried, with a ValueError for one that is not.

    Args:
        language: the sentences and P(s).
        encoder, …, discretizer: the parts of Table 1.
        steps: T.
        epsilon: ε of the first backward step P←(z_T | ẑ_s, T + 1, x) = N(ẑ_s, ε²).
        decodability, inverse_temperature: of the `Reward`.
        exact_readout: P(s | z) by `Readout`, where it can be, or by the discretizer.
        memory: what states remember of the input beside their d latent axes; None: nothing.
    """

    flow_correction: FlowCorrection | None  # g_θ and Z_θ, of models that balance trains
    log_partition: LogPartition | None
    sentence_policy: Discretizer | None  # P_θ(s | z0), once there is one
    sample_z0 = False  # z0 is the mean of P(z0 | x) (Section *Experiments*), no draw (Algorithm 2)

    def __init__(
        self,
        language: Language,
        *,
        encoder: InputEncoder,
        decoder: InputDecoder | VectorDecoder | ImageDecoder,
        sentence_encoder: nn.Module,
        forward_dynamics: nn.Module,
        backward_dynamics: nn.Module,
        discretizer: Discretizer,
        steps: int = 20,
        epsilon: float = 0.05,
        decodability: Decodability = "none",
        inverse_temperature: float = 1.0,
        exact_readout: bool = True,
        memory: Memory | None = None,
    ) -> None:
        super().__init__()
        self.language = language
        self.encoder, self.decoder, self.sentence_encoder = encoder, decoder, sentence_encoder
        self.forward_dynamics, self.backward_dynamics = forward_dynamics, backward_dynamics
        self.discretizer = discretizer
        for name in ("flow_correction", "log_partition", "sentence_policy"):
            self.register_module(name, None)  # of some models, assigned later
        self.steps, self.epsilon = steps, epsilon
        self.reward = Reward(sentence_encoder, language, decodability, inverse_temperature)
        self.posterior = ExactPosterior(self.reward)
        self.exact_readout = exact_readout
        self.memory = Memory(0, 0.0, epsilon) if memory is None else memory
        self.latent = check_parts(self)  # d

    def __setattr__(self, name: str, value: Any) -> None:
        old = getattr(self, name, None)
        super().__setattr__(name, value)
        if isinstance(old, nn.Module | Language | Reward) and value is not None:
            self._read_instead(old, value)

    def _read_instead(self, old: Any, new: Any) -> None:
        """Parts that keep the old one, as an attribute or in a list, keep the new one; but for the
        new one itself, which may be made of the old one.
        """
        inside = {*new.modules()} if isinstance(new, nn.Module) else set()
        others: list[Any] = [m for m in self.modules() if m is not self and m not in inside]
        for part in (*others, *(p for p in (self.reward, self.posterior) if p is not new)):
            for key, kept in vars(part).items():
                if kept is old:
                    vars(part)[key] = new
                elif isinstance(kept, list):
                    kept[:] = [new if one is old else one for one in kept]

    def draw_prior(self, n: int) -> Tensor:
        """(n, width) sentences from P(s)^β, normalised."""
        return draw_prior(self.language.power(self.reward.beta), n, self.device)

    def add_sentence_policy(self) -> Discretizer:
        """P_θ(s | z0), which proposes sentences of an input, made where the model has none yet: a
        network like the discretizer's. Where tokens have no axes it is plain: z0 lies at no
        embedding, so what tells near ones apart does not help, and costs three times as much.
        """
        if self.sentence_policy is None:
            plain = along_axes(self.sentence_encoder) is None
            self.sentence_policy = self.discretizer.like(plain=plain)
        return self.sentence_policy

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        if any(name.startswith(f"{prefix}sentence_policy.") for name in state_dict):
            with torch.random.fork_rng(devices=[]):  # its parameters are loaded
                self.add_sentence_policy()
        super()._load_from_state_dict(state_dict, prefix, *rest)

    @property
    def phi(self) -> list[nn.Parameter]:
        """Parameters of the M-step: of encoder, decoder and sentence encoder, and then whatever a
        subclass has that is neither theirs nor of the E-step.
        """
        own = _parameters(self.encoder, self.decoder, self.sentence_encoder)
        known = {id(p) for p in (*own, *self.theta, *_parameters(self.sentence_policy))}
        return own + [p for p in self.parameters() if id(p) not in known]

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
    def input_dependent(self) -> bool:
        """Whether the forward dynamics see the input: they are tried with two, at t = 0 and T."""
        with probing(self, self.device):
            torch.manual_seed(0)
            z, *z0 = torch.randn(3, 16, self.latent, device=self.device)
            z = self.at_rest(z)
            pairs = [[self.forward_dynamics(z, float(t), c) for c in z0] for t in (0, self.steps)]
        moments = [(p.mean, q.mean) for p, q in pairs] + [(p.stddev, q.stddev) for p, q in pairs]
        return not all(torch.equal(*pair) for pair in moments)

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
        encoder: Any = self.sentence_encoder
        plain = type(encoder).forward is SentenceEncoder.forward  # whose σ_s need not be computed
        z_hat: Tensor = encoder.mean(s) if plain else encoder(s).loc
        return z_hat

    @property
    def sentences(self) -> Tensor:
        """(S, width) all sentences, listed."""
        return self.language.sentences.to(self.device)

    def embeddings(self) -> Tensor:
        """(S, d) ẑ_s of all sentences, listed."""
        return self.embed(self.sentences)

    def terminal_kernel(self, s: Tensor, z0: Tensor | None = None) -> Normal:
        """P←(z_T | ẑ_s, T + 1, x) = N(ẑ_s, ε²) in the latent axes, without gradients; of an input
        with z0 in all axes, memory as it fades.
        """
        kernel = Normal(self.embed(s).detach(), self.epsilon)
        return kernel if z0 is None else _join(kernel, self.memory.marginal(z0, self.steps))

    def at_rest(self, z: Tensor) -> Tensor:
        """(…, d + m) states that remember nothing, at places (…, d)."""
        return nn.functional.pad(z, (0, self.memory.size))

    def transition(self, z: Tensor, t: Tensor | float, context: Tensor) -> Normal:
        """P_θ(z_{t+1} | z_t) of states z (…, d + m): learned in the latent axes, fading memory."""
        to: Normal = self.forward_dynamics(z, t, context)
        return _join(to, self.memory(z[..., self.latent :]))

    # -- single steps, as Pyro programs ----------------------------------------------------------
    def forward_step(self, z: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
        """z_{t+1} ~ P_θ(z_{t+1} | z_t), at the site "z"."""
        return pyro.sample("z", self.transition(z, t, context).to_event(1))

    def backward_step(self, z: Tensor, t: Tensor | float, context: Tensor) -> Tensor:
        """z_{t−1} ~ P←_θ(z_{t−1} | z_t, t, x), at the site "z"."""
        to = self.backward_dynamics(z, t, context)
        to = _join(to, self.memory.backward_step(z[..., self.latent :], t, context))
        return pyro.sample("z", to.to_event(1))

    # -- the generative story and its inference, as Pyro programs --------------------------------
    def model(self, x: Tensor) -> None:
        """Eq. *traj_prob_backward*: s ~ P(s), z_T ~ N(ẑ_s, ε²), z_t ~ P←(z_t | z_{t+1}, t+1, z0)
        down to 1; the other factors of R(s; x), as s is drawn before z_T. Sites s, z_1 … z_T, z_0.
        """
        with pyro.plate("inputs", x.shape[0]):
            e = self._initial_state(x)
            prior = prior_policy(self.language.power(self.reward.beta), (len(x),), self.device)
            s = pyro.sample("s", prior)
            z = pyro.sample(f"z_{self.steps}", self.terminal_kernel(s, e.z0).to_event(1))
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
            z = self.trajectories(e.z0, step=forward_step)
            s = pyro.sample("s", self.readout(z[-1], e.z0))
        return e, z, s

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
    ) -> Tensor:
        """Eq. *mstep_loss*: z0 ~ N(0, 1), x ~ P(x | z0), and the information loss as a factor when
        s is given. `vae_weight` scales the VAE's loss, `kl_weight` its KL (the paper: 1, 1). q is
        P(z0 | x), where it was computed before. Returns z0, for what a subclass samples beside.
        """
        with pyro.plate("inputs", x.shape[0]):
            prior = Normal(torch.zeros(1, device=x.device), 1.0).expand([len(x), self.latent])
            if s is not None:
                q = self.encoder(x) if q is None else q
                pyro.factor("information_loss", -self.information_loss(q, s, beta))
            with poutine.scale(scale=vae_weight * kl_weight):
                z0: Tensor = pyro.sample("z_0", prior.to_event(1))
            with poutine.scale(scale=vae_weight):
                pyro.sample("x", self.decoder(z0).to_event(x.dim() - 1), obs=x)
        return z0

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
    @torch.no_grad()
    def prepare(self, z0: Tensor, s: Tensor) -> None:
        """Scales, widths, patterns and longest steps of the dynamics, by inputs with z0 (n, d) and
        sentences s (n, C, width) of each; of a model whose backward dynamics are a `Bridge`.
        """
        self.memory.scale.copy_(z0.std(0).clamp(min=self.epsilon))
        forward: Any = self.forward_dynamics
        back: Any = self.backward_dynamics
        p = self.sentence_encoder(s.flatten(0, 1))
        far = (p.loc.unflatten(0, s.shape[:2]) - z0[:, None]).norm(dim=-1).median()
        if hasattr(forward, "prepare"):
            forward.prepare(p, float(far))
        back.prepare(p)

    def initial(self, z0: Tensor) -> Tensor:
        """(…, d + m) the states at t = 0 of inputs with z0 (…, d)."""
        return torch.cat([z0, self.memory.start(z0)], -1)

    def trajectories(
        self,
        z0: Tensor,
        steps: int | None = None,
        *,
        step: Callable[..., Tensor] | None = None,
        context: Tensor | None = None,
        start: int = 0,
    ) -> Tensor:
        """(steps + 1, B, d + m) forward trajectories from `initial(z0)`, z0 (B, d), or from states
        z0 (B, d + m) themselves; at a later time than 0 those of (B, d) remember nothing. T steps
        by default, without gradient but in a Pyro program, whose sites z_1 … z_T they are.

        All forward trajectories are made here, those of training, of the `guide` and of analyses:
        a variant that simulates in another way overrides this method alone, passes `**options` on,
        and returns as many steps as are asked for. By another step, which explores, with another
        context than z0, and from another time, if given.
        """
        times = range(start, start + (self.steps if steps is None else steps))
        with torch.set_grad_enabled(torch.is_grad_enabled() and am_i_wrapped()):
            seen, z = z0 if context is None else context, z0
            if z.shape[-1] == self.latent:
                z = self.at_rest(z) if start else self.initial(z)
            states = rollout(step or self.forward_step, z, times, seen, 1)
            return torch.stack(torch.broadcast_tensors(*states))  # plates around it add dimensions

    @torch.no_grad()
    def describe(self, x: Any, draws: int = 1) -> Description:
        """`draws` trajectories from each of the inputs x (B, …), or of one: z_T and s ~ P(s | z_T).

        Inputs are a tensor or an array, as the data set gives them; ValueError for those of another
        shape, or beyond the values that the decoder knows.
        """
        x = checked_inputs(x, self.decoder(torch.zeros(1, self.latent, device=self.device)))
        z0 = self.encode(x).z0.repeat_interleave(draws, 0)
        z = torch.cat([self.trajectories(part)[-1] for part in z0.split(ROWS)])
        s = self.readout(z, z0).sample()
        z = z[..., : self.latent]
        return Description(z.unflatten(0, (-1, draws)), s.unflatten(0, (-1, draws)))


def _join(latent: Normal, memory: Normal) -> Normal:
    """A step of the latent axes and one of memory."""
    if not memory.loc.shape[-1]:
        return latent
    shape = latent.loc.shape[:-1]
    loc, sd = (
        torch.cat([a, b.expand(*shape, -1)], -1)
        for a, b in ((latent.loc, memory.loc), (latent.scale, memory.scale))
    )
    return Normal(loc, sd, validate_args=False)


def _parameters(*parts: nn.Module | None) -> list[nn.Parameter]:
    return [p for part in parts if part is not None for p in part.parameters()]
