"""Emergent communication: a reference game of sender and receiver (Section *Comparison models*)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from plot_attractors.baselines import EmergentCommunication, Receiver, Sender
from plot_attractors.data import DataSet
from plot_attractors.language import Language
from plot_attractors.model.nn import MLP, encoding_network
from plot_attractors.ranges import Size, Width, setting


@dataclass(frozen=True)
class Config:
    groups: tuple[Size, ...] = setting((), "of exclusive groups; empty: the paper's, or pairs")
    max_length: Size | None = setting(None, "most tokens; none: one of every group, of images 7")
    latent: Width = setting(8, "d, of the receiver's reading")
    units: Width = setting(256, "units of all networks")

    INFERENCE: ClassVar[str] = "emergent_communication"


PRESETS: dict[str, dict[str, Any]] = {"full": {}, "smoke": {"units": 32}}


def build(config: Config, data: DataSet) -> EmergentCommunication:
    """The sender sees the target; the receiver reads its sentence and sees all candidates."""
    c = config
    groups, longest = c.groups or (2,) * getattr(data, "pairs", 6), c.max_length
    if not groups:
        groups, longest = (1,) * 32, longest or 7  # Section *dSprites*
    language = Language(groups, 1, longest)
    shape = data.input_shape
    return EmergentCommunication(
        language,
        c.latent,
        # P(s | x)
        sender=Sender(language, encoding_network(shape, c.units, c.units, layers=2), c.units),
        receiver=Receiver(
            reader=MLP(language.width, c.latent, c.units),  # ẑ_s
            viewer=encoding_network(shape, c.latent, c.units),  # what is compared with it
        ),
    )
