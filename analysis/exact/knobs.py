# SPDX-License-Identifier: GPL-2.0-or-later
"""What a knob changes: the same exact cell without and with it, by layer and by function.

Iterations of the steady round trip differ by some instructions where a clock or a timer has moved
on (the variants of probes/exact/README.md), and which variant is the most frequent is chance. So
those two are compared, of those without and those with the knob, that are most alike, function by
function.
"""

from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

from analysis.exact.cells import FIRST_TRANSPORTS, MESSAGES, ExactCell, scheduling_text

TOP = 12


@dataclass(frozen=True)
class Moved:
    """A function or a layer: self instructions and calls of a round trip, without and with."""

    name: str
    before: int
    after: int
    calls_before: int = 0
    calls_after: int = 0

    @property
    def difference(self) -> int:
        return self.after - self.before

    @property
    def fate(self) -> str:
        """`added`, `vanished` or `changed`: whether it ran without, and with."""
        if self.before == 0:
            return "added"
        return "vanished" if self.after == 0 else "changed"


@dataclass(frozen=True)
class Change:
    """One cell without a knob and with it."""

    before: ExactCell
    after: ExactCell

    @property
    def transport(self) -> str:
        return self.after.transport

    @property
    def valid(self) -> bool:
        return not self.before.broken and not self.after.broken

    @property
    def difference(self) -> float:
        """Instructions of a message, more."""
        return (self.after.total - self.before.total) / MESSAGES

    @property
    def share(self) -> float:
        """The difference as a part of what the message costs without."""
        return (self.after.total - self.before.total) / self.before.total

    def per_message(self) -> tuple[float, float]:
        """Instructions without and with."""
        return self.before.total / MESSAGES, self.after.total / MESSAGES

    @property
    def events(self) -> float:
        """Events of a message, where the knob is a probe: calls of what it calls for each."""
        knob = self.after.knob
        if not (knob and knob.event):
            return 0
        calls = self.after.calls()
        return sum(n for name, n in calls.items() if fnmatchcase(name, knob.event)) / MESSAGES

    @property
    def of_an_event(self) -> float | None:
        """Instructions that one event costs."""
        return self.difference / self.events if self.events else None

    def layers(self) -> list[Moved]:
        """Layers that cost another amount, the greatest difference first."""
        return _moved(self.before.layers(), self.after.layers(), Counter(), Counter())

    def functions(self) -> list[Moved]:
        """Functions of which self instructions or calls differ, the greatest difference first."""
        return _moved(
            self.before.functions(),
            self.after.functions(),
            self.before.calls(),
            self.after.calls(),
        )

    def top(self) -> list[Moved]:
        """The functions that explain most of it."""
        return self.functions()[:TOP]

    def rest(self) -> int:
        """Instructions a round trip that the top leaves."""
        return sum(one.difference for one in self.functions()[TOP:])


@dataclass(frozen=True)
class KnobRow:
    """A knob on one kernel and size, transports side by side."""

    name: str
    what: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class KnobTable:
    """All knobs of a kernel, size, placement and scheduling."""

    kernel: str
    size: int
    placement: str
    scheduling: str
    rows: tuple[KnobRow, ...]

    @property
    def title(self) -> str:
        """Under which scheduler, in words."""
        return scheduling_text(self.scheduling)

    @property
    def transports(self) -> tuple[str, ...]:
        found = {change.transport for row in self.rows for change in row.changes}
        return tuple(sorted(found, key=_order))

    @property
    def probes(self) -> tuple[KnobRow, ...]:
        """The rows whose knob is a probe."""
        return tuple(row for row in self.rows if any(c.events for c in row.changes))

    def costs_of_one(self) -> list[str]:
        """Of knobs that count things: what one more costs, as sentences."""
        found = []
        for transport in self.transports:
            counted: dict[str, list[Change]] = {}
            for row in self.rows:
                for change in row.changes:
                    knob = change.after.knob
                    if change.transport == transport and change.valid and knob and knob.one:
                        counted.setdefault(knob.one, []).append(change)
            found += [_cost(one, transport, those) for one, those in counted.items()]
        return found


