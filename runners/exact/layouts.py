# SPDX-License-Identifier: GPL-2.0-or-later
"""--layout: recorded cells replayed with fields elsewhere, and a search for a better order."""

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from probes.btf import Btf
from probes.cell import CellRun
from probes.messages import RunError, UsageError, shown
from runners.exact.layout_search import StructUse, search, total
from runners.exact.line_moves import moves
from runners.exact.lines import SETTLED, Lines
from runners.exact.relaid import Narrowed, Relaid
from runners.exact.struct_layout import Change, Layout, Unit, changed, units_of
from runners.exact.touches import OUTSIDE, Recorded

CLAUSE = re.compile(r"(?:(\w+)\s*:)?\s*(\w+(?:\s*,\s*\w+)*)\s+after\s+(\w+)")
STRUCTURES = re.compile(r"\w+(?:\s*,\s*\w+)*")
HOW = "write STRUCT: FIELD,FIELD after FIELD, or STRUCT alone for a search"
REPLAYED_HEAD = "cell\tlines\tlines then\tmoves\tmoves then\tunread\tunread then\n"
SEARCHED_HEAD = "moves\tlines\tlayout\n"


@dataclass(frozen=True)
class LayoutRequest:
    """What --layout names: the changes of one layout, and structures to search an order for."""

    changes: tuple[Change, ...] = ()
    searched: tuple[str, ...] = ()

    def __str__(self) -> str:
        return text_of(self.changes)


def text_of(changes: tuple[Change, ...]) -> str:
    """Changes as a user writes them."""
    texts, structure = [], ""
    for change in changes:
        text = str(change)
        texts.append(text.removeprefix(f"{structure}: "))
        structure = change.structure
    return "; ".join(texts)


def parse_layout(text: str) -> LayoutRequest:
    """Read the value of --layout. Raises UsageError."""
    changes: list[Change] = []
    searched: list[str] = []
    structure = ""
    for clause in filter(None, map(str.strip, text.split(";"))):
        if match := CLAUSE.fullmatch(clause):
            structure = match[1] or structure
            fields = tuple(re.split(r"\s*,\s*", match[2]))
            if not structure:
                raise UsageError(f"{shown(clause)} names no structure: {HOW}.")
            changes.append(Change(structure, fields, match[3]))
        elif STRUCTURES.fullmatch(clause):
            searched += re.split(r"\s*,\s*", clause)
        else:
            raise UsageError(f"{shown(clause)} cannot be read: {HOW}.")
    if not changes and not searched:
        raise UsageError(f"{shown(text)} names no structure: {HOW}.")
    return LayoutRequest(tuple(changes), tuple(dict.fromkeys(searched)))


def layout_of(btf: Btf, changes: tuple[Change, ...]) -> Layout:
    """The kernel's structures with these changes. Raises UsageError."""
    by_structure: dict[str, list[Change]] = {}
    for change in changes:
        by_structure.setdefault(change.structure, []).append(change)
    orders = {name: changed(btf, _units(btf, name), its) for name, its in by_structure.items()}
    return Layout(btf, orders)


def _units(btf: Btf, structure: str) -> list[Unit]:
    if structure not in btf:
        raise UsageError(f"--layout: this kernel has no struct {shown(structure)}.")
    return units_of(btf, structure)


class Totals(NamedTuple):
    """Of an iteration: lines of data, moves, and fetches of which nothing is read."""

    lines: float
    moves: float
    unread: float

    @classmethod
    def of(cls, counted: Lines) -> "Totals":
        totals, settled = counted.totals, counted.iterations - SETTLED
        moved = totals["fetches"] + totals["invalidations"]
        return cls(
            totals["lines"] / counted.iterations,
            moved / settled,
            totals["fetches_unread"] / settled,
        )

    @classmethod
    def replayed(cls, recorded: Recorded, cpus: int) -> "Totals":
        """Count a window again, without the names of what it touches."""
        lines = {
            (touch.iteration, line)
            for touch in recorded.touches()
            if touch.iteration != OUTSIDE
            for line in touch.lines
        }
        found = moves(recorded.touches(), cpus) if cpus > 1 else ()
        settled = [move for move in found if move.touch.iteration >= SETTLED]
        unread = sum(not move.invalidates and move.read is None for move in settled)
        each = recorded.iterations - SETTLED
        return cls(len(lines) / recorded.iterations, len(settled) / each, unread / each)


