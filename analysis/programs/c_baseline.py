# SPDX-License-Identifier: GPL-2.0-or-later
"""Each program of an article beside the same pattern in C: how much of a difference survives, why.

A difference in time that the path makes is there in both; what a runtime, an event loop or a
protocol adds is the same for both transports, and thins the ratio out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.conditions import Conditions, Workload
from analysis.counts.ledger import Entry
from analysis.counts.measures import WORKLOAD, best_source, groups
from analysis.counts.quantities import MEASURE_BY_ID, PROGRAMS
from analysis.intervals import Estimate
from analysis.programs.table import OVER, UNDER, difference, program_order, ratio
from analysis.tsv import read_rows
from analysis.wording import RATE

TABLE = Path(__file__).with_name("c_baseline.tsv")
# The first that a program has says how long one takes: what it is of, and of a rate the inverse.
SPEEDS = {
    "requests_per_s": "request",
    "messages_per_s": "message",
    "rtt_p50": "round trip",
    "message_p50": "message",
}
# What a message costs, on either transport: why the difference is what it is.
COSTS = (
    *("syscalls", "sends_per_message", "reads_per_message", "switches_per_message"),
    *("wakeups_per_message", "wakeups_write_space_per_message", "segments_out", "lo_packets"),
)


@dataclass(frozen=True)
class Side(Workload):
    """The program, or the C workload at one placement: a time, and what a message cost."""

    ns: dict[str, Entry]  # transport → how long one takes
    extra: Estimate  # how much longer over TCP, in ns
    ratio: Estimate  # tcp / unix
    costs: dict[str, dict[str, float]]  # measure → transport → for each message


@dataclass(frozen=True)
class Survival:
    """Programs of one pattern, and the same in C beside them."""

    unit: str  # what the times are of
    programs: tuple[Side, ...]
    c_cells: tuple[Side, ...]
    why: str


@dataclass(frozen=True)
class Calls(Workload):
    """System calls of one program over one transport, by name, for each message."""

    transport: str
    calls: tuple[tuple[str, float], ...]  # the most frequent first


def read_c_baseline() -> dict[str, tuple[str, int | None, str]]:
    """Program → pattern, size (None: its own) and how they differ."""
    return {
        row["program"]: (row["pattern"], int(row["size"]) if row["size"] else None, row["why"])
        for row in read_rows(TABLE)
    }


def survivals(measured: pd.DataFrame) -> tuple[Survival, ...]:
    """In the order of PROGRAMS; a program with no time over one of the two transports has none."""
    valid = measured[measured["valid"].astype(bool) & measured["transport"].isin((OVER, UNDER))]
    known = read_c_baseline()
    found = []
    own = valid[valid["pattern"].isin(PROGRAMS)]
    for (pattern, size, conditions), rows in groups(own, *WORKLOAD):
        sides = ((_side(rows, (pattern, size, conditions), speed), speed) for speed in SPEEDS)
        program, speed = next(((side, speed) for side, speed in sides if side), (None, ""))
        if program is not None:
            name, other, why = known.get(pattern, ("", None, ""))
            alone = not Conditions.parse(conditions).unusual  # C has no cell with 20 clients
            cells = valid[(valid["pattern"] == name) & (valid["size"] == (other or size))]
            in_c = (_side(rows, where, speed) for where, rows in groups(cells, *WORKLOAD))
            c_cells = tuple(filter(None, in_c)) if alone else ()
            found.append(Survival(SPEEDS[speed], (program,), c_cells, why))
    return _together(sorted(found, key=lambda survival: program_order(survival.programs[0])))


def _together(found: Iterable[Survival]) -> tuple[Survival, ...]:
    """Programs that have one C baseline share one entry."""
    shared: list[Survival] = []
    for new in found:
        for i, old in enumerate(shared):
            if new.c_cells and (old.unit, old.c_cells, old.why) == (new.unit, new.c_cells, new.why):
                shared[i] = replace(old, programs=(*old.programs, *new.programs))
                break
        else:
            shared.append(new)
    return tuple(shared)


def _side(rows: pd.DataFrame, where: tuple[str, int, str], speed: str) -> Side | None:
    times = _timed(rows, speed)
    extra, factor = difference(times), ratio(times)
    if extra is None or factor is None:
        return None
    ns = {
        str(name): Entry(float(of.mean()), float(of.min()), float(of.max()), len(of), True)
        for name, of in times.groupby("transport")["value"]
    }
    costs = {measure: found for measure in COSTS if (found := _costs(rows, measure))}
    return Side(*where, ns, extra, factor, costs)


def _timed(rows: pd.DataFrame, speed: str) -> pd.DataFrame:
    """How long one takes, in ns: unprobed, on the host."""
    own = rows[(rows["measure"] == speed) & (rows["target"] == "host") & (rows["value"] > 0)]
    own = own[~own["probed"].astype(bool)]
    if own.empty:
        return own
    best = best_source(own, MEASURE_BY_ID[speed])
    of_a_rate = MEASURE_BY_ID[speed].unit == RATE
    return best.assign(value=1e9 / best["value"]) if of_a_rate else best


def _costs(rows: pd.DataFrame, name: str) -> dict[str, float]:
    """Transport → median over repeats, of the best source."""
    own = rows[rows["measure"] == name]
    if own.empty:
        return {}
    best = best_source(own, MEASURE_BY_ID[name])
    medians: dict[Any, float] = best.groupby("transport")["value"].median().to_dict()
    return medians


def calls_by_name(tidy: pd.DataFrame, most: int = 8) -> tuple[Calls, ...]:
    """Medians over repeats of the programs' probed runs: the `most` frequent calls."""
    rows = tidy[tidy["pattern"].isin(PROGRAMS) & (tidy["quantity"] == "syscalls") & tidy["valid"]]
    rows = rows.assign(each=rows["value"] / rows["messages"])
    found = []
    for (pattern, size, conditions, transport), group in groups(rows, *WORKLOAD, "transport"):
        # A call that a repeat did not make is 0 there.
        medians = group.pivot_table("each", "key", "repeat", fill_value=0.0).median(axis=1)
        ranked = medians.sort_values(ascending=False, kind="stable").head(most)
        calls = tuple(zip(ranked.index, map(float, ranked), strict=True))
        found.append(Calls(pattern, size, conditions, transport, calls))
    return tuple(sorted(found, key=program_order))
