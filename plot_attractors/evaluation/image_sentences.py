"""What sentences say of images: the sentences of an input, decoded, and what each token
stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.data import Batch, Feature, Labelled
from plot_attractors.evaluation.sampling import best_sentences
from plot_attractors.language import Language
from plot_attractors.language.factored import FactoredSentences
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.style import BLUE, GREY, LIGHT_GREY, RED, SPLIT_NAMES, plain

__all__ = [
    "Said",
    "Tokens",
    "count_tokens",
    "draw_images_and_sentences",
    "draw_tokens",
    "list_sentences",
    "list_tokens",
    "say",
    "summarise",
    "variance_explained",
]

BEAMS, KEPT = (
    32,
    256,
)  # of the beam search for an input's best sentences, where its posterior does not factor
SIMULATED = 4096  # trajectories simulated at once
READ = 4  # sentences of an input in the figure
LISTED = 10  # sentences of an input in the table
BINS = 8  # of equal counts, of a continuous feature
HOLDERS, EXAMPLES = (
    64,
    4,
)  # sentences with a token that its mean change is of, and those that are shown
LETTERS = 11  # of a sentence on a line, with room for its dots
MOST_TOKENS, MOST_FEATURES = 40, 8  # in the figure
TITLES = {
    "train": "Training",
    "held_out": "Held out",
}  # of parts of a figure; images need not have classes
SOURCES = ("sampler", "posterior")
SOURCE_COLOURS = {"sampler": BLUE, "posterior": RED}


class Said(NamedTuple):
    """What a model says of the B inputs of a split.

    - ``batch``: the inputs, and ``q`` their P(z0 | x), (B, d);
    - ``s``: (B, draws, width) sentences read off their trajectories;
    - ``posterior``: (B, draws, width) sentences drawn ∝ R(s; x), exactly where the posterior
      factors, else among the best that a beam search met;
    - ``best``: (B, width) the sentence of the highest reward, of all or of those met;
    - ``log_z``: (B,) log Σ_s R(s; x), nats, over all sentences or those met.
    """

    split: str
    batch: Batch
    q: Normal
    s: Tensor
    posterior: Tensor
    best: Tensor
    log_z: Tensor


class Tokens(NamedTuple):
    """Of the K tokens: their share (sources, K) of the sentences of each source, R² (sources, K, F)
    on F features.
    """

    share: Tensor
    explained: Tensor
    features: tuple[Feature, ...]


@torch.no_grad()
def say(model: AttractorModel, batch: Batch, split: str, draws: int) -> Said:
    """`draws` sentences of each input of a batch, read off its trajectories and drawn from its
    posterior; its best.
    """
    s = torch.cat([model.describe(x, draws).s for x in batch.x.split(max(1, SIMULATED // draws))])
    q = model.encode(batch.x).distribution
    if model.factored:
        law = model.posterior(q)
        assert isinstance(law, FactoredSentences)
        return Said(
            split, batch, q, s, law.sample(torch.Size([draws])).transpose(0, 1), law.mode, law.log_z
        )
    found = best_sentences(model, q, BEAMS, KEPT)
    posterior = torch.stack([found.sample() for _ in range(draws)], 1)
    return Said(split, batch, q, s, posterior, found.s[:, 0], found.log_z)


def _shares(language: Language, s: Tensor) -> Tensor:
    """(B, draws) the share of an input's draws that are the same sentence; s (B, draws, width)."""
    key = language.key(s)
    return (key[:, :, None] == key[:, None]).float().mean(-1)


