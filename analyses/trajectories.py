"""Trajectories of latent states in their principal plane: a figure, and a view to explore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.analysis import sampling
from plot_attractors.analysis.parts import dot
from plot_attractors.analysis.responses import radius
from plot_attractors.analysis.shape import ATTRACTORS, PLANE
from plot_attractors.analysis.style import BLUE, GREY, PURPLE, RED, colours_of, lettered
from plot_attractors.data import HierarchicalBinaryVectors
from plot_attractors.data.batch import Batch, Feature, Labelled
from plot_attractors.measures.attractors import last_change, principal_plane
from plot_attractors.model.attractor import ROWS, AttractorModel, Encoding
from plot_attractors.model.memory import CLOCK, FADING, LEAST_CLOCK, LEGIBLE, RECALLED, Memory
from plot_attractors.model.networks import HopfieldDynamics
from plot_attractors.ranges import Count, Size, setting
from plot_attractors.report import viewer
from plot_attractors.report.viewer import Label, LiveModel
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Trajectories"
CAPTIONS = {
    "trajectories": (
        "Latent states in the plane of their first two principal components. (a) Exemplars of up "
        "to ten classes, coloured by class. (b) Trajectories from one exemplar: one input has "
        "several sentences. Black: where inputs begin, z0; blue: after T steps; red: embeddings of "
        "sentences in use, or, if too many to list, those nearest to the blue. (c) Distance to the "
        "nearest embedding over 5T steps in the axes that embeddings use, median and middle half; "
        "dotted: exact samples."
    ),
    "view": (
        "Dots: states at the step of the slider, with the steps before as tails; red crosses: "
        "embeddings. From 0 to T states leave their inputs and gather at embeddings, where they "
        "stay. Colour by a label of the input, or by the sentence read at T. Point at a state, "
        "tap it, or focus the picture and press the arrow keys, for its input, the sentence "
        "read there, and what the decoder makes of both; images are decoded from z0 and at T "
        "only. Run an input a hundred times for its sentences, their shares at every step, and "
        "when it responds; or drop states anywhere, which remember no input, and watch them fall: "
        "the page holds the model's forward step."
    ),
}


@dataclass(frozen=True)
class Config:
    classes: Size = setting(10, "classes in panel a")
    exemplars: Size = setting(5, "exemplars of each class")
    draws: Size = setting(50, "trajectories of the one exemplar")
    viewed: Size = setting(160, "training inputs in the interactive view")
    viewed_held_out: Count = setting(80, "inputs of each other split there")


NEEDS = ATTRACTORS & PLANE


# -- measures --------------------------------------------------------------------------------------


USE_INPUTS = 512  # that tell which sentences are in use
EXACT_DRAWS = 2000  # exact end states, for their distance
SETTLING_INPUTS, SETTLING_DRAWS = 64, 64  # training inputs, and trajectories of each
MOST_TIMES = 30  # of the interactive view up to T, and again up to 2T
ENTROPY_DRAWS = 256  # sentences of P(s | x) that its entropy is the mean of
CHOSEN_AMONG = 20  # inputs drawn for each exemplar


class Exemplars(NamedTuple):
    """Inputs, the number (n,) of each one's class, and own colours of the classes, if any."""

    inputs: Batch
    classes: Tensor
    colours: tuple[str, ...] = ()


class Panel(NamedTuple):
    """Trajectories z (5T + 1, B, d) of inputs, in the latent axes."""

    title: str
    inputs: Batch
    z: Tensor

    @classmethod
    def of(cls, model: AttractorModel, title: str, inputs: Batch) -> Panel:
        """A trajectory of each input."""
        z0 = model.encode(inputs.x).z0
        z = model.trajectories(z0, sampling.LENGTHS[-1] * model.steps)
        return cls(title, inputs, z[..., : model.latent])


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

    Classes are nodes of the tree, or outcomes of the first categorical feature; they are rows where
    there is none or none is known.
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
    batch = data.batch(CHOSEN_AMONG * most * each)
    categorical = ((f, column) for f, column in features_of(data, batch) if f.categorical)
    feature, column = next(categorical, (Feature(""), torch.tensor(torch.nan)))
    named = not bool(column.isnan().all())  # the feature may be missing everywhere
    classes = column.nan_to_num(-1).long() if named else batch.y
    values, counts = classes[classes >= 0].unique(return_counts=True)
    chosen = values[counts.argsort(descending=True)[:most]]
    colours: tuple[str, ...] = ()
    if named:
        chosen = chosen.sort().values
        colours = tuple(feature.colours[k] for k in chosen.tolist() if feature.colours)
    rows = [torch.nonzero(classes == value).flatten()[:each] for value in chosen]
    number = torch.arange(len(rows)).repeat_interleave(torch.tensor([len(row) for row in rows]))
    return Exemplars(Batch(*(part[torch.cat(rows)] for part in batch)), number, colours)


