# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs compared: two kernels, two machines, or two settings.

What is compared was measured alike in both: the same pattern, size, placement and transport, by the
same instrument, in the same target, with or without probes. Kernels of one release are compared
with each other; where each run has one other kernel in a target, these two are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import loopback
from analysis.analyse import Analysis
from analysis.counts.ledger import FIRST_PATTERNS, FIRST_TRANSPORTS, conditions_order, order
from analysis.counts.measures import measure_of, round_trips
from analysis.counts.quantities import TIMES, Measure
from analysis.diff.renames import UNKNOWN_CALLER, Fates, callers, fates
from analysis.exact.cells import ExactCell, scheduling_text
from analysis.exact.knobs import Change, most_alike
from analysis.intervals import Values, change
from analysis.raw.run import Target
from analysis.wording import size_text

SAME, BEYOND, WITHIN, UNKNOWN = "same", "beyond the noise", "within the noise", "cannot be told"
WORKLOAD = ("pattern", "size", "conditions", "transport")


@dataclass(frozen=True)
class Shift:
    """A measure in both runs: means over valid repeats, and what can be said of the change.

    `low` and `high` are the 95 % interval of the change of means, each run by itself; None where it
    was not needed or there are too few repeats.
    """

    measure: Measure
    pattern: str
    size: int
    conditions: str
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


@dataclass(frozen=True)
class ExactPair(Change):
    """An exact cell in both runs: the most alike of their variants (analysis/exact/knobs.py)."""

    @property
    def more(self) -> int:
        """Instructions that a round trip takes more in the second run."""
        return self.after.total - self.before.total

    @property
    def words(self) -> str:
        return (
            f"{self.after.transport}, {size_text(self.after.size)}, {self.after.placement}, "
            f"{scheduling_text(self.after.scheduling)}"
        )

    def fates(self) -> Fates:
        """Functions that only one of the two round trips calls."""
        return fates(callers(self.before), callers(self.after))


def of_first_conditions(pairs: Sequence[ExactPair]) -> list[ExactPair]:
    """All transports of the first pair's size, placement and scheduling."""
    cells = [pair.after for pair in pairs]
    keys = [(cell.size, cell.placement, cell.scheduling) for cell in cells]
    return [pair for pair, key in zip(pairs, keys, strict=True) if key == keys[0]]


@dataclass(frozen=True)
class Traced:
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
        """How many changes were put to the bootstrap: one in twenty is beyond the noise by luck."""
        return sum(shift.low is not None for shift in self.shifts)


def compare(before: Analysis, after: Analysis) -> Diff:
    """Everything that both runs measured."""
    kernels = {
        target: pair_kernels(_kernels(before, target), _kernels(after, target))
        for target in ("host", "guest", "exact")
    }
    shifts, alone = _shifts(before.measured, after.measured, kernels)
    pairs, exact_alone = _exact_pairs(before, after, kernels["exact"])
    traced, settings = _traced(before, after, kernels), _settings(before, after, kernels)
    alone += exact_alone
    return Diff(before, after, shifts, pairs, traced, tuple(settings), tuple(alone))


def _kernels(one: Analysis, target: str) -> list[str]:
    if target == "exact":
        return sorted({cell.kernel for c in one.exact for cell in c.cells})
    return sorted({each.kernel for each in one.run.targets if each.kind == target})


def pair_kernels(before: list[str], after: list[str]) -> dict[str, str]:
    """Kernel of the first run → the one of the second that it is compared with."""
    pairs = {name: name for name in before if name in after}
    rest = [name for name in before if name not in pairs], [n for n in after if n not in pairs]
    if len(rest[0]) == len(rest[1]) == 1:
        pairs[rest[0][0]] = rest[1][0]
    return pairs


def _shifts(
    before: pd.DataFrame, after: pd.DataFrame, kernels: dict[str, dict[str, str]]
) -> tuple[tuple[Shift, ...], list[tuple[str, str]]]:
    groups = [_groups(table) for table in (before, after)]
    wanted: dict[Any, Any] = {
        key: (*key[:-1], kernels.get(key[-2], {}).get(key[-1], "")) for key in groups[0]
    }
    found = [
        shift
        for key, other in wanted.items()
        if other in groups[1] and (shift := _shift(key, other, groups[0][key], groups[1][other]))
    ]
    met = set(wanted.values())
    alone = [("first", key) for key, other in wanted.items() if other not in groups[1]]
    alone += [("second", key) for key in groups[1] if key not in met]
    words = dict.fromkeys((which, _conditions_words(key)) for which, key in alone)
    return tuple(sorted(found, key=_shift_order)), list(words)


def _groups(measured: pd.DataFrame) -> dict[Any, pd.DataFrame]:
    """By measure, conditions, instrument, target, probed, kernel; valid figures, exact apart"""
    rows = measured[measured["valid"].astype(bool) & (measured["instrument"] != "exact")]
    by = ["measure", *WORKLOAD, "instrument", "probed", "target", "kernel"]
    return dict(iter(rows.groupby(by, sort=True)))


def _conditions_words(key: Any) -> str:
    _, pattern, size, conditions, transport, *_, target, kernel = key
    return f"{pattern}, {size} B, {conditions}, {transport} ({target} {kernel})"


