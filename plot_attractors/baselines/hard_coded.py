"""Languages that are not learned: fully compositional, and not compositional at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from plot_attractors.data import BinaryTable, Feature, HierarchicalBinaryVectors
from plot_attractors.language import Language
from plot_attractors.metrics.composition import combinations
from plot_attractors.speaker import Description

__all__ = [
    "HardCoded",
    "RecognisableVectors",
    "Recogniser",
    "feature_language",
    "feature_sentences",
    "random_sentences",
    "recogniser",
]

ENDED = "none"  # outcome of a tree's levels below an input's own: it is not said
MOST_TRIES = 10_000  # exemplars drawn for one that is recognised
LEAST_LEAD = 1e-3  # nats by which its class is likelier than any other: not a tie that rounding decides


class Recogniser(NamedTuple):
    """The M kinds of inputs that a data set knows, and how an input is told to be of one: the highest score.

    - ``weight`` (bits, M), ``bias`` (M,): scores of an input x are x · weight + bias;
    - ``values``: (M, F) the features of each kind, NaN where one is missing.
    """

    weight: Tensor
    bias: Tensor
    values: Tensor

    def scores(self, x: Tensor) -> Tensor:
        """(…, M) of inputs x (…, bits)."""
        return x @ self.weight + self.bias

    def __call__(self, x: Tensor) -> Tensor:
        """(…) int64, the kind of inputs x (…, bits)."""
        return self.scores(x).argmax(-1)


def recogniser(data: HierarchicalBinaryVectors | BinaryTable) -> Recogniser:
    """Of a tree: its nodes, by Bayes' rule, all being equally likely. Of a table: its rows, by the bits that agree.

    Rows that are alike in all bits are taken for the first of them, whatever their labels.

    Raises ValueError where features of inputs are unknown, or numbers.
    """
    if not data.features:
        raise ValueError(
            "a hard-coded language says the features of inputs, and the data has no labels: name label columns with "
            "--set labels=..."
        )
    number = next((f.name for f in data.features if not f.categorical), None)
    if number is not None:
        raise ValueError(f"a hard-coded language has a token for each outcome of a feature, and {number} is a number")
    if isinstance(data, HierarchicalBinaryVectors):
        p = data.probabilities
        return Recogniser((p.log() - (-p).log1p()).T, (-p).log1p().sum(-1), (data.paths + 1).float())
    x = data.x.float()
    values = torch.where(data.labels >= 0, data.labels.float(), torch.nan)
    return Recogniser(2 * x.T - 1, -x.sum(-1), values)


class RecognisableVectors(HierarchicalBinaryVectors):
    """Hierarchical binary vectors of which only those exemplars are drawn that Bayes' rule takes for their own class.

    The paper's hard-coded baselines are told the class, so that no two classes share a sentence. Speakers here see the
    input alone, as all others do; with these exemplars they know its class without a mistake, and the law of
    sentences and features is that of the paper's.
    """

    def __init__(self, depth: int = 6, bits: int = 128, hold_out: bool = True, hold_out_seed: int = 0) -> None:
        super().__init__(depth, bits, hold_out, hold_out_seed)
        self._recognise = recogniser(self)

    def exemplars(self, classes: Tensor) -> Tensor:
        """One exemplar, of shape (..., bits) and float32, for each of the given classes (int64, any shape)."""
        x = super().exemplars(classes)
        for _ in range(MOST_TRIES):
            scores = self._recognise.scores(x)
            own = scores.gather(-1, classes[..., None])
            mistaken = scores.scatter(-1, classes[..., None], -torch.inf).amax(-1) > own[..., 0] - LEAST_LEAD
            if not mistaken.any():
                return x
            x[mistaken] = super().exemplars(classes[mistaken])
        raise ValueError(
            f"exemplars of some class are hardly ever recognised with {self.bits} bits and a depth of {self.depth}: "
            "take more bits, or --set recognisable=false"
        )


class HardCoded(nn.Module):
    """Says of an input the sentence of its kind; states are the sentences themselves, as 0/1 vectors.

    Args:
        language: what may be said.
        recognise: which kind an input is.
        sentences: (M, width) what is said of each kind.
    """

    weight: Tensor
    bias: Tensor
    values: Tensor
    sentences: Tensor

    def __init__(self, language: Language, recognise: Recogniser, sentences: Tensor) -> None:
        super().__init__()
        self.language, self.latent = language, language.width
        for name, part in recognise._asdict().items():
            self.register_buffer(name, part)
        self.register_buffer("sentences", sentences)

    def describe(self, x: Tensor, draws: int = 1) -> Description:
        """The one sentence of each of the inputs x (B, bits), `draws` times."""
        kind = Recogniser(self.weight, self.bias, self.values)(x)
        s = self.sentences[kind][:, None].expand(-1, draws, -1)
        return Description(self.embed(s), s)

    def embed(self, s: Tensor) -> Tensor:
        """The sentences s (…, width) themselves."""
        return s


def feature_language(data: HierarchicalBinaryVectors | BinaryTable) -> Language:
    """A group of tokens for every feature, a token for every outcome but "none", which is not said.

    For a tree of six levels: six pairs of tokens, left and right, as in Section *Hierarchical binary vectors*. The
    shortest sentence has one token, or none where nothing is known of some input.
    """
    said = feature_sentences(data.features, recogniser(data).values)
    return Language(
        tuple(len(_outcomes(f)) for f in data.features), min_length=int(said.sum(-1).min().clamp(max=1))
    )


def feature_sentences(features: Sequence[Feature], values: Tensor) -> Tensor:
    """(M, tokens) for feature values (M, F), the token of every outcome, none where it is "none" or missing."""
    parts = []
    for f, value in zip(features, values.T, strict=True):
        said = _outcomes(f)
        parts.append((value[:, None] == torch.tensor(said)).float())
    return torch.cat(parts, -1)


def random_sentences(language: Language, values: Tensor) -> Tensor:
    """(M, width) for feature values (M, F), a sentence for each combination of features, all different, by chance.

    Uses torch's global random number generator. Raises ValueError where there are fewer sentences than combinations.
    """
    distinct, row = combinations(values)
    if language.count < len(distinct):
        raise ValueError(
            f"{len(distinct):,} combinations of features need a sentence each, and the language has {language.count:,}"
        )
    return language.sentences[torch.randperm(language.count)[: len(distinct)]][row]


def _outcomes(feature: Feature) -> list[int]:
    """Numbers of the outcomes that have a token."""
    return [k for k, name in enumerate(feature.outcomes) if name != ENDED]
