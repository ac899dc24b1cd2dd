# SPDX-License-Identifier: GPL-2.0-or-later
"""What a knob changes: the same exact cell without and with it, by layer and by function.

Iterations of the steady round trip differ by some instructions where a clock or a timer has moved
on (the variants of probes/exact/README.md), and which variant is the most frequent is chance. So
those two are compared, of those without and those with the knob, that are most alike, function by
function.
"""

from collections import Counter
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import pairwise

from analysis.counts.ledger import transport_order
from analysis.exact.cells import ExactCell
from analysis.wording import MINUS

TOP = 12
Counts = tuple[Counter[str], Counter[str]]  # name → self instructions, and → calls


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
    def _messages(self) -> int:
        return self.after.messages_per_iteration

    @property
    def valid(self) -> bool:
        return not self.before.broken and not self.after.broken

    @property
    def difference(self) -> float:
        """Instructions of a message, more."""
        return (self.after.total - self.before.total) / self._messages

    @property
    def share(self) -> float:
        """The difference as a part of what the message costs without."""
        return (self.after.total - self.before.total) / self.before.total

    @property
    def steps(self) -> float:
        """Steps of a message, more."""
        return (self.after.steps - self.before.steps) / self._messages

    def per_message(self) -> tuple[float, float]:
        """Instructions without and with."""
        return self.before.total / self._messages, self.after.total / self._messages

    @property
    def events(self) -> float:
        """Events of a message, where the knob is a probe: calls of what it calls for each."""
        knob = self.after.knob
        if not (knob and knob.event):
            return 0
        calls = self.after.calls()
        found = sum(n for name, n in calls.items() if fnmatchcase(name, knob.event))
        return found / self._messages

    @property
    def of_an_event(self) -> float | None:
        """Instructions that one event costs."""
        return self.difference / self.events if self.events else None

    def layers(self) -> list[Moved]:
        """Layers that cost another amount, the greatest difference first."""
        return _moved(*((cell.layers(), Counter()) for cell in (self.before, self.after)))

    def functions(self) -> list[Moved]:
        """Functions of which self instructions or calls differ, the greatest difference first."""
        return _moved(*((cell.functions(), cell.calls()) for cell in (self.before, self.after)))

    def top(self) -> list[Moved]:
        """The functions that explain most of it."""
        return self.functions()[:TOP]

    def rest(self) -> int:
        """Instructions a round trip that the top leaves."""
        return sum(moved.difference for moved in self.functions()[TOP:])


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
    def transports(self) -> tuple[str, ...]:
        found = {change.transport for row in self.rows for change in row.changes}
        return tuple(sorted(found, key=transport_order))

    @property
    def probes(self) -> tuple[KnobRow, ...]:
        """The rows whose knob is a probe."""
        return tuple(row for row in self.rows if any(c.events for c in row.changes))

    def costs_of_one(self) -> list[str]:
        """A sentence for each knob that counts things, and transport: what one more costs."""
        points: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for transport in self.transports:
            for change in (change for row in self.rows for change in row.changes):
                knob = change.after.knob
                if change.transport == transport and change.valid and knob and knob.one:
                    point = (knob.number or 0, change.difference)
                    points.setdefault((knob.one, transport), []).append(point)
        return [
            f"{thing}: {cost_of_one(f'a message over {transport}', sorted(costs))}"
            for (thing, transport), costs in points.items()
        ]


def most_alike(before: ExactCell, after: ExactCell) -> Change:
    """The pair of variants between which the fewest instructions move; of equals the usual one."""
    firsts, seconds = (
        [cell.as_variant(n).functions() for n in range(len(cell.variants) + 1)]
        for cell in (before, after)
    )
    _, _, n, m = min(
        (sum(abs(first[name] - second[name]) for name in {*first, *second}), n + m, n, m)
        for n, first in enumerate(firsts)
        for m, second in enumerate(seconds)
    )
    return Change(before.as_variant(n), after.as_variant(m))


def knob_tables(cells: tuple[ExactCell, ...]) -> tuple[KnobTable, ...]:
    """Every kernel and size at which a knob was turned, with what it was without."""
    plain = {(*_where(cell), cell.transport): cell for cell in cells if cell.knob is None}
    tables: dict[tuple[str, int, str, str], dict[str, KnobRow]] = {}
    for cell in cells:
        before = plain.get((*_where(cell), cell.transport))
        if cell.knob is None or before is None:
            continue
        rows = tables.setdefault(_where(cell), {})
        row = rows.get(cell.knob.name, KnobRow(cell.knob.name, cell.knob.what, ()))
        changes = (*row.changes, most_alike(before, cell))
        ordered = sorted(changes, key=lambda change: transport_order(change.transport))
        rows[cell.knob.name] = replace(row, changes=tuple(ordered))
    return tuple(KnobTable(*key, tuple(rows.values())) for key, rows in tables.items())


def _where(cell: ExactCell) -> tuple[str, int, str, str]:
    return cell.kernel, cell.size, cell.where, cell.scheduling


def _moved(without: Counts, with_: Counts) -> list[Moved]:
    (before, calls_before), (after, calls_after) = without, with_
    found = [
        Moved(name, before[name], after[name], calls_before[name], calls_after[name])
        for name in {*before, *after}
        if before[name] != after[name] or calls_before[name] != calls_after[name]
    ]
    return sorted(found, key=lambda moved: (-abs(moved.difference), moved.name))


def cost_of_one(message: str, points: list[tuple[int, float]]) -> str:
    """`points`: how many there are, and how many instructions more a message takes then."""
    least, first = points[0]
    texts = [f"{first:+,.1f} instructions with {least}"]
    texts += [
        f"{(high - low) / (last - first):+,.1f} for each more up to {last}"
        for (first, low), (last, high) in pairwise(points)
    ]
    return f"{message} takes {', '.join(texts).replace('-', MINUS)}."
