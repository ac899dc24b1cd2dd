# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of unprobed cells on the host: their ratios, what disturbed them, what they are made of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.counts.ledger import all_conditions, in_conditions, transport_order
from analysis.counts.measures import SAMPLED, Workload, of_times
from analysis.raw.cells import Cell
from analysis.raw.files import read_samples
from analysis.raw.run import Run, Target
from analysis.statistics import Estimate, Values, compared, estimates, mean
from analysis.times.modes import Modality, modality
from analysis.wording import amount, counted, number, place, size_text
from runners.cell import ONE_WAY

Key = tuple[str, int, str, str]  # pattern, size, conditions, transport
Iterations = Mapping[Key, Sequence[Values]]  # nanoseconds of each iteration, repeat by repeat

ROUND_TRIP = "round trip"
ITERATION = {"selfloop": "message", **dict.fromkeys(ONE_WAY, "send"), "paced": "paced request"}
# In a stream the time of a send says when there was room, not what a message costs.
BY_THROUGHPUT = (*ONE_WAY, "asyncio-stream", "uvloop-stream")
QUANTITIES = ("rtt_ns", *SAMPLED.values(), "messages_per_s")


@dataclass(frozen=True)
class Times(Workload):
    """A transport's times under one set of conditions, as means over repeats.

    p50 and p99 are of the iterations of each cell run, in ns; the runs of one repeat count once.
    p50 is of the repeats that count in the difference from `than`, that of `than` in the one from
    the next transport; in a stream, which is compared otherwise, of its own.
    The ratios say how many times as long it takes as `than`, the first transport: `ratio` by the
    p50; `ratio_all` by the time of all iterations, slow ones included (the inverse of messages a
    second), None where nobody counted messages. In a stream both are that.
    """

    transport: str
    kernel: str
    p50: Estimate | None
    p99: Estimate | None
    messages_per_s: Estimate | None
    modality: Modality | None  # None: too few iterations to tell
    than: str
    ratio: Estimate | None  # None of the first transport, and where no repeat has both
    ratio_all: Estimate | None

    @property
    def iteration(self) -> str:
        return ITERATION.get(self.pattern, ROUND_TRIP)


def read_iterations(run: Run, invalid: set[tuple[str, int]]) -> Iterations:
    """The raw times of the host's valid, unprobed cells. `invalid`: (folder, cell)."""
    cells = [
        ((cell.pattern, cell.size, str(cell.conditions), cell.transport), target, cell)
        for target, cell in run.cells()
        if target.timed and cell.result and not cell.probed
        if (target.folder, cell.id) not in invalid
    ]
    results: dict[Key, list[Values]] = {}
    for key, target, cell in sorted(cells, key=lambda row: (row[0], row[2].repeat)):
        if len(times := read_samples(target, cell)):
            results.setdefault(key, []).append(times)
    return results


def build_timings(tidy: pd.DataFrame, iterations: Iterations) -> tuple[Times, ...]:
    """Latency, throughput and ratios under all conditions that have valid, unprobed times."""
    times = of_times(tidy)
    times = times[times["quantity"].isin(QUANTITIES)]
    results = []
    for workload in all_conditions(times):
        rows = in_conditions(times, workload)
        medians, windows = iteration_times(rows, workload[0]), message_times(rows)
        names = sorted(set(rows["transport"]), key=transport_order)
        than = next((name for name in names if name in medians.columns), "")
        sample = SAMPLED.get(workload[0], "rtt_ns")
        # Repeats are interleaved: those that have both transports met one machine.
        others = ((name, _compared(medians, name, than)) for name in names if name != than)
        pairs = {name: pair for name, pair in others if pair}
        p50s = {name: second for name, (_, _, second, _) in pairs.items()}
        if pairs:
            p50s[than] = next(iter(pairs.values()))[1]
        for name in names:
            own = rows[rows["transport"] == name]
            p50 = None if workload[0] in BY_THROUGHPUT else p50s.get(name)
            ratio = pairs[name][-1] if name in pairs else None
            all_of_them = _compared(windows, name, than) if ratio else []
            results.append(Times(
                *workload, name, str(own["kernel"].iloc[0]),
                _above_zero(p50) if p50 else _estimate(own, sample, "p50"),
                _estimate(own, sample, "p99"), _estimate(own, "messages_per_s", ""),
                modality(iterations.get((*workload, name), ())),
                than, ratio, all_of_them[-1] if all_of_them else None,
            ))  # fmt: skip
    return tuple(results)


def iteration_times(times: pd.DataFrame, pattern: str) -> pd.DataFrame:
    """What is compared: nanoseconds, a row for each repeat and a column for each transport."""
    if pattern in BY_THROUGHPUT:
        return message_times(times)
    rows = times[times["quantity"] == SAMPLED.get(pattern, "rtt_ns")]
    rows = rows[rows["key"] == "p50"]
    return rows.pivot_table(index="repeat", columns="transport", values="value")


