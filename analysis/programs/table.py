# SPDX-License-Identifier: GPL-2.0-or-later
"""The articles' own programs: how much of a difference between transports survives in them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.counts.ledger import FIRST_TRANSPORTS, Entry, order
from analysis.counts.measures import CONDITIONS, best_source, over_repeats
from analysis.counts.quantities import MEASURE_BY_ID, MEASURES, PROGRAMS, TIMES, Measure
from analysis.intervals import Values, interval

OVER, UNDER = "tcp", "unix"
# Times by their nature, and what a message costs: they stand with the counts.
COST = {"cpu_ns", "switches_per_s", "machine_switches_per_s"}


@dataclass(frozen=True)
class Paired:
    """A figure of both transports: its median over interleaved repeats, each made of one pair.

    `low` and `high` are the 95 % interval; of repeats that are too few for one, their range.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One measure of one experiment, transport by transport."""

    pattern: str
    size: int
    placement: str
    measure: Measure
    entries: dict[str, Entry]
    ratio: Paired | None  # tcp / unix

    @property
    def words(self) -> str:
        """What the figure is, and for each of what."""
        words = self.measure.words.removeprefix("… ")
        return words if self.measure.per == "window" else f"{words} a {self.measure.per}"

    @property
    def speed(self) -> bool:
        """How fast it was; the others say what a message cost."""
        return self.measure.quantity in TIMES - COST


def program_rows(measured: pd.DataFrame) -> tuple[Row, ...]:
    """Experiment by experiment, its measures in the order of measures.tsv, each by its best source:
    times by the program's clock, switches by the kernel's counts of unprobed runs, the rest by the
    probes.
    """
    own = measured[measured["pattern"].isin(PROGRAMS)]
    found = []
    for key, rows in own.groupby([*CONDITIONS, "measure"], sort=True):
        pattern, size, placement, name = key
        measure = MEASURE_BY_ID[str(name)]
        best = best_source(rows, measure)
        valid = best[best["valid"].astype(bool)]
        entries = _entries(over_repeats(best))
        found.append(
            Row(str(pattern), int(str(size)), str(placement), measure, entries, ratio(valid))
        )
    return tuple(sorted(found, key=_place))


def _place(row: Row) -> tuple[int, int, int]:
    return list(PROGRAMS).index(row.pattern), row.size, MEASURES.index(row.measure)


def transports(rows: Iterable[Row]) -> list[str]:
    """All that the rows have, in the order of the report's columns."""
    return sorted(
        {name for row in rows for name in row.entries},
        key=lambda name: order(name, FIRST_TRANSPORTS),
    )


def _entries(rows: pd.DataFrame) -> dict[str, Entry]:
    return {
        str(row["transport"]): Entry(
            float(row["value"]),
            float(row["low"]),
            float(row["high"]),
            int(row["repeats"]),
            bool(row["valid"]),
        )
        for _, row in rows.iterrows()
    }


def ratio(rows: pd.DataFrame) -> Paired | None:
    """TCP's by a Unix socket's; of valid rows of one measure and conditions."""
    return _paired(rows, lambda over, under: over / under if under.all() else None)


def difference(rows: pd.DataFrame) -> Paired | None:
    """How much more it is over TCP."""
    return _paired(rows, lambda over, under: over - under)


def _paired(rows: pd.DataFrame, figure: Callable[[Values, Values], Values | None]) -> Paired | None:
    """Of the repeats in which both were measured."""
    pairs = rows.pivot_table(index="repeat", columns="transport", values="value")
    if not {OVER, UNDER} <= set(pairs):
        return None
    pairs = pairs[[OVER, UNDER]].dropna()
    found = figure(*(pairs[name].to_numpy(dtype=float) for name in (OVER, UNDER)))
    if found is None or not found.size:
        return None
    low, high = interval(found)
    ends = (found.min(), found.max()) if low is None or high is None else (low, high)
    return Paired(float(np.median(found)), float(ends[0]), float(ends[1]))
