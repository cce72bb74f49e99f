"""The sampler's law of sentences against the exact posterior, with noise floors, at T, 2T and 5T
steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pyro.distributions import Normal
from torch import Tensor

from plot_attractors.evaluation.metrics import (
    drawn_shares,
    effective_sample_share,
    in_use,
    kl_divergence,
    log_slope,
    marginal_total_variation,
    pareto_k,
    reverse_kl_divergence,
    total_variation,
    total_variation_of_draws,
)
from plot_attractors.evaluation.sampling import (
    LENGTHS,
    exact_draws,
    exact_states,
    is_listed,
    nearest_sentence,
    path_log_weight,
    require_attractors,
    sentence_distribution,
    states_at,
)
from plot_attractors.gflownet.trajectories import simulate_backward
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.plots.style import BLUE, GREEN, RED, SPLIT_NAMES, add_scale, save, style
from plot_attractors.training.em import in_use_threshold

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Calibration"
CAPTIONS = {
    "calibration": (
        "Is each sentence sampled in proportion to its reward? Upper row: probability of every "
        "sentence for every "
        "input, as estimated from sampled trajectories of T, 2T and 5T steps, against the exact "
        "posterior; a "
        "perfect sampler lies on the diagonal, within the noise of the draws. Colour: how many "
        "(input, sentence) "
        "pairs; probabilities below 10⁻⁴ are drawn there. Of sentences too many to list, those "
        "that "
        "were drawn. Lower row: total-variation distance of the two laws for each input; "
        "dotted, the noise floor, is the same for as many draws from the exact posterior. Vertical "
        "lines are means. First for inputs like those of training, then for what training never "
        "showed."
    )
}

INPUTS, DRAWS = (
    64,
    512,
)  # inputs, and trajectories of each: many, so that the noise floor of a law is low
WIDE_INPUTS, WIDE_DRAWS = 512, 32  # for laws averaged over inputs
WEIGHT_DRAWS = 128  # paths of each input that are weighted, for the bounds of log Z
WEIGHT_ROWS = 2048  # paths scored at once
MOST_SUMMED = 10_000_000  # that are summed over in chunks
NEAREST_DRAWS = 16  # end states of an input whose nearest sentence is searched
READINGS = 4  # sentences that the learned discretizer draws at each end state
LEAST = 1e-4  # least probability in the figure; smaller ones are drawn there
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("counts", ["#DCEBF5", BLUE, "#00233A"])


class Estimate(NamedTuple):
    """Laws estimated from draws, and the statistics made of them."""

    # (B, S) of all sentences, or (m,) of every pair of an input and a sentence that was drawn
    law: Tensor
    p: Tensor  # the exact posterior of the same
    distance: Tensor  # (B,) total variation from the exact posterior
    statistics: dict[str, float]


class Panel(NamedTuple):
    """A split: estimates at T, 2T and 5T steps, that of exact draws, and the rows of the table."""

    estimates: list[Estimate]
    control: Estimate
    table: pd.DataFrame


def applies(run: Run) -> bool:
    """Whether the run's model has an exact posterior that can be computed."""
    return isinstance(run.model, AttractorModel) and (
        is_listed(run.model)
        or run.model.factored
        or (run.model.language.count <= MOST_SUMMED and run.model.decodability == "none")
    )


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv`` (split, steps, statistic, value, floor) and the figure ``calibration``
    into ``out``.

    q̂(s|x) is the mean over end states z_T of the exact readout P(s|z_T) ∝ N(z_T; ẑ_s, ε²) P(s),
    and π(s|x) ∝ R(s; x). The floor is the same statistic of as many draws s ~ π, z_T ~ N(ẑ_s, ε²)
    through the same readout. Means over the inputs of a split unless said otherwise; nats.

    - ``tv`` = ½ Σ|q̂ − π|;
    - ``kl`` = KL(q̂ ‖ π); ``reverse_kl`` = KL(π ‖ q̂'), with q̂' = q̂ and one more draw spread over
    all sentences;
    - ``slope`` of log q̂ on log R: least squares weighted by π, an intercept for each input, over
      the sentences that exact draws would hit five times or more;
    - ``tv_discretizer``: total variation from π of sentences that the learned discretizer draws at
    the z_T;
    - ``marginal_tv``: total variation of the two laws averaged over (more) inputs;
      ``sentences_in_use``, ``tokens_in_use``: sentences whose average probability exceeds a tenth
      of an equal share, and their tokens;
    - ``distance_to_embedding``: median over all draws of the distance of z_T to the nearest ẑ;
    - ``elbo`` ≤ ``log_z`` ≤ ``eubo``: mean log-weight of whole paths under the guide, the exact
      value, and mean log-weight under the model with its exact posterior; the floor of all three is
      log Z, what a perfect sampler has. With a reward that involves z_T, log Z is taken at the ẑ_s,
      and the bounds hold approximately;
    - ``ess``: (Σw)²/nΣw² of the guide's path weights for an input; ``k_hat``: the Pareto shape of
    their tail, median.

    Path weights exist at T steps only, since the backward dynamics are those of T steps: NaN at 2T
    and 5T.

    With more than 100,000 sentences one sentence is drawn at every z_T, by the exact readout where
    sentences factor, else by the learned discretizer, whose errors are not in the floor; log Z is
    exact, by factors or by a sum over all sentences in chunks. Statistics that need the law of
    every sentence are left out: ``kl``, ``reverse_kl``, ``slope``, ``marginal_tv``;
    ``tv_discretizer`` is of one sentence at every z_T, too. ``sentences_in_use`` are all that were
    drawn, and ``tv_nearest`` is the total variation of the sentences nearest to few of the z_T.

    Raises ValueError where sentences do not factor and are more than ten million.
    """
    if not applies(run):
        require_attractors(run.model)
        raise ValueError(
            f"there is no exact posterior of this model to compare with: its "
            f"{run.model.language.count:,} sentences do "
            f"not factor, and {MOST_SUMMED:,} at most can be summed, where the reward does not "
            f"involve z_T"
        )
    model: AttractorModel = run.model
    times = [k * model.steps for k in LENGTHS]
    calibrate = _calibrate if is_listed(model) else _calibrate_large
    panels = {split: calibrate(run, model, split, times) for split in run.data.splits}
    table = pd.concat([panel.table for panel in panels.values()], ignore_index=True)
    table.to_csv(out / "summary.csv", index=False)
    with style():
        save(_draw(panels, times), out / "calibration")


def _calibrate(run: Run, model: AttractorModel, split: str, times: list[int]) -> Panel:
    encoding = model.encode(run.data.batch(INPUTS, split).x)
    wide = model.encode(run.data.batch(WIDE_INPUTS, split).x)
    log_p, wide_p = (
        model.log_posterior(encoding.distribution),
        model.log_posterior(wide.distribution).exp(),
    )
    log_reward = model.log_reward(encoding.distribution)
    if model.decodability != "none":
        log_reward = log_reward + model.log_decodability(model.embeddings()).diagonal()
    log_z = float(log_reward.logsumexp(-1).mean())

    law = _law(model, encoding, exact_states(model, encoding, DRAWS)[0], log_p, learned=False)
    marginal = _marginal(model, exact_states(model, wide, WIDE_DRAWS)[0], wide_p)
    control = law._replace(statistics=law.statistics | marginal)
    estimates = []
    for z, z_wide in zip(
        states_at(model, encoding, DRAWS, times),
        states_at(model, wide, WIDE_DRAWS, times),
        strict=True,
    ):
        law = _law(model, encoding, z, log_p, learned=True)
        estimates.append(law._replace(statistics=law.statistics | _marginal(model, z_wide, wide_p)))
    paths = _weigh_paths(model, encoding, *exact_states(model, encoding, WEIGHT_DRAWS))
    return Panel(
        estimates, control, _table(split, model.steps, times, estimates, control, log_z, paths)
    )


def _table(
    split: str,
    own_steps: int,
    times: list[int],
    estimates: list[Estimate],
    control: Estimate,
    log_z: float,
    paths: dict[str, tuple[float, float]],
) -> pd.DataFrame:
    rows = []
    for steps, estimate in zip(times, estimates, strict=True):
        for name, value in estimate.statistics.items():
            rows.append((split, steps, name, value, control.statistics[name]))
        rows.append((split, steps, "log_z", log_z, log_z))
        for name, (value, floor) in paths.items():
            value = value if steps == own_steps else np.nan
            rows.append((split, steps, name, value, log_z if name in ("elbo", "eubo") else floor))
    return pd.DataFrame(rows, columns=["split", "steps", "statistic", "value", "floor"])


def _calibrate_large(run: Run, model: AttractorModel, split: str, times: list[int]) -> Panel:
    encoding = model.encode(run.data.batch(INPUTS, split).x)
    exact, context = exact_draws(model, encoding.distribution, DRAWS), encoding.context[:, None]
    end = model.first_backward_kernel(exact.s, context).sample()

    def read(z: Tensor) -> Tensor:
        return model.sentence_given_state(z, context).sample()

    said = (
        read(end) if model.factored else exact.s
    )  # what the discretizer has not learned is the model's own error
    control = _drawn_law(model, encoding, end, said, said, exact.log_z)
    estimates = []
    for z in states_at(model, encoding, DRAWS, times):
        s = read(z)
        learned = model.discretizer(z, context).sample() if model.factored else s
        estimates.append(_drawn_law(model, encoding, z, s, learned, exact.log_z))
    paths = _weigh_paths(model, encoding, end[:, :WEIGHT_DRAWS], exact.s[:, :WEIGHT_DRAWS])
    log_z = float(exact.log_z.mean())
    return Panel(
        estimates, control, _table(split, model.steps, times, estimates, control, log_z, paths)
    )


def _drawn_law(
    model: AttractorModel, encoding: Encoding, z: Tensor, s: Tensor, learned: Tensor, log_z: Tensor
) -> Estimate:
    """Laws of single inputs from sentences s (B, draws, width) that were read at end states z (B,
    draws, d), and from those that the learned discretizer read there.
    """
    q = Normal(encoding.distribution.loc[:, None], encoding.distribution.scale[:, None])

    def log_p(s: Tensor) -> Tensor:
        return model.log_reward(q, s) - log_z[:, None]

    key, known = model.language.key(s), log_p(s)
    row, share, first = drawn_shares(key)
    distance = total_variation_of_draws(key, known)
    near = nearest_sentence(model, z[:, :NEAREST_DRAWS])
    said = s.flatten(0, 1).unique(dim=0)
    return Estimate(
        share.float(),
        known[row, first].exp().float(),
        distance,
        {
            "tv": float(distance.mean()),
            "tv_discretizer": float(
                total_variation_of_draws(model.language.key(learned), log_p(learned)).mean()
            ),
            "tv_nearest": float(
                total_variation_of_draws(model.language.key(near.s), log_p(near.s)).mean()
            ),
            "sentences_in_use": float(len(said)),
            "tokens_in_use": float((model.language.bag(said).sum(0) > 0).sum()),
            "distance_to_embedding": float(near.distance.median()),
        },
    )


def _law(
    model: AttractorModel, encoding: Encoding, z: Tensor, log_p: Tensor, learned: bool
) -> Estimate:
    """Laws of single inputs from end states z (B, draws, d); `learned`: the discretizer reads them,
    too.
    """
    draws, p = z.shape[1], log_p.exp()
    law = sentence_distribution(model, z)
    distance = total_variation(law, p)
    return Estimate(
        law,
        p,
        distance,
        {
            "tv": float(distance.mean()),
            "kl": float(kl_divergence(law, log_p).mean()),
            "reverse_kl": float(reverse_kl_divergence(law, log_p, draws).mean()),
            "slope": float(log_slope(law, log_p, draws)),
            "tv_discretizer": float(total_variation(_read(model, encoding, z, learned), p).mean()),
        },
    )


def _marginal(model: AttractorModel, z: Tensor, p: Tensor) -> dict[str, float]:
    """What end states z (B, draws, d) say of all inputs together; p (B, S) is the exact
    posterior.
    """
    law = sentence_distribution(model, z)
    used = in_use(law, in_use_threshold(law.shape[-1]))
    return {
        "marginal_tv": float(marginal_total_variation(law, p)),
        "sentences_in_use": float(used.sum()),
        "tokens_in_use": float((model.language.bag(model.sentences[used]).sum(0) > 0).sum()),
        "distance_to_embedding": float(nearest_sentence(model, z).distance.median()),
    }


def _read(model: AttractorModel, encoding: Encoding, z: Tensor, learned: bool) -> Tensor:
    """(B, S) frequencies of sentences drawn at end states z (B, draws, d), by the discretizer or
    the exact readout.
    """
    rows = max(1, 2_000_000 // (z.shape[1] * READINGS * len(model.sentences)))
    counts = torch.zeros(len(z), len(model.sentences))
    for start in range(0, len(z), rows):
        part, context = z[start : start + rows], encoding.context[start : start + rows, None]
        if learned:
            index = model.index(model.discretizer(part, context).sample(torch.Size([READINGS])))
        else:
            law = torch.distributions.Categorical(logits=model.log_sentence_given_state(part))
            index = law.sample(torch.Size([READINGS]))
        index = index.movedim(0, -1).flatten(1)
        counts[start : start + rows].scatter_add_(
            1, index, torch.ones_like(index, dtype=counts.dtype)
        )
    return counts / counts.sum(-1, keepdim=True)


def _weigh_paths(
    model: AttractorModel, encoding: Encoding, end: Tensor, said: Tensor
) -> dict[str, tuple[float, float]]:
    """elbo, eubo, ess and k_hat from paths of T steps, each with its floor where log Z is not the
    floor.

    `end` (B, WEIGHT_DRAWS, d) and `said` (B, WEIGHT_DRAWS, width) are exact draws of z_T and s.
    """
    guide, target = [], []
    for rows in torch.arange(len(encoding.z0)).split(max(1, WEIGHT_ROWS // WEIGHT_DRAWS)):
        e = encoding[rows.repeat_interleave(WEIGHT_DRAWS)]
        z = model.trajectories(e.z0, model.steps, e.context)
        s = model.sentence_given_state(z[-1], e.context).sample()
        guide.append(path_log_weight(model, e, z, s).unflatten(0, (-1, WEIGHT_DRAWS)))
        z = simulate_backward(
            model.backward_step, end[rows].flatten(0, 1), model.steps, e.context
        ).z
        z[0] = e.z0  # which is given
        s = said[rows].flatten(0, 1)
        target.append(path_log_weight(model, e, z, s).unflatten(0, (-1, WEIGHT_DRAWS)))
    log_w = torch.cat(guide)
    return {
        "elbo": (float(log_w.mean()), np.nan),
        "eubo": (float(torch.cat(target).mean()), np.nan),
        "ess": (float(effective_sample_share(log_w).mean()), 1.0),
        "k_hat": (float(pareto_k(log_w).median()), np.nan),
    }


def _draw(panels: Mapping[str, Panel], times: list[int]) -> Figure:
    # For each split a row of laws and one of distances; more than two splits two by two.
    across = 2 if len(panels) > 2 else 1
    down = -(-len(panels) // across)
    figure = Figure(figsize=(3.9 * len(times) * across, 7 * down), layout="constrained")
    parts = figure.subfigures(down, across, squeeze=False).flat
    for part, (split, panel) in zip(parts, panels.items(), strict=False):
        grid = part.subplots(2, len(times), squeeze=False, height_ratios=[1.25, 1], sharey="row")
        norm = LogNorm(1, max(10.0, panel.control.law.numel() / 10))
        image = None
        for column, (steps, estimate) in enumerate(zip(times, panel.estimates, strict=True)):
            here = panel.table[panel.table["steps"] == steps].set_index("statistic")
            top, bottom = grid[:, column]
            image = _draw_laws(top, estimate, here, norm)
            name = "" if column else f"{SPLIT_NAMES.get(split, split)}, "
            top.set_title(f"{name}{LENGTHS[column] if column else ''}T = {steps} steps")
            _draw_distances(bottom, estimate, panel.control, here)
        grid[0, 0].set_ylabel("sampler q̂(s | x)")
        first = grid[1, 0]
        first.set_ylabel("inputs")
        first.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        first.set_ylim(top=1.3 * first.get_ylim()[1])  # room for the notes
        if image is not None:
            add_scale(grid[0, -1], image, "pairs", shrink=0.85)
    return figure


def _draw_laws(axes: Axes, estimate: Estimate, here: pd.DataFrame, norm: LogNorm) -> PolyCollection:
    low = np.log10(LEAST)
    p, q = (part.flatten().clamp(min=LEAST).numpy() for part in (estimate.p, estimate.law))
    image = axes.hexbin(
        p, q, xscale="log", yscale="log", gridsize=45, norm=norm, cmap=WHITE_TO_BLUE,
        extent=(low, 0, low, 0), mincnt=1, linewidths=0.1,
    )  # fmt: skip
    axes.plot([LEAST, 1], [LEAST, 1], color=RED, linewidth=1.5, linestyle="--")
    axes.set_xlim(0.8 * LEAST, 1)
    axes.set_ylim(0.8 * LEAST, 1)
    axes.set_aspect("equal")
    axes.set_xlabel("exact posterior π(s | x)")
    if "slope" in here.index:
        slope = here.loc["slope"]
        note = f"slope {slope['value']:.2f} (exact draws {slope['floor']:.2f})"
        axes.text(0.04, 0.96, note, transform=axes.transAxes, va="top", fontsize=8.5)
    return image


def _draw_distances(axes: Axes, estimate: Estimate, control: Estimate, here: pd.DataFrame) -> None:
    tv, floor = float(here["value"]["tv"]), float(here["floor"]["tv"])
    bins = np.linspace(0, 1, 33).tolist()
    axes.hist(
        control.distance.numpy(),
        bins=bins,
        histtype="step",
        color=GREEN,
        linestyle=":",
        linewidth=1.6,
    )
    axes.hist(estimate.distance.numpy(), bins=bins, color=BLUE, alpha=0.75)
    axes.axvline(tv, ymax=0.77, color="black", linewidth=1.5)
    axes.axvline(floor, ymax=0.77, color=GREEN, linewidth=1.5, linestyle=":")
    axes.set_xlim(0, 1)
    axes.set_xlabel("total variation, q̂ to π, of an input")
    place: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "va": "top", "fontsize": 9}
    axes.text(0.97, 0.97, f"sampler, mean {tv:.3f}", color=BLUE, **place)
    axes.text(0.97, 0.88, f"exact draws, mean {floor:.3f}", color=GREEN, **place)