def most_alike(before: ExactCell, after: ExactCell) -> Change:
    """The pair of variants between which the fewest instructions move; of equals the usual one."""
    pairs = [
        (distance, n + m, n, m)
        for n, first in enumerate(_by_function(before))
        for m, second in enumerate(_by_function(after))
        for distance in (_distance(first, second),)
    ]
    _, _, n, m = min(pairs)
    return Change(before.as_variant(n), after.as_variant(m))


def _by_function(cell: ExactCell) -> list[Counter[str]]:
    usual = cell.functions()
    found = [usual]
    for variant in cell.variants:
        functions = usual.copy()
        for path, (_, steps) in variant.moved.items():
            functions[path.rpartition(";")[2]] += steps
        found.append(functions)
    return found


def _distance(first: Counter[str], second: Counter[str]) -> int:
    return sum(abs(first[name] - second[name]) for name in {*first, *second})


def knob_tables(cells: tuple[ExactCell, ...]) -> tuple[KnobTable, ...]:
    """Every kernel and size at which a knob was turned, with what it was without."""
    plain = {_where(cell): cell for cell in cells if cell.knob is None}
    tables: dict[tuple[str, int, str, str], dict[str, list[Change]]] = {}
    for cell in cells:
        before = plain.get(_where(cell))
        if cell.knob is None or before is None:
            continue
        where = (cell.kernel, cell.size, cell.placement, cell.scheduling)
        rows = tables.setdefault(where, {})
        rows.setdefault(cell.knob.name, []).append(most_alike(before, cell))
    return tuple(
        KnobTable(*key, tuple(_row(c) for c in rows.values())) for key, rows in tables.items()
    )


def _row(changes: list[Change]) -> KnobRow:
    knob = changes[0].after.knob
    assert knob is not None
    ordered = sorted(changes, key=lambda change: _order(change.transport))
    return KnobRow(knob.name, knob.what, tuple(ordered))


def _where(cell: ExactCell) -> tuple[str, str, int, str, str]:
    return cell.kernel, cell.transport, cell.size, cell.placement, cell.scheduling


def _order(transport: str) -> tuple[int, str]:
    known = transport in FIRST_TRANSPORTS
    return FIRST_TRANSPORTS.index(transport) if known else len(FIRST_TRANSPORTS), transport


def _moved(
    before: Counter[str], after: Counter[str], calls: Counter[str], now: Counter[str]
) -> list[Moved]:
    found = [
        Moved(name, before[name], after[name], calls[name], now[name])
        for name in {*before, *after}
        if before[name] != after[name] or calls[name] != now[name]
    ]
    return sorted(found, key=lambda one: (-abs(one.difference), one.name))


def _cost(thing: str, transport: str, changes: list[Change]) -> str:
    """What one more costs, of these changes that differ by how many there are."""
    points = sorted((c.after.knob.number or 0, c.difference) for c in changes if c.after.knob)
    return f"{thing}: {cost_of_one(f'a message over {transport}', points)}"


def cost_of_one(message: str, points: list[tuple[int, float]]) -> str:
    """`points`: how many there are, and how many instructions more a message takes then."""
    least, first = points[0]
    if not any(cost for _, cost in points):
        return f"{message} costs the same however many there are."
    firsts, them = ("the first", "it") if least == 1 else (f"the first {least}", "them")
    if len(points) == 1:
        costs = "costs" if least == 1 else "cost"
        return f"{firsts} {costs} {message} {first:,.1f} instructions more."
    slopes = ", ".join(
        f"{(high - low) / (last - first):,.1f} instructions (from {first} to {last})"
        for (first, low), (last, high) in pairwise(points)
    )
    return (
        f"each costs {message} {slopes}; {firsts}, with all that comes with {them}, {first:,.1f}."
    )
