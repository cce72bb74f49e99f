"""How varied the sentences of one input are, and what the number depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from plot_attractors.analysis import probes
from plot_attractors.analysis.parts import note
from plot_attractors.analysis.probes import Prediction
from plot_attractors.analysis.sampling import exact_states, is_listed
from plot_attractors.analysis.shape import DESCRIBED, Needs, panels
from plot_attractors.analysis.style import BLUE, GREEN, GREY, letter, lettered
from plot_attractors.data import Feature
from plot_attractors.measures.diversity import diversity
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Size, setting
from plot_attractors.runs import Run
from plot_attractors.split_names import split_name

TITLE = "Sample diversity"
CAPTIONS = {
    "diversity": (
        "How varied are the sentences of one input? Each is decoded to probabilities of features, "
        "and the spread of these points is measured by their differential entropy, nats, estimated "
        "from distances to the k-th nearest of N points. For each split the entropies of single "
        "inputs. Blue: the model; green: exact samples of its posterior, as diverse as the model "
        "ought to be, so that blue to the right of green is an error of the sampler and no gain; "
        "grey: one sentence only, with the noise of the states around its embedding, so that what "
        "lies to the right of grey is diversity and not noise. The estimate falls with N, for it "
        "is −∞ in truth wherever the points fill fewer dimensions than are counted, and it rises "
        "with k. Compare entropies of equal N, k and dimensions only, and models with the grey "
        "control beside them. Where sentences of an input coincide it is −∞; floored, no distance "
        "counts as less than 2⁻²³."
    )
}
SUMMARY = """
    split samples dimensions n k inputs mean low high sigma share_negative_infinity floored
"""


@dataclass(frozen=True)
class Config(probes.DecoderTraining):
    """Sample sizes, beside those of `probes.DecoderTraining`."""

    inputs: Size = setting(100, "inputs of each split")
    draws: Size = setting(256, "sentences of each input, N")


NEEDS = DESCRIBED & Needs(
    "a label with more than one value", lambda run: any(map(varies, run.data.features))
)


# -- measures --------------------------------------------------------------------------------------


FEW = 16, 10  # sentences N, and the k-th nearest of them, beside the nearest of all


def varies(feature: Feature) -> bool:
    """Whether predictions of the feature can differ: it has not just one outcome."""
    return len(feature.outcomes) != 1


@torch.no_grad()
def samples(model: Any, decoder: Any, x: Tensor, draws: int) -> dict[str, Prediction]:
    """What is decoded of inputs x from sentences (B, draws) of the model and of its controls.

    ``model``; ``exact``, s ~ π(s | x) and z_T ~ N(ẑ_s, ε²), where sentences can be listed or the
    posterior factors; ``one sentence``, the first of the model's and z_T ~ N(ẑ_s, ε²), for
    attractor models.
    """
    description = model.describe(x, draws)
    states = {"model": description.z}
    if isinstance(model, AttractorModel):
        encoding = model.encode(x)
        if is_listed(model) or model.posterior.factored:
            states["exact"] = exact_states(model, encoding, draws)[0]
        one = description.s[:, :1].expand(-1, draws, -1)
        states["one sentence"] = model.terminal_kernel(one).sample()
    return {name: _without_constants(decoder(z)) for name, z in states.items()}


def _without_constants(prediction: Prediction) -> Prediction:
    """The prediction without features of one outcome."""
    kept = torch.tensor([varies(feature) for feature in prediction.features])
    columns = kept.repeat_interleave(torch.tensor([f.columns for f in prediction.features]))
    features = tuple(filter(varies, prediction.features))
    return Prediction(
        features, prediction.outputs[..., columns], prediction.centre[kept], prediction.scale[kept]
    )


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Entropies of the predictions of features from the states z_T that sentences are read from.

    The first of the run's two feature decoders predicts. A point has the probabilities of all
    outcomes of categorical features (their mean place, where outcomes have coordinates, as colours
    in RGB) and the means of continuous ones; features of one outcome are left out.

    - ``summary.csv``, a row for each split and kind of `samples`, and again for the first 16
      sentences and the tenth nearest: the fields of `Diversity`;
    - ``entropies.csv``: H of every input, by the nearest of all.

    Source: Section *Sample diversity*.
    """
    decoder = probes.feature_decoders(run, config)[0]
    rows, entropies = [], []
    for split in run.data.splits:
        x = run.data.batch(config.inputs, split).x
        for name, prediction in samples(run.model, decoder, x, config.draws).items():
            at = {"split": split, "samples": name}
            for n, k in ((config.draws, 1), FEW):
                if k < n <= config.draws:
                    result = diversity(prediction.points[:, :n], k)
                    rows.append(at | {"inputs": len(x)} | result._asdict())
                if k == 1:
                    entropies.append(pd.DataFrame({**at, "entropy": result.entropy.numpy()}))
    summary = pd.DataFrame(rows)[SUMMARY.split()]
    return {"summary.csv": summary, "entropies.csv": pd.concat(entropies)}


