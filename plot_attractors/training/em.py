"""Expectation maximisation as a schedule of updates that can be stopped and resumed anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import torch
from pyro.infer import TraceMeanField_ELBO
from torch import Tensor, nn

from plot_attractors.language import MOST_SENTENCES, Language
from plot_attractors.model.attractor import AttractorModel

__all__ = [
    "AttractorEM",
    "Inference",
    "MStepConfig",
    "Phase",
    "clipped_update",
    "cosine",
    "in_use_threshold",
    "require_listable",
    "require_model",
    "usage",
]

M = TypeVar("M")


class Phase(NamedTuple):
    """`updates` calls of the method `name`; `cycle` counts how often EM has come round."""

    name: str
    cycle: int
    updates: int


def clipped_update(
    optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter], loss: Tensor, clip: float
) -> float:
    """One gradient step with one global gradient clip; returns the norm before it."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_([p for p in parameters if p.grad is not None], clip)
    optimizer.step()
    return float(norm)


def cosine(progress: float, final: float = 0.02) -> float:
    """Learning-rate factor that falls from 1 to `final` as progress goes from 0 to 1."""
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))


def require_model(model: Any, kind: type[M]) -> M:
    """The model, or a ValueError where an inference program fits another kind of models."""
    if not isinstance(model, kind):
        raise ValueError(
            f"this inference program fits models of the kind {kind.__name__}, and this model is of "
            f"the kind "
            f"{type(model).__name__}: leave --inference out, so that the model's own inference "
            f"program is taken"
        )
    return model


def require_listable(model: Any) -> AttractorModel:
    """The attractor model, or a ValueError where a program that lists sentences would have too many
    of them.
    """
    model = require_model(model, AttractorModel)
    if (count := model.language.count) > MOST_SENTENCES:
        raise ValueError(
            f"this inference program lists all sentences, and {count:,} are more than "
            f"{MOST_SENTENCES:,}: take "
            "--inference gflownet_em_sampled, or a smaller language (groups, max_length)"
        )
    return model


