# SPDX-License-Identifier: GPL-2.0-or-later
"""What probes cost: each probed cell beside its unprobed twin."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.ledger import FIRST_PLACEMENTS, FIRST_TRANSPORTS, order
from analysis.measures import REGIME, round_trips
from analysis.quantities import ROUND_TRIP_PATTERNS

# lane, kernel, pattern, size, placement, transport, probes
Cell = tuple[Any, ...]


@dataclass(frozen=True)
class Programs:
    """An instrument's BPF programs in a cell, by the kernel's statistics."""

    instrument: str
    runs: float  # for each message: its events, and other processes'
    ns: float | None  # for each run; None where times are no times


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
    programs: tuple[Programs, ...] = ()


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
    programs = _programs(rows, keys)
    found = []
    for cell in sorted(switches.keys() | rtt.keys(), key=_reading_order):
        bare = (*cell[:-1], "")
        if cell != bare:
            named = dict(zip(keys, cell, strict=True))
            times, counts = (rtt.get(bare), rtt.get(cell)), (switches.get(bare), switches.get(cell))
            found.append(ProbeCost(*times, *counts, **named, programs=programs.get(cell, ())))
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


def _programs(rows: pd.DataFrame, keys: list[str]) -> dict[Cell, tuple[Programs, ...]]:
    """Runs per message and time per run of each instrument's programs, over all repeats."""
    runs, ns = (
        _by_cell(rows[rows["quantity"] == name].groupby([*keys, "instrument"])["value"].sum())
        for name in ("program_runs", "program_ns")
    )
    ran = rows[rows["quantity"] == "program_runs"]
    messages = _by_cell(ran.groupby([*keys, "instrument"])["messages"].sum())
    found: dict[Cell, tuple[Programs, ...]] = {}
    for key, count in runs.items():
        time = ns[key] / count if key in ns else None
        one = Programs(str(key[-1]), count / messages[key], time)
        found[key[:-1]] = (*found.get(key[:-1], ()), one)
    return found


def _reading_order(cell: Cell) -> tuple[Any, ...]:
    lane, kernel, pattern, size, placement, transport, probes = cell
    where = (order(placement, FIRST_PLACEMENTS), order(transport, FIRST_TRANSPORTS))
    return (lane, kernel, pattern, size, probes, *where)


def _by_cell(figures: Any) -> dict[Cell, float]:
    return {cell: float(value) for cell, value in figures.items()}
