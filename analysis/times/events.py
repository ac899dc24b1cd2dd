# SPDX-License-Identifier: GPL-2.0-or-later
"""What the events of a round trip cost on this machine, and the time that they tell.

The prices come from cells that are neither unix nor tcp (runners/programs/prices.py), by least
squares of relative errors: docs/time-explained.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from analysis.raw.exact import Events
from analysis.raw.programs import PricedCell, PriceList
from analysis.statistics import Estimate, Values, student
from probes.files import read_rows
from probes.messages import UsageError

INSTRUCTIONS = "instructions"
# Events with a price of their own, on one CPU; all others are told with the instructions.
PRICED = (INSTRUCTIONS, "code_misses", "string_bytes", "switches")
# What the path costs on one CPU, in ns: on two it is so many times as dear.
PATH, HAND_OVERS = "path", "hand_overs"
EventCounts = Mapping[str, float]
BLIND = Path(__file__).with_name("blind.tsv")


class ToldTime(NamedTuple):
    """A time that events tell: its placement, and whose events they are."""

    placement: str
    kind: str


ON_ONE = ToldTime("same-cpu", "executed")
TOLD_TIMES = {
    "one CPU": ON_ONE,
    "two CPUs": ToldTime("cross-cpu", "path"),
    "CPU time on two": ToldTime("cross-cpu", "busy"),
}
# Time → between which shares of it nine in ten cells were that stored runs had told blindly.
BLIND_RATIOS = {row["time"]: (float(row["low"]), float(row["high"])) for row in read_rows(BLIND)}


@dataclass(frozen=True)
class EventPrices:
    """Prices in nanoseconds of the events `names`, from so many `cells`.

    A price of 0 is of an event that the others tell. `covariance` is that of the prices, `spread`
    the deviation of a cell's relative error.
    """

    names: tuple[str, ...]
    values: Values
    covariance: Values
    spread: float
    freedom: int
    cells: int

    def parts(self, events: EventCounts) -> dict[str, float]:
        """The nanoseconds that each kind of event tells."""
        return dict(zip(self.names, self.values * row(events, self.names), strict=True))

    def tell(self, events: EventCounts) -> Estimate:
        """The time in nanoseconds, with the 95 % interval of another cell that has prices."""
        counts = row(events, self.names)
        value = float(counts @ self.values)
        of_prices = float(counts @ self.covariance @ counts)
        half = student(self.freedom) * np.sqrt(of_prices + (self.spread * value) ** 2)
        return Estimate(value, max(0.0, value - half), value + half, self.cells)

    def price(self, name: str) -> Estimate:
        at = self.names.index(name)
        value, half = self.values[at], student(self.freedom) * np.sqrt(self.covariance[at, at])
        return Estimate(float(value), float(max(0.0, value - half)), float(value + half))


class MachinePrices:
    """What a price list says of times on one CPU and on two. Raises UsageError where it cannot."""

    def __init__(self, listed: PriceList) -> None:
        self.kernel, self.knob = listed.kernel, listed.knob
        self.cells = {name: counted(listed, told) for name, told in TOLD_TIMES.items()}
        self.one = fitted(self.cells["one CPU"], PRICED)
        self.prices = {"one CPU": self.one} | {
            name: fitted([(self.on_two(events), ns) for events, ns in cells], (PATH, HAND_OVERS))
            for name, cells in self.cells.items()
            if name != "one CPU"
        }

    def on_two(self, events: EventCounts) -> EventCounts:
        """A cell's events on two CPUs by what has a price there.

        Each end of the wire is woken once, so the CPU time has as many hand-overs as the path.
        """
        return {PATH: self.one.tell(events).value, HAND_OVERS: events.get(HAND_OVERS, 2)}

    def tell(self, name: str, events: EventCounts) -> Estimate:
        """A time of TOLD_TIMES, in nanoseconds.

        The interval is that of the prices, or, where this is wider, what nine of ten cells took of
        those that were told before they were measured: they are of paths that have no prices.
        """
        told = self.prices[name].tell(events if name == "one CPU" else self.on_two(events))
        low, high = told.ends
        least, most = BLIND_RATIOS[name]
        return replace(told, low=min(low, least * told.value), high=max(high, most * told.value))


def row(events: EventCounts, names: Sequence[str]) -> Values:
    """The counts of these events; what did not happen is missing in `events`."""
    return np.array([float(events.get(name, 0)) for name in names])


def fitted(cells: Sequence[tuple[EventCounts, float]], names: Sequence[str]) -> EventPrices:
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
    """Nanoseconds of an iteration: the least repeat, which other work lengthened least."""
    if told.kind == "busy":
        both = zip(cell.client_cpu_us, cell.server_cpu_us, strict=True)
        return 1000 * min(map(sum, both))
    return 1000 * min(cell.median_us)


def counted(listed: PriceList, told: ToldTime) -> list[tuple[EventCounts, float]]:
    """The cells of a price list whose events were counted, and which tell this time."""
    found = []
    for cell in listed.cells:
        events = events_of(cell.events, told)
        if events and cell.placement == told.placement and cell.median_us:
            found.append((events, time_of(cell, told)))
    return found


def events_of(events: Events | None, told: ToldTime) -> EventCounts | None:
    return events.kinds.get(told.kind) if events else None
