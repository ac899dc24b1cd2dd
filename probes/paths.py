# SPDX-License-Identifier: GPL-2.0-or-later
"""The path of each transport through the kernel: reads paths.tsv, whose head says the columns.

Functions have other names on other kernels. `named` chooses among them by what a kernel has.
"""

from collections.abc import Container
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from probes.tables import read_rows

DIRECTIONS = ("in", "kernel", "out")


class Place(NamedTuple):
    """A function, where it is called by `caller` (empty: by anyone)."""

    function: str
    caller: str = ""


Names = tuple[Place, ...]
"""The names of one function on different kernels."""


@dataclass(frozen=True)
class TransportPath:
    """A row of paths.tsv. `copies` is by direction: who copies the payload there."""

    transport: str
    sends: Names
    receives: Names
    copies: dict[str, tuple[Names, ...]]
    between: str
    wakes: Names
    repeats: frozenset[str]
    checks: frozenset[str]
    legs: int
    through: tuple[Names, ...]
    modules: tuple[str, ...]
    programs: tuple[str, ...]

    def times_copied(self, direction: str) -> int:
        """How often each payload byte is copied in this direction."""
        return 1 if self.copies[direction] else 0


@cache
def read_paths() -> dict[str, TransportPath]:
    """Transport → its path."""
    rows = read_rows(Path(__file__).with_name("paths.tsv"))
    return {row["transport"]: _path(row) for row in rows}


def holding(check: str) -> tuple[str, ...]:
    """The transports whose path this check is about."""
    return tuple(name for name, path in read_paths().items() if check in path.checks)


def forwarded() -> frozenset[str]:
    """The transports whose messages a third process hands on."""
    return frozenset(name for name, path in read_paths().items() if path.legs > 1)


def every_module() -> tuple[str, ...]:
    """The kernel modules that any transport needs."""
    wanted = (word for path in read_paths().values() for word in path.modules)
    return tuple(sorted({name for word in wanted for name in word.split("|")}))


def named(names: Names, functions: Container[str]) -> Place | None:
    """The first of these names that is among a kernel's `functions`; None without any."""
    return next((place for place in names if place.function in functions), None)


def _path(row: dict[str, str]) -> TransportPath:
    return TransportPath(
        row["transport"],
        _names(row["sends"]),
        _names(row["receives"]),
        {way: tuple(map(_names, row[way].split())) for way in DIRECTIONS},
        row["between"],
        _names(row["wakes"]),
        frozenset(row["repeats"].split()),
        frozenset(row["checks"].split()),
        int(row["legs"] or 1),
        tuple(map(_names, row["through"].split())),
        tuple(row["modules"].split()),
        tuple(row["programs"].split()),
    )


def _names(text: str) -> Names:
    places = (name.rpartition(">") for name in text.split("|") if name)
    return tuple(Place(function, caller) for caller, _, function in places)