def features_of(data: object, inputs: Batch) -> list[tuple[Feature, Tensor]]:
    """Each feature that the data set knows, and its values (n,), NaN where they are missing."""
    if not isinstance(data, Labelled):
        return []
    return list(zip(data.features, data.feature_values(inputs).T, strict=True))


def sentences_shown(run: Run, panels: Sequence[Panel]) -> Tensor:
    """(n, width) the sentences in use; where they are too many to list, those nearest to the
    panels' states at T.
    """
    model = run.model
    if sampling.is_listed(model):
        return model.sentences[sampling.sentences_in_use(model, run.data.batch(USE_INPUTS).x)]
    s = sampling.nearest_sentence(model, torch.cat([panel.z[model.steps] for panel in panels])).s
    return s[sampling.first_rows(model.language.key(s))]


def variance_shares(z: Tensor, plane: Tensor) -> tuple[float, float]:
    """The shares of the variance of states z (…, d) along the directions of a plane (d, 2)."""
    z = z.flatten(0, -2)
    first, second = (((z - z.mean(0)) @ plane).var(0) / z.var(0).sum()).tolist()
    return first, second


def distances(model: AttractorModel, panels: Sequence[Panel], plane: Tensor) -> pd.DataFrame:
    """A row for each panel, A, B, …, and time: median and quartiles over trajectories of the
    distance to the nearest ẑ, and the shares ``variance1`` and ``variance2`` of the variance of its
    states up to T along the directions of a plane (d, 2).
    """
    tables = []
    for name, panel in zip("AB", panels, strict=True):
        distance = sampling.nearest_sentence(model, panel.z).distance
        median, low, high = distance.quantile(torch.tensor([0.5, 0.25, 0.75]), 1).tolist()
        levels = {"panel": name, "t": range(len(low)), "distance": median, "low": low, "high": high}
        shares = variance_shares(panel.z[: model.steps + 1], plane)
        levels |= dict(zip(("variance1", "variance2"), shares, strict=True))
        tables.append(pd.DataFrame(levels))
    return pd.concat(tables, ignore_index=True)


def settling_times(model: AttractorModel, z: Tensor) -> Tensor:
    """(n,) the last change of the nearest sentence of trajectories z (T + 1, n, d)."""
    near = sampling.nearest_sentence(model, z)
    return last_change(sampling.number_sentences(model, near.s)).float()


def sentence_entropy(model: AttractorModel, q: Normal) -> Tensor:
    """(B,) entropy of P(s | x), nats, of inputs q (B, d): log Z less the mean of log R over exact
    draws.
    """
    exact = sampling.exact_draws(model, q, ENTROPY_DRAWS)
    log_r = model.reward(Normal(q.loc[:, None], q.scale[:, None]), None, exact.s)
    return exact.log_z - log_r.double().mean(1)


def settling(model: AttractorModel, e: Encoding) -> pd.DataFrame:
    """A row for each of the inputs e: ``last_change``, the time at which the nearest sentence
    changes last, the median over trajectories of T steps; and the ``entropy`` of the exact
    P(s | x), nats.
    """
    parts = e.z0.repeat_interleave(SETTLING_DRAWS, 0).split(ROWS)
    z = torch.cat([model.trajectories(z0)[..., : model.latent] for z0 in parts], 1)
    change = settling_times(model, z).unflatten(0, (-1, SETTLING_DRAWS))
    entropy = sentence_entropy(model, e.distribution)
    middle = change.quantile(0.5, 1)
    return pd.DataFrame({"last_change": middle.tolist(), "entropy": entropy.tolist()})


