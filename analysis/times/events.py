# SPDX-License-Identifier: GPL-2.0-or-later
"""What the events of a round trip cost on this machine, and the time that they tell.

The prices come from cells that are neither unix nor tcp (runners/programs/prices.py), by least
squares of relative errors: docs/time-explained.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analysis.raw.exact import Events
from analysis.raw.programs import PricedCell, PriceList
from analysis.statistics import Estimate, Values, student
from probes.messages import UsageError

# What is told: of which events of a cell, at which placement, and which of them have a price.
INSTRUCTIONS, BYTES, SWITCHES, HAND_OVERS = "instructions", "string_bytes", "switches", "hand_overs"


class ToldTime(NamedTuple):
    """A time that events tell: its placement, whose events they are, and which have a price."""

    placement: str
    kind: str
    priced: tuple[str, ...]


TOLD_TIMES = {
    "one CPU": ToldTime("same-cpu", "executed", (INSTRUCTIONS, BYTES, SWITCHES)),
    "two CPUs": ToldTime("cross-cpu", "path", (INSTRUCTIONS, BYTES, HAND_OVERS)),
    "CPU time on two": ToldTime("cross-cpu", "busy", (INSTRUCTIONS, BYTES, SWITCHES)),
}


@dataclass(frozen=True)
class EventPrices:
    """Prices in nanoseconds of the events `names`; an event whose price came out as 0 is not told
    from the others.

    `covariance` is that of the prices, `spread` the deviation of a cell's relative error.
    """

    names: tuple[str, ...]
    values: Values
    covariance: Values
    spread: float
    freedom: int
    cells: int

    def parts(self, events: Mapping[str, int]) -> dict[str, float]:
        """The nanoseconds that each kind of event tells."""
        return dict(zip(self.names, self.values * row(events, self.names), strict=True))

    def tell(self, events: Mapping[str, int]) -> Estimate:
        """The time in nanoseconds, with the 95 % interval of another cell of this kind."""
        counts = row(events, self.names)
        value = float(counts @ self.values)
        of_prices = float(counts @ self.covariance @ counts)
        half = student(self.freedom) * np.sqrt(of_prices + (self.spread * value) ** 2)
        return Estimate(value, max(0.0, value - half), value + half, self.cells)

    def price(self, name: str) -> Estimate:
        at = self.names.index(name)
        value, half = self.values[at], student(self.freedom) * np.sqrt(self.covariance[at, at])
        return Estimate(float(value), float(max(0.0, value - half)), float(value + half))


def row(events: Mapping[str, int], names: Sequence[str]) -> Values:
    """The counts of these events; what did not happen is missing in `events`."""
    return np.array([float(events.get(name, 0)) for name in names])


def fitted(cells: Sequence[tuple[Mapping[str, int], float]], names: Sequence[str]) -> EventPrices:
    """The prices with the least squares of relative errors, none below 0.

    Each cell has its events and its nanoseconds. Raises UsageError for too few cells.
    """
    if len(cells) <= len(names):
        raise UsageError(
            f"{len(cells)} cells are too few for {len(names)} prices: measure them with exact "
            "--priced."
        )
    times = np.array([time for _, time in cells])
    relative = np.array([row(events, names) for events, _ in cells]) / times[:, None]
    used = list(range(len(names)))
    while True:
        found = np.linalg.lstsq(relative[:, used], np.ones(len(cells)), rcond=None)[0]
        if (found >= 0).all():
            break
        used.pop(int(np.argmin(found)))
    freedom = len(cells) - len(used)
    rest = relative[:, used] @ found - 1
    spread = float(np.sqrt(rest @ rest / freedom))
    values, covariance = np.zeros(len(names)), np.zeros((len(names), len(names)))
    values[used] = found
    inverse = np.linalg.pinv(relative[:, used].T @ relative[:, used])
    covariance[np.ix_(used, used)] = spread**2 * inverse
    return EventPrices(tuple(names), values, covariance, spread, freedom, len(cells))


def time_of(cell: PricedCell, told: ToldTime) -> float:
    """Nanoseconds of an iteration: the median of its repeats."""
    if told.kind == "busy":
        both = np.array(cell.client_cpu_us) + np.array(cell.server_cpu_us)
        return 1000 * float(np.median(both))
    return 1000 * float(np.median(cell.median_us))


def counted(listed: PriceList, told: ToldTime) -> list[tuple[Mapping[str, int], float]]:
    """The cells of a price list whose events were counted, and which tell this time."""
    found = []
    for cell in listed.cells:
        events = events_of(cell.events, told)
        if events and cell.placement == told.placement and cell.median_us:
            found.append((events, time_of(cell, told)))
    return found


def events_of(events: Events | None, told: ToldTime) -> Mapping[str, int] | None:
    return events.kinds.get(told.kind) if events else None


def prices_of(listed: PriceList, told: ToldTime) -> EventPrices:
    """Raises UsageError."""
    return fitted(counted(listed, told), told.priced)
