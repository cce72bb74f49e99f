"""The registry of metrics: name, unit, formula, the paper's value, and the cell it is read from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

HELD_OUT = "held out"  # in the place of a split: the mean over all splits beside training
RUN_METRICS = "metrics.csv"  # in the place of an analysis: the last row of the run's metrics.csv
PAPER_DATA = {"hbv": "HBV", "dsprites": "dSprites"}
SLOPES = 0.85, 1.15  # of log q̂ on log R
LEAST_ESS = 0.05  # effective share of the trajectories


class Paper(NamedTuple):
    """A value that the paper reports, with its 95 % interval where it gives one."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"{self.value:.3f}{interval}".replace("-", "−")


@dataclass(frozen=True)
class Metric:
    """A number of a run, in one cell of a table of an analysis.

    - ``name``: its column in a comparison; ``topic``: of which comparison;
    - ``title``, ``unit``, ``formula``: how it is shown and what it is; ``format``: of its values;
    - ``analysis``: of ``analyses/<analysis>/summary.csv``, or `RUN_METRICS`;
    - ``column``: of the number, and of what is subtracted from it, if any (``value-floor``);
    - ``where``: values of other columns in its row, the first of these rows. A split is passed over
      where a table has no such column. In a table of features it is the mean over decoders of the
      row that is the mean of a tree's levels, or over all features where there is none;
    - ``times``: at how many times the shortest length in the column ``steps``; 0: any;
    - ``paper``: the paper's value by data set (`PAPER_DATA`).
    """

    name: str
    topic: str
    title: str
    formula: str
    analysis: str
    column: str
    where: Mapping[str, Any] = field(default_factory=dict)
    times: int = 0
    unit: str = ""
    format: str = ".3f"
    paper: Mapping[str, Paper] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    def read(self, table: pd.DataFrame | None) -> float:
        """The number in its table; NaN where there is none, or it lacks a column."""
        column, _, less = self.column.partition("-")
        if table is None:
            return math.nan
        where: dict[str, Any] = dict(self.where)
        if where.get("split") and "split" not in table:
            del where["split"]
        if not {column, less or column, "steps" if self.times else column, *where} <= {*table}:
            return math.nan
        if self.times:
            where["steps"] = table["steps"].min() * self.times
            if self.times > 1 and not where["steps"]:  # a model without dynamics has no more steps
                return math.nan
        for name, value in where.items():
            held_out = (name, value) == ("split", HELD_OUT)
            table = table[table[name] != "train" if held_out else table[name] == value]
        if "feature" in table:
            levels = table[table["feature"].str.startswith("mean of ")]
            table = levels if len(levels) else table
        else:
            table = (
                table.groupby("split", sort=False).head(1) if "split" in table else table.head(1)
            )
        return float((table[column] - (table[less] if less else 0.0)).mean())


def _metric(
    topic: str,
    analysis: str,
    name: str,
    title: str,
    formula: str,
    column: str = "value",
    *,
    split: str = "train",
    **more: Any,
) -> Metric:
    """A metric of a split, or of a table without splits, where it is ""."""
    where = dict(more.pop("where", {})) | ({"split": split} if split else {})
    return Metric(name, topic, title, formula, analysis, column, where, **more)


_loss = partial(_metric, "dynamics", "information_loss", times=1)
_calibrated = partial(_metric, "dynamics", "calibration", times=1)
_basins = partial(_metric, "dynamics", "basins", split="")
_pushed = partial(
    _metric, "dynamics", "perturbation", split="",
    where={"start": "used", "factor": 1.5},  # where few states are at their meaning before a step
)  # fmt: skip
_diversity = partial(
    _metric, "language", "diversity", where={"samples": "model", "k": 1}, unit="nats", format=".1f",
    paper={"hbv": Paper(-18.198, -34.199, -5.203), "dsprites": Paper(-9.415, -16.231, -3.832)},
)  # fmt: skip
_run = partial(_metric, "language", RUN_METRICS, split="")


