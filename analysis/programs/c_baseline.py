# SPDX-License-Identifier: GPL-2.0-or-later
"""Each program of an article beside the same pattern in C: how much of a difference survives, why.

A difference in time that the path makes is there in both; what a runtime, an event loop or a
protocol adds is the same for both transports, and thins the ratio out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from analysis.conditions import Conditions
from analysis.counts.ledger import Entry
from analysis.counts.measures import CONDITIONS, best_source
from analysis.counts.quantities import MEASURE_BY_ID, PROGRAMS
from analysis.programs.table import OVER, UNDER, Paired, difference, ratio
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
class Side:
    """The program, or the same in C at one placement: a time, and what a message cost."""

    pattern: str
    size: int
    placement: str
    ns: dict[str, Entry]  # transport → how long one takes
    extra: Paired  # how much longer over TCP, in ns
    ratio: Paired  # tcp / unix
    costs: dict[str, dict[str, float]]  # measure → transport → for each message


@dataclass(frozen=True)
class Survival:
    """Programs of one pattern, and the same in C beside them."""

    unit: str  # what the times are of
    programs: tuple[Side, ...]
    twins: tuple[Side, ...]
    why: str


@dataclass(frozen=True)
class Calls:
    """System calls of one program over one transport, by name, for each message."""

    pattern: str
    size: int
    placement: str
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
    for where, rows in own.groupby(list(CONDITIONS), sort=True):
        pattern, size, placement = str(where[0]), int(str(where[1])), str(where[2])
        for speed, unit in SPEEDS.items():
            program = _side(rows, (pattern, size, placement), speed)
            if program is not None:
                name, other, why = known.get(pattern, ("", None, ""))
                alone = not Conditions.parse(placement).unusual  # 20 clients have no twin
                cells = valid[(valid["pattern"] == name) & (valid["size"] == (other or size))]
                twins = tuple(_twins(cells, speed)) if alone else ()
                found.append(Survival(unit, (program,), twins, why))
                break
    return _together(sorted(found, key=lambda one: _place(one.programs[0])))


def _together(found: Iterable[Survival]) -> tuple[Survival, ...]:
    """What has the same twins stands above them once."""
    groups: list[Survival] = []
    for one in found:
        for i, group in enumerate(groups):
            if one.twins and (group.unit, group.twins, group.why) == (one.unit, one.twins, one.why):
                groups[i] = replace(group, programs=(*group.programs, *one.programs))
                break
        else:
            groups.append(one)
    return tuple(groups)


def _place(side: Side) -> tuple[int, int]:
    return _order(side.pattern), side.size


def _order(pattern: str) -> int:
    return list(PROGRAMS).index(pattern)


def _twins(cells: pd.DataFrame, speed: str) -> Iterator[Side]:
    for where, rows in cells.groupby(list(CONDITIONS), sort=True):
        found = _side(rows, (str(where[0]), int(str(where[1])), str(where[2])), speed)
        if found is not None:
            yield found


def _side(rows: pd.DataFrame, where: tuple[str, int, str], speed: str) -> Side | None:
    times = _timed(rows, speed)
    extra, factor = difference(times), ratio(times)
    if extra is None or factor is None:
        return None
    ns = {
        str(name): Entry(float(of.median()), float(of.min()), float(of.max()), len(of), True)
        for name, of in times.groupby("transport")["value"]
    }
    costs = {measure: found for measure in COSTS if (found := _costs(rows, measure))}
    return Side(*where, ns, extra, factor, costs)


def _timed(rows: pd.DataFrame, speed: str) -> pd.DataFrame:
    """How long one takes, in ns: unprobed, on the host."""
    own = rows[
        (rows["measure"] == speed) & (rows["target"] == "host") & ~rows["probed"].astype(bool)
    ]
    own = own[own["value"] > 0]
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
    medians = best_source(own, MEASURE_BY_ID[name]).groupby("transport")["value"].median()
    return {str(transport): float(value) for transport, value in medians.items()}


def calls_by_name(tidy: pd.DataFrame, most: int = 8) -> tuple[Calls, ...]:
    """Of the programs' probed runs, medians over repeats; `most` of each."""
    rows = tidy[tidy["pattern"].isin(PROGRAMS) & (tidy["quantity"] == "syscalls") & tidy["valid"]]
    rows = rows.assign(each=rows["value"] / rows["messages"])
    found = []
    for where, group in rows.groupby([*CONDITIONS, "transport"], sort=True):
        # A call that a repeat did not make is 0 there.
        medians = (
            group.pivot_table(index="key", columns="repeat", values="each", fill_value=0.0)
            .median(axis=1)
            .sort_values(ascending=False, kind="stable")
        )
        ranked = tuple((str(name), float(value)) for name, value in medians.items())[:most]
        pattern, size, placement, transport = where
        found.append(Calls(str(pattern), int(str(size)), str(placement), str(transport), ranked))
    return tuple(sorted(found, key=lambda one: (_order(one.pattern), one.size)))
