"""What discretisation loses of inputs: bits against Geometric(½), or variance of real numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from plot_attractors.analysis import sampling, style
from plot_attractors.analysis.parts import note
from plot_attractors.analysis.sampling import BITS, REAL, kind_of_inputs
from plot_attractors.analysis.shape import Needs, by_split, panels
from plot_attractors.analysis.style import BLUE, GREEN, LIGHT_BLUE, ORANGE, SPLIT_COLOURS
from plot_attractors.data import Batch
from plot_attractors.measures import information_loss as loss
from plot_attractors.measures.bootstrap import resample
from plot_attractors.measures.information_loss import Counts
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.protocols import decodes_sentences
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Information loss"
CAPTIONS = {
    "information_loss": (
        "The number of bits d lost by discretisation: bits of the input that the decoder predicts "
        "right from the initial state, less those from the state after T, 2T and 5T steps. Light "
        "lines: single inputs; dark line: all inputs; dashed: the Geometric(½) distribution that "
        "follows from sentences in proportion to their information; dotted: what exact samples of "
        "the same model's posterior lose. Where the dark line leaves the dotted one the sampler is "
        "wrong, where the dotted one leaves the dashed one the target itself is not geometric. "
        "Lower rows: on a log₂ scale, on which theory is a line of slope −1. All is conditioned on "
        "d ≥ 0; panels give the share of d < 0, and the KL of a control without dynamics, the "
        "embedding nearest to z0 and the encoder's noise."
    ),
    "variance_explained": (
        "The share of the variance of all columns that the decoder explains: from the initial "
        "state z0, from the states after T, 2T and 5T steps, and from exact samples of the same "
        "model's posterior; lines are 95 % intervals over inputs, and a guess has 0. What is "
        "between z0 and T is lost by discretisation; what is between T and exact samples, by the "
        "sampler."
    ),
}
STATISTICS = (
    "mean p p_low p_high kl kl_low kl_high p_clamped p_clamped_low p_clamped_high kl_clamped "
    "kl_clamped_low kl_clamped_high tv_geometric p_zero p_negative"
)


@dataclass(frozen=True)
class Config:
    """Sample sizes: draws for one input are alike, so precision comes from the inputs."""

    inputs: Size = setting(5000, "in each split")
    draws: Size = setting(4, "trajectories of each input")
    lines: Size = setting(60, "inputs of bits with a line of their own in the figure")
    line_draws: Size = setting(32, "trajectories of each of these")


NEEDS = Needs(
    "vectors of bits decoded as Bernoulli, or of real numbers, by a model that samples sentences",
    lambda run: decodes_sentences(run.model) and kind_of_inputs(run) in (BITS, REAL),
)


# -- measures --------------------------------------------------------------------------------------


CELLS = 500_000  # bits or numbers that are decoded at once


@torch.no_grad()
def states(model: Any, x: Tensor, draws: int, control: bool) -> dict[int | str, Tensor]:
    """States (B, draws, d) of inputs x at T, 2T and 5T steps, or at 0 steps without dynamics; where
    sentences can be listed, ``exact`` samples, and a ``control`` without dynamics.
    """
    if not isinstance(model, AttractorModel):
        return {0: model.describe(x, draws).z}
    encoding, times = model.encode(x), [k * model.steps for k in sampling.LENGTHS]
    after = sampling.states_at(model, encoding, draws, times)
    result: dict[int | str, Tensor] = dict(zip(times, after, strict=True))
    if not sampling.is_listed(model):
        return result
    if control:
        noisy = encoding.distribution.sample(torch.Size([draws])).transpose(0, 1)
        near = sampling.nearest_sentence(model, noisy).s
        result["control"] = model.terminal_kernel(near).sample()
    return result | {"exact": sampling.exact_states(model, encoding, draws)[0]}


def compare(model: Any, x: Tensor, z: Tensor, score: Callable[[Any, Tensor], Tensor]) -> Tensor:
    """Scores of what is decoded of states z (B, draws, d), and of inputs x, a few at once."""
    rows = max(1, CELLS // (z.shape[1] * x.shape[1]))
    parts = zip(z.split(rows), x.split(rows), strict=True)
    return torch.cat([score(model.decoder(z_), x_[:, None]) for z_, x_ in parts])


# Of bits.


@torch.no_grad()
def losses(model: Any, x: Tensor, draws: int) -> dict[int | str, Counts]:
    """Counts of d = c0 − c, bits of inputs x (B, bits) that are decoded right, of all `states`."""
    c0 = loss.correct_bits(model.reconstruct(x).logits, x)[:, None]
    right = lambda p, x: loss.correct_bits(p.logits, x)  # noqa: E731
    of = states(model, x, draws, control=True)
    return {name: loss.tabulate(c0 - compare(model, x, z, right)) for name, z in of.items()}


def describe(counts: Counts) -> dict[str, float]:
    """Every statistic of all inputs together, with bootstrap bounds as name_low and name_high."""
    low, high = loss.bootstrap_interval(*counts)
    parts = {"": loss.information_loss(counts.values, counts.total), "_low": low, "_high": high}
    return {f"{k}{end}": float(v) for end, part in parts.items() for k, v in part._asdict().items()}


def tabulate_distribution(counts: Counts, exact: Counts | None) -> pd.DataFrame:
    """P(d) for every d: of the sampler, and of the exact posterior, NaN where unknown."""
    columns = {
        name: pd.Series((of.total / of.counts.sum()).numpy(), index=of.values.numpy())
        for name, of in (("sampler", counts), ("exact", exact))
        if of is not None
    }
    table = pd.DataFrame(columns).fillna(0.0).reindex(columns=["sampler", "exact"])
    return table.rename_axis("d").reset_index()


def tabulate_inputs(counts: Counts) -> pd.DataFrame:
    """How often (draws) each input has which d; values that do not occur left out."""
    row, column = counts.counts.nonzero().T
    draws = counts.counts[row, column].long()
    return pd.DataFrame({"input": row, "d": counts.values[column], "draws": draws})


def _measure_bits(run: Run, config: Config) -> dict[str, Any]:
    rows, distributions, inputs = [], [], []
    for split in run.data.splits:
        x = run.data.batch(config.inputs, split).x
        of = losses(run.model, x, config.draws)
        single = losses(run.model, x[: config.lines], config.line_draws)
        others = {
            f"kl_{name}": describe(of[name])["kl"] if name in of else np.nan
            for name in ("exact", "control")
        }
        for steps in (name for name in of if isinstance(name, int)):
            statistics = describe(of[steps])
            at = {"split": split, "steps": steps}
            shown = {name: statistics[name] for name in STATISTICS.split()}
            rows.append(at | {"n": config.inputs * config.draws} | shown | others)
            table = tabulate_distribution(of[steps], of.get("exact"))
            distributions.append(pd.DataFrame(at, table.index).join(table))
            table = tabulate_inputs(single[steps])
            inputs.append(pd.DataFrame(at, table.index).join(table))
    return {
        "summary.csv": pd.DataFrame(rows),
        "distribution.csv": pd.concat(distributions),
        "inputs.csv": pd.concat(inputs),
    }


# Of real numbers.


@torch.no_grad()
def errors(model: Any, x: Tensor, draws: int) -> dict[int | str, Tensor]:
    """Squared errors of inputs x (B, D), means over draws: of ``z0``, and of all `states`."""
    error = lambda p, x: (p.mean - x).square().mean(1)  # noqa: E731
    of = states(model, x, draws, control=False)
    start = (model.reconstruct(x).mean - x).square()
    return {"z0": start} | {name: compare(model, x, z, error) for name, z in of.items()}


def summarise(x: Tensor, of: Mapping[int | str, Tensor]) -> list[dict[str, float]]:
    r"""A row for each number of steps: variance explained of inputs x (B, D), by their `errors`,
    with 95 % bootstrap intervals over inputs.

    .. math:: R^2 = 1 - \frac{\sum_{x,k} (x_k - \mu_k(z))^2}{\sum_{x,k} x_k^2}

    Columns of x have mean 0 and variance 1 over the training rows, so that a guess has R² = 0.
    """
    times = resample(x)
    whole = x.square().sum(-1).double()

    def explained(name: str, errors: Tensor | None) -> dict[str, float]:
        values: tuple[float, ...] = (torch.nan,) * 3
        if errors is not None:
            error = errors.sum(-1).double()
            share = 1 - (times @ error) / (times @ whole)
            bounds = share.quantile(torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
            values = (float(1 - error.sum() / whole.sum()), *bounds)
        return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))

    beside = explained("explained_z0", of["z0"]) | explained("explained_exact", of.get("exact"))
    return [
        {"steps": steps, "n": len(x)} | explained("explained", by_input) | beside
        for steps, by_input in of.items()
        if isinstance(steps, int)
    ]


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of what is lost, with a row for each split and number of steps; a model without
    dynamics has 0 steps. Source: Section *Sample diversity*.

    Of bits, ``summary.csv`` (split, steps, n, mean, p, p_low, p_high, kl, kl_low, kl_high, the same
    of p_clamped and kl_clamped, tv_geometric, p_zero, p_negative, kl_exact, kl_control): n
    draws over all inputs; the statistics of `measures.information_loss.InformationLoss` with 95 %
    bootstrap intervals over inputs; the KL of as many draws z_T ~ N(ẑ_s, ε²) with s from the exact
    posterior (kl_exact), and, without dynamics, with ẑ_s nearest to z ~ P(z0 | x), the encoder's
    own noise (kl_control); NaN where sentences cannot be listed. ``distribution.csv``: P(d) of the
    sampler and of the exact samples. ``inputs.csv`` (input, d, draws): counts of a few
    inputs, of draws of their own.

    Of real numbers, ``summary.csv``: see `summarise`.
    """
    if kind_of_inputs(run) == BITS:
        return _measure_bits(run, config)

    def of_split(batch: Batch) -> pd.DataFrame:
        return pd.DataFrame(summarise(batch.x, errors(run.model, batch.x, config.draws)))

    return {"summary.csv": by_split(run, config.inputs, of_split)}


