# SPDX-License-Identifier: GPL-2.0-or-later
"""What a message's time is made of, by differences between cells that differ in one thing.

Four cells of one size: a thread that plays ping-pong with itself (the path alone), two processes on
one CPU (and a switch), on two CPUs (and a wake-up out of idle instead), and on two CPUs that never
sleep. Each is the median iteration over repeats, for one message: a round trip is two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from analysis.conditions import Conditions
from analysis.counts.ledger import transport_order
from analysis.intervals import Values, joint_interval
from analysis.times.timing import iteration_times

# Pattern and conditions, in the order of the waterfall. Each iteration is two messages.
CELLS = {
    "path": ("selfecho", "same-cpu"),
    "switch": ("pingpong", "same-cpu"),
    "wake-up": ("pingpong", "cross-cpu"),
    "sleep": ("pingpong", str(Conditions("cross-cpu", wait="spin"))),
}
MESSAGES = 2
PATH, SWITCH, WAKEUP, SLEEP = CELLS
# What the gap between two transports is divided into: all that a sleeping peer costs.
OF_GAP = (PATH, SWITCH, WAKEUP)
# Where TCP's ACKs travel alone in the one cell and on data in the other, the first is not the path
# of a ping-pong message. Told by segments sent for a message; more than this apart.
UNEVEN = 0.05


@dataclass(frozen=True)
class Part:
    """Nanoseconds for one message, with its 95 % interval where there are repeats enough."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Waterfall:
    """One transport. A step is the difference to the level before; steps up to one are its level.

    `missing`: the cells that the run lacks; then the steps that need them are not there.
    `segments`: TCP segments sent for a message in selfecho and in ping-pong, where they differ.
    """

    transport: str
    levels: dict[str, Part]
    steps: dict[str, Part]
    repeats: int
    missing: tuple[str, ...]
    segments: tuple[float, float] | None = None


@dataclass(frozen=True)
class Gap:
    """How much longer a message takes over `transport` than over `than` across CPUs, and in what.

    Negative where it is faster. `parts` are differences of steps; where the path of one of the two
    is not measured or not alike, the first is the whole message on one CPU.
    """

    transport: str
    than: str
    total: Part
    parts: dict[str, Part]
    shares: dict[str, Part]  # of the total: 1 is all of it
    repeats: int


@dataclass(frozen=True)
class Decomposition:
    """All waterfalls of one size."""

    size: int
    waterfalls: tuple[Waterfall, ...]
    gaps: tuple[Gap, ...]  # of each transport to the first


def decompose(tidy: pd.DataFrame) -> tuple[Decomposition, ...]:
    """Sizes for which a ping-pong on the host was timed, in order."""
    times = tidy[tidy["valid"] & ~tidy["probed"] & (tidy["target"] == "host")]
    sizes = times[(times["pattern"] == "pingpong") & (times["quantity"] == "rtt_ns")]["size"]
    return tuple(_size(times[times["size"] == size], int(size)) for size in sorted(set(sizes)))


def _size(times: pd.DataFrame, size: int) -> Decomposition:
    columns = {
        name: iteration_times(_cell(times, pattern, conditions), pattern) / MESSAGES
        for name, (pattern, conditions) in CELLS.items()
    }
    names = {str(name) for table in columns.values() for name in table.columns}
    tables = {
        name: pd.DataFrame({cell: table[name] for cell, table in columns.items() if name in table})
        for name in sorted(names, key=transport_order)
    }
    waterfalls = tuple(
        _waterfall(name, table.dropna(), _segments(times, name)) for name, table in tables.items()
    )
    gaps = (_gap(waterfall, waterfalls[0], tables) for waterfall in waterfalls[1:])
    return Decomposition(size, waterfalls, tuple(filter(None, gaps)))


def _cell(times: pd.DataFrame, pattern: str, conditions: str) -> pd.DataFrame:
    return times[(times["pattern"] == pattern) & (times["conditions"] == conditions)]


def _segments(times: pd.DataFrame, transport: str) -> tuple[float, float] | None:
    """Sent for a message in selfecho and in ping-pong on one CPU; None where they are as many."""
    rows = times[(times["transport"] == transport) & (times["instrument"] == "kernel")]
    rows = rows[(rows["quantity"] == "segments") & (rows["key"] == "out")]
    cells = [_cell(rows, *CELLS[name]) for name in (PATH, SWITCH)]
    if any(cell.empty for cell in cells):
        return None
    alone, answered = (float((cell["value"] / cell["messages"]).median()) for cell in cells)
    return (alone, answered) if abs(alone - answered) > UNEVEN else None


def _waterfall(
    transport: str, table: pd.DataFrame, segments: tuple[float, float] | None
) -> Waterfall:
    """`table`: a row for each repeat, a column for each cell that the run has, in order."""
    there = [name for name in CELLS if name in table.columns and not table.empty]
    missing = tuple(name for name in CELLS if name not in there)
    if not there:
        return Waterfall(transport, {}, {}, 0, missing, segments)
    columns = [table[name].to_numpy() for name in there]
    levels = _parts(lambda medians: medians, there, columns)
    # A step needs the level before it; the first one is its level.
    known = {PATH} | {name for before, name in pairwise(CELLS) if before in there}
    steps = _parts(_differences, there, columns)
    steps = {name: step for name, step in steps.items() if name in known}
    return Waterfall(transport, levels, steps, len(table), missing, segments)


def _differences(medians: Values) -> Values:
    """The first level as it is, then what each adds to the one before."""
    return np.diff(medians, axis=0, prepend=0)


def _gap(waterfall: Waterfall, than: Waterfall, tables: dict[str, pd.DataFrame]) -> Gap | None:
    both = (than, waterfall)
    path = all(PATH in each.levels and each.segments is None for each in both)
    cells = [name for name in OF_GAP if path or name != PATH]
    if not all(set(cells) <= set(each.levels) for each in both):
        return None
    whole = [tables[each.transport][cells].dropna() for each in both]
    repeats = whole[0].index.intersection(whole[1].index)
    if repeats.empty:
        return None
    columns = [table.loc[repeats, name].to_numpy() for table in whole for name in cells]
    count = len(cells)

    def steps(medians: Values) -> Values:
        return np.subtract(_differences(medians[count:]), _differences(medians[:count]))

    def total(medians: Values) -> Values:
        return np.asarray(steps(medians).sum(axis=0, keepdims=True))

    def shares(medians: Values) -> Values:
        gap = total(medians)
        return np.asarray(steps(medians) / np.where(gap == 0, np.nan, gap))

    whole_gap = _parts(total, ["total"], columns)["total"]
    parts, parted = _parts(steps, cells, columns), _parts(shares, cells, columns)
    return Gap(waterfall.transport, than.transport, whole_gap, parts, parted, len(repeats))


def _parts(
    figures: Callable[[Values], Values], names: Sequence[str], columns: Sequence[Values]
) -> dict[str, Part]:
    """Each figure of the medians of `columns` by its name."""
    values = figures(np.array([np.median(column) for column in columns]))
    found = joint_interval(figures, *columns)
    if found is None:
        parts = [Part(float(value), None, None) for value in values]
    else:
        parts = [Part(*map(float, part)) for part in zip(values, *found, strict=True)]
    return dict(zip(names, parts, strict=True))
