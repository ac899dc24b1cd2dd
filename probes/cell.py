# SPDX-License-Identifier: GPL-2.0-or-later
"""A cell: one combination of factors, the unit that is run; and a plan of cells for one target.

The collector and the guest read this module too: standard library only.
"""

import json
import re
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from probes.files import read_rows
from probes.messages import shown
from probes.scripts import read_scripts
from probes.transports import read_transports

TRANSPORTS = {name: transport.words for name, transport in read_transports().items()}
_ROWS = read_rows(Path(__file__).with_name("factors.tsv"))
# Each factor's values, and what each is; and what a report calls them.
PATTERNS, PLACEMENTS, WAITS, SCHEDULERS, TOPOLOGIES, ADDITIONS = (
    {row["value"]: row["words"] for row in _ROWS if row["factor"] == factor}
    for factor in ("pattern", "placement", "wait", "sched", "topology", "also")
)
ROUND_TRIP_PATTERNS, WHOLE, ONE_THREAD, MANY_CLIENTS, ONE_WAY, _HALVES = (
    tuple(row["value"] for row in _ROWS if kind in row["kinds"].split())
    for kind in ("trip", "whole", "alone", "clients", "oneway", "halves")
)
CALLED = {row["value"]: row["called"] for row in _ROWS if row["called"]}
USUAL_IN_FLIGHT, MOST_IN_FLIGHT = 8, 65_536
USUAL_CLIENTS, MOST_CLIENTS = 4, 4_096
USUAL_BACKLOG = 1  # of a listener, which holds one connection more
USUAL_RATE, MOST_RATE = 1_000, 1_000_000  # requests a second
MOST_WORK = 1_000_000  # microseconds
LARGEST = 1 << 30  # bytes of payload
MOST_TIMEOUT = 3_600  # seconds

# A condition that is not usual → its field. Numbers end in the name of theirs: 256-in-flight.
_FACTORS = {"wait": WAITS, "sched": SCHEDULERS, "topology": TOPOLOGIES, "also": ADDITIONS}
WORDS = {word: factor for factor, values in _FACTORS.items() for word in [*values]}
ENDINGS = {"in_flight": "-in-flight", "clients": "-clients", "backlog": "-backlog",
           "rate": "-per-s", "work": "-us-work"}  # fmt: skip
NUMBERED = re.compile(r"([1-9][0-9]{0,8})(-[a-z-]+)")


def sends_of(also: str, size: int) -> int:
    """By how many calls a message of so many bytes is sent, if none of them is partial."""
    return 2 if also in _HALVES and size > 1 else 1


@dataclass(frozen=True)
class Conditions:
    """Where, how and with what else a cell runs.

    As text it is the placement, then what is not usual: `cross-cpu+spin`, `free+256-in-flight`.
    """

    placement: str
    wait: str = "block"
    sched: str = "other"
    topology: str = "one"
    also: str = "none"  # what the calls of a message do beside carrying it
    in_flight: int | None = None  # pipeline
    clients: int | None = None  # clients, paced, backlog, writers, threads
    backlog: int | None = None  # backlog: that listen() is given
    rate: int | None = None  # paced: requests a second
    work: int | None = None  # paced: microseconds of the server's for each request
    knob: str = ""  # exact mode: the name of what was changed in the guest

    @staticmethod
    @cache
    def parse(text: str) -> "Conditions":
        """Read what `str` wrote. A word that is not known is part of a knob's name."""
        numbers = {ending: name for name, ending in ENDINGS.items()}
        placement, *words = text.split("+")
        read: dict[str, Any] = {}
        for word in words:
            number = NUMBERED.fullmatch(word)
            if word in WORDS:
                read[WORDS[word]] = word
            elif number and number[2] in numbers:
                read[numbers[number[2]]] = int(number[1])
            else:
                read["knob"] = f"{read['knob']}+{word}" if "knob" in read else word
        return Conditions(placement, **read)

    @property
    def unusual(self) -> tuple[str, ...]:
        """A word for each condition that is not usual, in the order of the fields."""
        usual = {"in_flight": USUAL_IN_FLIGHT, "clients": USUAL_CLIENTS, "backlog": USUAL_BACKLOG}
        return tuple(
            f"{value}{ENDINGS.get(field.name, '')}"
            for field in fields(Conditions)[1:]
            if (value := getattr(self, field.name)) not in (field.default, usual.get(field.name))
        )

    def __str__(self) -> str:
        return "+".join((self.placement, *self.unusual))


