"""Figures of analyses as parts of a page: of each the smallest file that stays legible."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import NamedTuple

__all__ = ["DETAILS", "OTHER_SEEDS", "Detail", "data_uri", "stems"]


class Detail(NamedTuple):
    """How finely figures are kept: the largest SVG that is taken as it is, else pixels."""

    svg: int  # bytes
    width: int  # pixels
    quality: int  # of WebP, 0 to 100

    def coarser(self, other: Detail) -> Detail:
        """The coarser of both in every respect."""
        return Detail(*map(min, self, other))


# From the finest on: a page takes the first with which it is small enough.
DETAILS = (
    Detail(200_000, 1800, 85),
    Detail(60_000, 1400, 75),
    Detail(0, 1000, 60),
    Detail(0, 700, 40),
)
OTHER_SEEDS = Detail(0, 1100, 70)  # of the figures that are folded away


def stems(folder: Path) -> set[str]:
    """Names of the figures in a folder, without endings."""
    return {path.stem for path in folder.iterdir() if path.suffix in (".svg", ".png")}


def data_uri(folder: Path, stem: str, detail: Detail) -> str:
    """A figure as the address of an <img>: a small SVG, or the PNG as WebP."""
    svg, png = (folder / f"{stem}{suffix}" for suffix in (".svg", ".png"))
    size = svg.stat().st_size if svg.is_file() else None
    if size is not None and (size <= detail.svg or not png.is_file()):
        return _uri("image/svg+xml", svg.read_bytes())
    return _uri("image/webp", _webp(png, detail))


def _webp(file: Path, detail: Detail) -> bytes:
    from PIL import Image

    with Image.open(file) as image:
        coloured = image.convert("RGBA")
    white = Image.new("RGBA", coloured.size, "white")
    flat = Image.alpha_composite(white, coloured).convert("RGB")
    flat.thumbnail((detail.width, flat.height), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    flat.save(buffer, "WEBP", quality=detail.quality, method=2)
    return buffer.getvalue()


def _uri(media: str, content: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(content).decode()}"
