# SPDX-License-Identifier: GPL-2.0-or-later
"""The report's first screen, and the figures of measurements.csv that its sentences speak of."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from statistics import median
from typing import NamedTuple

from tests.audit.folder import Figures, Folder, Where
from tests.audit.workload import SAMPLES, TRIPS

TRANSPORTS = {"a Unix socket": "unix", "TCP": "tcp"}
PLACES = {"on one CPU": "same-cpu", "across two CPUs": "cross-cpu", "placed freely": "free"}
WAYS = {"spinning, never asleep": "spin", "SCHED_BATCH": "batch", "SCHED_FIFO": "fifo",
        "two one-way connections": "two", "epoll": "epoll"}  # fmt: skip
LEDGER = re.compile(
    r"^\*\*The ledger: (?P<pattern>\S+), (?P<size>[\d.]+) (?P<unit>B|KiB|MiB),", re.M
)
REQUESTS = "requests/s"  # heads the table that says whether the difference matters
TITLES = {"One CPU": "same-cpu", "Two CPUs": "cross-cpu",
          "Two CPUs, never asleep": "cross-cpu+spin"}  # fmt: skip
SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
ByRepeat = dict[int, float]


class Source(NamedTuple):
    """Who measured a figure."""

    instrument: str
    target: str
    kernel: str
    probed: bool


class Screen:
    """What stands above the report's verdicts, and what it must come from."""

    def __init__(self, folder: Folder, text: str) -> None:
        self.folder = folder
        self.figures, _ = folder.table()
        self.read(text)

    def read(self, text: str) -> None:
        """Take the sentences and the ledger of a report's text."""
        top = text.split("\n## Verdicts", 1)[0].replace("\\_", "_").replace("\\*", "*")
        found = LEDGER.search(top)
        if not found:
            raise ValueError("the report has no ledger on its first screen")
        self.pattern = found["pattern"]
        self.size = int(found["size"]) * SIZES[found["unit"]]
        self.size_text = f"{found['size']} {found['unit']}"
        said = top[: found.start()] + top[found.end() :].partition("\n")[2]
        blocks = [block.strip() for block in said.split("\n\n")[1:]]
        self.paragraphs = [block for block in blocks if not block.startswith("| ")]
        tables = [
            [[cell.strip() for cell in row.split("|")[1:-1]] for row in block.splitlines()]
            for block in blocks
            if block.startswith("| ")
        ]
        self.ledger = next((table for table in tables if table[0][0] != REQUESTS), [])
        self.matter = next((table for table in tables if table[0][0] == REQUESTS), [])

    @property
    def names(self) -> tuple[str, str]:
        """The first two transports of the ledger, which the decision compares."""
        names = [column.rpartition(", ")[2] for column in self.ledger[0] if ", " in column]
        first, second, *_ = dict.fromkeys(names)
        return first, second

    def select(self, **named: object) -> Figures:
        """The valid figures of the screen's size with these values in their columns."""
        named = {"size": self.size, **named}
        return {
            where: figure
            for where, figure in self.figures.items()
            if figure.valid and all(getattr(where, name) == v for name, v in named.items())
        }

    def times(self, transport: str, conditions: str, key: str, pattern: str = "") -> ByRepeat:
        """A percentile or the mean of unprobed cells on the host, by repeat, in nanoseconds."""
        pattern = pattern or self.pattern
        quantity = SAMPLES.get(pattern, "rtt_ns")
        return self._by_repeat(transport, conditions, pattern, quantity, key)

    def windows(self, transport: str, conditions: str) -> ByRepeat:
        """The whole window's nanoseconds for each message, by repeat."""
        rates = self._by_repeat(transport, conditions, self.pattern, "messages_per_s", "")
        return {repeat: 1e9 / rate for repeat, rate in rates.items()}

    def _by_repeat(
        self, transport: str, conditions: str, pattern: str, quantity: str, key: str
    ) -> ByRepeat:
        found = self.select(
            target="host", probed=False, transport=transport, conditions=conditions,
            pattern=pattern, quantity=quantity, key=key,
        )  # fmt: skip
        by_repeat: defaultdict[int, list[float]] = defaultdict(list)
        for where, figure in found.items():
            by_repeat[where.repeat].append(figure.value)  # a pass that was run again has two
        return {repeat: sum(values) / len(values) for repeat, values in by_repeat.items()}

    def cpu(self, transport: str, conditions: str) -> ByRepeat:
        """CPU time of both processes for a message, in user mode and in the kernel, by repeat."""
        found = self.select(
            target="host", probed=False, transport=transport, conditions=conditions,
            pattern=self.pattern, quantity="cpu_ns",
        )  # fmt: skip
        sums: ByRepeat = defaultdict(float)
        for where, figure in found.items():
            sums[where.repeat] += figure.value / figure.messages
        return sums

    def known(self) -> list[str]:
        """Kernels and versions of QEMU that the run names, also without a distribution's part."""
        entries = [*self.folder.manifest["targets"], *self.folder.manifest.get("exact", [])]
        names = [entry["kernel"] for entry in entries]
        for path in self.folder.raw.glob("exact-*/environment.json"):
            names.append(json.loads(path.read_text(encoding="utf-8"))["qemu"])
        return names + [found[0] for name in names if (found := re.match(r"[\d.]+\d", name))]


