"""How varied the sentences of one input are, and what the number depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pandas as pd

from plot_attractors.evaluation import diversity as measures
from plot_attractors.evaluation import probes
from plot_attractors.evaluation.metrics.diversity import diversity
from plot_attractors.plots.diversity import plot as plot
from plot_attractors.ranges import Distinct, Positive, Size
from plot_attractors.runs import Run

TITLE = "Sample diversity"
CAPTIONS = {
    "diversity": (
        "How varied are the sentences of one input? Each is decoded to probabilities of features, "
        "and the spread of these points is measured by their differential entropy, nats, estimated "
        "from distances to the k-th nearest of N points. Upper row: the entropies of single "
        "inputs. Blue: the model; green: exact samples of its posterior, as diverse as the model "
        "ought to be; grey: one sentence only, with the noise of the states around its embedding, "
        "so that what lies to the right of grey is diversity and not noise. Red: mean and 95 % "
        "range of the paper, which tells neither N nor k. Lower row: what the number depends on. "
        "The estimate falls with N, for it is −∞ in truth wherever the points fill fewer "
        "dimensions than are counted (the legend tells how many they fill, judged by the slope), "
        "and it rises with k; it is higher for logarithms of probabilities (dotted), which go on "
        "changing where a decoder is sure; it also changes when the decoder's probabilities are "
        "made sharper (temperature below 1) or softer. Compare entropies of equal N, k, dimensions "
        "and scale only, and models with the grey control beside them."
    )
}
SUMMARY = "split samples dimensions n k inputs mean low high sigma share_negative_infinity filled"
DEPENDENCE = "split samples dimensions n k temperature points mean low high sigma"
SPREAD = "split samples feature column sd most"


@dataclass(frozen=True)
class Config(probes.Training):
    """Sample sizes, beside those of `probes.Training`."""

    inputs: Size = 100  # in each split
    draws: Size = 256  # sentences of each input, N
    # N that are compared, up to draws
    numbers: Annotated[tuple[Size, ...], Distinct()] = (16, 32, 64, 128, 256)
    # k; the first is that of Kozachenko and Leonenko
    neighbours: Annotated[tuple[Size, ...], Distinct()] = (1, 3, 10)
    # sharpness of the decoder
    temperatures: Annotated[tuple[Positive, ...], Distinct()] = (0.5, 1.0, 2.0, 4.0)


def applies(run: Run) -> bool:
    """Whether the model has sentences, and a feature of the inputs is known that can vary."""
    return probes.is_described(run) and any(map(measures.varies, run.data.features))


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Entropies of the predictions of features from the states z_T that sentences are read from.

    The first of the run's two feature decoders predicts. A point has the probabilities of all
    outcomes of categorical features (their mean place, where outcomes have coordinates, as colours
    in RGB) and the means of continuous ones; features of one outcome are left out.

    ``summary.csv``, a row for each split and kind of samples (see `evaluation.diversity.samples`):
    the fields of `Diversity`, and ``filled`` of `evaluation.diversity.summarise`.
    ``dependence.csv``: the same for other N, k and temperatures, and of log-probabilities.
    ``spread.csv``: of every column of a point, see `evaluation.diversity.spread`.
    ``entropies.csv``: H of every input. ``paper.csv``: the paper's numbers, where
    it has any. Source: Section *Sample diversity*.

    Raises ValueError: the model has no sentences, or no feature is known that can vary.
    """
    _, described = probes.require_described(run)
    if not any(map(measures.varies, described.features)):
        raise ValueError("every feature has one value only: leave this analysis out")
    decoder = probes.feature_decoders(run, config)[0]
    rows, curves, spreads, entropies = [], [], [], []
    compared = config.numbers, config.neighbours, config.temperatures
    for split in run.data.splits:
        x = run.data.batch(config.inputs, split).x
        for name, prediction in measures.samples(run.model, decoder, x, config.draws).items():
            at = {"split": split, "samples": name}
            curve = measures.dependence(prediction, *compared)
            curves.append(curve.assign(**at))
            spreads.append(measures.spread(prediction).assign(**at))
            result = diversity(prediction.points, config.neighbours[0])
            rows.append(at | measures.summarise(result, curve))
            entropies.append(pd.DataFrame({**at, "entropy": result.entropy.numpy()}))
    paper = measures.of_paper(run.data, result.dimensions)
    return {
        "summary.csv": pd.DataFrame(rows)[SUMMARY.split()],
        "dependence.csv": pd.concat(curves)[DEPENDENCE.split()],
        "spread.csv": pd.concat(spreads)[SPREAD.split()],
        "entropies.csv": pd.concat(entropies),
    } | ({} if paper is None else {"paper.csv": paper})
