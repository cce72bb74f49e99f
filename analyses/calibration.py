"""The sampler's law of sentences against the exact posterior, with noise floors, at T, 2T and 5T steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from torch import Tensor

from plot_attractors.attractor import AttractorModel, Encoding
from plot_attractors.em import in_use_threshold
from plot_attractors.figures import BLUE, GREEN, RED, add_scale, save, style
from plot_attractors.gflownet.trajectories import simulate_backward
from plot_attractors.metrics import (
    effective_sample_share,
    in_use,
    kl_divergence,
    log_slope,
    marginal_total_variation,
    pareto_k,
    reverse_kl_divergence,
    smoothed,
    total_variation,
)
from plot_attractors.sampling import (
    LENGTHS,
    exact_states,
    is_listed,
    nearest_distance,
    path_log_weight,
    require_listed,
    sentence_law,
    states_at,
)

if TYPE_CHECKING:
    from plot_attractors.runs import Run

__all__ = ["CAPTIONS", "TITLE", "analyze", "applies"]

TITLE = "Calibration"
CAPTIONS = {
    "calibration": (
        "Is each sentence sampled in proportion to its reward? Upper row: probability of every sentence for every "
        "input, as estimated from sampled trajectories of T, 2T and 5T steps, against the exact posterior; a perfect "
        "sampler lies on the diagonal, within the noise of the draws. Colour: how many (input, sentence) pairs. Lower "
        "row: total-variation distance of the two laws for each input; dotted, the noise floor, is the same for as "
        "many draws from the exact posterior. Vertical lines are means."
    )
}

INPUTS = 256
DRAWS = 128  # trajectories of each input
WEIGHT_INPUTS = 64  # inputs whose paths are weighted, for the bounds of log Z
WEIGHT_ROWS = 2048  # paths scored at once
READINGS = 4  # sentences that the learned discretizer draws at each end state
LEAST = 1e-5  # least probability in the figure
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("counts", ["#DCEBF5", BLUE, "#00233A"])


class Estimate(NamedTuple):
    """Laws (B, S) estimated from draws, and the statistics made of them."""

    law: Tensor
    distance: Tensor  # (B,) total variation from the exact posterior
    statistics: dict[str, float]


def applies(run: Run) -> bool:
    """Whether the run's model has an exact posterior."""
    return is_listed(run.model)


@torch.no_grad()
def analyze(run: Run, out: Path) -> None:
    """Write ``summary.csv`` (steps, statistic, value, floor) and the figure ``calibration`` into ``out``.

    q̂(s|x) is the mean over end states z_T of the exact readout P(s|z_T) ∝ N(z_T; ẑ_s, ε²) P(s), and π(s|x) ∝ R(s; x). The
    floor is the same statistic of as many draws s ~ π, z_T ~ N(ẑ_s, ε²) through the same readout. Training inputs only;
    means over inputs unless said otherwise; nats.

    - ``tv`` = ½ Σ|q̂ − π|; ``marginal_tv``, the same of the two laws averaged over inputs;
    - ``kl`` = KL(q̂ ‖ π); ``reverse_kl`` = KL(π ‖ q̂'), with q̂' = q̂ and one more draw spread over all sentences;
    - ``slope`` of log q̂' on log R: least squares weighted by π, an intercept for each input;
    - ``sentences_in_use``, ``tokens_in_use``: sentences whose q̂ averaged over inputs exceeds a tenth of an equal share;
    - ``distance_to_embedding``: median over all draws of the distance of z_T to the nearest ẑ;
    - ``tv_discretizer``: total variation from π of sentences that the learned discretizer draws at the z_T;
    - ``elbo`` ≤ ``log_z`` ≤ ``eubo``: mean log-weight of whole paths under the guide, the exact value, and mean
      log-weight under the model with its exact posterior; the floor of all three is log Z, what a perfect sampler has.
      With a reward that involves z_T, log Z is taken at the ẑ_s, and the bounds hold approximately;
    - ``ess``: (Σw)²/nΣw² of the guide's path weights for an input; ``k_hat``: the Pareto shape of their tail, median.

    Path weights exist at T steps only, since the backward dynamics are those of T steps: NaN at 2T and 5T.
    Raises ValueError where sentences are too many to list.
    """
    model = require_listed(run.model)
    times = [k * model.steps for k in LENGTHS]
    encoding = model.encode(run.data.batch(INPUTS).x)
    log_reward = model.log_reward(encoding.distribution)
    log_posterior = model.log_posterior(encoding.distribution)
    control = _estimate(model, encoding, exact_states(model, encoding, DRAWS)[0], log_posterior, learned=False)
    estimates = [_estimate(model, encoding, z, log_posterior) for z in states_at(model, encoding, DRAWS, times)]
    log_z = float(log_reward.logsumexp(-1).mean())
    paths = _weigh_paths(model, encoding)
    rows = []
    for steps, estimate in zip(times, estimates, strict=True):
        for name, value in estimate.statistics.items():
            rows.append((steps, name, value, control.statistics[name]))
        rows.append((steps, "log_z", log_z, log_z))
        for name, (value, floor) in paths.items():
            value = value if steps == model.steps else np.nan
            rows.append((steps, name, value, log_z if name in ("elbo", "eubo") else floor))
    table = pd.DataFrame(rows, columns=["steps", "statistic", "value", "floor"])
    table.to_csv(out / "summary.csv", index=False)
    with style():
        save(_draw(estimates, control, log_posterior, times, table), out / "calibration")


