"""The data that a baseline is trained on: the tree, coloured sprites, or a user's own."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from plot_attractors.data import (
    BinaryTable,
    ColouredSprites,
    HierarchicalBinaryVectors,
    ImageConfig,
    ImageSet,
    SpritesConfig,
    TableConfig,
    VectorConfig,
    Vectors,
)
from plot_attractors.language import pairs_to_fit
from plot_attractors.ranges import Bits, Depth, Seed

__all__ = ["Data", "DataConfig", "load_data", "pairs"]

# paths, and the data that come from them
PATHS = {"images": ("images",), "vectors": ("vectors",), "table": ("images", "vectors")}
Data = HierarchicalBinaryVectors | ColouredSprites | ImageSet | BinaryTable | Vectors


@dataclass(frozen=True)
class DataConfig(ImageConfig, TableConfig, VectorConfig, SpritesConfig):
    """Settings as of the programs ``hbv``, ``dsprites``, ``images``, ``vectors`` and ``table``."""

    # of the paper, images or vectors of your own, or a table's path
    data: Literal["hbv", "dsprites", "images", "vectors"] | Path = "hbv"  # type: ignore[assignment]
    images: Path | None = None  # path of your own images
    depth: Depth = 6  # D, generations of the tree
    bits: Bits = 128  # N, bits of a vector
    hold_out_seed: Seed = 0  # which prototypes of the tree are held out

    def inert(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        kinds: dict[Any, Any] = {
            "dsprites": SpritesConfig, "images": ImageConfig, "vectors": VectorConfig,
        }  # fmt: skip
        read = {"data", *PATHS}  # of which `load_data` says more
        if self.data == "hbv":
            read |= {"depth", "bits", "hold_out"} | ({"hold_out_seed"} if self.hold_out else set())
        else:
            read |= {f.name for f in fields(kinds.get(self.data, TableConfig))}
        others = {f.name for f in fields(DataConfig)} - read
        found = dict.fromkeys(others, f"with data={self.data} nothing reads it")
        return found | super().inert()


def load_data(config: DataConfig) -> Data:
    """The data set that `data` names.

    Raises ValueError where `images`, `vectors` or `table` is a path that these data do not come
    from.
    """
    c = config
    for name, kinds in PATHS.items():
        if getattr(c, name) is not None and c.data not in kinds:
            needed = " or ".join(f"data={kind}" for kind in kinds)
            raise ValueError(
                f"{name} is not read with data={c.data}: set {needed}, too, or leave {name} out"
            )
    if c.data == "hbv":
        return HierarchicalBinaryVectors(c.depth, c.bits, c.hold_out, c.hold_out_seed)
    if c.data == "dsprites":
        return c.read_sprites()
    if c.data == "vectors":
        return c.read_vectors()
    return c.read_images() if c.data == "images" else c.read_table()


def pairs(data: Data) -> tuple[int, ...]:
    """Exclusive pairs of tokens: one a level of a tree, or to fit a table or vectors; none for
    images.
    """
    if isinstance(data, HierarchicalBinaryVectors):
        return (2,) * data.depth
    return pairs_to_fit(data.distinct) if isinstance(data, BinaryTable | Vectors) else ()
