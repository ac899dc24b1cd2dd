# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cells have one mode of context switches, and which go from one to another.

A round trip has a whole number of switches. Where a window's mean is no whole number, its round
trips are of several kinds; where repeats of one cell differ, the scheduler has taken several ways.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.counts.ledger import FIRST_TRANSPORTS, order, placement_order
from analysis.counts.measures import CONDITIONS, best_source
from analysis.counts.quantities import MEASURE_BY_ID
from analysis.wording import number, source_text

NEAR = 0.1  # of a switch in a round trip: what timers and a window's edges may add
APART = 0.5
STEADY, MIXED, BISTABLE, ONCE = "steady", "mixed", "bistable", "measured once"


@dataclass(frozen=True)
class SwitchModes:
    """Switches of a round trip in one cell, both processes together, over its repeats."""

    pattern: str
    size: int
    placement: str
    transport: str
    values: tuple[float, ...]
    source: str

    @property
    def kind(self) -> str:
        if max(self.values) - min(self.values) >= APART:
            return BISTABLE
        nearest = round(sum(self.values) / len(self.values))
        if any(abs(value - nearest) > NEAR for value in self.values):
            return MIXED
        return STEADY if len(self.values) > 1 else ONCE

    def words(self) -> str:
        least, most = number(min(self.values)), number(max(self.values))
        value = least if least == most else f"{least} to {most}"
        return {
            STEADY: f"steady: {value} in each of {len(self.values)} repeats",
            BISTABLE: f"bistable: {value}, from one repeat to another",
            MIXED: f"mixed: {value}, so that round trips of several kinds are in each window",
            ONCE: f"{value}, measured once: nothing can be said of its steadiness",
        }[self.kind]


def switch_modes(measured: pd.DataFrame) -> tuple[SwitchModes, ...]:
    """One of each cell with valid counts on each kernel: the host's, where cells ran there."""
    rows = measured[(measured["measure"] == "switches") & measured["valid"].astype(bool)]
    host = rows[rows["target"] == "host"]
    return tuple(sorted(_modes(rows if host.empty else host), key=_order))


def _modes(rows: pd.DataFrame) -> Iterator[SwitchModes]:
    measure = MEASURE_BY_ID["switches"]
    for cell_of, cell in rows.groupby(["kernel", *CONDITIONS, "transport"], sort=True):
        _, pattern, size, placement, transport = cell_of
        best = best_source(cell, measure)
        first = best.iloc[0]
        where = (first["instrument"], first["target"], first["kernel"], bool(first["probed"]))
        values = tuple(float(value) for value in best.sort_values("repeat")["value"])
        yield SwitchModes(
            str(pattern),
            int(str(size)),
            str(placement),
            str(transport),
            values,
            source_text(*where),
        )


def _order(one: SwitchModes) -> tuple[object, ...]:
    transport = order(one.transport, FIRST_TRANSPORTS)
    return one.pattern, one.size, placement_order(one.placement), transport
