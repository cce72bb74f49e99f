"""What models that describe inputs in sentences have in common, so that analyses of language serve
them all; and what each part of an attractor model is called with and returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

import torch
from pyro.distributions import Bernoulli
from torch import Tensor, nn
from torch.distributions import Distribution, Normal

from plot_attractors.language import Language
from plot_attractors.language.policy import draw_prior
from plot_attractors.model.bits import KnownBits
from plot_attractors.model.networks import SentenceEncoder
from plot_attractors.model.nn import MaskedLinear

__all__ = [
    "PARTS",
    "Description",
    "Reconstructs",
    "SentenceModel",
    "checked_inputs",
    "along_axes",
    "check_parts",
    "decodes_sentences",
    "probing",
    "reconstructs",
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


class Reconstructs(Protocol):
    """A model that says which inputs a state stands for, before and after it is discretised."""

    @property
    def decoder(self) -> Callable[[Tensor], Bernoulli]:
        """(…, d) the states that sentences are read from → P(x | z)."""

    def reconstruct(self, x: Tensor) -> Bernoulli:
        """P(x | state) of the continuous states of the inputs x (B, bits), by a trained
        reconstruction model.
        """


def reconstructs(model: object) -> TypeGuard[Reconstructs]:
    """Whether a model is a `Reconstructs`: `isinstance` finds no submodules from Python 3.12 on."""
    return hasattr(model, "decoder") and hasattr(model, "reconstruct")


def decodes_sentences(model: object) -> bool:
    """Whether a model has sentences, and decodes inputs from states."""
    return isinstance(model, SentenceModel) and reconstructs(model)


# -- the parts of Table 1

# What each part is called with, and what it returns of n rows. Arguments: `s` sentences (n, width),
# `z` states (n, d + m), of which a discretizer may be given d; `z0` (n, d), `t` a number or (…, 1),
# `x` inputs; states and t may have more leading dimensions, which broadcast.
PARTS = {
    "sentence_encoder": ("s", "normal"),  # P(z0 | ẑ_s)
    "decoder": ("z0", "inputs"),  # P(x | z)
    "encoder": ("x", "normal"),  # P(z0 | x); optional: around(mean), P(z0 | x) by its mean
    "forward_dynamics": ("z t z0", "normal"),  # optional: max_step
    "backward_dynamics": ("z t z0", "normal"),
    "discretizer": ("z z0", "sentences"),  # P(s | z); optional: like and score
    # of models whose flow or discretizer learns by balance; None in others
    "flow_correction": ("z0 t z0", "numbers"),
    "log_partition": ("z0 z0", "numbers"),
}
RETURNED = {
    "normal": "a Normal over (n, d)",
    "inputs": "a distribution over inputs",
    "sentences": "a distribution over sentences, to sample from",
    "numbers": "a tensor (n,)",
}
OPTIONAL = "flow_correction", "log_partition"
ROWS = 2  # that parts are tried with


def along_axes(sentence_encoder: Any) -> MaskedLinear | None:
    """ẑ_s of a `SentenceEncoder` whose tokens each move one latent axis; None of any other, and of
    a subclass with a call of its own.
    """
    own = type(sentence_encoder).forward is SentenceEncoder.forward
    return sentence_encoder.along_axes if own else None


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
    """Tries all parts of an attractor model; returns d.

    Raises ValueError for the first part that returns something else than `PARTS` has.
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
                given["z0"] = torch.zeros(ROWS, *shape[1:2], device=device)
                given["z"] = model.at_rest(given["z0"])
            if not _fits(kind, result, given["s"], given["z0"]):
                shown = f"{name.replace('_', ' ')} {type(part).__name__}"
                raise ValueError(
                    f"the {shown} must return {RETURNED[kind]} for n = {ROWS} rows, "
                    f"and returns a {type(result).__name__} {shape}"
                )
            if kind == "inputs":
                given["x"] = result.sample()
    return int(given["z0"].shape[-1])


def _fits(kind: str, result: Any, s: Tensor, z: Tensor) -> bool:
    """Whether a part returned what it must for sentences s (n, width) and states z (n, d)."""
    if kind == "numbers":
        return isinstance(result, Tensor) and result.shape == s.shape[:1]
    if kind == "sentences":
        return hasattr(result, "sample") and result.sample().shape == s.shape
    if kind == "normal":
        return isinstance(result, Normal) and result.batch_shape == z.shape and z.dim() == 2
    return isinstance(result, Distribution) and result.batch_shape[:1] == s.shape[:1]
