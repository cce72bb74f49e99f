"""Information lost by discretisation, d = c0 − cT, against Geometric(½), at T, 2T and 5T steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from plot_attractors.analysis.parts import note, steps_name
from plot_attractors.analysis.sampling import (
    LENGTHS,
    exact_states,
    is_listed,
    nearest_sentence,
    states_at,
)
from plot_attractors.analysis.shape import SENTENCES_OF_BITS
from plot_attractors.analysis.style import BLUE, GREEN, LIGHT_BLUE, ORANGE
from plot_attractors.measures.information_loss import (
    Counts,
    bootstrap_interval,
    correct_bits,
    geometric,
    information_loss,
    tabulate,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.protocols import Reconstructs
from plot_attractors.ranges import Size
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Information loss"
SLOW = True
CAPTIONS = {
    "information_loss": (
        "The number of bits d lost by discretisation: bits of the input that the decoder predicts "
        "right from the initial state, less those that it predicts right from the state after T, "
        "2T and 5T steps. Light lines: single inputs; dark line: all inputs; dashed: the "
        "Geometric(½) distribution that follows from sentences in proportion to their information; "
        "dotted: what exact samples of the same model's posterior lose. Where the dark line leaves "
        "the dotted one the sampler is wrong, where the dotted one leaves the dashed one the "
        "target itself is not geometric. Lower rows: the same on a log₂ scale, on which theory is "
        "a line of slope −1. All is conditioned on d ≥ 0; the share of d < 0 is given in each "
        "panel, and the KL of a control without dynamics, the embedding nearest to z0 and the "
        "encoder's noise. A model without dynamics discretises at once, and has no exact samples "
        "to compare with."
    )
}
STATISTICS = (
    "mean p p_low p_high kl kl_low kl_high p_clamped p_clamped_low p_clamped_high kl_clamped "
    "kl_clamped_low kl_clamped_high p_all p_all_low p_all_high tv_geometric p_zero p_negative"
)


@dataclass(frozen=True)
class Config:
    """Sample sizes: draws for one input are alike, so precision comes from the inputs."""

    inputs: Size = 5000  # in each split
    draws: Size = 4  # trajectories of each input
    lines: Size = 60  # inputs with a line of their own in the figure
    line_draws: Size = 32  # trajectories of each of these


NEEDS = SENTENCES_OF_BITS


# -- measures --------------------------------------------------------------------------------------


CELLS = 500_000  # bits that the decoder predicts at once


class Losses(NamedTuple):
    """Losses of B inputs: the counts of d by number of steps; those of exact samples and of a
    control without dynamics, None where sentences cannot be listed.
    """

    by_steps: dict[int, Counts]
    exact: Counts | None = None
    control: Counts | None = None


@torch.no_grad()
def losses(model: Any, x: Tensor, draws: int) -> Losses:
    """Losses of inputs x (B, bits) at T, 2T and 5T steps, or at 0 steps without dynamics.

    The model has sentences and decodes inputs from states (`SentenceModel` and `Reconstructs`).
    """
    c0 = correct_bits(model.reconstruct(x).logits, x)
    if not isinstance(model, AttractorModel):
        return Losses({0: _count(model, x, c0, model.describe(x, draws).z)})
    encoding, times = model.encode(x), [k * model.steps for k in LENGTHS]
    states = states_at(model, encoding, draws, times)
    by_steps = {t: _count(model, x, c0, z) for t, z in zip(times, states, strict=True)}
    if not is_listed(model):
        return Losses(by_steps)
    noisy = encoding.distribution.sample(torch.Size([draws])).transpose(0, 1)
    at_nearest = model.terminal_kernel(nearest_sentence(model, noisy).s).sample()
    others = (
        _count(model, x, c0, z) for z in (exact_states(model, encoding, draws)[0], at_nearest)
    )
    return Losses(by_steps, *others)


def _count(model: Reconstructs, x: Tensor, c0: Tensor, z: Tensor) -> Counts:
    """Counts of d = c0 − c for states z (B, draws, d); the decoder sees a few inputs at once."""
    rows = max(1, CELLS // (z.shape[1] * x.shape[1]))
    parts = zip(z.split(rows), x.split(rows), strict=True)
    correct = torch.cat([correct_bits(model.decoder(z_).logits, x_[:, None]) for z_, x_ in parts])
    return tabulate(c0[:, None] - correct)


def describe(counts: Counts | None) -> dict[str, float]:
    """Every statistic of all inputs together, with bootstrap bounds as name_low and name_high."""
    if counts is None:
        return {}
    low, high = bootstrap_interval(*counts)
    parts = {"": information_loss(counts.values, counts.total), "_low": low, "_high": high}
    return {f"{k}{end}": float(v) for end, part in parts.items() for k, v in part._asdict().items()}


def tabulate_distribution(counts: Counts, exact: Counts | None) -> pd.DataFrame:
    """P(d) for every d: of the sampler, of the exact posterior (NaN where unknown), of theory."""

    def series(counts: Counts) -> pd.Series[float]:
        return pd.Series((counts.total / counts.counts.sum()).numpy(), index=counts.values.numpy())

    columns = {"sampler": series(counts)} | ({} if exact is None else {"exact": series(exact)})
    table = pd.DataFrame(columns).fillna(0.0)
    if exact is None:
        table["exact"] = np.nan
    table["geometric"] = geometric(torch.tensor(list(table.index))).numpy()
    return table.rename_axis("d").reset_index()


def tabulate_inputs(counts: Counts) -> pd.DataFrame:
    """How often (draws) each input has which d; values that do not occur left out."""
    row, column = counts.counts.nonzero().T
    draws = counts.counts[row, column].long()
    return pd.DataFrame({"input": row, "d": counts.values[column], "draws": draws})


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of d, with a row for each split and number of steps.

    ``summary.csv`` (split, steps, n, mean, p, p_low, p_high, kl, kl_low, kl_high, the same of
    p_clamped, kl_clamped and p_all, tv_geometric, p_zero, p_negative, kl_exact, kl_control): n
    draws over all inputs; the statistics of `measures.information_loss.InformationLoss` with 95 %
    bootstrap intervals over inputs; the KL of as many draws z_T ~ N(ẑ_s, ε²) with s from the exact
    posterior (kl_exact), and, without dynamics, with ẑ_s nearest to z ~ P(z0 | x), the encoder's
    own noise (kl_control); NaN where sentences cannot be listed. ``distribution.csv``: P(d) of the
    sampler, of the exact samples, and of theory. ``inputs.csv`` (input, d, draws): counts of a few
    inputs, of draws of their own. A model without dynamics has 0 steps. Source: Section *Sample
    diversity*.

    Raises ValueError: inputs are no vectors of bits, or the model has no sentences or no decoder.
    """
    rows, distributions, inputs = [], [], []
    for split in run.data.splits:
        x = run.data.batch(config.inputs, split).x
        losses_by_steps = losses(run.model, x, config.draws)
        single = losses(run.model, x[: config.lines], config.line_draws)
        others = {
            "kl_exact": describe(losses_by_steps.exact).get("kl", np.nan),
            "kl_control": describe(losses_by_steps.control).get("kl", np.nan),
        }
        for steps, counts in losses_by_steps.by_steps.items():
            statistics = describe(counts)
            at = {"split": split, "steps": steps}
            shown = {name: statistics[name] for name in STATISTICS.split()}
            rows.append(at | {"n": config.inputs * config.draws} | shown | others)
            table = tabulate_distribution(counts, losses_by_steps.exact)
            distributions.append(pd.DataFrame(at, table.index).join(table))
            table = tabulate_inputs(single.by_steps[steps])
            inputs.append(pd.DataFrame(at, table.index).join(table))
    return {
        "summary.csv": pd.DataFrame(rows),
        "distribution.csv": pd.concat(distributions),
        "inputs.csv": pd.concat(inputs),
    }


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


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``information_loss`` from ``summary.csv``, ``distribution.csv`` and ``inputs.csv``."""
    summary = tables["summary.csv"]
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
        top.set_title(f"{split_name(row['split'])}{after}")
        _annotate(top, row)
        top.set_ylim(0, 1)
        bottom.set_yscale("log", base=2)
        bottom.set(ylim=(2.0**-13, 1.4), xlim=(-0.3, SHOWN + 0.3), xticks=range(0, SHOWN + 1, 2))
    for top, bottom in zip(grid[::2, 0], grid[1::2, 0], strict=True):
        top.set_ylabel("P(d | d ≥ 0)")
        bottom.set_ylabel("P(d | d ≥ 0), log₂ scale")
    for axes in grid[-1]:
        axes.set_xlabel("d, bits lost")
    stronger = {"single inputs": {"alpha": 0.6, "linewidth": 1}}
    handles = [
        Line2D([], [], label=name, **look | stronger.get(name, {}))
        for name, look in LOOKS.items()
        if name != "exact posterior" or any(times)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return {"information_loss": figure}


def _annotate(axes: Axes, row: pd.Series) -> None:
    exact = ""
    if row["steps"]:
        exact = (
            f"KL of exact samples = {row['kl_exact']:.3f}\n"
            f"KL without dynamics = {row['kl_control']:.3f}\n"
        )
    text = (
        f"p = {row['p']:.3f} [{row['p_low']:.3f}, {row['p_high']:.3f}]\n"
        f"KL = {row['kl']:.3f} [{row['kl_low']:.3f}, {row['kl_high']:.3f}] nats\n"
        f"{exact}P(d < 0) = {row['p_negative']:.3f}"
    )
    note(axes, text, top=0.95)


def _draw_distributions(
    axes: Axes, distribution: pd.DataFrame, inputs: pd.DataFrame, least: float
) -> None:
    k = np.arange(SHOWN + 1)
    kept = inputs[inputs["d"] >= 0].pivot_table("draws", "input", "d", fill_value=0)
    share = kept.div(kept.sum(axis=1), axis=0).reindex(columns=k, fill_value=0)
    look = LOOKS["single inputs"]
    lines = LineCollection(
        [np.column_stack([k, np.where(f > 0, f, least)]) for f in share.to_numpy()],
        colors=look["color"], linewidths=look["linewidth"], alpha=look["alpha"],
    )  # fmt: skip
    axes.add_collection(lines, autolim=False)
    rows = distribution[distribution["d"] >= 0].set_index("d")
    for column, name in (("sampler", "all inputs"), ("exact", "exact posterior")):
        f = rows[column] / rows[column].sum()
        axes.plot(f.loc[:SHOWN].index, f.where(f > 0, least).loc[:SHOWN], **LOOKS[name])
    axes.plot(k, 0.5 ** (k + 1), **LOOKS["Geometric(½)"])
