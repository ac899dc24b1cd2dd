# SPDX-License-Identifier: GPL-2.0-or-later
"""What bcc's tools show of a message's way: parts of its latency, and stacks of wake-ups."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.counts.ledger import FIRST_TRANSPORTS, order
from analysis.counts.measures import CONDITIONS
from analysis.counts.quantities import ELSEWHERE

PARTS = ("send-wakeup", "wakeup-running", "running-return", "send-return")
NOT_WOKEN = "not-woken"
CELL = ["target", "kernel", *CONDITIONS, "transport"]
SHOWN_WAYS = 4


@dataclass(frozen=True)
class Part:
    """A part of the way from send to receive: how often it was seen, and how long it took."""

    name: str
    count: int
    mean_ns: float
    slots: tuple[tuple[int, int], ...]  # (from so many ns, up to twice that; how many)


@dataclass(frozen=True)
class Latency:
    """The parts of one cell's messages; `not_woken`: whose reader was awake when they came."""

    where: str
    transport: str
    messages: int
    parts: tuple[Part, ...]
    not_woken: int


@dataclass(frozen=True)
class Way:
    """One stack out of which a process was woken, from the outermost function in."""

    functions: tuple[str, ...]
    elsewhere: bool
    per_round_trip: float


@dataclass(frozen=True)
class Wakeups:
    """The ways of one cell's wake-ups, the most travelled first."""

    where: str
    transport: str
    ways: tuple[Way, ...]
    others: int


def latencies(tidy: pd.DataFrame) -> tuple[Latency, ...]:
    """One of each cell that latency.py watched, by valid runs; times of a guest are in none."""
    rows = tidy[tidy["valid"] & tidy["quantity"].isin(("path_count", "path_ns", "path_latency"))]
    timed = rows[rows["quantity"] == "path_ns"]
    found = []
    for cell, group in rows[rows["cell"].isin(timed["cell"])].groupby(CELL, sort=True):
        where, transport = _names(cell)
        if group[group["quantity"] == "path_ns"].empty:
            continue
        sums = group.groupby(["quantity", "key"])["value"].sum()
        messages = int(group.drop_duplicates("cell")["messages"].sum())
        parts = tuple(_part(name, sums) for name in PARTS)
        awake = int(sums.get(("path_count", NOT_WOKEN), 0))
        found.append(Latency(where, transport, messages, parts, awake))
    return tuple(sorted(found, key=lambda one: (one.where, order(one.transport, FIRST_TRANSPORTS))))


def _part(name: str, sums: "pd.Series[float]") -> Part:
    count = int(sums.get(("path_count", name), 0))
    total = float(sums.get(("path_ns", name), 0))
    here = sums.index.get_level_values("quantity") == "path_latency"
    histogram = sums[here].droplevel("quantity")
    slots = [
        (int(str(key).rpartition(" ")[2]), int(value))
        for key, value in histogram.items()
        if str(key).startswith(f"{name} ")
    ]
    return Part(name, count, total / count if count else 0.0, tuple(sorted(slots)))


def wakeups(tidy: pd.DataFrame) -> tuple[Wakeups, ...]:
    """One of each cell that stacks.py watched, by valid runs."""
    rows = tidy[tidy["valid"] & (tidy["quantity"] == "wakeup_stacks")]
    return tuple(
        sorted(_wakeups(rows), key=lambda one: (one.where, order(one.transport, FIRST_TRANSPORTS)))
    )


def _wakeups(rows: pd.DataFrame) -> Iterator[Wakeups]:
    for cell, group in rows.groupby(CELL, sort=True):
        where, transport = _names(cell)
        round_trips = group.drop_duplicates("cell")["messages"].sum() / 2
        by_way = group.groupby("key")["value"].sum().sort_values(ascending=False)
        ways = [
            Way(
                tuple(str(key).removesuffix(ELSEWHERE).split(";")),
                str(key).endswith(ELSEWHERE),
                float(count) / round_trips,
            )
            for key, count in by_way.head(SHOWN_WAYS).items()
        ]
        yield Wakeups(where, transport, tuple(ways), max(0, len(by_way) - SHOWN_WAYS))


def _names(cell: Any) -> tuple[str, str]:
    target, kernel, pattern, size, placement, transport = cell
    return f"{target} {kernel} · {pattern} · {size} B · {placement}", str(transport)
