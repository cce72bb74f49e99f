"""The interactive view of trajectories: what an analysis keeps for it, small enough for a page."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

__all__ = [
    "FILE", "Bits", "Group", "Label", "Pictures", "SentencePoints", "TrajectoryView", "is_view",
]  # fmt: skip

FILE = "trajectories.json"  # in the folder of an analysis
FORMAT = "plot-attractors trajectories 1"
LARGEST_SIDE = 32  # pixels of a picture's side
SHEET_COLUMNS = 64  # pictures in a row of the sheet that holds them all
LEVELS = 2**16 - 1  # coordinates are kept as 16-bit fractions of the range of their axis


class Group(NamedTuple):
    """Trajectories `start` to `end` − 1, which are shown together."""

    name: str
    start: int
    end: int


class Label(NamedTuple):
    """What colours trajectories: (N,) codes into the names of its values, and their colours."""

    name: str
    of: Literal["input", "sentence"]
    values: tuple[str, ...]
    codes: np.ndarray
    colours: tuple[str, ...] = ()


class SentencePoints(NamedTuple):
    """S sentences: names, ẑ in the plane (S, 2), use (S,), and bits (S, K) decoded at ẑ, if any."""

    names: tuple[str, ...]
    points: np.ndarray
    in_use: np.ndarray
    bits: np.ndarray | None


class Bits(NamedTuple):
    """0/1 inputs (N, K), NaN where a bit is missing, the bits decoded from the states
    (times, N, K), and K names, or none.
    """

    inputs: np.ndarray
    decoded: np.ndarray
    names: tuple[str, ...] = ()


class Pictures(NamedTuple):
    """K pictures of each trajectory: their names, and images (N, K, 3, side, side) from 0 to 1."""

    names: tuple[str, ...]
    images: np.ndarray


class LiveModel(NamedTuple):
    """The forward step, for the page to go on with: states (…, d + m) → Normal, as
    `model.networks.HopfieldDynamics` in the latent axes and `model.memory.Memory` in the others.

    - ``arrays``: float32 numbers by name: ``weight0``, ``bias0``, … of the layers; ``pattern``,
      ``key`` and ``bias`` of the patterns of all heads; ``starts`` (N, d + m) of the inputs;
      ``embeddings`` (S, d), ``plane`` (d, 2), ``center`` (d,), and ``used`` (d,) 0/1, the axes that
      embeddings use;
    - ``numbers``: ``latent`` d, ``memory`` m, ``layers``, ``heads``, ``patterns`` of each head,
      ``scale``, ``amplitude``, ``clock``, ``least_clock``, ``legible`` and ``recalled`` (`recall`),
      ``max_step``, ``least_sd``, ``most_sd``, ``fading``, ``memory_sd``, and the ``radius`` within
      which a response comes.
    """

    arrays: dict[str, np.ndarray]
    numbers: dict[str, float]


LARGEST_LIVE = 2_000_000  # bytes of the numbers of a live model; of larger ones there is none


@dataclass(frozen=True)
class TrajectoryView:
    """N trajectories in a plane, and what is known of each of their states.

    - ``steps``: T; ``times``: the times of the states, increasing;
    - ``points``: (times, N, 2) states in the plane; ``shares``: of the variance, along its axes;
    - ``inputs``: N names of the inputs; ``groups``, ``labels``;
    - ``read``: (times, N) the sentence read at each state, as a row of ``sentences``, below 65,536;
    - ``bits``: inputs and decoded states, or None where inputs are not 0/1 vectors; ``pictures``:
      of images, brought to 32 pixels a side or fewer; ``live``: what makes new trajectories.
    """

    steps: int
    times: tuple[int, ...]
    points: np.ndarray
    shares: tuple[float, float]
    inputs: tuple[str, ...]
    groups: tuple[Group, ...]
    labels: tuple[Label, ...]
    sentences: SentencePoints
    read: np.ndarray
    bits: Bits | None
    pictures: Pictures | None = None
    live: LiveModel | None = None

    def to_json(self) -> str:
        """The content of ``trajectories.json``: arrays as base64 of 16-bit integers or of packed
        bits, pictures on one sheet as WebP. Coordinates are rounded to 1/65,535 of their range.
        """
        sentences, pictures, bits = self.sentences, self.pictures, self.bits
        everything = np.concatenate([self.points.reshape(-1, 2), sentences.points])
        low, high = everything.min(0), everything.max(0)
        high = np.where(high > low, high, low + 1)
        content: dict[str, Any] = {
            "format": FORMAT,
            "steps": self.steps,
            "times": self.times,
            "axes": np.stack([low, high], 1).astype(float).tolist(),
            "shares": self.shares,
            "points": _integers((self.points - low) / (high - low) * LEVELS),
            "inputs": self.inputs,
            "groups": [group._asdict() for group in self.groups],
            "labels": [{**label._asdict(), "codes": label.codes.tolist()} for label in self.labels],
            "sentences": {
                "names": sentences.names,
                "points": _integers((sentences.points - low) / (high - low) * LEVELS),
                "in_use": sentences.in_use.astype(int).tolist(),
                "bits": None if sentences.bits is None else _packed(sentences.bits),
            },
            "read": _integers(self.read),
            "bits": bits and {
                "count": bits.inputs.shape[-1],
                "names": bits.names,
                "inputs": _packed(bits.inputs == 1),
                "known": None if (known := ~np.isnan(bits.inputs)).all() else _packed(known),
                "decoded": _packed(bits.decoded),
            },
            "pictures": pictures and {
                "names": pictures.names,
                "columns": SHEET_COLUMNS,
                "rows": -(-pictures.images[:, :, 0, 0, 0].size // SHEET_COLUMNS),
                "sheet": _sheet(pictures.images),
            },
            "live": self.live and _live(self.live),
        }  # fmt: skip
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def is_view(text: str) -> bool:
    """Whether this begins as what `TrajectoryView.to_json` gives."""
    return text.startswith(f'{{"format":"{FORMAT}"')


def _live(model: LiveModel) -> dict[str, Any] | None:
    arrays = {name: np.ascontiguousarray(a, "<f4").tobytes() for name, a in model.arrays.items()}
    if sum(map(len, arrays.values())) * 4 / 3 > LARGEST_LIVE:
        return None
    return {
        **{name: base64.b64encode(content).decode() for name, content in arrays.items()},
        **model.numbers,
    }


def _integers(numbers: np.ndarray) -> str:
    return base64.b64encode(np.rint(numbers).astype("<u2").tobytes()).decode()


def _packed(bits: np.ndarray) -> str:
    """Every vector of bits from a new byte on, the first bit the highest of its byte."""
    return base64.b64encode(np.packbits(bits.astype(bool), axis=-1).tobytes()).decode()


def _sheet(images: np.ndarray) -> str:
    """The address of one image of all pictures (N, K, 3, side, side), by trajectory."""
    from PIL import Image

    flat = images.reshape(-1, *images.shape[2:])
    step = -(-flat.shape[-1] // LARGEST_SIDE)
    side = flat.shape[-1] // step
    blocks = flat[:, :, : side * step, : side * step].reshape(-1, 3, side, step, side, step)
    flat = blocks.mean((3, 5))
    rows = -(-len(flat) // SHEET_COLUMNS)
    cells = np.zeros((rows * SHEET_COLUMNS, 3, side, side), dtype=np.uint8)
    cells[: len(flat)] = np.rint(255 * flat.clip(0, 1))
    cells = cells.reshape(rows, SHEET_COLUMNS, 3, side, side).transpose(0, 3, 1, 4, 2)
    sheet = Image.fromarray(cells.reshape(rows * side, SHEET_COLUMNS * side, 3))
    buffer = io.BytesIO()
    sheet.save(buffer, "WEBP", lossless=True)
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"
