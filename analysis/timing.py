# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of unprobed cells on the host, and what probes cost."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.ledger import FIRST_PLACEMENTS, FIRST_TRANSPORTS, order, regimes
from analysis.measures import REGIME, round_trips
from analysis.quantities import ROUND_TRIP_PATTERNS

LEAST_REPEATS = 3  # below this a resampled interval says nothing
RESAMPLES = 9999
# lane, kernel, pattern, size, placement, transport, probes
Cell = tuple[Any, ...]


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest over repeats."""

    value: float
    low: float
    high: float
    repeats: int


@dataclass(frozen=True)
class Latency:
    """One transport in one regime."""

    transport: str
    kernel: str
    p50: Spread | None
    p99: Spread | None
    messages_per_s: Spread | None
    per_segment: Spread | None  # messages in a TCP segment with payload, by TCP_INFO
    per_read: Spread | None  # messages for each receiving call


@dataclass(frozen=True)
class Ratio:
    """How many times as long a round trip takes over `slow` as over `fast` (p50)."""

    slow: str
    fast: str
    value: float
    low: float | None
    high: float | None
    repeats: int
    regime: str = ""  # how messages were packed: a ratio means nothing without it


@dataclass(frozen=True)
class Regime:
    """The times of one pattern, size and placement."""

    pattern: str
    size: int
    placement: str
    latencies: tuple[Latency, ...]
    ratios: tuple[Ratio, ...]


@dataclass(frozen=True)
class ProbeCost:
    """A cell with and without a set of probes."""

    rtt_without: float | None
    rtt_with: float | None
    switches_without: float | None
    switches_with: float | None
    lane: str
    kernel: str
    pattern: str
    size: int
    placement: str
    transport: str
    probes: str


def build_regimes(tidy: pd.DataFrame) -> tuple[Regime, ...]:
    """Latency, throughput and ratios of every regime that has sound, unprobed times."""
    times = tidy[tidy["sound"] & ~tidy["probed"] & (tidy["lane"] == "host")]
    times = times[times["quantity"].isin(["rtt_ns", "messages_per_s", "tcp_segments", "reads"])]
    return tuple(
        _regime(_of(times, pattern, size, placement), pattern, size, placement)
        for pattern, size, placement in regimes(times)
    )


def _of(rows: pd.DataFrame, pattern: str, size: int, placement: str) -> pd.DataFrame:
    wanted = (rows["pattern"] == pattern) & (rows["size"] == size)
    return rows[wanted & (rows["placement"] == placement)]


def _regime(times: pd.DataFrame, pattern: str, size: int, placement: str) -> Regime:
    transports = sorted({str(t) for t in times["transport"]}, key=_transport_order)
    latencies = tuple(_latency(times[times["transport"] == name], name) for name in transports)
    p50 = times[(times["quantity"] == "rtt_ns") & (times["key"] == "p50")]
    by_repeat = p50.pivot_table(index="repeat", columns="transport", values="value")
    ratios = tuple(
        replace(_ratio(by_repeat, slow, fast), regime=_packing(latencies, (fast, slow)))
        for fast, slow in combinations([t for t in transports if t in by_repeat.columns], 2)
        if not by_repeat[[slow, fast]].dropna().empty
    )
    return Regime(pattern, size, placement, latencies, ratios)


def _transport_order(name: str) -> tuple[int, str]:
    return order(name, FIRST_TRANSPORTS)


def _latency(rows: pd.DataFrame, transport: str) -> Latency:
    return Latency(
        transport,
        str(rows["kernel"].iloc[0]),
        _spread(rows, "rtt_ns", "p50"),
        _spread(rows, "rtt_ns", "p99"),
        _spread(rows, "messages_per_s", ""),
        _messages_per(rows, "tcp_segments"),
        _messages_per(rows, "reads"),
    )


def _messages_per(rows: pd.DataFrame, quantity: str) -> Spread | None:
    """How many messages one of them carried; None where it was not counted or there was none."""
    counted = rows[(rows["quantity"] == quantity) & (rows["value"] > 0)]
    if counted.empty:
        return None
    values = counted["messages"] / counted["value"]
    return Spread(float(values.median()), float(values.min()), float(values.max()), len(values))


def _packing(latencies: tuple[Latency, ...], names: tuple[str, ...]) -> str:
    """`tcp 1.00 messages a segment; unix 1.00, tcp 1.00 messages a read`; empty where unknown."""
    chosen = [one for name in names for one in latencies if one.transport == name]
    said = []
    for what, figures in (
        ("segment", [(one.transport, one.per_segment) for one in chosen]),
        ("read", [(one.transport, one.per_read) for one in chosen]),
    ):
        known = [f"{name} {spread.value:.2f}" for name, spread in figures if spread]
        if known:
            said.append(f"{', '.join(known)} messages a {what}")
    return "; ".join(said)


def _spread(rows: pd.DataFrame, quantity: str, key: str) -> Spread | None:
    values = rows[(rows["quantity"] == quantity) & (rows["key"] == key)]["value"]
    if values.empty:
        return None
    return Spread(float(values.median()), float(values.min()), float(values.max()), len(values))


def _ratio(by_repeat: pd.DataFrame, slow: str, fast: str) -> Ratio:
    """Repeats are interleaved, so each repeat's two medians met the same machine: pair them."""
    pairs = by_repeat[[slow, fast]].dropna()
    ratios = (pairs[slow] / pairs[fast]).to_numpy()
    low, high = interval(ratios)
    return Ratio(slow, fast, float(np.median(ratios)), low, high, len(ratios))


