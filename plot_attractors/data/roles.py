"""Settings that data of a user's own have in common: what the columns of a table are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plot_attractors.data.columns import MISSING
from plot_attractors.ranges import Seed, Share

__all__ = ["ColumnRoles"]


@dataclass(frozen=True)
class ColumnRoles:
    """What the columns of a table are: of inputs, or of what is known of images and vectors."""

    # columns that are labels, not inputs; of images: features, and empty means all
    labels: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()  # columns to leave out
    held_out: str = ""  # column that marks held-out rows
    held_out_fraction: Share = 0.0  # part of the rows to hold out, where no column marks them
    split_seed: Seed = 0  # seed of the rows that held_out_fraction takes
    missing_values: tuple[str, ...] = MISSING  # cells that are missing, beside empty ones

    def inert(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        return {} if self.held_out_fraction else {"split_seed": "held_out_fraction is 0"}

    @property
    def columns(self) -> dict[str, Any]:
        """The same as arguments of `read_table`, `read_images` and `read_vectors`."""
        names = ("labels", "ignore", "held_out", "held_out_fraction", "missing_values")
        return {name: getattr(self, name) for name in names} | {"seed": self.split_seed}