@torch.no_grad()
def summarise(model: AttractorModel, said: Said) -> dict[str, Any]:
    """A row of ``summary.csv``, see the analysis ``sentences``."""
    x, s, best, drawn = said.batch.x, said.s, said.best, said.posterior
    language, share = model.language, _shares(model.language, s)
    q = said.q
    each = Normal(q.loc[:, None], q.scale[:, None])
    decoded = {
        "rmse_reconstruction": model.reconstruct(x).mean,
        "rmse_sentence": model.decoder(model.embed(s[:, 0])).mean,
        "rmse_best": model.decoder(model.embed(best)).mean,
    }
    return {
        "split": said.split,
        "inputs": len(x),
        "draws": s.shape[1],
        "length": float(language.length(s).mean()),
        "length_posterior": float(language.length(drawn).mean()),
        "entropy": float(-share.log().mean()),
        "entropy_posterior": float((said.log_z[:, None] - model.log_reward(each, drawn)).mean()),
        "top": float(share.max(-1).values.mean()),
        "distinct": len(language.key(s).unique()),
        "log_reward": float(model.log_reward(q, s[:, 0]).mean()),
        "log_reward_best": float(model.log_reward(q, best).mean()),
        **{name: float((y - x).square().mean().sqrt()) for name, y in decoded.items()},
    }


class Ranked(NamedTuple):
    """The n different sentences drawn of an input, commonest first: s (n, width), shares (n,) of
    its draws.
    """

    s: Tensor
    share: Tensor


def _rank(language: Language, s: Tensor) -> Ranked:
    """Of the draws s (draws, width) of one input."""
    _, inverse, counts = language.key(s).unique(return_inverse=True, return_counts=True)
    first = torch.full((len(counts),), len(s)).scatter_reduce(
        0, inverse, torch.arange(len(s)), "amin"
    )
    order = counts.argsort(descending=True, stable=True)
    return Ranked(s[first[order]], counts[order] / len(s))


@torch.no_grad()
def list_sentences(model: AttractorModel, said: Said, inputs: int) -> pd.DataFrame:
    """Rows of ``sentences.csv`` for the first `inputs` inputs, see the analysis ``sentences``."""
    language, q, parts = model.language, said.q, []
    for k in range(min(inputs, len(q.loc))):
        ranked, best = _rank(language, said.s[k]), said.best[k : k + 1]
        s, share = ranked.s[:LISTED], ranked.share[:LISTED]
        if not bool((language.key(s) == language.key(best)).any()):
            drawn = (language.key(said.s[k]) == language.key(best)).float().mean()
            s, share = torch.cat([s, best]), torch.cat([share, drawn[None]])
        log_reward = model.log_rewards(Normal(q.loc[k : k + 1], q.scale[k : k + 1]), s)[0]
        part = {
            "split": said.split,
            "input": k,
            "row": int(said.batch.y[k]),
            "rank": range(1, len(s) + 1),
            "sentence": [language.name(row) for row in s],
            "sampler": share.numpy(),
            "posterior": (log_reward - said.log_z[k]).exp().numpy(),
            "log_reward": log_reward.numpy(),
            "best": (language.key(s) == language.key(best)).int().numpy(),
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts)


# What tokens say.


