"""Data sets: hierarchical binary vectors, coloured sprites, and a user's own images, table, or
real-valued vectors.
"""

from __future__ import annotations

from plot_attractors.data.batch import Batch, Channels, DataSet, Feature, Labelled, is_real
from plot_attractors.data.checks import differences, digests
from plot_attractors.data.hbv import HierarchicalBinaryVectors
from plot_attractors.data.images import ImageSet, read_images
from plot_attractors.data.sprites import ColouredSprites
from plot_attractors.data.table import BinaryTable, ColumnRoles, read_table
from plot_attractors.data.vectors import Vectors, read_vectors

__all__ = [
    "Batch", "BinaryTable", "Channels", "ColouredSprites", "ColumnRoles", "DataSet", "Feature",
    "HierarchicalBinaryVectors", "ImageSet", "Labelled", "Vectors", "differences", "digests",
    "is_real", "read_images", "read_table", "read_vectors",
]  # fmt: skip
