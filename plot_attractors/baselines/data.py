"""The data that a baseline is trained on: the tree, coloured sprites, or a user's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from plot_attractors.data import (
    BinaryTable,
    ColouredSprites,
    HierarchicalBinaryVectors,
    ImageConfig,
    ImageSet,
    SpritesConfig,
    TableConfig,
)
from plot_attractors.language import pairs_to_fit
from plot_attractors.ranges import Bits, Depth, Seed

__all__ = ["Data", "DataConfig", "load_data", "pairs"]

Data = HierarchicalBinaryVectors | ColouredSprites | ImageSet | BinaryTable


@dataclass(frozen=True)
class DataConfig(ImageConfig, TableConfig, SpritesConfig):
    """Settings as of the programs ``hbv``, ``dsprites``, ``images`` and ``table``."""

    # of the paper, images of your own, or a table's path
    data: Literal["hbv", "dsprites", "images"] | Path = "hbv"  # type: ignore[assignment]
    images: Path | None = None  # path of the original dSprites file, or of your own images
    depth: Depth = 6  # D, generations of the tree
    bits: Bits = 128  # N, bits of a vector
    hold_out_seed: Seed = 0  # which prototypes of the tree are held out


def load_data(config: DataConfig) -> Data:
    """The data set that `data` names.

    Raises ValueError where `images` or `table` is a path that these data do not come from.
    """
    c = config
    for name, kinds in (("images", ("dsprites", "images")), ("table", ("images",))):
        if getattr(c, name) is not None and c.data not in kinds:
            needed = " or ".join(f"data={kind}" for kind in kinds)
            raise ValueError(
                f"{name} is not read with data={c.data}: set {needed}, too, or leave {name} out"
            )
    if c.data == "hbv":
        return HierarchicalBinaryVectors(c.depth, c.bits, c.hold_out, c.hold_out_seed)
    if c.data == "dsprites":
        return c.read_sprites()
    return c.read_images() if c.data == "images" else c.read_table()


def pairs(data: Data) -> tuple[int, ...]:
    """Exclusive pairs of tokens: one a level of a tree, or to fit a table; none for images."""
    if isinstance(data, HierarchicalBinaryVectors):
        return (2,) * data.depth
    return pairs_to_fit(data.distinct) if isinstance(data, BinaryTable) else ()
