"""Languages that are not learned: fully compositional, and not compositional at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from plot_attractors.data import (
    Channels,
    ColouredSprites,
    Feature,
    HierarchicalBinaryVectors,
    ImageSet,
    Vectors,
)
from plot_attractors.data.sprites import COLOURS, QUARTER, RGB, SHAPES
from plot_attractors.language import Language
from plot_attractors.measures.composition import combinations
from plot_attractors.model.bits import filled
from plot_attractors.model.protocols import Description

__all__ = [
    "HardCoded", "RecognisableVectors", "Recogniser", "SpriteRecogniser", "feature_language",
    "feature_sentences", "random_sentences", "recogniser",
]  # fmt: skip

ENDED = "none"  # outcome of a tree's levels below an input's own, which has no token
MOST_TRIES = 10_000  # exemplars drawn for one that is recognised
IMAGES = 512  # recognised at once
LEAST_LEAD = 1e-3  # nats by which a class is likelier than any other: no tie that rounding decides


class Recogniser(nn.Module):
    """The M kinds of inputs of a data set; x is of the kind of the highest x · weight + bias.

    The F `features` that tell kinds apart are categorical; `values` (M, F) are their outcomes'
    numbers for each kind, NaN where one is missing.
    """

    values: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(
        self, features: Sequence[Feature], values: Tensor, weight: Tensor, bias: Tensor
    ) -> None:
        super().__init__()
        self.features = tuple(features)
        for name, part in (("values", values), ("weight", weight), ("bias", bias)):
            self.register_buffer(name, part, persistent=False)

    def scores(self, x: Tensor) -> Tensor:
        """(…, M) of inputs x (…, bits)."""
        return filled(x) @ self.weight + self.bias

    def forward(self, x: Tensor) -> Tensor:
        """(…) int64, the kind of inputs x (…, bits)."""
        return self.scores(x).argmax(-1)


class SpriteRecogniser(nn.Module):
    """Kinds of coloured sprites: colour, shape, size, and the cell of the 4 × 4 grid.

    `features` are the paper's seven: a colour is told by its channels R, G and B (`Channels`).

    Of every shape and size, the white sprite whose centre of mass is nearest to the image's is a
    candidate; an image x is most alike the candidate t of the greatest t · Σ_c x_c / ‖t‖, and its
    colour is the nearest to x_c · t / ‖t‖². Attributes as of `Recogniser`.
    """

    values: Tensor
    templates: Tensor  # (sprites, side²)
    centres: Tensor  # (shapes · sizes, positions, 2)
    factors: Tensor  # (sprites, 4) shape, size and cell

    def __init__(self, data: ColouredSprites) -> None:
        super().__init__()
        white = data.rows[:, 0] == COLOURS.index("white")
        images = data.prototypes(white.nonzero().flatten())[:, 0].flatten(1)
        cells = math.ceil(len(data.positions) / QUARTER)
        sizes = (len(COLOURS), len(SHAPES), len(data.sizes), cells, cells)
        grid = tuple(map(str, range(1, cells + 1)))
        outcomes = (SHAPES, tuple(f"{size:.1f}" for size in data.sizes), grid, grid)
        others = map(Feature, data.label_names[1:], outcomes)
        channels = Channels([data.features[0], *others])
        self.features = channels.features
        shape, size, x, y = data.rows[white, 1:].unbind(-1)
        self.sizes = sizes
        buffers = {
            "values": channels.values(torch.cartesian_prod(*map(torch.arange, sizes)).float()),
            "templates": images,
            "centres": _centre_of_mass(images).unflatten(0, (sizes[1] * sizes[2], -1)),
            "factors": torch.stack([shape, size, x // QUARTER, y // QUARTER], -1),
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer, persistent=False)

    def match(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(n,) the white sprite most alike each image (n, 3, side, side), and (n, 3) its colour."""
        kinds, positions = self.centres.shape[:2]
        first = positions * torch.arange(kinds, device=x.device)
        parts = []
        for image in x.flatten(2).split(IMAGES):
            grey = image.sum(1)
            away = (_centre_of_mass(grey)[:, None, None] - self.centres).square().sum(-1)
            candidates = first + away.argmin(-1)
            t = self.templates[candidates]  # (n, kinds, side²)
            best = ((t @ grey[..., None])[..., 0] / t.norm(dim=-1)).argmax(-1)
            row = torch.arange(len(image), device=x.device)
            t = t[row, best]
            rgb = (image @ t[..., None])[..., 0] / t.square().sum(-1, keepdim=True)
            parts.append((candidates[row, best], rgb))
        return torch.cat([prototype for prototype, _ in parts]), torch.cat(
            [rgb for _, rgb in parts]
        )

    def forward(self, x: Tensor) -> Tensor:
        """(n,) int64, the kind of images x (n, 3, side, side)."""
        prototype, rgb = self.match(x)
        colour = torch.cdist(rgb, RGB.to(rgb)).argmin(-1)
        kind = torch.zeros_like(prototype)
        for size, factor in zip(
            self.sizes, (colour, *self.factors[prototype].unbind(-1)), strict=True
        ):
            kind = size * kind + factor
        return kind


