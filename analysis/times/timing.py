# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of unprobed cells on the host, their ratios, and what disturbed them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from analysis.counts.ledger import all_conditions, in_conditions, transport_order
from analysis.counts.measures import SAMPLED, Workload
from analysis.raw.cells import Cell
from analysis.raw.files import read_samples
from analysis.raw.run import Run, Target
from analysis.statistics import Estimate, Values, mean, quotient
from analysis.times.modes import Modality, modality
from analysis.wording import counted, listed, number

Key = tuple[str, int, str, str]  # pattern, size, conditions, transport
Iterations = Mapping[Key, Sequence[Values]]  # nanoseconds of each iteration, repeat by repeat

ROUND_TRIP = "round trip"
ITERATION = {"selfloop": "message", "stream": "send", "paced": "paced request"}
# In a stream the time of a send says when there was room, not what a message costs.
BY_THROUGHPUT = ("stream", "asyncio-stream", "uvloop-stream")
QUANTITIES = ("rtt_ns", *SAMPLED.values(), "messages_per_s", "tcp_segments", "reads")


@dataclass(frozen=True)
class Latency:
    """A transport's times under one set of conditions: means over repeats.

    p50 and p99 are of the iterations of each cell run, in ns; the runs of one repeat count once.
    """

    transport: str
    kernel: str
    p50: Estimate | None
    p99: Estimate | None
    messages_per_s: Estimate | None
    per_segment: Estimate | None  # messages in a TCP segment with payload, by TCP_INFO
    per_read: Estimate | None  # messages for each receiving call
    modality: Modality | None  # None: too few iterations to tell


@dataclass(frozen=True)
class Ratio:
    """How many times as long `transport` takes as `than`, under the same conditions.

    `median` compares the p50 beside it; `all` the time of all iterations, slow ones included (the
    inverse of messages a second), None where nobody counted messages. In a stream both are that.
    """

    transport: Latency
    than: Latency
    median: Estimate
    all: Estimate | None


@dataclass(frozen=True)
class Times(Workload):
    """The times under one set of conditions."""

    latencies: tuple[Latency, ...]
    ratios: tuple[Ratio, ...]  # of each transport to the first

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
    times = tidy[tidy["valid"] & ~tidy["probed"] & (tidy["target"] == "host")]
    times = times[times["quantity"].isin(QUANTITIES)]
    results = []
    for workload in all_conditions(times[~times["quantity"].isin(["tcp_segments", "reads"])]):
        rows = in_conditions(times, workload)
        latencies = tuple(
            _latency(rows[rows["transport"] == name], iterations.get((*workload, name), ()))
            for name in sorted(set(rows["transport"]), key=transport_order)
        )
        medians, windows = iteration_times(rows, workload[0]), message_times(rows)
        measured = [latency for latency in latencies if latency.transport in medians.columns]
        ratios = (_ratio(medians, windows, latency, measured[0]) for latency in measured[1:])
        results.append(Times(*workload, latencies, tuple(filter(None, ratios))))
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


def _latency(rows: pd.DataFrame, iterations: Sequence[Values]) -> Latency:
    iteration = SAMPLED.get(str(rows["pattern"].iloc[0]), "rtt_ns")
    return Latency(
        str(rows["transport"].iloc[0]),
        str(rows["kernel"].iloc[0]),
        _estimate(rows, iteration, "p50"),
        _estimate(rows, iteration, "p99"),
        _estimate(rows, "messages_per_s", ""),
        _messages_per(rows, "tcp_segments"),
        _messages_per(rows, "reads"),
        modality(iterations),
    )


def _messages_per(rows: pd.DataFrame, quantity: str) -> Estimate | None:
    """How many messages each of them carried; None where they were not counted or were none."""
    counted = rows[(rows["quantity"] == quantity) & (rows["value"] > 0)]
    return _mean(counted["messages"] / counted["value"])


def _estimate(rows: pd.DataFrame, quantity: str, key: str) -> Estimate | None:
    chosen = rows[(rows["quantity"] == quantity) & (rows["key"] == key)]
    return _mean(chosen.groupby("repeat")["value"].mean())


def _mean(values: "pd.Series[float]") -> Estimate | None:
    """Of times and rates: where repeats lie far apart, Student's interval would go below zero."""
    if values.empty:
        return None
    estimate = mean(values.to_numpy())
    return estimate if estimate.low is None else replace(estimate, low=max(0.0, estimate.low))


def _ratio(
    medians: pd.DataFrame, windows: pd.DataFrame, latency: Latency, than: Latency
) -> Ratio | None:
    """Of the repeats in which both were measured: they are interleaved, and met one machine."""
    median, whole = (_quotient(table, latency, than) for table in (medians, windows))
    return Ratio(latency, than, median, whole) if median else None


def _quotient(table: pd.DataFrame, latency: Latency, than: Latency) -> Estimate | None:
    pairs = table.reindex(columns=[latency.transport, than.transport]).dropna()
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
    """A run's unprobed cell runs that give times: how many, and the disturbed ones."""

    timed: int
    recorded: int  # of `timed`, those whose machine was watched: none in an older run
    runs: tuple[tuple[Target, Cell, Shares], ...]

    @property
    def share(self) -> float | None:
        """Disturbed ones of those that were watched; None where none was."""
        return len(self.runs) / self.recorded if self.recorded else None

    @property
    def cells(self) -> set[tuple[str, int]]:
        """Folder and id of each disturbed cell run."""
        return {(target.folder, cell.id) for target, cell, _ in self.runs}

    def how_many(self) -> str:
        """`18 of 160 unprobed cell runs`."""
        return f"{len(self.runs)} of {counted(self.recorded, 'unprobed cell run')}"

    def sentence(self) -> str:
        """How many were disturbed, and by what; empty where a run has no times."""
        if not self.timed:
            return ""
        if self.share is None:
            return "Whether repeats were disturbed is not recorded in this run."
        shares = [shares for _, _, shares in self.runs]
        stolen = sum(each.stolen > MOST_STOLEN for each in shares)
        taken = sum(each.taken > MOST_TAKEN for each in shares)
        causes = {
            f"the hypervisor took more than {MOST_STOLEN * 100:.0f} % of a CPU in": stolen,
            f"other processes ran for more than {MOST_TAKEN * 100:.0f} % of the time in": taken,
        }
        words = listed([f"{words} {count}" for words, count in causes.items() if count])
        text = f"{self.how_many()} were disturbed ({number(self.share * 100)} %)"
        return f"{text}: {words}." if words else f"{text}."

    @property
    def many(self) -> bool:
        """Whether a reader must know it before any time."""
        return (self.share or 0) > MOST_DISTURBED


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
    timed = [
        (target, cell, shares_of(cell))
        for target in run.targets
        for cell in target.cells
        if target.timed and cell.result and not cell.probed
    ]
    watched = [(target, cell, shares) for target, cell, shares in timed if shares]
    disturbed = (each for each in watched if each[2].disturbed)
    return Disturbed(len(timed), len(watched), tuple(disturbed))
