"""The phases in which tokens get their embeddings, for an inference program to list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.language import Language
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.networks import (
    ImageDecoder,
    InputDecoder,
    InputEncoder,
    SentenceEncoder,
    VectorDecoder,
)
from plot_attractors.model.protocols import along_axes
from plot_attractors.model.reward import gaussian_kl
from plot_attractors.training.m_step import MStep
from plot_attractors.training.schedule import At, Phase, Scalar, clipped_update, late_cosine, set_lr
from plot_attractors.training.sentences import Sentences
from plot_attractors.training.vocabulary.rotate import rotate_axes
from plot_attractors.training.vocabulary.tokens import reset_tokens, spread_pairs, spread_tokens

__all__ = ["VocabularyLearning"]

AXES_INPUTS = 4096  # whose states tell the axes of the latent space
BATCH = 128  # inputs in an update of tokens alone
RESET_EVERY = 100  # updates between resets, but for the last tenth of a phase
RESET_INPUTS = 512  # whose sentences tell which tokens add nothing
FIRST_PART = 0.4  # of the updates of tokens alone, with the first of two token costs
# nats a token costs in labels: in the warm-up, then in the first part and the rest of the updates
# of tokens alone. Costly first, a token stands for one thing; free later, for a narrow one
LABEL_COSTS = 0.5, 1.0, 0.0
LABEL_LENGTH = 12  # most tokens of a label
SHARPNESS = 16.0  # labels are drawn ∝ P(s | x)^16


class VocabularyLearning:
    """Rotated axes, warm-up, and tokens that learn alone.

    Labels have up to 12 tokens, at costs of their own. Of `updates` of tokens alone a full training
    has 1,000. A rotation takes a quarter as many, and a second warm-up, after one more rotation,
    three quarters: a young VAE uses an axis too many at times, and rotated axes then come to mix
    what varies.

    Raises ValueError for tokens without an axis each, and for parts whose layers these phases do
    not know.
    """

    perturbed_sd = 0.3, 2.0  # of perturbed starts: sentences lie further apart

    def __init__(
        self,
        model: AttractorModel,
        m_step: MStep,
        updates: int,
        sentences: Sentences,
    ) -> None:
        self.updates, self.rotation, self.more = updates, updates // 4, 3 * updates // 4
        _require_layers(model, rotates=self.rotation > 0)
        self.model, self.m_step, self.sentences = model, m_step, sentences
        self.inputs: Callable[[int], Tensor] = m_step.inputs
        self.optimizer = torch.optim.Adam(model.sentence_encoder.parameters(), lr=5e-3, fused=True)
        longest = min(LABEL_LENGTH, len(model.language.groups))
        plain = replace(model.language, max_length=longest)
        self.languages = [replace(plain, length_cost=cost) for cost in LABEL_COSTS]

    @property
    def state(self) -> dict[str, Any]:
        """What must survive a stop."""
        return {"optimizer_tokens": self.optimizer}

    def phases(self, pretrain: int, warm_up: int) -> list[Phase]:
        """The VAE, its axes rotated, the warm-up, and tokens alone."""
        train = self.m_step.pretrain
        return [
            Phase("pretrain", 0, pretrain, train),
            Phase("pretrain", 1, self.rotation, train, self.rotate),
            Phase("warm_up", 0, warm_up, self.warm_up, self.spread),
            Phase("pretrain", 2, self.rotation if self.more else 0, train, self.rotate),
            Phase("warm_up", 1, self.more, self.warm_up, self.spread),
            Phase("tokens", 0, self.updates, self.update, self.begin),
        ]

    def rotate(self) -> None:
        rotate_axes(self.model, self.inputs(AXES_INPUTS))

    def spread(self) -> None:
        spread_tokens(self.model, self.inputs(AXES_INPUTS))

    def begin(self) -> None:
        """Tokens begin anew, in pairs."""
        spread_pairs(self.model, self.inputs(AXES_INPUTS))

    def label_language(self, part: int) -> Language:
        """The language of labels in a part: 0 the warm-up, 1 and 2 of tokens alone."""
        language = self.languages[part]
        return language if self.sentences.can_speak(language) else self.model.language

    @torch.no_grad()
    def draw(self, n: int, power: float, language: Language | None) -> tuple[Normal, Tensor]:
        """P(z0 | x) of n inputs, and a sentence each ∝ R(s; x)^power."""
        q = self.model.encode(self.inputs(n)).distribution
        return q, self.sentences.draw(q, power, language, beta=1.0)

    def reset(self, at: At, language: Language | None) -> None:
        if at.position % RESET_EVERY == 0 and 0 < at.progress < 0.9:
            reset_tokens(self.model, *self.draw(RESET_INPUTS, 1.0, language))

    def warm_up(self, at: At) -> dict[str, Scalar]:
        """One M-update on sentences of the sharpened posterior."""
        self.reset(at, self.label_language(0))
        return self.m_step.sharpened(self.sentences, SHARPNESS, self.label_language(0))

    def update(self, at: At) -> dict[str, Scalar]:
        """One update of the sentence encoder alone, KL(P(z0 | x) ‖ P(z0 | ẑ_s))."""
        self.reset(at, None)  # a token goes where it is missing from what will be sampled
        language = self.label_language(1 + (at.progress >= FIRST_PART))
        q, s = self.draw(BATCH, SHARPNESS, language)
        set_lr(5e-3 * late_cosine(at.progress), self.optimizer)
        encoder = self.model.sentence_encoder
        loss = gaussian_kl(q, encoder(s)).mean()
        clipped_update(self.optimizer, encoder.parameters(), loss)
        return {"token_loss": loss.detach()}


def _require_layers(model: AttractorModel, rotates: bool) -> None:
    """These phases set weights of layers, and know where they are in the package's own parts."""
    if not isinstance(model.sentence_encoder, SentenceEncoder):
        raise ValueError(
            "vocabulary phases place the tokens of a SentenceEncoder, and this sentence encoder is "
            f"a {type(model.sentence_encoder).__name__}: leave vocabulary at 0"
        )
    if along_axes(model.sentence_encoder) is None:
        raise ValueError(
            "vocabulary phases give tokens an axis each: set token_axes=true, or vocabulary=0"
        )
    known = InputEncoder, InputDecoder | VectorDecoder | ImageDecoder
    for part, kind in zip((model.encoder, model.decoder), known, strict=True):
        if rotates and not isinstance(part, kind):
            raise ValueError(
                "vocabulary phases rotate the axes in the layers of the package's encoders and "
                f"decoders, and do not know those of {type(part).__name__}: leave vocabulary at 0"
            )
