"""Which sentences describe which image, and what each token stands for."""

from __future__ import annotations

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

from plot_attractors.analysis.sampling import (
    IMAGES,
    search_sentences,
)
from plot_attractors.analysis.shape import ATTRACTORS, needs_inputs
from plot_attractors.analysis.style import BLUE, GREY, LIGHT_GREY, RED, plain
from plot_attractors.data import Batch, Feature, Labelled
from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Size, setting
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Sentences of images"
CAPTIONS = {
    "images": (
        "Sentences of images. A row for each input: the input; what the decoder makes of its "
        "initial state z0, before the dynamics; the sentences that were read most often at the "
        "ends of its trajectories, decoded, with their shares; and the best sentence, of the "
        "highest reward, with its probability in the posterior. A good sampler reads the best "
        "sentences of an input most often, and they look like the input. Inputs of training stand "
        "left, held-out ones right; none was chosen by hand."
    ),
    "tokens": (
        "What each token stands for. Its share of the sentences that are read (blue) "
        "and of those drawn from the posterior (red). Mean change: decoded images of sentences "
        "with the token minus those of the same sentences without it, on average; grey is no "
        "change, and each is as strong as it can be shown. Then examples: a sentence without the "
        "token, and beside it with the token. R²: the share of the variance of the token's "
        "presence that a feature of the input explains; 1 means that the feature alone decides, 0 "
        "that it does not matter by itself. Tokens that one feature explains best stand together."
    ),
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    inputs: Size = setting(2000, "training images")
    held_out_inputs: Count = setting(500, "inputs of each other split")
    draws: Size = setting(64, "trajectories of each image")
    images: Size = setting(12, "training images in the figure, and about as many held out")


NEEDS = ATTRACTORS & needs_inputs(IMAGES)


# -- measures --------------------------------------------------------------------------------------


BEAMS, KEPT = 32, 256  # of the search for best sentences, where the posterior does not factor
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
    - ``posterior``: (B, draws, width) sentences drawn ∝ R(s; x), exactly where the posterior
      factors, else among the best that a beam search visited;
    - ``best``: (B, width) the sentence of the highest reward, of all or of those visited;
    - ``log_z``: (B,) log Σ_s R(s; x), nats, over all sentences or those visited.
    """

    split: str
    batch: Batch
    q: Normal
    s: Tensor
    posterior: Tensor
    best: Tensor
    log_z: Tensor


@torch.no_grad()
def sample(model: AttractorModel, batch: Batch, split: str, draws: int) -> Sampled:
    """`draws` sentences of each input, off its trajectories and of its posterior, and its best."""
    s = torch.cat([model.describe(x, draws).s for x in batch.x.split(max(1, SIMULATED // draws))])
    q = model.encode(batch.x).distribution
    if model.posterior.factored:
        exact = model.posterior(q)
        assert isinstance(exact, FactoredSentences)
        posterior = exact.sample(torch.Size([draws])).transpose(0, 1)
        return Sampled(split, batch, q, s, posterior, exact.mode, exact.log_z)
    best = search_sentences(model, q, BEAMS, KEPT)
    posterior = torch.stack([best.sample() for _ in range(draws)], 1)
    return Sampled(split, batch, q, s, posterior, best.s[:, 0], best.log_z)


def _shares(language: Language, s: Tensor) -> Tensor:
    """(B, draws) the share of an input's draws that are the same sentence; s (B, draws, width)."""
    key = language.key(s)
    return (key[:, :, None] == key[:, None]).float().mean(-1)


def _summarise(model: AttractorModel, sample: Sampled) -> dict[str, Any]:
    """A row of ``summary.csv``."""
    x, s, best, drawn, q = sample.batch.x, sample.s, sample.best, sample.posterior, sample.q
    language, share = model.language, _shares(model.language, s)
    each = Normal(q.loc[:, None], q.scale[:, None])
    decoded = {
        "rmse_reconstruction": model.reconstruct(x).mean,
        "rmse_sentence": model.decoder(model.embed(s[:, 0])).mean,
        "rmse_best": model.decoder(model.embed(best)).mean,
    }
    return {
        "split": sample.split,
        "inputs": len(x),
        "draws": s.shape[1],
        "length": float(language.length(s).mean()),
        "length_posterior": float(language.length(drawn).mean()),
        "entropy": float(-share.log().mean()),
        "entropy_posterior": float(
            (sample.log_z[:, None] - model.reward(each, None, drawn)).mean()
        ),
        "top": float(share.max(-1).values.mean()),
        "distinct": len(language.key(s).unique()),
        "log_reward": float(model.reward(q, None, s[:, 0]).mean()),
        "log_reward_best": float(model.reward(q, None, best).mean()),
        **{name: float((y - x).square().mean().sqrt()) for name, y in decoded.items()},
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


def _list_sentences(model: AttractorModel, sample: Sampled, inputs: int) -> pd.DataFrame:
    """Rows of ``sentences.csv`` for the first inputs."""
    language, q, parts = model.language, sample.q, []
    for k in range(inputs):
        best = sample.best[k : k + 1]
        s, share = (part[:LISTED] for part in _rank(language, sample.s[k]))
        if not bool((language.key(s) == language.key(best)).any()):
            drawn = (language.key(sample.s[k]) == language.key(best)).float().mean()
            s, share = torch.cat([s, best]), torch.cat([share, drawn[None]])
        log_reward = model.reward.log_pairs(Normal(q.loc[k : k + 1], q.scale[k : k + 1]), s)[0]
        part = {
            "split": sample.split,
            "input": k,
            "row": int(sample.batch.y[k]),
            "rank": range(1, len(s) + 1),
            "sentence": [language.name(row) for row in s],
            "sampler": share.numpy(),
            "posterior": (log_reward - sample.log_z[k]).exp().numpy(),
            "log_reward": log_reward.numpy(),
            "best": (language.key(s) == language.key(best)).int().numpy(),
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts)


def _pixels(images: Tensor) -> np.ndarray:
    """Images from 0 to 1 as bytes."""
    return (255 * images.detach().cpu().clamp(0, 1)).byte().numpy()


def _decode(model: AttractorModel, sample: Sampled, inputs: int) -> np.ndarray:
    """(inputs, 3 + READ, channels, side, side) bytes: the input, its reconstruction, the best
    sentence, and the sentences read most often, white where there are fewer.
    """
    x = sample.batch.x[:inputs]
    best = model.decoder(model.embed(sample.best[:inputs])).mean
    columns = [x, model.reconstruct(x).mean, best, *[torch.ones_like(x)] * READ]
    pictures = torch.stack([part.cpu() for part in columns], 1)
    for k in range(inputs):
        s = _rank(model.language, sample.s[k])[0][:READ]
        pictures[k, 3 : 3 + len(s)] = model.decoder(model.embed(s)).mean
    return _pixels(pictures)


def _labels(data: Labelled, batch: Batch, inputs: int) -> np.ndarray:
    """The first two categorical features of the first inputs, in lines of one text each."""
    named = [(k, f) for k, f in enumerate(data.features) if f.categorical][:2]
    rows = data.feature_values(batch)[:inputs].tolist()
    return np.array(
        ["\n".join(f.outcomes[int(row[k])] for k, f in named if row[k] == row[k]) for row in rows]
    )


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


class Tokens(NamedTuple):
    """Share (sources, K) of the sentences of each source with each of K tokens; R² (sources, K, F)
    on F features.
    """

    share: Tensor
    explained: Tensor
    features: tuple[Feature, ...]


def count_tokens(model: AttractorModel, data: Labelled, sample: Sampled) -> Tokens:
    """How often each token is present, and what it depends on."""
    bag = model.language.bag
    present = bag(sample.s).mean(1), bag(sample.posterior).mean(1)  # (B, K) each
    features = data.features
    explained = torch.empty(len(present), model.language.tokens, len(features))
    columns = data.feature_values(sample.batch).cpu().T
    for j, (values, feature) in enumerate(zip(columns, features, strict=True)):
        for k, p in enumerate(present):
            explained[k, :, j] = variance_explained(p, values, feature)
    return Tokens(torch.stack([p.mean(0) for p in present]), explained, features)


def list_tokens(language: Language, tokens: Tokens) -> pd.DataFrame:
    """Rows of ``tokens.csv``: (token, source, share), and R² on each feature."""
    parts = []
    for source, share, explained in zip(SOURCES, tokens.share, tokens.explained, strict=True):
        part = {
            "token": [language.token_name(j) for j in range(language.tokens)],
            "source": source,
            "share": share.numpy(),
        }
        part |= {f"r2_{f.name}": explained[:, j].numpy() for j, f in enumerate(tokens.features)}
        parts.append(pd.DataFrame(part))
    return pd.concat(parts)


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


def _changes(model: AttractorModel, sample: Sampled, tokens: Tokens) -> dict[str, np.ndarray]:
    """Of the tokens in use, ``mean`` (n, channels, side, side) change as strong as it can be shown,
    and ``examples`` (n, EXAMPLES, 2, channels, side, side), bytes; white where there are fewer.
    """
    language = model.language
    s = sample.posterior.flatten(0, 1)
    s = s[np.unique(language.key(s).numpy(), return_index=True)[1]]
    s = s[torch.randperm(len(s))]
    held = language.bag(s) > 0
    in_use = _in_use(tokens, held)
    shape = sample.batch.x.shape[1:]
    mean, examples = torch.ones(len(in_use), *shape), torch.ones(len(in_use), EXAMPLES, 2, *shape)
    for row, j in enumerate(in_use.tolist()):
        change, shown = token_change(model, s[held[:, j]][:HOLDERS], j)
        mean[row] = 0.5 + change / (2 * max(0.05, float(change.abs().max())))
        examples[row, : len(shown)] = shown
    names = np.array([language.token_name(j) for j in in_use.tolist()], dtype=str)
    return {"token": names, "mean": _pixels(mean), "examples": _pixels(examples)}


def _in_use(tokens: Tokens, held: Tensor) -> Tensor:
    """Tokens that are present more than a tenth as often as the average one, those of one feature
    together.
    """
    enough = (tokens.share > 0.1 * tokens.share.mean(-1, keepdim=True)).any(0) & held.any(0)
    j = enough.nonzero().flatten()
    j = j[tokens.share[1, j].argsort(descending=True)][:MOST_TOKENS]
    if tokens.features:
        r2, feature = tokens.explained[1, j].nan_to_num().max(-1)
        j = j[torch.from_numpy(np.lexsort((-r2.numpy(), feature.numpy())))]
    return j


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of images: `draws` sentences of `inputs` training images and of `held_out_inputs` of
    each other split, read off trajectories (``sampler``) and drawn ∝ R(s; x) (``posterior``).

    - ``sentences.csv``, of the inputs in the figure: the sentences read most often and the best
      one: share of the draws, probability, log R(s; x), nats; row: in the data set.
    - ``tokens.csv``: the share of the source's sentences of training inputs that hold a token, and
      R² of its presence on each feature, see `variance_explained`.
    - ``summary.csv``: means over inputs of the number of tokens; of the entropy, nats, of the
      sampler, estimated from the shares of its draws, so not above log(draws), and of the
      posterior; the share of the commonest sentence; how many different sentences in all; mean
      log R of a sentence and of the best one; root mean squared error of a pixel (0 to 1) as
      decoded from z0, from a sentence, and from the best one.
    - ``images.npz``, ``changes.npz``: the pictures in the figures.

    Raises ValueError for models without attractors.
    """
    model, data = run.model, run.data
    sampled = []
    for split in data.splits:
        batch = data.batch(config.inputs if split == "train" else config.held_out_inputs, split)
        sampled.append(sample(model, batch, split, config.draws))
    others = len(sampled) - 1  # their headings take the room of some images
    shown = [
        config.images,
        *[max(1, (config.images - max(others - 1, 0)) // others) for _ in sampled[1:]],
    ]
    pairs = [(part, min(n, len(part.s))) for part, n in zip(sampled, shown, strict=True)]
    pictures = {part.split: _decode(model, part, n) for part, n in pairs}
    labels = {f"{part.split} labels": _labels(data, part.batch, n) for part, n in pairs}
    tokens = count_tokens(model, data, sampled[0])
    return {
        "summary.csv": pd.DataFrame([_summarise(model, part) for part in sampled]),
        "sentences.csv": pd.concat([_list_sentences(model, part, n) for part, n in pairs]),
        "images.npz": pictures | labels,
        "tokens.csv": list_tokens(model.language, tokens),
        "changes.npz": _changes(model, sampled[0], tokens),
    }


# -- figures ---------------------------------------------------------------------------------------


LETTERS = 11  # of a sentence on a line, with room for its dots
MOST_FEATURES = 8  # in the figure of tokens
TITLES = {"train": "Training", "held_out": "Held out"}  # images need not have classes
SOURCES = {"sampler": BLUE, "posterior": RED}


# inches: an image, its column and row, the heading, a gap; so that all stand where they belong
IMAGE, COLUMN, ROW, HEAD, GAP = 0.74, 0.88, 1.12, 0.78, 0.14
THUMB, LINE, CELL = 0.5, 0.56, 0.42  # of tokens: an image, a row, a field of the heat maps
SHARES, START = (0.95, 1.56), 1.75  # where the columns of shares end, and the images start


def draw_images(sentences: pd.DataFrame, images: Mapping[str, np.ndarray]) -> Figure:
    """For the first inputs of each split: the input, its reconstruction, the sentences read most
    often and the best one, decoded. The first split stands on the left, the others on the right.
    """
    splits = list(sentences["split"].unique())
    read = images[splits[0]].shape[1] - 3
    block = (3 + read) * COLUMN + 2 * GAP
    sides = [side for side in (splits[:1], splits[1:]) if side]
    heights = [sum(HEAD + ROW * len(images[split]) for split in side) for side in sides]
    width, height = (block + 2 * GAP) * len(sides), max(heights) + GAP
    figure, axes = _canvas(width, height)
    for k, side in enumerate(sides):
        y = GAP / 2
        for split in side:
            part, labels = sentences[sentences["split"] == split], images[f"{split} labels"]
            title = TITLES.get(split) or split_name(split).capitalize()
            _draw_split(axes, title, part, images[split], labels, GAP + k * (block + 2 * GAP), y)
            y += HEAD + ROW * len(images[split])
    return figure


def _draw_split(
    axes: Axes,
    title: str,
    sentences: pd.DataFrame,
    images: np.ndarray,
    labels: np.ndarray,
    x: float,
    y: float,
) -> None:
    """Draw the inputs of a split with the upper left corner at x, y."""
    axes.text(x, y + 0.2, title, fontsize=11)
    read = images.shape[1] - 3
    gaps = GAP * np.repeat([0, 1, 2], [2, read, 1])
    across = x + COLUMN * np.arange(3 + read) + gaps + (COLUMN - IMAGE) / 2
    centres = across + IMAGE / 2
    below: dict[str, Any] = {"fontsize": 8, "ha": "center", "va": "bottom"}
    heads = {
        "input": centres[0],
        "decoded\nfrom z0": centres[1],
        "sentences read most often": (across[2] + across[1 + read] + IMAGE) / 2,
        "best\nby reward": centres[-1],
    }
    for text, centre in heads.items():
        axes.text(centre, y + HEAD - 0.08, text, **below)
    for k, (_, part) in enumerate(sentences.groupby("input")):
        best = part[part["best"] == 1].iloc[0]
        often = part[(part["sampler"] > 0) & (part["rank"] <= read)]
        label = "\n".join(plain(line, 14) for line in str(labels[k]).split("\n"))
        shown = [
            (0, 0, label),
            (1, 1, ""),
            (2 + read, 2, _text(best["sentence"], best["posterior"])),
        ]
        for j, (s, share) in enumerate(zip(often["sentence"], often["sampler"], strict=True)):
            shown.append((2 + j, 3 + j, _text(s, share)))
        top = y + HEAD + ROW * k
        for column, image, text in shown:
            _place(axes, images[k, image], across[column], top, IMAGE)
            axes.text(
                centres[column], top + IMAGE + 0.03, text, fontsize=7.5, ha="center", va="top",
                linespacing=1.05,
            )  # fmt: skip


def _text(sentence: str, share: float) -> str:
    return f"{_lines(sentence)}\n{share:.0%}"


def _lines(name: str) -> str:
    """A sentence on one line, or on two where it is long, cut off where it is longer still."""

    def fits(tokens: list[str]) -> bool:  # a dot takes half the room of a letter
        return len("".join(tokens)) + len(tokens) / 2 <= LETTERS

    lines, tokens = [], name.split("·")
    while tokens:
        n = max(1, sum(fits(tokens[:k]) for k in range(1, len(tokens) + 1)))
        lines.append("·".join(tokens[:n]))
        tokens = tokens[n:]
    return "·\n".join(lines[:2]) + ("…" if len(lines) > 2 else "")


def draw_changes(tokens: pd.DataFrame, changes: Mapping[str, np.ndarray]) -> Figure:
    """For each token in use: its share, what it changes in decoded images, and R² on features."""
    in_use = list(changes["token"])
    by_source = {
        source: tokens[tokens["source"] == source].set_index("token") for source in SOURCES
    }
    features = _most_explained(tokens.filter(like="r2_"))
    names = [plain(name.removeprefix("r2_")) for name in features]
    examples = changes["examples"].shape[1]
    x_examples = START + LINE + GAP
    x = x_examples + examples * (2 * THUMB + GAP) + GAP
    head = max(0.95, 0.45 + 0.085 * max(map(len, names), default=0))
    width = x + len(SOURCES) * (len(features) * CELL + 2 * GAP)
    figure, axes = _canvas(width, head + LINE * len(in_use) + GAP)
    above: dict[str, Any] = {"fontsize": 8, "ha": "center", "va": "bottom"}
    axes.text(START / 2, head - 0.32, "share of sentences", **above)
    axes.text(START + THUMB / 2, head - 0.1, "mean\nchange", **above)
    middle = x_examples + examples * (THUMB + GAP / 2)
    axes.text(middle, head - 0.1, "sentences without the token, and with it", **above)
    for (source, colour), at in zip(SOURCES.items(), SHARES, strict=True):
        axes.text(at, head - 0.1, source, color=colour, **above | {"ha": "right"})
    for row, token in enumerate(in_use):
        y = head + LINE * row
        axes.text(0.15, y + THUMB / 2, token, fontsize=11, va="center")
        for (source, colour), at in zip(SOURCES.items(), SHARES, strict=True):
            share = f"{by_source[source]['share'][token]:.0%}"
            axes.text(at, y + THUMB / 2, share, fontsize=8, ha="right", va="center", color=colour)
        _place(axes, changes["mean"][row], START, y, THUMB)
        for k, pair in enumerate(changes["examples"][row]):
            at = x_examples + k * (2 * THUMB + GAP)
            if not (pair == 255).all():  # fewer sentences hold the token
                _place(axes, pair[0], at, y, THUMB)
                _place(axes, pair[1], at + THUMB, y, THUMB)
    for source, colour in SOURCES.items() if features else ():
        r2 = by_source[source].loc[in_use, features].to_numpy()
        _draw_explained(axes, r2, names, x, head)
        middle = x + len(features) * CELL / 2
        axes.text(middle, 0.12, f"R², {source}", color=colour, **above | {"va": "top"})
        x += len(features) * CELL + 2 * GAP
    return figure


def _most_explained(r2: pd.DataFrame) -> list[str]:
    """Features of the heat map, in their order: those that explain a token best, where many."""
    most = r2.fillna(0).max().sort_values(ascending=False, kind="stable")[:MOST_FEATURES]
    return [name for name in r2.columns if name in most.index]


def _draw_explained(axes: Axes, r2: np.ndarray, names: Sequence[str], x: float, y: float) -> None:
    centred: dict[str, Any] = {"ha": "center", "va": "center"}
    for row, values in enumerate(r2):
        top = y + LINE * row
        axes.imshow(
            values[None], extent=(x, x + CELL * len(names), top + THUMB, top), aspect="auto",
            cmap="Blues", vmin=0, vmax=1, interpolation="nearest",
        )  # fmt: skip
        for k, value in enumerate(values.tolist()):
            text = "–" if value != value else f"{value:.2f}"
            ink = "white" if value > 0.55 else "black" if value >= 0.05 else GREY
            at = x + CELL * (k + 0.5), top + THUMB / 2
            axes.text(*at, text, fontsize=7, color=ink, **centred)
    for k, name in enumerate(names):
        at = x + CELL * (k + 0.5), y - 0.08
        axes.text(*at, name, fontsize=8, rotation=90, ha="center", va="bottom")


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


def draw(tables: dict[str, Any]) -> dict[str, Any]:
    """The figures ``images`` and ``tokens``."""
    images = draw_images(tables["sentences.csv"], tables["images.npz"])
    tokens = draw_changes(tables["tokens.csv"], tables["changes.npz"])
    return {"images": images, "tokens": tokens}
