"""What the interactive view of trajectories tells of their inputs, states and sentences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors, Vectors
from plot_attractors.data.batch import Batch
from plot_attractors.data.features import Labelled
from plot_attractors.evaluation.sampling import (
    BITS,
    IMAGES,
    decoded_bits,
    first_rows,
    kind_of_inputs,
)
from plot_attractors.evaluation.trajectories import Panel
from plot_attractors.language import Language
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.report.viewer import Bits, Group, Label, Pictures, Sentences, TrajectoryView
from plot_attractors.runs import Run

SHOWN_BITS = 512  # of an input
RANGES = 5  # colours of a continuous feature
NO_COLOUR = "#8c8c8c"  # of a missing value where others have colours of their own


def trajectory_view(
    run: Run,
    panels: Sequence[Panel],
    center: Tensor,
    plane: Tensor,
    in_use: Tensor,
    most_times: int,
) -> TrajectoryView:
    """The trajectories of all panels up to 2T, at `most_times` times up to T and again up to 2T.

    Sentences are drawn from P(s | z_t), and decoded bits are those more likely 1 than 0; images are
    decoded from z0, z_T and the sentence read at T only. States are projected onto `center` (d,)
    and `plane` (d, 2); sentences `in_use` (n, width) are marked.
    """
    model, data = run.model, run.data
    inputs = Batch(*(torch.cat(p) for p in zip(*(panel.inputs for panel in panels), strict=True)))
    half = min(model.steps, most_times)  # T itself is the time number `half`
    times = [round(model.steps * k / half) for k in range(2 * half + 1)]
    z = torch.cat([panel.z[times] for panel in panels], 1)
    z0 = z[0] - model.onset.vector
    read = torch.stack([model.readout(part, z0).sample() for part in z])

    # what is read comes first, so that its rows are small numbers
    s = torch.cat([read.flatten(0, 1), in_use])
    key = model.language.key(s)
    first = first_rows(key)
    sentences, (ordered, rank) = s[first], key[first].sort()
    row = rank[torch.searchsorted(ordered, key[: len(key) - len(in_use)])].view(read.shape[:2])

    bits = bits_of_sentences = None
    embeddings = model.embed(sentences)
    kind = kind_of_inputs(run)
    if kind == BITS:
        shown = slice(0, SHOWN_BITS)
        names = data.columns[shown] if isinstance(data, BinaryTable) else ()
        decoded = decoded_bits(model, z)[..., shown].numpy()
        bits = Bits(inputs.x[:, shown].numpy(), decoded, names)
        bits_of_sentences = decoded_bits(model, embeddings)[..., shown].numpy()

    ends = np.cumsum([len(panel.inputs.x) for panel in panels]).tolist()
    groups = zip(panels, [0, *ends], ends, strict=False)
    points, states = (z - center) @ plane, z.flatten(0, 1)
    along = ((states - states.mean(0)) @ plane).var(0) / states.var(0).sum()
    pictures = None
    if kind == IMAGES:
        pictures = _pictures(model, inputs.x, z0, z[half], read[half])
    return TrajectoryView(
        steps=model.steps,
        times=tuple(times),
        points=points.numpy(),
        shares=(float(along[0]), float(along[1])),
        inputs=tuple(_input_name(data, y) for y in inputs.y.tolist()),
        groups=tuple(Group(panel.title, start, end) for panel, start, end in groups),
        labels=(*_input_labels(data, inputs), *_sentence_labels(model.language, read[half])),
        sentences=Sentences(
            tuple(model.language.name(s) for s in sentences),
            ((embeddings - center) @ plane).numpy(),
            torch.isin(key[first], model.language.key(in_use)).numpy(),
            bits_of_sentences,
        ),
        read=row.numpy(),
        bits=bits,
        pictures=pictures,
    )


def _pictures(model: AttractorModel, x: Tensor, start: Tensor, end: Tensor, s: Tensor) -> Pictures:
    """Inputs x (N, channels, side, side), and what is decoded from z0, z_T (N, d) and sentences s
    (N, width).
    """
    decoded = [model.decoder(z).mean for z in (start, end, model.embed(s))]
    images = torch.stack([x, *decoded], 1).expand(-1, -1, 3, -1, -1).numpy()
    names = "the input", "decoded from z0", "decoded at T", "decoded from the sentence read at T"
    return Pictures(names, images)


def _input_name(data: object, y: int) -> str:
    if isinstance(data, HierarchicalBinaryVectors):
        return f"class {data.class_names[y]}"
    if isinstance(data, BinaryTable | Vectors) and data.row_names:
        return data.row_names[y]
    return f"row {y}"


def _input_labels(data: object, inputs: Batch) -> list[Label]:
    """The class in the tree, and every feature of the data set."""
    labels = []
    if isinstance(data, HierarchicalBinaryVectors):
        labels.append(_label("class", "input", [data.class_names[y] for y in inputs.y.tolist()]))
    if isinstance(data, Labelled):
        for feature, column in zip(data.features, data.feature_values(inputs).T, strict=True):
            names, codes = feature.outcomes, column
            if not feature.categorical:
                names, codes = ranges(column)
            texts = ["missing" if code != code else names[int(code)] for code in codes.tolist()]
            label = _label(feature.name, "input", texts)
            if own := dict(zip(feature.outcomes, feature.colours, strict=False)):
                colours = tuple(own.get(value, NO_COLOUR) for value in label.values)
                label = label._replace(colours=colours)
            labels.append(label)
    return labels


def ranges(column: Tensor) -> tuple[tuple[str, ...], Tensor]:
    """Names of equally wide ranges of a continuous feature, and the range (n,) of each value (n,),
    NaN where it is missing.
    """
    known = column[~column.isnan()]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    edges = itertools.pairwise(np.linspace(low, high, RANGES + 1))
    codes = ((column - low) / max(high - low, 1e-12) * RANGES).floor().clamp(max=RANGES - 1)
    return tuple(f"{a:.3g} to {b:.3g}" for a, b in edges), codes


def _sentence_labels(language: Language, s: Tensor) -> list[Label]:
    """The sentence, and for each group of tokens that exclude each other the one that it holds."""
    labels = [_label("sentence", "sentence", [language.name(row) for row in s])]
    held = language.bag(s)
    for group in range(len(language.groups)):
        tokens = torch.nonzero(language.token_group == group).flatten().tolist()
        names = {token: language.token_name(token) for token in tokens}
        texts = [next((names[j] for j in tokens if row[j]), "none") for row in held]
        first, *_, last = [*names.values()] * 2
        short = " or ".join(names.values()) if len(names) < 4 else f"{first} to {last}"
        labels.append(_label(f"token {short}", "sentence", texts))
    return labels


def _label(name: str, of: Literal["input", "sentence"], texts: list[str]) -> Label:
    values = tuple(sorted(set(texts)))
    return Label(name, of, values, np.array([values.index(text) for text in texts]))
