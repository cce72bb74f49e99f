"""Trajectories of latent states in their principal plane: many classes, one exemplar, an
interactive view.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.animation import PillowWriter
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.data.batch import Batch
from plot_attractors.data.features import Feature, Labelled
from plot_attractors.evaluation.sampling import (
    LENGTHS,
    is_listed,
    nearest_sentence,
    require_attractors,
    sentences_in_use,
    shows_bits,
)
from plot_attractors.language import Language
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.style import (
    BLUE,
    CLASS_COLOURS,
    CRIMSON,
    GREY,
    PURPLE,
    SPLIT_NAMES,
    own_colours,
    plain,
    save,
    style,
)
from plot_attractors.report.viewer import Bits, Group, Label, Pictures, Sentences, TrajectoryView

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Trajectories"
CAPTIONS = {
    "trajectories": (
        "Latent states from the initial one to the last, projected onto the first two principal "
        "components. (A) "
        "Five exemplars of each of up to ten classes, a trajectory each, coloured by class. (B) "
        "Many trajectories from "
        "one exemplar, enlarged: the dynamics are stochastic, so that one input is described by "
        "several sentences. "
        "Black: initial states z0; blue: states after T steps; red: embeddings of the sentences in "
        "use, or, of "
        "sentences too many to list, of those nearest to the states after T steps. (C) "
        "Distance of the states of (A) and (B) to the nearest embedding over five times T steps, "
        "median and middle "
        "half; the dotted line is the distance that exact samples have."
    ),
    "settling": "The trajectories of panel A, step by step up to twice T; red dots are the embeddings of that panel.",
    "view": (
        "The plane of the figure below, to explore. Each dot is a latent state at the step of the "
        "slider, its tail the "
        "steps before; red dots are embeddings of sentences in use, or, of sentences too many to "
        "list, of those "
        "nearest to the states at T. Move the slider from 0 to T: states leave their "
        "inputs, gather at embeddings, and stay there beyond T. Colour by a label of the input, or "
        "by the sentence "
        "that is read at T: states of one sentence end at one place, and one input ends at "
        "several. Point at a state, "
        "tap it, or focus the picture and press the arrow keys, for its input, the sentence that "
        "is read there, and "
        "what the decoder makes of the state and of the sentence; images are decoded from z0 and "
        "at T only."
    ),
}

CLASSES, EXEMPLARS = 10, 5
DRAWS = 50  # trajectories of the one exemplar
USE_INPUTS = 512  # inputs that tell which sentences are in use
FLOOR = 2000  # exact end states, whose distance is drawn beside that of the sampler's
TRAIL = 6  # steps that a point of the animation leaves behind it
FRAMES_A_SECOND = 8
HOLD = 8  # times that the last frame is shown
CHOSEN_AMONG, IMAGES_CHOSEN_AMONG = (
    100,
    20,
)  # inputs, or images, which are larger, drawn for each exemplar
VIEWED, VIEWED_HELD_OUT = (
    160,
    80,
)  # inputs of training, and of each other split, in the interactive view
MOST_TIMES = 30  # of the interactive view up to T, and again up to 2T
SHOWN_BITS = 512  # of an input in the interactive view
RANGES = 5  # colours of a continuous feature


class Panel(NamedTuple):
    """Trajectories z (steps + 1, B, d) of inputs, what the dynamics see of these, the colour of
    each, and the names of classes by their colours, if known.
    """

    title: str
    inputs: Batch
    z: Tensor
    context: Tensor
    colours: list[str]
    classes: dict[str, str]


def applies(run: Run) -> bool:
    """Whether the run's model has attractors in two or more dimensions."""
    return isinstance(run.model, AttractorModel) and run.model.latent >= 2


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, the figure ``trajectories``, the animation ``settling.gif`` and, for
    the interactive view of a report, ``trajectories.json`` into ``out``.

    ``summary.csv`` (panel, t, distance, low, high, variance1, variance2): median and quartiles over
    trajectories of the distance to the nearest ẑ at time t, and the shares of the variance of the
    panel's states up to T in the first two components, which are fitted to the states of both
    panels up to T and to the embeddings in use. Of sentences too many to list, those stand for the
    sentences in use that are nearest to the panels' states at T, and a beam search finds the
    nearest, or one nearly as near. The view holds the trajectories of both panels and of inputs of
    each split up to 2T, see `TrajectoryView`; sentences are drawn from P(s | z_t), and decoded bits
    are those more likely 1 than 0; images are decoded from z0, z_T and the sentence read at T only.
    Raises ValueError for other models than the attractor model, and for one latent dimension, which
    has no plane. Source: the paper's figure of trajectories.
    """
    model = require_attractors(run.model)
    if model.latent < 2:
        raise ValueError(
            "the latent space has 1 dimension, and a plane needs two: leave this analysis out"
        )
    many, colours, classes = _exemplars(run)
    one = Batch(*(part[[len(many.x) // 2] * DRAWS] for part in many))
    panels = [
        _simulate(
            model, f"{len(many.x)} exemplars of {len(set(colours))} classes", many, colours, classes
        ),
        _simulate(model, f"One exemplar, {DRAWS} trajectories", one, [GREY] * DRAWS),
    ]
    in_use = _in_use(run, panels)
    embeddings = model.embed(in_use)
    states = [panel.z[: model.steps + 1].flatten(0, 1) for panel in panels]
    center, plane = _principal_plane(torch.cat([*states, embeddings]))

    rows = []
    for name, panel, state in zip("AB", panels, states, strict=True):
        along = ((state - state.mean(0)) @ plane).var(0) / state.var(0).sum()
        quartiles = (
            nearest_sentence(model, panel.z).distance.quantile(torch.tensor([0.25, 0.5, 0.75]), 1).T
        )
        for t, (low, median, high) in enumerate(quartiles.tolist()):
            rows.append((name, t, median, low, high, float(along[0]), float(along[1])))
    table = pd.DataFrame(
        rows, columns=["panel", "t", "distance", "low", "high", "variance1", "variance2"]
    )
    table.to_csv(out / "summary.csv", index=False)

    flat = [panel._replace(z=(panel.z - center) @ plane) for panel in panels]
    points = ((embeddings - center) @ plane).numpy()
    said = model.embeddings() if is_listed(model) else embeddings
    noise = said[torch.randint(len(said), (FLOOR,))]
    floor = float(
        nearest_sentence(model, noise + model.epsilon * torch.randn_like(noise)).distance.median()
    )
    with style():
        save(_draw(flat, points, table, model.steps, floor), out / "trajectories")
        _animate(flat[0], points, model.steps, out / "settling.gif")
    for split in run.data.splits:
        inputs = run.data.batch(VIEWED if split == "train" else VIEWED_HELD_OUT, split)
        panels.append(_simulate(model, f"{len(inputs.x)} {SPLIT_NAMES.get(split, split)}", inputs))
    if not is_listed(model):
        in_use = _in_use(run, panels)
    _view(run, panels, center, plane, in_use).save(out)


def _in_use(run: Run, panels: list[Panel]) -> Tensor:
    """(n, width) the sentences in use; where they are too many to list, those nearest to the
    panels' states at T.
    """
    model = run.model
    if is_listed(model):
        return model.sentences[sentences_in_use(model, run.data.batch(USE_INPUTS).x)]
    s = nearest_sentence(model, torch.cat([panel.z[model.steps] for panel in panels])).s
    return s[_first(model.language.key(s))]


def _first(key: Tensor) -> Tensor:
    """The numbers of the rows that are the first of their key (n,), in increasing order."""
    different, row = key.unique(return_inverse=True)
    return (
        torch.full((len(different),), len(key))
        .scatter_reduce(0, row, torch.arange(len(key)), "amin")
        .sort()
        .values
    )


def _exemplars(run: Run) -> tuple[Batch, list[str], dict[str, str]]:
    """Exemplars, a colour for each one's class, and names of the classes by their colours, of
    images.

    Classes are nodes of the tree, outcomes of the first categorical feature of images, or values of
    the first label of a table; they are rows where there is none or none is known.
    """
    data = run.data
    if isinstance(data, HierarchicalBinaryVectors):
        # all of one generation where it is large enough, spread from left to right
        depths = data.depths[data.train_classes]
        enough = [d for d in range(1, data.depth + 1) if int((depths == d).sum()) >= CLASSES]
        nodes = data.train_classes[depths == (enough[0] if enough else data.depth)]
        chosen = nodes[torch.linspace(0, len(nodes) - 1, min(CLASSES, len(nodes))).round().long()]
        y = chosen.repeat_interleave(EXEMPLARS)
        exemplars = Batch(data.exemplars(y), y, data.paths[y])
        colours = [
            CLASS_COLOURS[k % len(CLASS_COLOURS)]
            for k in range(len(chosen))
            for _ in range(EXEMPLARS)
        ]
        return exemplars, colours, {}
    bits = shows_bits(data)
    batch = data.batch((CHOSEN_AMONG if bits else IMAGES_CHOSEN_AMONG) * CLASSES * EXEMPLARS)
    labels, feature = batch.labels[:, :1], None
    if not bits:
        labels, feature = _first_categorical(data, batch)
    labelled = bool((labels >= 0).any())  # not where the first label is missing everywhere
    classes = labels[:, 0] if labelled else batch.y
    names, counts = classes[classes >= 0].unique(return_counts=True)
    chosen = names[counts.argsort(descending=True)[:CLASSES]]
    palette, named = list(CLASS_COLOURS), {}
    if feature is not None and labelled:
        chosen = chosen.sort().values
        if own := own_colours(feature):
            palette = [own[k] for k in chosen.tolist()]
        named = {
            colour: feature.outcomes[k] for colour, k in zip(palette, chosen.tolist(), strict=False)
        }
    rows = [torch.nonzero(classes == name).flatten()[:EXEMPLARS] for name in chosen]
    colours = [palette[k] for k, of in enumerate(rows) for _ in of]
    return Batch(*(part[torch.cat(rows)] for part in batch)), colours, named


def _first_categorical(data: object, batch: Batch) -> tuple[Tensor, Feature | None]:
    """(n, 1) outcomes of the first categorical feature, -1 where missing, and the feature; (n, 0)
    and None if there is none.
    """
    if isinstance(data, Labelled):
        for k, feature in enumerate(data.features):
            if feature.categorical:
                return data.feature_values(batch)[:, k : k + 1].nan_to_num(-1).long(), feature
    return torch.empty(len(batch.x), 0, dtype=torch.int64), None


def _simulate(
    model: AttractorModel,
    title: str,
    inputs: Batch,
    colours: list[str] | None = None,
    classes: dict[str, str] | None = None,
) -> Panel:
    encoding = model.encode(inputs.x)
    z = model.trajectories(encoding.z0, LENGTHS[-1] * model.steps, encoding.context)
    return Panel(
        title, inputs, z, encoding.context, colours or [GREY] * len(inputs.x), classes or {}
    )


def _principal_plane(points: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (d,) and the two directions (d, 2) of greatest variance of points (n, d), their largest
    entries positive.
    """
    center = points.mean(0)
    directions = torch.linalg.svd(points - center, full_matrices=False).Vh[:2].T
    largest = directions.gather(0, directions.abs().argmax(0, keepdim=True))
    return center, directions * largest.sign()


