"""Which sentences describe which class of bits, and how often; what tokens tell of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from torch import Tensor

from plot_attractors.analysis.parts import MOST_NAMED, name_columns
from plot_attractors.analysis.sampling import (
    BITS,
    NUMBERS,
    REAL,
    kind_of_inputs,
    numbered_rows,
    row_names,
    sentence_distribution,
    states_at,
)
from plot_attractors.analysis.shape import LISTED, needs_inputs
from plot_attractors.analysis.style import BLUE, GREY, RED, add_scale, plain, tree_layout
from plot_attractors.data import Batch, BinaryTable, HierarchicalBinaryVectors, Vectors, is_real
from plot_attractors.measures.attractors import binomial_interval
from plot_attractors.measures.bootstrap import Estimate, resample
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run

TITLE = "Sentences"
CAPTIONS = {
    "sentences": (
        "Sentences of each class. Left: the classes; in the tree, each node's children stand below "
        "it and to its right, L takes the left and R the right half of its 1s, and red squares "
        "were held out of training. Tokens: the share of sentences sampled for exemplars of the "
        "class that hold each token; tokens between two lines exclude each other. Then the "
        "sentence sampled most often, with its share. Decoded: the bits that the sampled sentences "
        "stand for, on average; meant: the prototype of the class, or the mean of its rows. Black "
        "is 0, white is 1; of columns that are no bits, red is above and blue below the mean, by "
        "up to two standard deviations."
    ),
    "token_columns": (
        "What each token tells of a table. Colour: the log odds ratio of a column's 1s, where the "
        "token is in the sentence against where it is not: red, it makes a 1 likelier, blue, "
        "rarer; white, the 95 % interval over training rows has 0 in it. Of real-valued vectors: "
        "the mean of a column where the token is in the sentence, less that where it is not, in "
        "standard deviations. Right of the line: values of labels, which training never saw. "
        "Columns that the same token tells most of stand together. csv says the same "
        "in words, with rows that are typical of each token, and opposite ones; rows.csv has the "
        "sentence read most often for every row, by its name."
    ),
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    exemplars: Size = setting(16, "exemplars of a node of the tree")
    draws: Size = setting(16, "trajectories of each exemplar or row")
    inputs: Size = setting(2000, "rows of a table")


NEEDS = LISTED & needs_inputs(BITS, REAL, NUMBERS)


# -- measures --------------------------------------------------------------------------------------


TOP = 10  # sentences of each class in sentences.csv


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
    model = run.model
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
    share, index = sampler.topk(min(TOP, len(bags)), -1)
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


MOST_COLUMNS = 200  # of bits, those that vary most; of real numbers, that tokens tell most of
IN_WORDS = 4  # columns that a token is told by, each way
TYPICAL = 4  # rows
LOG_ODDS, DIFFERENCE = "log odds ratio", "difference"  # measures: nats, standard deviations


def measure_rows(run: Run, draws: int, inputs: int) -> dict[str, pd.DataFrame]:
    """Tables of a `BinaryTable` or `Vectors`, of the first `inputs` rows, held-out ones included.

    P(s | x) is the mean of P(s | z_T), read exactly off `draws` end states of a row.

    - ``rows.csv`` (row, from 0; name; split; the labels; sentence, share, share_low, share_high;
      likeliest, probability): the sentence of the greatest mean P(s | z_T) over these end states,
      with the 95 % interval of as many draws (Wilson's; the best of many is too high in the mean);
      and the likeliest sentence of the exact posterior.
    - ``token_columns.csv`` (token, column, kind, measure, value, low, high): of training rows, the
      `log_odds_ratio` of every 0/1 column and every value of a label, nats, and the `difference` of
      every column of vectors, standard deviations.
    - ``token_meaning.csv`` (token, share, likelier, rarer, typical, opposite): the same in words.
      Those columns whose interval leaves out 0, the strongest first; likelier and rarer are higher
      and lower of vectors. Typical: the training rows whose columns speak most for the token, of
      those that hold it; opposite: whose columns speak most against it, of the others. share: mean
      P(token in the sentence | x).
    """
    model, data = run.model, run.data
    rows, split = numbered_rows(data, inputs)
    x = data.rows(rows)
    encoding = model.encode(x)
    p = sentence_distribution(model, states_at(model, encoding, draws, [model.steps])[0])
    best, exact = p.max(-1), model.posterior.log_prob(encoding.distribution).exp().max(-1)
    read, likeliest = (
        [model.language.name(model.sentences[k]) for k in part.indices.tolist()]
        for part in (best, exact)
    )
    listed = {"row": rows.numpy(), "name": row_names(data, rows), "split": split}
    values = data.feature_values(Batch(x, rows, data.labels[rows]))
    for k, feature in enumerate(data.features):
        texts = dict(enumerate(feature.outcomes)) if feature.categorical else {}
        column = values[:, k].tolist()
        listed[feature.name] = ["" if v != v else texts.get(int(v), f"{v:g}") for v in column]
    low, high = binomial_interval(best.values * draws, draws)
    listed |= {
        "sentence": read, "share": best.values.numpy(),
        "share_low": low.numpy(), "share_high": high.numpy(),
        "likeliest": likeliest, "probability": exact.values.detach().numpy(),
    }  # fmt: skip

    trained = torch.tensor([name == "train" for name in split])
    held = (p @ model.language.bag(model.sentences).to(p))[trained]
    times = resample(x[trained])
    columns, x, effects = _effects(data, x[trained], values[trained], held, times)
    tokens = [model.language.token_name(j) for j in range(model.language.tokens)]
    likelier, rarer = ("higher", "lower") if is_real(data) else ("likelier", "rarer")
    known = torch.where(x.isnan(), x.nanmean(0), x)
    parts, meanings = [], []
    for j, token in enumerate(tokens):
        value, low, high = (part[j] for part in effects)
        numbers = {"value": value.numpy(), "low": low.numpy(), "high": high.numpy()}
        parts.append(columns.assign(token=token, **numbers))
        score, holds = known @ value.float(), held[:, j] >= 0.5
        meanings.append({
            "token": token, "share": float(held[:, j].mean()),
            likelier: _in_words(columns["column"], value, low > 0),
            rarer: _in_words(columns["column"], -value, high < 0),
            "typical": ", ".join(row_names(data, rows[trained][_most(score, holds)])),
            "opposite": ", ".join(row_names(data, rows[trained][_most(-score, ~holds)])),
        })  # fmt: skip
    return {
        "rows.csv": pd.DataFrame(listed),
        "token_columns.csv": pd.concat(parts)[["token", *columns, "value", "low", "high"]],
        "token_meaning.csv": pd.DataFrame(meanings),
    }


def _most(score: Tensor, among: Tensor) -> Tensor:
    """The numbers of the rows with the greatest scores (n,), among some (n,)."""
    top = score.masked_fill(~among, -torch.inf).argsort(descending=True)[:TYPICAL]
    return top[among[top]]


def _effects(
    data: BinaryTable | Vectors, x: Tensor, values: Tensor, held: Tensor, times: Tensor
) -> tuple[pd.DataFrame, Tensor, Estimate]:
    """The C columns and values of labels (column, kind, measure), those of rows x (n, bits) whose
    labels have the numbers values (n, F): them (n, C), and how much each token tells of them
    (tokens, C).
    """
    if real := is_real(data):
        effects = difference(held, x, times)
        strength = effects.value.abs().amax(0)
    else:
        mean = x.nanmean(0)
        strength = mean * (1 - mean)
    kept = strength.topk(min(MOST_COLUMNS, len(strength))).indices.sort().values
    x = x[:, kept]
    effects = (
        Estimate(*(part[:, kept] for part in effects)) if real else log_odds_ratio(held, x, times)
    )
    labels = [
        (column[:, None] == torch.arange(len(feature.outcomes))).float()
        for feature, column in zip(data.features, values.T, strict=True)
    ]
    x = torch.cat([x, *labels], -1)
    odds = log_odds_ratio(held, x[:, len(kept) :], times)
    columns = [(data.columns[k], "column", DIFFERENCE if real else LOG_ODDS) for k in kept]
    columns += [(f"{f.name}={v}", "label", LOG_ODDS) for f in data.features for v in f.outcomes]
    both = zip(effects, odds, strict=True)
    return (
        pd.DataFrame(columns, columns=["column", "kind", "measure"]),
        x,
        Estimate(*(torch.cat(parts, -1) for parts in both)),
    )


def difference(held: Tensor, x: Tensor, times: Tensor) -> Estimate:
    r"""(tokens, C) mean of standardised columns x (n, C) where a token is held, less that where it
    is not, in standard deviations:

    .. math:: \frac{\sum_i p_i x_i + \bar x}{\sum_i p_i + 1}
        - \frac{\sum_i (1 - p_i) x_i + \bar x}{\sum_i (1 - p_i) + 1}, \quad p_i = P(w \mid x_i).

    An average row is added on either side, so that a token that is always there, or never, has 0.
    held (n, tokens) is P(token in the sentence | x_i), times (resamples, n) of `resample` gives
    95 % percentile intervals.

    Example:
        >>> held = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
        >>> difference(held, 2 * held - 1, torch.ones(1, 4)).value  # 2/3 less -2/3
        tensor([[1.3333]], dtype=torch.float64)
    """
    x = x.double()

    def statistic(one: Tensor, weight: Tensor) -> Tensor:
        """(resamples, C) of one token (n,), at weights (resamples, n) of the rows."""
        n, of_token, whole = weight.sum(-1, True), (weight @ one)[:, None], weight @ x
        mean, with_it = whole / n, (weight * one) @ x
        return (with_it + mean) / (of_token + 1) - (whole - with_it + mean) / (n - of_token + 1)

    return _of_tokens(statistic, held, times)


def log_odds_ratio(held: Tensor, x: Tensor, times: Tensor) -> Estimate:
    r"""(tokens, C) log odds of x = 1 where a token is held, less those where it is not, nats:

    .. math:: \log \frac{n_{11} + p}{n_{10} + 1 - p} - \log \frac{n_{01} + p}{n_{00} + 1 - p},
        \quad n_{ab} = \sum_i P(w = a \mid x_i) [x_{ic} = b].

    p is the share of 1s in the column: an average row is added on either side, so that a token that
    is always there, or never, has 0. So has a column that is constant.
    held (n, tokens) is P(token in the sentence | x_i), x (n, C) is 0 or 1, or NaN, which is left
    out; times (resamples, n) of `resample` gives 95 % percentile intervals.

    Example:
        >>> held = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
        >>> log_odds_ratio(held, held, torch.ones(1, 4)).value  # log 25
        tensor([[3.2189]], dtype=torch.float64)
    """
    known, x = (~x.isnan()).double(), x.double().nan_to_num()

    def ratio(one: Tensor, weight: Tensor) -> Tensor:
        """(resamples, C) of one token (n,), at weights (resamples, n) of the rows."""
        n, of_token, of_column = weight @ known, weight @ (one[:, None] * known), weight @ x
        p = of_column / n
        both = weight @ (one[:, None] * x)
        present = (both + p) / (of_token - both + 1 - p)
        absent = (of_column - both + p) / (n - of_token - of_column + both + 1 - p)
        log_ratio = (present / absent).log().nan_to_num(0)  # where all are 0 in a resample, or 1
        return log_ratio.round(decimals=9)

    return _of_tokens(ratio, held, times)


def _of_tokens(
    statistic: Callable[[Tensor, Tensor], Tensor], held: Tensor, times: Tensor
) -> Estimate:
    """A statistic (resamples, C) of a token (n,) and weights (resamples, n), of all tokens held
    (n, tokens), at equal weights and with percentile intervals from times (resamples, n).
    """
    tokens, once = held.double().T, torch.ones(1, len(held)).double()
    levels = torch.tensor([0.025, 0.975]).double()
    value = torch.cat([statistic(one, once) for one in tokens])
    if not value.numel():  # no columns: there are no quantiles of nothing
        return Estimate(value, value, value)
    low, high = torch.stack(
        [statistic(one, times.double()).quantile(levels, 0) for one in tokens], 1
    )
    return Estimate(value, low, high)


def _in_words(names: pd.Series[str], strength: Tensor, known: Tensor) -> str:
    """For example "feathers (3.9), eggs (2.1)": the strongest of those that are known, nats."""
    order = strength.masked_fill(~known, -torch.inf).argsort(descending=True)[:IN_WORDS].tolist()
    return ", ".join(f"{names[k]} ({abs(float(strength[k])):.1f})" for k in order if known[k])


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of classes of bits (`measure_classes`), and of a table's rows and columns
    (`measure_rows`).
    """
    tables = measure_classes(run, config.exemplars, config.draws, config.inputs)
    if isinstance(run.data, BinaryTable | Vectors):
        tables |= measure_rows(run, config.draws, config.inputs)
    return tables


# -- figures ---------------------------------------------------------------------------------------


BOUND = 2.0  # standard deviations of a real-valued column; what is farther has the same colour
MOST_ROWS = 44  # classes in the figure


def _is_tree(classes: pd.DataFrame) -> bool:
    return bool((classes["depth"] > 0).any())


def _shown(classes: pd.DataFrame) -> np.ndarray:
    """Generations of the tree as long as there is room, or the largest classes."""
    n, depth = len(classes), classes["depth"].to_numpy()
    if n <= MOST_ROWS:
        return np.arange(n)
    if _is_tree(classes):
        above = np.searchsorted(depth, np.arange(1, depth.max() + 2))  # nodes above each depth
        return np.arange(int(above[above <= MOST_ROWS].max()))
    return np.sort(np.argsort(-classes["inputs"].to_numpy(), kind="stable")[:MOST_ROWS])


def draw_classes(tables: Mapping[str, Any]) -> Figure:
    """The figure ``sentences``."""
    classes, bits = tables["classes.csv"], tables["bits.npz"]
    share = tables["tokens.csv"].pivot(index="class", columns="token", values="sampler")
    tokens = list(tables["tokens.csv"]["token"].unique())
    shown = _shown(classes)
    part = classes.iloc[shown]
    rows, tree = len(shown), _is_tree(classes)
    place = tree_layout(part["parent"].to_numpy()) if tree else np.arange(rows)
    order = shown[np.argsort(place)]
    height = max(3.0, 1.6 + 0.21 * rows)
    widths = [2.4 if tree else 0.05, max(1.5, 0.22 * len(tokens)), 1.9, 2.6, 2.6]
    figure = Figure(figsize=(sum(widths) + 2.0, height), layout="constrained")
    grid = figure.subplots(1, 5, sharey=True, width_ratios=widths)
    grid[0].set_ylim(rows - 0.4, -1.6 if tree else -0.6)
    for axes in grid:
        axes.tick_params(left=False)
    labels = [plain(str(classes["path"][k])) for k in order]
    if tree:
        _draw_tree(grid[0], part, place, labels)
    else:
        grid[0].set_axis_off()
        grid[1].tick_params(labelleft=True)
        grid[1].set_yticks(range(rows), labels)

    shared: dict[str, Any] = {"vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "nearest"}
    extent = (-0.5, len(tokens) - 0.5, rows - 0.5, -0.5)
    image = grid[1].imshow(share[tokens].loc[order], cmap="viridis", extent=extent, **shared)
    starts = np.cumsum(bits["groups"])[:-1] - 0.5
    grid[1].vlines(starts, -0.5, rows - 0.5, color="white", linewidth=1.5)
    every = max(1, len(tokens) // 16)
    grid[1].set_xticks(range(0, len(tokens), every), tokens[::every])
    grid[1].set_title("tokens")
    sentences = tables["sentences.csv"]
    top = sentences[sentences["rank"] == 1].set_index("class").loc[order]
    for row, (s, p) in enumerate(zip(top["sentence"], top["sampler"], strict=True)):
        grid[2].text(0.0, row, plain(s, 22), va="center", fontsize=9)
        grid[2].text(1.0, row, f"{p:.0%}", va="center", ha="right", fontsize=9, color=GREY)
    grid[2].set_title("most frequent sentence")
    grid[2].set_axis_off()
    real = bool(bits["real"])
    noun = "column" if real else "bit"
    for axes, title in ((grid[3], "decoded"), (grid[4], "meant")):
        extent = (0.5, bits[title].shape[1] + 0.5, rows - 0.5, -0.5)
        look = shared | (
            {"vmin": -BOUND, "vmax": BOUND, "cmap": "RdBu_r"} if real else {"cmap": "gray"}
        )
        axes.imshow(bits[title][order], extent=extent, **look)
        axes.set(title=f"{noun}s {title}", xlabel=noun)
        if not name_columns(axes, bits["columns"], first=1.0):
            axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    for axes in grid[1:]:
        axes.spines[:].set_visible(False)
    add_scale(grid[4], image, "share with the token", shrink=min(1.0, 3 / height), aspect=14)
    return figure


def _draw_tree(axes: Axes, part: pd.DataFrame, place: np.ndarray, labels: list[str]) -> None:
    depth, parents, red = (part[name].to_numpy() for name in ("depth", "parent", "held_out"))
    up = np.where(parents < 0, -1, place[parents])  # the root stands above the first row
    corners = [
        [(d - 1, u), (d - 1, row), (d, row)] for d, u, row in zip(depth, up, place, strict=True)
    ]
    axes.add_collection(LineCollection(corners, colors=GREY, linewidths=0.8, zorder=1))
    axes.scatter([0], [-1], s=26, color=GREY, zorder=2)
    for chosen, colour, marker in ((red == 0, BLUE, "o"), (red > 0, RED, "s")):
        look: dict[str, Any] = {"color": colour, "marker": marker, "linewidths": 0, "zorder": 2}
        axes.scatter(depth[chosen], place[chosen], s=26, **look)
    axes.set_xlim(-0.2, depth.max() + 1.6)
    for row, d in zip(place, depth, strict=True):
        axes.text(d + 0.2, row, labels[int(row)], va="center", fontsize=8)
    axes.set(xticks=range(int(depth.max()) + 1), yticks=[], xlabel="depth", title="tree of classes")
    axes.spines[:].set_visible(False)


SCALES = {LOG_ODDS: (4.0, "nats"), DIFFERENCE: (1.5, "sd")}  # what is stronger has one colour


def draw_token_columns(table: pd.DataFrame, meaning: pd.DataFrame) -> Figure:
    """Log odds ratios, or differences, tokens × columns; white where the interval has 0 in it. Of
    more columns than have room, those that the tokens tell most of.
    """
    tokens = list(meaning["token"])
    told = table[["column", "kind", "measure"]].drop_duplicates(["column", "kind"])
    names, is_label = told["column"].to_numpy(), (told["kind"] == "label").to_numpy()
    ratio, low, high = (
        table[part].to_numpy().reshape(len(tokens), -1) for part in ("value", "low", "high")
    )
    bounds = told["measure"].map({name: bound for name, (bound, _) in SCALES.items()}).to_numpy()
    ratio = np.where((low > 0) | (high < 0), ratio, np.nan) / bounds  # of the colour scale
    strength = np.nan_to_num(np.abs(ratio))
    labels = _strongest(is_label, strength, MOST_NAMED // 2)
    columns = _strongest(~is_label, strength, MOST_NAMED - len(labels))
    # side by side what the same token tells most of
    best = np.where(strength.any(0), strength.argmax(0), len(tokens))
    columns = columns[np.lexsort((-strength.max(0)[columns], best[columns]))]
    order = np.concatenate([columns, labels])
    figure = Figure(figsize=(3 + 0.24 * len(order), 2.4 + 0.26 * len(tokens)), layout="constrained")
    axes = figure.subplots()
    look: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1, "aspect": "auto"}
    image = axes.imshow(ratio[:, order], **look)
    name_columns(axes, list(names[order]))
    shares = [f"{t}  {s:.0%}" for t, s in zip(tokens, meaning["share"], strict=True)]
    axes.set_yticks(range(len(tokens)), shares, fontsize=9)
    if len(labels):
        axes.axvline(len(columns) - 0.5, color=GREY, linewidth=1.5)
    more = int((~is_label).sum()) - len(columns)
    rest = f" ({more} more columns are in the file)" if more else ""
    axes.set(title=f"Tokens and columns{rest}", ylabel="token, and its share of sentences")
    for measure in told["measure"].unique():
        bound, unit = SCALES[measure]
        marks = FuncFormatter(lambda share, _, bound=bound: f"{bound * share:g}")
        add_scale(
            axes,
            image,
            f"{measure}, {unit}",
            extend="both",
            ticks=np.linspace(-1, 1, 5),
            format=marks,
        )
    return figure


def _strongest(chosen: np.ndarray, strength: np.ndarray, most: int) -> np.ndarray:
    """Numbers of those chosen columns (C,) that any token tells most of, in increasing order."""
    greatest = np.where(chosen, strength.max(0), -1.0)
    return np.sort(np.argsort(-greatest, kind="stable")[: min(most, int(chosen.sum()))])


def draw(tables: dict[str, Any]) -> dict[str, Any]:
    """Figures of classes of bits, and of a table's columns."""
    figures = {"sentences": draw_classes(tables)}
    if "token_columns.csv" in tables:
        columns = tables["token_columns.csv"], tables["token_meaning.csv"]
        figures["token_columns"] = draw_token_columns(*columns)
    return figures