def _estimate(
    model: AttractorModel, encoding: Encoding, z: Tensor, log_p: Tensor, learned: bool = True
) -> Estimate:
    """Everything that is estimated from end states z (B, draws, d); `learned`: read them by the discretizer, too."""
    draws, sentences = z.shape[1], model.sentences
    law = sentence_law(model, z)
    distance = total_variation(law, log_p.exp())
    used = in_use(law, in_use_threshold(len(sentences)))
    return Estimate(
        law,
        distance,
        {
            "tv": float(distance.mean()),
            "kl": float(kl_divergence(law, log_p).mean()),
            "reverse_kl": float(reverse_kl_divergence(law, log_p, draws).mean()),
            "slope": float(log_slope(law, log_p, draws)),
            "marginal_tv": float(marginal_total_variation(law, log_p.exp())),
            "sentences_in_use": float(used.sum()),
            "tokens_in_use": float((model.language.bag(sentences[used]).sum(0) > 0).sum()),
            "distance_to_embedding": float(nearest_distance(model, z).median()),
            "tv_discretizer": float(total_variation(_read(model, encoding, z, learned), log_p.exp()).mean()),
        },
    )


def _read(model: AttractorModel, encoding: Encoding, z: Tensor, learned: bool) -> Tensor:
    """(B, S) frequencies of sentences drawn at end states z (B, draws, d), by the discretizer or the exact readout."""
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
        counts[start : start + rows].scatter_add_(1, index, torch.ones_like(index, dtype=counts.dtype))
    return counts / counts.sum(-1, keepdim=True)


