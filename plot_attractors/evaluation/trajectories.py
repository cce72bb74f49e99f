"""Trajectories of latent states from classes of inputs, and the plane that they are drawn in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.data.batch import Batch
from plot_attractors.data.features import Feature, Labelled
from plot_attractors.evaluation.metrics.attractors import arrival, last_change
from plot_attractors.evaluation.sampling import (
    LENGTHS,
    exact_draws,
    first_rows,
    is_listed,
    nearest_sentence,
    number_sentences,
    sentences_in_use,
    shows_bits,
)
from plot_attractors.model.attractor import ROWS, AttractorModel, Encoding
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

ENTROPY_DRAWS = 256  # sentences of P(s | x) that its entropy is the mean of
# inputs, or images, which are larger, drawn for each exemplar
CHOSEN_AMONG, IMAGES_CHOSEN_AMONG = 100, 20


class Exemplars(NamedTuple):
    """Inputs, the number (n,) of each one's class, and names and own colours of the classes, if
    they have any.
    """

    inputs: Batch
    classes: Tensor
    names: tuple[str, ...] = ()
    colours: tuple[str, ...] = ()


class Panel(NamedTuple):
    """Trajectories z (5T + 1, B, d) of inputs."""

    title: str
    inputs: Batch
    z: Tensor

    @classmethod
    def of(cls, model: AttractorModel, title: str, inputs: Batch) -> Panel:
        """A trajectory of each input."""
        z0 = model.encode(inputs.x).z0
        return cls(title, inputs, model.trajectories(z0, LENGTHS[-1] * model.steps))


def split_panels(run: Run, train: int, held_out: int) -> list[Panel]:
    """Trajectories of so many training inputs, and of inputs of each other split."""
    panels = []
    for split in run.data.splits:
        if not (n := train if split == "train" else held_out):
            continue
        inputs = run.data.batch(n, split)
        title = f"{len(inputs.x)} {split_name(split)}"
        panels.append(Panel.of(run.model, title, inputs))
    return panels


def exemplars(run: Run, most: int, each: int) -> Exemplars:
    """`each` exemplars of up to `most` classes, the commonest.

    Classes are nodes of the tree, outcomes of the first categorical feature of images, or values of
    the first label of a table; they are rows where there is none or none is known.
    """
    data = run.data
    if isinstance(data, HierarchicalBinaryVectors):
        # all of one generation where it is large enough, spread from left to right
        depths = data.depths[data.train_classes]
        enough = [d for d in range(1, data.depth + 1) if int((depths == d).sum()) >= most]
        nodes = data.train_classes[depths == (enough[0] if enough else data.depth)]
        chosen = nodes[torch.linspace(0, len(nodes) - 1, min(most, len(nodes))).round().long()]
        y = chosen.repeat_interleave(each)
        classes = torch.arange(len(chosen)).repeat_interleave(each)
        return Exemplars(Batch(data.exemplars(y), y, data.paths[y]), classes)
    bits = shows_bits(run)
    batch = data.batch((CHOSEN_AMONG if bits else IMAGES_CHOSEN_AMONG) * most * each)
    labels, feature = (batch.labels[:, :1], None) if bits else _first_categorical(data, batch)
    labelled = bool((labels >= 0).any())  # not where the first label is missing everywhere
    classes = labels[:, 0] if labelled else batch.y
    values, counts = classes[classes >= 0].unique(return_counts=True)
    chosen = values[counts.argsort(descending=True)[:most]]
    names: tuple[str, ...] = ()
    colours: tuple[str, ...] = ()
    if feature is not None and labelled:
        chosen = chosen.sort().values
        names = tuple(feature.outcomes[k] for k in chosen.tolist())
        colours = tuple(feature.colours[k] for k in chosen.tolist() if feature.colours)
    rows = [torch.nonzero(classes == value).flatten()[:each] for value in chosen]
    number = torch.cat([torch.full((len(of),), k) for k, of in enumerate(rows)])
    return Exemplars(Batch(*(part[torch.cat(rows)] for part in batch)), number, names, colours)


def _first_categorical(data: object, batch: Batch) -> tuple[Tensor, Feature | None]:
    """(n, 1) outcomes of the first categorical feature, -1 where missing, and the feature; (n, 0)
    and None if there is none.
    """
    if isinstance(data, Labelled):
        for k, feature in enumerate(data.features):
            if feature.categorical:
                return data.feature_values(batch)[:, k : k + 1].nan_to_num(-1).long(), feature
    return torch.empty(len(batch.x), 0, dtype=torch.int64), None


def sentences_shown(run: Run, panels: Sequence[Panel], inputs: int) -> Tensor:
    """(n, width) the sentences in use for so many inputs; where they are too many to list, those
    nearest to the panels' states at T.
    """
    model = run.model
    if is_listed(model):
        return model.sentences[sentences_in_use(model, run.data.batch(inputs).x)]
    s = nearest_sentence(model, torch.cat([panel.z[model.steps] for panel in panels])).s
    return s[first_rows(model.language.key(s))]


def project(
    panels: Sequence[Panel], embeddings: Tensor, center: Tensor, plane: Tensor
) -> dict[str, Any]:
    """Places in a plane (d, 2) of the states of panels A, B, … up to T and of ``embeddings``
    (n, d), and the panels' ``titles``.
    """
    points = {"embeddings": embeddings}
    for name, panel in zip("AB", panels, strict=True):
        points[name] = panel.z[: len(panel.z) // LENGTHS[-1] + 1]
    titles = np.array([panel.title for panel in panels])
    return {name: ((z - center) @ plane).numpy() for name, z in points.items()} | {"titles": titles}


def distances(model: AttractorModel, panels: Sequence[Panel], plane: Tensor) -> pd.DataFrame:
    """A row for each panel, A, B, …, and time: median and quartiles over trajectories of the
    distance to the nearest ẑ, and the shares ``variance1`` and ``variance2`` of the variance of its
    states up to T along the directions of a plane (d, 2).
    """
    tables = []
    for name, panel in zip("AB", panels, strict=True):
        z = panel.z[: model.steps + 1].flatten(0, 1)
        along = ((z - z.mean(0)) @ plane).var(0) / z.var(0).sum()
        distance = nearest_sentence(model, panel.z).distance
        median, low, high = distance.quantile(torch.tensor([0.5, 0.25, 0.75]), 1).tolist()
        levels = {"panel": name, "t": range(len(low)), "distance": median, "low": low, "high": high}
        shares = {"variance1": float(along[0]), "variance2": float(along[1])}
        tables.append(pd.DataFrame(levels | shares))
    return pd.concat(tables, ignore_index=True)


def settling_times(model: AttractorModel, z: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) last change of the nearest sentence, and arrival within 2 ε√d of an embedding, of
    trajectories z (T + 1, n, d) (`last_change`, `arrival`).
    """
    near = nearest_sentence(model, z)
    radius = 2 * model.epsilon * model.latent**0.5
    change = last_change(number_sentences(model, near.s))
    return change.float(), arrival(near.distance, radius).float()


