"""EM with an E-step whose sentences are draws from the exact posterior.
With cycles=0 and final_e_updates=0 dynamics are left as they are: the ceiling.

It needs P(s | x) ∝ R(s; x) exactly: sentences that can be listed, or that factor along the latent
axes. `gflownet_em` learns from the reward alone.
"""

from __future__ import annotations

from typing import Any

from plot_attractors import training
from plot_attractors.data import DataSet
from plot_attractors.model.attractor import AttractorModel

Config = training.EMConfig
SPRITES = {
    "pretrain": 3000, "warm_up": 2000, "cycles": 0, "final_e_updates": 5000,
    "m_step.vae_weight": 1.0, "m_step.kl_weight": 1.0,
    "m_step.lr_decoder": 4e-3, "vocabulary": 1000,
}  # fmt: skip
SMOKE = {
    "pretrain": 20, "warm_up": 40, "cycles": 1, "e_updates": 10, "final_e_updates": 10, "batch": 16,
}  # fmt: skip
OF_IMAGES: dict[str, dict[str, Any]] = {
    "full": SPRITES,
    "diverse": SPRITES,
    "smoke": {**SMOKE, "vocabulary": 5},
}  # fmt: skip
PRESETS: dict[str, dict[str, Any]] = {
    "full": {},
    "smoke": SMOKE,
    # over these, by the data
    **{f"{data}/{name}": one for data in ("dsprites", "images") for name, one in OF_IMAGES.items()},
    # the likelihood of many real numbers outweighs what their sentences tell
    "vectors/full": {"m_step.vae_weight": 0.1},
}  # fmt: skip


class ExactEM(training.EM):
    """Sentences are exact draws."""

    sentences: training.ExactSentences

    def sentence_source(self) -> training.ExactSentences:
        """Raises ValueError for sentences that neither factor nor can be listed."""
        return training.ExactSentences(training.require_posterior(self.model))


def build(model: AttractorModel, data: DataSet, c: Config) -> training.Schedule:
    return ExactEM(model, data, c).schedule()
