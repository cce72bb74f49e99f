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
    "sees_context",
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


class Part(NamedTuple):
    """A part of an attractor model: what it is called with, and what it returns of n rows.

    Arguments: `s` sentences (n, width), `z` states and `z0` (n, d), `t` a number or (…, 1), `x`
    inputs. States and t may have more leading dimensions, which broadcast. Returned: a `normal`
    over (n, d), `states`, a distribution over (n, d) with a mean and a stddev, `inputs`, a
    distribution over x, `sentences`, one over s that is sampled from, or `numbers` (n,).
    """

    arguments: str
    returned: str


PARTS = {
    # P(z0 | ẑ_s); optional: along_axes, additions, additions_along_axes
    "sentence_encoder": Part("s", "normal"),
    "decoder": Part("z", "inputs"),  # P(x | z)
    "encoder": Part("x", "normal"),  # P(z0 | x); optional: around(mean), P(z0 | x) by its mean
    "forward_dynamics": Part("z t z0", "states"),  # optional: max_step; raw, as in `Dynamics`
    "backward_dynamics": Part("z t z0", "states"),
    "discretizer": Part("z z0", "sentences"),  # P(s | z); optional: like and score
    # of models whose flow or discretizer learns by balance; None in others
    "flow_correction": Part("z t z0", "numbers"),
    "log_partition": Part("z z0", "numbers"),
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


def additions_along_axes(sentence_encoder: Any, s: Tensor) -> tuple[Any, Any]:
    """P(z0 | ẑ) of bags s (…, tokens), (…, d), and, (…, tokens), of s with each token added, along
    its own axis.
    """
    if hasattr(sentence_encoder, "additions_along_axes"):
        p, along = sentence_encoder.additions_along_axes(s)
        return p, along
    every = additions(sentence_encoder, s)
    own = Normal(every.loc[-1], every.scale[-1], validate_args=False)
    return own, _own_axes(every, sentence_encoder.along_axes.axes)


def _own_axes(p: Any, axes: Tensor) -> Normal:
    token = torch.arange(len(axes), device=axes.device)
    loc, scale = (x[token, ..., axes].movedim(0, -1) for x in _moments(p))
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


def sees_context(dynamics: nn.Module, latent: int, steps: int, device: torch.device) -> bool:
    """Whether a transition depends on the input: it is tried with two, at the first and last t."""
    with probing(dynamics, device):
        torch.manual_seed(0)
        z, *z0 = torch.randn(3, 16, latent, device=device)
        pairs = ([dynamics(z, float(t), c) for c in z0] for t in (0, steps))
        return any(
            not torch.equal(a.mean, b.mean) or not torch.equal(a.stddev, b.stddev) for a, b in pairs
        )


def check_parts(model: Any) -> int:
    """Tries all parts of an attractor model; returns d, the size of a state.

    Raises ValueError for the first part that cannot be called as `PARTS` has it, that returns
    something else, or whose `additions`, `along_axes` or `additions_along_axes` do not agree with
    it.
    """
    language, device = model.language, next(model.parameters()).device
    with probing(model, device):
        given: dict[str, Any] = {"s": draw_prior(language, ROWS, device), "t": 1.0}
        for name, (arguments, returned) in PARTS.items():
            part, names = getattr(model, name), arguments.split()
            if part is None and name in OPTIONAL:
                continue
            result = _call(part, name, {key: given[key] for key in names})
            if name == "sentence_encoder":  # whose embeddings are states
                shape = tuple(getattr(result, "batch_shape", ()))
                given |= dict.fromkeys(("z", "z0"), torch.zeros(ROWS, *shape[1:2], device=device))
            _check_returned(part, name, returned, result, given)
            if returned == "inputs":
                given["x"] = result.sample()
        _check_sentence_encoder(model.sentence_encoder, language, given["s"])
    return int(given["z"].shape[-1])


def _call(part: Any, name: str, arguments: dict[str, Any]) -> Any:
    try:
        return part(*arguments.values())
    except Exception as error:
        shown = ", ".join(f"{key} {_shape(value)}".strip() for key, value in arguments.items())
        raise ValueError(
            f"the {_shown(part, name)} cannot be called with {shown}: {error}"
        ) from error


def _check_returned(part: Any, name: str, kind: str, result: Any, given: dict[str, Any]) -> None:
    rows, state = (ROWS,), (ROWS, *given["z"].shape[1:])
    shape: Any = result.shape if isinstance(result, Tensor) else ()
    fits, wanted = True, ""
    if kind == "numbers":
        wanted, fits = f"a tensor {rows}", isinstance(result, Tensor) and shape == rows
    elif isinstance(result, Distribution):
        shape = result.batch_shape + result.event_shape
    if kind in ("normal", "states"):
        kinds, noun = (Normal, "Normal") if kind == "normal" else (Distribution, "distribution")
        wanted = f"a {noun} over (n, d) = {state if len(state) == 2 else (ROWS, 'd')}"
        fits = isinstance(result, kinds) and len(state) == 2 and tuple(shape) == state
    elif kind == "inputs":
        wanted = "a distribution over inputs"
        fits = isinstance(result, Distribution) and len(shape) > 1 and shape[0] == ROWS
    elif kind == "sentences":
        wanted = f"a distribution over sentences {_shape(given['s'])}"
        try:
            shape = result.sample().shape
        except AttributeError:
            shape = ()
        fits = shape == given["s"].shape
    if not fits:
        what = f"a {type(result).__name__}" + (f" over {tuple(shape)}" if len(shape) else "")
        raise ValueError(
            f"the {_shown(part, name)} must return {wanted} for {ROWS} rows, and returns {what}"
        )


def _check_sentence_encoder(part: Any, language: Language, s: Tensor) -> None:
    """Whether what a sentence encoder offers beside its call says the same as the call."""
    shown, layer = _shown(part, "sentence_encoder"), along_axes(part)
    if hasattr(part, "additions") and not language.ordered:
        pairs = zip(_moments(part.additions(s)), _moments(_one_by_one(part, s)), strict=True)
        if not all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs):
            raise ValueError(
                f"additions of the {shown} are not what it returns for the sentences with each "
                "token added: override both, or leave additions out"
            )
    if layer is None:
        return
    whole, axis = part(s), torch.arange(layer.out_features).to(layer.axes)
    own = part(s[:, None] * (layer.axes == axis[:, None]))  # (n, d, d): the tokens of an axis alone
    pairs = zip(_moments(whole), _moments(own), strict=True)
    same = all(
        torch.allclose(a, b.diagonal(dim1=-2, dim2=-1), rtol=1e-3, atol=1e-4) for a, b in pairs
    )
    if not same or not torch.allclose(layer(s), whole.loc, rtol=1e-3, atol=1e-4):
        raise ValueError(
            f"the {shown} says by along_axes that every token moves one latent axis, and what it "
            "returns along an axis depends on tokens of others: set its along_axes to None"
        )
    if not language.ordered:
        own = _own_axes(_one_by_one(part, s), layer.axes)
        pairs = zip(_moments(additions_along_axes(part, s)[1]), _moments(own), strict=True)
        if not all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs):
            raise ValueError(
                f"additions_along_axes of the {shown} are not what it returns for the sentences "
                "with each token added: override both"
            )


def _moments(p: Normal) -> tuple[Tensor, Tensor]:
    return p.loc, p.scale


def _shape(value: Any) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else ""


def _shown(part: Any, name: str) -> str:
    return f"{name.replace('_', ' ')} {type(part).__name__}"