# -- figures ---------------------------------------------------------------------------------------


NAMES = {"model": "model", "exact": "exact posterior", "one sentence": "one sentence and its noise"}
COLOURS = {"model": BLUE, "exact": GREEN, "one sentence": GREY}
LOWEST = -300.0  # nats; lower entropies are drawn there, so that a few do not hide the others
NOTHING = "−∞: sentences of an input coincide"


def draw(tables: Mapping[str, Any]) -> dict[str, Figure]:
    """Figure ``diversity`` from ``summary.csv`` and ``entropies.csv``."""
    summary, entropies = tables["summary.csv"].query("k == 1"), tables["entropies.csv"]
    splits, first = list(summary["split"].unique()), summary.iloc[0]
    of_points = f"{first['dimensions']} dimensions, N = {first['n']}, k = {first['k']}"
    figure, grid = panels(len(splits))
    shown = entropies["entropy"].clip(lower=LOWEST)
    bins = np.linspace(shown.min() - 1, shown.max() + 1, 41)
    for k, (axes, split) in enumerate(zip(grid, splits, strict=True)):
        points, numbers = (table[table["split"] == split] for table in (entropies, summary))
        _draw_entropies(axes, points, numbers.set_index("samples"), bins)
        axes.set_title(lettered(letter(k), f"{split_name(split)}, {of_points}"))
    return {"diversity": figure}


def _draw_entropies(
    axes: Axes, entropies: pd.DataFrame, summary: pd.DataFrame, bins: np.ndarray
) -> None:
    for index, (name, row) in enumerate(summary.iterrows()):
        entropy = entropies.loc[entropies["samples"] == name, "entropy"]
        look: dict[str, Any] = {"color": COLOURS[str(name)]}
        if name == "model":
            look |= {"alpha": 0.6}
        else:
            line = ":" if name == "exact" else "-"
            look |= {"histtype": "step", "linewidth": 1.8, "linestyle": line}
        axes.hist(entropy[np.isfinite(entropy)].clip(lower=LOWEST), bins=bins.tolist(), **look)
        text = f"{NAMES[str(name)]}: {row['mean']:.1f} [{row['low']:.1f}, {row['high']:.1f}]"
        text += f", σ {row['sigma']:.3f}"
        if row["share_negative_infinity"] > 0:
            text += f"; −∞ for {row['share_negative_infinity']:.0%}"
            text += f", {row['floored']:.0f} floored at 2⁻²³"
        text = text.replace("inf", "∞").replace("-", "−")
        note(axes, text, "left", 0.97 - 0.075 * index, color=COLOURS[str(name)])
    axes.set_ylim(top=1.5 * axes.get_ylim()[1])  # room for the notes
    axes.set_xlim(bins[0], bins[-1])
    axes.set_xlabel("entropy of the predictions for an input, nats")
    axes.set_ylabel("inputs")
    if not np.isfinite(entropies["entropy"]).any():
        note(axes, NOTHING, top=0.5)
