# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of unprobed cells on the host, and their ratios."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.counts.ledger import FIRST_TRANSPORTS, all_conditions, order
from analysis.counts.quantities import SAMPLED
from analysis.intervals import interval
from analysis.times.iterations import Iterations, Key
from analysis.times.modes import Modality, modality

ITERATION, ROUND_TRIP = {"selfloop": "message", "stream": "send"}, "round trip"
# In a stream the time of a send says when there was room, not what a message costs.
BY_THROUGHPUT = ("stream", "asyncio-stream", "uvloop-stream")
QUANTITIES = ("rtt_ns", *SAMPLED.values(), "messages_per_s", "tcp_segments", "reads")


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest over repeats."""

    value: float
    low: float
    high: float
    repeats: int


@dataclass(frozen=True)
class Latency:
    """One transport in one timing. p50 and p99 of an iteration, in nanoseconds."""

    transport: str
    kernel: str
    p50: Spread | None
    p99: Spread | None
    messages_per_s: Spread | None
    per_segment: Spread | None  # messages in a TCP segment with payload, by TCP_INFO
    per_read: Spread | None  # messages for each receiving call
    modality: Modality | None  # None: too few iterations to tell


@dataclass(frozen=True)
class Ratio:
    """How many times as long as over `than` it takes over `transport`: both are in the timing."""

    transport: Latency
    than: Latency
    value: float
    low: float | None
    high: float | None
    repeats: int

    @property
    def both(self) -> tuple[Latency, Latency]:
        return self.than, self.transport


@dataclass(frozen=True)
class Timing:
    """The times of one pattern, size and placement; `placement` with the way of waiting and all."""

    pattern: str
    size: int
    placement: str
    latencies: tuple[Latency, ...]
    ratios: tuple[Ratio, ...]  # of each transport to the first

    @property
    def iteration(self) -> str:
        return ITERATION.get(self.pattern, ROUND_TRIP)


def build_timings(
    tidy: pd.DataFrame, iterations: Mapping[Key, Sequence[Iterations]]
) -> tuple[Timing, ...]:
    """Latency, throughput and ratios of every timing that has valid, unprobed times."""
    times = tidy[tidy["valid"] & ~tidy["probed"] & (tidy["target"] == "host")]
    times = times[times["quantity"].isin(QUANTITIES)]
    return tuple(
        _timing(_of(times, *where), where, iterations)
        for where in all_conditions(times[~times["quantity"].isin(["tcp_segments", "reads"])])
    )


def _of(rows: pd.DataFrame, pattern: str, size: int, placement: str) -> pd.DataFrame:
    wanted = (rows["pattern"] == pattern) & (rows["size"] == size)
    return rows[wanted & (rows["placement"] == placement)]


def _timing(
    times: pd.DataFrame, where: tuple[str, int, str], iterations: Mapping[Key, Sequence[Iterations]]
) -> Timing:
    names = sorted({str(name) for name in times["transport"]}, key=_transport_order)
    latencies = tuple(
        _latency(
            times[times["transport"] == name], name, where[0], iterations.get((*where, name), ())
        )
        for name in names
    )
    by_repeat = iteration_times(times, where[0])
    measured = [one for one in latencies if one.transport in by_repeat.columns]
    ratios = (_ratio(by_repeat, one, measured[0]) for one in measured[1:])
    return Timing(*where, latencies, tuple(one for one in ratios if one))


def iteration_times(times: pd.DataFrame, pattern: str) -> pd.DataFrame:
    """What is compared: nanoseconds, a row for each repeat and a column for each transport."""
    if pattern in BY_THROUGHPUT:
        rows = times[times["quantity"] == "messages_per_s"]
        rows = rows.assign(value=1e9 / rows["value"])
    else:
        rows = times[times["quantity"] == SAMPLED.get(pattern, "rtt_ns")]
        rows = rows[rows["key"] == "p50"]
    return rows.pivot_table(index="repeat", columns="transport", values="value")


def _transport_order(name: str) -> tuple[int, str]:
    return order(name, FIRST_TRANSPORTS)


def _latency(
    rows: pd.DataFrame, transport: str, pattern: str, iterations: Sequence[Iterations]
) -> Latency:
    iteration = SAMPLED.get(pattern, "rtt_ns")
    return Latency(
        transport,
        str(rows["kernel"].iloc[0]),
        _spread(rows, iteration, "p50"),
        _spread(rows, iteration, "p99"),
        _spread(rows, "messages_per_s", ""),
        _messages_per(rows, "tcp_segments"),
        _messages_per(rows, "reads"),
        modality([one.times for one in iterations]),
    )


def _messages_per(rows: pd.DataFrame, quantity: str) -> Spread | None:
    """How many messages one of them carried; None where it was not counted or there was none."""
    counted = rows[(rows["quantity"] == quantity) & (rows["value"] > 0)]
    return _over_repeats(counted["messages"] / counted["value"])


def _spread(rows: pd.DataFrame, quantity: str, key: str) -> Spread | None:
    return _over_repeats(rows[(rows["quantity"] == quantity) & (rows["key"] == key)]["value"])


def _over_repeats(values: "pd.Series[float]") -> Spread | None:
    if values.empty:
        return None
    return Spread(float(values.median()), float(values.min()), float(values.max()), len(values))


def _ratio(by_repeat: pd.DataFrame, one: Latency, than: Latency) -> Ratio | None:
    """Repeats are interleaved, so each repeat's two medians met the same machine: pair them."""
    pairs = by_repeat[[one.transport, than.transport]].dropna()
    if pairs.empty:
        return None
    ratios = (pairs[one.transport] / pairs[than.transport]).to_numpy()
    low, high = interval(ratios)
    return Ratio(one, than, float(np.median(ratios)), low, high, len(ratios))
