# SPDX-License-Identifier: GPL-2.0-or-later
"""The plan as the collector reads it: passes of cell runs. Standard library only."""

import json
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Cell:
    """One combination of factors: the unit that is run.

    `size` is in bytes; `messages` and `warmup` count single sends.
    """

    transport: str
    pattern: str
    size: int
    placement: str
    messages: int
    warmup: int
    wait: str = "block"
    sched: str = "other"
    topology: str = "one"
    in_flight: int | None = None  # pipeline
    clients: int | None = None  # clients, paced
    rate: int | None = None  # paced: requests a second
    work: int | None = None  # paced: microseconds of the server's for each request
    extra: bool = False  # the planner adds it for its time, and never probes it

    def __str__(self) -> str:
        words = [self.transport, self.pattern, f"{self.size} B", self.placement]
        defaults = (("wait", "block"), ("sched", "other"), ("topology", "one"))
        words += [getattr(self, key) for key, usual in defaults if getattr(self, key) != usual]
        words += [f"{self.rate} a second"] if self.rate else []
        words += [f"{self.work} us of work"] if self.work else []
        return " ".join(words)


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
    """What one target does; where and as whom, the collector's options say (Execution).

    `samples`: keep every round-trip time, at the cost of one clock reading each.
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
        """How many cell runs there are."""
        return sum(len(group.runs) for group in self.passes)

    @property
    def scripts(self) -> set[str]:
        """Every script that is attached."""
        return {name for group in self.passes for name in group.scripts}

    @property
    def cells(self) -> list[Cell]:
        """The cell of every run, in order."""
        return [run.cell for group in self.passes for run in group.runs]


def load(text: str) -> Plan:
    """Read what `Plan.text` wrote. Raises ValueError for anything else.

    Under sudo the plan comes from a process with fewer rights.
    """
    try:
        plan: Plan = _made(Plan, json.loads(text))
        return plan
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"no plan: {error}") from error


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