# -- figures ---------------------------------------------------------------------------------------


SHOWN = 12  # greatest loss in the figure, bits
LOOKS: dict[str, dict[str, Any]] = {
    "single inputs": {"color": LIGHT_BLUE, "linewidth": 0.6, "alpha": 0.35},
    "all inputs": {"color": BLUE, "linewidth": 2.2},
    "exact posterior": {
        "color": GREEN, "linewidth": 1.6, "linestyle": ":", "marker": "o", "markersize": 3.5,
    },
    "Geometric(½)": {"color": ORANGE, "linewidth": 1.8, "linestyle": "--"},
}  # fmt: skip


def steps_name(steps: int, table: pd.DataFrame) -> str:
    """``2T = 40 steps``, T being the least number of steps in the table."""
    times = round(steps / max(int(table["steps"].min()), 1))
    return f"{times if times > 1 else ''}T = {steps} steps"


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``information_loss`` of bits, or ``variance_explained`` of real numbers."""
    summary = tables["summary.csv"]
    if "explained" in summary:
        figure, (axes,) = panels(1, columns=1, size=(9, 4.5))
        _draw_shares(axes, summary)
        return {"variance_explained": figure}
    splits, times = list(summary["split"].unique()), list(summary["steps"].unique())
    size = (max(3.7 * len(times), 6), 0.6 + 5 * len(splits))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(2 * len(splits), len(times), sharex=True, sharey="row", squeeze=False)
    for k, (_, row) in enumerate(summary.iterrows()):
        pair, column = divmod(k, len(times))
        top, bottom = grid[2 * pair, column], grid[2 * pair + 1, column]
        distribution, inputs = (
            part[(part["split"] == row["split"]) & (part["steps"] == row["steps"])]
            for part in (tables["distribution.csv"], tables["inputs.csv"])
        )
        _draw_distributions(top, distribution, inputs, least=0.0)
        # a logarithmic axis has no 0
        _draw_distributions(bottom, distribution, inputs, least=np.nan)
        after = f", {steps_name(row['steps'], summary)}" if row["steps"] else ""
        top.set_title(style.lettered(style.letter(k), f"{split_name(row['split'])}{after}"))
        _annotate(top, row)
        top.set_ylim(0, 1)
        bottom.set_yscale("log", base=2)
        bottom.set(ylim=(2.0**-13, 1.4), xlim=(-0.3, SHOWN + 0.3), xticks=range(0, SHOWN + 1, 2))
    for top, bottom in zip(grid[::2, 0], grid[1::2, 0], strict=True):
        top.set_ylabel("P(d | d ≥ 0)")
        bottom.set_ylabel("P(d | d ≥ 0), log₂ scale")
    for axes in grid[-1]:
        axes.set_xlabel("d, bits lost")
    handles = [Line2D([], [], label=name, **look) for name, look in LOOKS.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return {"information_loss": figure}


def _annotate(axes: Axes, row: pd.Series) -> None:
    lines = [
        f"p = {row['p']:.3f} [{row['p_low']:.3f}, {row['p_high']:.3f}]",
        f"KL = {row['kl']:.3f} [{row['kl_low']:.3f}, {row['kl_high']:.3f}] nats",
        f"KL of exact samples = {row['kl_exact']:.3f}",
        f"KL without dynamics = {row['kl_control']:.3f}",
        f"P(d < 0) = {row['p_negative']:.3f}",
    ]
    note(axes, "\n".join(line for line in lines if "nan" not in line), top=0.95)


def _draw_distributions(
    axes: Axes, distribution: pd.DataFrame, inputs: pd.DataFrame, least: float
) -> None:
    k = np.arange(SHOWN + 1)
    kept = inputs[inputs["d"] >= 0].pivot_table("draws", "input", "d", fill_value=0)
    share = kept.div(kept.sum(axis=1), axis=0).reindex(columns=k, fill_value=0)
    of_inputs = share.to_numpy().T
    axes.plot(k, np.where(of_inputs > 0, of_inputs, least), **LOOKS["single inputs"])
    rows = distribution[distribution["d"] >= 0].set_index("d")
    for column, name in (("sampler", "all inputs"), ("exact", "exact posterior")):
        f = rows[column] / rows[column].sum()
        axes.plot(f.loc[:SHOWN].index, f.where(f > 0, least).loc[:SHOWN], **LOOKS[name])
    axes.plot(k, 0.5 ** (k + 1), **LOOKS["Geometric(½)"])


def _draw_shares(axes: Axes, summary: pd.DataFrame) -> None:
    splits = list(summary.groupby("split", sort=False))
    for k, (split, part) in enumerate(splits):
        first = part.iloc[0]
        value, low, high = (
            [first[f"explained_z0{end}"], *part[f"explained{end}"], first[f"explained_exact{end}"]]
            for end in ("", "_low", "_high")
        )
        x = np.arange(len(value)) + 0.12 * (k - (len(splits) - 1) / 2)
        colour = SPLIT_COLOURS.get(str(split), BLUE)
        axes.vlines(x, low, high, color=colour)  # bootstrap intervals may leave their value out
        axes.plot(x, value, "o", color=colour, label=split_name(str(split)))
    steps = [steps_name(t, summary) for t in summary["steps"].unique()]
    axes.set_xticks(range(len(steps) + 2), ["from z0", *steps, "exact samples"])
    axes.set(title="Variance explained", ylim=(min(0, axes.get_ylim()[0]), 1), ylabel="R²")
    axes.legend()
