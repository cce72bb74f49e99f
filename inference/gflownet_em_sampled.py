"""GFlowNet-EM with sampled sentences and the learned discretizer: the paper's own setting, for languages of any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from plot_attractors import shelves
from plot_attractors.attractor import AttractorModel, Encoding
from plot_attractors.data import DataSet
from plot_attractors.distributions import SentencePolicy
from plot_attractors.em import require_model
from plot_attractors.gflownet import SampledFlow
from plot_attractors.gflownet.balance import Flow

gflownet_em = shelves.load("inference", "gflownet_em")


@dataclass(frozen=True)
class Config(gflownet_em.Config):  # type: ignore[misc, name-defined]
    # a sentence costs a search among candidates here, not a look into a table: fewer updates of fewer trajectories
    warm_up: int = 4000
    final_e_updates: int = 5000
    sleep_trajectories: int = 48
    discretizer_states: int = 64
    balance_weight: float = 0.02  # here it teaches the discretizer, too, what the states on the way say
    flow_samples: int = 4  # K sentences in the estimate of a flow; 1 in the paper
    candidates: int = 64  # sentences among which the best are looked for, for an input


PRESETS: dict[str, dict[str, Any]] = {
    **gflownet_em.PRESETS,
    "paper": {**gflownet_em.PRESETS["paper"], "flow_samples": 1},
    "smoke": {**gflownet_em.PRESETS["smoke"], "candidates": 8, "flow_samples": 2},
}


def build(model: AttractorModel, data: DataSet, config: Config) -> SampledGFlowNetEM:
    """Nothing is listed: sentences come from the discretizer and from the prior."""
    if require_model(model, AttractorModel).first_backward_step != "fixed":
        raise ValueError("Sampled flows know the kernel N(ẑ_s, ε²) only: leave first_backward_step at 'fixed'.")
    model.sentence_readout = "discretizer"
    return SampledGFlowNetEM(model, data, config)


class SampledGFlowNetEM(gflownet_em.GFlowNetEM):  # type: ignore[misc, name-defined]
    """GFlowNetEM with a sampled flow and sampled candidates instead of sums over all sentences."""

    @torch.no_grad()
    def candidate_sentences(self, n: int, power: float = 1.0) -> tuple[Tensor, Encoding, Tensor]:
        """n inputs, and for each a sentence resampled from candidates with self-normalised importance weights.

        Half of the candidates come from the discretizer at random states between z0 and noise round it, half from the
        prior. Their weights are R(s; x)^power / q(s), q the mixture of the two proposals for this input.
        """
        m, half = self.model, self.config.candidates // 2
        x = self.inputs(n)
        e = m.encode(x)
        near = e.z0 + 0.5 * torch.rand(half, n, 1, device=x.device) * torch.randn(half, *e.z0.shape, device=x.device)
        policy = m.discretizer(near, e.context)
        prior = SentencePolicy(m.language.prior_logits, m.language, (n,), device=x.device)
        s = torch.cat([policy.sample(), prior.sample((half,))])
        # log q of every candidate under the prior and under the discretizer's state of the same row (half by half)
        log_policy = torch.cat([policy.log_prob(s[:half]), policy.log_prob(s[half:])])
        log_q = torch.logaddexp(log_policy, m.language.log_prior(s))
        logits = power * m.log_reward(e.distribution, s) - log_q
        chosen = torch.distributions.Categorical(logits=logits.T, validate_args=False).sample()
        return x, e, s[chosen, torch.arange(n)]

    def exact_m_step(self) -> dict[str, float]:
        """The warm-up's label is the best of many candidates, sharpened: it breaks the symmetry of meaningless
        sentences.
        """
        x, _, s = self.candidate_sentences(self.config.batch, self.config.sharpness)
        return self.m_update(x, s)

    def posterior_sentences(self, n: int) -> tuple[Encoding, Tensor]:
        """n inputs and a sentence each, resampled from candidates instead of drawn from the exact P(s | x)."""
        _, e, s = self.candidate_sentences(n)
        return e, s

    def flow(self, e: Encoding) -> Flow:
        """Algorithm 4 with K sampled sentences."""
        m, c = self.model, self.config
        return SampledFlow(
            lambda s: m.log_reward(e.distribution, s).detach(),
            lambda s: m.sentence_encoder(s).loc.detach(),
            lambda z: m.discretizer(z, e.context),
            m.epsilon,
            m.steps,
            c.flow_samples,
            c.widening,
            lambda z, t: m.flow_correction(z, t, e.context),
            None if m.decodability == "none" else m.log_decodability,
        )

    @torch.no_grad()
    def summary(self) -> dict[str, float]:
        """Distinct sentences and tokens among those read off the terminal states of 256 trajectories."""
        s = self.forward_trajectories(self.inputs(256))[1][-1]
        return {
            "sentences_in_use": float(len(torch.unique(s, dim=0))),
            "tokens_in_use": float((self.model.language.bag(s).sum(0) > 0).sum()),
        }
