# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares two runs of a program: what is called often to the digit, the rest with a tolerance.

A call that is made often costs the same each time that it goes the same way, whatever else is in
the machine. What runs once does not: the size of a file moves it. Nor does a sum, in which ticks
are.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from analysis.paths.bench import BenchRun, about_whom
from analysis.raw.bench import CallRow
from analysis.wording import counted
from probes.contract import BEYOND, UNTOLD, WITHIN

MANY_CALLS = 10  # calls from which on they are compared to the digit
STEADY_SHARE = (
    0.9  # of a shape's calls: those that wait or are woken vary with the scheduler's clock
)
LARGE_SHARE = 0.2  # of a call's shapes, of which one has no equal in the other run


@dataclass(frozen=True)
class CallChange:
    """Calls from one place in two runs; those that only one of them makes have no rows there."""

    name: str
    before: Sequence[CallRow]
    after: Sequence[CallRow]

    @property
    def calls(self) -> tuple[int, int]:
        return sum(row.calls for row in self.before), sum(row.calls for row in self.after)

    @property
    def kernel(self) -> tuple[int, int]:
        return sum(row.kernel for row in self.before), sum(row.kernel for row in self.after)

    @property
    def is_repeated(self) -> bool:
        return max(self.calls) >= MANY_CALLS

    def usual(self) -> list[tuple[int, int]]:
        """Return what calls that are made often cost, by shape: before and after."""
        before = {row.shape_id: row for row in self.before if is_steady(row)}
        after = {row.shape_id: row for row in self.after if is_steady(row)}
        both = [(before[name].usual, row.usual) for name, row in after.items() if name in before]
        had, has = ({row.shape_id for row in rows} for rows in (self.before, self.after))
        lost = [row.usual for row in self._large(self.before) if row.shape_id not in has]
        new = [row.usual for row in self._large(self.after) if row.shape_id not in had]
        return both + list(zip_longest(lost, new, fillvalue=0))

    def _large(self, rows: Sequence[CallRow]) -> list[CallRow]:
        total = sum(row.calls for row in rows)
        return [row for row in rows if is_steady(row) and row.calls >= LARGE_SHARE * total]

    def reasons(self, tolerance: float) -> list[str]:
        """Return why these calls are beyond; empty where they are not."""
        found = []
        if self.calls[1] > self.calls[0]:
            found.append("more calls")
        if any(after > before for before, after in self.usual()):
            found.append("each costs more")
        if not found and grew(*self.kernel, tolerance):
            found.append("their sum grew")
        return found

    @property
    def is_equal(self) -> bool:
        return self.calls[0] == self.calls[1] and all(a == b for a, b in self.usual())


@dataclass(frozen=True)
class BenchDiff:
    """Two runs of a program, compared."""

    first: BenchRun
    second: BenchRun
    tolerance: float  # per cent

    @property
    def changes(self) -> list[CallChange]:
        """Return the calls that are made often in one of them."""
        keys: defaultdict[tuple[str, str, str], tuple[list[CallRow], list[CallRow]]]
        keys = defaultdict(lambda: ([], []))
        for side, run in enumerate((self.first, self.second)):
            for whose in about_whom(run):
                for row in run.rows(whose):
                    keys[whose, row.call, row.site][side].append(row)
        changes = [
            CallChange(f"{call} < {site}" if site else call, *rows)
            for (_, call, site), rows in keys.items()
        ]
        return [change for change in changes if change.is_repeated]

    def once(self) -> tuple[int, int]:
        """Return the instructions of all calls that are made seldom, of start and exit."""
        changes = self.changes
        sums = []
        for side, run in enumerate((self.first, self.second)):
            every = sum(row.kernel for row in run.about.rows)
            sums.append(every - sum(change.kernel[side] for change in changes))
        return sums[0], sums[1]

    @property
    def untold(self) -> str:
        """Return why the two cannot be compared; empty where they can."""
        one, two = self.first.about, self.second.about
        for what in ("qemu", "cpu", "machine"):
            pair = getattr(one.environment, what), getattr(two.environment, what)
            if pair[0] != pair[1]:
                return f"the runs are of two machines ({what}: {pair[0]}, {pair[1]})"
        for name in ("warm", "windows"):
            if bool(getattr(one, name)) != bool(getattr(two, name)):
                return f"only one of the runs is with {name.rstrip('s')}"
        return ""

    @property
    def beyond(self) -> list[tuple[CallChange, list[str]]]:
        told = ((change, change.reasons(self.tolerance)) for change in self.changes)
        return [(change, why) for change, why in told if why]

    @property
    def status(self) -> int:
        if self.untold:
            return UNTOLD
        return BEYOND if self.beyond or grew(*self.once(), self.tolerance) else WITHIN


def is_steady(row: CallRow) -> bool:
    """Return whether calls are made often, and most of them cost the same to the digit."""
    return row.calls >= MANY_CALLS and row.identical >= STEADY_SHARE * row.calls


def grew(before: int, after: int, tolerance: float) -> bool:
    return after > before * (1 + tolerance / 100)


def text(diff: BenchDiff) -> str:
    """Return what is printed: the calls that differ, and the verdict."""
    if diff.untold:
        return f"It cannot be told: {diff.untold}.\n"
    changes = diff.changes
    beyond = {change.name: why for change, why in diff.beyond}
    differ = [change for change in changes if not change.is_equal or change.name in beyond]
    lines = [f"Against {diff.first.folder}:"]
    for change in sorted(differ, key=lambda c: c.kernel[0] - c.kernel[1]):
        before, after = change.calls
        usual = ", ".join(f"{a:,} -> {b:,}" for a, b in change.usual() if a != b) or "the same"
        kernel = "{:,} -> {:,}".format(*change.kernel)
        why = f": {' and '.join(beyond[change.name])}" if change.name in beyond else ""
        lines.append(
            f"  {change.name}: calls {before:,} -> {after:,}, usual {usual}, all {kernel}{why}"
        )
    equal = len(changes) - len(differ)
    lines.append(
        f"  {counted(equal, 'other call')} made {MANY_CALLS} times or more: equal to the digit"
    )
    once = diff.once()
    lines.append("  what runs once, start and exit: {:,} -> {:,}".format(*once))
    if diff.status == WITHIN:
        lines.append("PASS: nothing is called more often or costs more.")
    else:
        what = counted(len(beyond), "call") if beyond else "what runs once"
        lines.append(f"FAIL: {what} beyond (tolerance of sums: {diff.tolerance:g} %).")
    return "\n".join(lines) + "\n"
