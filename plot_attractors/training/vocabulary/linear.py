"""A linear sentence encoder that begins at tokens that were learned along the latent axes."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Tensor

from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.networks import SentenceEncoder
from plot_attractors.model.posterior import ExactPosterior
from plot_attractors.training.schedule import cosine, set_lr

__all__ = ["begin_at_tokens", "with_token_axes"]

FIT_UPDATES = 600  # of the MLP of σ
FIT_BATCH = 512  # sentences in each
FIT_LR = 5e-3  # Adam's


def with_token_axes(model: AttractorModel) -> AttractorModel:
    """A model that shares every part but the sentence encoder, whose tokens move ẑ_s along one
    latent axis each.
    """
    encoder = SentenceEncoder(model.language, model.latent, axes=True).to(model.device)
    along = copy(model)  # of the same class, with what a subclass has besides
    along._modules = model._modules | {"sentence_encoder": encoder}  # parts read the model's still
    reward = copy(model.reward)  # of the same class and settings
    reward.sentence_encoder = encoder
    along.__dict__ |= {"reward": reward, "posterior": ExactPosterior(reward)}
    return along


def begin_at_tokens(model: AttractorModel, along: AttractorModel, s: Tensor) -> None:
    """Gives the linear sentence encoder of a model the embeddings ẑ_s of another whose tokens move
    one latent axis each, exactly, and σ(s) of sentences s (n, width) by regression of the MLP.
    """
    own: Any = model.sentence_encoder
    tokens: Any = along.sentence_encoder
    mean = tokens.mean
    with torch.no_grad():
        own.mean.weight.copy_(mean.weight * mean.mask)
        own.mean.bias.copy_(mean.bias)
        to = tokens.sd(s)
    optimizer = torch.optim.Adam(own.sd.parameters(), FIT_LR)
    for k in range(FIT_UPDATES):
        set_lr(FIT_LR * cosine(k / FIT_UPDATES), optimizer)
        some = torch.randint(len(s), (FIT_BATCH,))
        loss = (own.sd(s[some]) - to[some]).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