def exact_distance(model: AttractorModel, embeddings: Tensor) -> Tensor:
    """() median distance to the nearest embedding of states N(ẑ_s, ε²), s uniform among listed
    sentences or those of `embeddings` (n, d).
    """
    among = model.embeddings() if sampling.is_listed(model) else embeddings
    z = among[torch.randint(len(among), (EXACT_DRAWS,))]
    z = z + model.epsilon * torch.randn_like(z)
    return sampling.nearest_sentence(model, z).distance.median()


SHOWN_BITS = 512  # of an input
NO_COLOUR = "#8c8c8c"  # of a missing value where others have colours of their own


def trajectory_view(
    run: Run, panels: Sequence[Panel], center: Tensor, plane: Tensor, in_use: Tensor
) -> viewer.TrajectoryView:
    """The trajectories of all panels up to 2T, at `MOST_TIMES` times up to T and again up to 2T.

    Sentences are drawn from P(s | z_t), and decoded bits are those more likely 1 than 0; images are
    decoded from z0, z_T and the sentence read at T only. States are projected onto `center` (d,)
    and `plane` (d, 2); sentences `in_use` (n, width) are marked.
    """
    model, data = run.model, run.data
    inputs = Batch(*(torch.cat(p) for p in zip(*(panel.inputs for panel in panels), strict=True)))
    half = min(model.steps, MOST_TIMES)  # T itself is the time number `half`
    times = [round(model.steps * k / half) for k in range(2 * half + 1)]
    z = torch.cat([panel.z[times] for panel in panels], 1)
    read = torch.stack([model.readout(part, z[0]).sample() for part in z])

    # what is read comes first, so that its rows are small numbers
    s = torch.cat([read.flatten(0, 1), in_use])
    row, key = pd.factorize(model.language.key(s).numpy())
    sentences = s[sampling.first_rows(torch.from_numpy(row))]

    bits = bits_of_sentences = None
    embeddings = model.embed(sentences)
    kind = sampling.kind_of_inputs(run)
    if kind == sampling.BITS:
        shown = slice(0, SHOWN_BITS)
        columns = getattr(data, "columns", ())[shown]
        decoded = sampling.decoded_bits(model, z)[..., shown].numpy()
        bits = viewer.Bits(inputs.x[:, shown].numpy(), decoded, columns)
        bits_of_sentences = sampling.decoded_bits(model, embeddings)[..., shown].numpy()

    ends = np.cumsum([len(panel.inputs.x) for panel in panels]).tolist()
    groups = zip(panels, [0, *ends], ends, strict=False)
    classes = (
        [data.class_names[y] for y in inputs.y.tolist()] if hasattr(data, "class_names") else []
    )
    names = [f"class {name}" for name in classes]
    pictures = None
    if kind == sampling.IMAGES:
        pictures = _pictures(model, inputs.x, z[0], z[half], read[half])
    return viewer.TrajectoryView(
        live=live_model(model, z[0], embeddings, center, plane),
        steps=model.steps,
        times=tuple(times),
        points=((z - center) @ plane).numpy(),
        shares=variance_shares(z, plane),
        inputs=tuple(names or sampling.row_names(data, inputs.y)),
        groups=tuple(viewer.Group(panel.title, start, end) for panel, start, end in groups),
        labels=(
            *_input_labels(data, inputs, classes),
            _label("sentence", "sentence", [model.language.name(s) for s in read[half]]),
        ),
        sentences=viewer.SentencePoints(
            tuple(model.language.name(s) for s in sentences),
            ((embeddings - center) @ plane).numpy(),
            np.isin(key, model.language.key(in_use).numpy()),
            bits_of_sentences,
        ),
        read=row[: len(s) - len(in_use)].reshape(read.shape[:2]),
        bits=bits,
        pictures=pictures,
    )


