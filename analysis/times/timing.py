# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of unprobed cells on the host, and their ratios."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.counts.ledger import all_conditions, in_conditions, transport_order
from analysis.counts.quantities import SAMPLED, Workload
from analysis.raw.files import read_samples
from analysis.raw.run import Run
from analysis.statistics import Estimate, Values, mean, quotient
from analysis.times.modes import Modality, modality

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

    @property
    def both(self) -> tuple[Latency, Latency]:
        return self.than, self.transport


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
    found: dict[Key, list[Values]] = {}
    for key, target, cell in sorted(cells, key=lambda row: (row[0], row[2].repeat)):
        if len(times := read_samples(target, cell)):
            found.setdefault(key, []).append(times)
    return found


def build_timings(tidy: pd.DataFrame, iterations: Iterations) -> tuple[Times, ...]:
    """Latency, throughput and ratios under all conditions that have valid, unprobed times."""
    times = tidy[tidy["valid"] & ~tidy["probed"] & (tidy["target"] == "host")]
    times = times[times["quantity"].isin(QUANTITIES)]
    found = []
    for where in all_conditions(times[~times["quantity"].isin(["tcp_segments", "reads"])]):
        rows = in_conditions(times, where)
        latencies = tuple(
            _latency(rows[rows["transport"] == name], iterations.get((*where, name), ()))
            for name in sorted(set(rows["transport"]), key=transport_order)
        )
        medians, windows = iteration_times(rows, where[0]), message_times(rows)
        measured = [latency for latency in latencies if latency.transport in medians.columns]
        ratios = (_ratio(medians, windows, latency, measured[0]) for latency in measured[1:])
        found.append(Times(*where, latencies, tuple(filter(None, ratios))))
    return tuple(found)


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
    found = rows[(rows["quantity"] == quantity) & (rows["key"] == key)]
    return _mean(found.groupby("repeat")["value"].mean())


def _mean(values: "pd.Series[float]") -> Estimate | None:
    """Of times and rates: where repeats lie far apart, Student's interval would go below zero."""
    if values.empty:
        return None
    found = mean(values.to_numpy())
    return found if found.low is None else replace(found, low=max(0.0, found.low))


def _ratio(
    medians: pd.DataFrame, windows: pd.DataFrame, latency: Latency, than: Latency
) -> Ratio | None:
    """Of the repeats in which both were measured: they are interleaved, and met one machine."""
    median, whole = (_quotient(table, latency, than) for table in (medians, windows))
    return Ratio(latency, than, median, whole) if median else None


def _quotient(table: pd.DataFrame, latency: Latency, than: Latency) -> Estimate | None:
    pairs = table.reindex(columns=[latency.transport, than.transport]).dropna()
    return None if pairs.empty else quotient(*pairs.to_numpy().T)
