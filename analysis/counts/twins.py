# SPDX-License-Identifier: GPL-2.0-or-later
"""Each program of an article beside the same pattern in C: how much of a difference survives, why.

A difference in time that the path makes is there in both; what a runtime, an event loop or a
protocol adds is the same for both transports, and thins the ratio out.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.counts.measures import REGIME
from analysis.counts.programs import OVER, UNDER, best_source
from analysis.counts.quantities import APPS, MEASURE_BY_ID, TIMES
from analysis.languages import to_say

TABLE = Path(__file__).with_name("twins.tsv")
# The first that a program has says how long one takes: what it is of, and of a rate the inverse.
SPEEDS = {
    "requests_per_s": to_say("request"),
    "messages_per_s": to_say("message"),
    "rtt_p50": to_say("round trip"),
    "message_p50": to_say("message"),
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
    ns: dict[str, float]  # transport → how long one takes
    costs: dict[str, dict[str, float]]  # measure → transport → for each message

    @property
    def ratio(self) -> float:
        return self.ns[OVER] / self.ns[UNDER]

    @property
    def extra(self) -> float:
        """How much longer it takes over TCP."""
        return self.ns[OVER] - self.ns[UNDER]


@dataclass(frozen=True)
class Survival:
    """A program beside its twins."""

    unit: str  # what the times are of
    program: Side
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


def read_twins() -> dict[str, tuple[str, int | None, str]]:
    """Program → pattern, size (None: its own) and how they differ."""
    with TABLE.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader((one for one in lines if not one.startswith("#")), delimiter="\t")
        return {
            row["program"]: (row["pattern"], int(row["size"]) if row["size"] else None, row["why"])
            for row in rows
        }


def survivals(measured: pd.DataFrame) -> tuple[Survival, ...]:
    """In the order of APPS; a program with no time over one of the two transports has none."""
    sound = measured[measured["sound"].astype(bool) & measured["transport"].isin((OVER, UNDER))]
    known = read_twins()
    found = []
    own = sound[sound["pattern"].isin(APPS)]
    for where, rows in own.groupby(list(REGIME), sort=True):
        pattern, size, placement = str(where[0]), int(str(where[1])), str(where[2])
        for speed, unit in SPEEDS.items():
            program = _side(rows, (pattern, size, placement), speed)
            if program is not None:
                name, other, why = known.get(pattern, ("", None, ""))
                alone = placement.partition("+")[2] == ""  # 20 clients have no twin
                cells = sound[(sound["pattern"] == name) & (sound["size"] == (other or size))]
                twins = tuple(_twins(cells, speed)) if alone else ()
                found.append(Survival(unit, program, twins, why))
                break
    return tuple(sorted(found, key=lambda one: (_order(one.program.pattern), one.program.size)))


def _order(pattern: str) -> int:
    return list(APPS).index(pattern)


def _twins(cells: pd.DataFrame, speed: str) -> Iterator[Side]:
    for where, rows in cells.groupby(list(REGIME), sort=True):
        found = _side(rows, (str(where[0]), int(str(where[1])), str(where[2])), speed)
        if found is not None:
            yield found


def _side(rows: pd.DataFrame, where: tuple[str, int, str], speed: str) -> Side | None:
    times = _values(rows, speed)
    if set(times) != {OVER, UNDER} or not all(times.values()):
        return None
    per_s = MEASURE_BY_ID[speed].unit == "1/s"
    ns = {name: 1e9 / value if per_s else value for name, value in times.items()}
    costs = {measure: found for measure in COSTS if (found := _values(rows, measure))}
    return Side(*where, ns, costs)


def _values(rows: pd.DataFrame, name: str) -> dict[str, float]:
    """Transport → median over repeats, of the best source."""
    measure = MEASURE_BY_ID[name]
    own = rows[rows["measure"] == name]
    if measure.quantity in TIMES:
        own = own[(own["lane"] == "host") & ~own["probed"].astype(bool)]
    if own.empty:
        return {}
    medians = best_source(own, measure).groupby("transport")["value"].median()
    return {str(transport): float(value) for transport, value in medians.items()}


def calls_by_name(tidy: pd.DataFrame, most: int = 8) -> tuple[Calls, ...]:
    """Of the programs' probed runs, medians over repeats; `most` of each."""
    rows = tidy[tidy["pattern"].isin(APPS) & (tidy["quantity"] == "syscalls") & tidy["sound"]]
    rows = rows.assign(each=rows["value"] / rows["messages"])
    found = []
    for where, group in rows.groupby([*REGIME, "transport"], sort=True):
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
