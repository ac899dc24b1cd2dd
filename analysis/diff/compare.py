# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs compared: two kernels, two machines, or two settings.

What is compared was measured alike in both: the same pattern, size, placement and transport, by the
same instrument, in the same target, with or without probes. Kernels of one release are compared
with each other; where each run has one other kernel in a target, these two are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from analysis import loopback
from analysis.analyse import Analysis
from analysis.conditions import Workload
from analysis.counts.ledger import FIRST_PATTERNS, conditions_order, order, transport_order
from analysis.counts.measures import WORKLOAD, groups, measure_of, round_trips
from analysis.counts.quantities import TIMES, Measure
from analysis.paths.cells import ExactCell
from analysis.paths.changes import UNKNOWN_CALLER, ExactPair, Fates, fates, most_alike
from analysis.raw.run import Target
from analysis.statistics import Values, change
from analysis.wording import size_text

SAME, BEYOND, WITHIN, UNKNOWN = "same", "beyond the noise", "within the noise", "cannot be told"
CELL = (*WORKLOAD, "transport")
# What was measured, and last of all in which target and on which kernel of it.
Key = tuple[Any, ...]
Kernels = Mapping[str, Mapping[str, str]]  # target → kernel of the first run → the second's
Alone = list[tuple[str, Key]]
Measured = TypeVar("Measured")
same_conditions = attrgetter("after.size", "after.where", "after.sched")


@dataclass(frozen=True)
class Shift(Workload):
    """A measure in both runs: means over valid repeats, and what can be said of the change.

    `low` and `high` are the 95 % interval of the change of means, each run by itself; None where it
    was not needed or there are too few repeats.
    """

    measure: Measure
    transport: str
    instrument: str
    target: str
    probed: bool
    kernels: tuple[str, str]
    before: float
    after: float
    repeats: tuple[int, int]
    low: float | None
    high: float | None
    verdict: str

    @property
    def conditions_words(self) -> str:
        return f"{self.pattern} · {size_text(self.size)} · {self.conditions} · {self.transport}"

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def ratio(self) -> float | None:
        return self.after / self.before if self.before else None


def of_first_conditions(pairs: Sequence[ExactPair]) -> list[ExactPair]:
    """All transports of the first pair's size, placement and scheduling."""
    return [pair for pair in pairs if same_conditions(pair) == same_conditions(pairs[0])]


class Traced(NamedTuple):
    """What became of the functions that ftrace saw in a cell: called at least once a round trip."""

    words: str
    kernels: tuple[str, str]
    fates: Fates


@dataclass(frozen=True)
class Diff:
    """All that two runs have in common, and what differs around them."""

    before: Analysis
    after: Analysis
    shifts: tuple[Shift, ...]
    exact: tuple[ExactPair, ...]
    traced: tuple[Traced, ...]
    settings: tuple[tuple[str, str, str, str], ...]  # where, what, before, after
    alone: tuple[tuple[str, str], ...]  # what only one run has: which run, what

    def of(self, verdict: str) -> list[Shift]:
        return [shift for shift in self.shifts if shift.verdict == verdict]

    @property
    def names(self) -> tuple[str, str]:
        """What the two are called: by their folders where the runs' names are one."""
        runs = self.before.run, self.after.run
        first, second = (run.name for run in runs)
        return (first, second) if first != second else tuple(str(r.path) for r in runs)  # type: ignore[return-value]

    @property
    def tested(self) -> int:
        """How many changes an interval judged: one in twenty is beyond the noise by luck."""
        return sum(shift.low is not None for shift in self.shifts)


def compare(before: Analysis, after: Analysis) -> Diff:
    """Everything that both runs measured."""
    kernels = {
        target: pair_kernels(*(_kernels(run, target) for run in (before, after)))
        for target in ("host", "guest", "exact")
    }
    shifts, alone = _shifts(before.measured, after.measured, kernels)
    pairs, exact_alone = _exact_pairs(before, after, kernels)
    traced, settings = _traced(before, after, kernels), _settings(before, after, kernels)
    return Diff(
        before, after, shifts, pairs, tuple(traced), tuple(settings), (*alone, *exact_alone)
    )


def _kernels(analysis: Analysis, target: str) -> list[str]:
    return sorted({kernel for kind, kernel in analysis.folders if kind.startswith(target)})


def pair_kernels(before: list[str], after: list[str]) -> dict[str, str]:
    """Kernel of the first run → the one of the second that it is compared with."""
    pairs = {name: name for name in before if name in after}
    rest = [name for name in before if name not in pairs], [n for n in after if n not in pairs]
    if len(rest[0]) == len(rest[1]) == 1:
        pairs[rest[0][0]] = rest[1][0]
    return pairs


def _both(
    first: Mapping[Key, Measured], second: Mapping[Key, Measured], kernels: Kernels
) -> tuple[list[tuple[Key, str, Measured, Measured]], Alone]:
    """What both have: key, the second's kernel, either's; and which run has what alone."""
    wanted = {key: (*key[:-1], kernels[key[-2]].get(key[-1], "")) for key in first}
    found = [
        (key, other[-1], first[key], second[other])
        for key, other in wanted.items()
        if other in second
    ]
    met = set(wanted.values())
    alone = [("first", key) for key, other in wanted.items() if other not in second]
    return found, alone + [("second", key) for key in second if key not in met]


def _shifts(
    before: pd.DataFrame, after: pd.DataFrame, kernels: Kernels
) -> tuple[tuple[Shift, ...], list[tuple[str, str]]]:
    found, alone = _both(_values(before), _values(after), kernels)
    shifts = sorted(filter(None, (_shift(*both) for both in found)), key=_shift_order)
    words = dict.fromkeys((which, _conditions_words(key)) for which, key in alone)
    return tuple(shifts), list(words)