def _draw(
    panels: list[Panel], points: np.ndarray, table: pd.DataFrame, steps: int, floor: float
) -> Figure:
    figure = Figure(figsize=(12, 8.2), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1.9, 1])
    for column, (name, panel) in enumerate(zip("AB", panels, strict=True)):
        axes = figure.add_subplot(grid[0, column])
        z = panel.z[: steps + 1].numpy()
        size, alpha, order = (7, 0.45, 1) if name == "A" else (16, 0.8, 3)
        axes.scatter(
            points[:, 0],
            points[:, 1],
            s=size,
            color=CRIMSON,
            alpha=alpha,
            linewidths=0,
            zorder=order,
        )
        lines = LineCollection(
            list(z.transpose(1, 0, 2)), colors=panel.colours, linewidths=0.8, alpha=0.8, zorder=2
        )
        axes.add_collection(lines, autolim=False)
        axes.scatter(
            z[-1, :, 0], z[-1, :, 1], s=20, color=BLUE, edgecolors="white", linewidths=0.4, zorder=3
        )
        axes.scatter(
            z[0, :, 0],
            z[0, :, 1],
            s=20,
            color="black",
            edgecolors="white",
            linewidths=0.4,
            zorder=4,
        )
        shares = table[table["panel"] == name].iloc[0]
        axes.set_title(f"{name}  {panel.title}")
        axes.set_xlabel(f"first component ({shares['variance1']:.0%} of these states' variance)")
        axes.set_ylabel(f"second component ({shares['variance2']:.0%})")
        low, high = _bounds(
            panel, points if name == "A" else points[:0], steps
        )  # B is a part of A, enlarged
        axes.set_xlim(low[0], high[0])
        axes.set_ylim(low[1], high[1])
        classes = [
            Line2D([], [], color=colour, label=plain(text, 16))
            for colour, text in panel.classes.items()
        ]
        if classes:
            axes.legend(
                handles=classes, fontsize=8, handlelength=1, borderpad=0.2, labelspacing=0.3
            )
    axes = figure.add_subplot(grid[1, :])
    for name, colour in (("A", BLUE), ("B", PURPLE)):
        part = table[table["panel"] == name]
        axes.fill_between(
            part["t"], part["low"], part["high"], color=colour, alpha=0.2, linewidth=0
        )
        axes.plot(part["t"], part["distance"], color=colour, label=f"states of panel {name}")
    axes.axhline(floor, color="black", linestyle=":", label="exact samples, N(ẑ, ε²)")
    axes.axvline(steps, color=GREY, linewidth=0.8)
    axes.set_ylim(0, 1.12 * axes.get_ylim()[1])  # room for the legend
    axes.text(steps, axes.get_ylim()[1], " T", va="top", color=GREY)
    axes.set_xlim(0, table["t"].max())
    axes.set_title("C  Distance to the nearest embedding")
    axes.set_xlabel("step t")
    axes.set_ylabel("median distance")
    axes.legend(ncols=3, loc="upper right")
    figure.legend(handles=_handles(), loc="outside upper center", ncols=4)
    return figure


