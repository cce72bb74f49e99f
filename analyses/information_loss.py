"""Information lost by discretisation, d = c0 − cT, against Geometric(½), where there are dynamics
at T, 2T and 5T.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from plot_attractors.evaluation.metrics import (
    bootstrap_interval,
    correct_bits,
    geometric,
    information_loss,
    tabulate,
)
from plot_attractors.evaluation.sampling import (
    LENGTHS,
    exact_states,
    is_listed,
    shows_bits,
    states_at,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.protocols import Reconstructs, Speaker
from plot_attractors.plots.style import BLUE, GREEN, LIGHT_BLUE, ORANGE, SPLIT_NAMES, save, style

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Information loss"
CAPTIONS = {
    "information_loss": (
        "The number of bits d lost by discretisation: bits of the input that the decoder predicts "
        "right from the "
        "initial state, less those that it predicts right from the state after T, 2T and 5T steps. "
        "Light lines: "
        "single inputs; dark line: all inputs; dashed: the Geometric(½) law that a sampler of "
        "sentences in "
        "proportion to their information should follow; dotted: what exact samples of the same "
        "model's posterior "
        "lose. Where the dark line leaves the dotted one the sampler is wrong, where the dotted "
        "one leaves the "
        "dashed one the target itself is not geometric. Lower rows: the same on a log₂ scale, on "
        "which theory is a "
        "line of slope −1. Everything is conditioned on d ≥ 0; the share of d < 0 is given in each "
        "panel. A model "
        "without dynamics discretises at once, and has no exact samples to compare with."
    )
}

# in each split: the draws for one input are alike, so it is inputs that make the law precise
INPUTS = 2000
DRAWS = 32  # trajectories of each input
LINES = 60  # inputs with a line of their own
SHOWN = 12  # greatest loss in the figure, bits


class Law(NamedTuple):
    """Counts (B, M) of the values (M,) of d."""

    values: Tensor
    counts: Tensor


def applies(run: Run) -> bool:
    """Whether the run's model says sentences of vectors of bits, and decodes these from states
    before and after discretisation.
    """
    return (
        shows_bits(run.data)
        and isinstance(run.model, Speaker)
        and isinstance(run.model, Reconstructs)
    )


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv``, ``details.csv``, ``law.csv`` and the figure ``information_loss`` into
    ``out``.

    ``summary.csv`` (split, steps, n, mean, p, p_low, p_high, kl, kl_low, kl_high, p_zero,
    p_negative, kl_exact): n draws over all inputs; mean of d in bits; p = 1/(1 + mean of d given d
    ≥ 0); kl of d given d ≥ 0 from Geometric(½), nats, plug-in; 95 % bootstrap intervals over
    inputs; kl_exact, the same of z_T ~ N(ẑ_s, ε²) with s from the exact posterior, with as many
    draws, NaN where sentences cannot be listed. ``details.csv``: the two parts of kl (fit and
    shift), the plug-in bias, c0 and cT, and the control's p, p_zero, p_negative and interval of kl.
    ``law.csv``: P(d) for every d, of the sampler, of the control, and of theory. A model without
    dynamics has one row, of 0 steps, in which cT are the bits predicted from the state that its
    sentence is read from. Source: Section *Sample diversity*.
    """
    model = run.model
    if not applies(run):
        raise ValueError(
            "this analysis needs vectors of bits, and a model that says sentences and decodes "
            "inputs from states, not "
            f"{type(run.data).__name__} and {type(model).__name__}: leave it out"
        )
    times = [k * model.steps for k in LENGTHS] if isinstance(model, AttractorModel) else [0]
    laws: dict[str, list[Law]] = {}
    controls: dict[str, Law | None] = {}
    rows: list[dict[str, Any]] = []
    details: list[dict[str, Any]] = []
    law_rows: list[pd.DataFrame] = []
    for split in run.data.splits:
        x = run.data.batch(INPUTS, split).x
        best = correct_bits(model.reconstruct(x).logits, x)
        if isinstance(model, AttractorModel):
            encoding = model.encode(x)
            states = states_at(model, encoding, DRAWS, times)
            laws[split] = [_law(model, x, best, z) for z in states]
            exact_z = exact_states(model, encoding, DRAWS)[0] if is_listed(model) else None
        else:
            laws[split] = [_law(model, x, best, model.describe(x, DRAWS).z)]
            exact_z = None
        control = controls[split] = None if exact_z is None else _law(model, x, best, exact_z)
        exact = _describe(control)
        for steps, law in zip(times, laws[split], strict=True):
            found = _describe(law)
            keys = {"split": split, "steps": steps, "n": INPUTS * DRAWS}
            columns = (
                "mean",
                "p",
                "p_low",
                "p_high",
                "kl",
                "kl_low",
                "kl_high",
                "p_zero",
                "p_negative",
            )
            rows.append(
                keys
                | {name: found[name] for name in columns}
                | {"kl_exact": exact.get("kl", np.nan)}
            )
            c0 = float(best.double().mean())
            more = {"inputs": INPUTS, "c0": c0, "cT": c0 - found["mean"]}
            more |= {name: found[name] for name in ("fit", "shift", "bias")}
            more |= {
                f"{name}_exact": exact.get(name, np.nan)
                for name in ("mean", "p", "p_zero", "p_negative", "kl", "kl_low", "kl_high")
            }
            details.append(keys | more)
            law_rows.append(_tabulate_law(split, steps, law, control))
    pd.DataFrame(rows).to_csv(out / "summary.csv", index=False)
    pd.DataFrame(details).to_csv(out / "details.csv", index=False)
    pd.concat(law_rows).to_csv(out / "law.csv", index=False)
    with style():
        save(_draw(laws, controls, times, pd.DataFrame(rows)), out / "information_loss")