class Inference:
    """What every inference program is: a model, data, a schedule of phases, and one method a phase
    that makes one update.

    A subclass lists its phases in `schedule`, has a method of each phase's name that returns
    scalars to record, and registers in `stateful` whatever must survive a stop besides the model:
    optimizers, buffers. `begin(phase)` runs before the first update of every phase. All randomness
    is torch's global generator, which the run saves.
    """

    def __init__(self, model: Any, data: Any, schedule: Sequence[Phase]) -> None:
        self.model, self.data = model, data
        self.schedule = [p for p in schedule if p.updates > 0]
        self._ends = list(accumulate(p.updates for p in self.schedule))
        self.position = 0
        self.stateful: dict[str, Any] = {}

    @property
    def total(self) -> int:
        """Updates in the whole schedule."""
        return self._ends[-1] if self._ends else 0

    @property
    def done(self) -> bool:
        return self.position >= self.total

    @property
    def _phase_index(self) -> int:
        return next(
            i for i, end in enumerate(self._ends) if self.position < end or i == len(self._ends) - 1
        )

    @property
    def phase(self) -> Phase:
        """The phase of the next update (the last one when done)."""
        return self.schedule[self._phase_index]

    @property
    def progress(self) -> float:
        """The part of the current phase that is done, 0 to 1."""
        i = self._phase_index
        return 1 - (self._ends[i] - self.position) / self.schedule[i].updates

    def begin(self, phase: Phase) -> None:
        """Runs before the first update of a phase; a subclass populates its replay buffer here."""

    def step(self) -> dict[str, float]:
        """One update of the current phase."""
        phase = self.phase
        if self.progress == 0:
            self.begin(phase)
        metrics: dict[str, float] = getattr(self, phase.name)()
        self.position += 1
        return metrics

    def summary(self) -> dict[str, float]:
        """Slower measurements, now and then; draws from the random generator, so the caller forks
        it.
        """
        return {}

    def state_dict(self) -> dict[str, Any]:
        return {
            "position": self.position,
            "model": self.model.state_dict(),
            **{k: v.state_dict() for k, v in self.stateful.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]
        self.model.load_state_dict(state["model"])
        for k, v in self.stateful.items():
            v.load_state_dict(state[k])


@dataclass(frozen=True)
class MStepConfig:
    """Settings of Algorithm *M-step Inner Loop*, shared by the Configs of the EM programs of
    attractor models.
    """

    batch: int = 64  # inputs in an update
    lr_phi: float = 2e-3  # Adam's learning rate for encoder and sentence encoder
    # for the decoder: its noise keeps the bits of a leaf from flipping all at once
    lr_decoder: float = 1e-2
    clip: float = 1.0  # global gradient norm
    vae_weight: float = 0.5  # of reconstruction and KL to the prior (the paper: 1)
    kl_weight: float = 0.6  # of that KL within it, the β of a β-VAE (the paper: 1)
    encoder_weight: float = 1.0  # of the KL term that moves z0
    sentence_weight: float = 1.0  # of the KL term that moves ẑ_s (the paper's text: β = 0.25)
    sharpness: float = 16.0  # power of the exact posterior where it labels inputs

    def __post_init__(self) -> None:
        """ValueError where a number of things is below 0, before anything is computed."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < 0:
                raise ValueError(
                    f"{field.name} is a number of things and must be 0 or more, not {value}"
                )


class AttractorEM(Inference):
    """What the EM programs of attractor models share: the VAE's pre-training and the M-step
    update.
    """

    def __init__(
        self, model: Any, data: Any, schedule: Sequence[Phase], config: MStepConfig
    ) -> None:
        super().__init__(require_model(model, AttractorModel), data, schedule)
        c = self.config = config
        if hasattr(data, "check_batch"):
            data.check_batch(c.batch)
        self.weights = {
            "vae_weight": c.vae_weight,
            "kl_weight": c.kl_weight,
            "encoder_weight": c.encoder_weight,
            "sentence_weight": c.sentence_weight,
        }
        rest = [*model.encoder.parameters(), *model.sentence_encoder.parameters()]
        groups: list[dict[str, Any]] = [
            {"params": rest, "lr": c.lr_phi},
            {"params": list(model.decoder.parameters()), "lr": c.lr_decoder},
        ]
        self.optimizer_phi = torch.optim.Adam(groups)
        self.stateful["optimizer_phi"] = self.optimizer_phi
        self.m_loss = TraceMeanField_ELBO()

    def inputs(self, n: int) -> Tensor:
        """(n, bits) training inputs on the model's device."""
        x: Tensor = self.data.batch(n).x
        return x.to(self.model.device)

    def m_update(self, x: Tensor, s: Tensor | None) -> dict[str, float]:
        """Algorithm *M-step Inner Loop* on (x, s) pairs; without sentences, the pre-training of the
        VAE.
        """
        model, guide = self.model.vae_model, self.model.vae_guide
        loss = self.m_loss.differentiable_loss(model, guide, x, s, **self.weights) / len(x)
        clipped_update(self.optimizer_phi, self.model.phi, loss, self.config.clip)
        return {"m_loss": float(loss.detach())}

    def pretrain(self) -> dict[str, float]:
        """One update of the VAE alone (Section *Experiments*)."""
        return self.m_update(self.inputs(self.config.batch), None)

    def exact_m_step(self) -> dict[str, float]:
        """One M-update on sentences drawn from the exact posterior, sharpened: P(s | x)^sharpness.

        Unsharpened EM from meaningless sentences collapses: every sentence comes to mean the prior.
        """
        x = self.inputs(self.config.batch)
        with torch.no_grad():
            s = self.model.posterior(self.model.encoder(x)).power(self.config.sharpness).sample()
        return self.m_update(x, s)

    @torch.no_grad()
    def summary(self) -> dict[str, float]:
        """Sentences and tokens in use, mean entropy and mean log Z in nats, by the exact posterior
        of 256 inputs.
        """
        q = self.model.encoder(self.inputs(256))
        log_r = self.model.log_reward(q)
        p = log_r.softmax(-1)
        marginal = p.mean(0)
        used = marginal > in_use_threshold(len(marginal))
        return {
            "sentences_in_use": float(used.sum()),
            "tokens_in_use": float(
                (self.model.language.bag(self.model.sentences[used]).sum(0) > 0).sum()
            ),
            "posterior_entropy": float(-(p * p.clamp(min=1e-30).log()).sum(-1).mean()),
            "log_z": float(log_r.logsumexp(-1).mean()),
        }


USAGE_INPUTS = 4096  # on which it is counted what is in use


def usage(language: Language, s: Tensor) -> dict[str, float]:
    """Sentences, and tokens of these, that make up more than the threshold of what is said, s (n,
    width).
    """
    different, times = s.unique(dim=0, return_counts=True)
    used = different[times / len(s) > in_use_threshold(language.count)]
    tokens = language.bag(used).sum(0) if len(used) else torch.zeros(1)
    return {"sentences_in_use": float(len(used)), "tokens_in_use": float((tokens > 0).sum())}


def in_use_threshold(sentences: int) -> float:
    """The share of all inputs' probability from which a sentence counts as in use: a tenth of an
    equal share.
    """
    return 0.1 / sentences