def _shift(key: Any, other: Any, first: pd.DataFrame, second: pd.DataFrame) -> Shift | None:
    measure_id, pattern, size, conditions, transport, instrument, probed, target, kernel = key
    measure = measure_of(measure_id)
    if measure is None or measure.again or (measure.quantity in TIMES and target != "host"):
        return None  # said by another row, or a time of an emulated CPU
    a, b = (table["value"].to_numpy(dtype=float) for table in (first, second))
    low, high, verdict = judge(a, b)
    return Shift(
        measure, pattern, int(size), conditions, transport, instrument, target, bool(probed),
        (kernel, other[-1]), float(a.mean()), float(b.mean()), (len(a), len(b)),
        low, high, verdict,
    )  # fmt: skip


def judge(a: Values, b: Values) -> tuple[float | None, float | None, str]:
    """Interval of the change of means, and the verdict.

    What came out as one figure in every repeat of both runs has no noise: it is the same or it is
    not. Else the interval decides, from intervals.LEAST_REPEATS repeats of each run up.
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


def _shift_order(one: Shift) -> tuple[object, ...]:
    where = _cell_order((one.pattern, one.size, one.conditions, one.transport))
    return *where, one.target, one.instrument, one.probed, one.kernels


def _cell_order(key: Any) -> tuple[object, ...]:
    """By pattern, size, placement and transport as everywhere, then by what follows."""
    pattern, size, conditions, transport, *rest = key
    return (
        order(pattern, FIRST_PATTERNS), size, conditions_order(conditions),
        order(transport, FIRST_TRANSPORTS), *rest,
    )  # fmt: skip


def _traced(
    before: Analysis, after: Analysis, kernels: dict[str, dict[str, str]]
) -> tuple[Traced, ...]:
    first, second = (_hit(one.tables.tidy) for one in (before, after))
    found = []
    for key in sorted(first, key=_cell_order):
        pattern, size, conditions, transport, target, kernel = key
        other = kernels.get(target, {}).get(kernel, "")
        if now := second.get((*key[:-1], other)):
            words = f"{pattern} · {size_text(int(size))} · {conditions} · {transport} · {target}"
            found.append(Traced(words, (kernel, other), fates(first[key], now)))
    return tuple(found)


def _hit(tidy: pd.DataFrame) -> dict[Any, dict[str, dict[str, float]]]:
    """Cell, target and kernel → function → calls a message; who calls is not known."""
    rows = tidy[tidy["valid"].astype(bool) & (tidy["instrument"] == "ftrace")]
    rows = rows[rows["value"] >= round_trips(rows)]
    rows = rows.assign(calls=(rows["value"] / rows["messages"]).round(2))
    return {
        key: {str(name): {UNKNOWN_CALLER: calls} for name, calls in medians.items()}
        for key, group in rows.groupby([*WORKLOAD, "target", "kernel"], sort=True)
        for medians in (group.groupby("key")["calls"].median(),)
    }


def _exact_pairs(
    before: Analysis, after: Analysis, kernels: dict[str, str]
) -> tuple[tuple[ExactPair, ...], list[tuple[str, str]]]:
    first, second = (_exact_cells(one) for one in (before, after))
    wanted = [((kernels.get(key[0], ""), *key[1:]), cell) for key, cell in first.items()]
    changes = [most_alike(cell, second[key]) for key, cell in wanted if key in second]
    met = {key for key, _ in wanted}
    alone = [("first", _exact_words(cell)) for key, cell in wanted if key not in second]
    alone += [("second", _exact_words(cell)) for key, cell in second.items() if key not in met]
    return tuple(ExactPair(change.before, change.after) for change in changes), alone


def _exact_cells(one: Analysis) -> dict[tuple[Any, ...], ExactCell]:
    return {
        (cell.kernel, cell.transport, cell.size, cell.placement, cell.scheduling): cell
        for comparison in one.exact
        for cell in comparison.cells
    }


def _exact_words(cell: ExactCell) -> str:
    return (
        f"exact, {cell.transport}, {cell.size} B, {cell.placement}, {cell.scheduling} "
        f"({cell.kernel})"
    )


def _settings(
    before: Analysis, after: Analysis, kernels: dict[str, dict[str, str]]
) -> Iterator[tuple[str, str, str, str]]:
    """What was asked for, and what the machines say of themselves, where that differs."""
    yield from _differing("asked for", *(one.run.manifest.options for one in (before, after)))
    second = {(target.kind, target.kernel): target for target in after.run.targets}
    for target in before.run.targets:
        other = second.get((target.kind, kernels.get(target.kind, {}).get(target.kernel, "")))
        if other:
            yield from _differing(target.kind, *(_environment(one) for one in (target, other)))


def _environment(target: Target) -> dict[str, Any]:
    """Tools and settings among the rest."""
    environment = target.environment
    rest = environment.model_dump(exclude={loopback.KEY, "tools", "settings"})
    return {**loopback.words(target), **rest, **environment.tools, **environment.settings}


def _differing(
    where: str, first: dict[str, Any], second: dict[str, Any]
) -> Iterator[tuple[str, str, str, str]]:
    for name in sorted({*first, *second}):
        values = tuple(
            "absent" if (v := one.get(name)) is None else str(v) for one in (first, second)
        )
        if values[0] != values[1]:
            yield where, name, values[0], values[1]
