"""Feature decoders: what can be told of an input's features from a state or from a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from plot_attractors.data import Feature, Labelled
from plot_attractors.measures.bootstrap import Estimate, bootstrap, root
from plot_attractors.model.nn import MLP
from plot_attractors.model.protocols import SentenceModel
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

BATCH = 512
UNITS = 128
LEARNING_RATE = 1e-2
WEIGHT_DECAY = 0.1
LEADING = 4  # levels of a tree that the paper reports


@dataclass(frozen=True)
class DecoderTraining:
    """How long decoders learn: settings that the Config of an analysis inherits."""

    decoder_inputs: Size = setting(8192, "inputs that a decoder is trained on")
    decoder_updates: Size = setting(800, "updates of a decoder")


@dataclass(frozen=True, eq=False)
class Prediction:
    """A decoder's prediction of the features at states of shape (…).

    - ``outputs``: (…, D) log-probabilities of a categorical feature's outcomes, and the mean of a
      continuous one in units of its standard deviation among the decoder's training inputs; D is
      the sum of the features' columns;
    - ``centre``, ``scale``: (F,) mean and standard deviation of continuous features, 0 and 1 for
      categorical ones.
    """

    features: tuple[Feature, ...]
    outputs: Tensor
    centre: Tensor
    scale: Tensor

    @property
    def split(self) -> tuple[Tensor, ...]:
        """The outputs of every feature."""
        return self.outputs.split([f.columns for f in self.features], -1)

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Of every feature, probabilities of its outcomes (…, outcomes), or its mean (…, 1)."""
        return tuple(
            part.exp() if f.categorical else part * self.scale[k] + self.centre[k]
            for k, (f, part) in enumerate(zip(self.features, self.split, strict=True))
        )

    @property
    def points(self) -> Tensor:
        """(…, P) all parts side by side, those of features with `coordinates` as the outcomes' mean
        place (…, axes).
        """
        parts = [
            f.mean_place(part) if f.coordinates else part
            for f, part in zip(self.features, self.parts, strict=True)
        ]
        return torch.cat(parts, -1)

    @property
    def values(self) -> Tensor:
        """(…, F) the likeliest outcome's number, or the mean."""
        values = [
            part.argmax(-1, keepdim=True).to(part.dtype) if f.categorical else part
            for f, part in zip(self.features, self.parts, strict=True)
        ]
        return torch.cat(values, -1)

    def loss(self, values: Tensor) -> Tensor:
        """(…, F) of feature values (…, F), broadcast: −log P(outcome) in nats, or the squared error
        in units of the feature's variance (1 for a constant prediction of the mean); NaN where the
        value is missing.
        """
        losses = []
        for k, (f, part) in enumerate(zip(self.features, self.split, strict=True)):
            value, known = values[..., k : k + 1], ~values[..., k : k + 1].isnan()
            if f.categorical:
                shape = torch.broadcast_shapes(part.shape[:-1], value.shape[:-1])
                index = value.nan_to_num().long().expand(*shape, 1)
                loss = -part.expand(*shape, -1).gather(-1, index)
            else:
                loss = (part - (value.nan_to_num() - self.centre[k]) / self.scale[k]).square()
            losses.append(torch.where(known, loss, torch.nan))
        return torch.cat(losses, -1)

    def score(self, values: Tensor) -> Tensor:
        """(…, F) of feature values (…, F), broadcast: 1 where the likeliest outcome is the true one
        and 0 elsewhere, or the squared error in the feature's own units; NaN where the value is
        missing.
        """
        categorical = torch.tensor([f.categorical for f in self.features], device=values.device)
        right = (self.values == values).to(values.dtype)
        score = torch.where(categorical, right, (self.values - values).square())
        return torch.where(values.isnan(), torch.nan, score)


class FeatureDecoder(nn.Module):
    """P(features | z), independent given z: a perceptron of three layers.

    Called with z (…, d) it returns a `Prediction`; for a sentence, call it with ẑ_s. Source:
    Section *Feature decodability*.
    """

    centre: Tensor
    scale: Tensor

    def __init__(
        self, latent: int, features: Sequence[Feature], centre: Tensor, scale: Tensor
    ) -> None:
        super().__init__()
        self.features = tuple(features)
        self.network = MLP(latent, sum(f.columns for f in self.features), UNITS)
        self.register_buffer("centre", centre)
        self.register_buffer("scale", scale)

    def forward(self, z: Tensor) -> Prediction:
        parts = self.network(z).split([f.columns for f in self.features], -1)
        outputs = [
            part.log_softmax(-1) if f.categorical else part
            for f, part in zip(self.features, parts, strict=True)
        ]
        return Prediction(self.features, torch.cat(outputs, -1), self.centre, self.scale)


