"""Which sentences are sampled of which class of bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors
from plot_attractors.evaluation.metrics.calibration import total_variation
from plot_attractors.evaluation.sampling import require_listed, sentence_distribution, states_at
from plot_attractors.model.attractor import AttractorModel

if TYPE_CHECKING:
    from plot_attractors.runs import Run

LISTED = 10  # sentences of each class in sentences.csv


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


def measure_classes(run: Run, exemplars: int, draws: int, inputs: int) -> dict[str, Any]:
    """Tables of bits, by class: a node of a tree, a value of a table's first label, or all inputs.

    P(sentence | class) is the mean over inputs (`exemplars` of a node, or `inputs` in all) of
    P(s | z_T), read exactly off `draws` sampled end states (``sampler``), and of the exact
    posterior (``exact``).

    - ``sentences.csv``: the most frequent sentences of each class; prototype: the node whose
      prototype is nearest to the bits decoded from ẑ_s. ``tokens.csv``: P(token present | class).
    - ``summary.csv``: for each depth of the tree, means over classes of the number of tokens, the
      sampler's entropy, nats, and the share of the most frequent sentence (top); how many different
      sentences are most frequent; the share that decodes to the class's own prototype (own), and to
      its own or an ancestor's (line); total variation from the posterior (tv).
    - ``classes.csv``, ``bits.npz``: the classes, and their bits as in the figure.

    Raises ValueError for models without attractors, or with too many sentences to list.
    """
    model = require_listed(run.model)
    classes = _classes(run.data, exemplars, inputs)
    language, n = model.language, len(classes.names)
    encoding = model.encode(classes.x)
    states = states_at(model, encoding, draws, [model.steps])[0]
    sampler = _class_mean(sentence_distribution(model, states), classes.member, n)
    exact = _class_mean(model.posterior.log_prob(encoding.distribution).exp(), classes.member, n)
    bits = torch.sigmoid(model.decoder(model.embeddings()).logits)
    nearest, differing = _nearest_prototypes(model, classes)
    bags = language.bag(model.sentences)
    of_class = {
        "class": range(n),
        "path": classes.names,
        "depth": classes.depth,
        "held_out": classes.held_out,
    }
    table = pd.DataFrame(of_class)
    tokens = [language.token_name(j) for j in range(language.tokens)]
    each_token = table[["class", "path"]].loc[table.index.repeat(len(tokens))]
    share, index = sampler.topk(min(LISTED, len(bags)), -1)
    listed = index.shape[1]
    s = index.flatten().numpy()
    prototypes = np.array([*classes.names, "root"], dtype=object)
    names = np.array([language.name(s) for s in model.sentences], dtype=object)
    return {
        "summary.csv": _summarise(classes, sampler, exact, bags, nearest),
        "sentences.csv": table.loc[table.index.repeat(listed)].assign(
            rank=np.tile(np.arange(1, listed + 1), n),
            sentence=names[s],
            sampler=share.flatten().numpy(),
            exact=exact.gather(1, index).flatten().numpy(),
            prototype="" if classes.prototypes is None else prototypes[nearest[s]],
            differing_bits=differing[s],
        ),
        "tokens.csv": each_token.assign(
            token=tokens * n,
            sampler=(sampler @ bags).flatten().numpy(),
            exact=(exact @ bags).flatten().numpy(),
        ),
        "classes.csv": table.assign(
            parent=classes.parents, inputs=torch.bincount(classes.member, minlength=n).numpy()
        ),
        "bits.npz": {
            "decoded": (sampler @ bits).numpy(),
            "meant": classes.meant.numpy(),
            "groups": np.array(language.groups),
        },
    }


def _classes(data: Any, exemplars: int, inputs: int) -> Classes:
    if isinstance(data, HierarchicalBinaryVectors):
        n = len(data.depths)
        member = torch.arange(n).repeat_interleave(exemplars)
        held_out = np.zeros(n, dtype=int)
        held_out[data.held_out_classes.numpy()] = 1
        prototypes = torch.cat([data.prototypes, torch.ones(1, data.bits)])
        return Classes(
            data.exemplars(member), member, list(data.class_names), data.depths.numpy(), held_out,
            data.parents.numpy(), data.prototypes, prototypes,
        )  # fmt: skip
    batch = data.batch(inputs)
    x, member, names = batch.x, torch.zeros(inputs, dtype=torch.int64), ["all inputs"]
    if batch.labels.shape[1]:
        known = batch.labels[:, 0] >= 0
        values, labelled = batch.labels[known, 0].unique(return_inverse=True)
        if len(values):
            x, member = x[known], labelled
            names = [str(v) for v in values.tolist()]
            if isinstance(data, BinaryTable):
                names = [data.features[0].outcomes[v] for v in values.tolist()]
    none = np.zeros(len(names), dtype=int)
    meant = _class_mean(x, member, len(names))
    return Classes(x, member, names, none, none, none - 1, meant, None)


def _class_mean(values: Tensor, member: Tensor, classes: int) -> Tensor:
    """(N, ...) the mean of the rows of each class; values (n, ...), member (n,)."""
    total = torch.zeros(classes, values.shape[1]).index_add_(0, member, values)
    return total / torch.bincount(member, minlength=classes).clamp(min=1)[:, None]


def _nearest_prototypes(model: AttractorModel, classes: Classes) -> tuple[np.ndarray, np.ndarray]:
    """(S,) the class whose prototype is nearest to the bits decoded from ẑ_s (N: the root), and
    their distance.
    """
    if classes.prototypes is None:
        return np.full(len(model.sentences), -1), np.full(len(model.sentences), np.nan)
    bits = (model.decoder(model.embeddings()).logits > 0).float()
    differing, nearest = torch.cdist(bits, classes.prototypes, p=1).min(-1)
    return nearest.numpy(), differing.numpy().astype(int)


def _summarise(
    classes: Classes, sampler: Tensor, exact: Tensor, bags: Tensor, nearest: np.ndarray
) -> pd.DataFrame:
    n = len(classes.names)
    top, best = sampler.max(-1)
    columns = {
        "length": sampler @ bags.sum(-1),
        "entropy": -torch.xlogy(sampler, sampler).sum(-1),
        "top": top,
        "best": best,
        "own": torch.full((n,), torch.nan, dtype=torch.float64),
        "line": torch.full((n,), torch.nan, dtype=torch.float64),
        "tv": total_variation(sampler, exact),
    }
    if classes.prototypes is not None:
        by_prototype = torch.zeros(n, n + 1).index_add_(1, torch.from_numpy(nearest), sampler)
        line = torch.eye(n, n + 1)
        for node, parent in enumerate(classes.parents.tolist()):  # parents come first
            line[node] += line[parent] if parent >= 0 else torch.eye(n + 1)[n]
        columns |= {"own": by_prototype.diagonal(), "line": (by_prototype * line).sum(-1)}
    table = pd.DataFrame({name: column.numpy() for name, column in columns.items()})
    groups = table.groupby(classes.depth)
    summary = groups[["length", "entropy", "top"]].mean()
    summary.insert(0, "classes", groups.size())
    summary["distinct"] = groups["best"].nunique()
    summary = summary.join(groups[["own", "line", "tv"]].mean())
    depths = ["all classes" if depth == 0 else f"depth {depth}" for depth in summary.index]
    summary.insert(0, "group", depths)
    return summary