def _centre_of_mass(images: Tensor) -> Tensor:
    """(…, 2) of square images (…, side²), in pixels."""
    side = math.isqrt(images.shape[-1])
    along = torch.arange(side, dtype=images.dtype, device=images.device)
    at = torch.cartesian_prod(along, along)
    return images @ at / images.sum(-1, keepdim=True).clamp(min=1e-6)


def recogniser(data: Any) -> Recogniser | SpriteRecogniser:
    """Of a tree: its nodes, by Bayes' rule, all equally likely. Of a table: its rows, by the bits
    that agree, of equal ones the first. Of sprites: their colours, shapes, sizes and cells.

    Raises ValueError where a table has no labels, and for a user's images and vectors, which have
    no such rule.
    """
    if isinstance(data, ColouredSprites):
        return SpriteRecogniser(data)
    if isinstance(data, ImageSet | Vectors):
        raise ValueError(
            "a hard-coded language recognises inputs by a rule, which there is for a tree, a table "
            "and sprites, but not for other images or for vectors: leave this model out"
        )
    if not data.features:
        raise ValueError(
            "a hard-coded language has tokens for the features of inputs, and the data has no "
            "labels: name label columns with --set labels=..."
        )
    if isinstance(data, HierarchicalBinaryVectors):
        p = data.probabilities
        weight, bias = (p.log() - (-p).log1p()).T, (-p).log1p().sum(-1)
        return Recogniser(data.features, (data.paths + 1).float(), weight, bias)
    x = filled(data.rows(torch.arange(len(data.x))))
    values = torch.where(data.labels >= 0, data.labels.float(), torch.nan)
    return Recogniser(data.features, values, 2 * x.T - 1, -x.sum(-1))


class RecognisableVectors(HierarchicalBinaryVectors):
    """Hierarchical binary vectors, only exemplars that Bayes' rule takes for their own class.

    The paper's hard-coded baselines are told the class, so that no two classes share a sentence.
    These see the input, as all other models do, and with such exemplars know its class.
    """

    def __init__(
        self, depth: int = 6, bits: int = 128, hold_out: bool = True, hold_out_seed: int = 0
    ) -> None:
        super().__init__(depth, bits, hold_out, hold_out_seed)
        self._recognise = recogniser(self)

    def exemplars(self, classes: Tensor) -> Tensor:
        """(…, bits) float32, one exemplar of each of the classes (…)."""
        recognise = self._recognise
        assert isinstance(recognise, Recogniser)
        x = super().exemplars(classes)
        for _ in range(MOST_TRIES):
            scores = recognise.scores(x)
            own = scores.gather(-1, classes[..., None])[..., 0]
            other = scores.scatter(-1, classes[..., None], -torch.inf).amax(-1)
            mistaken = other > own - LEAST_LEAD
            if not mistaken.any():
                return x
            x[mistaken] = super().exemplars(classes[mistaken])
        raise ValueError(
            f"exemplars of some class are hardly ever recognised with {self.bits} bits and a depth "
            f"of {self.depth}: take more bits, or --set recognisable=false"
        )


class HardCoded(nn.Module):
    """The sentence of an input is that of its kind, by `recognise`, of `sentences` (M, width).

    States are the sentences themselves.
    """

    sentences: Tensor

    def __init__(
        self, language: Language, recognise: Recogniser | SpriteRecogniser, sentences: Tensor
    ) -> None:
        super().__init__()
        self.language, self.latent, self.recognise = language, language.width, recognise
        self.register_buffer("sentences", sentences)

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """The one sentence of each of the inputs x (B, …), `draws` times."""
        s = self.sentences[self.recognise(x)][:, None].expand(-1, draws, -1)
        return Description(self.embed(s), s)

    def embed(self, s: Tensor) -> Tensor:
        """The sentences s (…, width) themselves."""
        return s


def feature_language(recognise: Recogniser | SpriteRecogniser) -> Language:
    """A group of tokens for every feature, a token for every outcome but "none".

    For a tree of six levels: six pairs of tokens, left and right, as in the paper. The shortest
    sentence has one token, or none where nothing is known of some input.
    """
    sentences = feature_sentences(recognise.features, recognise.values)
    groups = tuple(len(_outcomes(f)) for f in recognise.features)
    return Language(groups, min_length=int(sentences.sum(-1).min().clamp(max=1)))


def feature_sentences(features: Sequence[Feature], values: Tensor) -> Tensor:
    """(M, tokens) for values (M, F): a token for every outcome but "none" and missing ones."""
    parts = [
        (value[:, None] == torch.tensor(_outcomes(feature))).float()
        for feature, value in zip(features, values.T, strict=True)
    ]
    return torch.cat(parts, -1)


def random_sentences(language: Language, values: Tensor) -> Tensor:
    """(M, width) for values (M, F): a random sentence for each combination, all different.

    Uses torch's global random number generator. IndexError where sentences are too few.
    """
    distinct, row = combinations(values)
    return language.sentences[torch.randperm(language.count)[: len(distinct)]][row]


def _outcomes(feature: Feature) -> list[int]:
    """Numbers of the outcomes that have a token."""
    return [k for k, name in enumerate(feature.outcomes) if name != ENDED]