def _handles() -> list[Line2D]:
    def dot(colour: str, label: str) -> Line2D:
        return Line2D([], [], color=colour, marker="o", markersize=5, linestyle="", label=label)

    return [
        dot("black", "initial state z0"),
        Line2D([], [], color=GREY, linewidth=1, label="trajectory"),
        dot(BLUE, "state after T steps"),
        dot(CRIMSON, "embedding ẑ of a sentence in use"),
    ]


def _bounds(panel: Panel, points: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    everything = np.concatenate([panel.z[: steps + 1].flatten(0, 1).numpy(), points])
    margin = 0.04 * np.ptp(everything, axis=0)
    return everything.min(0) - margin, everything.max(0) + margin


def _animate(panel: Panel, points: np.ndarray, steps: int, path: Path) -> None:
    """States of a panel up to 2T with a fading trail, one frame a step."""
    z = panel.z[: 2 * steps + 1].numpy().transpose(1, 0, 2)
    figure = Figure(figsize=(5, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.scatter(points[:, 0], points[:, 1], s=5, color=CRIMSON, alpha=0.45, linewidths=0)
    low, high = _bounds(panel, points, 2 * steps)
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_xlabel("first principal component")
    axes.set_ylabel("second principal component")
    trails = LineCollection([], linewidths=1, alpha=0.6)
    axes.add_collection(trails, autolim=False)
    dots = axes.scatter(
        z[:, 0, 0], z[:, 0, 1], s=24, c=panel.colours, edgecolors="white", linewidths=0.5, zorder=3
    )
    writer = PillowWriter(fps=FRAMES_A_SECOND)
    with writer.saving(figure, str(path), dpi=90):
        for t in [*range(2 * steps + 1), *[2 * steps] * HOLD]:
            trails.set_segments(list(z[:, max(0, t - TRAIL) : t + 1]))
            trails.set_color(panel.colours)
            dots.set_offsets(z[:, t])
            axes.set_title(
                f"step {t} of T = {steps}" if t <= steps else f"step {t}, {t - steps} after T"
            )
            writer.grab_frame()


# The interactive view.


def _view(
    run: Run, panels: list[Panel], center: Tensor, plane: Tensor, in_use: Tensor
) -> TrajectoryView:
    """The trajectories of all panels up to 2T, with what is known of their inputs and read at their
    states.
    """
    model, data = run.model, run.data
    inputs = Batch(
        *(torch.cat([getattr(panel.inputs, name) for panel in panels]) for name in Batch._fields)
    )
    half = min(model.steps, MOST_TIMES)  # T itself is the time number `half`
    times = [round(model.steps * k / half) for k in range(2 * half + 1)]
    z = torch.cat([panel.z[times] for panel in panels], 1)
    context = torch.cat([panel.context for panel in panels])
    read = torch.stack([model.sentence_given_state(part, context).sample() for part in z])

    # what is read comes first, so that its rows are small numbers
    s = torch.cat([read.flatten(0, 1), in_use])
    key = model.language.key(s)
    first = _first(key)
    sentences, (ordered, rank) = s[first], key[first].sort()
    row = rank[torch.searchsorted(ordered, key[: len(key) - len(in_use)])].view(read.shape[:2])

    bits = decoded_sentences = None
    if inputs.x.dim() == 2 and bool(((inputs.x == 0) | (inputs.x == 1)).all()):
        shown = slice(0, SHOWN_BITS)
        bits = Bits(inputs.x[:, shown].numpy(), (model.decoder(z).logits[..., shown] > 0).numpy())
        decoded_sentences = (model.decoder(model.embed(sentences)).logits[..., shown] > 0).numpy()

    ends = np.cumsum([len(panel.inputs.x) for panel in panels]).tolist()
    points, states = (z - center) @ plane, z.flatten(0, 1)
    along = ((states - states.mean(0)) @ plane).var(0) / states.var(0).sum()
    return TrajectoryView(
        steps=model.steps,
        times=tuple(times),
        points=points.numpy(),
        shares=(float(along[0]), float(along[1])),
        inputs=tuple(_input_name(data, y) for y in inputs.y.tolist()),
        groups=tuple(
            Group(p.title, end - len(p.inputs.x), end) for p, end in zip(panels, ends, strict=True)
        ),
        labels=(*_input_labels(data, inputs), *_sentence_labels(model.language, read[half])),
        sentences=Sentences(
            tuple(model.language.name(s) for s in sentences),
            ((model.embed(sentences) - center) @ plane).numpy(),
            torch.isin(key[first], model.language.key(in_use)).numpy(),
            decoded_sentences,
        ),
        read=row.numpy(),
        bits=bits,
        pictures=None
        if shows_bits(data)
        else _pictures(model, inputs.x, z[0], z[half], read[half]),
    )


def _pictures(model: AttractorModel, x: Tensor, start: Tensor, end: Tensor, s: Tensor) -> Pictures:
    """Inputs x (N, channels, side, side), and what is decoded from z0, z_T (N, d) and sentences s
    (N, width).
    """
    decoded = [model.decoder(z).mean for z in (start, end, model.embed(s))]
    images = torch.stack([x, *decoded], 1).expand(-1, -1, 3, -1, -1)
    return Pictures(
        ("the input", "decoded from z0", "decoded at T", "decoded from the sentence read at T"),
        images.numpy(),
    )


def _input_name(data: object, y: int) -> str:
    return (
        f"class {data.class_names[y]}"
        if isinstance(data, HierarchicalBinaryVectors)
        else f"row {y}"
    )


def _input_labels(data: object, inputs: Batch) -> list[Label]:
    """The class in the tree, and every feature of the data set."""
    labels = []
    if isinstance(data, HierarchicalBinaryVectors):
        labels.append(_label("class", "input", [data.class_names[y] for y in inputs.y.tolist()]))
    if isinstance(data, Labelled):
        for feature, column in zip(data.features, data.feature_values(inputs).T, strict=True):
            names = feature.outcomes if feature.categorical else _ranges(column)
            codes = column if feature.categorical else _ranked(column)
            texts = ["missing" if code != code else names[int(code)] for code in codes.tolist()]
            label = _label(feature.name, "input", texts)
            if own := dict(zip(feature.outcomes, own_colours(feature), strict=False)):
                label = label._replace(
                    colours=tuple(own.get(value, GREY) for value in label.values)
                )
            labels.append(label)
    return labels


def _limits(column: Tensor) -> tuple[float, float]:
    known = column[~column.isnan()]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)


def _ranges(column: Tensor) -> list[str]:
    """Names of equally wide ranges of a continuous feature."""
    edges = np.linspace(*_limits(column), RANGES + 1)
    return [f"{low:.3g} to {high:.3g}" for low, high in itertools.pairwise(edges)]


def _ranked(column: Tensor) -> Tensor:
    """(n,) the range of each value, NaN where it is missing."""
    low, high = _limits(column)
    return ((column - low) / max(high - low, 1e-12) * RANGES).floor().clamp(max=RANGES - 1)


def _sentence_labels(language: Language, s: Tensor) -> list[Label]:
    """The sentence, and for each group of tokens that exclude each other the one that it holds."""
    labels = [_label("sentence", "sentence", [language.name(row) for row in s])]
    held = language.bag(s)
    for group in range(len(language.groups)):
        tokens = torch.nonzero(language.token_group == group).flatten().tolist()
        names = [language.token_name(token) for token in tokens]
        texts = [
            next((name for name, j in zip(names, tokens, strict=True) if row[j]), "none")
            for row in held
        ]
        short = " or ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]}"
        labels.append(_label(f"token {short}", "sentence", texts))
    return labels


def _label(name: str, of: Literal["input", "sentence"], texts: list[str]) -> Label:
    values = tuple(sorted(set(texts)))
    return Label(name, of, values, np.array([values.index(text) for text in texts]))