def _calibration(name: str, title: str, formula: str, statistic: str, **more: Any) -> Metric:
    return _calibrated(name, title, formula, where={"statistic": statistic}, **more)


def _features(
    name: str, title: str, formula: str, analysis: str, source: str, split: str, **more: Any
) -> Metric:
    where = {"split": split, "source": source, "kind": "categorical"}
    return Metric(name, "language", title, formula, analysis, "value", where, **more)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _loss("kl", "KL(d ‖ Geometric(½))",
              "of the bits d = c0 − cT ≥ 0 that a sentence loses, after T steps, 20,000 draws "
              "unless the column `n` says otherwise; 0: a perfect fit",
              "kl", unit="nats", paper={"hbv": Paper(0.041)}),
        _loss("kl_exact", "KL of exact samples", "kl of the model's exact posterior", "kl_exact",
              unit="nats"),
        _loss("p", "p of information loss",
              "P(d) = p (1 − p)^d fitted to d ≥ 0: p = 1 / (1 + mean d); ½ where sentences are "
              "sampled in proportion to what they tell", "p", paper={"hbv": Paper(0.480)}),
        _loss("kl_control", "KL without dynamics",
              "kl of the embedding nearest to z0 and the encoder's noise, z ~ P(z0 | x)",
              "kl_control", unit="nats"),
        _loss("tv_geometric", "total variation of all d from Geometric(½)",
              "½ Σ_d |P(d) − ½^(d + 1)|, d < 0 included; at least `p_negative`",
              "tv_geometric"),
        _loss("p_negative", "P(d < 0)", "share of sentences that decode better than the input's z0",
              "p_negative"),
        _loss("kl_held_out", "KL, held-out classes", "kl of classes that training never saw", "kl",
              split=HELD_OUT, unit="nats", paper={"hbv": Paper(0.183)}),
        _loss("p_held_out", "p, held-out classes", "p of classes that training never saw", "p",
              split=HELD_OUT, paper={"hbv": Paper(0.621)}),
        _loss("mean_d", "mean information loss", "E[d], d < 0 included", "mean", unit="bits"),
        _loss("kl_5T", "KL after 5T steps",
              "kl at five times the length that was trained; still small where sentences are "
              "attractors", "kl", times=5, unit="nats"),
        _calibration("tv", "total variation from the exact posterior",
                     "½ Σ_s |q̂(s | x) − P(s | x)|, mean over inputs", "tv"),
        _calibration("tv_floor", "noise floor of the total variation",
                     "tv of as many exact draws", "tv", column="floor"),
        _calibration("tv_excess", "total variation above its noise floor",
                     "tv − tv_floor; 0: a perfect sampler; else less than the true distance, by "
                     "up to tv_floor", "tv", column="value-floor"),
        _calibration("tv_extrapolated", "total variation at infinitely many draws",
                     "Σ_k r(2 T_k(n)² − T_k(n/2)²), r(v) = sign(v) √|v|, T_k(n) the part of tv by "
                     "n draws of sentences whose probability is in stratum k: an estimate of the "
                     "true distance",
                     "tv_extrapolated"),
        _calibration("tv_extrapolated_se", "its standard error",
                     "of tv_extrapolated, by resampling inputs", "tv_extrapolated_se"),
        _calibration("tv_held_out",
                     "total variation at infinitely many draws, held-out classes",
                     "tv_extrapolated of inputs that training never saw", "tv_extrapolated",
                     split=HELD_OUT),
        _calibration("tv_brownian", "total variation of Brownian motion",
                     "tv_extrapolated of Brownian motion from z0 that is conditioned to end at an "
                     "embedding, nothing learned: P(s) N(ẑ_s; z0, σ²), σ the median σ_s",
                     "tv_brownian_extrapolated"),
        _calibration("tv_encoder", "total variation of the encoder's noise",
                     "tv_extrapolated of P(s | z) at z ~ P(z0 | x), without dynamics",
                     "tv_encoder_extrapolated"),
        _calibration("ess_512", "effective sample size, share of 512 trajectories",
                     "of importance-weighted trajectories, 1 / (n Σ w²); 1: a perfect sampler; it "
                     "falls with n, where tails are heavy", "ess_512"),
        _calibration("k_hat_512", "Pareto k̂ of 512 trajectories",
                     "shape of the tail of an input's weights, median; above 0.7 neither ess_512 "
                     "nor log Z can be trusted", "k_hat_512", format=".2f"),
        _calibration("elbo", "ELBO", "mean log-weight of trajectories; at most log_z", "elbo",
                     unit="nats", format=".2f"),
        _calibration("log_z", "log Z", "log Σ_s R(s; x), mean over inputs", "log_z", unit="nats",
                     format=".2f"),
        _calibration("eubo", "EUBO",
                     "mean log-weight of backward trajectories from exact draws; at least log_z",
                     "eubo", unit="nats", format=".2f"),
        _calibration("slope", "slope of log q̂ on log R",
                     "1 where sampling frequencies are proportional to the reward", "slope"),
        _calibration("sentences_in_use", "sentences in use",
                     "sampled more than a tenth as often as an equal share", "sentences_in_use",
                     format=".0f"),
        _calibration("tokens_in_use", "tokens in use", "present in some sentence in use",
                     "tokens_in_use", format=".0f"),
        _calibration("distance", "distance of z_T to the nearest embedding",
                     "median of min_s ‖z_T − ẑ_s‖ in the d axes that embeddings use; about 1 for "
                     "exact samples", "distance", unit="ε√d"),
        _calibration("tv_excess_5T", "total variation above its noise floor after 5T steps",
                     "tv_excess after 5T steps", "tv", column="value-floor", times=5),
        _calibration("tv_extrapolated_5T",
                     "total variation at infinitely many draws after 5T steps",
                     "tv_extrapolated after 5T steps", "tv_extrapolated", times=5),
        _pushed("recovery",
                "recovery from a push of three quarters of the distance to another meaning",
                "share of states that end within 2 ε√d of an embedding of their meaning, by "
                "sentences in use equally often; near 1 for attractors", "recovered"),
        _pushed("recovery_control", "recovery without dynamics",
                "share of pushed states that are that near before a step", "recovered_control"),
        _basins("fixed_points", "sentences in use with a fixed point beside them",
                "share of embeddings within 1.5 ε√d of a stable fixed point of the mean dynamics; "
                "1 where every sentence is an attractor", "attracting"),
        _basins("in_basins", "trajectories that end in basins of sentences",
                "share in the basin of a fixed point within 1.5 ε√d of an embedding in use",
                "data_at_embeddings"),
        _basins("in_basins_control", "states of inputs beside an embedding",
                "share of z0, before a step, within 1.5 ε√d of an embedding in use",
                "data_control"),
        _features("accuracy", "features decoded from sentences",
                  "accuracy; of a tree, the mean over its first four levels", "decodability",
                  "sentence", "train"),
        _features("accuracy_held_out", "features decoded from sentences, held-out inputs",
                  "accuracy on inputs that neither model nor decoder saw", "decodability",
                  "sentence", HELD_OUT),
        _features("composed", "features decoded from composed sentences",
                  "accuracy of sentences composed feature by feature; equals accuracy where tokens "
                  "compose", "composition", "composed", "train"),
        _features("composed_held_out", "features decoded from composed sentences, held-out inputs",
                  "composed on held-out inputs", "composition", "composed", HELD_OUT),
        _features("shuffled", "features decoded from a shuffled language",
                  "accuracy of a language whose sentences are shuffled over meanings",
                  "composition", "shuffled", "train"),
        _metric("language", "language_measures", "topographic_similarity",
                "topographic similarity",
                "correlation of distances between inputs and between their sentences",
                where={"measure": "topographic_similarity"}, unit="Spearman's ρ",
                paper={"dsprites": Paper(0.525)}),
        _diversity("diversity", "sample diversity",
                   "entropy of what is decoded from 256 sentences of an input, by the nearest "
                   "(k = 1), mean over inputs; −∞ for a single sentence. It depends on their "
                   "number, which the paper does not tell", "mean"),
        _diversity("diversity_sigma", "σ of sample diversity",
                   "standard deviation of a Gaussian of this entropy", "sigma", unit="",
                   format=".3f", paper={"hbv": Paper(0.088), "dsprites": Paper(0.085)}),
        _diversity("diversity_16", "sample diversity by 16 sentences",
                   "diversity by 16 sentences of an input and the tenth nearest (k = 10)",
                   "mean", where={"samples": "model", "n": 16, "k": 10}),
        _run("receiver_accuracy", "receiver's accuracy",
             "share of targets found among distractors; by chance 1 / (1 + distractors)",
             "receiver_accuracy_train"),
        _run("receiver_accuracy_held_out", "receiver's accuracy, held-out inputs",
             "receiver_accuracy with held-out targets and distractors",
             "receiver_accuracy_held_out"),
    )
}  # fmt: skip