def live_model(
    model: AttractorModel, z0: Tensor, embeddings: Tensor, center: Tensor, plane: Tensor
) -> LiveModel | None:
    """The forward step as numbers; None of other dynamics than `HopfieldDynamics` and `Memory`."""
    dynamics, memory = model.forward_dynamics, model.memory
    if type(dynamics) is not HopfieldDynamics or type(memory) is not Memory:
        return None
    if type(model).transition is not AttractorModel.transition:
        return None
    layers = [layer for layer in dynamics.net if isinstance(layer, torch.nn.Linear)]
    arrays = {f"weight{k}": layer.weight for k, layer in enumerate(layers)}
    arrays |= {f"bias{k}": layer.bias for k, layer in enumerate(layers)}
    arrays |= {
        "pattern": dynamics.pattern, "key": dynamics.key, "bias": dynamics.bias,
        "starts": model.initial(z0), "embeddings": embeddings, "center": center, "plane": plane,
        "used": sampling.used_axes(model),
    }  # fmt: skip
    heads, patterns, _ = dynamics.pattern.shape
    numbers = {
        "latent": model.latent, "memory": memory.size, "layers": len(layers), "heads": heads,
        "patterns": patterns, "scale": float(dynamics.scale), "amplitude": dynamics.amplitude,
        "clock": CLOCK, "least_clock": LEAST_CLOCK, "legible": LEGIBLE, "recalled": RECALLED,
        "max_step": float(dynamics.max_step), "fading": FADING,
        "memory_sd": (1 - FADING**2) ** 0.5 * memory.epsilon, "radius": radius(model),
    } | dict(zip(("least_sd", "most_sd"), dynamics.sd_range, strict=True))  # fmt: skip
    return LiveModel({name: a.detach().float().numpy() for name, a in arrays.items()}, numbers)


def _pictures(
    model: AttractorModel, x: Tensor, start: Tensor, end: Tensor, s: Tensor
) -> viewer.Pictures:
    """Inputs x (N, channels, side, side), and what is decoded from z0, z_T (N, d) and sentences s
    (N, width).
    """
    decoded = [model.decoder(z).mean for z in (start, end, model.embed(s))]
    images = torch.stack([x, *decoded], 1).expand(-1, -1, 3, -1, -1).numpy()
    names = "the input", "decoded from z0", "decoded at T", "decoded from the sentence read at T"
    return viewer.Pictures(names, images)


def _input_labels(data: Any, inputs: Batch, classes: list[str]) -> list[Label]:
    """The class where classes have names, and every categorical feature of the data set."""
    labels = [_label("class", "input", classes)] if classes else []
    for feature, column in features_of(data, inputs):
        if not feature.categorical:
            continue
        texts = ["missing" if v != v else feature.outcomes[int(v)] for v in column.tolist()]
        label = _label(feature.name, "input", texts)
        if own := dict(zip(feature.outcomes, feature.colours, strict=False)):
            colours = tuple(own.get(value, NO_COLOUR) for value in label.values)
            label = label._replace(colours=colours)
        labels.append(label)
    return labels


