# SPDX-License-Identifier: GPL-2.0-or-later
"""The atlas: all transports of a run side by side, on one CPU where the run has that."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analysis.counts.ledger import MOST_TOGETHER, Ledger
from analysis.times.timing import Ratio, Times


class Column(NamedTuple):
    """One column: the measures that it sums, its words and its unit."""

    id: str
    measures: tuple[str, ...]  # of a ledger; empty: a time
    words: str
    unit: str = ""


COLUMNS = (
    Column("instructions", ("instructions",), "instructions"),
    Column("copies", ("payload_copies",), "copies of each byte"),
    Column("syscalls", ("syscalls",), "system calls"),
    Column("wakeups", ("wakeups_per_message",), "wake-ups"),
    Column("switches", ("switches_per_message",), "context switches"),
    Column("cpu", ("cpu_user", "cpu_system"), "CPU time a message", "ns"),
    Column("p50", (), "round trip, median", "ns"),
    Column("p99", (), "round trip, p99", "ns"),
)
COUNTS = tuple(column for column in COLUMNS if column.measures and not column.unit)


@dataclass(frozen=True)
class Entry:
    """A transport's figures for a message of one size, by column; what was not measured lacks."""

    transport: str
    figures: dict[str, float]
    ratio: Ratio | None  # of its round trip to the first transport's


@dataclass(frozen=True)
class Atlas:
    """One size."""

    size: int
    conditions: str
    entries: tuple[Entry, ...]
    sources: dict[str, tuple[str, ...]]  # column → where its figures come from
    kernels: dict[str, dict[str, float]]  # kernel → transport → instructions a message

    @property
    def columns(self) -> list[Column]:
        """Those that some transport has a figure for."""
        measured = {name for entry in self.entries for name in entry.figures}
        return [column for column in COLUMNS if column.id in measured]

    def entry(self, transport: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.transport == transport), None)


def build_atlas(ledgers: Sequence[Ledger], timings: Sequence[Times]) -> tuple[Atlas, ...]:
    """One for each size of ping-pong, where a run has more transports than a ledger shows."""
    return tuple(
        _atlas(ledger, timings)
        for ledger in ledgers
        if ledger.pattern == "pingpong" and len(ledger.transports) > MOST_TOGETHER
    )


def _atlas(ledger: Ledger, timings: Sequence[Times]) -> Atlas:
    conditions = ledger.conditions[0]
    where = (ledger.pattern, ledger.size, conditions)
    times = next((t for t in timings if (t.pattern, t.size, t.conditions) == where), None)
    entries, sources = [], dict[str, dict[str, None]]()
    for transport in ledger.transports:
        figures = dict[str, float]()
        for name, value, source in _figures(ledger, conditions, transport, times):
            figures[name] = value
            sources.setdefault(name, {})[source] = None
        ratios = times.ratios if times else ()
        ratio = next((ratio for ratio in ratios if ratio.transport.transport == transport), None)
        if figures:
            entries.append(Entry(transport, figures, ratio))
    named = {name: tuple(found) for name, found in sources.items()}
    return Atlas(ledger.size, conditions, tuple(entries), named, _by_kernel(ledger, conditions))


def _figures(
    ledger: Ledger, conditions: str, transport: str, times: Times | None
) -> Iterator[tuple[str, float, str]]:
    """Column, value and source of each figure."""
    for column in COLUMNS:
        found = [_best(ledger, measure, (conditions, transport)) for measure in column.measures]
        if found and all(found):
            values, sources = zip(*filter(None, found), strict=True)
            yield column.id, sum(values), sources[0]
    for latency in times.latencies if times else ():
        if latency.transport == transport:
            for name, figure in (("p50", latency.p50), ("p99", latency.p99)):
                if figure:
                    yield name, figure.value, f"no probe attached · host · {latency.kernel}"


def _best(ledger: Ledger, measure: str, column: tuple[str, str]) -> tuple[float, str] | None:
    """The valid figure of the best source that has one."""
    for line in ledger.row(measure).lines:
        if (entry := line.entries.get(column)) and entry.valid:
            return entry.value, line.source
    return None


def _by_kernel(ledger: Ledger, conditions: str) -> dict[str, dict[str, float]]:
    """Of each kernel the best source's instructions."""
    found: dict[str, dict[str, float]] = {}
    for line in ledger.row("instructions").lines:
        of_kernel = found.setdefault(line.kernel, {})
        for (where, transport), entry in line.entries.items():
            if where == conditions and entry.valid:
                of_kernel.setdefault(transport, entry.value)
    return found


class Crossing(NamedTuple):
    """A transport that is faster than the first one up to a size, and slower from another on."""

    transport: str
    than: str
    faster: tuple[int, ...]  # the sizes at which the interval of the ratio lies below 1
    slower: tuple[int, ...]  # and above


def crossings(atlases: Sequence[Atlas]) -> list[Crossing]:
    """The transports for which the answer depends on the size."""
    found = []
    for transport in dict.fromkeys(entry.transport for atlas in atlases for entry in atlas.entries):
        faster, slower, than = list[int](), list[int](), ""
        for atlas in atlases:
            entry = atlas.entry(transport)
            if entry is None or entry.ratio is None or entry.ratio.median.spans(1):
                continue
            than = entry.ratio.than.transport
            (faster if entry.ratio.median.value < 1 else slower).append(atlas.size)
        if faster and slower:
            found.append(Crossing(transport, than, tuple(faster), tuple(slower)))
    return found