def doubts(numbers: Mapping[str, float]) -> list[str]:
    """A sentence for each number that is beyond the yardstick, NaN being none:

    - total variation from the posterior, extrapolated, or where that is not known above its noise
      floor, a lower bound: at most `MOST_DISTANCE`, as in `gflownet.diagnose`;
    - slope of log-frequency on log-reward: within `SLOPES`;
    - path weights: an effective share of `LEAST_ESS` or more, and a k̂ of `MOST_K` at most.
    """
    from plot_attractors.gflownet.pareto import MOST_DISTANCE, MOST_K  # slow to import

    distance, above = numbers["tv_extrapolated"], numbers["tv_excess"]
    known = f"about {distance:.2f}; {above:.2f} above its noise floor"
    if math.isnan(distance):
        distance, known = above, f"{above:.2f} above its noise floor, a lower bound"
    slope, share, k = (numbers[name] for name in ("slope", "ess_512", "k_hat_512"))
    told = {
        "Trajectories do not sample the posterior well: their total variation from it is "
        f"{known} (good: at most {MOST_DISTANCE}).": distance > MOST_DISTANCE,
        f"Sentences are sampled {'too uniformly' if slope < 1 else 'too selectively'}: the slope "
        f"of log-frequency on log-reward is {slope:.2f} (good: {SLOPES[0]} to {SLOPES[1]}).": (
            slope < SLOPES[0] or slope > SLOPES[1]
        ),
        f"Importance weights are uneven: the effective sample size is {share:.1%} of the samples "
        f"(good: {LEAST_ESS:.0%} or more).": share < LEAST_ESS,
        f"Importance weights cannot be trusted: their Pareto k̂ is {k:.2f} (good: at most "
        f"{MOST_K}).": k > MOST_K,
    }
    return [sentence for sentence, beyond in told.items() if beyond]


def to_markdown() -> str:
    """The registry as a Markdown table, a page of the reference."""
    lines = [
        "| name | title | unit | formula | read from | paper |",
        "|:-----|:------|:-----|:--------|:----------|:------|",
    ]
    for m in METRICS.values():
        file = m.analysis if m.analysis == RUN_METRICS else f"{m.analysis}/summary.csv"
        where = [f"{name} {value}" for name, value in m.where.items()]
        where += [f"after {m.times}T steps"] if m.times > 1 else []
        cell = f"`{file}`: {', '.join([f'`{m.column}`', *where])}"
        paper = "; ".join(f"{PAPER_DATA[data]} {value}" for data, value in m.paper.items())
        row = (f"`{m.name}`", m.title, m.unit, m.formula, cell, paper)
        lines.append(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |")
    text = """# Metrics

Written by `plot_attractors.measures.registry.to_markdown()`: the numbers of comparisons
and reports. A number *held out* is the mean over all splits beside training. T is the least number
of steps in a table.

"""
    return text + "\n".join(lines) + "\n"
