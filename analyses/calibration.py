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

Where sentences are too many to sum (more than 10 million), annealed
populations take the place of exact draws, and their estimate that of log Z.

With more than 100,000 sentences one is drawn at every z_T, by the exact readout where sentences
factor, else by the learned discretizer, whose errors are not in the floor. ``slope`` is left out,
and ``sentences_in_use`` are all that were drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from pyro.distributions import Normal
from torch import Tensor
from torch.distributions import Categorical

from plot_attractors.analysis import sampling, shape
from plot_attractors.analysis.parts import note
from plot_attractors.analysis.style import lettered
from plot_attractors.gflownet.trajectories import (
    Trajectories,
    score_backward,
    score_forward,
    simulate_backward,
)
from plot_attractors.language import in_use_threshold
from plot_attractors.measures import calibration as measures
from plot_attractors.model.attractor import AttractorModel, Encoding
from plot_attractors.model.memory import Bridge
from plot_attractors.model.posterior import Readout
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run
from plot_attractors.training.balance import log_flow

TITLE = "Calibration"
NEEDS = shape.ATTRACTORS
CAPTIONS = {
    "shares": (
        "Each sentence of each input: its exact probability, and its share of as many sampled "
        "sentences, by (a) trajectories of T steps, (b) exact draws, which show the noise of so "
        "many, (c) the encoder's noise without dynamics, (d) Brownian motion, which learns nothing."
    ),
}


NEAREST_DRAWS = 16  # end states of an input whose nearest sentence is searched
READINGS = 4  # sentences that the learned discretizer draws at each end state
OF_A_SET = 8  # paths that are drawn again by their weights
WEIGHT_DRAWS = 512  # paths of each input that are weighted
BALANCE_DRAWS = 8  # trajectories of each input whose steps are judged
FLOW_DRAWS = 512  # sentences of an input that stand for all
WEIGHT_ROWS = 128  # paths scored at once, all steps of each: what fits into a core's cache
LEAST_SHOWN = 1e-3  # probability in the figure
CELLS = 2_000_000  # entries of a table (inputs, draws, sentences) held at once


@dataclass(frozen=True)
class Config:
    """Sample sizes: many draws of each input, so that the noise floor is low."""

    inputs: Size = setting(64, "inputs of each split")
    draws: Size = setting(512, "trajectories of each input")
    wide_inputs: Size = setting(512, "for distributions averaged over inputs")
    wide_draws: Size = setting(16, "trajectories of each of the wide inputs")


class Calibration(NamedTuple):
    """Statistics by number of steps, of exact draws, of path weights, and log Z."""

    estimates: dict[int, dict[str, float]]
    control: dict[str, float]
    log_z: float
    paths: dict[str, tuple[float, float]]
    shares: dict[str, np.ndarray] | None = None


@torch.no_grad()
def calibrate(model: AttractorModel, data: Any, split: str, sizes: Config) -> Calibration:
    """Calibration for inputs of a split."""
    encoding = model.encode(data.batch(sizes.inputs, split).x)
    times = [k * model.steps for k in sampling.LENGTHS]
    if not sampling.is_listed(model):
        return _calibrate_by_draws(model, encoding, times, sizes)
    wide = model.encode(data.batch(sizes.wide_inputs, split).x)
    log_p = model.posterior.log_prob(encoding.distribution)
    log_reward = model.reward.log_pairs(encoding.distribution, model.sentences)

    def estimate(z: Tensor, learned: bool) -> dict[str, float]:
        """Of end states z (B, draws, d); `learned`: the discretizer reads them, too."""
        p, quarters = log_p.exp(), _quarters(model, z)
        q = quarters.sum(0) / z.shape[1]
        read = measures.distances(_read(model, encoding, z, learned), p)
        return {
            **_statistics("tv", measures.distances(quarters, p)),
            "slope": float(measures.log_slope(q, log_p, z.shape[1])),
            **_statistics("tv_discretizer", read),
        }

    control = estimate(sampling.exact_states(model, encoding, sizes.draws)[0], learned=False)
    control |= _use(model, sampling.exact_states(model, wide, sizes.wide_draws)[0])
    states = sampling.states_at(model, encoding, sizes.draws, times)
    wide_states = sampling.states_at(model, wide, sizes.wide_draws, times)
    estimates = {
        steps: estimate(z, learned=True) | _use(model, z_wide)
        for steps, z, z_wide in zip(times, states, wide_states, strict=True)
    }
    n = len(model.sentences)

    def distance(s: Tensor) -> measures.Distances:
        """Of sentences s (B, draws, width)."""
        return measures.distances(_counts(model.language.row(s), n), log_p.exp())

    states_of_exact = sampling.exact_states(model, encoding, WEIGHT_DRAWS)
    paths = _weigh_paths(model, encoding, *states_of_exact, distance)
    exact = model.posterior(encoding.distribution).sample(torch.Size([sizes.draws]))
    drawn = _controls(model, encoding, exact.transpose(0, 1))
    paths |= _sentence_statistics(drawn, exact.transpose(0, 1), distance)
    log_z = float(log_reward.logsumexp(-1).mean())
    if split != "train":  # nothing shows its shares
        return Calibration(estimates, control, log_z, paths)
    sampled = {"dynamics": model.readout(states[0].transpose(0, 1), encoding.z0).sample()}
    sampled |= {"exact": exact, **drawn}
    shares = {
        name: (_counts(model.language.row(s).T, n).sum(0) / len(s)).numpy()
        for name, s in sampled.items()
    }
    shares |= {"probability": log_p.exp().numpy(), "draws": np.array(sizes.draws)}
    return Calibration(estimates, control, log_z, paths, shares)


