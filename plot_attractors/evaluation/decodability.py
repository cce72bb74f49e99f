"""How well features are decoded from sentences, states and inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from plot_attractors.data import HierarchicalBinaryVectors, Labelled
from plot_attractors.evaluation import probes
from plot_attractors.evaluation.metrics.bootstrap import bootstrap, resample, root
from plot_attractors.evaluation.probes import Prediction
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.model.bits import filled
from plot_attractors.runs import Run

COLUMNS = "split feature kind source decoder value low high chance loss agreement n"
BRANCHES = "split feature source decoder value low high chance n"
ENDED = "none"  # outcome of a tree's levels below an input's own


def measure(
    run: Run, inputs: int, draws: int, training: probes.Training
) -> dict[str, pd.DataFrame]:
    """The tables of the analysis ``decodability``, of sentences of the inputs of every split."""
    model, data = probes.require_described(run)
    pair = probes.feature_decoders(run, training)
    learned = run.data.batch(training.decoder_inputs)
    trained_on = data.feature_values(learned)
    ceilings: dict[str, Callable[[Tensor], Tensor]] = {}
    if isinstance(model, AttractorModel):
        ceilings["encoding"] = lambda x: model.encode(x).z0
    classes: dict[str, Tensor] = {}
    if isinstance(run.data, HierarchicalBinaryVectors):
        classes = {"input": run.data.train_classes, "tree": torch.arange(len(run.data.depths))}
    else:
        ceilings["input"] = lambda x: filled(x).flatten(1)
    trained = {
        source: probes.train_decoder(
            see(learned.x), trained_on, data.features, run.seed, training.decoder_updates
        )
        for source, see in ceilings.items()
    }
    rows: dict[str, list[dict[str, Any]]] = {"summary.csv": [], "branches.csv": []}
    for split in run.data.splits:
        batch = run.data.batch(inputs, split)
        values, times = data.feature_values(batch), resample(batch.x)
        description = model.describe(batch.x, draws)
        given = {"sentence": model.embed(description.s), "state": description.z}
        answers = [(source, k, pair[k](z)) for source, z in given.items() for k in (0, 1)]
        same = {s: _agreement(pair[0](z), pair[1](z), times) for s, z in given.items()}
        for source, see in ceilings.items():
            answers.append((source, 0, trained[source](see(batch.x)[:, None])))
        for source, of in classes.items():
            optimum = bayes_optimum(run.data, batch.x[:, None], of)
            answers.append((source, 0, optimum))
        for source, decoder, answer in answers:
            keys = {"split": split, "source": source, "decoder": decoder}
            truth = data, answer, values, trained_on, times
            found = _summary_rows(*truth, same.get(source))
            rows["summary.csv"] += [keys | row for row in found]
            rows["branches.csv"] += [keys | row for row in _branch_rows(*truth)]
    tables = {"summary.csv": pd.DataFrame(rows["summary.csv"], columns=COLUMNS.split())}
    if rows["branches.csv"]:
        tables["branches.csv"] = pd.DataFrame(rows["branches.csv"], columns=BRANCHES.split())
    return tables


def bayes_optimum(data: HierarchicalBinaryVectors, x: Tensor, classes: Tensor) -> Prediction:
    """P(features | x) of inputs x (…, bits), by Bayes' rule and the true P(x | class), the given
    classes (n,) being equally likely: where inputs are of such classes, no decoder does better.
    """
    p = data.probabilities[classes].double()
    log_p = x.double() @ (p.log() - (-p).log1p()).T + (-p).log1p().sum(-1)
    log_p = log_p.log_softmax(-1)  # (…, classes)
    outputs = []
    for k, f in enumerate(data.features):
        member = (data.paths[classes, k] + 1)[:, None] == torch.arange(len(f.outcomes))
        outputs.append(torch.where(member, log_p[..., None], -torch.inf).logsumexp(-2))
    constant = torch.zeros(len(data.features))
    return Prediction(data.features, torch.cat(outputs, -1).float(), constant, constant + 1)


def _agreement(first: Prediction, second: Prediction, times: Tensor) -> Tensor:
    """(F,) the share of sentences of which both decoders predict the same, or the root mean
    squared difference of their predictions.
    """
    scores = first.score(second.values).mean(1)
    return root(bootstrap(scores, times), first.features).value


def _summary_rows(
    data: Labelled,
    prediction: Prediction,
    values: Tensor,
    trained_on: Tensor,
    times: Tensor,
    agreement: Tensor | None,
) -> list[dict[str, Any]]:
    """Rows of ``summary.csv`` of a decoder's prediction (n, draws), for values (n, F), the truth,
    and (…, F) of training inputs; `agreement` (F,) is with the other decoder, if there is one.
    """
    features, levels = data.features, probes.leading_levels(data)
    score = prediction.score(values[:, None]).mean(1)
    loss = prediction.loss(values[:, None]).mean(1)
    columns = {
        "chance": probes.chance(trained_on, features),
        "loss": torch.stack([column.nanmean() for column in loss.T]),
        "agreement": torch.full((len(features),), torch.nan) if agreement is None else agreement,
    }
    mean = bootstrap(score[:, :levels].nanmean(1, keepdim=True), times) if levels else None
    known = (~values.isnan()).sum(0)
    estimate = root(bootstrap(score, times), features)
    return probes.feature_rows(features, estimate, columns, known, mean, levels)


def _branch_rows(
    data: Labelled, prediction: Prediction, values: Tensor, trained_on: Tensor, times: Tensor
) -> list[dict[str, Any]]:
    """Rows of ``branches.csv``: inputs whose path has the level; arguments as `_summary_rows`."""
    if not data.ordered or any(f.outcomes[:1] != (ENDED,) for f in data.features):
        return []
    taken = torch.where(values > 0, values, torch.nan)
    chance = probes.chance(torch.where(trained_on > 0, trained_on, torch.nan), data.features)
    branch = torch.stack([part[..., 1:].argmax(-1) + 1 for part in prediction.parts], -1)
    right = torch.where(taken.isnan()[:, None], torch.nan, (branch == taken[:, None]).float())
    known = (~taken.isnan()).sum(0)
    estimate = bootstrap(right.mean(1), times)
    return probes.feature_rows(data.features, estimate, {"chance": chance}, known)
