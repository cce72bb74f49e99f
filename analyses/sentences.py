"""Which sentences describe which class of vectors, or which image, and what their tokens tell."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.analysis import sampling, shape
from plot_attractors.analysis.style import BLUE, GREY, LIGHT_GREY, RED, add_scale, plain
from plot_attractors.data import (
    Batch,
    BinaryTable,
    Feature,
    HierarchicalBinaryVectors,
    Labelled,
    Vectors,
)
from plot_attractors.language import Language
from plot_attractors.measures.bootstrap import Estimate, resample
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Size, setting
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Sentences"
CAPTIONS = {
    "sentences": (
        "Sentences of each class; names of a tree are its branches, L and R, and those that "
        "training did not show are red. Tokens: the share of sentences that hold each; tokens "
        "between two lines exclude each other. Then the sentence read most often, with its share."
    ),
    "images": (
        "Sentences of images, not chosen by hand. A row for each input: the input; what is decoded "
        "of its initial state z0; the sentences that were read most often at the ends of its "
        "trajectories, decoded, with their shares; and the best sentence, of the highest reward, "
        "with its probability in the posterior."
    ),
    "tokens": (
        "What each token stands for. Its share of the sentences that are read (blue) and of those "
        "drawn from the posterior (red). Mean change: decoded images of sentences with the token "
        "less those of the same sentences without it; grey is no change. Then examples. R²: the "
        "share of the variance of the token's presence that a feature of the input explains."
    ),
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    exemplars: Size = setting(16, "exemplars of a node of the tree")
    draws: Size = setting(16, "trajectories of each exemplar or row")
    inputs: Size = setting(2000, "rows of a table, or training images")
    held_out_inputs: Count = setting(500, "images of each other split")
    image_draws: Size = setting(64, "trajectories of each image")
    images: Size = setting(12, "training images in the figure, and about as many held out")


def _has_sentences(run: Run) -> bool:
    kind = sampling.kind_of_inputs(run)
    if kind == sampling.IMAGES:
        return bool(run.model.posterior.factored)
    vectors = kind in (sampling.BITS, sampling.REAL, sampling.NUMBERS)
    return vectors and sampling.is_listed(run.model)


NEEDS = shape.ATTRACTORS & shape.Needs(
    "images with a posterior that factors, or vectors with sentences that can be listed",
    _has_sentences,
)


# -- measures of vectors ---------------------------------------------------------------------------


TOP = 10  # sentences of each class in sentences.csv
IN_WORDS = 4  # columns that a token is told by, each way


class Classes(NamedTuple):
    """Inputs x (n, bits) with the class (n,) of each, and what is known of the N classes."""

    x: Tensor
    member: Tensor
    names: list[str]
    held_out: np.ndarray


def measure_classes(run: Run, exemplars: int, draws: int, inputs: int) -> dict[str, Any]:
    """Vectors by class: a node of a tree, a value of the first label, or all inputs.

    P(sentence | class) is the mean over inputs (`exemplars` of a node, or `inputs` in all) of
    P(s | z_T), read exactly off `draws` sampled end states (``sampler``).

    - ``summary.csv``: of each class whether it was held out and its number of inputs; of its
      sentences the mean number of tokens, the entropy, nats, and the share of the most frequent one
      (top).
    - ``sentences.csv``: the most frequent sentences of each class.
    - ``classes.npz``: P(token present | class).
    """
    model, language = run.model, run.model.language
    classes = _classes(run.data, exemplars, inputs)
    n = len(classes.names)
    states = sampling.states_at(model, model.encode(classes.x), draws, [model.steps])[0]
    p = sampling.sentence_distribution(model, states)
    inputs_of = torch.bincount(classes.member, minlength=n)
    sampler = torch.zeros(n, p.shape[1]).index_add(0, classes.member, p) / inputs_of[:, None]
    bags = model.sentences
    share, index = sampler.topk(min(TOP, len(bags)), -1)
    names = np.array([language.name(s) for s in model.sentences], dtype=object)
    summary = {
        "class": classes.names,
        "held_out": classes.held_out,
        "inputs": inputs_of.numpy(),
        "length": (sampler @ bags.sum(-1)).numpy(),
        "entropy": -torch.xlogy(sampler, sampler).sum(-1).numpy(),
        "top": share[:, 0].numpy(),
    }
    sentences = {
        "class": np.repeat(classes.names, index.shape[1]),
        "rank": np.tile(np.arange(1, index.shape[1] + 1), n),
        "sentence": names[index.flatten().numpy()],
        "sampler": share.flatten().numpy(),
    }
    return {
        "summary.csv": pd.DataFrame(summary),
        "sentences.csv": pd.DataFrame(sentences),
        "classes.npz": {
            "tokens": (sampler @ bags).numpy(),
            "groups": np.array(language.groups),
            "names": np.array([language.token_name(j) for j in range(language.tokens)]),
        },
    }


def _classes(data: Any, exemplars: int, inputs: int) -> Classes:
    if isinstance(data, HierarchicalBinaryVectors):
        n = len(data.depths)
        member = torch.arange(n).repeat_interleave(exemplars)
        held_out = np.zeros(n, dtype=int)
        held_out[data.held_out_classes.numpy()] = 1
        return Classes(data.exemplars(member), member, list(data.class_names), held_out)
    batch = data.batch(inputs)
    x, member, names = batch.x, torch.zeros(inputs, dtype=torch.int64), ["all inputs"]
    if batch.labels.shape[1] and data.features[0].categorical:
        value = data.feature_values(batch)[:, 0]
        known = ~value.isnan()
        if known.any():
            found, member = value[known].unique(return_inverse=True)
            x, names = x[known], [data.features[0].outcomes[int(v)] for v in found]
    return Classes(x, member, names, np.zeros(len(names), dtype=int))


def measure_rows(run: Run, draws: int, inputs: int) -> dict[str, pd.DataFrame]:
    """Tables of a `BinaryTable` or `Vectors`, of the first `inputs` rows, held-out ones included.

    P(s | x) is the mean of P(s | z_T), read exactly off `draws` end states of a row.

    - ``rows.csv`` (row, from 0; name; split; sentence, share; likeliest, probability): the sentence
      of the greatest mean P(s | z_T), and the likeliest sentence of the exact posterior.
    - ``tokens.csv`` (token, share, higher, lower): of training rows, mean P(token in the sentence |
      x), and the columns and values of labels that it raises and lowers, with the `difference`:
      those whose interval leaves out 0, the strongest first.
    """
    model, data, language = run.model, run.data, run.model.language
    rows, split = sampling.numbered_rows(data, inputs)
    x = data.rows(rows)
    encoding = model.encode(x)
    states = sampling.states_at(model, encoding, draws, [model.steps])[0]
    p = sampling.sentence_distribution(model, states)
    best, exact = p.max(-1), model.posterior.log_prob(encoding.distribution).exp().max(-1)
    listed = pd.DataFrame({
        "row": rows.numpy(), "name": sampling.row_names(data, rows), "split": split,
        "sentence": [language.name(model.sentences[k]) for k in best.indices],
        "share": best.values.numpy(),
        "likeliest": [language.name(model.sentences[k]) for k in exact.indices],
        "probability": exact.values.detach().numpy(),
    })  # fmt: skip

    trained = torch.tensor([name == "train" for name in split])
    rows, x, held = rows[trained], x[trained], (p @ model.sentences.to(p))[trained]
    values = data.feature_values(Batch(x, rows, data.labels[rows]))
    labels = [
        (column[:, None] == torch.arange(len(feature.outcomes))).float()
        for feature, column in zip(data.features, values.T, strict=True)
    ]
    names = [*data.columns, *(f"{f.name}={v}" for f in data.features for v in f.outcomes)]
    effects = difference(held, torch.cat([x, *labels], -1), resample(x))
    tokens = [
        {
            "token": language.token_name(j),
            "share": float(held[:, j].mean()),
            "higher": _in_words(names, value, low > 0),
            "lower": _in_words(names, -value, high < 0),
        }
        for j, (value, low, high) in enumerate(zip(*effects, strict=True))
    ]
    return {"rows.csv": listed, "tokens.csv": pd.DataFrame(tokens)}


def difference(held: Tensor, x: Tensor, times: Tensor) -> Estimate:
    r"""(tokens, C) mean of columns x (n, C) where a token is held, less that where it is not:

    .. math:: \frac{\sum_i p_i x_i + \bar x}{\sum_i p_i + 1}
        - \frac{\sum_i (1 - p_i) x_i + \bar x}{\sum_i (1 - p_i) + 1}, \quad p_i = P(w \mid x_i).

    An average row is added on either side, so that a token that is always there, or never, has 0.
    NaN are left out. held (n, tokens) is P(token in the sentence | x_i), times (resamples, n) of
    `resample` gives 95 % percentile intervals.

    Example:
        >>> held = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
        >>> difference(held, 2 * held - 1, torch.ones(1, 4)).value  # 2/3 less -2/3
        tensor([[1.3333]], dtype=torch.float64)
    """
    known, x = (~x.isnan()).double(), x.double().nan_to_num()

    def statistic(one: Tensor, weight: Tensor) -> Tensor:
        """(resamples, C) of one token (n,), at weights (resamples, n) of the rows."""
        n, whole, of_token = weight @ known, weight @ x, weight * one
        n_with, whole_with, mean = of_token @ known, of_token @ x, whole / n
        present = (whole_with + mean) / (n_with + 1)
        return present - (whole - whole_with + mean) / (n - n_with + 1)

    tokens, once = held.double().T, torch.ones(1, len(held)).double()
    levels = torch.tensor([0.025, 0.975]).double()
    bounds = [statistic(one, times.double()).quantile(levels, 0) for one in tokens]
    low, high = torch.stack(bounds, 1)
    return Estimate(torch.cat([statistic(one, once) for one in tokens]), low, high)


def _in_words(names: Sequence[str], strength: Tensor, known: Tensor) -> str:
    """For example "feathers (0.9), eggs (0.6)": the strongest of those that are known."""
    order = strength.masked_fill(~known, -torch.inf).argsort(descending=True)[:IN_WORDS].tolist()
    return ", ".join(f"{names[k]} ({abs(float(strength[k])):.1f})" for k in order if known[k])


# -- measures of images ----------------------------------------------------------------------------


SIMULATED = 4096  # trajectories simulated at once
READ = 4  # sentences of an input in the figure
LISTED = 10  # sentences of an input in the table
BINS = 8  # of equal counts, of a continuous feature
HOLDERS, EXAMPLES = 64, 4  # sentences with a token: of its mean change, and shown
MOST_TOKENS = 40  # in the figure


class Sampled(NamedTuple):
    """What a model samples of the B inputs of a split.

    - ``batch``: the inputs, and ``q`` their P(z0 | x), (B, d);
    - ``s``: (B, draws, width) sentences read off their trajectories;
    - ``posterior``: (B, draws, width) sentences drawn ∝ R(s; x), exactly;
    - ``best``: (B, width) the sentence of the highest reward;
    - ``log_z``: (B,) log Σ_s R(s; x), nats.
    """

    split: str
    batch: Batch
    q: Normal
    s: Tensor
    posterior: Tensor
    best: Tensor
    log_z: Tensor


def sample(model: AttractorModel, batch: Batch, split: str, draws: int) -> Sampled:
    """`draws` sentences of each input, off its trajectories and of its posterior, and its best."""
    s = torch.cat([model.describe(x, draws).s for x in batch.x.split(max(1, SIMULATED // draws))])
    q = model.encode(batch.x).distribution
    exact: Any = model.posterior(q)
    posterior = exact.sample(torch.Size([draws])).transpose(0, 1)
    return Sampled(split, batch, q, s, posterior, exact.mode, exact.log_z)


def measure_images(run: Run, config: Config) -> dict[str, Any]:
    """Tables of images: sentences of `inputs` training images and of `held_out_inputs` of each
    other split, read off trajectories (``sampler``) and drawn ∝ R(s; x) (``posterior``).

    - ``summary.csv``: of each split, means over inputs of the number of tokens, of the entropy,
      nats, from the shares of the draws, so not above log(draws), and of the share of the commonest
      sentence (top).
    - ``sentences.csv``, of the inputs in the figure: the sentences read most often and the best
      one: share of the draws, and probability in the posterior.
    - ``tokens.csv``: of training images, the share of sentences that hold a token, and R² of its
      presence on each feature, see `variance_explained`.
    - ``images.npz``, ``changes.npz``: the pictures in the figures.
    """
    model, data = run.model, run.data
    sampled = []
    for split in data.splits:
        batch = data.batch(config.inputs if split == "train" else config.held_out_inputs, split)
        sampled.append(sample(model, batch, split, config.image_draws))
    some = [config.images, *[max(1, config.images // (len(sampled) - 1)) for _ in sampled[1:]]]
    listed, images = [], {}
    for part, n in zip(sampled, some, strict=True):
        n = min(n, len(part.s))
        table, pictures = _show(model, part, n)
        listed.append(table)
        images[part.split] = _pixels(pictures)
        batch = Batch(*(values[:n] for values in part.batch))
        images[f"{part.split} labels"] = sampling.labels_of(data, batch)
    tokens = list_tokens(model.language, data, sampled[0])
    return {
        "summary.csv": pd.DataFrame([_summarise(model.language, part) for part in sampled]),
        "sentences.csv": pd.concat(listed),
        "tokens.csv": tokens,
        "images.npz": images,
        "changes.npz": _changes(model, sampled[0], tokens),
    }


def _summarise(language: Language, sample: Sampled) -> dict[str, Any]:
    """A row of ``summary.csv``."""
    key = language.key(sample.s)
    share = (key[:, :, None] == key[:, None]).float().mean(-1)  # of an input's draws, (B, draws)
    return {
        "split": sample.split,
        "inputs": len(key),
        "length": float(sample.s.sum(-1).mean()),
        "entropy": float(-share.log().mean()),
        "top": float(share.max(-1).values.mean()),
    }


def _rank(language: Language, s: Tensor) -> tuple[Tensor, Tensor]:
    """The n different sentences (n, width) among the draws s (draws, width) of an input, commonest
    first, and their shares (n,).
    """
    _, inverse, counts = language.key(s).unique(return_inverse=True, return_counts=True)
    first = torch.full((len(counts),), len(s))
    first = first.scatter_reduce(0, inverse, torch.arange(len(s)), "amin")
    order = counts.argsort(descending=True, stable=True)
    return s[first[order]], counts[order] / len(s)


def _show(model: AttractorModel, sample: Sampled, inputs: int) -> tuple[pd.DataFrame, Tensor]:
    """Rows of ``sentences.csv`` for the first inputs, and (inputs, 3 + READ, channels, side, side)
    images: the input, its reconstruction, the sentences read most often, decoded, and the best one.
    """
    language, q, parts = model.language, sample.q, []
    x, best = sample.batch.x[:inputs], sample.best[:inputs]
    images = [
        x,
        model.reconstruct(x).mean,
        *[torch.ones_like(x)] * READ,
        model.decoder(model.embed(best)).mean,
    ]
    pictures = torch.stack([part.cpu() for part in images], 1)
    for k in range(inputs):
        s, share = (part[:LISTED] for part in _rank(language, sample.s[k]))
        pictures[k, 2 : 2 + len(s[:READ])] = model.decoder(model.embed(s[:READ])).mean
        key = language.key(best[k])
        if not bool((language.key(s) == key).any()):
            drawn = (language.key(sample.s[k]) == key).float().mean()
            s, share = torch.cat([s, best[k, None]]), torch.cat([share, drawn[None]])
        log_reward = model.reward.log_pairs(Normal(q.loc[k : k + 1], q.scale[k : k + 1]), s)[0]
        part = {
            "split": sample.split,
            "input": k,
            "rank": range(1, len(s) + 1),
            "sentence": [language.name(row) for row in s],
            "sampler": share.numpy(),
            "posterior": (log_reward - sample.log_z[k]).exp().numpy(),
            "best": (language.key(s) == key).int().numpy(),
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts), pictures


def _pixels(images: Tensor) -> np.ndarray:
    """Images from 0 to 1 as bytes."""
    return (255 * images.detach().cpu().clamp(0, 1)).byte().numpy()


def variance_explained(p: Tensor, values: Tensor, feature: Feature) -> Tensor:
    r"""(K,) R² on a feature of the presence of each of K tokens.

    .. math:: R^2 = \sum_g \frac{n_g}{n} \frac{(p_g - \bar p)^2}{\bar p (1 - \bar p)}

    with p_g the mean over the n_g inputs of group g: the share of the variance of a token's
    indicator that the groups explain. Groups are the outcomes of a categorical feature, the values
    of a continuous one that has at most `BINS`, or `BINS` bins of equal counts. A token that tells
    nothing of the feature has (groups − 1) / n by chance. NaN for tokens always or never present.

    Args:
        p: (n, K) P(the token is present | input).
        values: (n,) of the feature, NaN where missing; such inputs are left out.
    """
    known = ~values.isnan()
    p, values = p[known].double(), values[known]
    if not len(p):
        return torch.full((p.shape[1],), torch.nan)
    different, group = values.unique(return_inverse=True)
    if not feature.categorical and len(different) > BINS:
        edges = values.quantile(torch.linspace(0, 1, BINS + 1)[1:-1].to(values)).unique()
        group = torch.bucketize(values, edges, right=True)
    n = torch.bincount(group).double()
    mean = p.mean(0)
    total = torch.zeros(len(n), p.shape[1], dtype=p.dtype).index_add_(0, group, p)
    of_group = total / n.clamp(min=1)[:, None]
    between = (n[:, None] * (of_group - mean).square()).sum(0) / len(p)
    variance = mean * (1 - mean)
    explained = (between / variance).clamp(max=1.0)
    return torch.where(variance > 1e-9, explained, torch.nan).float()


def list_tokens(language: Language, data: Labelled, sample: Sampled) -> pd.DataFrame:
    """Rows of ``tokens.csv``: (token, sampler, posterior), and R² on each feature."""
    present = sample.s.mean(1)  # (B, K)
    table = {
        "token": [language.token_name(j) for j in range(language.tokens)],
        "sampler": present.mean(0).numpy(),
        "posterior": sample.posterior.mean(1).mean(0).numpy(),
    }
    columns = data.feature_values(sample.batch).cpu().T
    for values, feature in zip(columns, data.features, strict=True):
        table[f"r2_{feature.name}"] = variance_explained(present, values, feature).numpy()
    return pd.DataFrame(table)


def token_change(model: AttractorModel, s: Tensor, token: int) -> tuple[Tensor, Tensor]:
    """What a token changes, by taking it away from different sentences s (n, width) that hold it.

    Returns the mean (channels, side, side), from −1 to 1, of decoded images with it minus without
    it, and examples (n, 2, channels, side, side) without it and with it.
    """
    language = model.language
    place = s.unflatten(-1, (-1, language.tokens))[..., token].argmax(-1)  # 0 in a bag
    without = language.without(s, place * language.tokens + token)
    decoded = model.decoder(model.embed(torch.stack([without, s], 1))).mean
    return (decoded[:, 1] - decoded[:, 0]).mean(0), decoded[:EXAMPLES]


def _changes(model: AttractorModel, sample: Sampled, tokens: pd.DataFrame) -> dict[str, np.ndarray]:
    """Of the tokens in use, ``mean`` (n, channels, side, side) change as strong as it can be shown,
    and ``examples`` (n, EXAMPLES, 2, channels, side, side), bytes; white where there are fewer.

    In use are those that are present more than a tenth as often as the average one; those of one
    feature stand together.
    """
    language = model.language
    s = sample.posterior.flatten(0, 1)
    s = s[np.unique(language.key(s).numpy(), return_index=True)[1]]
    s = s[torch.randperm(len(s))]
    held = s > 0
    shares = tokens[["sampler", "posterior"]]
    in_use = (shares > 0.1 * shares.mean()).any(axis=1) & held.any(0).numpy()
    part = tokens[in_use].nlargest(MOST_TOKENS, "sampler")
    r2 = part.filter(like="r2_").fillna(0.0).to_numpy()
    if r2.shape[1]:
        part = part.iloc[np.lexsort((-r2.max(1), r2.argmax(1)))]
    image = sample.batch.x.shape[1:]
    mean, examples = torch.ones(len(part), *image), torch.ones(len(part), EXAMPLES, 2, *image)
    for row, j in enumerate(part.index):
        change, shown = token_change(model, s[held[:, j]][:HOLDERS], j)
        mean[row] = 0.5 + change / (2 * max(0.05, float(change.abs().max())))
        examples[row, : len(shown)] = shown
    names = part["token"].to_numpy(dtype=str)
    return {"token": names, "mean": _pixels(mean), "examples": _pixels(examples)}


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of images (`measure_images`); or of classes of vectors (`measure_classes`), and of a
    table's rows and columns (`measure_rows`).
    """
    if sampling.kind_of_inputs(run) == sampling.IMAGES:
        return measure_images(run, config)
    tables = measure_classes(run, config.exemplars, config.draws, config.inputs)
    if isinstance(run.data, BinaryTable | Vectors):
        tables |= measure_rows(run, config.draws, config.inputs)
    return tables