def _weigh_paths(model: AttractorModel, encoding: Encoding) -> dict[str, tuple[float, float]]:
    """elbo, eubo, ess and k_hat, each with its floor, from paths of T steps of the first inputs."""
    few = Encoding(
        type(encoding.distribution)(
            encoding.distribution.loc[:WEIGHT_INPUTS], encoding.distribution.scale[:WEIGHT_INPUTS]
        ),
        encoding.z0[:WEIGHT_INPUTS],
        encoding.context[:WEIGHT_INPUTS],
    )
    end, index = exact_states(model, few, DRAWS)
    guide, target = [], []
    per_chunk = max(1, WEIGHT_ROWS // DRAWS)
    for start in range(0, len(few.z0), per_chunk):
        here = slice(start, start + per_chunk)
        q = few.distribution
        repeated = Encoding(
            type(q)(q.loc[here].repeat_interleave(DRAWS, 0), q.scale[here].repeat_interleave(DRAWS, 0)),
            few.z0[here].repeat_interleave(DRAWS, 0),
            few.context[here].repeat_interleave(DRAWS, 0),
        )
        z = model.trajectories(repeated.z0, model.steps, repeated.context)
        s = model.sentence_given_state(z[-1], repeated.context).sample()
        guide.append(path_log_weight(model, repeated, z, s).unflatten(0, (-1, DRAWS)))
        back = simulate_backward(model.backward_step, end[here].flatten(0, 1), model.steps, repeated.context)
        z = torch.cat([repeated.z0[None], back.z[1:]])  # z0 is given
        s = model.sentences[index[here].flatten()]
        target.append(path_log_weight(model, repeated, z, s).unflatten(0, (-1, DRAWS)))
    log_w = torch.cat(guide)
    return {
        "elbo": (float(log_w.mean()), np.nan),
        "eubo": (float(torch.cat(target).mean()), np.nan),
        "ess": (float(effective_sample_share(log_w).mean()), 1.0),
        "k_hat": (float(pareto_k(log_w).median()), np.nan),
    }


def _draw(
    estimates: list[Estimate], control: Estimate, log_p: Tensor, times: list[int], table: pd.DataFrame
) -> Figure:
    figure = Figure(figsize=(3.9 * len(times), 7), layout="constrained")
    grid = figure.subplots(2, len(times), squeeze=False, height_ratios=[1.25, 1], sharey="row")
    p = log_p.exp().flatten().clamp(min=LEAST).numpy()
    low = np.log10(LEAST)
    bins = np.linspace(0, 1, 33)
    image = None
    norm = LogNorm(1, max(10.0, len(p) / 10))
    for column, (steps, estimate) in enumerate(zip(times, estimates, strict=True)):
        here = table[table["steps"] == steps].set_index("statistic")
        value, floor = here["value"], here["floor"]
        axes = grid[0, column]
        q = estimate.law.flatten().clamp(min=LEAST).numpy()
        image = axes.hexbin(
            p, q, xscale="log", yscale="log", gridsize=45, norm=norm, cmap=WHITE_TO_BLUE,
            extent=(low, 0, low, 0), mincnt=1, linewidths=0.1,
        )  # fmt: skip
        axes.plot([LEAST, 1], [LEAST, 1], color=RED, linewidth=1.5, linestyle="--")
        axes.set_xlim(LEAST, 1)
        axes.set_ylim(LEAST, 1)
        axes.set_aspect("equal")
        axes.set_title(f"{LENGTHS[column] if column else ''}T = {steps} steps")
        axes.set_xlabel("exact posterior π(s | x)")
        note = f"slope {value['slope']:.2f} (exact draws {floor['slope']:.2f})"
        axes.text(0.04, 0.96, note, transform=axes.transAxes, va="top", fontsize=8.5)
        axes = grid[1, column]
        axes.hist(control.distance.numpy(), bins=bins.tolist(), histtype="step", color=GREEN, linestyle=":", linewidth=1.6)
        axes.hist(estimate.distance.numpy(), bins=bins.tolist(), color=BLUE, alpha=0.75)
        axes.axvline(value["tv"], color=BLUE, linewidth=1.5)
        axes.axvline(floor["tv"], color=GREEN, linewidth=1.5, linestyle=":")
        axes.set_xlim(0, 1)
        axes.set_xlabel("total variation, q̂ to π, of an input")
        note = f"mean {value['tv']:.3f}\nfloor {floor['tv']:.3f}"
        axes.text(0.97, 0.95, note, transform=axes.transAxes, ha="right", va="top", fontsize=9)
    grid[0, 0].set_ylabel("sampler q̂(s | x)")
    grid[1, 0].set_ylabel("inputs")
    if image is not None:
        add_scale(grid[0, -1], image, "pairs", shrink=0.85)
    return figure
