"""The M-step: encoder, decoder and sentence encoder learn from pairs (x, s)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from pyro import poutine
from pyro.distributions import Normal, TorchDistribution
from pyro.distributions.util import scale_and_mask
from pyro.infer import TraceMeanField_ELBO
from pyro.poutine.util import site_is_subsample
from torch import Tensor, nn
from torch.distributions import kl_divergence

from plot_attractors.gflownet import ReplayBuffer, choose_visited, simulate_backward
from plot_attractors.gflownet.programs import quoted
from plot_attractors.gflownet.trajectories import shift_end_points
from plot_attractors.language import Language, in_use_threshold, usage
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.model.protocols import check_parts, probing
from plot_attractors.ranges import NonNegative, Positive, setting
from plot_attractors.training.schedule import At, Scalar, clipped_update, require_model
from plot_attractors.training.sentences import Sentences

__all__ = [
    "MStep",
    "MStepConfig",
    "VisitedLabels",
    "backward_trajectories",
    "imagined",
    "input_source",
    "require_posterior",
    "summary",
    "visited_sentence",
    "visited_sentences",
]


LABEL_USES = 16  # times an M-step uses a labelled input

Readings = Callable[[Tensor, Tensor], TorchDistribution]
"""States z (…, d) and z0 → P(s | z)."""


@dataclass(frozen=True)
class MStepConfig:
    lr_decoder: Positive = setting(
        1e-2, "of the decoder; noise keeps a leaf's bits from flipping at once"
    )
    vae_weight: NonNegative = setting(0.5, "of reconstruction and KL to the prior (the paper: 1)")
    kl_weight: NonNegative = setting(0.6, "of that KL within it, the β of a β-VAE (the paper: 1)")


def input_source(data: Any, model: nn.Module) -> Callable[[int], Tensor]:
    """n → n training inputs on the model's device; refuses an attractor model with a part that is
    not as it must be (`model.protocols.PARTS`).
    """
    if isinstance(model, AttractorModel):
        check_parts(model)

    def inputs(n: int) -> Tensor:
        x: Tensor = data.batch(n).x
        return x.to(next(model.parameters(), x).device)

    return inputs


def require_posterior(model: Any) -> AttractorModel:
    """The attractor model, or a ValueError where its exact posterior is not to be had."""
    model = require_model(model, AttractorModel)
    if not (model.posterior.listed or model.posterior.factored):
        raise ValueError(
            f"this inference program draws from the exact posterior, and {model.language.count:,} "
            "sentences cannot be listed: take --inference gflownet_em, or sentences that factor "
            "(token_axes, without decodability), or a smaller language"
        )
    return model


class MStep:
    """Algorithm 6, *M-step Inner Loop*, Eq. *mstep_loss*, and the pre-training of the VAE.

    All of the model's `phi` learns: the decoder at `lr_decoder`, and the rest, that of a subclass
    too, at `lr`. Updates raise ValueError for programs that TraceMeanField_ELBO cannot train.

    Args:
        model, inputs: the model, and n → n training inputs.
        config: weights, and the decoder's learning rate.
        batch: inputs in an update.
        lr: Adam's learning rate for encoder and sentence encoder.
        beta: β of the KL term that moves ẑ_s (the paper: 0.25).
    """

    def __init__(
        self,
        model: AttractorModel,
        inputs: Callable[[int], Tensor],
        config: MStepConfig,
        batch: int = 64,
        lr: float = 2e-3,
        beta: float = 1.0,
    ) -> None:
        self.model, self.inputs, self.config = model, inputs, config
        self.batch = batch
        weights = {"vae_weight": config.vae_weight, "kl_weight": config.kl_weight, "beta": beta}
        self.weights = weights
        decoder = list(model.decoder.parameters())
        known = {id(p) for p in decoder}
        rest = [p for p in model.phi if id(p) not in known]
        groups: list[dict[str, Any]] = [
            {"params": rest, "lr": lr},
            {"params": decoder, "lr": config.lr_decoder},
        ]
        self.optimizer = torch.optim.Adam(groups, fused=True)
        self.checked = set[bool]()  # of programs without and with sentences

    def update(self, x: Tensor, s: Tensor | None, q: Normal | None = None) -> dict[str, Scalar]:
        """One update on pairs (x, s); without sentences, of the VAE alone. q is P(z0 | x) with its
        gradients, where it was computed before.
        """
        model, guide = self.model.vae_model, self.model.vae_guide
        q = self.model.encoder(x) if q is None else q  # once, for the program and its guide
        if (s is not None) not in self.checked:
            check_vae(self.model, x, s, q=q, **self.weights)
            self.checked.add(s is not None)
        loss = -elbo(model, guide, x, s, q=q, **self.weights) / len(x)
        clipped_update(self.optimizer, self.model.phi, loss)
        return {"m_loss": loss.detach()}

    def pretrain(self, _: At) -> dict[str, Scalar]:
        """One update of the VAE alone (Section *Experiments*)."""
        return self.update(self.inputs(self.batch), None)

    def sharpened(
        self, sentences: Sentences, sharpness: float = 16.0, language: Language | None = None
    ) -> dict[str, Scalar]:
        """One update on sentences drawn ∝ P(s | x)^sharpness.

        Unsharpened EM from meaningless sentences collapses: all come to mean the prior.
        """
        x = self.inputs(self.batch)
        q = self.model.encoder(x)
        with torch.no_grad():
            s = sentences.draw(q, sharpness, language, beta=1.0)
        return self.update(x, s, q)


def elbo(model: Any, guide: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The ELBO of programs whose guide is reparametrised, nats, as TraceMeanField_ELBO has it, with
    divergences in closed form where there are; but no number is read from the device.
    """
    program, drawn = TraceMeanField_ELBO()._get_trace(model, guide, args, kwargs)
    total = torch.zeros(())
    for name, site in program.nodes.items():
        if site["type"] == "sample" and site["is_observed"]:
            total = total + site["log_prob_sum"]
        elif site["type"] == "sample":
            own = drawn.nodes[name]
            try:
                kl = kl_divergence(own["fn"], site["fn"])
                total = total - scale_and_mask(kl, own["scale"], own["mask"]).sum()
            except NotImplementedError:
                total = total + site["log_prob_sum"] - own["score_parts"].entropy_term.sum()
    return total


