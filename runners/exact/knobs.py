# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs: each changes one thing in the guest. The table is knobs.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from runners.collect.scripts import read_scripts

TABLE = Path(__file__).parent / "knobs.toml"
KNOB = "/knob"
TEXT = "/knob.txt"
# Actions of runners/exact/knob/knob.c, in the guest's program KNOB.
OWN_ACTIONS = ["expect", "log", "packet", "cgroup-bpf", "probe", "tracer", "events", "bpftrace"]
NUMBER, SCRIPT = "number", "script"
MOST = 65_535
ANY = "any"


@dataclass(frozen=True)
class Knob:
    """A change in the guest. With an empty `name` there is none.

    Where the value is a number of things, `number` is that value, and `one` names a single thing.
    `messages` limits the window of a cell with this knob; 0 is no limit.
    """

    name: str = ""
    what: str = ""
    one: str = ""
    event: str = ""
    number: int | None = None
    command_line: str = ""
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    messages: int = 0
    text: str = ""
    steps: tuple[tuple[str, ...], ...] = ()
    shows: tuple[tuple[str, str], ...] = ()
    lacks: tuple[tuple[str, str], ...] = ()

    def evidence(self, transport: str) -> list[tuple[str, bool]]:
        """Patterns of functions, and whether a round trip over `transport` must call them."""
        rows = [(row, True) for row in self.shows] + [(row, False) for row in self.lacks]
        return [(pattern, must) for (where, pattern), must in rows if where in (transport, ANY)]

    def loading(self, files: list[str]) -> Knob:
        """This knob, with steps that first load these module files."""
        return replace(self, steps=((("run", KNOB, "load", *files)), *self.steps))


NOTHING = Knob()


def find(name: str) -> Knob:
    """The knob called `name`. Raises KeyError with a sentence that lists all knobs."""
    table = read_table()
    stem, equals, value = name.partition("=")
    if name in table and "value" not in table[name]:
        return _knob(name, table[name], "")
    possible = table.get(stem, {}).get("value") if equals else None
    if possible == NUMBER and value.isdecimal() and 1 <= int(value) <= MOST:
        return _knob(name, table[stem], value)
    if possible != NUMBER and value in _choices(possible):
        return _knob(name, table[stem], value)
    raise KeyError(f"unknown knob '{name}': there is {', '.join(described())}")


@cache
def read_table() -> dict[str, dict[str, Any]]:
    """The rows of knobs.toml, by name."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def _values(row: dict[str, Any]) -> str:
    value = row.get("value")
    if value is None:
        return ""
    return "=N" if value == NUMBER else f"={'|'.join(_choices(value))}"


def _choices(value: Any) -> list[str]:
    """The possible values of a knob whose value is not a number."""
    return list(scripts()) if value == SCRIPT else list(value or [])


@cache
def scripts() -> dict[str, Path]:
    """Our bpftrace scripts that need no more than their own text: name → file.

    A script that needs the place of a call within a function reads the running kernel's code.
    """
    return {
        name: row.path
        for name, (row, *_) in read_scripts().items()
        if row.instrument == "bpftrace" and not any(">" in need for need in row.needs)
    }


def described() -> dict[str, str]:
    """Every knob as a user writes it (`mtu=N`, `cc=reno|bbr`), and what it changes."""
    return {
        name + _values(row): row["what"].replace("{value}", "…")
        for name, row in read_table().items()
    }


def module_names() -> list[str]:
    """Every module that some knob needs, with any value."""
    return sorted(
        {
            module.replace("{value}", value)
            for row in read_table().values()
            for module in row.get("modules", [])
            for value in (row["value"] if isinstance(row.get("value"), list) else [""])
        }
    )


def _knob(name: str, row: dict[str, Any], value: str) -> Knob:
    def filled(text: str) -> str:
        return text.replace("{value}", value)

    modules = tuple(filled(module) for module in row.get("modules", []))
    steps = [tuple(filled(word) for word in step) for step in row.get("steps", [])]
    steps = [("run", KNOB, *step) if step[0] in OWN_ACTIONS else step for step in steps]
    if modules or row.get("code"):
        steps.append(("symbols",))
    text = row.get("file", "")
    if row.get("value") == SCRIPT:
        text = scripts()[value].read_text(encoding="utf-8")
    if each := row.get("each"):
        text += "".join(each.replace("{n}", str(n)) for n in range(1, int(value) + 1))
    return Knob(
        name=name,
        what=filled(row["what"]),
        one=row.get("one", ""),
        event=row.get("event", ""),
        number=int(value) if row.get("one") else None,
        command_line=filled(row.get("command_line", "")),
        modules=modules,
        programs=tuple(row.get("programs", [])),
        image=tuple(row.get("image", [])),
        messages=row.get("messages", 0),
        text=text,
        steps=tuple(steps),
        shows=_by_transport(row, "shows", value),
        lacks=_by_transport(row, "lacks", value),
    )


def _by_transport(row: dict[str, Any], key: str, value: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (transport, pattern.replace("{value}", value))
        for transport, patterns in row.get(key, {}).items()
        for pattern in patterns
    )
