"""The interactive view of trajectories: what an analysis keeps for it, small enough to travel
inside a page.
"""

from __future__ import annotations

import base64
import io
import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

__all__ = ["FILE", "Bits", "Group", "Label", "Pictures", "Sentences", "TrajectoryView", "is_view"]

FILE = (
    "trajectories.json"  # in the folder of an analysis: the report shows it as an interactive view
)
FORMAT = "plot-attractors trajectories 1"
LARGEST_SIDE = 32  # pixels of a picture's side
SHEET_COLUMNS = 64  # pictures in a row of the sheet that holds them all
LOSSLESS = 300_000  # bytes of a sheet; larger ones lose detail
LEVELS = 2**16 - 1  # coordinates are kept as 16-bit fractions of the range of their axis


class Group(NamedTuple):
    """Trajectories `start` to `end` − 1, which are shown together."""

    name: str
    start: int
    end: int


class Label(NamedTuple):
    """What trajectories can be coloured by: (N,) codes into the names of its values, and their own
    colours, if any.
    """

    name: str
    of: Literal["input", "sentence"]
    values: tuple[str, ...]
    codes: np.ndarray
    colours: tuple[str, ...] = ()


class Sentences(NamedTuple):
    """S sentences: names, ẑ in the plane (S, 2), whether each is in use (S,), and bits (S, K)
    decoded at ẑ, if any.
    """

    names: tuple[str, ...]
    points: np.ndarray
    in_use: np.ndarray
    bits: np.ndarray | None


class Bits(NamedTuple):
    """0/1 inputs (N, K), and the bits decoded from the states (times, N, K)."""

    inputs: np.ndarray
    decoded: np.ndarray


class Pictures(NamedTuple):
    """K pictures of each trajectory: their names, and images (N, K, 3, side, side) from 0 to 1."""

    names: tuple[str, ...]
    images: np.ndarray


@dataclass(frozen=True)
class TrajectoryView:
    """N trajectories in a plane, and what can be told of each of their states.

    - ``steps``: T; ``times``: the times of the states, increasing;
    - ``points``: (times, N, 2) states in the plane; ``shares``: of the variance, along its two
    axes;
    - ``inputs``: N names of the inputs; ``groups``, ``labels``;
    - ``read``: (times, N) the sentence read at each state, as a row of ``sentences``, below 65,536;
    - ``bits``: inputs and decoded states, or None where inputs are not 0/1 vectors; ``pictures``:
      of images, brought to 32 pixels a side or fewer.
    """

    steps: int
    times: tuple[int, ...]
    points: np.ndarray
    shares: tuple[float, float]
    inputs: tuple[str, ...]
    groups: tuple[Group, ...]
    labels: tuple[Label, ...]
    sentences: Sentences
    read: np.ndarray
    bits: Bits | None
    pictures: Pictures | None = None

    def text(self) -> str:
        """Of ``trajectories.json``: numbers in text, arrays as base64 of 16-bit integers or of
        packed bits, pictures on one sheet as WebP.

        Coordinates are rounded to 1/65,535 of the range of their axis.
        """
        everything = np.concatenate([self.points.reshape(-1, 2), self.sentences.points])
        low, high = everything.min(0), everything.max(0)
        high = np.where(high > low, high, low + 1)
        content: dict[str, Any] = {
            "format": FORMAT,
            "steps": self.steps,
            "times": self.times,
            "axes": [[float(a), float(b)] for a, b in zip(low, high, strict=True)],
            "shares": self.shares,
            "points": _words((self.points - low) / (high - low) * LEVELS),
            "inputs": self.inputs,
            "groups": [group._asdict() for group in self.groups],
            "labels": [{**label._asdict(), "codes": label.codes.tolist()} for label in self.labels],
            "sentences": {
                "names": self.sentences.names,
                "points": _words((self.sentences.points - low) / (high - low) * LEVELS),
                "in_use": self.sentences.in_use.astype(int).tolist(),
                "bits": None if self.sentences.bits is None else _packed(self.sentences.bits),
            },
            "read": _words(self.read),
            "bits": None,
            "pictures": None,
        }
        if self.pictures is not None:
            rows = -(-self.pictures.images[:, :, 0, 0, 0].size // SHEET_COLUMNS)
            size = {"columns": SHEET_COLUMNS, "rows": rows}
            content["pictures"] = {
                "names": self.pictures.names,
                **size,
                "sheet": _sheet(self.pictures.images),
            }
        if self.bits is not None:
            content["bits"] = {
                "count": self.bits.inputs.shape[-1],
                "inputs": _packed(self.bits.inputs),
                "decoded": _packed(self.bits.decoded),
            }
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def is_view(text: str) -> bool:
    """Whether this is what `TrajectoryView.text` gives."""
    try:
        content = json.loads(text)
    except ValueError:
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _words(numbers: np.ndarray) -> str:
    return base64.b64encode(np.rint(numbers).astype("<u2").tobytes()).decode()


def _sheet(images: np.ndarray) -> str:
    """The address of one image of all pictures (N, K, 3, side, side), side by side, trajectory
    after trajectory.
    """
    from PIL import Image

    flat = images.reshape(-1, *images.shape[2:])
    step = -(-flat.shape[-1] // LARGEST_SIDE)
    side = flat.shape[-1] // step
    flat = (
        flat[:, :, : side * step, : side * step].reshape(-1, 3, side, step, side, step).mean((3, 5))
    )
    rows = -(-len(flat) // SHEET_COLUMNS)
    cells = np.zeros((rows * SHEET_COLUMNS, 3, side, side), dtype=np.uint8)
    cells[: len(flat)] = np.rint(255 * flat.clip(0, 1))
    cells = cells.reshape(rows, SHEET_COLUMNS, 3, side, side).transpose(0, 3, 1, 4, 2)
    sheet = Image.fromarray(cells.reshape(rows * side, SHEET_COLUMNS * side, 3))
    for options in ({"lossless": True}, {"quality": 70}):
        buffer = io.BytesIO()
        sheet.save(buffer, "WEBP", **options)
        if buffer.tell() <= LOSSLESS:
            break
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _packed(bits: np.ndarray) -> str:
    """Every vector of bits from a new byte on, the first bit the highest of its byte."""
    return base64.b64encode(np.packbits(bits.astype(bool), axis=-1).tobytes()).decode()
