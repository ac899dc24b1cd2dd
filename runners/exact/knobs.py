# SPDX-License-Identifier: GPL-2.0-or-later
"""Knobs: each changes one thing in the guest. The table is knobs.toml."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from probes import program
from probes.isa import ISAS, USUAL, Isa
from probes.scripts import read_scripts
from runners.guest.store import LackingError

KNOBS_TABLE = Path(__file__).parent / "knobs.toml"
KNOB = "/knob"
TEXT = "/knob.txt"
# Actions of runners/exact/knob/knob.c, in the guest's program KNOB.
OWN_ACTIONS = [
    "expect",
    "log",
    "packet",
    "cgroup-bpf",
    "cgroup-memory",
    "tracer",
    "bpftrace",
    "seccomp",
]
# What `bpftrace = true` stands for.
BPFTRACE_ROW = {
    "event": "bpf_prog_????????????????_*",
    "image": ["bpftrace", "bin/sh"],
    "code": True,
    "steps": [["bpftrace", TEXT]],
}
ANY_NUMBER, ANY_SCRIPT, ANY_CPU = "number", "script", "cpu"
# A model by QEMU's name (none: the usual one), and features: `Nehalem`, `+erms`, `max+smap=off`.
CPU_VALUE = re.compile(r"(?=.)(\w[\w.-]*)?(\+\w[\w.-]*(=(on|off))?)*", re.ASCII)
VALUE_FORMS = {ANY_NUMBER: "=N", ANY_CPU: "=MODEL+FEATURE"}
LARGEST_NUMBER = 65_535
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
    modules: Sequence[str] = ()
    programs: Sequence[str] = ()
    image: Sequence[str] = ()
    messages: int = 0
    text: str = ""
    steps: Sequence[Sequence[str]] = ()
    shows: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by transport
    lacks: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def evidence(self, transport: str) -> list[tuple[str, bool]]:
        """Patterns of functions, and whether a round trip over `transport` must call them."""
        return [
            (pattern, must)
            for rows, must in ((self.shows, True), (self.lacks, False))
            for on in (transport, ANY)
            for pattern in rows.get(on, ())
        ]


NOTHING = Knob()


def find(name: str, isa: Isa | None = None) -> Knob:
    """The knob called `name`, on a machine of `isa`; NOTHING without a name.

    Raises KeyError, which lists all knobs, and LackingError where the architecture has it not.
    """
    if not name:
        return NOTHING
    table = read_table()
    stem, equals, value = name.partition("=")
    if name in table and "value" not in table[name]:
        stem, value = name, ""
    elif not equals or not _fits(value, table.get(stem, {}).get("value")):
        raise KeyError(f"unknown knob '{name}': there is {', '.join(described())}")
    start = json.dumps((isa or USUAL).cpu_name(value))[1:-1]
    words = json.dumps(table[stem]).replace("{start}", start)
    row = json.loads(words.replace("{value}", value))
    only = row.pop("arch", "")
    for other in ISAS:
        differs = row.pop(other, {})
        if isa and other == isa.name:
            row |= differs
    if isa and only not in ("", isa.name):
        raise LackingError(f"{name} is of {only}, and the machine is {isa.name}")
    if row.pop("bpftrace", False):
        row |= BPFTRACE_ROW
    steps = [["run", KNOB, *s] if s[0] in OWN_ACTIONS else s for s in row.pop("steps", ())]
    if row.pop("code", False):
        steps.append(["symbols"])
    number = int(value) if "one" in row else None
    text = row.pop("file", "") if row.pop("value", "") != ANY_SCRIPT else scripts()[value]
    if each := row.pop("each", ""):
        text += "".join(each.replace("{n}", str(n)) for n in range(1, int(value) + 1))
    return Knob(name, number=number, text=text, steps=steps, **row)


def _fits(value: str, possible: Any) -> bool:
    """Return whether a knob that has these possible values takes this one."""
    if possible == ANY_NUMBER:
        return value.isdecimal() and 1 <= int(value) <= LARGEST_NUMBER
    if possible == ANY_CPU:
        return CPU_VALUE.fullmatch(value) is not None
    return value in _choices(possible)


@cache
def read_table() -> dict[str, dict[str, Any]]:
    """Return the rows of knobs.toml, by name."""
    return tomllib.loads(KNOBS_TABLE.read_text(encoding="utf-8"))


def _choices(value: Any) -> list[str]:
    """Return the possible values of a knob that has a list of them."""
    return list(scripts()) if value == ANY_SCRIPT else list(value or [])


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
            name += VALUE_FORMS.get(str(value), f"={'|'.join(_choices(value))}")
        words[name] = row["what"].replace("{value}", "…")
    return words