def _values(measured: pd.DataFrame) -> dict[Key, Values]:
    """By measure, conditions, instrument, target, probed, kernel; valid figures, exact apart"""
    rows = measured[measured["valid"].astype(bool) & (measured["instrument"] != "exact")]
    by = ("measure", *CELL, "instrument", "probed", "target", "kernel")
    return {key: group["value"].to_numpy(dtype=float) for key, group in groups(rows, *by)}


def _conditions_words(key: Key) -> str:
    _, pattern, size, conditions, transport, *_, target, kernel = key
    return f"{pattern}, {size} B, {conditions}, {transport} ({target} {kernel})"


def _shift(key: Key, other: str, a: Values, b: Values) -> Shift | None:
    measure_id, pattern, size, conditions, transport, instrument, probed, target, kernel = key
    measure = measure_of(measure_id)
    if measure is None or measure.again or (measure.quantity in TIMES and target != "host"):
        return None  # said by another row, or a time of an emulated CPU
    return Shift(
        pattern, int(size), conditions, measure, transport, instrument, target, bool(probed),
        (kernel, other), float(a.mean()), float(b.mean()), (len(a), len(b)), *judge(a, b),
    )  # fmt: skip


def judge(a: Values, b: Values) -> tuple[float | None, float | None, str]:
    """Interval of the change of means, and the verdict.

    What came out as one figure in every repeat of both runs has no noise: it is the same or it is
    not. Else the interval decides, from statistics.LEAST_REPEATS repeats of each run up.
    """
    if np.ptp(a) == np.ptp(b) == 0:
        if a[0] == b[0]:
            return None, None, SAME
        if min(len(a), len(b)) > 1:
            return None, None, BEYOND
    found = change(a, b)
    if found.low is None:
        return None, None, UNKNOWN
    return found.low, found.high, WITHIN if found.spans(0) else BEYOND


def _shift_order(shift: Shift) -> tuple[object, ...]:
    where = _cell_order((shift.pattern, shift.size, shift.conditions, shift.transport))
    return *where, shift.target, shift.instrument, shift.probed, shift.kernels


def _cell_order(key: Key) -> tuple[object, ...]:
    """By pattern, size, placement and transport as everywhere, then by what follows."""
    pattern, size, conditions, transport, *rest = key
    where = order(pattern, FIRST_PATTERNS), size, conditions_order(conditions)
    return *where, transport_order(transport), *rest


def _traced(before: Analysis, after: Analysis, kernels: Kernels) -> Iterator[Traced]:
    found, _ = _both(_hit(before.tables.tidy), _hit(after.tables.tidy), kernels)
    for key, other, first, second in sorted(found, key=lambda both: _cell_order(both[0])):
        pattern, size, conditions, transport, target, kernel = key
        words = f"{pattern} · {size_text(int(size))} · {conditions} · {transport} · {target}"
        yield Traced(words, (kernel, other), fates(first, second))


def _hit(tidy: pd.DataFrame) -> dict[Key, dict[str, dict[str, float]]]:
    """Cell, target and kernel → function → calls a message; who calls is not known."""
    rows = tidy[tidy["valid"].astype(bool) & (tidy["instrument"] == "ftrace")]
    rows = rows[rows["value"] >= round_trips(rows)]
    rows = rows.assign(calls=(rows["value"] / rows["messages"]).round(2))
    return {
        key: {str(name): {UNKNOWN_CALLER: calls} for name, calls in medians.items()}
        for key, group in groups(rows, *CELL, "target", "kernel")
        for medians in (group.groupby("key")["calls"].median(),)
    }


def _exact_pairs(
    before: Analysis, after: Analysis, kernels: Kernels
) -> tuple[tuple[ExactPair, ...], list[tuple[str, str]]]:
    found, alone = _both(_exact_cells(before), _exact_cells(after), kernels)
    pairs = tuple(most_alike(first, second) for _, _, first, second in found)
    return pairs, [(which, _exact_words(*key)) for which, key in alone]


def _exact_cells(analysis: Analysis) -> dict[Key, ExactCell]:
    return {
        (cell.transport, cell.size, cell.where, cell.sched, "exact", cell.kernel): cell
        for comparison in analysis.exact
        for cell in comparison.cells
    }


def _exact_words(
    transport: str, size: int, where: str, scheduling: str, target: str, kernel: str
) -> str:
    return f"{target}, {transport}, {size} B, {where}, {scheduling} ({kernel})"


def _settings(
    before: Analysis, after: Analysis, kernels: Kernels
) -> Iterator[tuple[str, str, str, str]]:
    """What was asked for, and what the machines say of themselves, where that differs."""
    runs = before.run, after.run
    yield from _differing("asked for", *(run.manifest.options for run in runs))
    first, second = (
        {(target.kind, target.kernel): _environment(target) for target in run.targets}
        for run in runs
    )
    for (kind, _), _, *both in _both(first, second, kernels)[0]:
        yield from _differing(kind, *both)


def _environment(target: Target) -> dict[str, Any]:
    """Tools and settings among the rest."""
    environment = target.environment
    rest = environment.model_dump(exclude={loopback.KEY, "tools", "settings"})
    return {**loopback.words(target), **rest, **environment.tools, **environment.settings}


def _differing(
    where: str, first: dict[str, Any], second: dict[str, Any]
) -> Iterator[tuple[str, str, str, str]]:
    for name in sorted({*first, *second}):
        found = (values.get(name) for values in (first, second))
        values = tuple("absent" if value is None else str(value) for value in found)
        if values[0] != values[1]:
            yield where, name, values[0], values[1]
