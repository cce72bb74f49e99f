"""The phases in which tokens get their embeddings, for an inference program to list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from pyro.distributions import Normal
from torch import Tensor
from torch.nn.functional import softshrink

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
from plot_attractors.training.vocabulary.linear import begin_at_tokens, with_token_axes
from plot_attractors.training.vocabulary.rotate import rotate_axes
from plot_attractors.training.vocabulary.tokens import (
    reset_tokens,
    spread_pairs,
    spread_tokens,
)

__all__ = ["VocabularyLearning"]

AXES_INPUTS = 4096  # whose states tell the axes of the latent space
BATCH = 128  # inputs in an update of tokens alone
RESET_EVERY = 100  # updates between resets, but for the last tenth of a phase
RESET_INPUTS = 512  # whose sentences tell which tokens add nothing
RELEASE_POWERS = 1.0, 4.0, 16.0  # of P(s | x), whose sentences tell σ(s) of a linear encoder
FIRST_PART = 0.4  # of the updates of tokens alone, with the first of two token costs
# nats a token costs in labels: in the warm-up, then in the first part and the rest of the updates
# of tokens alone. Costly first, a token stands for one thing; free later, for a narrow one
LABEL_COSTS = 0.5, 1.0, 0.0
LABEL_LENGTH = 12  # most tokens of a label
SHARPNESS = 16.0  # labels are drawn ∝ P(s | x)^16
SPARSITY = 0.3  # λ of an L1 penalty on weights of a linear encoder: proximal steps λ · rate


class VocabularyLearning:
    """Rotated axes, warm-up, and tokens that learn alone.

    Labels have up to 12 tokens, at costs of their own. A linear sentence encoder begins at tokens
    that another one, with an axis each, has learned (`linear.with_token_axes`), and learns freely
    from there with encoder and decoder.

    Of `updates` of tokens alone a full training has 1,000. A rotation takes a quarter as many; a
    second warm-up, after one more rotation, and free tokens take three quarters each: a young VAE
    uses an axis too many at times, and rotated axes then come to mix what varies.

    Raises ValueError for a linear encoder with no updates of its own, and for parts whose layers
    these phases do not know.
    """

    perturbed_sd = 0.3, 2.0  # of perturbed starts: sentences lie further apart

    def __init__(
        self,
        model: AttractorModel,
        m_step: MStep,
        updates: int,
        sentences: Sentences,
    ) -> None:
        self.final, self.final_m_step, self.final_sentences = model, m_step, sentences
        self.updates, self.rotation, self.more = updates, updates // 4, 3 * updates // 4
        _require_layers(model, rotates=self.rotation > 0)
        self.linear = along_axes(model.sentence_encoder) is None
        if self.linear:
            if not self.more:
                raise ValueError(
                    "a linear sentence encoder begins at learned tokens and learns from there: set "
                    "vocabulary to 2 or more, or token_axes"
                )
            model = with_token_axes(model)
            settings = m_step.inputs, m_step.config, m_step.batch, m_step.lr
            m_step, sentences = MStep(model, *settings), sentences.of(model)
        self.model, self.m_step, self.sentences = model, m_step, sentences
        self.inputs: Callable[[int], Tensor] = m_step.inputs
        self.optimizer = torch.optim.Adam(model.sentence_encoder.parameters(), lr=5e-3, fused=True)
        longest = min(LABEL_LENGTH, len(model.language.groups))
        plain = replace(model.language, max_length=longest)
        self.languages = [replace(plain, length_cost=cost) for cost in LABEL_COSTS]

    @property
    def state(self) -> dict[str, Any]:
        """What must survive a stop."""
        state: dict[str, Any] = {"optimizer_tokens": self.optimizer}
        if self.linear:
            state |= {"tokens": self.model.sentence_encoder, "phi_tokens": self.m_step.optimizer}
        return state

    def phases(self, pretrain: int, warm_up: int) -> list[Phase]:
        """The VAE, its axes rotated, the warm-up, and tokens alone."""
        train = self.m_step.pretrain
        free = self.more if self.linear else 0
        return [
            Phase("pretrain", 0, pretrain, train),
            Phase("pretrain", 1, self.rotation, train, self.rotate),
            Phase("warm_up", 0, warm_up, self.warm_up, self.spread),
            Phase("pretrain", 2, self.rotation if self.more else 0, train, self.rotate),
            Phase("warm_up", 1, self.more, self.warm_up, self.spread),
            Phase("tokens", 0, self.updates, self.update, self.begin),
            Phase("warm_up", 2, free, self.update_freely, self.release),
        ]

    @property
    def spoken(self) -> Sentences:
        """Those of the tokens that learn now: of one axis each until a linear encoder learns."""
        learns = not self.linear or self.final_m_step.optimizer.state
        return self.final_sentences if learns else self.sentences

    def rotate(self) -> None:
        rotate_axes(self.model, self.inputs(AXES_INPUTS))

    def spread(self) -> None:
        spread_tokens(self.model, self.inputs(AXES_INPUTS))

    def begin(self) -> None:
        """Tokens begin anew, in pairs."""
        spread_pairs(self.model, self.inputs(AXES_INPUTS))

    def label_language(self, part: int) -> Language:
        """The language of labels in a part: 0 the warm-up, 1 and 2 of tokens alone."""
        return self._or_own(self.languages[part], self.sentences)

    def _or_own(self, language: Language, sentences: Sentences) -> Language:
        return language if sentences.can_speak(language) else self.model.language

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

    def release(self) -> None:
        """The linear sentence encoder begins at the tokens with an axis each."""
        q = self.model.encode(self.inputs(RESET_INPUTS)).distribution
        language = self.label_language(2)
        drawn = [self.sentences.draw(q, power, language, beta=1.0) for power in RELEASE_POWERS]
        begin_at_tokens(self.final, self.model, torch.cat(drawn))

    def update_freely(self, at: At) -> dict[str, Scalar]:
        """One M-update of encoder, decoder and the linear sentence encoder, whose small weights
        become 0: w ← sign(w) max(|w| − λ · learning rate, 0).

        Where many tokens move an axis a little, the place of each basin along it depends on all
        others, which dynamics learn slowly.
        """
        m, sentences = self.final_m_step, self.final_sentences
        rate = late_cosine(at.progress)
        m.set_rate(rate)
        language = self._or_own(self.languages[2], sentences)
        metrics = m.sharpened(sentences, SHARPNESS, language)
        m.set_rate(1.0)
        encoder: Any = self.final.sentence_encoder
        weight = encoder.mean.weight
        weight.data = softshrink(weight.data, SPARSITY * rate * m.lr)
        return metrics


def _require_layers(model: AttractorModel, rotates: bool) -> None:
    """These phases set weights of layers, and know where they are in the package's own parts."""
    if not isinstance(model.sentence_encoder, SentenceEncoder):
        raise ValueError(
            "vocabulary phases place the tokens of a SentenceEncoder, and this sentence encoder is "
            f"a {type(model.sentence_encoder).__name__}: leave vocabulary at 0"
        )
    known = InputEncoder, InputDecoder | VectorDecoder | ImageDecoder
    for part, kind in zip((model.encoder, model.decoder), known, strict=True):
        if rotates and not isinstance(part, kind):
            raise ValueError(
                "vocabulary phases rotate the axes in the layers of the package's encoders and "
                f"decoders, and do not know those of {type(part).__name__}: leave vocabulary at 0"
            )
