# SPDX-License-Identifier: GPL-2.0-or-later
"""What bcc's tools show of a message's way: parts of its latency, and stacks of wake-ups."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from analysis.conditions import KernelWorkload
from analysis.counts.ledger import transport_order
from analysis.counts.measures import WORKLOAD, groups
from analysis.counts.quantities import ELSEWHERE

PARTS = ("send-wakeup", "wakeup-running", "running-return", "send-return")
NOT_WOKEN = "not-woken"
SHOWN_WAYS = 4


@dataclass(frozen=True)
class PathPart:
    """A part of the way from send to receive: how often it was seen, and how long it took."""

    name: str
    count: int
    mean_ns: float
    slots: tuple[tuple[int, int], ...]  # (from so many ns, up to twice that; how many)


class PathLatency(NamedTuple):
    """The parts of one cell's messages; `not_woken`: whose reader was awake when they came."""

    where: str
    transport: str
    messages: int
    parts: tuple[PathPart, ...]
    not_woken: int


class Way(NamedTuple):
    """One stack out of which a process was woken, from the outermost function in."""

    functions: tuple[str, ...]
    elsewhere: bool
    per_round_trip: float


class Wakeups(NamedTuple):
    """The ways of one cell's wake-ups, the most travelled first."""

    where: str
    transport: str
    ways: tuple[Way, ...]
    others: int


def latencies(tidy: pd.DataFrame) -> tuple[PathLatency, ...]:
    """One for each cell that latency.py watched, by valid runs; times of a guest are in none."""
    rows = tidy[tidy["valid"] & tidy["quantity"].isin(("path_count", "path_ns", "path_latency"))]
    timed = rows[rows["quantity"] == "path_ns"]
    found = []
    for where, transport, group in _cells(rows[rows["cell"].isin(timed["cell"])]):
        if not (group["quantity"] == "path_ns").any():
            continue
        sums = group.groupby(["quantity", "key"])["value"].sum()
        messages = int(group.drop_duplicates("cell")["messages"].sum())
        parts = tuple(_part(name, sums) for name in PARTS)
        awake = int(sums.get(("path_count", NOT_WOKEN), 0))
        found.append(PathLatency(where, transport, messages, parts, awake))
    return tuple(found)


def _part(name: str, sums: "pd.Series[float]") -> PathPart:
    count = int(sums.get(("path_count", name), 0))
    total = float(sums.get(("path_ns", name), 0))
    values: dict[Any, float] = sums.to_dict()
    slots = [
        (int(key.rpartition(" ")[2]), int(value))
        for (quantity, key), value in values.items()
        if quantity == "path_latency" and key.startswith(f"{name} ")
    ]
    return PathPart(name, count, total / count if count else 0.0, tuple(sorted(slots)))


def wakeups(tidy: pd.DataFrame) -> tuple[Wakeups, ...]:
    """One for each cell that stacks.py watched, by valid runs."""
    found = []
    for where, transport, group in _cells(
        tidy[tidy["valid"] & (tidy["quantity"] == "wakeup_stacks")]
    ):
        round_trips = group.drop_duplicates("cell")["messages"].sum() / 2
        by_way = group.groupby("key")["value"].sum().sort_values(ascending=False)
        ways = tuple(
            Way(
                tuple(str(key).removesuffix(ELSEWHERE).split(";")),
                str(key).endswith(ELSEWHERE),
                float(count) / round_trips,
            )
            for key, count in by_way.head(SHOWN_WAYS).items()
        )
        found.append(Wakeups(where, transport, ways, max(0, len(by_way) - SHOWN_WAYS)))
    return tuple(found)


def _cells(rows: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """Kernel and conditions in words, transport, and the cell's rows, in reading order."""
    cells = groups(rows, *WORKLOAD, "target", "kernel", "transport")
    found = [(KernelWorkload(*key[:-1]).where, key[-1], group) for key, group in cells]
    return sorted(found, key=lambda cell: (cell[0], transport_order(cell[1])))
