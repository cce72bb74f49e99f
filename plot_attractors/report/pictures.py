"""Figures of analyses as parts of a page: the smaller of both files that stays legible."""

from __future__ import annotations

import base64
import io
from pathlib import Path

__all__ = ["data_uri", "stems"]

LARGEST_SVG = 100_000  # bytes of a vector graphic that is taken as it is, else pixels
WIDTH, QUALITY = 1600, 80  # pixels, and of WebP, 0 to 100
BROKEN = OSError, ValueError, SyntaxError  # what Pillow makes of a broken picture


def stems(folder: Path) -> set[str]:
    """Names of the figures in a folder, without endings."""
    return {path.stem for path in folder.iterdir() if path.suffix in (".svg", ".png")}


def data_uri(folder: Path, stem: str) -> str:
    """A figure as the address of an <img>: a small SVG, or the PNG as WebP; empty where it cannot
    be read.
    """
    svg, png = (folder / f"{stem}{suffix}" for suffix in (".svg", ".png"))
    if svg.is_file() and (svg.stat().st_size <= LARGEST_SVG or not png.is_file()):
        return _uri("image/svg+xml", svg.read_bytes())
    try:
        return _uri("image/webp", _webp(png))
    except BROKEN:
        return ""


def _webp(file: Path) -> bytes:
    from PIL import Image

    with Image.open(file) as image:
        coloured = image.convert("RGBA")
    white = Image.new("RGBA", coloured.size, "white")
    flat = Image.alpha_composite(white, coloured).convert("RGB")
    flat.thumbnail((WIDTH, flat.height), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    flat.save(buffer, "WEBP", quality=QUALITY, method=2)
    return buffer.getvalue()


def _uri(media: str, content: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(content).decode()}"
