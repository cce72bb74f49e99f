"""Which sentences are sampled of which class of bits."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors, Vectors, is_real
from plot_attractors.evaluation.sampling import (
    BITS,
    NUMBERS,
    kind_of_inputs,
    require_listed,
    sentence_distribution,
    states_at,
)
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


def measure_classes(run: Run, exemplars: int, draws: int, inputs: int) -> dict[str, Any]:
    """Tables of bits or numbers, by class: a node of a tree, a value of the first label, or all
    inputs.

    P(sentence | class) is the mean over inputs (`exemplars` of a node, or `inputs` in all) of
    P(s | z_T), read exactly off `draws` sampled end states (``sampler``).

    - ``sentences.csv``: the most frequent sentences of each class. ``tokens.csv``: P(token
      present | class).
    - ``summary.csv``: for each depth of the tree, means over classes of the number of tokens, the
      sampler's entropy, nats, and the share of the most frequent sentence (top); how many different
      sentences are most frequent.
    - ``classes.csv``, ``bits.npz``: the classes, and their bits as in the figure; other numbers
      are less their mean, in standard deviations.

    Raises ValueError for models without attractors, or with too many sentences to list.
    """
    model = require_listed(run.model)
    classes = _classes(run.data, exemplars, inputs)
    language, n = model.language, len(classes.names)
    states = states_at(model, model.encode(classes.x), draws, [model.steps])[0]
    sampler = _class_mean(sentence_distribution(model, states), classes.member, n)
    kind, bits, meant = kind_of_inputs(run), model.decoder(model.embeddings()).mean, classes.meant
    if kind == NUMBERS:  # of which only the real ones are standardised already
        centre, scale = classes.x.mean(0), classes.x.std(0).clamp(min=1e-6)
        bits, meant = (bits - centre) / scale, (meant - centre) / scale
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
    names = np.array([language.name(s) for s in model.sentences], dtype=object)
    return {
        "summary.csv": _summarise(classes, sampler, bags),
        "sentences.csv": table.loc[table.index.repeat(listed)].assign(
            rank=np.tile(np.arange(1, listed + 1), n),
            sentence=names[s],
            sampler=share.flatten().numpy(),
        ),
        "tokens.csv": each_token.assign(
            token=tokens * n,
            sampler=(sampler @ bags).flatten().numpy(),
        ),
        "classes.csv": table.assign(
            parent=classes.parents, inputs=torch.bincount(classes.member, minlength=n).numpy()
        ),
        "bits.npz": {
            "decoded": (sampler @ bits).numpy(),
            "meant": meant.numpy(),
            "groups": np.array(language.groups),
            "columns": np.array(getattr(run.data, "columns", ()), dtype=str),
            "real": np.array(kind != BITS),
        },
    }


def _classes(data: Any, exemplars: int, inputs: int) -> Classes:
    if isinstance(data, HierarchicalBinaryVectors):
        n = len(data.depths)
        member = torch.arange(n).repeat_interleave(exemplars)
        held_out = np.zeros(n, dtype=int)
        held_out[data.held_out_classes.numpy()] = 1
        return Classes(
            data.exemplars(member), member, list(data.class_names), data.depths.numpy(), held_out,
            data.parents.numpy(), data.prototypes,
        )  # fmt: skip
    batch = data.batch(inputs)
    x, member, names = batch.x, torch.zeros(inputs, dtype=torch.int64), ["all inputs"]
    if batch.labels.shape[1] and (not is_real(data) or data.features[0].categorical):
        known = batch.labels[:, 0] >= 0
        values, labelled = batch.labels[known, 0].unique(return_inverse=True)
        if len(values):
            x, member = x[known], labelled
            names = [str(v) for v in values.tolist()]
            if isinstance(data, BinaryTable | Vectors):
                names = [data.features[0].outcomes[v] for v in values.tolist()]
    none = np.zeros(len(names), dtype=int)
    meant = _class_mean(x, member, len(names))
    return Classes(x, member, names, none, none, none - 1, meant)


def _class_mean(values: Tensor, member: Tensor, classes: int) -> Tensor:
    """(N, C) means of the known values of each class, NaN where there is none; values (n, C),
    member (n,).
    """
    whole = torch.zeros(classes, values.shape[1])
    total = whole.index_add(0, member, values.nan_to_num())
    return total / whole.index_add(0, member, (~values.isnan()).float())


def _summarise(classes: Classes, sampler: Tensor, bags: Tensor) -> pd.DataFrame:
    top, best = sampler.max(-1)
    columns = {
        "length": sampler @ bags.sum(-1),
        "entropy": -torch.xlogy(sampler, sampler).sum(-1),
        "top": top,
        "best": best,
    }
    table = pd.DataFrame({name: column.numpy() for name, column in columns.items()})
    groups = table.groupby(classes.depth)
    summary = groups[["length", "entropy", "top"]].mean()
    summary.insert(0, "classes", groups.size())
    summary["distinct"] = groups["best"].nunique()
    depths = ["all classes" if depth == 0 else f"depth {depth}" for depth in summary.index]
    summary.insert(0, "group", depths)
    return summary
