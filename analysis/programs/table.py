# SPDX-License-Identifier: GPL-2.0-or-later
"""Real programs: how much of a difference between transports survives in them."""

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from analysis.conditions import Workload
from analysis.counts.ledger import transport_order
from analysis.counts.measures import WORKLOAD, best_source, estimate_of, groups, over_repeats
from analysis.counts.quantities import (
    MEASURE_BY_ID,
    MEASURES,
    PROGRAMS,
    TIMES,
    Measure,
    of_programs,
)
from analysis.statistics import Estimate, Values, mean, quotient

OVER, UNDER = "tcp", "unix"
# These are times, but say what a message costs: the report shows them with the counts.
COST = {"cpu_ns", "switches_per_s", "machine_switches_per_s"}


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

    @property
    def speed(self) -> bool:
        """How fast it was; the others say what a message cost."""
        return self.measure.quantity in TIMES - COST


def program_rows(measured: pd.DataFrame) -> tuple[ProgramRow, ...]:
    """Experiment by experiment, its measures in the order of measures.tsv, each by its best source:
    times by the program's clock, switches by the kernel's counts of unprobed runs, the rest by the
    probes.
    """
    own = measured[of_programs(measured)]
    found = []
    for (pattern, size, conditions, name), rows in groups(own, *WORKLOAD, "measure"):
        measure = MEASURE_BY_ID[name]
        best = best_source(rows, measure)
        valid = best[best["valid"].astype(bool)]
        found.append(ProgramRow(pattern, size, conditions, measure, entries(best), ratio(valid)))
    found.sort(key=lambda row: (*program_order(row), MEASURES.index(row.measure)))
    return tuple(found)


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
    pairs = _pairs(rows)
    return quotient(*pairs) if pairs and pairs[1].all() else None


def difference(rows: pd.DataFrame) -> Estimate | None:
    """How much more it is over TCP."""
    pairs = _pairs(rows)
    return mean(pairs[0] - pairs[1]) if pairs else None


def _pairs(rows: pd.DataFrame) -> tuple[Values, Values] | None:
    """TCP's and a Unix socket's, of the repeats in which both were measured."""
    pairs = rows.pivot_table(index="repeat", columns="transport", values="value")
    if not {OVER, UNDER} <= set(pairs):
        return None
    pairs = pairs[[OVER, UNDER]].dropna()
    return None if pairs.empty else (pairs[OVER].to_numpy(), pairs[UNDER].to_numpy())
