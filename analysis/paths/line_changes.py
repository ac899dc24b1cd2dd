# SPDX-License-Identifier: GPL-2.0-or-later
"""What changed in a round trip's cache lines from one kernel to another, by object and field.

A field that is only pushed on by others before it has not moved. Of the fields that both kernels
have, those moved that break the order of the rest.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from analysis.paths.cells import ExactCell
from analysis.paths.lines import FieldOfObject, LineOfObject
from analysis.wording import counted

LINE_QUANTITIES = ("lines", "code", "moves")
LEAST = 0.5  # of an iteration: less is what a timer adds to some
LEAST_HOLE = 16  # bytes: alignment may cost less
MOST_FIELDS = 4  # that an object names


class LineCounts(NamedTuple):
    """Means of an iteration."""

    lines: float
    code: float
    moves: float

    @classmethod
    def of(cls, cell: ExactCell) -> "LineCounts | None":
        """None where the run did not count lines."""
        found = cell.lines
        moved = found.moves.total if found and found.moves else 0
        return cls(found.data, found.code, moved) if found else None


class ObjectChange(NamedTuple):
    """An object with other lines or moves, and what about its fields may be the reason."""

    name: str
    lines: float
    moves: float
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        parts = [
            f"{_signed(value)} {what if abs(value) == 1 else what + 's'}"
            for value, what in ((self.lines, "line"), (self.moves, "move"))
            if abs(value) >= LEAST
        ]
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{', '.join(parts)} a round trip: {self.name}{why}"


class LineChange(NamedTuple):
    """The lines of a cell on both kernels."""

    before: LineCounts
    after: LineCounts
    objects: tuple[ObjectChange, ...]

    @property
    def more(self) -> LineCounts:
        """The differences; what a timer adds to some iterations is none."""
        pairs = zip(self.before, self.after, strict=True)
        changes = [round(after - before, 2) for before, after in pairs]
        return LineCounts(*(change if abs(change) >= LEAST else 0 for change in changes))

    def line(self) -> str:
        """`lines 445 -> 446 (+1), code 790 -> 790 (the same), moves 153 -> 155 (+2)`."""
        names = LINE_QUANTITIES if self.before.moves or self.after.moves else LINE_QUANTITIES[:2]
        parts = []
        for name in names:
            before, after, more = (getattr(x, name) for x in (self.before, self.after, self.more))
            change = _signed(more) if more else "the same"
            parts.append(f"{name} {_amount(before)} -> {_amount(after)} ({change})")
        return ", ".join(parts)


def line_change(before: ExactCell, after: ExactCell) -> LineChange | None:
    """What changed in the lines of a cell; None where one of the runs did not count them."""
    first, second = LineCounts.of(before), LineCounts.of(after)
    if first is None or second is None:
        return None
    return LineChange(first, second, tuple(_objects(before, after)))


def _objects(before: ExactCell, after: ExactCell) -> Iterator[ObjectChange]:
    """Objects with other lines or moves, those with the most moves first."""
    made = []
    lines = [_lines(cell) for cell in (before, after)]
    moves = [_moves(cell) for cell in (before, after)]
    for name in sorted({*lines[0], *lines[1], *moves[0], *moves[1]}):
        more = [round(b.get(name, 0) - a.get(name, 0), 2) for a, b in (lines, moves)]
        if max(map(abs, more)) >= LEAST:
            reasons = tuple(_reasons(before, after, name))
            made.append(ObjectChange(name, more[0], more[1], reasons))
    yield from sorted(made, key=lambda row: (not row.reasons, -abs(row.moves), -abs(row.lines)))


def _lines(cell: ExactCell) -> Mapping[str, float]:
    return cell.lines.objects if cell.lines else {}


def _moves(cell: ExactCell) -> dict[str, float]:
    moves: dict[str, float] = {}
    for row in cell.line_rows:
        moves[row.name] = moves.get(row.name, 0) + row.moves
    return moves


def _reasons(before: ExactCell, after: ExactCell, name: str) -> Iterator[str]:
    first, second = _fields(before, name), _fields(after, name)
    if not first and not second:
        if not _rows(before, name):
            yield f"new{_users(after, name, None)}"
        return
    new = [row for row in second.values() if row.field not in first]
    moved = _moved(first, second)
    yield from _named("new", [row for row in new if any(row.all)], after)
    yield from _named("moved", moved, after, first)
    gone = [row for row in first.values() if row.field not in second and any(row.all)]
    yield from _named("gone", gone, before)
    yield from _holes(first, second, {row.field for row in (*moved, *new) if any(row.all)})


def _fields(cell: ExactCell, name: str) -> dict[str, FieldOfObject]:
    """The fields of an object that has all of them, in their order."""
    rows = [row for row in cell.field_rows if row.name == name and row.size]
    return {row.field: row for row in sorted(rows, key=lambda row: row.offset)}


def _moved(
    first: Mapping[str, FieldOfObject], second: Mapping[str, FieldOfObject]
) -> list[FieldOfObject]:
    """The fewest fields whose order changed, of which one at least is accessed."""
    kept = [name for name in second if name in first]
    number_of = {name: at for at, name in enumerate(first)}
    stay = {kept[at] for at in _longest([number_of[name] for name in kept])}
    return [second[name] for name in kept if name not in stay and any(second[name].all)]


def _longest(numbers: Sequence[int]) -> list[int]:
    """The places of a longest part of the numbers that increases."""
    ends: list[int] = []  # the smallest number at which a part of this length ends
    places: list[int] = []
    before: list[int] = []
    for at, value in enumerate(numbers):
        length = bisect_left(ends, value)
        before.append(places[length - 1] if length else -1)
        ends[length : length + 1] = [value]
        places[length : length + 1] = [at]
    found: list[int] = []
    at = places[-1] if places else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found[::-1]


def _named(
    what: str,
    rows: Sequence[FieldOfObject],
    cell: ExactCell,
    first: Mapping[str, FieldOfObject] | None = None,
) -> Iterator[str]:
    """Fields with what became of them, and who uses them."""
    for row in rows[:MOST_FIELDS]:
        way = f" from byte {first[row.field].offset} to {row.offset}" if first else ""
        yield f"{row.field} {what}{way}{_users(cell, row.name, row)}"
    if len(rows) > MOST_FIELDS:
        yield f"{counted(len(rows) - MOST_FIELDS, 'more field')} {what}"


def _users(cell: ExactCell, name: str, row: FieldOfObject | None) -> str:
    """` (written by …, read on the other CPU by …)`; of a whole object, of its busiest line."""
    lines = _rows(cell, name)
    if row:
        lines = [line for line in lines if row.field in line.fields.split(", ")]
        writers, readers = _functions(row.storers), _functions(row.loaders)
    else:
        lines = lines[:1]
        writers, readers = ([line.writer.split(", ")[0] for line in lines] for _ in range(2))
    takers = [
        line.taker.split(", ")[0]
        for line in lines
        if line.taker and (row is None or row.field in line.taken.split(", "))
    ]
    others = [name for name in writers if name and name not in takers[:1]] or writers
    written = f"written by {others[0]}" if others and others[0] else ""
    if takers:
        used = f"taken on the other CPU by {takers[0]}"
    else:
        used = f"read by {readers[0]}" if readers and readers[0] and row else ""
    words = ", ".join(filter(None, (written, used)))
    return f" ({words})" if words else ""


def _functions(makers: str) -> list[str]:
    """`softirq tcp_ack, send tcp_sendmsg` without the ways."""
    return [maker.partition(" ")[2] for maker in makers.split(", ") if maker]


def _rows(cell: ExactCell, name: str) -> list[LineOfObject]:
    return [row for row in cell.line_rows if row.name == name]


def _holes(
    first: Mapping[str, FieldOfObject], second: Mapping[str, FieldOfObject], moved: set[str]
) -> Iterator[str]:
    """Bytes that nothing accesses, more or fewer of them between fields that are used."""
    kept = [row for name, row in second.items() if name in first and name not in moved]
    used = [row for row in kept if any(row.all)]
    for left, right in pairwise(used):
        before = first[right.field].offset - first[left.field].offset - first[left.field].size
        between = [
            row.size
            for row in second.values()
            if row.field in moved and left.offset < row.offset < right.offset
        ]
        gone = [
            row.size
            for name, row in first.items()
            if (name in moved or name not in second)
            and first[left.field].offset < row.offset < first[right.field].offset
        ]
        more = right.offset - left.offset - left.size - before - sum(between) + sum(gone)
        if abs(more) >= LEAST_HOLE:
            words = "more" if more > 0 else "fewer"
            yield f"{abs(more)} bytes {words} between {left.field} and {right.field}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '-'}{_amount(abs(value))}"


def _amount(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".")