def check_vae(model: AttractorModel, *args: Any, **kwargs: Any) -> None:
    """Tries `vae_model` and `vae_guide`; ValueError for what TraceMeanField_ELBO would ignore or
    train wrongly.
    """
    with probing(model, model.device):
        guide: Any = poutine.trace(model.vae_guide).get_trace(*args, **kwargs)
        replayed = poutine.replay(model.vae_model, trace=guide)
        program = poutine.trace(replayed).get_trace(*args, **kwargs)
    if params := [*guide.param_nodes, *program.param_nodes]:
        raise ValueError(
            f"vae_model and vae_guide have the pyro.param {quoted(params)}, which no M-step "
            "trains: make it a parameter of the model, an nn.Parameter or a part"
        )
    sites = {name: guide.nodes[name] for name in guide.stochastic_nodes}
    drawn = {name for name, site in sites.items() if not site_is_subsample(site)}
    if alone := sorted(drawn - {*program.stochastic_nodes}):
        raise ValueError(
            f"vae_guide samples {quoted(alone)}, and vae_model does not: sample it there, too"
        )
    if fixed := sorted(n for n in drawn if not sites[n]["fn"].has_rsample):
        raise ValueError(
            f"vae_guide samples {quoted(fixed)} from a distribution without rsample, whose guide "
            "the M-step's ELBO would train wrongly: sum over its values in vae_model instead"
        )


