# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cells have one mode of context switches, and which go from one to another.

A round trip has a whole number of switches. Where a window's mean is no whole number, its round
trips are of several kinds; where repeats of one cell differ, the scheduler has taken several ways.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.conditions import Workload
from analysis.counts.ledger import conditions_order, transport_order
from analysis.counts.measures import WORKLOAD, best_source, groups, source_of
from analysis.counts.quantities import MEASURE_BY_ID
from analysis.wording import number

NEAR = 0.1  # of a switch in a round trip: what timers and a window's edges may add
APART = 0.5
STEADY, MIXED, BISTABLE, ONCE = "steady", "mixed", "bistable", "measured once"


@dataclass(frozen=True)
class SwitchModes(Workload):
    """Switches of a round trip in one cell, both processes together, over its repeats."""

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
            MIXED: f"mixed: {value}, from round trips of several kinds",
            ONCE: f"{value}, measured once: whether it is steady is unknown",
        }[self.kind]


def switch_modes(measured: pd.DataFrame) -> tuple[SwitchModes, ...]:
    """One for each cell with valid counts on each kernel: the host's, where cells ran there."""
    rows = measured[(measured["measure"] == "switches") & measured["valid"].astype(bool)]
    host = rows[rows["target"] == "host"]
    return tuple(sorted(_modes(rows if host.empty else host), key=_order))


def _modes(rows: pd.DataFrame) -> Iterator[SwitchModes]:
    for (_, *key), cell in groups(rows, "kernel", *WORKLOAD, "transport"):
        best = best_source(cell, MEASURE_BY_ID["switches"]).sort_values("repeat")
        pattern, size, conditions, transport = key
        values, source = tuple(best["value"]), source_of(best)
        yield SwitchModes(pattern, size, conditions, transport, values, source)


def _order(modes: SwitchModes) -> tuple[object, ...]:
    transport = transport_order(modes.transport)
    return modes.pattern, modes.size, conditions_order(modes.conditions), transport