Cell = list[tuple[Where, float, int]]  # a cell's rows, from one source
INSTRUCTIONS = "instructions, kernel and user"
# Measure → quantity, its keys (none: all of the processes' own), and per what it is told.
MEASURES = {
    "copies of each payload byte": ("copy_bytes", ("in", "out", "kernel"), "byte"),
    "socket buffers (skbs) allocated": ("skb_allocs", ("",), "message"),
    "system calls": ("syscalls", (), "message"),
    "packets through the loopback device": ("lo_packets", ("",), "message"),
    "receive softirqs (NET_RX)": ("softirqs", ("NET_RX",), "message"),
    "wake-ups": ("wakeups", (), "trip"),
    "wake-ups that found nothing to read": ("spurious_wakeups", (), "trip"),
    "context switches": ("switches", ("voluntary", "involuntary"), "trip"),
    INSTRUCTIONS: ("instructions", ("total",), "message"),
    "… share of iterations identical to this one": ("steady_share", ("",), "window"),
    "… mean over all iterations, timer ticks included": ("instructions", ("window",), "message"),
    "… in steps: each repetition of a string instruction": ("steps", ("total",), "message"),
}
# Of functions that are called at least once a round trip: how many, and how often for a message.
HIT, CALLS = "kernel functions hit", "calls of these functions"


def measured(measure: str, cell: Cell) -> float | None:
    """A measure of one cell run by one source; None where it was not counted."""
    where, _, messages = cell[0]
    if measure in (HIT, CALLS):
        calls = [value for w, value, _ in cell if w.quantity == "function_calls"]
        often = [value for value in calls if value >= messages / 2]
        if where.instrument not in ("exact", "ftrace") or where.pattern not in TRIPS:
            return None
        return len(often) if measure == HIT else sum(often) / messages
    quantity, keys, per = MEASURES[measure]
    rows = [row for row in cell if row[0].quantity == quantity]
    rows = [row for row in rows if _own(row[0].key, keys)]
    if not rows or (keys and len(rows) != len(keys)):
        return None
    # An exact cell's copies and its mean are of other windows than its round trip.
    (where, _, messages), total = rows[0], sum(value for _, value, _ in rows)
    if per == "window":
        return total
    if per == "trip":
        return total / (messages / 2) if where.pattern in TRIPS else None
    return total / messages if per == "message" else total / (messages * where.size)


@cache
def counts(screen: Screen, measure: str, transport: str) -> dict[Source, dict[str, list[float]]]:
    """Source → conditions → the measure of each repeat, in the screen's pattern."""
    cells: dict[tuple[Source, str, int, int], Cell] = defaultdict(list)
    found = screen.select(pattern=screen.pattern, transport=transport)
    for where, figure in found.items():
        target, ways = where.target, where.conditions
        if target == "exact":  # the ledger names its scheduler as the source
            target = f"exact-{'fifo' if ways.endswith('+fifo') else 'other'}"
            ways = ways.removesuffix("+fifo")
        source = Source(where.instrument, target, where.kernel, where.probed)
        cells[source, ways, where.repeat, where.cell].append((where, figure.value, figure.messages))
    values: dict[Source, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (source, conditions, _, _), cell in cells.items():
        if (value := measured(measure, cell)) is not None:
            values[source][conditions].append(value)
    return values


def _own(key: str, keys: tuple[str, ...]) -> bool:
    return key in keys if keys else not key.endswith(" elsewhere")


def spread(values: list[float]) -> tuple[float, float, float]:
    """Median, lowest and highest."""
    return median(values), min(values), max(values)


def conditions(place: str, ways: str | None) -> str:
    """`cross-cpu+spin` of `across two CPUs` and `spinning, never asleep`."""
    found = [word for text, word in WAYS.items() if ways and text in ways]
    return "+".join([PLACES[place.lower().replace("cpu", "CPU")], *found])
