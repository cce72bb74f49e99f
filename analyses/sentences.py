"""Which sentences describe which class, a node of the tree or a value of a label, and how often; or
which image.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors
from plot_attractors.evaluation import image_sentences
from plot_attractors.evaluation.metrics import total_variation
from plot_attractors.evaluation.sampling import (
    is_listed,
    require_attractors,
    require_listed,
    sentence_distribution,
    shows_bits,
    states_at,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.style import BLUE, GREY, RED, add_scale, plain, save, style, tree_layout

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Sentences"
CAPTIONS = {
    "sentences": (
        "What the model says of each class. Left: the classes; in the tree, each node's children "
        "stand below it and "
        "to its right, L takes the left and R the right half of its 1s, and red squares were held "
        "out of training. "
        "Tokens: the share of sentences sampled for exemplars of the class that hold each token; "
        "tokens between two "
        "lines exclude each other. Then the sentence sampled most often, with its share. Said: the "
        "bits that the "
        "sentences stand for, decoded and averaged over the sentences sampled; meant: the "
        "prototype of the class, "
        "or the mean of its rows. Black is 0, white is 1."
    ),
    "images": (
        "What the model says of images. A row for each input: the input; what the decoder makes of "
        "its initial state "
        "z0, before the dynamics; the sentences that were read most often at the ends of its "
        "trajectories, decoded, "
        "with their shares; and the best sentence, of the highest reward, with its probability "
        "in the posterior. A good sampler reads the best sentences of an input most often, and "
        "they look like the "
        "input. Inputs of training stand left, held-out ones right; none was chosen by hand."
    ),
    "tokens": (
        "On images, what each token says. Its share of the sentences that are read (blue) and of "
        "those drawn from "
        "the posterior (red). Mean change: decoded images of sentences with the token minus those "
        "of the same "
        "sentences without it, on average; grey is no change, and each is as strong as it can be "
        "shown. Then examples: "
        "a sentence without the token, and beside it with the token. R²: the share of the variance "
        "of whether the "
        "token is said that a feature of the input explains; 1 means that the feature alone "
        "decides, 0 that it does "
        "not matter by itself. Tokens that one feature explains best stand together. On a tree too "
        "large for the first "
        "figure: the same for all nodes, without the sentences."
    ),
}

EXEMPLARS, DRAWS = 16, 16  # of a node of the tree, and trajectories of each
INPUTS = 2000  # of a table, or training images
HELD_OUT_INPUTS = 500  # images of each other split
IMAGE_DRAWS = 64  # trajectories of an image
IMAGES = 12  # training images in the figure, and about as many held-out ones together
LISTED = 10  # sentences of each class in sentences.csv
MOST_ROWS = 44  # classes in the figure with sentences


class Classes(NamedTuple):
    """Inputs x (n, bits) with the class (n,) of each, and what is known of the N classes."""

    x: Tensor
    member: Tensor
    names: list[str]
    depth: np.ndarray  # 0 where there is no tree
    held_out: np.ndarray
    parents: np.ndarray  # -1 for none
    meant: Tensor  # (N, bits)
    prototypes: Tensor | None  # (N + 1, bits), the last one the root's


class Laws(NamedTuple):
    """Laws (N, S) of sentences given the class, of the sampler and exact, and the bits (N, bits)
    the former say.
    """

    sampler: Tensor
    exact: Tensor
    said: Tensor


def applies(run: Run) -> bool:
    """Whether the run's model has attractors, and inputs are images or sentences can be listed."""
    return isinstance(run.model, AttractorModel) and (
        not shows_bits(run.data) or is_listed(run.model)
    )


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, ``sentences.csv``, ``tokens.csv`` and figures into ``out``.

    For bits, the probability of a sentence in a class is the mean over its inputs of P(s | z_T),
    read exactly off sampled end states, and of the exact posterior. Classes are the nodes of a
    tree, the values of a table's first label, or all inputs together.

    - ``sentences.csv`` (class, path, depth, held_out, rank, sentence, sampler, exact, prototype,
      differing_bits): the most frequent sentences of each class; prototype is the node whose
      prototype is nearest to the bits decoded from ẑ_s.
    - ``tokens.csv`` (class, path, token, sampler, exact): P(the sentence holds the token | class).
    - ``summary.csv`` (group, classes, length, entropy, top, distinct, own, line, tv): for each
      depth of the tree, means over classes of the number of tokens, the entropy of the sampler's
      law in nats, and the share of the most frequent sentence; how many different sentences are
      most frequent; the share of sentences that decode to the class's own prototype, and to its own
      or an ancestor's; and the total variation between sampler and exact posterior.

    Figure ``sentences``, and ``tokens`` of all nodes where the tree is too large for the first.

    For images, sentences are drawn off trajectories (``sampler``), and in proportion to R(s; x)
    (``posterior``): of all where the posterior factors, else of the best that a beam search met.

    - ``sentences.csv`` (split, input, row, rank, sentence, sampler, posterior, log_reward, best):
      of the inputs in the figure, the sentences drawn most often and the best one (best = 1): share
      of the draws, probability, log R(s; x) in nats. row: of the data set's class or image.
    - ``tokens.csv`` (token, cost, source, share, r2_…): nats that the token costs in log P(s)
      before it is normalised (P(s)^β with a `reward_exponent` β); the share of the source's
      sentences of training inputs that hold the token, and R² of its being said on each feature,
      see `image_sentences.variance_explained`.
    - ``summary.csv`` (split, inputs, draws, length, length_posterior, entropy, entropy_posterior,
      top, distinct, log_reward, log_reward_best, rmse_reconstruction, rmse_sentence, rmse_best):
      means over inputs of the number of tokens; of the entropy of the sampler's law of an input,
      nats, estimated from the shares of its draws, so not above the logarithm of their number, and
      of the posterior's; of the share of the commonest sentence; how many different sentences were
      drawn in all; mean log R of a sentence drawn and of the best one; root mean squared error of a
      pixel (0 to 1) as decoded from z0, from a sentence drawn, and from the best one.

    Figures ``images`` and ``tokens``. Raises ValueError for other models than the attractor model,
    and for bits where sentences are too many to list.
    """
    model = require_attractors(run.model)
    if not shows_bits(run.data):
        _analyze_images(model, run.data, out)
        return
    require_listed(model)
    classes = _classes(run.data)
    laws = _laws(model, classes)
    names = [model.language.name(s) for s in model.sentences]
    nearest, differing = _nearest_prototypes(model, classes)
    _list_sentences(classes, laws, names, nearest, differing).to_csv(
        out / "sentences.csv", index=False
    )
    bags = model.language.bag(model.sentences)
    tokens = [model.language.token_name(j) for j in range(model.language.tokens)]
    _list_tokens(classes, laws, bags, tokens).to_csv(out / "tokens.csv", index=False)
    _summarise(classes, laws, bags, nearest).to_csv(out / "summary.csv", index=False)
    shown = _shown(classes)
    with style():
        save(_draw(model, classes, laws, bags, tokens, shown, names), out / "sentences")
        if len(shown) < len(classes.names) and classes.prototypes is not None:
            everything = np.arange(len(classes.names))
            save(_draw(model, classes, laws, bags, tokens, everything, None), out / "tokens")


def _analyze_images(model: AttractorModel, data: Any, out: Path) -> None:
    said = []
    for split in data.splits:
        batch = data.batch(INPUTS if split == "train" else HELD_OUT_INPUTS, split)
        said.append(image_sentences.say(model, batch, split, IMAGE_DRAWS))
    others = len(said) - 1  # their headings take the room of some images
    shown = [IMAGES, *[max(1, (IMAGES - max(others - 1, 0)) // others) for _ in said[1:]]]
    pd.DataFrame([image_sentences.summarise(model, of) for of in said]).to_csv(
        out / "summary.csv", index=False
    )
    listed = [
        image_sentences.list_sentences(model, of, n) for of, n in zip(said, shown, strict=True)
    ]
    pd.concat(listed).to_csv(out / "sentences.csv", index=False)
    tokens = image_sentences.count_tokens(model, data, said[0])
    image_sentences.list_tokens(model.language, tokens).to_csv(out / "tokens.csv", index=False)
    with style():
        save(image_sentences.draw_images_and_sentences(model, data, said, shown), out / "images")
        save(image_sentences.draw_tokens(model, said[0], tokens), out / "tokens")


def _classes(data: Any) -> Classes:
    if isinstance(data, HierarchicalBinaryVectors):
        n = len(data.depths)
        member = torch.arange(n).repeat_interleave(EXEMPLARS)
        held_out = np.zeros(n, dtype=int)
        held_out[data.held_out_classes.numpy()] = 1
        prototypes = torch.cat([data.prototypes, torch.ones(1, data.bits)])
        return Classes(
            data.exemplars(member), member, list(data.class_names), data.depths.numpy(), held_out,
            data.parents.numpy(), data.prototypes, prototypes,
        )  # fmt: skip
    batch = data.batch(INPUTS)
    x, member, names = batch.x, torch.zeros(INPUTS, dtype=torch.int64), ["all inputs"]
    if batch.labels.shape[1]:
        known = batch.labels[:, 0] >= 0
        values, labelled = batch.labels[known, 0].unique(return_inverse=True)
        if len(values):
            x, member = x[known], labelled
            names = [str(v) for v in values.tolist()]
            if isinstance(data, BinaryTable):
                names = [data.label_values[data.label_names[0]][v] for v in values.tolist()]
    n = len(names)
    none = np.zeros(n, dtype=int)
    return Classes(x, member, names, none, none, none - 1, _class_mean(x, member, n), None)


def _class_mean(values: Tensor, member: Tensor, classes: int) -> Tensor:
    """(N, ...) the mean of the rows of each class; values (n, ...), member (n,)."""
    total = torch.zeros(classes, values.shape[1]).index_add_(0, member, values)
    return total / torch.bincount(member, minlength=classes).clamp(min=1)[:, None]


def _laws(model: AttractorModel, classes: Classes) -> Laws:
    encoding = model.encode(classes.x)
    states = states_at(model, encoding, DRAWS, [model.steps])[0]
    n = len(classes.names)
    sampler = _class_mean(sentence_distribution(model, states), classes.member, n)
    exact = _class_mean(model.log_posterior(encoding.distribution).exp(), classes.member, n)
    return Laws(sampler, exact, sampler @ torch.sigmoid(model.decoder(model.embeddings()).logits))


def _nearest_prototypes(model: AttractorModel, classes: Classes) -> tuple[np.ndarray, np.ndarray]:
    """(S,) the class whose prototype is nearest to the bits decoded from ẑ_s (N: the root), and
    their distance.
    """
    if classes.prototypes is None:
        return np.full(len(model.sentences), -1), np.full(len(model.sentences), np.nan)
    bits = (model.decoder(model.embeddings()).logits > 0).float()
    differing, nearest = torch.cdist(bits, classes.prototypes, p=1).min(-1)
    return nearest.numpy(), differing.numpy().astype(int)


def _list_sentences(
    classes: Classes, laws: Laws, names: list[str], nearest: np.ndarray, differing: np.ndarray
) -> pd.DataFrame:
    share, index = laws.sampler.topk(min(LISTED, len(names)), -1)
    n, listed = index.shape
    of = np.repeat(np.arange(n), listed)
    s = index.flatten().numpy()
    paths = np.array(classes.names, dtype=object)
    return pd.DataFrame(
        {
            "class": of,
            "path": paths[of],
            "depth": classes.depth[of],
            "held_out": classes.held_out[of],
            "rank": np.tile(np.arange(1, listed + 1), n),
            "sentence": np.array(names, dtype=object)[s],
            "sampler": share.flatten().numpy(),
            "exact": laws.exact.gather(1, index).flatten().numpy(),
            "prototype": np.array([*classes.names, "root"], dtype=object)[nearest[s]]
            if classes.prototypes is not None
            else "",
            "differing_bits": differing[s],
        }
    )


def _list_tokens(classes: Classes, laws: Laws, bags: Tensor, tokens: list[str]) -> pd.DataFrame:
    n = len(classes.names)
    return pd.DataFrame(
        {
            "class": np.repeat(np.arange(n), len(tokens)),
            "path": np.repeat(np.array(classes.names, dtype=object), len(tokens)),
            "token": tokens * n,
            "sampler": (laws.sampler @ bags).flatten().numpy(),
            "exact": (laws.exact @ bags).flatten().numpy(),
        }
    )


def _summarise(classes: Classes, laws: Laws, bags: Tensor, nearest: np.ndarray) -> pd.DataFrame:
    n = len(classes.names)
    law = laws.sampler
    top, best = law.max(-1)
    table = pd.DataFrame(
        {
            "depth": classes.depth,
            "length": (law @ bags.sum(-1)).numpy(),
            "entropy": -torch.xlogy(law, law).sum(-1).numpy(),
            "top": top.numpy(),
            "best": best.numpy(),
            "own": np.nan,
            "line": np.nan,
            "tv": total_variation(law, laws.exact).numpy(),
        }
    )
    if classes.prototypes is not None:
        decoded = torch.zeros(n, n + 1).index_add_(
            1, torch.from_numpy(nearest), law
        )  # by nearest prototype
        line = torch.eye(n, n + 1)
        for node, parent in enumerate(
            classes.parents.tolist()
        ):  # parents come before their children
            line[node] += line[parent] if parent >= 0 else torch.eye(n + 1)[n]
        table["own"] = decoded.diagonal().numpy()
        table["line"] = (decoded * line).sum(-1).numpy()
    groups = table.groupby("depth")
    summary = groups[["length", "entropy", "top"]].mean()
    summary.insert(0, "classes", groups.size())
    summary["distinct"] = groups["best"].nunique()
    summary = summary.join(groups[["own", "line", "tv"]].mean()).reset_index()
    labels = ["all classes" if depth == 0 else f"depth {depth}" for depth in summary["depth"]]
    summary.insert(0, "group", labels)
    return summary.drop(columns="depth")


def _shown(classes: Classes) -> np.ndarray:
    """The classes of the first figure: generations as long as there is room, or the largest
    classes.
    """
    n = len(classes.names)
    if n <= MOST_ROWS:
        return np.arange(n)
    if classes.prototypes is not None:
        cumulative = np.searchsorted(
            classes.depth, np.arange(1, classes.depth.max() + 2)
        )  # nodes above each depth
        return np.arange(int(cumulative[cumulative <= MOST_ROWS].max()))
    sizes = torch.bincount(classes.member, minlength=n).numpy()
    return np.sort(np.argsort(-sizes, kind="stable")[:MOST_ROWS])


def _draw(
    model: AttractorModel,
    classes: Classes,
    laws: Laws,
    bags: Tensor,
    tokens: list[str],
    shown: np.ndarray,
    names: list[str] | None,
) -> Figure:
    rows = len(shown)
    place = (
        tree_layout(classes.parents[shown]) if classes.prototypes is not None else np.arange(rows)
    )
    order = shown[np.argsort(place)]
    height = max(3.0, 1.6 + rows * (0.21 if names else 0.085))
    tree = classes.prototypes is not None
    widths = [2.4 if tree else 0.05, max(1.5, 0.22 * len(tokens)), 1.9 if names else 0.05, 2.6, 2.6]
    figure = Figure(figsize=(sum(widths) + 2.0, height), layout="constrained")
    grid = figure.subplots(1, 5, sharey=True, width_ratios=widths)
    grid[0].set_ylim(rows - 0.4, -1.6 if tree else -0.6)
    for axes in grid:
        axes.tick_params(left=False)
    labels = [plain(classes.names[k]) for k in order] if names else []
    if tree:
        _draw_tree(grid[0], classes, shown, place, labels)
    else:
        grid[0].set_axis_off()
        grid[1].tick_params(labelleft=True)
        grid[1].set_yticks(range(rows), labels)

    share = (laws.sampler @ bags)[order].numpy()
    extent = (-0.5, len(tokens) - 0.5, rows - 0.5, -0.5)
    image = grid[1].imshow(
        share, cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest", extent=extent
    )
    starts = np.cumsum(model.language.groups)[:-1] - 0.5
    grid[1].vlines(starts, -0.5, rows - 0.5, color="white", linewidth=1.5)
    every = max(1, len(tokens) // 16)
    grid[1].set_xticks(range(0, len(tokens), every), tokens[::every])
    grid[1].set_title("tokens")
    if names:
        top, best = laws.sampler[order].max(-1)
        for row, (p, s) in enumerate(zip(top.tolist(), best.tolist(), strict=True)):
            grid[2].text(0.0, row, plain(names[s], 22), va="center", fontsize=9)
            grid[2].text(1.0, row, f"{p:.0%}", va="center", ha="right", fontsize=9, color=GREY)
        grid[2].set_title("most frequent sentence")
    grid[2].set_axis_off()
    for axes, bits, title in ((grid[3], laws.said, "said"), (grid[4], classes.meant, "meant")):
        extent = (0.5, bits.shape[1] + 0.5, rows - 0.5, -0.5)
        axes.imshow(
            bits[order].numpy(),
            cmap="gray",
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest",
            extent=extent,
        )
        axes.set_title(f"bits {title}")
        axes.set_xlabel("bit")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    for axes in grid[1:]:
        axes.spines[:].set_visible(False)
    add_scale(grid[4], image, "share with the token", shrink=min(1.0, 3 / height), aspect=14)
    return figure


def _draw_tree(
    axes: Axes, classes: Classes, shown: np.ndarray, place: np.ndarray, labels: list[str]
) -> None:
    depth, parents, red = classes.depth[shown], classes.parents[shown], classes.held_out[shown] > 0
    up = np.where(parents < 0, -1, place[parents])  # the root stands above the first row
    corners = np.stack(
        [
            np.stack([depth - 1, up], 1),
            np.stack([depth - 1, place], 1),
            np.stack([depth, place], 1),
        ],
        1,
    )
    axes.add_collection(LineCollection(list(corners), colors=GREY, linewidths=0.8, zorder=1))
    size = 26 if labels else 9
    axes.scatter([0], [-1], s=size, color=GREY, zorder=2)
    axes.scatter(depth[~red], place[~red], s=size, color=BLUE, linewidths=0, zorder=2)
    axes.scatter(depth[red], place[red], s=size, color=RED, marker="s", linewidths=0, zorder=2)
    room = 1.6 if labels else 0.3
    axes.set_xlim(-0.2, depth.max() + room)
    names = dict(enumerate(labels))
    for row, d in zip(place, depth, strict=True):
        axes.text(d + 0.2, row, names.get(int(row), ""), va="center", fontsize=8)
    axes.set_xticks(range(int(depth.max()) + 1))
    axes.set_yticks([])
    axes.set_xlabel("depth")
    axes.set_title("tree of classes")
    axes.spines[:].set_visible(False)
