"""Models to compare the attractor model with: VQ-VAE and hard-coded languages (Section *Comparison models*)."""

from __future__ import annotations

from plot_attractors.baselines.data import DataConfig, load_data
from plot_attractors.baselines.hard_coded import (
    HardCoded,
    RecognisableVectors,
    Recogniser,
    feature_language,
    feature_sentences,
    random_sentences,
    recogniser,
)
from plot_attractors.baselines.vqvae import VQVAE, MovingAverages, Quantisation, perplexity

__all__ = [
    "DataConfig",
    "HardCoded",
    "MovingAverages",
    "Quantisation",
    "RecognisableVectors",
    "Recogniser",
    "VQVAE",
    "feature_language",
    "feature_sentences",
    "load_data",
    "perplexity",
    "random_sentences",
    "recogniser",
]