def variance_explained(p: Tensor, values: Tensor, feature: Feature) -> Tensor:
    r"""(K,) R² on a feature of whether each of K tokens is said.

    .. math:: R^2 = \sum_g \frac{n_g}{n} \frac{(p_g - \bar p)^2}{\bar p (1 - \bar p)}

    with p_g the mean over the n_g inputs of group g: the share of the variance of a token's
    indicator that the groups
    explain. Groups are the outcomes of a categorical feature, the values of a continuous one that
    has at most `BINS`, or `BINS` bins of equal counts. A token that says nothing of the feature has
    (groups − 1) / n by chance.

    Args:
        p: (n, K) P(the token is said | input).
        values: (n,) of the feature, NaN where missing; such inputs are left out.

    Returns NaN for tokens that are said always or never.
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
    of_group = (
        torch.zeros(len(n), p.shape[1], dtype=p.dtype).index_add_(0, group, p)
        / n.clamp(min=1)[:, None]
    )
    between = (n[:, None] * (of_group - mean).square()).sum(0) / len(p)
    variance = mean * (1 - mean)
    explained = (between / variance).clamp(max=1.0)
    return torch.where(variance > 1e-9, explained, torch.nan).float()


def count_tokens(model: AttractorModel, data: Any, said: Said) -> Tokens:
    """How often each token is said, and what it depends on; without features where the data set
    knows none.
    """
    bag = model.language.bag
    laws = bag(said.s).mean(1), bag(said.posterior).mean(1)  # (B, K) each
    features = tuple(data.features) if isinstance(data, Labelled) else ()
    explained = torch.empty(len(laws), model.language.tokens, len(features))
    if features:
        columns = data.feature_values(said.batch).cpu().T
        for k, p in enumerate(laws):
            each = [
                variance_explained(p, values, f)
                for values, f in zip(columns, features, strict=True)
            ]
            explained[k] = torch.stack(each, -1)
    return Tokens(torch.stack([p.mean(0) for p in laws]), explained, features)


def list_tokens(language: Language, tokens: Tokens) -> pd.DataFrame:
    """Rows of ``tokens.csv``: (token, cost, source, share), and R² on each feature, in columns
    named after them.
    """
    parts = []
    cost = (language.length_cost + language.costs).numpy()
    for k, source in enumerate(SOURCES):
        names = [language.token_name(j) for j in range(language.tokens)]
        part = pd.DataFrame(
            {"token": names, "cost": cost, "source": source, "share": tokens.share[k].numpy()}
        )
        r2 = {
            f"r2_{f.name}": tokens.explained[k, :, j].numpy() for j, f in enumerate(tokens.features)
        }
        parts.append(pd.concat([part, pd.DataFrame(r2)], axis=1))
    return pd.concat(parts)


class Change(NamedTuple):
    """What a token changes: `mean` (channels, side, side), from −1 to 1, of decoded images with it
    minus without it; examples (n, 2, channels, side, side) of sentences without it, and with it.
    """

    mean: Tensor
    examples: Tensor


def _change(model: AttractorModel, s: Tensor, token: int) -> Change:
    """By taking the token away from sentences s (n, width), different ones, that hold it."""
    language = model.language
    place = s.unflatten(-1, (-1, language.tokens))[..., token].argmax(
        -1
    )  # of a sequence; 0 in a bag
    without = language.without(s, place * language.tokens + token)
    decoded = model.decoder(model.embed(torch.stack([without, s], 1))).mean
    return Change((decoded[:, 1] - decoded[:, 0]).mean(0), decoded[:EXAMPLES])


# Figures: one pair of axes in inches, so that images, names and tables stand where they belong.


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    return figure, axes


def _fit(axes: Axes, width: float, height: float) -> None:
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)


def _place(axes: Axes, image: Tensor, x: float, y: float, size: float) -> None:
    """Draw an image (channels, side, side) in a grey frame, with its upper left corner at x, y."""
    pixels = image.detach().cpu().clamp(0, 1).expand(3, -1, -1).movedim(0, -1).numpy()
    axes.imshow(pixels, extent=(x, x + size, y + size, y), aspect="auto", interpolation="nearest")
    corners = [x, x + size, x + size, x, x], [y, y, y + size, y + size, y]
    axes.plot(*corners, color=LIGHT_GREY, linewidth=0.6, zorder=3)


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


IMAGE, COLUMN, ROW, HEAD, GAP = (
    0.74,
    0.88,
    1.12,
    0.78,
    0.14,
)  # inches: an image, its column and row, …


@torch.no_grad()
def draw_images_and_sentences(
    model: AttractorModel, data: Any, said: Sequence[Said], shown: Sequence[int]
) -> Figure:
    """For the first inputs of each split, as many as `shown` says: the input, its reconstruction,
    the sentences read most often and the best one, decoded. The first split stands on the left, the
    others on the right.
    """
    block = (3 + READ) * COLUMN + 2 * GAP
    left, right = list(zip(said, shown, strict=True))[:1], list(zip(said, shown, strict=True))[1:]
    heights = [sum(HEAD + ROW * min(n, len(of.s)) for of, n in part) for part in (left, right)]
    width, height = (block + 2 * GAP) * (2 if right else 1), max(heights) + GAP
    figure, axes = _canvas(width, height)
    for x, part in ((GAP, left), (block + 3 * GAP, right)):
        y = GAP / 2
        for of, n in part:
            y = _draw_split(axes, model, data, of, min(n, len(of.s)), x, y)
    _fit(axes, width, height)
    return figure


def _draw_split(
    axes: Axes, model: AttractorModel, data: Any, said: Said, n: int, x: float, y: float
) -> float:
    """Draw n inputs of a split with the upper left corner at x, y, and return where they end."""
    title = TITLES.get(said.split) or SPLIT_NAMES.get(said.split, said.split).capitalize()
    axes.text(x, y + 0.2, title, fontsize=11)
    across = (
        x
        + COLUMN * np.arange(3 + READ)
        + GAP * np.repeat([0, 1, 2], [2, READ, 1])
        + (COLUMN - IMAGE) / 2
    )
    heads = {0: "input", 1: "decoded\nfrom z0", 2 + READ: "best\nby reward"}
    for column, text in heads.items():
        axes.text(
            across[column] + IMAGE / 2, y + HEAD - 0.08, text, fontsize=8, ha="center", va="bottom"
        )
    middle = (across[2] + across[1 + READ] + IMAGE) / 2
    axes.text(
        middle, y + HEAD - 0.08, "sentences read most often", fontsize=8, ha="center", va="bottom"
    )
    language, inputs = model.language, said.batch.x[:n]
    reconstructed, known = model.reconstruct(inputs).mean, _known(data, said.batch, n)
    log_best = model.log_reward(Normal(said.q.loc[:n], said.q.scale[:n]), said.best[:n])
    share_of_best = (log_best - said.log_z[:n]).exp().tolist()
    for k in range(n):
        ranked = _rank(language, said.s[k])
        s = torch.cat([ranked.s[:READ], said.best[k : k + 1]])
        shares = [*ranked.share[:READ].tolist(), share_of_best[k]]
        columns = [*range(2, 1 + len(s)), 2 + READ]
        images = [inputs[k], reconstructed[k], *model.decoder(model.embed(s)).mean]
        texts = [
            known[k],
            "",
            *(f"{_lines(language.name(r))}\n{p:.0%}" for r, p in zip(s, shares, strict=True)),
        ]
        top = y + HEAD + ROW * k
        for column, image, text in zip([0, 1, *columns], images, texts, strict=True):
            _place(axes, image, across[column], top, IMAGE)
            label = (across[column] + IMAGE / 2, top + IMAGE + 0.03)
            axes.text(*label, text, fontsize=7.5, ha="center", va="top", linespacing=1.05)
    return y + HEAD + ROW * n


def _known(data: Any, batch: Batch, n: int) -> list[str]:
    """The first two categorical features of the first n inputs, in a text each."""
    if not isinstance(data, Labelled) or not data.features:
        return [""] * n
    values = data.feature_values(batch)[:n].tolist()
    named = [k for k, feature in enumerate(data.features) if feature.categorical][:2]
    return [
        "\n".join(
            plain(data.features[k].outcomes[int(row[k])], 14) for k in named if row[k] == row[k]
        )
        for row in values
    ]


THUMB, LINE, CELL = 0.5, 0.56, 0.42  # inches: an image, a row, and a field of the heat maps
SHARES, START = (0.95, 1.56), 1.75  # where the columns of shares end, and the images start


@torch.no_grad()
def draw_tokens(model: AttractorModel, said: Said, tokens: Tokens) -> Figure:
    """For each token in use: its share, what it changes in decoded images, and R² on the features;
    see the analysis ``sentences``.
    """
    language = model.language
    s = said.posterior.flatten(0, 1)
    s = s[np.unique(language.key(s).numpy(), return_index=True)[1]]
    s = s[torch.randperm(len(s))]
    held = language.bag(s) > 0
    in_use = _in_use(tokens, held)
    features = _most_explained(tokens)
    width = (
        START
        + LINE
        + 2 * GAP
        + EXAMPLES * (2 * THUMB + GAP)
        + len(SOURCES) * (len(features) * CELL + 2 * GAP)
    )
    names = max((len(plain(tokens.features[f].name)) for f in features), default=0)
    head = max(0.95, 0.45 + 0.085 * names)
    height = head + LINE * len(in_use) + GAP
    figure, axes = _canvas(width, height)
    axes.text(START / 2, head - 0.32, "share of sentences", fontsize=8, ha="center", va="bottom")
    for source, at in zip(SOURCES, SHARES, strict=True):
        axes.text(
            at,
            head - 0.1,
            source,
            fontsize=8,
            ha="right",
            va="bottom",
            color=SOURCE_COLOURS[source],
        )
    x_mean = START
    axes.text(x_mean + THUMB / 2, head - 0.1, "mean\nchange", fontsize=8, ha="center", va="bottom")
    x_examples = x_mean + LINE + GAP
    middle = x_examples + EXAMPLES * (THUMB + GAP / 2)
    axes.text(
        middle,
        head - 0.1,
        "sentences without the token, and with it",
        fontsize=8,
        ha="center",
        va="bottom",
    )
    for row, j in enumerate(in_use.tolist()):
        y = head + LINE * row
        axes.text(0.15, y + THUMB / 2, language.token_name(j), fontsize=11, va="center")
        for source, at, share in zip(SOURCES, SHARES, tokens.share[:, j].tolist(), strict=True):
            colour = SOURCE_COLOURS[source]
            axes.text(
                at, y + THUMB / 2, f"{share:.0%}", fontsize=8, ha="right", va="center", color=colour
            )
        change = _change(model, s[held[:, j]][:HOLDERS], j)
        bound = max(0.05, float(change.mean.abs().max()))
        _place(axes, 0.5 + change.mean / (2 * bound), x_mean, y, THUMB)
        for k, pair in enumerate(change.examples):
            x = x_examples + k * (2 * THUMB + GAP)
            _place(axes, pair[0], x, y, THUMB)
            _place(axes, pair[1], x + THUMB, y, THUMB)
    x = x_examples + EXAMPLES * (2 * THUMB + GAP) + GAP
    for k, source in enumerate(SOURCES if features else ()):
        _draw_explained(axes, tokens, k, in_use, features, x, head)
        middle = x + len(features) * CELL / 2
        axes.text(
            middle,
            0.12,
            f"R², {source}",
            fontsize=8,
            ha="center",
            va="top",
            color=SOURCE_COLOURS[source],
        )
        x += len(features) * CELL + 2 * GAP
    _fit(axes, width, height)
    return figure


def _in_use(tokens: Tokens, held: Tensor) -> Tensor:
    """Tokens that are said more than a tenth as often as the average one, those of one feature
    together.
    """
    enough = (tokens.share > 0.1 * tokens.share.mean(-1, keepdim=True)).any(0) & held.any(0)
    j = enough.nonzero().flatten()
    j = j[tokens.share[1, j].argsort(descending=True)][:MOST_TOKENS]
    if tokens.features:
        r2, feature = tokens.explained[1, j].nan_to_num().max(-1)
        j = j[torch.from_numpy(np.lexsort((-r2.numpy(), feature.numpy())))]
    return j


def _most_explained(tokens: Tokens) -> list[int]:
    """Features of the heat map, in their order: those that explain a token best, where they are
    many.
    """
    r2 = tokens.explained.nan_to_num().amax((0, 1)) if tokens.features else torch.empty(0)
    return sorted(r2.argsort(descending=True)[:MOST_FEATURES].tolist())


def _draw_explained(
    axes: Axes, tokens: Tokens, source: int, in_use: Tensor, features: list[int], x: float, y: float
) -> None:
    r2 = tokens.explained[source][in_use][:, features].numpy()
    for row, values in enumerate(r2):
        top = y + LINE * row
        extent = (x, x + CELL * len(features), top + THUMB, top)
        axes.imshow(
            values[None],
            extent=extent,
            aspect="auto",
            cmap="Blues",
            vmin=0,
            vmax=1,
            interpolation="nearest",
        )
        for k, value in enumerate(values.tolist()):
            text = "–" if value != value else f"{value:.2f}"
            ink = "white" if value > 0.55 else "black" if value >= 0.05 else GREY
            axes.text(
                x + CELL * (k + 0.5),
                top + THUMB / 2,
                text,
                fontsize=7,
                ha="center",
                va="center",
                color=ink,
            )
    for k, feature in enumerate(features):
        name = plain(tokens.features[feature].name)
        axes.text(
            x + CELL * (k + 0.5), y - 0.08, name, fontsize=8, rotation=90, ha="center", va="bottom"
        )
