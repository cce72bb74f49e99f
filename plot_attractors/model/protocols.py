"""What models that describe inputs in sentences have in common, so that analyses of language serve
them all; and what each part of an attractor model is called with and returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from pyro.distributions import Bernoulli
from torch import Tensor, nn
from torch.distributions import Distribution, Normal

from plot_attractors.language import Language
from plot_attractors.language.policy import draw_prior
from plot_attractors.model.bits import KnownBits
from plot_attractors.model.nn import MaskedLinear

__all__ = [
    "PARTS",
    "Description",
    "Reconstructs",
    "SentenceModel",
    "additions",
    "checked_inputs",
    "along_axes",
    "check_parts",
    "decodes_sentences",
    "probing",
    "require",
]


def checked_inputs(x: Any, decoded: Any) -> Tensor:
    """Inputs (B, …) float32 of a tensor or array of them, or of one, as those that are `decoded`.

    Raises ValueError for inputs of another shape; for bits that are not 0, 1 or NaN (missing), and
    pixels that are not from 0 to 1.
    """
    if not hasattr(decoded, "mean"):
        return torch.as_tensor(x)
    shape = decoded.mean.shape[1:]
    x = torch.as_tensor(x, dtype=torch.float32, device=decoded.mean.device)
    x = x[None] if x.shape == shape else x
    if x.shape[1:] != shape:
        raise ValueError(f"inputs have the shape {('n', *shape)}, and these {tuple(x.shape)}")
    what, wrong = "finite", ~x.isfinite()
    if isinstance(decoded, KnownBits):
        what, wrong = "0, 1 or, where they are missing, NaN", (x != 0) & (x != 1) & ~x.isnan()
    elif len(shape) == 3:
        what, wrong = "from 0 to 1", ~((x >= 0) & (x <= 1))
    if wrong.any():
        raise ValueError(f"the numbers of inputs are {what}, and some are {float(x[wrong][0]):g}")
    return x


class Description(NamedTuple):
    """Sentences drawn for B inputs, `draws` for each, and the states that they were read from.

    - ``z``: (B, draws, d) z_T of the attractor model, the quantised vector of a VQ-VAE, the
      listener's reading;
    - ``s``: (B, draws, width) the sentences, as the language's 0/1 vectors.
    """

    z: Tensor
    s: Tensor


@runtime_checkable
class SentenceModel(Protocol):
    """A model that says sentences of inputs."""

    language: Language
    latent: int

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """`draws` sentences for each of the inputs x (B, …), by torch's global random number
        generator.
        """

    def embed(self, s: Tensor) -> Tensor:
        """(…, d) ẑ_s of sentences s (…, width)."""


@runtime_checkable
class Reconstructs(Protocol):
    """A model that says which inputs a state stands for, before and after it is discretised."""

    @property
    def decoder(self) -> Callable[[Tensor], Bernoulli]:
        """(…, d) the states that sentences are read from → P(x | z)."""

    def reconstruct(self, x: Tensor) -> Bernoulli:
        """P(x | state) of the continuous states of the inputs x (B, bits), by a trained
        reconstruction model.
        """


def decodes_sentences(model: object) -> bool:
    """Whether a model has sentences, and decodes inputs from states."""
    return isinstance(model, SentenceModel) and isinstance(model, Reconstructs)


# -- the parts of Table 1

# What each part is called with, and what it returns of n rows. Arguments: `s` sentences (n, width),
# `z` states and `z0` (n, d), `t` a number or (…, 1), `x` inputs; states and t may have more leading
# dimensions, which broadcast.
PARTS = {
    # P(z0 | ẑ_s); optional: additions; along_axes, and additions_along_axes with it
    "sentence_encoder": ("s", "normal"),
    "decoder": ("z", "inputs"),  # P(x | z)
    "encoder": ("x", "normal"),  # P(z0 | x); optional: around(mean), P(z0 | x) by its mean
    "forward_dynamics": ("z t z0", "normal"),  # optional: max_step
    "backward_dynamics": ("z t z0", "normal"),
    "discretizer": ("z z0", "sentences"),  # P(s | z); optional: like and score
    # of models whose flow or discretizer learns by balance; None in others
    "flow_correction": ("z t z0", "numbers"),
    "log_partition": ("z z0", "numbers"),
}
RETURNED = {
    "normal": "a Normal over (n, d)",
    "inputs": "a distribution over inputs",
    "sentences": "a distribution over sentences, to sample from",
    "numbers": "a tensor (n,)",
}
OPTIONAL = "flow_correction", "log_partition"
ROWS = 2  # that parts are tried with


def require(part: Any, name: str, why: str) -> Any:
    """What a part offers beside its call; ValueError where it does not, and why it is needed."""
    if not hasattr(part, name):
        raise ValueError(f"{type(part).__name__} has no {name}, and {why}: give it one")
    return getattr(part, name)


def along_axes(sentence_encoder: Any) -> MaskedLinear | None:
    """ẑ_s of a sentence encoder whose tokens each move one latent axis; None of any other."""
    return getattr(sentence_encoder, "along_axes", None)


def additions(sentence_encoder: Any, s: Tensor) -> Any:
    """(tokens + 1, …, d) P(z0 | ẑ) of bags s (…, tokens) with each token added, and of s."""
    if hasattr(sentence_encoder, "additions"):
        return sentence_encoder.additions(s)
    return _one_by_one(sentence_encoder, s)


def _own_axes(p: Any, axes: Tensor) -> Normal:
    token = torch.arange(len(axes), device=axes.device)
    loc, scale = (x[token, ..., axes].movedim(0, -1) for x in (p.loc, p.scale))
    return Normal(loc, scale, validate_args=False)


def _one_by_one(sentence_encoder: Any, s: Tensor) -> Any:
    every = torch.cat([torch.eye(s.shape[-1]), torch.zeros(1, s.shape[-1])]).to(s)
    return sentence_encoder(s + every.view(len(every), *[1] * (s.dim() - 1), -1))


@contextmanager
def probing(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Parts may be tried here: without gradients, in evaluation mode, and with random numbers that
    count for nothing.
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        with (
            torch.no_grad(),
            torch.random.fork_rng([] if device.type == "cpu" else [device]),
        ):
            model.eval()
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def check_parts(model: Any) -> int:
    """Tries all parts of an attractor model; returns d, the size of a state.

    Raises ValueError for the first part that returns something else than `PARTS` has, or whose
    `additions`, `along_axes` or `additions_along_axes` do not agree with it.
    """
    language, device = model.language, next(model.parameters()).device
    with probing(model, device):
        given: dict[str, Any] = {"s": draw_prior(language, ROWS, device), "t": 1.0}
        for name, (arguments, kind) in PARTS.items():
            if (part := getattr(model, name)) is None and name in OPTIONAL:
                continue
            result = part(*(given[key] for key in arguments.split()))
            shape = tuple(getattr(result, "batch_shape", getattr(result, "shape", ())))
            if name == "sentence_encoder":  # whose embeddings are states
                given |= dict.fromkeys(("z", "z0"), torch.zeros(ROWS, *shape[1:2], device=device))
            if not _fits(kind, result, given["s"], given["z"]):
                raise ValueError(
                    f"the {_shown(part, name)} must return {RETURNED[kind]} for n = {ROWS} rows, "
                    f"and returns a {type(result).__name__} {shape}"
                )
            if kind == "inputs":
                given["x"] = result.sample()
        _check_sentence_encoder(model.sentence_encoder, language, given["s"])
    return int(given["z"].shape[-1])


def _fits(kind: str, result: Any, s: Tensor, z: Tensor) -> bool:
    """Whether a part returned what it must for sentences s (n, width) and states z (n, d)."""
    if kind == "numbers":
        return isinstance(result, Tensor) and result.shape == s.shape[:1]
    if kind == "sentences":
        return hasattr(result, "sample") and result.sample().shape == s.shape
    if kind == "normal":
        return isinstance(result, Normal) and result.batch_shape == z.shape and z.dim() == 2
    return isinstance(result, Distribution) and result.batch_shape[:1] == s.shape[:1]


def _check_sentence_encoder(part: Any, language: Language, s: Tensor) -> None:
    """Whether what a sentence encoder offers beside its call says the same as the call."""
    shown, layer = _shown(part, "sentence_encoder"), along_axes(part)
    checks = []  # what it offers, what that is by its call alone, and what to do
    if hasattr(part, "additions") and not language.ordered:
        advice = "additions are not those of its call: override both, or leave additions out"
        checks.append((part.additions(s), _one_by_one(part, s), advice))
    if layer is not None:
        axis = torch.arange(layer.out_features).to(layer.axes)
        alone = part(s[:, None] * (layer.axes == axis[:, None]))  # (n, d, d): by each axis' tokens
        own = Normal(*(x.diagonal(dim1=-2, dim2=-1) for x in (alone.loc, alone.scale)))
        advice = "an axis depends on tokens of others: set its along_axes to None"
        checks += [(of, own, advice) for of in (part(s), Normal(layer(s), own.scale))]
    if layer is not None and not language.ordered:
        advice = "additions_along_axes are not those of its call: override both"
        own = _own_axes(_one_by_one(part, s), layer.axes)
        checks.append((part.additions_along_axes(s)[1], own, advice))
    for offered, own, advice in checks:
        pairs = (offered.loc, own.loc), (offered.scale, own.scale)
        if not all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs):
            raise ValueError(f"of the {shown} {advice}")


def _shown(part: Any, name: str) -> str:
    return f"{name.replace('_', ' ')} {type(part).__name__}"
