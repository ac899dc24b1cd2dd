# SPDX-License-Identifier: GPL-2.0-or-later
"""What probes cost: each probed cell beside its unprobed control."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.conditions import KernelWorkload
from analysis.counts.ledger import FIRST_PLACEMENTS, order, transport_order
from analysis.counts.measures import PROBES, WORKLOAD, round_trips
from analysis.counts.quantities import HARDWARE, ROUND_TRIP_PATTERNS
from analysis.statistics import Estimate

# The fields of ProbeCost, up to what its runs counted and took.
Cell = tuple[Any, ...]


@dataclass(frozen=True)
class Events:
    """What an instrument had to do in a cell."""

    instrument: str
    # For each message. Of BPF programs by the kernel's statistics, other processes' included;
    # perf has no program: what it counted.
    count: float
    ns: float | None  # for each run of a program; None where there is none, or times are no times


@dataclass(frozen=True)
class ProbeCost(KernelWorkload):
    """A cell with and without a set of probes: medians over repeats."""

    transport: str
    instruments: str
    scripts: str
    rtt_without: Estimate | None
    rtt_with: Estimate | None
    switches_without: Estimate | None
    switches_with: Estimate | None
    events: tuple[Events, ...] = ()

    @property
    def alone(self) -> bool:
        """Whether one instrument was attached, so that the cost is its own."""
        return "," not in self.instruments

    @property
    def added(self) -> float | None:
        """Nanoseconds that the median message takes longer; less than 0 under other conditions."""
        if self.rtt_without is None or self.rtt_with is None:
            return None
        return (self.rtt_with.value - self.rtt_without.value) / 2  # messages of a round trip

    @property
    def added_per_event(self) -> float | None:
        """Nanoseconds for each event: the way into the kernel's tracing and back included."""
        count = sum(events.count for events in self.events)
        return self.added / count if count and self.added and self.added > 0 else None


def probe_costs(
    tidy: pd.DataFrame,
    probes: Mapping[tuple[str, int], tuple[str, str]],
    folders: Mapping[tuple[str, str], str],
) -> tuple[ProbeCost, ...]:
    """Each probed cell beside its unprobed control, one instrument alone first; times on the host.

    `probes` says what was attached, instruments and scripts, by (folder, cell), `folders` the
    folder of (target, kernel).
    """
    rows = tidy[tidy["valid"] & tidy["pattern"].isin(ROUND_TRIP_PATTERNS)]
    cells = zip(rows["target"], rows["kernel"], rows["cell"], strict=True)
    attached = [probes[folders[target, kernel], cell] for target, kernel, cell in cells]
    instruments, scripts = zip(*attached, strict=True) if attached else ((), ())
    rows = rows.assign(instruments=instruments, scripts=scripts)
    keys = [*WORKLOAD, "target", "kernel", "transport", "instruments", "scripts"]
    # p50, which the tail of a busy machine does not move; the median over repeats.
    p50 = rows[(rows["quantity"] == "rtt_ns") & (rows["key"] == "p50")]
    rtt, switches = _over_repeats(p50.groupby(keys)["value"]), _switches(rows, keys)
    events = _events(rows, keys)
    found = []
    for cell in sorted(switches.keys() | rtt.keys(), key=_reading_order):
        control = (*cell[:-2], "", "")
        if cell != control:
            times = rtt.get(control), rtt.get(cell)
            counts = switches.get(control), switches.get(cell)
            columns: Cell = (*cell, *times, *counts, events.get(cell, ()))
            found.append(ProbeCost(*columns))
    return tuple(found)


def _switches(rows: pd.DataFrame, keys: list[str]) -> dict[Cell, Estimate]:
    """The kernel's own count, both kinds, per round trip."""
    switches = rows[(rows["quantity"] == "switches") & (rows["instrument"] == "kernel")]
    switches = switches.assign(value=switches["value"] / round_trips(switches))
    each = switches.groupby([*keys, "repeat", "cell"])["value"].sum()
    return _over_repeats(each.groupby(level=keys))


def _over_repeats(groups: Any) -> dict[Cell, Estimate]:
    table = groups.agg(["median", "min", "max", "size"])
    return {
        cell: Estimate(float(median), float(low), float(high), int(repeats))
        for cell, median, low, high, repeats in table.itertuples(name=None)
    }


def _events(rows: pd.DataFrame, keys: list[str]) -> dict[Cell, tuple[Events, ...]]:
    """Events per message and time per run of each instrument's programs, over all repeats."""
    nanoseconds = _sums(rows[rows["quantity"] == "program_ns"], keys, "value")
    runs = rows[rows["quantity"] == "program_runs"]
    perf = rows[(rows["instrument"] == "perf") & (rows["unit"] == "count")]
    perf = perf[~perf["quantity"].isin(HARDWARE)]
    found: dict[Cell, tuple[Events, ...]] = {}
    # A cell has a row for each of perf's counters, and its messages once.
    for counted, windows in ((runs, runs), (perf, perf.drop_duplicates([*keys, "cell"]))):
        messages = _sums(windows, keys, "messages")
        for key, count in _sums(counted, keys, "value").items():
            time = nanoseconds[key] / count if key in nanoseconds else None
            events = Events(key[-1], count / messages[key], time)
            found[key[:-1]] = (*found.get(key[:-1], ()), events)
    return found


def _sums(rows: pd.DataFrame, keys: list[str], column: str) -> dict[Cell, float]:
    sums: Any = rows.groupby([*keys, "instrument"])[column].sum()
    return {key: float(total) for key, total in sums.items()}


def _reading_order(cell: Cell) -> tuple[Any, ...]:
    pattern, size, conditions, target, kernel, transport, instruments, scripts = cell
    names = instruments.split(", ")
    watched = (len(names), order(names[0], PROBES), scripts)
    where = (order(conditions, FIRST_PLACEMENTS), transport_order(transport))
    return (target, kernel, pattern, size, *watched, *where)
