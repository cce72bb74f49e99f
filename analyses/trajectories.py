"""Trajectories of latent states in their principal plane: a figure, and a view to explore."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from plot_attractors.data.batch import Batch
from plot_attractors.evaluation import trajectories as paths
from plot_attractors.evaluation.metrics.attractors import principal_plane
from plot_attractors.evaluation.sampling import is_listed, require_attractors
from plot_attractors.evaluation.trajectory_view import trajectory_view
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.ranges import Count, Size
from plot_attractors.report.viewer import FILE
from plot_attractors.runs import Run

TITLE = "Trajectories"
CAPTIONS = {
    "trajectories": (
        "Latent states in the plane of their first two principal components. (A) Exemplars of up "
        "to ten classes, coloured by class. (B) Trajectories from one exemplar: one input has "
        "several sentences. Black: where inputs begin, z0, or z0 and the onset, a vector in a "
        "direction that no embedding uses; blue: after T steps; red: embeddings of sentences in "
        "use, or, if too many to list, those nearest to the blue. (C) Distance to the nearest "
        "embedding over 5T steps, median and middle half, from the length of the onset on; dotted: "
        "exact samples."
    ),
    "settling": (
        "(A) Share of inputs that have settled by step t, in the median of their trajectories: the "
        "nearest sentence changes no more, or the state stays within 2 ε√d of an embedding. "
        "(B) The step at which the nearest sentence changes last, median and middle half of the "
        "trajectories of an input, against the entropy of its sentences, with their rank "
        "correlation (Spearman)."
    ),
    "view": (
        "Dots: states at the step of the slider, with the steps before as tails; red: embeddings. "
        "From 0 to T states leave their inputs and gather at embeddings, where they stay. Colour "
        "by a label of the input, or by the sentence read at T. Point at a state, tap it, or focus "
        "the picture and press the arrow keys, for its input, the sentence read there, and what "
        "the decoder makes of both; images are decoded from z0 and at T only."
    ),
}


@dataclass(frozen=True)
class Config:
    classes: Size = 10
    exemplars: Size = 5  # of each class
    draws: Size = 50  # trajectories of the one exemplar
    use_inputs: Size = 512  # inputs that tell which sentences are in use
    exact_draws: Size = 2000  # exact end states, for their distance
    settling_inputs: Size = 64  # training inputs whose settling is timed
    settling_draws: Size = 64  # trajectories of each
    viewed: Size = 160  # training inputs in the interactive view
    viewed_held_out: Count = 80  # inputs of each other split there
    most_times: Size = 30  # of the interactive view up to T, and again up to 2T


def applies(run: Run) -> bool:
    """Whether the run's model has attractors in two or more dimensions."""
    return isinstance(run.model, AttractorModel) and run.model.latent >= 2


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Distances to embeddings, the states in the plane, and the interactive view of a report.

    ``summary.csv``: see `distances`; ``settling.csv``: see `settling`;
    ``planes.npz``: what the figure shows, in the first two principal components of the panels'
    states up to T and of the embeddings shown; ``trajectories.json``: both panels and inputs of
    each split, see `trajectory_view`.

    Raises ValueError for other models than the attractor model, and for one latent dimension.
    Source: the paper's figure of trajectories.
    """
    model = require_attractors(run.model)
    if model.latent < 2:
        raise ValueError("a plane needs two latent dimensions, not one: leave this analysis out")
    many = paths.exemplars(run, config.classes, config.exemplars)
    n = len(many.classes)
    one = Batch(*(part[[n // 2] * config.draws] for part in many.inputs))
    title = f"{n} exemplars of {len(many.classes.unique())} classes"
    panels = [paths.Panel.of(model, title, many.inputs)]
    panels += [paths.Panel.of(model, f"One exemplar, {config.draws} trajectories", one)]
    shown = paths.sentences_shown(run, panels, config.use_inputs)
    embeddings = model.embed(shown)
    states = [panel.z[: model.steps + 1].flatten(0, 1) for panel in panels]
    center, plane = principal_plane(torch.cat([*states, embeddings]))
    table = paths.distances(model, panels, plane)
    arrays = paths.project(panels, embeddings, center, plane)
    arrays |= {"steps": model.steps, "classes": many.classes.numpy()}
    arrays |= {"names": np.array(many.names, str), "colours": np.array(many.colours, str)}
    arrays["noise"] = paths.exact_distances(model, embeddings, config.exact_draws).median().numpy()
    panels += paths.split_panels(run, config.viewed, config.viewed_held_out)
    if not is_listed(model):
        shown = paths.sentences_shown(run, panels, config.use_inputs)
    view = trajectory_view(run, panels, center, plane, shown, config.most_times)
    times = paths.settling(
        model, model.encode(run.data.batch(config.settling_inputs).x), config.settling_draws
    )
    return {"summary.csv": table, "settling.csv": times, "planes.npz": arrays, FILE: view.to_json()}


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """The figures ``trajectories`` and, but for tables of before, ``settling``."""
    from plot_attractors.plots.trajectories import draw_settling, draw_trajectories

    figures = {"trajectories": draw_trajectories(tables["planes.npz"], tables["summary.csv"])}
    if "settling.csv" in tables:
        steps = int(tables["planes.npz"]["steps"])
        figures["settling"] = draw_settling(tables["settling.csv"], steps)
    return figures
