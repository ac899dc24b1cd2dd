# SPDX-License-Identifier: GPL-2.0-or-later
"""What a page consists of: blocks, which html.py and markdown.py write.

Text is a `str`, which the writers escape, or `Markup`, which may hold inline elements (inline.py).
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from analysis.drawing import Drawn


class Text(NamedTuple):
    """A `heading`, `pre`formatted text, or a paragraph of a class of report.css, such as `note`."""

    kind: str
    text: str


class Items(NamedTuple):
    """A list without an order."""

    texts: Sequence[str]


class SideBySide(NamedTuple):
    """Preformatted texts, each below its caption."""

    parts: Sequence[tuple[str, str]]


class Cell(NamedTuple):
    text: str
    kind: str = ""  # classes besides the column's
    span: int = 1


class Column(NamedTuple):
    head: str
    kind: str = ""  # `n` for figures, `from` for faint words
    group: str = ""  # neighbours of one group have its name above their heads


def numbers(*heads: str, group: str = "") -> list[str | Column]:
    """Columns of figures."""
    return [Column(head, "n", group) for head in heads]


class Row(NamedTuple):
    """The first cell is the row's head; a row of one cell is the head of those below it."""

    cells: Sequence[str | Cell]
    kind: str = ""
    id: str = ""


class Table:
    def __init__(
        self, caption: str, heads: Sequence[str | Column],
        rows: Sequence[Row | Sequence[str | Cell]], kind: str = "",
    ) -> None:  # fmt: skip
        """Without heads, rows are of a name and a value. A `sortable` table can be searched too."""
        self.caption, self.kind, self.headed = caption, kind, bool(heads)
        given = heads or ("what", "value")
        self.columns = [head if isinstance(head, Column) else Column(head) for head in given]
        self.rows = [row if isinstance(row, Row) else Row(row) for row in rows]

    def groups(self) -> list[tuple[str, list[Column]]]:
        return [(name, list(found)) for name, found in groupby(self.columns, lambda c: c.group)]

    def lines(self) -> Iterator[tuple[Row, list[tuple[Cell, Column]]]]:
        """Each row, and its cells with the columns that they begin in."""
        for row in self.rows:
            placed: list[tuple[Cell, Column]] = []
            for given in row.cells:
                cell = given if isinstance(given, Cell) else Cell(given)
                placed.append((cell, self.columns[sum(before.span for before, _ in placed)]))
            yield row, placed


class Group(NamedTuple):
    """Blocks that belong together: `closed` or `open` below a summary, or an `alert`."""

    kind: str
    summary: str
    blocks: "Blocks"


class Bar(NamedTuple):
    """A figure of one transport as a bar, with its interval: shares of the longest bar."""

    name: str
    text: str
    length: float
    low: float
    high: float


class Card(NamedTuple):
    """A figure in large, what it is of, and what it is made of."""

    title: str
    note: str
    figure: str
    bars: Sequence[Bar]
    lines: Sequence[str]
    blocks: "Blocks"


class Cards(NamedTuple):
    """Cards beside each other."""

    cards: Sequence[Card]


class Article(NamedTuple):
    """A claim with its verdict."""

    id: str
    verdict: str
    statement: str
    blocks: "Blocks"


class Section(NamedTuple):
    """A part of the page with an anchor; without a title where its first block has one."""

    id: str
    title: str
    blocks: "Blocks"


# A str is a paragraph, a Drawn is a figure, and None is nothing.
Block = str | Drawn | Text | Items | SideBySide | Table | Group | Cards | Article | Section | None
Blocks = Sequence[Block]


class Page(NamedTuple):
    """All that a reader opens: what stands above the first section, and the sections."""

    title: str
    kicker: str
    alerts: Blocks
    sentences: Sequence[str]  # the answer; the first one is the headline
    sections: Blocks
