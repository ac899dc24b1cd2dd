# SPDX-License-Identifier: GPL-2.0-or-later
"""Pictures of a structure's cache lines: a row of 64 boxes each, by who reads and writes them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from analysis import drawing
from analysis.drawing import Drawn, words
from analysis.paths.cells import ExactCell
from analysis.paths.lines import FieldOfObject, LineOfObject
from analysis.wording import DASH, number, size_text
from probes.contract import STRUCTURES

LINE_BYTES = 64
# How two CPUs share a field → its colour: the darker, the more the line has to move.
SHARING_COLOURS = {
    "one CPU": "#dbe4ea",
    "both read": "#9fd3c7",
    "one writes": "#f6cf65",
    "both write": "#ef8354",
}
LOADED, STORED = "#7d8890", "#101214"
# Ways of a field's accesses, each a strip below its name.
STRIPS = (("send",), ("softirq",), ("read", "poll", "other"))
BOX, LEFT, RIGHT, HEADROOM = 15, 62, 150, 92  # units of the picture
BOX_HEIGHT, STRIP, BETWEEN, NOTE, GAP = 44, 5, 8, 13, 24  # heights; NOTE: of the words below a row
SMALL_CHARACTER = 5.8  # the width of one in the small type
BAR = 120  # of the most moves
NARROW = 2  # bytes of a field that has no room for its name
LONGEST_NOTE = 185  # characters
ELEMENT = re.compile(r"(.*\[)\d+\]")


class FieldBox(NamedTuple):
    """The bytes of a field in one line; `strips` are the heights and colours below its name."""

    x: float
    width: float
    name: tuple[str, ...]  # in lines
    fill: str
    title: str
    strips: tuple[tuple[float, str], ...]


class LineOfBoxes(NamedTuple):
    """A line of the structure, or the words for several that nobody touches.

    `note` has the names of touched fields that are too narrow for them.
    """

    label: str
    parts: tuple[FieldBox, ...]
    note: str
    bar: float = 0.0
    moves: str = ""
    title: str = ""

    @property
    def height(self) -> float:
        if not self.parts:
            return GAP
        return BOX_HEIGHT + BETWEEN + (NOTE if self.note else 0)


def draw_structures(cells: Iterable[ExactCell]) -> Iterator[Drawn]:
    """Draw each structure that these cells, of two CPUs, use: of the first cell that uses it."""
    users: dict[str, ExactCell] = {}
    for cell in cells:
        for row in cell.field_rows:
            if row.size:
                users.setdefault(row.name, cell)
    yield from (draw_structure(users[name], name) for name in STRUCTURES if name in users)


def draw_structure(cell: ExactCell, name: str) -> Drawn:
    """Draw the lines of one structure as a cell uses them."""
    rows = list(_rows(cell, name))
    size = max(row.offset + row.size for row in cell.field_rows if row.name == name)
    where = f"{cell.cell}, {cell.kernel}"
    svg = _template().render(
        rows=list(
            zip(accumulate((row.height for row in rows), initial=HEADROOM), rows, strict=False)
        ),
        title=f"{name}, {size:,} bytes",
        subtitle=f"a round trip: {size_text(cell.size)} over {cell.transport}, two CPUs",
        width=LEFT + BOX * LINE_BYTES + RIGHT,
        height=HEADROOM + sum(row.height for row in rows) + 4,
        colours=SHARING_COLOURS,
        geometry={"left": LEFT, "line": BOX * LINE_BYTES, "tall": BOX_HEIGHT, "strip": STRIP},
        ink=drawing.INK,
        faint=drawing.FAINT,
        rule=drawing.RULE,
        card=drawing.CARD,
        loaded=LOADED,
        stored=STORED,
    )
    title, caption, alt = (
        words("structure", part, name=name, where=where) for part in ("title", "caption", "alt")
    )
    return Drawn(f"structure-{name}", title, caption, alt, svg)


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("structure.svg.j2")


def _rows(cell: ExactCell, name: str) -> Iterator[LineOfBoxes]:
    fields = list(_joined(row for row in cell.field_rows if row.name == name and row.size))
    lines = {int(row.line): row for row in cell.line_rows if row.name == name and row.line}
    size = max(row.offset + row.size for row in fields)
    most = max((row.moves for row in lines.values()), default=0) or 1
    starts = range(0, size, LINE_BYTES)
    for is_touched, together in groupby(starts, lambda start: start in lines):
        if is_touched:
            yield from (_row(start, fields, lines[start], most) for start in together)
            continue
        first, *more = together
        count = f"{len(more) + 1} lines" if more else "a line"
        yield LineOfBoxes(f"+{first}", (), f"{count} that no message touches")


def _row(
    start: int, fields: Sequence[FieldOfObject], line: LineOfObject, most: float
) -> LineOfBoxes:
    own = [
        row for row in fields if row.offset < start + LINE_BYTES and row.offset + row.size > start
    ]
    narrow = [f"{row.offset - start}: {row.field}" for row in own if _narrow(row) and any(row.all)]
    note = "; ".join(narrow)
    if len(note) > LONGEST_NOTE:
        note = f"{note[:LONGEST_NOTE]}…"
    made = LineOfBoxes(f"+{start}", tuple(_part(row, start) for row in own), note)
    if not line.moves:
        return made
    share = f", {line.read / line.fetches:.0%} read" if line.fetches else ""
    title = (
        f"+{start}: {number(line.fetches)} fetches and {number(line.invalidations)} "
        f"invalidations\nwritten by the other CPU: {line.written} ({line.writer})\n"
        f"taken for: {line.taken} ({line.taker})"
    )
    moves = f"{line.moves:.1f}".removesuffix(".0") + share.replace("%", " %")
    return made._replace(bar=BAR * line.moves / most, moves=moves, title=title)


def _joined(rows: Iterable[FieldOfObject]) -> Iterator[FieldOfObject]:
    """The fields, where bytes of an array that one line has and that are used alike are one."""
    for _, together in groupby(rows, _alike):
        first, *more = together
        if more:
            last = more[-1].field.rpartition("[")[2]
            yield first._replace(field=f"{first.field[:-1]}{DASH}{last}", size=len(more) + 1)
        else:
            yield first


def _alike(row: FieldOfObject) -> tuple[object, ...]:
    element = ELEMENT.fullmatch(row.field) if row.size == 1 else None
    if element is None:
        return row
    uses = row._replace(field="", offset=0)
    return element[1], row.offset // LINE_BYTES, uses


def _narrow(row: FieldOfObject) -> bool:
    return row.size <= NARROW


def _part(row: FieldOfObject, start: int) -> FieldBox:
    first, last = max(row.offset, start), min(row.offset + row.size, start + LINE_BYTES)
    width = BOX * (last - first)
    loads, stores = row.all
    strips = []
    for place, ways in enumerate(STRIPS):
        loaded, stored = row.of(*ways)
        if loaded or stored:
            height = BOX_HEIGHT - STRIP * (len(STRIPS) - place) - 1
            strips.append((height, STORED if stored else LOADED))
    return FieldBox(
        LEFT + BOX * (first - start),
        width,
        () if _narrow(row) else _broken(row.field, int((width - 4) / SMALL_CHARACTER)),
        SHARING_COLOURS.get(row.cpus, "") if loads or stores else "",
        _title(row),
        tuple(strips),
    )


def _broken(name: str, room: int) -> tuple[str, ...]:
    """A name in at most two lines of so many characters, broken behind a sign where one fits."""
    if len(name) <= room:
        return (name,)
    signs = [place + 1 for place, sign in enumerate(name[:room]) if sign in "._]"]
    if not signs:
        return (f"{name[: room - 1]}…",)
    cut = signs[-1]
    rest = name[cut:]
    return name[:cut], rest if len(rest) <= room else f"{rest[: room - 1]}…"


def _title(row: FieldOfObject) -> str:
    last = row.offset + row.size - 1
    text = f"{row.field}: byte {row.offset}" + (f" to {last}" if row.size > 1 else "")
    if not any(row.all):
        return f"{text}: no message touches it"
    uses = ", ".join(
        f"{'/'.join(ways)} {number(loads)} and {number(stores)}"
        for ways in STRIPS
        for loads, stores in [row.of(*ways)]
        if loads or stores
    )
    makers = [f"loaded: {row.loaders}"] if row.loaders else []
    makers += [f"stored: {row.storers}"] if row.storers else []
    return "\n".join([text, f"{row.cpus}; loads and stores: {uses}", *makers])
