"""The data that a baseline is trained on: hierarchical binary vectors, coloured sprites, or a
user's own table or images.
"""

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

__all__ = ["Data", "DataConfig", "load_data", "pairs"]

Data = HierarchicalBinaryVectors | ColouredSprites | ImageSet | BinaryTable


@dataclass(frozen=True)
class DataConfig(ImageConfig, TableConfig, SpritesConfig):
    """Settings of the data, named as those of the programs ``hbv``, ``dsprites``, ``images`` and
    ``table``.
    """

    # of the paper, images of your own, or a table's path
    data: Literal["hbv", "dsprites", "images"] | Path = "hbv"  # type: ignore[assignment]
    # path of the original dSprites file; empty: our own renderer; or path of the images
    # hierarchical binary vectors
    images: Path | None = None
    depth: int = 6  # D, generations of the tree
    bits: int = 128  # N, bits of a vector
    hold_out_seed: int = 0  # which prototypes are held out


def load_data(config: DataConfig) -> Data:
    """The tree or the sprites, whose inputs are drawn on the fly, the images, or the table that
    `data` names.

    Raises ValueError where `images` or `table` is a path that these data do not come from.
    """
    c = config
    for name, of in (("images", ("dsprites", "images")), ("table", ("images",))):
        if getattr(c, name) is not None and c.data not in of:
            say = " or ".join(f"data={kind}" for kind in of)
            raise ValueError(
                f"{name} is not read with data={c.data}: set {say}, too, or leave {name} out"
            )
    if c.data == "hbv":
        return HierarchicalBinaryVectors(c.depth, c.bits, c.hold_out, c.hold_out_seed)
    if c.data == "dsprites":
        return c.read_sprites()
    return c.read_images() if c.data == "images" else c.read_table()


def pairs(data: HierarchicalBinaryVectors | BinaryTable) -> tuple[int, ...]:
    """Exclusive pairs of tokens: one a level of a tree (Section *Hierarchical binary vectors*), or
    to fit a table.
    """
    return (
        (2,) * data.depth
        if isinstance(data, HierarchicalBinaryVectors)
        else pairs_to_fit(data.distinct)
    )