def message_times(times: pd.DataFrame) -> pd.DataFrame:
    """The whole window's nanoseconds for each message, in the same shape.

    How long a paced window takes is set, and no result: there it is the mean request.
    """
    rows = times[times["quantity"] == "messages_per_s"]
    rows = rows.assign(value=1e9 / rows["value"])
    means = times[(times["quantity"] == SAMPLED["paced"]) & (times["key"] == "mean")]
    rows = rows if means.empty else means
    return rows.pivot_table(index="repeat", columns="transport", values="value")


def _estimate(rows: pd.DataFrame, quantity: str, key: str) -> Estimate | None:
    chosen = rows[(rows["quantity"] == quantity) & (rows["key"] == key)]
    if chosen.empty:
        return None
    return _above_zero(mean(chosen.groupby("repeat")["value"].mean().to_numpy()))


def _above_zero(time: Estimate) -> Estimate:
    """Where repeats lie far apart, Student's interval would go below zero."""
    return time if time.low is None else replace(time, low=max(0.0, time.low))


def _compared(table: pd.DataFrame, name: str, than: str) -> list[Estimate]:
    """The difference, both and the ratio of the repeats that have both; empty without any."""
    pairs = table.reindex(columns=[than, name]).dropna()
    return [] if pairs.empty else compared(*pairs.to_numpy().T)


# Shares of a cell's wall time. What is stolen or taken prolongs iterations by as much on average;
# a smaller share is less than repeats of a quiet machine differ by.
MOST_STOLEN = 0.05  # by the hypervisor, on one measured CPU
MOST_TAKEN = 0.10  # by other processes, on the measured CPUs together
MOST_DISTURBED = 0.2  # of the cell runs: medians of a run with more are those of a busy machine
ENDS = 2  # of many CPUs a cell that is placed freely uses two at a time


# Was the machine busy with something else while a cell ran for its times? The limits are stated
# before any cell runs; docs/how-to-read-the-report.md has the measurement that they come from.
# A disturbed repeat is marked and stays in every figure.


class Shares(NamedTuple):
    """What was certainly taken from a cell, as shares of its wall time."""

    stolen: float
    taken: float

    @property
    def disturbed(self) -> bool:
        return self.stolen > MOST_STOLEN or self.taken > MOST_TAKEN


class Disturbed(NamedTuple):
    """A run's unprobed cell runs that give times: how many were watched, and the disturbed ones."""

    watched: int  # none in an older run
    runs: tuple[tuple[Target, Cell, Shares], ...]

    @property
    def many(self) -> bool:
        """Whether a reader must know it before any time."""
        return len(self.runs) > MOST_DISTURBED * self.watched

    def how_many(self) -> str:
        """`18 of 160 unprobed cell runs`."""
        return f"{len(self.runs)} of {counted(self.watched, 'unprobed cell run')}"

    def sentence(self) -> str:
        """How many were disturbed, and by what."""
        if not self.watched:
            return "Whether repeats were disturbed is not recorded in this run."
        return (
            f"{self.how_many()} were disturbed (the hypervisor took more than "
            f"{100 * MOST_STOLEN:.0f} % of a CPU, or other processes {100 * MOST_TAKEN:.0f} %)."
        )


def shares_of(cell: Cell) -> Shares | None:
    """None where it is not recorded. The kernel counts in steps: one of each CPU may be none."""
    if (record := cell.disturbance) is None:
        return None
    stolen = max(cpu.steal_ns for cpu in record.cpus.values()) - record.step_ns
    taken = record.others_ns - record.step_ns * len(record.cpus)
    met = min(1.0, ENDS / len(record.cpus))
    return Shares(max(0, stolen) / record.wall_ns, max(0, taken) / record.wall_ns * met)


def share_disturbed(run: Run) -> Disturbed:
    """The cell runs of the host that give times."""
    watched = [
        (target, cell, shares)
        for target, cell in run.cells()
        if target.timed and cell.result and not cell.probed and (shares := shares_of(cell))
    ]
    return Disturbed(len(watched), tuple(each for each in watched if each[2].disturbed))


# Placement → pattern and conditions of the cell that shows the stack alone, and of the whole.
CELLS = {
    "same-cpu": (("selfecho", "same-cpu"), ("pingpong", "same-cpu")),
    "cross-cpu": (("pingpong", "cross-cpu+spin"), ("pingpong", "cross-cpu")),
}
MESSAGES = 2
# Where TCP's ACKs travel alone in the one cell and on data in the other, the first is not the stack
# of a ping-pong message. Told by segments sent for a message; more than this apart.
UNEVEN = 0.05


@dataclass(frozen=True)
class Parts:
    """A message's nanoseconds over `transport`, or how much more they are than over `than`.

    `stack` and `rest` add up to `total`. They are absent where the cell of the stack is missing, or
    where it sends other `segments` a message than the whole cell does (stack's, whole's).
    """

    size: int
    placement: str
    transport: str
    than: str
    figures: dict[str, Estimate]  # total, stack, rest
    segments: tuple[float, float] | None = None


