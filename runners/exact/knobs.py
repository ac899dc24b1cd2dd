# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs: each changes one thing in the guest. The table is knobs.toml."""

import re
import tomllib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from probes import program
from probes.scripts import read_scripts

TABLE = Path(__file__).parent / "knobs.toml"
KNOB = "/knob"
TEXT = "/knob.txt"
# Actions of runners/exact/knob/knob.c, in the guest's program KNOB.
OWN_ACTIONS = ["expect", "log", "packet", "cgroup-bpf", "tracer", "bpftrace"]
NUMBER, SCRIPT, CPU = "number", "script", "cpu"
# A model by QEMU's name (none: the usual one), and features: `Nehalem`, `+erms`, `max+smap=off`.
CPU_VALUE = re.compile(r"(?=.)(\w[\w.-]*)?(\+\w[\w.-]*(=(on|off))?)*", re.ASCII)
NAME_LENGTH = 47  # of the name that a processor gives itself
FORMS = {NUMBER: "=N", CPU: "=MODEL+FEATURE"}
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
    cpu: str = ""
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
        return [(pattern, must) for (on, pattern), must in rows if on in (transport, ANY)]


NOTHING = Knob()


def find(name: str) -> Knob:
    """The knob called `name`; NOTHING without a name. Raises KeyError, which lists all knobs."""
    if not name:
        return NOTHING
    table = read_table()
    stem, equals, value = name.partition("=")
    if name in table and "value" not in table[name]:
        return _knob(name, table[name], "")
    possible = table.get(stem, {}).get("value") if equals else None
    if possible == NUMBER:
        fits = value.isdecimal() and 1 <= int(value) <= MOST
    elif possible == CPU:
        fits = CPU_VALUE.fullmatch(value) is not None
    else:
        fits = value in _choices(possible)
    if fits:
        return _knob(name, table[stem], value)
    raise KeyError(f"unknown knob '{name}': there is {', '.join(described())}")


@cache
def read_table() -> dict[str, dict[str, Any]]:
    """Return the rows of knobs.toml, by name."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def _choices(value: Any) -> list[str]:
    """Return the possible values of a knob that has a list of them."""
    return list(scripts()) if value == SCRIPT else list(value or [])


@cache
def scripts() -> dict[str, str]:
    """Our bpftrace scripts that need no more than their own text: name → text.

    A script that needs the place of a call within a function reads the running kernel's code.
    """
    return {
        name: program.show(name)
        for name, script in read_scripts().items()
        if script.instrument == "bpftrace" and not script.calls
    }


def described() -> dict[str, str]:
    """Return every knob as a user writes it (`mtu=N`, `cc=reno|bbr`), and what it changes."""
    words = {}
    for name, row in read_table().items():
        if value := row.get("value"):
            name += FORMS.get(str(value), f"={'|'.join(_choices(value))}")
        words[name] = row["what"].replace("{value}", "…")
    return words


def _filled(item: Any, value: str) -> Any:
    """Return a part of a row with this value in its texts, and with tuples for lists."""
    if isinstance(item, str):
        return item.replace("{value}", value).replace("{start}", value[:NAME_LENGTH])
    if isinstance(item, list):
        return tuple(_filled(part, value) for part in item)
    return item


def _knob(name: str, row: dict[str, Any], value: str) -> Knob:
    row = {key: _filled(item, value) for key, item in row.items()}
    steps = [
        ("run", KNOB, *step) if step[0] in OWN_ACTIONS else step for step in row.get("steps", ())
    ]
    if row.get("code"):
        steps.append(("symbols",))
    text = row.get("file", "")
    if row.get("value") == SCRIPT:
        text = scripts()[value]
    if each := row.get("each"):
        text += "".join(each.replace("{n}", str(n)) for n in range(1, int(value) + 1))
    calls: dict[str, Any] = {
        key: tuple(
            (transport, _filled(pattern, value))
            for transport, patterns in row.get(key, {}).items()
            for pattern in patterns
        )
        for key in ("shows", "lacks")
    }
    same = {field.name: row[field.name] for field in fields(Knob) if field.name in row}
    number = int(value) if "one" in row else None
    made = {"name": name, "number": number, "text": text, "steps": tuple(steps)}
    return Knob(**same | calls | made)
