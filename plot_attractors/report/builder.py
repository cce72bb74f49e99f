"""Pages: sections of text, tables and figures, as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined

__all__ = [
    "Code", "Figure", "Image", "Page", "Part", "Section", "Table", "Text", "View", "anchor",
    "write",
]  # fmt: skip

HERE = Path(__file__).parent
Cell = str | tuple[str, ...]  # a text, and what stands small below it


@dataclass(frozen=True)
class Text:
    """A paragraph, and a list of sentences with what each is about."""

    kind: ClassVar = "paragraph"
    text: str = ""
    items: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Code:
    """Commands."""

    kind: ClassVar = "code"
    text: str


@dataclass(frozen=True)
class Table:
    """Rows of cells; folded below its title where it has one."""

    kind: ClassVar = "table"
    rows: Sequence[Sequence[Cell]]
    head: Sequence[str] = ()
    title: str = ""


@dataclass(frozen=True)
class Image:
    """A picture, by its address (`pictures.data_uri`), or empty where it cannot be read."""

    kind: ClassVar = "image"
    title: str
    name: str
    source: str


@dataclass(frozen=True)
class View:
    """An interactive view, by its content as JSON (`viewer.TrajectoryView.to_json`)."""

    kind: ClassVar = "view"
    title: str
    content: str


@dataclass(frozen=True)
class Figure:
    """Images or views side by side, with one caption."""

    kind: ClassVar = "figure"
    cells: Sequence[Image | View]
    caption: str
    anchor: str = ""


Block = Text | Code | Table | Figure


@dataclass(frozen=True)
class Part:
    """A part of a section."""

    anchor: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Section:
    """A section, which the contents list with its parts."""

    title: str
    blocks: Sequence[Block] = ()
    parts: Sequence[Part] = ()

    @property
    def anchor(self) -> str:
        return anchor(self.title)


@dataclass(frozen=True)
class Page:
    """A page, at most `width` rem wide: what a reader should know first, what is seen first, and
    sections.
    """

    title: str
    warnings: Sequence[tuple[str, str]]
    lead: Sequence[Block]
    sections: Sequence[Section]
    width: int = 62


def anchor(text: str) -> str:
    """The id of an element for a title."""
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())


def write(page: Page, file: Path) -> Path:
    """Write a page, and return its path."""
    from plot_attractors.analysis import style

    colours = {"blue": style.BLUE, "orange": style.ORANGE, "crimson": style.CRIMSON}
    colours |= {"grey": style.GREY}
    colours |= {f"class{k}": colour for k, colour in enumerate(style.CLASS_COLOURS)}
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    files = {name: (HERE / name).read_text("utf-8") for name in ("style.css", "viewer.js")}
    text = environment.get_template("page.html").render(page=page, colours=colours, files=files)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode(errors="replace"))  # of paths that are no UTF-8
    return file