def decompose(tidy: pd.DataFrame) -> tuple[Parts, ...]:
    """By size and placement: each transport's parts, then those of its difference to the first.

    On one CPU a thread that plays ping-pong with itself has no one to switch to: its time is the
    stack's. Across CPUs a pair that polls never sleeps: its time is the stack's and the way between
    two CPUs. What the usual pair takes longer is switching, or sleeping and waking. A cell's figure
    is the mean over repeats of the median iteration, for one message: a round trip is two.
    """
    times = of_times(tidy)
    sizes = times[(times["pattern"] == "pingpong") & (times["quantity"] == "rtt_ns")]["size"]
    return tuple(
        parts
        for size in sorted(set(sizes))
        for placement in CELLS
        for parts in _placement(times[times["size"] == size], int(size), placement)
    )


def _placement(times: pd.DataFrame, size: int, placement: str) -> Iterator[Parts]:
    stack, whole = (times[(times["pattern"] == pattern) & (times["conditions"] == conditions)]
                    for pattern, conditions in CELLS[placement])  # fmt: skip
    stacks, wholes = (iteration_times(cell, "pingpong") / MESSAGES for cell in (stack, whole))
    names = sorted(wholes.columns, key=transport_order)
    segments = {name: _segments(stack, whole, name) for name in names}
    tables = {
        name: pd.DataFrame({"total": wholes[name]} | (
            {"stack": stacks[name]} if name in stacks and not segments[name] else {}
        )).dropna()
        for name in names
    }  # fmt: skip
    known: dict[tuple[str, str], dict[str, Estimate]] = {}
    for name in names[1:] or names:
        pair = dict.fromkeys((names[0], name))
        known = _figures({each: tables[each] for each in pair}) | known
    order = [(name, "") for name in names] + [(name, names[0]) for name in names[1:]]
    for name, than in order:
        if figures := known.get((name, than)):
            yield Parts(size, placement, name, than, figures, segments[name])


def _figures(tables: Mapping[str, pd.DataFrame]) -> dict[tuple[str, str], dict[str, Estimate]]:
    """The parts of one or two transports and of their difference, all of the same repeats."""
    table = pd.concat(tables, axis=1).dropna(axis=1, how="all").dropna()  # a row for each repeat
    unit = pd.DataFrame(np.eye(len(table.columns)), columns=table.columns)
    rows = {(name, ""): dict[Any, Any](unit[name].items()) for name in tables if len(table)}
    for parts in rows.values():
        if "stack" in parts:
            parts["rest"] = parts["total"] - parts["stack"]
    if len(rows) > 1:
        (than, first), (name, second) = ((key[0], parts) for key, parts in rows.items())
        more = {part: second[part] - first[part] for part in second if part in first}
        rows = {(name, than): more} | rows  # the difference decides which repeats count
    weights = np.array([row for parts in rows.values() for row in parts.values()])
    values = iter(estimates(lambda means: weights @ means, *table.to_numpy().T) if rows else ())
    return {key: {part: next(values) for part in parts} for key, parts in rows.items()}


def _segments(stack: pd.DataFrame, whole: pd.DataFrame, name: str) -> tuple[float, float] | None:
    """Sent for a message in the two cells; None where they are as many."""
    counted = []
    for cell in (stack, whole):
        rows = cell[(cell["transport"] == name) & (cell["instrument"] == "kernel")]
        rows = rows[(rows["quantity"] == "segments") & (rows["key"] == "out")]
        counted.append(float((rows["value"] / rows["messages"]).median()))
    return (counted[0], counted[1]) if abs(counted[0] - counted[1]) > UNEVEN else None


# What the stack's cell is, and what the whole cell has besides, by placement.
STACK_OF = {
    "same-cpu": "one thread that holds both ends and answers itself (selfecho)",
    "cross-cpu": "two processes on two CPUs that poll and never sleep",
}
REST = {"same-cpu": "switching between the processes", "cross-cpu": "sleeping and waking"}


def part_text(part: Estimate) -> str:
    """`2.51 µs (2.40 to 2.60)`: the ends without a unit where it is the same."""
    value = amount(part.value, "ns")
    if part.low is None or part.high is None:
        return value
    ends = [amount(part.low, "ns"), amount(part.high, "ns")]
    unit = value.rpartition(" ")[2]
    if all(end.endswith(f" {unit}") for end in ends):
        ends = [end.removesuffix(f" {unit}") for end in ends]
    return f"{value} ({ends[0]} to {ends[1]})"


def uneven(parts: Parts) -> str:
    """Why the stack's cell is not the stack of a ping-pong message; empty where it is."""
    if not parts.segments:
        return ""
    stack, whole = map(number, parts.segments)
    return (
        f"Over {parts.transport}, {place(parts.placement)}, the cell of the stack sends {stack} "
        f"segments a message and ping-pong {whole}: ACKs travel alone in one of them. So it is not "
        "the stack of a ping-pong message, and the time is not divided."
    )


def lacking(parts: Parts) -> str:
    """Which cell the division lacks, and the command that gives it; empty where it lacks none."""
    if "stack" in parts.figures or parts.segments:
        return ""
    pattern, conditions = CELLS[parts.placement][0]
    return (
        f"There is no {pattern} {conditions} of {size_text(parts.size)} over {parts.transport}: "
        f"--transports {parts.transport} --sizes {parts.size} --patterns pingpong,selfecho --wait "
        "block,spin gives all cells."
    )