# -- figures of vectors ----------------------------------------------------------------------------


MOST_CLASSES = 30  # in the figure, the largest: of a tree, its first four generations


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figures of images and their tokens, or of classes of vectors."""
    if "images.npz" in tables:
        images = draw_images(tables["sentences.csv"], tables["images.npz"])
        tokens = draw_tokens(tables["tokens.csv"], tables["changes.npz"])
        return {"images": images, "tokens": tokens}
    return {"sentences": draw_classes(tables)}


def draw_classes(tables: Mapping[str, Any]) -> Figure:
    """The figure ``sentences``."""
    classes, arrays = tables["summary.csv"], tables["classes.npz"]
    tokens = arrays["names"]
    order = classes.nlargest(MOST_CLASSES, "inputs").sort_values("class", kind="stable").index
    rows = len(order)
    height = max(3.0, 1.6 + 0.21 * rows)
    widths = [max(1.5, 0.22 * len(tokens)), 1.9]
    figure = Figure(figsize=(sum(widths) + 1.8, height), layout="constrained")
    share, often = figure.subplots(1, 2, sharey=True, width_ratios=widths)
    share.set_yticks(range(rows), [plain(str(classes["class"][k])) for k in order])
    for label, k in zip(share.get_yticklabels(), order, strict=True):
        label.set_color(RED if classes["held_out"][k] else "black")

    look: dict[str, Any] = {"vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
    image = share.imshow(arrays["tokens"][order], cmap="viridis", **look)
    starts = np.cumsum(arrays["groups"])[:-1] - 0.5
    share.vlines(starts, -0.5, rows - 0.5, color="white", linewidth=1.5)
    every = max(1, len(tokens) // 16)
    share.set_xticks(range(0, len(tokens), every), tokens[::every])
    share.set_title("tokens")
    top = tables["sentences.csv"][tables["sentences.csv"]["rank"] == 1].iloc[order]
    for row, (s, p) in enumerate(zip(top["sentence"], top["sampler"], strict=True)):
        often.text(0.0, row, plain(s, 22), va="center", fontsize=9)
        often.text(1.0, row, f"{p:.0%}", va="center", ha="right", fontsize=9, color=GREY)
    often.set_title("most frequent sentence")
    often.set_axis_off()
    share.tick_params(left=False)
    share.spines[:].set_visible(False)
    add_scale(often, image, "share with the token", shrink=min(1.0, 3 / height), aspect=14)
    return figure


# -- figures of images -----------------------------------------------------------------------------


LETTERS = 13  # of a sentence on a line, its dots among them
# inches: an image, its column and row, the heading, a margin; so that all stand where they belong
IMAGE, COLUMN, ROW, HEAD, MARGIN = 0.74, 0.88, 1.14, 0.5, 0.3
THUMB, LINE, CELL, GAP = 0.5, 0.56, 0.42, 0.14  # of tokens: an image, a row, a number of R²


def draw_images(sentences: pd.DataFrame, images: Mapping[str, np.ndarray]) -> Figure:
    """Of the first inputs of each split: the input, its reconstruction, the sentences read most
    often and the best one, decoded, in two columns of inputs.
    """
    inputs: list[Any] = list(sentences.groupby(["split", "input"], sort=False))
    down, best_at = -(-len(inputs) // 2), 2 + READ
    places = COLUMN * (np.arange(3 + READ) + np.repeat([0, 0.15, 0.3], [2, READ, 1]))
    width = places[-1] + COLUMN + MARGIN
    figure, axes = _canvas(2 * width, HEAD + ROW * down)
    centred: dict[str, Any] = {"ha": "center", "linespacing": 1.05}
    heads = {0: "input", 1: "decoded\nfrom z0", best_at: "best\nby reward"}
    for n, ((split, k), part) in enumerate(inputs):
        left, top = MARGIN + width * (n // down), HEAD + ROW * (n % down)
        often = part[(part["sampler"] > 0) & (part["rank"] <= READ)]
        best = part[part["best"] == 1].iloc[0]
        label = str(images[f"{split} labels"][k]).split("\n")
        texts = {0: "\n".join(plain(line, 14) for line in label), 1: ""}
        read = zip(often["sentence"], often["sampler"], strict=True)
        texts |= {2 + j: _text(*row) for j, row in enumerate(read)}
        texts[best_at] = _text(best["sentence"], best["posterior"])
        for j, text in texts.items():
            x = left + places[j]
            _place(axes, images[split][k, j], x, top, IMAGE)
            axes.text(x + IMAGE / 2, top + IMAGE + 0.03, text, fontsize=7.5, va="top", **centred)
            if n % down == 0 and j in heads:
                axes.text(x + IMAGE / 2, top - 0.08, heads[j], fontsize=8, va="bottom", **centred)
        if n % down == 0:
            middle = left + (places[2] + places[1 + READ] + IMAGE) / 2
            head = "sentences read most often"
            axes.text(middle, top - 0.08, head, fontsize=8, va="bottom", **centred)
        if k == 0 or n % down == 0:
            look: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "top"}
            axes.text(left - 0.05, top, split_name(split), fontsize=8, **look)
    return figure


def _text(sentence: str, share: float) -> str:
    """A sentence on one line, or on two where it is long, and its share."""
    lines = textwrap.wrap(sentence.replace("·", " "), LETTERS, max_lines=2, placeholder=" …")
    return "·\n".join(line.replace(" ", "·") for line in lines) + f"\n{share:.0%}"


def draw_tokens(tokens: pd.DataFrame, changes: Mapping[str, np.ndarray]) -> Figure:
    """For each token in use: its shares, what it changes in decoded images, and R² on features."""
    part = tokens.set_index("token").loc[list(changes["token"])]
    features = list(tokens.filter(like="r2_"))
    names = [plain(str(name).removeprefix("r2_")) for name in features]
    first = 1.75 + LINE + GAP  # of the examples
    last = first + changes["examples"].shape[1] * (2 * THUMB + GAP) + GAP
    head = max(0.75, 0.25 + 0.085 * max(map(len, names), default=0))
    figure, axes = _canvas(last + len(features) * CELL + GAP, head + LINE * len(part) + GAP)
    above: dict[str, Any] = {"fontsize": 8, "ha": "right", "va": "bottom"}
    shares = {"sampler": (0.95, BLUE), "posterior": (1.56, RED)}
    for source, (x, colour) in shares.items():
        axes.text(x, head - 0.1, f"share,\n{source}", color=colour, **above)
    axes.text(1.75 + THUMB, head - 0.1, "mean\nchange", **above)
    above["ha"] = "left"
    axes.text(first, head - 0.1, "sentences without the token, and with it, decoded", **above)
    for k, name in enumerate(names):
        x = last + CELL * (k + 0.5)
        axes.text(x, head - 0.08, f"R² {name}", fontsize=8, rotation=90, ha="center", va="bottom")
    for row, token in enumerate(part.index):
        numbers = part.loc[token]
        y = head + LINE * row
        axes.text(0.15, y + THUMB / 2, token, fontsize=11, va="center")
        for source, (x, colour) in shares.items():
            text = f"{numbers[source]:.0%}"
            axes.text(x, y + THUMB / 2, text, fontsize=8, ha="right", va="center", color=colour)
        _place(axes, changes["mean"][row], 1.75, y, THUMB)
        for k, pair in enumerate(changes["examples"][row]):
            if not (pair == 255).all():  # fewer sentences hold the token
                for j, image in enumerate(pair):
                    x = first + k * (2 * THUMB + GAP) + j * THUMB
                    _place(axes, image, x, y, THUMB)
        if features:
            _draw_explained(axes, numbers[features].to_numpy(float), last, y)
    return figure


def _draw_explained(axes: Axes, r2: np.ndarray, x: float, y: float) -> None:
    """The numbers of a token, with their upper left corner at x, y."""
    extent = (x, x + CELL * len(r2), y + THUMB, y)
    axes.imshow(r2[None], extent=extent, aspect="auto", cmap="Blues", vmin=0, vmax=1)
    for k, value in enumerate(r2.tolist()):
        text = "–" if value != value else f"{value:.2f}"
        ink = "white" if value > 0.55 else "black" if value >= 0.05 else GREY
        at = x + CELL * (k + 0.5), y + THUMB / 2
        axes.text(*at, text, fontsize=8, color=ink, ha="center", va="center")


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure with one pair of axes in inches, from its upper left corner."""
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_autoscale_on(False)
    axes.set(xlim=(0, width), ylim=(height, 0))
    return figure, axes


def _place(axes: Axes, image: np.ndarray, x: float, y: float, size: float) -> None:
    """Draw bytes (channels, side, side) in a grey frame, with the upper left corner at x, y."""
    pixels = np.moveaxis(np.broadcast_to(image, (3, *image.shape[1:])), 0, -1)
    axes.imshow(pixels, extent=(x, x + size, y + size, y), aspect="auto", interpolation="nearest")
    corners = [x, x + size, x + size, x, x], [y, y, y + size, y + size, y]
    axes.plot(*corners, color=LIGHT_GREY, linewidth=0.6, zorder=3)
