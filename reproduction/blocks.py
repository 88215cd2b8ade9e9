"""The parts of a report: headings, paragraphs, lists, tables and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph; it may contain `code` and *emphasis*."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list; items may contain `code` and *emphasis*."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class TableCell:
    """A cell of a table: its text, further lines in small print, and a verdict for its colour."""

    text: str = ""
    details: tuple[str, ...] = ()
    verdict: str = ""


@dataclass(frozen=True)
class Table:
    header: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    caption: str = ""


class FigureKey(NamedTuple):
    """What a figure shows, and for which dataset."""

    kind: str
    dataset: str

    @property
    def file_stem(self) -> str:
        return f"{self.kind}-{self.dataset}"


@dataclass(frozen=True)
class Figure:
    key: FigureKey
    alt: str
    caption: str


Block = Heading | Text | Items | Table | Figure


def table(header: tuple[str, ...], rows: list[tuple[object, ...]], caption: str = "") -> Table:
    """A table; values that are no ``TableCell`` become one with their text."""
    cells = tuple(
        tuple(value if isinstance(value, TableCell) else TableCell(str(value)) for value in row)
        for row in rows
    )
    return Table(header, cells, caption)
