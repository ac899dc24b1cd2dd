# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines and fields of exact cells, out of raw/exact-*/lines and fields (`exact --lines`)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from analysis.paths.tree import Span
from analysis.raw.exact import ExactLine
from analysis.raw.record import Count, NotNegative, Positive, damaged, read_table

LINES, FIELDS, MOVES = "lines", "fields", "moves"
WAYS = ("send", "softirq", "read", "poll", "other")  # what a function does for a message


class LineOfObject(NamedTuple):
    """A line of an object: means of an iteration. `line` is its first byte there; empty where the
    objects have no lasting place.

    `fields`, `written`, `writer`, `taken` and `taker` name the most frequent fields and functions.
    """

    kind: str
    name: str
    line: str
    objects: Positive
    loads: NotNegative
    stores: NotNegative
    fetches: NotNegative
    read: NotNegative
    invalidations: NotNegative
    fields: str
    written: str
    writer: str
    taken: str
    taker: str

    @property
    def moves(self) -> float:
        return self.fetches + self.invalidations

    @property
    def place(self) -> str:
        """`tcp_sock+1472`."""
        return f"{self.name}+{self.line}" if self.line else self.name


class FieldOfObject(NamedTuple):
    """A field: loads and stores of an iteration by way, and the functions with most of them.

    `loaders` and `storers` are ways and functions: `softirq tcp_ack`. `structure` declares it.
    `size` is in bytes; 0 where it is not known. `cpus` says how two CPUs share it in one object:
    one of SHARING.
    """

    name: str
    field: str
    structure: str
    offset: Count
    size: Count
    loads_send: NotNegative
    stores_send: NotNegative
    loads_softirq: NotNegative
    stores_softirq: NotNegative
    loads_read: NotNegative
    stores_read: NotNegative
    loads_poll: NotNegative
    stores_poll: NotNegative
    loads_other: NotNegative
    stores_other: NotNegative
    loaders: str
    storers: str
    cpus: str = ""

    def of(self, *ways: str) -> tuple[float, float]:
        """Loads and stores in these ways."""
        loads, stores = (
            sum(getattr(self, f"{what}_{way}") for way in ways) for what in ("loads", "stores")
        )
        return loads, stores

    @property
    def all(self) -> tuple[float, float]:
        return self.of(*WAYS)


LINE_HEAD = (
    "kind\tobject\tline\tobjects\tloads\tstores\tfetches\tread\tinvalidations\t"
    "fields\twritten\twriter\ttaken\ttaker"
)
FIELD_HEAD = "\t".join(
    [
        *("object", "field", "structure", "offset", "size"),
        *(f"{what} {way}" for way in WAYS for what in ("loads", "stores")),
        *("loaders", "storers", "cpus"),
    ]
)
MOVES_HEAD = "cpu\tnumber\tpath\tinstructions\tmoves"
LINE_ROWS: TypeAdapter[list[LineOfObject]] = TypeAdapter(list[LineOfObject])
FIELD_ROWS: TypeAdapter[list[FieldOfObject]] = TypeAdapter(list[FieldOfObject])
ORDER_ROWS: TypeAdapter[list[Any]] = TypeAdapter(list[tuple[Count, Positive, str, Count, str]])


def read_lines(raw: Path, line: ExactLine) -> tuple[LineOfObject, ...]:
    """The lines of a cell, those that move most first. Raises RunError for a damaged file."""
    if line.lines is None:
        return ()
    return tuple(read_table(raw / LINES / f"{line.id}.tsv", LINE_HEAD, LINE_ROWS))


def read_fields(raw: Path, line: ExactLine) -> tuple[FieldOfObject, ...]:
    """The fields of a cell, by object and place. Raises RunError for a damaged file."""
    if line.lines is None:
        return ()
    return tuple(read_table(raw / FIELDS / f"{line.id}.tsv", FIELD_HEAD, FIELD_ROWS))


def read_moves(raw: Path, line: ExactLine) -> tuple[Span, ...]:
    """An iteration in its order with the moves in it; none of one CPU. Raises RunError."""
    if line.lines is None or line.lines.moves is None:
        return ()
    path = raw / MOVES / f"{line.id}.tsv"
    paths: dict[int, tuple[str, ...]] = {}
    spans = []
    for cpu, number, names, instructions, moved in read_table(path, MOVES_HEAD, ORDER_ROWS):
        if names:
            paths[number] = tuple(names.split(";"))
        if number not in paths:
            raise damaged(path, f"it has no names for path {number}")
        moves = tuple(_move(text) for text in filter(None, moved.split(", ")))
        spans.append(Span(paths[number], instructions, cpu=cpu, moves=moves))
    return tuple(spans)


def _move(text: str) -> tuple[str, str]:
    what, _, line = text.partition(" ")
    return what, line


def counts(line: ExactLine) -> Iterator[tuple[str, str, float]]:
    """Quantity, key and value of an iteration, for the tidy table."""
    found = line.lines
    if found is None:
        return
    yield from (
        ("memory_accesses", "loads", found.loads),
        ("memory_accesses", "stores", found.stores),
    )
    for key in ("data", "written", "code"):
        yield "cache_lines", key, getattr(found, key)
    if moves := found.moves:
        for key in ("fetches", "unread", "invalidations"):
            yield "line_moves", key, getattr(moves, key)