class VisitedLabels:
    """Labels of an M-step of so many updates: for every input a sentence visited along its forward
    trajectories, read by the model's P(s | z) or another (`visited_sentences`).
    """

    def __init__(self, m_step: MStep, updates: int, readout: Readings | None = None) -> None:
        self.m_step, self.updates, self.readout = m_step, updates, readout
        device = m_step.model.device
        self.buffer = ReplayBuffer(1_000_000, weights=None, device=device)  # (x, s)

    def populate(self) -> None:
        """Labels anew, of inputs that are used 16 times each."""
        m = self.m_step
        self.buffer.clear()
        n = max(1, round(self.updates * m.batch / LABEL_USES))
        for start in range(0, n, 1024):
            x = m.inputs(min(1024, n - start))
            self.buffer.add(x=x, s=visited_sentences(m.model, x, readout=self.readout))

    def update(self, _: At) -> dict[str, Scalar]:
        """One M-update on labelled inputs."""
        drawn = self.buffer.draw(self.m_step.batch)
        return self.m_step.update(drawn["x"], drawn["s"])


@torch.no_grad()
def visited_sentences(
    model: AttractorModel,
    x: Tensor,
    trajectories: int = 8,
    sharpness: float = 16.0,
    readout: Readings | None = None,
) -> Tensor:
    """(n, width) a sentence for each of n inputs, of those read along its forward trajectories.

    Drawn ∝ R(s; x)^sharpness / count among the sentences of all states from z_1 on, of so many
    trajectories of the policy (*Wake-sleep*, the second way).
    """
    e = model.encode(x.repeat(trajectories, *[1] * (x.dim() - 1)))
    z = model.trajectories(e.z0)
    return visited_sentence(model, e, z, len(x), sharpness, 1.0, readout)


def visited_sentence(
    model: AttractorModel,
    e: Encoding,
    z: Tensor,
    n: int,
    power: float = 1.0,
    beta: float | None = None,
    readout: Readings | None = None,
) -> Tensor:
    """(n, width) a sentence for each of n inputs, ∝ (R(s; x)^β)^power / count among those read, by
    the model's P(s | z) or another, at the states z_1 … z_T of trajectories z (T + 1, k n, d) from
    e, k of each input.
    """
    s = (readout or model.readout)(z[1:], e.z0).sample()
    log_r = model.reward(e.distribution, None, s, beta).reshape(-1, n)
    s = s.unflatten(1, (-1, n)).flatten(0, 1)  # (T k, n, width)
    return s[choose_visited(log_r, model.language.key(s), power), torch.arange(n)]


def imagined(model: AttractorModel, n: int) -> tuple[Encoding, Tensor]:
    """s ~ P(s), z0 ~ P(z0 | ẑ_s), the mean of an imagined input (*Wake-sleep*, first way)."""
    s = model.draw_prior(n)
    z0 = model.sentence_encoder(s).sample()
    return Encoding(model.encoder.around(z0), z0), s


def backward_trajectories(model: AttractorModel, e: Encoding, s: Tensor) -> Tensor:
    """(T + 1, n, d) trajectories of the backward dynamics from N(ẑ_s, ε²) of sentences s
    (n, width), shifted so that they start at `initial(z0)` and end where they ended (*Wake-sleep*).
    """
    end = model.terminal_kernel(s, e.z0).sample()
    path = simulate_backward(model.backward_step, end, model.steps, e.z0)
    return shift_end_points(path, model.initial(e.z0)).z


@torch.no_grad()
def summary(model: AttractorModel, x: Tensor, exact: bool = True) -> dict[str, float]:
    """Sentences and tokens in use: by the exact posterior of inputs x, with its mean entropy and
    mean log Z in nats, where sentences are listed; else, and not `exact`, by trajectories.
    """
    if not (exact and model.posterior.listed):
        return usage(model.language, model.describe(x).s[:, 0])
    log_r = model.reward.log_pairs(model.encoder(x), model.sentences)
    p = log_r.softmax(-1)
    marginal = p.mean(0)
    used = model.sentences[marginal > in_use_threshold(len(marginal))]
    return {
        "sentences_in_use": float(len(used)),
        "tokens_in_use": float((used.sum(0) > 0).sum()),
        "posterior_entropy": float(-(p * p.clamp(min=1e-30).log()).sum(-1).mean()),
        "log_z": float(log_r.logsumexp(-1).mean()),
    }
