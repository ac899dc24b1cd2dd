# SPDX-License-Identifier: GPL-2.0-or-later
"""The articles' own programs: how much of a difference between transports survives in them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.counts.apps import INSTRUMENT
from analysis.counts.ledger import Entry
from analysis.counts.measures import REGIME, over_repeats
from analysis.counts.quantities import APPS, MEASURE_BY_ID, MEASURES, TIMES, Measure
from analysis.intervals import interval
from analysis.languages import say, to_say

OVER, UNDER = "tcp", "unix"
# Times by their nature, and what a message costs: they stand with the counts.
COST = {"cpu_ns", "switches_per_s", "machine_switches_per_s"}
PER = {
    "message": to_say("{figure} a message"),
    "round trip": to_say("{figure} a round trip"),
    "payload byte": to_say("{figure} a payload byte"),
}


@dataclass(frozen=True)
class Row:
    """One measure of one experiment, transport by transport."""

    pattern: str
    size: int
    placement: str
    measure: Measure
    entries: dict[str, Entry]
    ratio: tuple[float, float, float] | None  # tcp / unix, with the interval or range of repeats

    @property
    def words(self) -> str:
        """What the figure is, and for each of what."""
        words = say(self.measure.words).removeprefix("… ")
        each = PER.get(self.measure.per)  # none for a whole window
        return say(each, figure=words) if each else words

    @property
    def speed(self) -> bool:
        """How fast it was; the others say what a message cost."""
        return self.measure.quantity in TIMES - COST


def program_rows(measured: pd.DataFrame) -> tuple[Row, ...]:
    """Experiment by experiment, its measures in the order of measures.tsv."""
    own = measured[measured["instrument"] == INSTRUMENT]
    if own.empty:
        return ()
    figures = over_repeats(own)
    by = [*REGIME, "measure"]
    sound = dict(iter(own[own["sound"].astype(bool)].groupby(by)))
    found = []
    for key, rows in figures.groupby(by, sort=True):
        pattern, size, placement, name = (rows.iloc[0][column] for column in by)
        ratio = _ratio(sound[key]) if key in sound else None
        entries = _entries(rows)
        found.append(Row(pattern, int(size), placement, MEASURE_BY_ID[name], entries, ratio))
    return tuple(sorted(found, key=_place))


def _place(row: Row) -> tuple[int, int, int]:
    return list(APPS).index(row.pattern), row.size, MEASURES.index(row.measure)


def _entries(rows: pd.DataFrame) -> dict[str, Entry]:
    return {
        str(row["transport"]): Entry(
            float(row["value"]),
            float(row["low"]),
            float(row["high"]),
            int(row["repeats"]),
            bool(row["sound"]),
        )
        for _, row in rows.iterrows()
    }


def _ratio(rows: pd.DataFrame) -> tuple[float, float, float] | None:
    """Of sound repeats in which both were measured."""
    pairs = rows.pivot_table(index="repeat", columns="transport", values="value")
    if not {OVER, UNDER} <= set(pairs):
        return None
    pairs = pairs[[OVER, UNDER]].dropna()
    if pairs.empty or not pairs[UNDER].all():
        return None
    values = (pairs[OVER] / pairs[UNDER]).to_numpy(dtype=float)
    low, high = interval(values)
    ends = (values.min(), values.max()) if low is None or high is None else (low, high)
    return float(np.median(values)), float(ends[0]), float(ends[1])