def sentence_entropy(model: AttractorModel, q: Normal) -> Tensor:
    """(B,) entropy of P(s | x), nats, of inputs q (B, d): log Z less the mean of log R over exact
    draws.
    """
    exact = exact_draws(model, q, ENTROPY_DRAWS)
    log_r = model.reward(Normal(q.loc[:, None], q.scale[:, None]), None, exact.s)
    return exact.log_z - log_r.double().mean(1)


def settling(model: AttractorModel, e: Encoding, draws: int) -> pd.DataFrame:
    """A row for each of the inputs e: medians over `draws` trajectories of T steps of
    ``last_change``, the time at which the nearest sentence changes last, and ``arrival``, the time
    from which the state is within 2 ε√d of an embedding for good, T + 1 for never; quartiles of
    the first; and the ``entropy`` of the exact P(s | x), nats.
    """
    parts = e.z0.repeat_interleave(draws, 0).split(ROWS)
    z = torch.cat([model.trajectories(z0) for z0 in parts], 1)
    change, arrived = (of.unflatten(0, (-1, draws)) for of in settling_times(model, z))
    entropy = sentence_entropy(model, e.distribution)
    middle, low, high = change.quantile(torch.tensor([0.5, 0.25, 0.75]), 1)
    columns = {
        "last_change": middle, "last_change_q1": low, "last_change_q3": high,
        "arrival": arrived.quantile(0.5, 1), "entropy": entropy,
    }  # fmt: skip
    return pd.DataFrame({name: of.tolist() for name, of in columns.items()})


def exact_distances(model: AttractorModel, embeddings: Tensor, draws: int) -> Tensor:
    """(draws,) distances to the nearest embedding of states N(ẑ_s, ε²), s uniform among listed
    sentences or those of `embeddings` (n, d).
    """
    among = model.embeddings() if is_listed(model) else embeddings
    z = among[torch.randint(len(among), (draws,))]
    return nearest_sentence(model, z + model.epsilon * torch.randn_like(z)).distance
