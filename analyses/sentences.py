"""Which sentences describe which class of bits, and how often; or which image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from plot_attractors.data import BinaryTable, Vectors
from plot_attractors.evaluation import image_sentences, sentences, token_meaning
from plot_attractors.evaluation.sampling import (
    BITS,
    IMAGES,
    NUMBERS,
    REAL,
    is_listed,
    kind_of_inputs,
    refuse_inputs,
    require_attractors,
)
from plot_attractors.model.attractor import AttractorModel
from plot_attractors.plots.image_sentences import draw_changes, draw_images
from plot_attractors.plots.sentences import draw_classes
from plot_attractors.plots.token_meaning import draw_token_columns
from plot_attractors.ranges import Count, Size
from plot_attractors.runs import Run

TITLE = "Sentences"
CAPTIONS = {
    "sentences": (
        "Sentences of each class. Left: the classes; in the tree, each node's children stand below "
        "it and to its right, L takes the left and R the right half of its 1s, and red squares "
        "were held out of training. Tokens: the share of sentences sampled for exemplars of the "
        "class that hold each token; tokens between two lines exclude each other. Then the "
        "sentence sampled most often, with its share. Decoded: the bits that the sampled sentences "
        "stand for, on average; meant: the prototype of the class, or the mean of its rows. Black "
        "is 0, white is 1; of columns that are no bits, red is above and blue below the mean, by "
        "up to two standard deviations."
    ),
    "all_classes": (
        "The tokens of all classes, of a tree that is too large for the figure with sentences. A "
        "row for each node, its children below it and to its right; red squares were held out of "
        "training. Tokens: the share of sentences sampled for exemplars of the node that hold each "
        "token; tokens between two lines exclude each other. Decoded: the bits that these "
        "sentences stand for, on average; meant: the prototype of the node. Black is 0, white is 1."
    ),
    "token_columns": (
        "What each token tells of a table. Colour: the log odds ratio of a column's 1s, where the "
        "token is in the sentence against where it is not: red, it makes a 1 likelier, blue, "
        "rarer; white, the 95 % interval over training rows has 0 in it. Of real-valued vectors: "
        "the mean of a column where the token is in the sentence, less that where it is not, in "
        "standard deviations. Right of the line: values of labels, which training never saw. "
        "Columns that the same token tells most of stand together. token_meaning.csv says the same "
        "in words, with rows that are typical of each token, and opposite ones; rows.csv has the "
        "sentence read most often for every row, by its name."
    ),
    "images": (
        "Sentences of images. A row for each input: the input; what the decoder makes of its "
        "initial state z0, before the dynamics; the sentences that were read most often at the "
        "ends of its trajectories, decoded, with their shares; and the best sentence, of the "
        "highest reward, with its probability in the posterior. A good sampler reads the best "
        "sentences of an input most often, and they look like the input. Inputs of training stand "
        "left, held-out ones right; none was chosen by hand."
    ),
    "tokens": (
        "What each token stands for. Its share of the sentences that are read (blue) "
        "and of those drawn from the posterior (red). Mean change: decoded images of sentences "
        "with the token minus those of the same sentences without it, on average; grey is no "
        "change, and each is as strong as it can be shown. Then examples: a sentence without the "
        "token, and beside it with the token. R²: the share of the variance of the token's "
        "presence that a feature of the input explains; 1 means that the feature alone decides, 0 "
        "that it does not matter by itself. Tokens that one feature explains best stand together."
    ),
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    exemplars: Size = 16  # of a node of the tree,
    draws: Size = 16  # and trajectories of each
    inputs: Size = 2000  # of a table, or training images
    held_out_inputs: Count = 500  # images of each other split
    image_draws: Size = 64  # trajectories of an image
    images: Size = 12  # training images in the figure, and about as many held-out ones together


def applies(run: Run) -> bool:
    """Whether the run's model has attractors, and inputs are images, or sentences can be listed and
    vectors are decoded as numbers with a mean.
    """
    if not isinstance(run.model, AttractorModel):
        return False
    kind = kind_of_inputs(run)
    return kind == IMAGES or (kind in (BITS, REAL, NUMBERS) and is_listed(run.model))


@torch.no_grad()
def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of classes of bits (`sentences.measure_classes`), of a table's rows and columns, too
    (`token_meaning.measure_rows`), or of images (`image_sentences.measure_images`).
    """
    require_attractors(run.model)
    c, kind = config, kind_of_inputs(run)
    if kind in (BITS, REAL, NUMBERS):
        tables = sentences.measure_classes(run, c.exemplars, c.draws, c.inputs)
        if isinstance(run.data, BinaryTable | Vectors):
            tables |= token_meaning.measure_rows(run, c.draws, c.inputs)
        return tables
    if kind != IMAGES:
        refuse_inputs(run, "images, or vectors, decoded as numbers with a mean")
    return image_sentences.measure_images(run, c.inputs, c.held_out_inputs, c.image_draws, c.images)


def plot(tables: dict[str, Any]) -> dict[str, Any]:
    """Figures of classes of bits, or of images."""
    if "classes.csv" in tables:
        figures = draw_classes(tables)
        if "token_columns.csv" in tables:
            of = tables["token_columns.csv"], tables["token_meaning.csv"]
            figures["token_columns"] = draw_token_columns(*of)
        return figures
    images = draw_images(tables["sentences.csv"], tables["images.npz"])
    tokens = draw_changes(tables["tokens.csv"], tables["changes.npz"])
    return {"images": images, "tokens": tokens}
