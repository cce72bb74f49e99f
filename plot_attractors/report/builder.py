"""Pages: sections of text, tables and figures, as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

__all__ = [
    "Code", "Figure", "Image", "Page", "Part", "Section", "Table", "Text", "View", "anchor",
    "write",
]  # fmt: skip

HERE = Path(__file__).parent
Cell = str | tuple[str, ...]  # a text, and what stands small below it


class Text(NamedTuple):
    """A paragraph, and a list of sentences with what each is about."""

    text: str = ""
    items: Sequence[tuple[str, str]] = ()


class Code(NamedTuple):
    """Commands."""

    text: str


class Table(NamedTuple):
    """Rows of cells; folded below its title where it has one."""

    rows: Sequence[Sequence[Cell]]
    head: Sequence[str] = ()
    title: str = ""


class Image(NamedTuple):
    """A picture, by its address (`pictures.data_uri`), or empty where it cannot be read."""

    title: str
    name: str
    source: str


class View(NamedTuple):
    """An interactive view, by its content as JSON (`viewer.TrajectoryView.to_json`)."""

    title: str
    content: str


class Figure(NamedTuple):
    """Images or views side by side, with one caption."""

    cells: Sequence[Image | View]
    caption: str
    anchor: str = ""


Block = Text | Code | Table | Figure


class Part(NamedTuple):
    """A part of a section."""

    anchor: str
    title: str
    blocks: Sequence[Block]


class Section(NamedTuple):
    """A section, which the contents list with its parts."""

    title: str
    blocks: Sequence[Block] = ()
    parts: Sequence[Part] = ()

    @property
    def anchor(self) -> str:
        return anchor(self.title)


class Page(NamedTuple):
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

    colours = {"blue": style.BLUE, "orange": style.ORANGE, "red": style.RED}
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
