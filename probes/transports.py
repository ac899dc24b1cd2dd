# SPDX-License-Identifier: GPL-2.0-or-later
"""transports.toml: the transports, and the path of each through the kernel.

Functions have other names on other kernels. `named` chooses among them by what a kernel has.
"""

import tomllib
from collections.abc import Container
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from probes.files import READ, typed

DIRECTIONS = ("in", "kernel", "out")
# The two that every answer is about, in the order of every table: `tcp / unix`, `tcp minus unix`.
PAIR = ("unix", "tcp")


class Place(NamedTuple):
    """A function, where it is called by `caller` (empty: by anyone)."""

    function: str
    caller: str = ""


Names = tuple[Place, ...]
"""The names of one function on different kernels."""


@dataclass(frozen=True)
class Transport:
    """A table of transports.toml. `copies` is by direction: who copies the payload there."""

    name: str
    kinds: tuple[str, ...]  # its name, and those of the transports that it is like
    words: str
    called: str
    family: str
    sends: Names
    receives: Names
    copies: dict[str, tuple[Names, ...]]
    between: str
    wakes: Names
    repeats: frozenset[str]
    checks: frozenset[str]
    lacks: frozenset[str]
    waits: dict[str, float]  # pattern → seconds that each iteration waits for a timer
    legs: int
    through: tuple[Names, ...]
    modules: tuple[str, ...]
    programs: tuple[str, ...]
    capabilities: tuple[str, ...]

    def times_copied(self, direction: str) -> int:
        """How often each payload byte is copied in this direction."""
        return 1 if self.copies[direction] else 0


@cache
def read_transports() -> dict[str, Transport]:
    """Name → transport."""
    text = Path(__file__).with_name("transports.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(text)
    return {name: _transport(name, tables) for name in tables}


def holding(word: str) -> tuple[str, ...]:
    """The transports that are this one or like it, or whose path this check is about."""
    table = read_transports().items()
    return tuple(name for name, path in table if word in (*path.kinds, *path.checks))


def forwarded() -> frozenset[str]:
    """The transports whose messages a third process hands on."""
    return frozenset(name for name, path in read_transports().items() if path.legs > 1)


def every_module() -> tuple[str, ...]:
    """The kernel modules that any transport needs."""
    wanted = (word for path in read_transports().values() for word in path.modules)
    return tuple(sorted({name for word in wanted for name in word.split("|")}))


def named(names: Names, functions: Container[str]) -> Place | None:
    """The first of these names that is among a kernel's `functions`; None without any."""
    return next((place for place in names if place.function in functions), None)


def _transport(name: str, tables: dict[str, dict[str, Any]]) -> Transport:
    kinds, values = [name], tables[name]
    while kind := tables[kinds[-1]].get("like"):
        kinds.append(kind)
        values = tables[kind] | values
    text = {"legs": "1"} | {key: str(value) for key, value in values.items()}
    text |= {"name": name, "kinds": " ".join(kinds), "called": tables[name].get("called", name)}
    readers = READ | {Names: _names, tuple[Names, ...]: _each}
    tabled = {
        "copies": {way: _each(text.get(way, "")) for way in DIRECTIONS},
        "waits": values.get("waits", {}),
    }
    return Transport(**typed(Transport, text, readers) | tabled)


def _each(text: str) -> tuple[Names, ...]:
    return tuple(map(_names, text.split()))


def _names(text: str) -> Names:
    places = (name.rpartition(">") for name in text.split("|") if name)
    return tuple(Place(function, caller) for caller, _, function in places)