def train_decoder(
    z: Tensor, values: Tensor, features: Sequence[Feature], seed: int, updates: int = 800
) -> FeatureDecoder:
    """A decoder that has learned the features' values (n, F) from z (n, d), by maximum likelihood.

    The seed makes its first weights and the order of its batches; the global random state is left
    as it was. Missing values (NaN) are left out of the loss.
    """
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        numbers = torch.tensor([not f.categorical for f in features], device=z.device)
        centre = torch.where(numbers, values.nanmean(0), 0.0)
        variance = (values - centre).square().nanmean(0)
        scale = torch.where(numbers & (variance > 0), variance.sqrt(), 1.0)
        decoder = FeatureDecoder(z.shape[-1], features, centre.nan_to_num(), scale).to(z.device)
        weights = decoder.parameters()
        optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, LEARNING_RATE, total_steps=updates
        )
        for _ in range(updates):
            rows = torch.randint(len(z), (min(BATCH, len(z)),))
            loss = decoder(z[rows]).loss(values[rows]).nansum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return decoder.eval().requires_grad_(False)


Pair = tuple[FeatureDecoder, FeatureDecoder]
_DECODERS: WeakKeyDictionary[Any, dict[tuple[int, int], Pair]] = WeakKeyDictionary()


def feature_decoders(run: Run, training: DecoderTraining) -> Pair:
    """Two decoders of a run's sentences, trained apart: other inputs, descriptions, weights.

    Each learns from training inputs, described once: from the state z_T and from ẑ_s of the
    sentence read there alike. One composes sentences, the other scores them; else a sentence could
    be fitted to the decoder that scores it (Section *Feature-wise composition*). They depend on the
    run's seed alone, and are trained once a run.
    """
    model, data = run.model, run.data
    key = training.decoder_inputs, training.decoder_updates
    trained = _DECODERS.setdefault(run, {})
    if key not in trained:
        pair = []
        for k in (0, 1):
            # a hash, so that it is neither the run's seed nor that of an analysis
            hashed = np.random.SeedSequence([run.seed % 2**64, *b"decoder", k])
            seed = int(hashed.generate_state(1)[0])
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.manual_seed(seed)
                batch = run.data.batch(training.decoder_inputs)
                description = model.describe(batch.x)
                z = torch.cat([description.z, model.embed(description.s)], 1)
                values = data.feature_values(batch)[:, None].expand(-1, z.shape[1], -1)
            z, values = z.flatten(0, 1), values.flatten(0, 1)
            pair.append(train_decoder(z, values, data.features, seed, training.decoder_updates))
        trained[key] = (pair[0], pair[1])
    return trained[key]


def is_described(run: Run) -> bool:
    """Whether the run's model samples sentences, and its data knows features of the inputs."""
    described = isinstance(run.model, SentenceModel) and isinstance(run.data, Labelled)
    return described and bool(run.data.features)


def leading_levels(data: Labelled) -> int:
    """How many levels of a tree, first to last, sum up how well its features are understood: the
    paper's four, or all of fewer; 0 where features have no order.
    """
    first = data.features[:LEADING]
    return len(first) if data.ordered and all(f.categorical for f in first) else 0


def chance(values: Tensor, features: Sequence[Feature]) -> Tensor:
    """(F,) float64 what is reached without a look at the input, among values (n, F): the share of
    the commonest outcome, or the standard deviation, which is the RMSE of the mean; NaN for a
    feature that is never known.
    """
    scores = []
    for f, column in zip(features, values.double().T, strict=True):
        known = column[~column.isnan()]
        if not len(known):
            scores.append(torch.nan)
        elif f.categorical:
            scores.append(float(torch.bincount(known.long()).max()) / len(known))
        else:
            scores.append(float(known.std(correction=0)))
    return torch.tensor(scores, dtype=torch.float64)


def score_rows(
    data: Labelled, score: Tensor, times: Tensor, chance: Tensor
) -> list[dict[str, Any]]:
    """`feature_rows` of a prediction's scores (n, F), with bootstrap weights (resamples, n)."""
    levels = leading_levels(data)
    mean = score[:, :levels].nanmean(1, keepdim=True)
    known = (~score.isnan()).sum(0)
    return feature_rows(data, bootstrap(score, times), bootstrap(mean, times), chance, known)


def feature_rows(
    data: Labelled, estimate: Estimate, mean: Estimate, chance: Tensor, known: Tensor
) -> list[dict[str, Any]]:
    """Rows (feature, kind, value, low, high, chance, n) of features, and of the mean of a tree's
    levels, "mean of 4", where there are any.

    Args:
        estimate: of scores (F,), whose roots are taken of numbers; mean: (1,) of the levels.
        chance: (F,); known: (F,) how many inputs are known.
    """
    levels = leading_levels(data)
    estimate = root(estimate, data.features)
    rows: list[dict[str, Any]] = [
        {"feature": f.name, "kind": "categorical" if f.categorical else "continuous"}
        | {name: float(part[k]) for name, part in estimate._asdict().items()}
        | {"chance": float(chance[k]), "n": int(known[k])}
        for k, f in enumerate(data.features)
    ]
    if levels:
        row: dict[str, Any] = {"feature": f"mean of {levels}", "kind": "categorical"}
        row |= {name: float(part) for name, part in mean._asdict().items()}
        row["chance"] = float(np.mean([r["chance"] for r in rows[:levels]]))
        rows.append(row | {"n": int(known.max())})
    return rows