def _label(name: str, source: Literal["input", "sentence"], texts: list[str]) -> Label:
    values = tuple(sorted(set(texts)))
    return Label(name, source, values, np.array([values.index(text) for text in texts]))


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Distances to embeddings, the states in the plane, and the interactive view of a report.

    ``summary.csv``: see `distances`; ``settling.csv``: see `settling`;
    ``planes.npz``: what the figure shows, in the first two principal components of the panels'
    states up to T and of the embeddings shown; ``trajectories.json``: both panels and inputs of
    each split, see `trajectory_view`.

    Raises ValueError for other models than the attractor model, and for one latent dimension.
    Source: the paper's figure of trajectories.
    """
    model = run.model
    many = exemplars(run, config.classes, config.exemplars)
    n = len(many.classes)
    one = Batch(*(part[[n // 2] * config.draws] for part in many.inputs))
    title = f"{n} exemplars of {len(many.classes.unique())} classes"
    panels = [Panel.of(model, title, many.inputs)]
    panels += [Panel.of(model, f"One exemplar, {config.draws} trajectories", one)]
    shown = sentences_shown(run, panels)
    embeddings = model.embed(shown)
    states = [panel.z[: model.steps + 1].flatten(0, 1) for panel in panels]
    center, plane = principal_plane(torch.cat([*states, embeddings]))
    table = distances(model, panels, plane)
    points = {"embeddings": embeddings}
    points |= {name: panel.z[: model.steps + 1] for name, panel in zip("AB", panels, strict=True)}
    arrays = {name: ((z - center) @ plane).numpy() for name, z in points.items()} | {
        "titles": np.array([p.title for p in panels]),
        "steps": model.steps,
        "classes": many.classes.numpy(),
        "colours": np.array(many.colours, str),
        "noise": exact_distance(model, embeddings).numpy(),
    }
    panels += split_panels(run, config.viewed, config.viewed_held_out)
    if not sampling.is_listed(model):
        shown = sentences_shown(run, panels)
    view = trajectory_view(run, panels, center, plane, shown)
    times = settling(model, model.encode(run.data.batch(SETTLING_INPUTS).x))
    return {
        "summary.csv": table, "settling.csv": times, "planes.npz": arrays,
        viewer.FILE: view.to_json(),
    }  # fmt: skip


# -- figures ---------------------------------------------------------------------------------------


def draw_trajectories(planes: Mapping[str, np.ndarray], table: pd.DataFrame) -> Figure:
    """Panels A and B from ``planes.npz``, and distances from ``summary.csv``."""
    figure = Figure(figsize=(12, 8.2), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1.9, 1])
    points, steps, noise = planes["embeddings"], int(planes["steps"]), float(planes["noise"])
    by_class = colours_of(planes["colours"].tolist(), int(planes["classes"].max()) + 1)
    for column, name in enumerate("AB"):
        axes = figure.add_subplot(grid[0, column])
        z = planes[name]
        size, alpha, order = (7, 0.45, 1) if name == "A" else (16, 0.8, 3)
        look: Any = {"color": RED, "alpha": alpha, "linewidths": 0}
        axes.scatter(points[:, 0], points[:, 1], s=size, zorder=order, **look)
        colours = [by_class[k] for k in planes["classes"].tolist()] if name == "A" else GREY
        look = {"colors": colours, "linewidths": 0.8, "alpha": 0.8, "zorder": 2}
        axes.add_collection(LineCollection(list(z.transpose(1, 0, 2)), **look), autolim=False)
        for states, colour, order in ((z[-1], BLUE, 3), (z[0], "black", 4)):
            look = {"color": colour, "edgecolors": "white", "linewidths": 0.4, "zorder": order}
            axes.scatter(states[:, 0], states[:, 1], s=20, **look)
        shares = table[table["panel"] == name].iloc[0]
        axes.set_title(lettered(name.lower(), planes["titles"]["AB".index(name)]))
        axes.set_xlabel(f"first component ({shares['variance1']:.0%} of these states' variance)")
        axes.set_ylabel(f"second component ({shares['variance2']:.0%})")
        # B is a part of A, enlarged
        _set_bounds(axes, z, points if name == "A" else points[:0])
    axes = figure.add_subplot(grid[1, :])
    for name, colour in (("A", BLUE), ("B", PURPLE)):
        part = table[table["panel"] == name]
        band = part["t"], part["low"], part["high"]
        axes.fill_between(*band, color=colour, alpha=0.2, linewidth=0)
        label = f"states of panel {name.lower()}"
        axes.plot(part["t"], part["distance"], color=colour, label=label)
    axes.axhline(noise, color="black", linestyle=":", label="exact samples, N(ẑ, ε²)")
    axes.axvline(steps, color=GREY, linewidth=0.8)
    axes.set_ylim(0, 1.12 * axes.get_ylim()[1])  # room for the legend
    axes.text(steps, axes.get_ylim()[1], " T", va="top", color=GREY)
    axes.set(xlim=(0, table["t"].max()), title=lettered("c", "Distance to the nearest embedding"))
    axes.set(xlabel="step t", ylabel="median distance")
    axes.legend(ncols=3, loc="upper right")
    handles = [
        dot("black", "initial state z0"),
        Line2D([], [], color=GREY, linewidth=1, label="trajectory (in a: of its class)"),
        dot(BLUE, "state after T steps"),
        dot(RED, "embedding ẑ of a sentence in use"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def _set_bounds(axes: Any, z: np.ndarray, points: np.ndarray) -> None:
    """Limits that hold states (times, B, 2) and points (n, 2)."""
    everything = np.concatenate([z.reshape(-1, 2), points])
    margin = 0.04 * np.ptp(everything, axis=0)
    (left, bottom), (right, top) = everything.min(0) - margin, everything.max(0) + margin
    axes.set(xlim=(left, right), ylim=(bottom, top))


def draw(tables: dict[str, Any]) -> dict[str, Any]:
    """The figure ``trajectories``."""
    return {"trajectories": draw_trajectories(tables["planes.npz"], tables["summary.csv"])}