def _law(model: Reconstructs, x: Tensor, best: Tensor, z: Tensor) -> Law:
    """The law of d = c0 − c for states z (B, draws, d); the decoder sees a few inputs at once."""
    rows = max(1, 500_000 // (z.shape[1] * x.shape[1]))
    parts = zip(z.split(rows), x.split(rows), strict=True)
    correct = torch.cat([correct_bits(model.decoder(z_).logits, x_[:, None]) for z_, x_ in parts])
    return Law(*tabulate(best[:, None] - correct))


def _describe(law: Law | None) -> dict[str, float]:
    """Every statistic of the law of all inputs, with bootstrap bounds as name_low and name_high."""
    if law is None:
        return {}
    low, high = bootstrap_interval(law.values, law.counts)
    found = {
        k: float(v) for k, v in information_loss(law.values, law.counts.sum(0))._asdict().items()
    }
    found |= {f"{k}_low": float(v) for k, v in low._asdict().items()}
    return found | {f"{k}_high": float(v) for k, v in high._asdict().items()}


def _tabulate_law(split: str, steps: int, law: Law, control: Law | None) -> pd.DataFrame:
    def series(of: Law) -> pd.Series[float]:
        p = of.counts.sum(0) / of.counts.sum()
        return pd.Series(p.numpy(), index=of.values.numpy())

    columns = {"sampler": series(law)} | ({} if control is None else {"exact": series(control)})
    table = (
        pd.DataFrame(columns).fillna(0.0)
        if control is not None
        else pd.DataFrame(columns).assign(exact=np.nan)
    )
    table["geometric"] = geometric(torch.tensor(list(table.index))).numpy()
    table = table.rename_axis("d").reset_index()
    table.insert(0, "steps", steps)
    table.insert(0, "split", split)
    return table


def _draw(
    laws: Mapping[str, list[Law]],
    controls: Mapping[str, Law | None],
    times: list[int],
    summary: pd.DataFrame,
) -> Figure:
    # For each split a row on a linear scale and one on a logarithmic scale.
    figure = Figure(figsize=(max(3.7 * len(times), 6), 0.6 + 5 * len(laws)), layout="constrained")
    grid = figure.subplots(2 * len(laws), len(times), sharex=True, sharey="row", squeeze=False)
    for pair, (split, of_split) in enumerate(laws.items()):
        for column, (steps, law) in enumerate(zip(times, of_split, strict=True)):
            row = summary[(summary["split"] == split) & (summary["steps"] == steps)].iloc[0]
            top, bottom = grid[2 * pair, column], grid[2 * pair + 1, column]
            for axes in (top, bottom):
                _draw_law(
                    axes, law, controls[split], least=0.0 if axes is top else np.nan
                )  # a log axis has no 0
            after = f", {LENGTHS[column] if column else ''}T = {steps} steps" if steps else ""
            top.set_title(f"{SPLIT_NAMES.get(split, split)}{after}")
            exact = f"KL of exact samples = {row['kl_exact']:.3f}\n" if steps else ""
            note = (
                f"p = {row['p']:.3f} [{row['p_low']:.3f}, {row['p_high']:.3f}]\n"
                f"KL = {row['kl']:.3f} [{row['kl_low']:.3f}, {row['kl_high']:.3f}] nats\n"
                f"{exact}P(d < 0) = {row['p_negative']:.3f}"
            )
            top.text(0.98, 0.95, note, transform=top.transAxes, ha="right", va="top", fontsize=8.5)
            top.set_ylim(0, 1)
            bottom.set_yscale("log", base=2)
            bottom.set_ylim(2.0**-13, 1.4)
            bottom.set_xlim(-0.3, SHOWN + 0.3)
            bottom.set_xticks(range(0, SHOWN + 1, 2))
            if column == 0:
                top.set_ylabel("P(d | d ≥ 0)")
                bottom.set_ylabel("P(d | d ≥ 0), log₂ scale")
    for axes in grid[-1]:
        axes.set_xlabel("d, bits lost")
    handles = [
        Line2D([], [], color=LIGHT_BLUE, alpha=0.6, linewidth=1, label="single inputs"),
        Line2D([], [], color=BLUE, linewidth=2.2, label="all inputs"),
        Line2D(
            [],
            [],
            color=GREEN,
            linewidth=1.6,
            linestyle=":",
            marker="o",
            markersize=3.5,
            label="exact posterior",
        ),
        Line2D([], [], color=ORANGE, linewidth=1.8, linestyle="--", label="Geometric(½)"),
    ]
    if not any(times):
        del handles[2]
    figure.legend(handles=handles, loc="outside upper center", ncols=4)
    return figure


def _draw_law(axes: Axes, law: Law, control: Law | None, least: float) -> None:
    theory = torch.arange(SHOWN + 1)
    k, inputs = _conditional(law.values, law.counts[:LINES], least)
    lines = LineCollection(
        [np.column_stack([k, f]) for f in inputs], colors=LIGHT_BLUE, linewidths=0.6, alpha=0.35
    )
    axes.add_collection(lines, autolim=False)
    axes.plot(*_conditional(law.values, law.counts.sum(0), least), color=BLUE, linewidth=2.2)
    axes.plot(theory, geometric(theory), color=ORANGE, linewidth=1.8, linestyle="--")
    if control is not None:
        marginal = _conditional(control.values, control.counts.sum(0), least)
        axes.plot(*marginal, color=GREEN, linewidth=1.6, linestyle=":", marker="o", markersize=3.5)


def _conditional(values: Tensor, counts: Tensor, least: float) -> tuple[np.ndarray, np.ndarray]:
    """The values k ≥ 0 up to the last one shown, and P(k | d ≥ 0), `least` where it is 0."""
    kept = counts[..., values >= 0]
    f = kept / kept.sum(-1, keepdim=True)
    k = values[values >= 0]
    shown = k <= SHOWN
    return k[shown].numpy(), torch.where(f > 0, f, least)[..., shown].numpy()