def interval(values: npt.NDArray[np.float64]) -> tuple[float | None, float | None]:
    """The 95 % bootstrap interval (percentiles, fixed seed) of the median of a few values."""
    if len(values) < LEAST_REPEATS:
        return None, None
    draws = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    low, high = np.percentile(np.median(values[draws], axis=1), [2.5, 97.5])
    return float(low), float(high)


def probe_costs(
    tidy: pd.DataFrame,
    probes: Mapping[tuple[str, int], str],
    folders: Mapping[tuple[str, str], str],
) -> tuple[ProbeCost, ...]:
    """Each probed cell beside its unprobed twin; times on the host only.

    `probes` says what was attached by (folder, cell), `folders` the folder of (lane, kernel).
    """
    rows = tidy[tidy["sound"] & tidy["pattern"].isin(ROUND_TRIP_PATTERNS)]
    rows = rows.assign(
        probes=[
            probes[folders[lane, kernel], cell]
            for lane, kernel, cell in zip(rows["lane"], rows["kernel"], rows["cell"], strict=True)
        ]
    )
    keys = ["lane", "kernel", *REGIME, "transport", "probes"]
    rtt, switches = _median_rtt(rows, keys), _switches(rows, keys)
    found = []
    for cell in sorted(switches.keys() | rtt.keys(), key=_reading_order):
        bare = (*cell[:-1], "")
        if cell != bare:
            named = dict(zip(keys, cell, strict=True))
            times, counts = (rtt.get(bare), rtt.get(cell)), (switches.get(bare), switches.get(cell))
            found.append(ProbeCost(*times, *counts, **named))
    return tuple(found)


def _median_rtt(rows: pd.DataFrame, keys: list[str]) -> dict[Cell, float]:
    """p50, which the tail of a busy machine does not move; the median over repeats."""
    p50 = rows[(rows["quantity"] == "rtt_ns") & (rows["key"] == "p50")]
    return _by_cell(p50.groupby(keys)["value"].median())


def _switches(rows: pd.DataFrame, keys: list[str]) -> dict[Cell, float]:
    """The kernel's own count, both kinds, per round trip."""
    switches = rows[(rows["quantity"] == "switches") & (rows["instrument"] == "kernel")]
    switches = switches.assign(value=switches["value"] / round_trips(switches))
    each = switches.groupby([*keys, "repeat", "cell"])["value"].sum()
    return _by_cell(each.groupby(level=keys).median())


def _reading_order(cell: Cell) -> tuple[Any, ...]:
    lane, kernel, pattern, size, placement, transport, probes = cell
    where = (order(placement, FIRST_PLACEMENTS), order(transport, FIRST_TRANSPORTS))
    return (lane, kernel, pattern, size, probes, *where)


def _by_cell(figures: Any) -> dict[Cell, float]:
    return {cell: float(value) for cell, value in figures.items()}