def _calibrate_by_draws(
    model: AttractorModel, encoding: Encoding, times: list[int], sizes: Config
) -> Calibration:
    """Calibration from one sentence drawn at every end state."""
    exact = sampling.exact_draws(model, encoding.distribution, max(sizes.draws, WEIGHT_DRAWS))
    end = model.terminal_kernel(exact.s).sample()
    weighed = end[:, :WEIGHT_DRAWS], exact.s[:, :WEIGHT_DRAWS]
    exact, end = exact._replace(s=exact.s[:, : sizes.draws]), end[:, : sizes.draws]
    z0 = encoding.z0[:, None]
    each = Normal(encoding.distribution.loc[:, None], encoding.distribution.scale[:, None])

    def log_p(s: Tensor) -> Tensor:
        return model.reward(each, None, s) - exact.log_z[:, None]

    def distance(s: Tensor) -> measures.Distances:
        return measures.distances_of_draws(model.language.key(s), log_p(s))

    paths = _weigh_paths(model, encoding, *weighed, distance)

    def read(z: Tensor) -> Tensor:
        return model.readout(z, z0).sample()

    def estimate(z: Tensor, s: Tensor, learned: Tensor) -> dict[str, float]:
        """Of sentences s (B, draws, width) that were read at end states z (B, draws, d), and of
        those that the learned discretizer read there.
        """
        near = sampling.nearest_sentence(model, z[:, :NEAREST_DRAWS])
        sampled = s.flatten(0, 1).unique(dim=0)
        return {
            **_statistics("tv", distance(s)),
            **_statistics("tv_discretizer", distance(learned)),
            "sentences_in_use": float(len(sampled)),
            "tokens_in_use": float((sampled.sum(0) > 0).sum()),
            "distance": float(near.distance.median() / sampling.noise_radius(model)),
        }

    # what the discretizer has not learned is the model's own error, so it is not in the floor
    s = read(end) if model.posterior.factored else exact.s
    control = estimate(end, s, s)
    estimates = {}
    states = sampling.states_at(model, encoding, sizes.draws, times)
    for steps, z in zip(times, states, strict=True):
        s = read(z)
        learned = model.discretizer(z, z0).sample() if model.posterior.factored else s
        estimates[steps] = estimate(z, s, learned)
    paths |= _sentence_statistics(_controls(model, encoding, exact.s), exact.s, distance)
    return Calibration(estimates, control, float(exact.log_z.mean()), paths)


def tabulate(result: Calibration) -> pd.DataFrame:
    """Every statistic at every number of steps, beside that of exact draws (floor)."""
    rows = []
    for steps, statistics in result.estimates.items():
        for name, value in statistics.items():
            rows.append((steps, name, value, result.control[name]))
        rows.append((steps, "log_z", result.log_z, result.log_z))
        for name, (value, floor) in result.paths.items():  # known at T steps only
            value = value if steps == min(result.estimates) else np.nan
            rows.append((steps, name, value, result.log_z if name in ("elbo", "eubo") else floor))
    table = pd.DataFrame(rows, columns=["steps", "statistic", "value", "floor"])
    statistic = table["statistic"].str.removesuffix("_se")
    few = table["floor"] > measures.MOST_OF_EXACT
    unknown = table["statistic"].str.endswith("_extrapolated") & few
    table.loc[statistic.isin(table.loc[unknown, "statistic"]), "value"] = np.nan
    return table


def _statistics(name: str, distances: measures.Distances) -> dict[str, float]:
    """A total variation, its mean over inputs, extrapolated, and the error of that."""
    value, error = measures.extrapolate(distances)
    mean = float(distances.whole.sum(-1).mean())
    return {name: mean, f"{name}_extrapolated": value, f"{name}_extrapolated_se": error}


