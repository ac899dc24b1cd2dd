# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of unprobed cells on the host, their ratios, and what disturbed them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from analysis.counts.ledger import all_conditions, in_conditions, transport_order
from analysis.counts.measures import SAMPLED, Workload, of_times
from analysis.raw.cells import Cell
from analysis.raw.files import read_samples
from analysis.raw.run import Run, Target
from analysis.statistics import Estimate, Values, mean, quotient
from analysis.times.modes import Modality, modality
from analysis.wording import counted

Key = tuple[str, int, str, str]  # pattern, size, conditions, transport
Iterations = Mapping[Key, Sequence[Values]]  # nanoseconds of each iteration, repeat by repeat

ROUND_TRIP = "round trip"
ITERATION = {"selfloop": "message", "stream": "send", "paced": "paced request"}
# In a stream the time of a send says when there was room, not what a message costs.
BY_THROUGHPUT = ("stream", "asyncio-stream", "uvloop-stream")
QUANTITIES = ("rtt_ns", *SAMPLED.values(), "messages_per_s")


@dataclass(frozen=True)
class Times(Workload):
    """A transport's times under one set of conditions, as means over repeats.

    p50 and p99 are of the iterations of each cell run, in ns; the runs of one repeat count once.
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
        for target in run.targets
        for cell in (target.cells if target.timed else ())
        if cell.result and not cell.probed and (target.folder, cell.id) not in invalid
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
        for name in names:
            own = rows[rows["transport"] == name]
            # Repeats are interleaved: those that have both transports met one machine.
            ratio = _quotient(medians, name, than) if name != than else None
            results.append(Times(
                *workload, name, str(own["kernel"].iloc[0]),
                _estimate(own, sample, "p50"), _estimate(own, sample, "p99"),
                _estimate(own, "messages_per_s", ""),
                modality(iterations.get((*workload, name), ())),
                than, ratio, _quotient(windows, name, than) if ratio else None,
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
    """Of times and rates: where repeats lie far apart, Student's interval would go below zero."""
    chosen = rows[(rows["quantity"] == quantity) & (rows["key"] == key)]
    if chosen.empty:
        return None
    estimate = mean(chosen.groupby("repeat")["value"].mean().to_numpy())
    return estimate if estimate.low is None else replace(estimate, low=max(0.0, estimate.low))


def _quotient(table: pd.DataFrame, name: str, than: str) -> Estimate | None:
    pairs = table.reindex(columns=[name, than]).dropna()
    return None if pairs.empty else quotient(*pairs.to_numpy().T)


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
    def cells(self) -> set[tuple[str, int]]:
        """Folder and id of each disturbed cell run."""
        return {(target.folder, cell.id) for target, cell, _ in self.runs}

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
        for target in run.targets
        for cell in target.cells
        if target.timed and cell.result and not cell.probed and (shares := shares_of(cell))
    ]
    return Disturbed(len(watched), tuple(each for each in watched if each[2].disturbed))
