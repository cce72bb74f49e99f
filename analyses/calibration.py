"""The sampler's distribution of sentences against the exact posterior, at T, 2T and 5T steps.

q̂(s|x) is the mean over end states z_T of the exact readout P(s|z_T) ∝ N(z_T; ẑ_s, ε²) P(s),
and π(s|x) ∝ R(s; x). The floor is the same statistic of as many draws s ~ π, z_T ~ N(ẑ_s, ε²)
through the same readout; nats. docs/explanation/judging.md says what each statistic is.

Statistics of path weights, of the sentence policy and of the controls are NaN at 2T and 5T; the
floor of ``elbo``, ``log_z`` and ``eubo`` is log Z. Controls are what a sampler without learned
dynamics reaches: ``tv_brownian``, of Brownian motion from z0 with the variance σ², conditioned to
end at an embedding, P(s) N(ẑ_s; z0, σ²), σ the median σ_s of P(z0 | ẑ_s) over sentences and the
axes that embeddings use; ``tv_encoder``, of P(s | z) at z ~ P(z0 | x), the encoder's own noise.
Effective share and k̂ depend on the number of paths, which their names tell.

Where sentences are too many to sum (more than 10 million, or 100,000 sequences), annealed
populations take the place of exact draws, and their estimate that of log Z.

With more than 100,000 sentences one is drawn at every z_T, by the exact readout where sentences
factor, else by the learned discretizer, whose errors are not in the floor. ``kl``,
``reverse_kl``, ``slope`` and ``marginal_tv`` are left out, ``sentences_in_use`` are all that
were drawn, and ``tv_nearest`` is of the sentences nearest to few of the z_T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from pyro.distributions import Normal
from torch import Tensor
from torch.distributions import Categorical

from plot_attractors.analysis.parts import note, steps_name
from plot_attractors.analysis.sampling import (
    LENGTHS,
    exact_draws,
    exact_states,
    is_listed,
    nearest_sentence,
    noise_radius,
    path_log_weight,
    sentence_distribution,
    states_at,
    used_axes,
)
from plot_attractors.analysis.shape import ATTRACTORS
from plot_attractors.analysis.style import BLUE, GREEN, GREY, RED, add_scale
from plot_attractors.gflownet.trajectories import simulate_backward
from plot_attractors.language import in_use_threshold
from plot_attractors.measures.calibration import (
    MOST_OF_EXACT,
    PARTS,
    Distances,
    distances,
    distances_of_draws,
    drawn_shares,
    effective_sample_share,
    extrapolate,
    kl_divergence,
    log_slope,
    pareto_k,
    reverse_kl_divergence,
)
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.model.posterior import Readout
from plot_attractors.ranges import Size
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Calibration"
SLOW = True
CAPTIONS = {
    "calibration": (
        "Is each sentence sampled in proportion to its reward? Upper row: probability of every "
        "sentence for every input, as estimated from sampled trajectories of T, 2T and 5T steps, "
        "against the exact posterior; a perfect sampler lies on the diagonal, within the noise of "
        "the draws. Stripes at the left are sentences that were drawn once, twice, three times. "
        "Colour: how many (input, sentence) pairs; probabilities below 10⁻⁴ are drawn there. Of "
        "sentences too many to list, those that were drawn. Lower row: total-variation "
        "distance of the two distributions for each input; dotted, the noise floor, is the same "
        "for as many draws from the exact posterior. Vertical lines are means; the distance at "
        "infinitely many draws, with its standard error, is more than their difference, which is "
        "a lower bound. Grey: the same distance without learned dynamics, of Brownian motion that "
        "is conditioned to end at an embedding, and of the encoder's noise, read at once. First "
        "for inputs like those of training, then for what training never showed."
    )
}


NEEDS = ATTRACTORS


# -- measures --------------------------------------------------------------------------------------


NEAREST_DRAWS = 16  # end states of an input whose nearest sentence is searched
READINGS = 4  # sentences that the learned discretizer draws at each end state
CANDIDATES, OF_A_SET = 64, 8  # of a sentence policy, and draws that are resampled from them
WEIGHT_DRAWS = 512  # paths of each input that are weighted
WEIGHT_ROWS = 128  # paths scored at once, all steps of each: what fits into a core's cache
CELLS = 2_000_000  # entries of a table (inputs, draws, sentences) held at once


@dataclass(frozen=True)
class Config:
    """Sample sizes: many draws of each input, so that the noise floor is low."""

    inputs: Size = 64  # inputs of each split
    draws: Size = 512  # trajectories of each input
    wide_inputs: Size = 512  # for distributions averaged over inputs
    wide_draws: Size = 16  # trajectories of each of the wide inputs


class Estimate(NamedTuple):
    """Distributions estimated from draws, and the statistics made of them."""

    # (B, S) of all sentences, or (m,) of every pair of an input and a sentence that was drawn
    q: Tensor
    p: Tensor  # the exact posterior of the same
    distance: Tensor  # (B,) total variation from the exact posterior
    statistics: dict[str, float]


class Calibration(NamedTuple):
    """Estimates by number of steps, that of exact draws, log Z, and statistics of path weights."""

    estimates: dict[int, Estimate]
    control: Estimate
    log_z: float
    paths: dict[str, tuple[float, float]]


@torch.no_grad()
def calibrate(model: AttractorModel, data: Any, split: str, sizes: Config) -> Calibration:
    """Calibration for inputs of a split."""
    encoding = model.encode(data.batch(sizes.inputs, split).x)
    times = [k * model.steps for k in LENGTHS]
    if not is_listed(model):
        return _calibrate_by_draws(model, encoding, times, sizes)
    wide = model.encode(data.batch(sizes.wide_inputs, split).x)
    log_p = model.posterior.log_prob(encoding.distribution)
    wide_p = model.posterior.log_prob(wide.distribution).exp()
    log_reward = model.reward.log_pairs(encoding.distribution, model.sentences)

    def estimate(z: Tensor, learned: bool) -> Estimate:
        return _estimate(model, encoding, z, log_p, learned)

    def with_marginal(estimate: Estimate, z: Tensor) -> Estimate:
        marginal = _marginal_statistics(model, z, wide_p)
        return estimate._replace(statistics=estimate.statistics | marginal)

    control = estimate(exact_states(model, encoding, sizes.draws)[0], learned=False)
    control = with_marginal(control, exact_states(model, wide, sizes.wide_draws)[0])
    states = states_at(model, encoding, sizes.draws, times)
    wide_states = states_at(model, wide, sizes.wide_draws, times)
    estimates = {
        steps: with_marginal(estimate(z, learned=True), z_wide)
        for steps, z, z_wide in zip(times, states, wide_states, strict=True)
    }
    paths = _weigh_paths(model, encoding, *exact_states(model, encoding, WEIGHT_DRAWS))
    n = len(model.sentences)

    def distance(s: Tensor) -> Distances:
        """Of sentences s (B, draws, width)."""
        return distances(_counts(model.language.row(s), n), log_p.exp())

    exact = model.posterior(encoding.distribution).sample(torch.Size([sizes.draws]))
    paths |= _sentence_statistics(model, encoding, exact.transpose(0, 1), distance)
    return Calibration(estimates, control, float(log_reward.logsumexp(-1).mean()), paths)


def _calibrate_by_draws(
    model: AttractorModel, encoding: Encoding, times: list[int], sizes: Config
) -> Calibration:
    """Calibration from one sentence drawn at every end state."""
    exact = exact_draws(model, encoding.distribution, max(sizes.draws, WEIGHT_DRAWS))
    end = model.terminal_kernel(exact.s).sample()
    paths = _weigh_paths(model, encoding, end[:, :WEIGHT_DRAWS], exact.s[:, :WEIGHT_DRAWS])
    exact, end = exact._replace(s=exact.s[:, : sizes.draws]), end[:, : sizes.draws]
    z0 = encoding.z0[:, None]

    def read(z: Tensor) -> Tensor:
        return model.readout(z, z0).sample()

    # what the discretizer has not learned is the model's own error, so it is not in the floor
    s = read(end) if model.posterior.factored else exact.s
    control = _estimate_by_draws(model, encoding, end, s, s, exact.log_z)
    estimates = {}
    for steps, z in zip(times, states_at(model, encoding, sizes.draws, times), strict=True):
        s = read(z)
        learned = model.discretizer(z, z0).sample() if model.posterior.factored else s
        estimates[steps] = _estimate_by_draws(model, encoding, z, s, learned, exact.log_z)
    normal = Normal(encoding.distribution.loc[:, None], encoding.distribution.scale[:, None])

    def distance(s: Tensor) -> Distances:
        log_p = model.reward(normal, None, s) - exact.log_z[:, None]
        return distances_of_draws(model.language.key(s), log_p)

    paths |= _sentence_statistics(model, encoding, exact.s, distance)
    return Calibration(estimates, control, float(exact.log_z.mean()), paths)


def tabulate(result: Calibration) -> pd.DataFrame:
    """Every statistic at every number of steps, beside that of exact draws (floor)."""
    rows = []
    for steps, estimate in result.estimates.items():
        for name, value in estimate.statistics.items():
            rows.append((steps, name, value, result.control.statistics[name]))
        rows.append((steps, "log_z", result.log_z, result.log_z))
        for name, (value, floor) in result.paths.items():  # known at T steps only
            value = value if steps == min(result.estimates) else np.nan
            rows.append((steps, name, value, result.log_z if name in ("elbo", "eubo") else floor))
    table = pd.DataFrame(rows, columns=["steps", "statistic", "value", "floor"])
    statistic = table["statistic"].str.removesuffix("_se")
    unknown = table["statistic"].str.endswith("_extrapolated") & (table["floor"] > MOST_OF_EXACT)
    table.loc[statistic.isin(table.loc[unknown, "statistic"]), "value"] = np.nan
    return table


def count_pairs(estimate: Estimate, least: float) -> NDArray[np.float32]:
    """(3, m) p, q̂ and the number of pairs of an input and a sentence that have these.

    Probabilities below `least` count as `least`; pairs where both are below it are counted at once.
    """
    p, q = (part.flatten().clamp(min=least).numpy() for part in (estimate.p, estimate.q))
    seen = np.maximum(p, q) > np.float32(least)
    table = np.stack([p[seen], q[seen], np.ones(seen.sum())], dtype=np.float32)
    rest = np.array([[least], [least], [(~seen).sum()]], dtype=np.float32)
    return np.concatenate([table, rest], 1)


def _estimate(
    model: AttractorModel, encoding: Encoding, z: Tensor, log_p: Tensor, learned: bool
) -> Estimate:
    """Of end states z (B, draws, d); `learned`: the discretizer reads them, too."""
    draws, p = z.shape[1], log_p.exp()
    quarters = _quarters(model, z)
    q, tv = quarters.sum(0) / draws, distances(quarters, p)
    read = distances(_read(model, encoding, z, learned), p)
    statistics = {
        **_statistics("tv", tv),
        "kl": kl_divergence(q, log_p).mean(),
        "reverse_kl": reverse_kl_divergence(q, log_p, draws).mean(),
        "slope": log_slope(q, log_p, draws),
        **_statistics("tv_discretizer", read),
    }
    return Estimate(
        q, p, tv.whole.sum(-1), {name: float(value) for name, value in statistics.items()}
    )


def _statistics(name: str, distances: Distances) -> dict[str, Any]:
    """A total variation, its mean over inputs, extrapolated, and the error of that."""
    value, error = extrapolate(distances)
    ends = {"": distances.whole.sum(-1).mean(), "_extrapolated": value, "_extrapolated_se": error}
    return {name + end: number for end, number in ends.items()}


def _quarters(model: AttractorModel, z: Tensor) -> Tensor:
    """(4, B, S) sums of P(s | z) over quarters of the draws z (B, draws, d)."""
    parts = z.tensor_split(PARTS, 1)
    return torch.stack(
        [sentence_distribution(model, part).nan_to_num() * part.shape[1] for part in parts]
    )


def _counts(index: Tensor, sentences: int) -> Tensor:
    """(4, B, S) how often each sentence is in quarters of index (B, draws, …)."""
    parts = [part.flatten(1) for part in index.tensor_split(PARTS, 1)]
    zero = torch.zeros(len(index), sentences)
    return torch.stack([zero.scatter_add(1, part, torch.ones(part.shape)) for part in parts])


def _marginal_statistics(model: AttractorModel, z: Tensor, p: Tensor) -> dict[str, float]:
    """Of end states z (B, draws, d) of all inputs together; p (B, S) is the exact posterior."""
    quarters = _quarters(model, z)
    q = quarters.sum(0) / z.shape[1]
    used = q.mean(0) > in_use_threshold(q.shape[-1])
    marginal = _statistics("marginal_tv", distances(quarters.sum(1, True), p.mean(0, True)))
    del marginal["marginal_tv_extrapolated_se"]  # of one distribution
    return {name: float(value) for name, value in marginal.items()} | {
        "sentences_in_use": float(used.sum()),
        "tokens_in_use": float((model.language.bag(model.sentences[used]).sum(0) > 0).sum()),
        "distance": float(nearest_sentence(model, z).distance.median()) / noise_radius(model),
    }


def _read(model: AttractorModel, encoding: Encoding, z: Tensor, learned: bool) -> Tensor:
    """(4, B, S) how often sentences are drawn at quarters of the end states z (B, draws, d),
    by the discretizer or by the exact readout.
    """
    rows = max(1, CELLS // (z.shape[1] * READINGS * len(model.sentences)))
    counts = []
    for some in torch.arange(len(z)).split(rows):
        if learned:
            z0 = encoding.z0[some, None]
            s = model.discretizer(z[some], z0).sample(torch.Size([READINGS]))
            index = model.language.row(s)
        else:
            exact = Categorical(logits=model.readout.log_prob(z[some]))
            index = exact.sample(torch.Size([READINGS]))
        counts.append(_counts(index.movedim(0, -1), len(model.sentences)))
    return torch.cat(counts, 1)


def _estimate_by_draws(
    model: AttractorModel,
    encoding: Encoding,
    z: Tensor,
    s: Tensor,
    learned: Tensor,
    log_z: Tensor,
) -> Estimate:
    """Of sentences s (B, draws, width) that were read at end states z (B, draws, d), and of those
    that the learned discretizer read there.
    """
    prior = Normal(encoding.distribution.loc[:, None], encoding.distribution.scale[:, None])

    def log_p(s: Tensor) -> Tensor:
        return model.reward(prior, None, s) - log_z[:, None]

    def distance(s: Tensor) -> Distances:
        return distances_of_draws(model.language.key(s), log_p(s))

    row, share, first = drawn_shares(model.language.key(s))
    near = nearest_sentence(model, z[:, :NEAREST_DRAWS])
    sampled = s.flatten(0, 1).unique(dim=0)
    tv = distance(s)
    statistics: dict[str, Any] = {
        **_statistics("tv", tv),
        **_statistics("tv_discretizer", distance(learned)),
        **_statistics("tv_nearest", distance(near.s)),
        "sentences_in_use": len(sampled),
        "tokens_in_use": (model.language.bag(sampled).sum(0) > 0).sum(),
        "distance": near.distance.median() / noise_radius(model),
    }
    numbers = {name: float(value) for name, value in statistics.items()}
    p = log_p(s)[row, first].exp().float()
    return Estimate(share.float(), p, tv.whole.sum(-1), numbers)


def _sentence_statistics(
    model: AttractorModel,
    encoding: Encoding,
    exact: Tensor,
    distance: Callable[[Tensor], Distances],
) -> dict[str, tuple[float, float]]:
    """tv_brownian, tv_encoder, tv_policy and tv_policy_resampled, with floors, of as many draws as
    `exact` (B, draws, width), of which `distance` gives the total variation from the exact
    posterior.

    Every set of 64 candidates of a policy gives 8 draws.
    """
    mean, shape = encoding.distribution.loc, torch.Size([exact.shape[1]])
    z = encoding.distribution.sample(shape)
    drawn = {"tv_encoder": model.readout(z, encoding.z0).sample()}
    if model.posterior.listed or model.posterior.factors() is not None:
        scale = model.sentence_encoder(exact.flatten(0, 1)).scale[:, used_axes(model)]
        brownian = Readout(model.posterior, model.discretizer, float(scale.median()))
        drawn["tv_brownian"] = brownian(mean).sample(shape)
    if model.sentence_policy is not None:
        policy = model.sentence_policy(mean, mean)  # as in training, where z0 may be drawn
        resampled = []
        for _ in range(-(-shape.numel() // OF_A_SET)):
            s, log_q = policy.draw(torch.Size([CANDIDATES]))
            log_w = model.reward(encoding.distribution, None, s) - log_q
            index = Categorical(logits=log_w.T).sample(torch.Size([OF_A_SET]))
            resampled.append(s[index, torch.arange(s.shape[1])])
        drawn["tv_policy"] = policy.sample(shape)
        drawn["tv_policy_resampled"] = torch.cat(resampled)[: shape.numel()]
    floor = distance(exact)
    statistics: dict[str, tuple[float, float]] = {}
    for name, s in drawn.items():
        values = _statistics(name, distance(s.transpose(0, 1)))
        statistics |= {k: (float(v), float(_statistics(name, floor)[k])) for k, v in values.items()}
    return statistics


def _weigh_paths(
    model: AttractorModel, encoding: Encoding, end: Tensor, sentences: Tensor
) -> dict[str, tuple[float, float]]:
    """elbo, eubo, ess_n and k_hat_n of n paths of T steps an input, each with its floor where that
    is not log Z.

    `end` (B, n, d) and `sentences` (B, n, width) are exact draws of z_T and s.
    """
    guide, target, n = [], [], end.shape[1]
    for rows in torch.arange(end.shape[:2].numel()).split(WEIGHT_ROWS):
        e = encoding[rows // n]
        z = model.trajectories(e.z0, model.steps)
        s = model.readout(z[-1], e.z0).sample()
        guide.append(path_log_weight(model, e, z, s))
        z = simulate_backward(model.backward_step, end.flatten(0, 1)[rows], model.steps, e.z0).z
        z[0] = model.initial(e.z0)  # which is given
        target.append(path_log_weight(model, e, z, sentences.flatten(0, 1)[rows]))
    log_w = torch.cat(guide).unflatten(0, (-1, n))
    return {
        "elbo": (float(log_w.mean()), np.nan),
        "eubo": (float(torch.cat(target).mean()), np.nan),
        f"ess_{n}": (float(effective_sample_share(log_w).mean()), 1.0),
        f"k_hat_{n}": (float(pareto_k(log_w).median()), np.nan),
    }


def measure(run: Run, config: Config) -> dict[str, Any]:
    """``summary.csv`` (split, steps, statistic, value, floor), and what the figure shows.

    ``inputs.csv`` (split, steps, input, tv, tv_exact). ``pairs.npz``: p, q̂ and the number of such
    pairs of an input and a sentence.

    Raises ValueError: no attractor model.
    """
    model = run.model
    summary, inputs, pairs = [], [], {}
    for split in run.data.splits:
        result = calibrate(model, run.data, split, config)
        table = tabulate(result)
        table.insert(0, "split", split)
        summary.append(table)
        pairs[f"{split} size"] = np.array(result.control.p.numel())
        exact = result.control.distance.numpy()
        for steps, estimate in result.estimates.items():
            pairs[f"{split} {steps}"] = count_pairs(estimate, LEAST)
            columns = {
                "input": range(len(exact)),
                "tv": estimate.distance.numpy(),
                "tv_exact": exact,
            }
            inputs.append(pd.DataFrame({"split": split, "steps": steps, **columns}))
    return {"summary.csv": pd.concat(summary), "inputs.csv": pd.concat(inputs), "pairs.npz": pairs}


# -- figures ---------------------------------------------------------------------------------------


LEAST = 1e-4  # least probability in the figure; smaller ones are drawn there
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("counts", ["#DCEBF5", BLUE, "#00233A"])


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``calibration`` from ``summary.csv``, ``inputs.csv`` and ``pairs.npz``.

    A row of probabilities and one of distances for each split; more than two splits two by two.
    """
    summary, inputs, pairs = (tables[n] for n in ("summary.csv", "inputs.csv", "pairs.npz"))
    splits, times = list(summary["split"].unique()), list(summary["steps"].unique())
    across = 2 if len(splits) > 2 else 1
    down = -(-len(splits) // across)
    figure = Figure(figsize=(3.9 * len(times) * across, 7 * down), layout="constrained")
    parts = figure.subfigures(down, across, squeeze=False).flat
    for part, split in zip(parts, splits, strict=False):
        grid = part.subplots(2, len(times), squeeze=False, height_ratios=[1.25, 1], sharey="row")
        norm = LogNorm(1, max(10.0, int(pairs[f"{split} size"]) / 10))
        for column, steps in enumerate(times):
            here, distances = (
                table[(table["split"] == split) & (table["steps"] == steps)]
                for table in (summary, inputs)
            )
            here = here.set_index("statistic")
            image = _draw_probabilities(grid[0, column], pairs[f"{split} {steps}"], here, norm)
            name = "" if column else f"{split_name(split)}, "
            grid[0, column].set_title(name + steps_name(steps, summary))
            _draw_distances(grid[1, column], distances, here)
        grid[0, 0].set_ylabel("sampler q̂(s | x)")
        first = grid[1, 0]
        first.set_ylabel("inputs")
        first.yaxis.set_major_locator(MaxNLocator(6, integer=True))
        first.set_ylim(top=1.3 * first.get_ylim()[1])  # room for the notes
        add_scale(grid[0, -1], image, "pairs", shrink=0.85)
    return {"calibration": figure}


def _draw_probabilities(
    axes: Axes, pairs: np.ndarray, here: pd.DataFrame, norm: LogNorm
) -> PolyCollection:
    low = np.log10(LEAST)
    p, q, times = pairs  # of one pair in many places, and of many that are too small to tell apart
    p, q = (np.repeat(part, times.astype(int)) for part in (p, q))
    image = axes.hexbin(
        p, q, xscale="log", yscale="log", gridsize=45, norm=norm, cmap=WHITE_TO_BLUE,
        extent=(low, 0, low, 0), mincnt=1, linewidths=0.1,
    )  # fmt: skip
    axes.plot([LEAST, 1], [LEAST, 1], color=RED, linewidth=1.5, linestyle="--")
    axes.set(xlim=(0.8 * LEAST, 1), ylim=(0.8 * LEAST, 1), aspect="equal")
    axes.set_xlabel("exact posterior π(s | x)")
    if "slope" in here.index:
        slope = here.loc["slope"]
        text = f"slope {slope['value']:.2f} (exact draws {slope['floor']:.2f})"
        note(axes, text, "left", top=0.96)
    return image


def _draw_distances(axes: Axes, inputs: pd.DataFrame, here: pd.DataFrame) -> None:
    tv, floor = (float(here[column]["tv"]) for column in ("value", "floor"))
    bins = np.linspace(0, 1, 33).tolist()
    exact: dict[str, Any] = {"color": GREEN, "linestyle": ":"}
    axes.hist(inputs["tv_exact"], bins=bins, histtype="step", linewidth=1.6, **exact)
    axes.hist(inputs["tv"], bins=bins, color=BLUE, alpha=0.75)
    axes.axvline(tv, ymax=0.77, color="black", linewidth=1.5)
    axes.axvline(floor, ymax=0.77, linewidth=1.5, **exact)
    axes.set(xlim=(0, 1), xlabel="total variation, q̂ to π, of an input")
    note(axes, f"sampler, mean {tv:.3f}", color=BLUE, fontsize=9)
    note(axes, f"exact draws, mean {floor:.3f}", top=0.88, color=GREEN, fontsize=9)
    if "tv_extrapolated" in here.index and not np.isnan(here["value"]["tv_extrapolated"]):
        value, error = (here["value"][f"tv_extrapolated{end}"] for end in ("", "_se"))
        note(axes, f"extrapolated {value:.3f} ± {error:.3f}", top=0.8, fontsize=9)
    for name, what, top in (
        ("tv_brownian", "Brownian motion", 0.72),
        ("tv_encoder", "encoder noise", 0.64),
    ):
        if not np.isnan(tv := here["value"].get(f"{name}_extrapolated", np.nan)):
            note(axes, f"{what} {tv:.3f}", top=top, color=GREY, fontsize=9)
