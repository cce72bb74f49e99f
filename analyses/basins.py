"""Whether attractors sit at sentence embeddings: fixed points of the mean dynamics, and basins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from plot_attractors.evaluation import basins
from plot_attractors.evaluation.landscape import landscape
from plot_attractors.evaluation.sampling import is_listed, shows_vectors
from plot_attractors.ranges import Count, Size
from plot_attractors.runs import Run

TITLE = "Attractor basins"
CAPTIONS = {
    "landscape": (
        "(A) The plane of the embeddings' first two principal components. Colour: free energy "
        "−log F; F is the flow at T averaged over inputs: N(ẑ_s, ε²), weighted by the posterior of "
        "s, other directions integrated out. Arrows: average steps of states that project there. "
        "(B) A plane through the most visited fixed point and two neighbours; black: borders "
        "between basins. Red rings: embeddings in use; dots: fixed points of the mean dynamics, "
        "filled if stable; in (B), those within 1.5 ε√d. If attractors sit at embeddings, every "
        "ring holds a dot; a dot without one is at a sentence that is not in use."
    ),
    "fixed_points": (
        "(A) Distance of stable fixed points to the nearest embedding; exact samples have 1; dots: "
        "points of the Gaussian with the embeddings' mean and covariance. (B) Eigenvalues: the "
        "share of a perturbation left after a step. (C) Sentences that flow to the same point. (D) "
        "Basins by the posterior of their sentences (line); mean share of a basin among ends of "
        "trajectories (blue: on the line, if basins are visited as often as is probable) and of "
        "random states (its size), with 95 % intervals."
    ),
}


@dataclass(frozen=True)
class Config:
    inputs: Size = 1000  # training inputs, a trajectory each
    random_states: Size = 1000
    use_inputs: Size = 512  # inputs that tell which sentences are in use
    most_sentences: Size = 2000  # in use, that are followed; a random choice where there are more
    draws: Size = 32  # states of the cloud whose centre is followed
    fine_draws: Size = 256  # the same, for eigenvalues
    iterations: Size = 60  # of the mean dynamics, at most
    controls: Count = 10_000  # points that know nothing of sentences
    pixels: Size = 360  # sides of the pictures, of their flows, and of the borders between basins
    arrows: Count = 36
    cut_pixels: Size = 48


def applies(run: Run) -> bool:
    """Whether inputs are vectors, sentences can be listed, and the dynamics have fixed points."""
    return shows_vectors(run.data) and is_listed(run.model) and not basins.unfit(run.model)


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Fixed points of the mean dynamics and their basins, see `basins.Basins`.

    ``summary.csv``, one row, see its ``summary``; ``fixed_points.csv``, see ``fixed_points``;
    ``shares.csv``, ``landscape.npz`` and ``controls.npz``: what the figures show besides.

    Raises ValueError where sentences cannot be listed, for one latent dimension, and for dynamics
    that see the input. Source: the paper's claim that attractors sit at sentence embeddings.
    """
    model = basins.require_fixed_points(run)
    x = run.data.batch(config.use_inputs).x
    sentences = basins.SentencesInUse.of(model, x, config.most_sentences)
    encoding = model.encode(run.data.batch(config.inputs).x)
    z = model.trajectories(encoding.z0)
    random = basins.gaussian_like(encoding.z0, config.random_states)
    starts = {"data": z[-1], "random": random}
    size = config.draws, config.fine_draws, config.iterations
    found = basins.Basins(model, sentences, starts, *size)
    table = found.fixed_points()
    control = basins.gaussian_like(sentences.embedding, config.controls)
    summary = pd.DataFrame([found.summary(table, control)])
    paths = z, model.trajectories(random)
    visited = torch.cat([path[1 : model.steps].flatten(0, 1) for path in paths])
    sizes = config.pixels, config.arrows, config.cut_pixels
    return {
        "summary.csv": summary,
        "fixed_points.csv": table,
        "shares.csv": found.shares(table),
        "landscape.npz": landscape(found, visited, *sizes),
        "controls.npz": {"distance": found.distance(control).numpy()},
    }


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """The landscape, and the fixed points."""
    from plot_attractors.plots.basins import draw_fixed_points, draw_landscape

    control = tables["controls.npz"]["distance"]
    points = draw_fixed_points(tables["fixed_points.csv"], tables["shares.csv"], control)
    return {"landscape": draw_landscape(tables["landscape.npz"]), "fixed_points": points}
