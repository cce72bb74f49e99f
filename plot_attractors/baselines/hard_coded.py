"""Languages that are not learned: fully compositional, and not compositional at all."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from plot_attractors.baselines.data import Data
from plot_attractors.data import ColouredSprites, Feature, HierarchicalBinaryVectors, ImageSet
from plot_attractors.data.dsprites import COLOURS, QUARTER, RGB
from plot_attractors.data.sprites import SHAPES
from plot_attractors.evaluation.metrics.composition import combinations
from plot_attractors.language import Language
from plot_attractors.model.protocols import Description

__all__ = [
    "HardCoded",
    "RecognisableVectors",
    "Recogniser",
    "SpriteRecogniser",
    "feature_language",
    "feature_sentences",
    "random_sentences",
    "recogniser",
]

ENDED = "none"  # outcome of a tree's levels below an input's own: it is not said
MOST_TRIES = 10_000  # exemplars drawn for one that is recognised
IMAGES = 512  # recognised at once
LEAST_LEAD = (
    1e-3  # nats by which its class is likelier than any other: not a tie that rounding decides
)


class Recogniser(nn.Module):
    """The M kinds of inputs that a data set knows, and how an input is told to be of one: the
    highest score.

    Scores of an input x are x · weight + bias.

    Attributes:
        features: the F features that tell kinds apart, all categorical.
        values: (M, F) their outcomes' numbers for each kind, NaN where one is missing.
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
        return x @ self.weight + self.bias

    def forward(self, x: Tensor) -> Tensor:
        """(…) int64, the kind of inputs x (…, bits)."""
        return self.scores(x).argmax(-1)


