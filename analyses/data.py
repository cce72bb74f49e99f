"""The data figure: a tree, its prototypes and exemplars; a table's columns; sprites; or images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.data import BinaryTable, HierarchicalBinaryVectors, ImageSet, Vectors
from plot_attractors.data.dsprites import ColouredSprites
from plot_attractors.evaluation import data as measures
from plot_attractors.plots.data import plot as plot
from plot_attractors.ranges import Size
from plot_attractors.runs import Run

TITLE = "Data"
CAPTIONS = {
    "data": (
        "Hierarchical binary vectors. (A) The tree of classes below the root; held-out classes are "
        "red squares. (B) Prototypes, one class a row, generation by generation; white is 1, black "
        "is 0, and the red strip marks held-out classes. (C) Exemplars drawn from the classes of "
        "(B): white and black where exemplar and prototype agree on 1 and 0, light grey where only "
        "the exemplar is 1, dark grey where only the prototype is 1. (D) Pearson correlation of "
        "the bits over exemplars of the training classes, the diagonal left out. (E) The "
        "probability that each bit of a class's exemplars is 1."
    ),
    "table": (
        "The table that the model was trained on. (A) Share of 1s in each column, over all rows; "
        "where there are many columns, in increasing order. (B) Pearson correlation of the columns "
        "over all rows, the diagonal left out; of a wide table, the columns that vary most. "
        "Further panels: the number of rows with each value of a label."
    ),
    "vectors": (
        "The real-valued vectors that the model was trained on, each column standardised. (A) "
        "Principal components: the share of the variance that the first so many explain together; "
        "a model of d latent dimensions can tell at most about as much as d components. (B) "
        "Pearson correlation of the columns, the diagonal left out; of many columns, the first. "
        "Further panels: the number of rows with each value of a label."
    ),
    "sprites": (
        "Coloured sprites: one square, ellipse or heart, in one of seven colours and six sizes, at "
        "one of four by four places or near it. (A) Images that the model is trained on. (B, C, D) "
        "Images that are kept from it: all in one cell of the grid, yellow ones in another, and "
        "magenta ellipses wherever they are. (E) Every shape in every size, without noise. (F) "
        "Where the centres of training images lie: the darker, the more; the cells of (B) and (C) "
        "are outlined, and bars are the shares of columns and rows. (G) The noise of the colours: "
        "each row has images of one colour, those with the least noise on the left and the most on "
        "the right, where one may look like another colour. (H) The same in numbers: the "
        "brightness of channels (red, green, blue) that are on (blue bars) or off (orange bars) in "
        "an image's colour."
    ),
    "images": (
        "The images that the model was trained on, drawn at random, those that were held out from "
        "training, if any, and the mean and the standard deviation of every pixel over all images, "
        "as bright as can be. Further panels: how many images have each value of a feature."
    ),
}


@dataclass(frozen=True)
class Config:
    """Sample sizes."""

    exemplars: Size = 20_000  # inputs behind the correlation of bits or columns
    rows: Size = 42  # of exemplars to fill when classes are few
    columns: Size = 256  # most columns of a table in its correlation matrix
    swatches: Size = 48  # images of each colour whose noise is drawn
    channels: Size = 3000  # images behind the histogram of channels
    pixels: Size = 5000  # images behind the mean and the standard deviation of a pixel


KINDS = HierarchicalBinaryVectors | BinaryTable | ColouredSprites | ImageSet | Vectors


def applies(run: Run) -> bool:
    """Whether the data are hierarchical binary vectors, a table, sprites, images or vectors."""
    return isinstance(run.data, KINDS)


def measure(run: Run, config: Config) -> dict[str, Any]:
    """Tables of the data of a run, and the arrays that its figure shows.

    For hierarchical binary vectors ``summary.csv`` (class, depth, held_out, ones, path; the path is
    a letter, L or R, for each branch). For a table ``summary.csv`` (column, ones, mean) and
    ``labels.csv`` (label, value, rows). For coloured sprites ``summary.csv`` (split; combinations,
    how many of colour, shape, size, x and y it has; share, their probability were nothing held
    out). For a user's images ``summary.csv`` (split, images) and ``features.csv`` (feature, value,
    images). For real-valued vectors ``summary.csv`` (column, mean, sd), of training rows,
    ``labels.csv``, and ``components.csv`` (component, share), the share of the variance along each
    principal component. Arrays are in ``data.npz``, ``table.npz``, ``sprites.npz``, ``images.npz``
    or ``vectors.npz``. Source: the paper's figures of the data set and of its bit probabilities.

    Raises ValueError: any other data set.
    """
    data = run.data
    if isinstance(data, HierarchicalBinaryVectors):
        return measures.of_tree(data, config.exemplars, config.rows)
    if isinstance(data, BinaryTable):
        return measures.of_table(data, config.columns)
    if isinstance(data, ColouredSprites):
        return measures.of_sprites(data, config.swatches, config.channels)
    if isinstance(data, ImageSet):
        return measures.of_images(data, config.pixels)
    if isinstance(data, Vectors):
        return measures.of_vectors(data, config.exemplars, config.columns)
    raise ValueError(
        "the data figure needs hierarchical binary vectors, a table, sprites, images or "
        f"real-valued vectors, not {type(data).__name__}: leave this analysis out"
    )
