"""What can be decoded of an input's features from its sentence, from its end state, and at best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from plot_attractors.evaluation import decodability, probes
from plot_attractors.plots.decodability import draw
from plot_attractors.ranges import Size
from plot_attractors.runs import Run

TITLE = "Feature decodability"
CAPTIONS = {
    "decodability": (
        "What can be told of an input from its sentence? Two networks were trained apart from each "
        "other to name the features of training inputs. Blue: what they name right when they are "
        "given a sentence sampled by the model (filled and open: the two networks; vertical lines: "
        "95 % intervals over inputs). Orange: given the state at which the sentence is read. "
        "Green: given the state that the input is encoded in. Black: given the input itself; for "
        "hierarchical binary vectors this is the exact optimum of who knows the training classes, "
        "and purple of who knows all classes: noisy inputs do not tell all. Grey: a guess without "
        "a look. Where blue is as high as orange, sentences keep all that the last states hold; "
        "blue below green is what tokens cost, green below black what encoding costs. For features "
        "that are numbers the root mean squared error is drawn: lower is better. In a tree an "
        "input's path may end early: on the left, “it has ended” is an answer like “left” and "
        "“right”; on the right, only inputs whose path goes on are counted. Held-out classes are "
        "new to model and networks. Who knows the training classes only takes the branch that was "
        "held out for one that is never taken, so that there even the optimum (black) falls to "
        "chance."
    )
}


@dataclass(frozen=True)
class Config(probes.Training):
    """Sample sizes, beside those of `probes.Training`."""

    inputs: Size = 2000  # of each split
    draws: Size = 2  # sentences of each


applies = probes.is_described


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, pd.DataFrame]:
    """A row for each split, feature, source and decoder (Section *Feature decodability*).

    - ``summary.csv``: ``source``: what the decoder is given: ``sentence``, ẑ_s of a sentence of the
      input; ``state``, the z_T that it is read from; and as ceilings ``encoding``, z0, and
      ``input``, x, by decoders trained on these. For hierarchical binary vectors ``input`` is the
      exact optimum of who knows the training classes, and ``tree`` of who knows all classes
      (`bayes_optimum`). ``decoder``: 0 or 1; ceilings have one. ``value``: accuracy, or RMSE in the
      feature's units, with a 95 % bootstrap interval over inputs. ``chance``: share of the
      commonest outcome, or standard deviation, among training inputs. ``loss``: mean −log P(true
      outcome), nats, or squared error in units of the variance. ``agreement``: share of draws
      of which both decoders predict the same, or root mean squared difference. ``n``: inputs. The
      first levels of a tree (`probes.leading_levels`) have a row of their mean, too; its accuracy
      counts "none", the path has ended above this level, as an outcome like the others.
    - ``branches.csv``, of a tree: the same without "none": of inputs whose path has that level, how
      often the likelier one of the other outcomes is true.
    """
    return decodability.measure(run, config.inputs, config.draws, config)


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """The figure ``decodability``."""
    return {"decodability": draw(tables["summary.csv"], tables.get("branches.csv"))}
