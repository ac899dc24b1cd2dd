# SPDX-License-Identifier: GPL-2.0-or-later
"""Cache lines and fields of exact cells, out of raw/exact-*/lines and fields (`exact --lines`)."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from analysis.raw.exact import ExactLine
from analysis.raw.record import Count, NotNegative, Positive, read_table

LINES, FIELDS = "lines", "fields"
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
    `size` is in bytes; 0 where it is not known.
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
        *("loaders", "storers"),
    ]
)
LINE_ROWS: TypeAdapter[list[LineOfObject]] = TypeAdapter(list[LineOfObject])
FIELD_ROWS: TypeAdapter[list[FieldOfObject]] = TypeAdapter(list[FieldOfObject])


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
