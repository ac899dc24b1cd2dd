# SPDX-License-Identifier: GPL-2.0-or-later
"""Real programs: how much of a difference between transports survives in them, and why.

Each program of an article stands beside the same pattern in C. A difference in time that the path
makes is there in both; what a runtime, an event loop or a protocol adds is the same for both
transports, and thins the ratio out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from analysis.counts.ledger import transport_order
from analysis.counts.measures import (
    MEASURE_BY_ID,
    MEASURES,
    PROGRAMS,
    WORKLOAD,
    Measure,
    Workload,
    best_source,
    estimate_of,
    groups,
    of_programs,
    over_repeats,
)
from analysis.statistics import Estimate, Values, mean, quotient
from analysis.wording import RATE
from probes.files import read_rows
from runners.cell import Conditions

OVER, UNDER = "tcp", "unix"


@dataclass(frozen=True)
class ProgramRow(Workload):
    """One measure of one experiment, transport by transport."""

    measure: Measure
    entries: dict[str, Estimate]
    ratio: Estimate | None  # tcp / unix

    @property
    def words(self) -> str:
        """What the figure is, and for each of what."""
        words = self.measure.words.removeprefix("… ")
        return words if self.measure.per == "window" else f"{words} a {self.measure.per}"


def program_rows(measured: pd.DataFrame) -> tuple[ProgramRow, ...]:
    """Experiment by experiment, its measures in the order of measures.tsv, each by its best source:
    times by the program's clock, switches by the kernel's counts of unprobed runs, the rest by the
    probes.
    """
    own = measured[of_programs(measured)]
    table = []
    for (pattern, size, conditions, name), rows in groups(own, *WORKLOAD, "measure"):
        measure = MEASURE_BY_ID[name]
        best = best_source(rows, measure)
        valid = best[best["valid"].astype(bool)]
        table.append(ProgramRow(pattern, size, conditions, measure, entries(best), ratio(valid)))
    table.sort(key=lambda row: (*program_order(row), MEASURES.index(row.measure)))
    return tuple(table)


def program_order(row: Workload) -> tuple[int, str, int]:
    """The articles' programs in their order, then those of files by name."""
    known = list(PROGRAMS)
    place = known.index(row.pattern) if row.pattern in known else len(known)
    return place, row.pattern, row.size


def entries(rows: pd.DataFrame) -> dict[str, Estimate]:
    """Transport → its figure; of rows of one measure, source and conditions."""
    return {row["transport"]: estimate_of(row) for row in over_repeats(rows).to_dict("records")}


def transports(rows: Iterable[ProgramRow]) -> list[str]:
    """All that the rows have, in the order of the report's columns."""
    return sorted({name for row in rows for name in row.entries}, key=transport_order)


def ratio(rows: pd.DataFrame) -> Estimate | None:
    """TCP's by a Unix socket's; of valid rows of one measure and conditions."""
    over, under = _both(rows)
    return quotient(over, under) if len(under) and under.all() else None


def _both(rows: pd.DataFrame) -> Values:
    """TCP's and a Unix socket's, of the repeats in which both were measured."""
    pairs = rows.pivot_table(index="repeat", columns="transport", values="value")
    return pairs.reindex(columns=[OVER, UNDER]).dropna().to_numpy(float).T


TABLE = Path(__file__).with_name("c_baseline.tsv")
# The first that a program has says how long one takes: what it is of, and of a rate the inverse.
SPEEDS = {
    "requests_per_s": "request",
    "messages_per_s": "message",
    "rtt_p50": "round trip",
    "message_p50": "message",
}


@dataclass(frozen=True)
class Side(Workload):
    """The program, or the C workload at one placement."""

    ns: dict[str, Estimate]  # transport → how long one takes
    extra: Estimate  # how much longer over TCP, in ns
    ratio: Estimate  # tcp / unix


@dataclass(frozen=True)
class Survival:
    """Programs of one pattern, and the same in C beside them."""

    unit: str  # what the times are of
    programs: tuple[Side, ...]
    c_cells: tuple[Side, ...]
    why: str


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
    sides = []
    for workload, rows in groups(valid[of_programs(valid)], *WORKLOAD):
        timed = ((_side(rows, workload, speed), speed) for speed in SPEEDS)
        sides += [(side, speed) for side, speed in timed if side][:1]
    groups_of: dict[object, Survival] = {}
    for program, speed in sorted(sides, key=lambda side: program_order(side[0])):
        name, size, why = known.get(program.pattern, ("", None, ""))
        alone = not Conditions.parse(program.conditions).unusual  # C has no cell with 20 clients
        cells = valid[(valid["pattern"] == name) & (valid["size"] == (size or program.size))]
        in_c = (_side(rows, workload, speed) for workload, rows in groups(cells, *WORKLOAD))
        c_cells = tuple(filter(None, in_c)) if alone else ()
        # Programs that have one C baseline share one entry.
        own_key = (program.pattern, program.size, program.conditions)
        key = (speed, name, size or program.size, why) if c_cells else own_key
        before = groups_of.get(key, Survival(SPEEDS[speed], (), c_cells, why))
        groups_of[key] = replace(before, programs=(*before.programs, program))
    return tuple(groups_of.values())


def _side(rows: pd.DataFrame, workload: tuple[str, int, str], speed: str) -> Side | None:
    """How long one takes, in ns: unprobed, on the host."""
    unprobed = (rows["target"] == "host") & (rows["value"] > 0) & ~rows["probed"].astype(bool)
    measure, times = MEASURE_BY_ID[speed], rows[unprobed & (rows["measure"] == speed)]
    if not times.empty:
        times = best_source(times, measure)
        times = times.assign(value=1e9 / times["value"]) if measure.unit == RATE else times
    over, under = _both(times)
    if not len(under):
        return None
    return Side(*workload, entries(times), mean(over - under), quotient(over, under))