def _quarters(model: AttractorModel, z: Tensor) -> Tensor:
    """(4, B, S) sums of P(s | z) over quarters of the draws z (B, draws, d)."""
    parts = z.tensor_split(measures.PARTS, 1)
    return torch.stack(
        [sampling.sentence_distribution(model, part).nan_to_num() * part.shape[1] for part in parts]
    )


def _counts(index: Tensor, sentences: int) -> Tensor:
    """(4, B, S) how often each sentence is in quarters of index (B, draws, …)."""
    parts = [part.flatten(1) for part in index.tensor_split(measures.PARTS, 1)]
    zero = torch.zeros(len(index), sentences)
    return torch.stack([zero.scatter_add(1, part, torch.ones(part.shape)) for part in parts])


def _use(model: AttractorModel, z: Tensor) -> dict[str, float]:
    """What end states z (B, draws, d) of all inputs together use, and how near they are to it."""
    q = _quarters(model, z).sum(0) / z.shape[1]
    used = q.mean(0) > in_use_threshold(q.shape[-1])
    distance = float(sampling.nearest_sentence(model, z).distance.median())
    return {
        "sentences_in_use": float(used.sum()),
        "tokens_in_use": float((model.sentences[used].sum(0) > 0).sum()),
        "distance": distance / sampling.noise_radius(model),
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


def _controls(model: AttractorModel, encoding: Encoding, exact: Tensor) -> dict[str, Tensor]:
    """Sentences (draws, B, width) without learned dynamics, as many as `exact` (B, draws, …)."""
    mean, draws = encoding.distribution.loc, torch.Size([exact.shape[1]])
    z = encoding.distribution.sample(draws)
    drawn = {"tv_encoder": model.readout(z, encoding.z0).sample()}
    if model.posterior.listed or model.posterior.factors() is not None:
        scale = model.sentence_encoder(exact.flatten(0, 1)).scale[:, sampling.used_axes(model)]
        brownian = Readout(model.posterior, model.discretizer, float(scale.median()))
        drawn["tv_brownian"] = brownian(mean).sample(draws)
    if model.sentence_policy is not None:
        policy = model.sentence_policy(mean, mean)  # as in training, where z0 may be drawn
        drawn["tv_policy"] = policy.sample(draws)
    return drawn


def _sentence_statistics(
    drawn: dict[str, Tensor], exact: Tensor, distance: Callable[[Tensor], measures.Distances]
) -> dict[str, tuple[float, float]]:
    """tv_brownian, tv_encoder and tv_policy of controls, with floors, of `exact` (B, draws, width);
    `distance` gives the total variation of sentences from the exact posterior.
    """
    floor = distance(exact)
    statistics: dict[str, tuple[float, float]] = {}
    for name, s in drawn.items():
        values, floors = (_statistics(name, d) for d in (distance(s.transpose(0, 1)), floor))
        statistics |= {key: (values[key], floors[key]) for key in values}
    return statistics


def _weigh_paths(
    model: AttractorModel,
    encoding: Encoding,
    end: Tensor,
    sentences: Tensor,
    distance: Callable[[Tensor], measures.Distances],
) -> dict[str, tuple[float, float]]:
    """elbo, eubo, ess_n and k_hat_n of n paths of T steps an input, each with its floor where that
    is not log Z; and tv_resampled, where every 8 of the paths are drawn again by their weights.

    `end` (B, n, d) and `sentences` (B, n, width) are exact draws of z_T and s.
    """
    guide, target, read, n = [], [], [], end.shape[1]
    for rows in torch.arange(end.shape[:2].numel()).split(WEIGHT_ROWS):
        e = encoding[rows // n]
        z = model.trajectories(e.z0, model.steps)
        s = model.readout(z[-1], e.z0).sample()
        read.append(s)
        guide.append(sampling.path_log_weight(model, e, z, s))
        memory = model.memory.marginal(e.z0, model.steps).sample()
        z = torch.cat([end.flatten(0, 1)[rows], memory], -1)
        z = simulate_backward(model.backward_step, z, model.steps, e.z0).z
        z[0] = model.initial(e.z0)  # which is given
        target.append(sampling.path_log_weight(model, e, z, sentences.flatten(0, 1)[rows]))
    log_w = torch.cat(guide).unflatten(0, (-1, n))
    again = Categorical(logits=log_w.view(-1, OF_A_SET)).sample(torch.Size([OF_A_SET]))
    again = again + OF_A_SET * torch.arange(again.shape[1])
    resampled = distance(torch.cat(read)[again.T.flatten()].unflatten(0, (-1, n)))
    values, floors = (_statistics("tv_resampled", d) for d in (resampled, distance(sentences)))
    return {key: (values[key], floors[key]) for key in values} | {
        "elbo": (float(log_w.mean()), np.nan),
        "eubo": (float(torch.cat(target).mean()), np.nan),
        f"ess_{n}": (float(measures.effective_sample_share(log_w).mean()), 1.0),
        f"k_hat_{n}": (float(measures.pareto_k(log_w).median()), np.nan),
    }


@torch.no_grad()
def balance(model: AttractorModel, e: Encoding) -> pd.DataFrame:
    r"""How well each step is in detailed balance: t, median and 90 % of |r|, nats, over the model's
    own trajectories from inputs e, where the flow F is known: of a `Bridge`.

    .. math:: r_t = \log F(z_t) P_\theta(z_{t+1} | z_t)
        - \log F(z_{t+1}) P_\leftarrow(z_t | z_{t+1})

    F is the sum over all listed sentences, else over exact draws, by which 90 % come out higher.
    """
    if not isinstance(model.backward_dynamics, Bridge):
        return pd.DataFrame(columns=["t", "median", "ninety"])
    rows = torch.arange(len(e.z0)).repeat_interleave(BALANCE_DRAWS)
    path = Trajectories(model.trajectories(e.z0[rows]), e.z0[rows])
    if sampling.is_listed(model):
        log_w, z_hat = model.posterior.log_prob(e.distribution)[rows], model.embeddings()
    else:
        z_hat = model.embed(sampling.exact_draws(model, e.distribution, FLOW_DRAWS).s)[rows]
        log_w = torch.zeros(z_hat.shape[:2])
    states = zip(path.z, path.times[:, 0], strict=True)
    log_f = torch.stack([log_flow(model, z, t, path.context, log_w, z_hat) for z, t in states])
    forward = score_forward(model.forward_step, path)
    backward = score_backward(model.backward_step, path)
    r = (log_f[:-1] + forward - log_f[1:] - backward).abs()
    low, high = r.quantile(torch.tensor([0.5, 0.9]), 1)
    return pd.DataFrame({"t": range(len(r)), "median": low.tolist(), "ninety": high.tolist()})


def measure(run: Run, config: Config) -> dict[str, Any]:
    """``summary.csv``: split, steps, statistic, value, floor; ``balance.csv``, see `balance`;
    ``shares.npz``: (inputs, sentences) exact probability and shares of what was sampled.
    """
    of_split = {s: calibrate(run.model, run.data, s, config) for s in run.data.splits}
    table = pd.concat([tabulate(result).assign(split=s) for s, result in of_split.items()])
    columns = ["split", "steps", "statistic", "value", "floor"]
    residuals = balance(run.model, run.model.encode(run.data.batch(config.inputs).x))
    shares = of_split["train"].shares
    listed = {} if shares is None else {"shares.npz": shares}
    return {"summary.csv": table[columns], "balance.csv": residuals, **listed}


def draw(tables: dict[str, Any]) -> dict[str, Any]:
    """The figure ``shares``, where sentences are listed."""
    if "shares.npz" not in tables:
        return {}
    shares = tables["shares.npz"]
    p = shares["probability"]
    titles = {
        "dynamics": "trajectories", "exact": "exact draws",
        "tv_encoder": "encoder's noise", "tv_brownian": "Brownian motion",
    }  # fmt: skip
    figure = Figure(figsize=(10.5, 3.1), layout="constrained")
    grid = figure.subplots(1, len(titles), sharex=True, sharey=True)
    for axes, letter, (name, title) in zip(grid, "abcd", titles.items(), strict=True):
        shown = (p > LEAST_SHOWN) & (shares[name] > 0)
        axes.hexbin(
            p[shown], shares[name][shown].clip(LEAST_SHOWN), gridsize=32, bins="log", mincnt=1,
            xscale="log", yscale="log", extent=2 * (np.log10(LEAST_SHOWN), 0),
            cmap="Blues" if name == "dynamics" else "Greys", linewidths=0.1,
        )  # fmt: skip
        axes.plot([LEAST_SHOWN, 1], [LEAST_SHOWN, 1], color="black", linewidth=0.8)
        tv = 0.5 * np.abs(shares[name] - p).sum(-1).mean()
        axes.set_title(lettered(letter, title))
        axes.set_xlabel("exact P(s | x)")
        note(axes, f"TV {tv:.2f}", "left")
    grid[0].set_ylabel(f"share of {shares['draws']} sampled sentences")
    return {"shares": figure}
