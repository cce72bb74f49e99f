"""Models to compare the attractor model with: VQ-VAE, emergent communication, hard-coded languages.

Source: Section *Comparison models*.
"""

from __future__ import annotations

from plot_attractors.baselines.emergent_communication import (
    EmergentCommunication,
    Receiver,
    Sender,
    choose,
    draw_candidates,
)
from plot_attractors.baselines.hard_coded import (
    HardCoded,
    RecognisableVectors,
    SpriteRecogniser,
    feature_language,
    feature_sentences,
    random_sentences,
    recogniser,
)
from plot_attractors.baselines.vqvae import VQVAE, MovingAverages

__all__ = [
    "EmergentCommunication", "HardCoded", "MovingAverages",
    "Receiver", "RecognisableVectors", "Sender", "SpriteRecogniser", "VQVAE",
    "choose", "draw_candidates", "feature_language", "feature_sentences",
    "random_sentences", "recogniser",
]  # fmt: skip