class SpriteRecogniser(nn.Module):
    """Kinds of coloured sprites: colour, shape, size, and the cell of the 4 × 4 grid that the
    position is in.

    Of every shape and size, the white sprite whose centre of mass is nearest to the image's is a
    candidate; an image x is most alike the candidate t of the greatest t · Σ_c x_c / ‖t‖, and its
    colour is the nearest to x_c · t / ‖t‖². Attributes as of `Recogniser`.
    """

    values: Tensor
    templates: Tensor
    centres: Tensor
    factors: Tensor

    def __init__(self, data: ColouredSprites) -> None:
        super().__init__()
        white = data.rows[:, 0] == COLOURS.index("white")
        images = data.prototypes(white.nonzero().flatten())[:, 0].flatten(1)
        cells = math.ceil(len(data.positions_x) / QUARTER)
        sizes = (len(COLOURS), len(SHAPES), len(data.sizes), cells, cells)
        grid = tuple(map(str, range(1, cells + 1)))
        self.features = (
            Feature("colour", COLOURS),
            Feature("shape", SHAPES),
            Feature("size", tuple(f"{size:.1f}" for size in data.sizes)),
            Feature("x", grid),
            Feature("y", grid),
        )
        shape, size, x, y = data.rows[white, 1:].unbind(-1)
        self.sizes = sizes
        self.register_buffer(
            "values", torch.cartesian_prod(*map(torch.arange, sizes)).float(), persistent=False
        )
        self.register_buffer("templates", images, persistent=False)
        centres = _centre_of_mass(images).unflatten(0, (len(SHAPES) * len(data.sizes), -1))
        self.register_buffer(
            "centres", centres, persistent=False
        )  # (kinds of sprites, positions, 2)
        self.register_buffer(
            "factors", torch.stack([shape, size, x // QUARTER, y // QUARTER], -1), persistent=False
        )

    def match(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(n,) number of the white sprite that each image (n, 3, side, side) is most alike, and (n,
        3) its colour.
        """
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
        return torch.cat([found for found, _ in parts]), torch.cat([rgb for _, rgb in parts])

    def forward(self, x: Tensor) -> Tensor:
        """(n,) int64, the kind of images x (n, 3, side, side)."""
        found, rgb = self.match(x)
        colour = torch.cdist(rgb, RGB.to(rgb)).argmin(-1)
        kind = torch.zeros_like(found)
        for size, factor in zip(self.sizes, (colour, *self.factors[found].unbind(-1)), strict=True):
            kind = size * kind + factor
        return kind


def _centre_of_mass(images: Tensor) -> Tensor:
    """(…, 2) of square images (…, side²), in pixels."""
    side = math.isqrt(images.shape[-1])
    along = torch.arange(side, dtype=images.dtype, device=images.device)
    at = torch.cartesian_prod(along, along)
    return images @ at / images.sum(-1, keepdim=True).clamp(min=1e-6)


def recogniser(data: Data) -> Recogniser | SpriteRecogniser:
    """Of a tree: its nodes, by Bayes' rule, all being equally likely. Of a table: its rows, by the
    bits that agree. Of sprites: their colours, shapes, sizes and cells.

    Rows that are alike in all bits are taken for the first of them, whatever their labels.

    Raises ValueError where features of the rows of a table are unknown, and for a user's images,
    which no rule recognises.
    """
    if isinstance(data, ColouredSprites):
        return SpriteRecogniser(data)
    if isinstance(data, ImageSet):
        raise ValueError(
            "a hard-coded language recognises inputs by a rule, which there is for a tree, a table "
            "and sprites, but "
            "not for other images: leave this model out"
        )
    if not data.features:
        raise ValueError(
            "a hard-coded language says the features of inputs, and the data has no labels: name "
            "label columns with "
            "--set labels=..."
        )
    if isinstance(data, HierarchicalBinaryVectors):
        p = data.probabilities
        weight, bias = (p.log() - (-p).log1p()).T, (-p).log1p().sum(-1)
        return Recogniser(data.features, (data.paths + 1).float(), weight, bias)
    x = data.x.float()
    values = torch.where(data.labels >= 0, data.labels.float(), torch.nan)
    return Recogniser(data.features, values, 2 * x.T - 1, -x.sum(-1))


class RecognisableVectors(HierarchicalBinaryVectors):
    """Hierarchical binary vectors of which only those exemplars are drawn that Bayes' rule takes
    for their own class.

    The paper's hard-coded baselines are told the class, so that no two classes share a sentence.
    Speakers here see the input alone, as all others do; with these exemplars they know its class
    without a mistake, and the law of sentences and features is that of the paper's.
    """

    def __init__(
        self, depth: int = 6, bits: int = 128, hold_out: bool = True, hold_out_seed: int = 0
    ) -> None:
        super().__init__(depth, bits, hold_out, hold_out_seed)
        recognise = recogniser(self)
        assert isinstance(recognise, Recogniser)
        self._recognise = recognise

    def exemplars(self, classes: Tensor) -> Tensor:
        """One exemplar, of shape (..., bits) and float32, for each of the given classes (int64, any
        shape).
        """
        x = super().exemplars(classes)
        for _ in range(MOST_TRIES):
            scores = self._recognise.scores(x)
            own = scores.gather(-1, classes[..., None])
            mistaken = (
                scores.scatter(-1, classes[..., None], -torch.inf).amax(-1)
                > own[..., 0] - LEAST_LEAD
            )
            if not mistaken.any():
                return x
            x[mistaken] = super().exemplars(classes[mistaken])
        raise ValueError(
            f"exemplars of some class are hardly ever recognised with {self.bits} bits and a depth "
            f"of {self.depth}: "
            "take more bits, or --set recognisable=false"
        )


class HardCoded(nn.Module):
    """Says of an input the sentence of its kind; states are the sentences themselves, as 0/1
    vectors.

    Args:
        language: what may be said.
        recognise: which kind an input is.
        sentences: (M, width) what is said of each kind.
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
    """A group of tokens for every feature, a token for every outcome but "none", which is not said.

    For a tree of six levels: six pairs of tokens, left and right, as in Section *Hierarchical
    binary vectors*. The
    shortest sentence has one token, or none where nothing is known of some input.
    """
    said = feature_sentences(recognise.features, recognise.values)
    groups = tuple(len(_outcomes(f)) for f in recognise.features)
    return Language(groups, min_length=int(said.sum(-1).min().clamp(max=1)))


def feature_sentences(features: Sequence[Feature], values: Tensor) -> Tensor:
    """(M, tokens) for feature values (M, F), the token of every outcome, none where it is "none" or
    missing.
    """
    parts = []
    for f, value in zip(features, values.T, strict=True):
        said = _outcomes(f)
        parts.append((value[:, None] == torch.tensor(said)).float())
    return torch.cat(parts, -1)


def random_sentences(language: Language, values: Tensor) -> Tensor:
    """(M, width) for feature values (M, F), a sentence for each combination of features, all
    different, by chance.

    Uses torch's global random number generator. Raises ValueError where there are fewer sentences
    than combinations.
    """
    distinct, row = combinations(values)
    if language.count < len(distinct):
        raise ValueError(
            f"{len(distinct):,} combinations of features need a sentence each, and the language "
            f"has {language.count:,}"
        )
    return language.sentences[torch.randperm(language.count)[: len(distinct)]][row]


def _outcomes(feature: Feature) -> list[int]:
    """Numbers of the outcomes that have a token."""
    return [k for k, name in enumerate(feature.outcomes) if name != ENDED]