@dataclass(frozen=True, kw_only=True)
class Cell(Conditions):
    """One combination of factors. `messages` and `warmup` count single sends.

    `extra`: the planner adds the cell for its time, and never probes it.
    """

    transport: str
    pattern: str
    size: int
    messages: int = 0
    warmup: int = 0
    extra: bool = False

    @property
    def conditions(self) -> Conditions:
        return Conditions(**{part.name: getattr(self, part.name) for part in fields(Conditions)})

    @property
    def unit(self) -> int:
        """The number of messages of which each window is a multiple."""
        return unit(self.pattern, self.clients)

    @property
    def options(self) -> list[str]:
        """The options of the C workload that run this cell."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        del given["extra"], given["knob"]  # which are no concern of the workload
        return [
            word for name in given for word in (f"--{name.replace('_', '-')}", str(given[name]))
        ]

    def shortened(self, messages: int | None, warmup: int | None = None) -> "Cell":
        """The cell with at most so many messages in its window and before it, in whole units."""
        each, cell = self.unit, self
        if messages is not None:
            cell = replace(cell, messages=min(cell.messages, max(each, messages // each * each)))
        if warmup is not None:
            cell = replace(cell, warmup=min(cell.warmup, warmup // each * each))
        return cell

    def __str__(self) -> str:
        return f"{self.transport} {self.pattern} {self.size} B {self.conditions}"


def unit(pattern: str, clients: int | None) -> int:
    """Return the number of messages of which each window of this pattern is a multiple."""
    each = 2 if pattern in ROUND_TRIP_PATTERNS else 1
    return each * (clients or 1) if pattern in MANY_CLIENTS else each


@dataclass(frozen=True)
class CellRun:
    """One run of a cell. The workload's markers carry `id`, which is unique in a target."""

    id: int
    cell: Cell
    repeat: int


@dataclass(frozen=True)
class Pass:
    """Cell runs under the same attached scripts of probes/scripts.tsv, or under none."""

    scripts: tuple[str, ...]
    runs: tuple[CellRun, ...]


@dataclass(frozen=True)
class Plan:
    """What one target does. `samples`: keep every round-trip time, for a clock reading each.

    `checks`: programs of runners/checks that test this kernel after the cells.
    """

    passes: tuple[Pass, ...]
    samples: bool = False
    cell_timeout: int = 60
    checks: tuple[str, ...] = ()

    def text(self) -> str:
        """The plan as `load` reads it."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @property
    def runs(self) -> int:
        return sum(len(group.runs) for group in self.passes)

    @property
    def scripts(self) -> set[str]:
        return {name for group in self.passes for name in group.scripts}

    @property
    def cells(self) -> list[Cell]:
        return [run.cell for group in self.passes for run in group.runs]


def load(text: str) -> Plan:
    """Read what `Plan.text` wrote, in a process with fewer rights. Raises ValueError."""
    try:
        plan: Plan = _made(Plan, json.loads(text))
    except (TypeError, AttributeError, KeyError, RecursionError) as error:
        raise ValueError(f"no plan: {error}") from error
    if unknown := plan.scripts - {*read_scripts()}:
        raise ValueError(f"no plan: there is no script {shown(sorted(unknown)[0])}")
    if unknown := {cell.transport for cell in plan.cells} - {*TRANSPORTS}:
        raise ValueError(f"no plan: there is no transport {shown(sorted(unknown)[0])}")
    if not 0 < plan.cell_timeout <= MOST_TIMEOUT:
        raise ValueError(f"no plan: cells of {shown(plan.cell_timeout)} s")
    return plan


def _made(kind: Any, value: Any) -> Any:
    """A value of this type, as JSON has it. Raises TypeError for a value of any other type."""
    if is_dataclass(kind):
        kinds = get_type_hints(kind)
        parts = {name: _made(kinds[name], part) for name, part in value.items()}
        return kind(**parts)  # type: ignore[operator]
    if get_origin(kind) is tuple:
        return tuple(_made(get_args(kind)[0], part) for part in value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{value!r} is not of type {kind}")
    return value