class _Seen(NamedTuple):
    """A cell: what it was and would be, and what it does to the structures of the search."""

    run: CellRun
    kernel: str
    before: Totals
    after: Totals
    uses: dict[str, StructUse]


@dataclass
class LayoutStudy:
    """Replays and searches of all cells of a run."""

    request: LayoutRequest
    _btfs: dict[str, Btf] = field(default_factory=dict)  # by kernel
    _seen: list[_Seen] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, kernel: str, btf: Btf) -> None:
        """Raises UsageError where this kernel has no such structure or field."""
        layout_of(btf, self.request.changes)
        for structure in self.request.searched:
            _units(btf, structure)
        self._btfs[kernel] = btf

    def add(self, run: CellRun, kernel: str, recorded: Recorded, counted: Lines) -> None:
        """Replay a cell, and keep what the search needs of it."""
        btf, request, cpus = recorded.objects.btf, self.request, counted.cpus
        names = [*request.searched, *(change.structure for change in request.changes)]
        before, part = Totals.of(counted), Narrowed(recorded, names)
        relaid = Relaid(part, layout_of(btf, request.changes))
        # The other lines stay as they are.
        now, then = (Totals.replayed(window, cpus) for window in (part, relaid))
        after = Totals(*(a - b + c for a, b, c in zip(before, now, then, strict=True)))
        uses = {name: StructUse(part, name) for name in request.searched}
        with self._lock:
            self._seen.append(_Seen(run, kernel, before, after, uses))

    def report(self) -> str:
        """The tables. Raises RunError where no cell was counted."""
        if not self._seen:
            raise RunError("no cell of this run has cache lines, so no layout can be compared.")
        self._seen.sort(key=lambda seen: (seen.kernel, seen.run.id, str(seen.run.cell)))
        return "".join(
            part
            for kernel, btf in self._btfs.items()
            for part in (*self._replayed(kernel, btf), *self._searched(kernel, btf))
        )

    def _replayed(self, kernel: str, btf: Btf) -> Iterator[str]:
        changes = self.request.changes
        if not changes:
            return
        layout = layout_of(btf, changes)
        yield f"# {self.request}\n"
        for name in dict.fromkeys(change.structure for change in changes):
            mapped, now = layout.mapped(name), btf.size(name)
            then = mapped.new_size if mapped else now
            yield f"# Linux {kernel}: struct {name} has {now} bytes, then {then}\n"
        for unit in self._wider(btf):
            yield f"# these share a number, and move together: {unit}\n"
        yield REPLAYED_HEAD
        for seen in self._seen:
            if seen.kernel == kernel:
                pairs = zip(seen.before, seen.after, strict=True)
                numbers = [_number(value) for pair in pairs for value in pair]
                yield "\t".join([str(seen.run.cell), *numbers]) + "\n"

    def _wider(self, btf: Btf) -> Iterator[str]:
        """Units of several names of which a change names some."""
        for change in self.request.changes:
            for unit in units_of(btf, change.structure):
                if len(unit.names) > 1 and set(unit.names).intersection(change.fields):
                    yield str(unit)

    def _searched(self, kernel: str, btf: Btf) -> Iterator[str]:
        cells = [seen for seen in self._seen if seen.kernel == kernel]
        for name in self.request.searched:
            having = [seen for seen in cells if seen.uses[name].touched]
            names = ", ".join(str(seen.run.cell) for seen in having)
            if not having:
                yield f"# Linux {kernel}: no counted cell accesses a struct {name}\n"
                continue
            yield (
                f"# Linux {kernel}: moves and lines of an iteration where a struct {name} is, "
                f"summed over {len(having)} cells: {names}\n{SEARCHED_HEAD}"
            )
            for found in search(btf, name, [seen.uses[name] for seen in having]):
                numbers = [_number(value) for value in total(found.costs)]
                yield "\t".join([*numbers, text_of(found.changes) or "as it is"]) + "\n"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
