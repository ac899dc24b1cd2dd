# SPDX-License-Identifier: GPL-2.0-or-later
"""Prices of events put to exact cells: which prices fit, and what they tell of a cell.

docs/time-explained.md says what the prices are and how far they go. What cannot be told has one
sentence, a UsageError.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

import numpy as np

from analysis.drawing import words
from analysis.machine import kernel_text
from analysis.paths.cells import ExactCell, read_exact
from analysis.paths.changes import ExactPair, cell_name, exact_pairs
from analysis.paths.figures import BoxTimes
from analysis.raw.programs import PriceList
from analysis.raw.record import read_object
from analysis.raw.run import Run, Target, read_run
from analysis.statistics import Estimate, student
from analysis.times.events import (
    INSTRUCTIONS,
    ON_ONE,
    PATH,
    TOLD_TIMES,
    EventCounts,
    EventPrices,
    MachinePrices,
    events_of,
    row,
)
from analysis.wording import counted, spanned
from probes.cell import Cell
from probes.contract import GATE_RUNS, PRICES, TOLD
from probes.isa import USUAL
from probes.messages import SentenceError, UsageError

MISSES = "code_misses"
# Placement → the time of TOLD_TIMES that a round trip takes there.
ROUND_TRIPS = {told.placement: name for name, told in TOLD_TIMES.items() if told.kind != "busy"}
ON_ONE_CPU = ROUND_TRIPS[ON_ONE.placement]
NOT_RESOLVED = " (not resolved)"
MOST_TOLD = 3  # lines of the gate
IN_GROUP = "in a memory control group"
CHARGED = f"Counted {IN_GROUP}, as this machine's processes are in one."
UNCHARGED = "Counted outside of a memory control group: the kernel was built without them."
CELL_OF = attrgetter("cell")
NO_CELL = "There is no exact cell of this round trip with counted events."
NO_PRICES = "There are no prices of events: `exact --priced` finds them, and later runs store them."


@dataclass(frozen=True)
class Priced:
    """A machine's prices, and the words for it: its CPU and the kernel that has the times."""

    prices: MachinePrices
    machine: str

    @property
    def one_cpu(self) -> EventPrices:
        return self.prices.one

    @property
    def counted(self) -> str:
        """Words for how round trips are counted that these prices tell; none is the usual way."""
        return f", {IN_GROUP} as this machine's processes are" if self.prices.knob else ""

    def counted_alike(self, cell: ExactCell | None, cells: Iterable[ExactCell]) -> ExactCell:
        """The round trip of a cell, as one of `cells` counted it in the way of the prices.

        Raises UsageError where none did, or where these prices do not tell it.
        """
        if cell is None:
            raise UsageError(NO_CELL)
        if cell.kernel != self.prices.kernel:
            raise UsageError(
                f"Events of {self.prices.kernel} have the prices, and the run's are of "
                f"{cell.kernel}: `exact --priced` with --kernel counts them on another one."
            )
        wanted = replace(cell.cell, knob=self.prices.knob)
        found = next(
            (each for each in cells if (each.kernel, each.cell) == (cell.kernel, wanted)), cell
        )
        self.events(found)
        return found

    def events(self, cell: ExactCell) -> EventCounts:
        """The events of a cell's round trip. Raises UsageError where they have no prices.

        A kernel that was built without memory control groups charges nothing anywhere.
        """
        if cell.cell.knob != self.prices.knob and cell.memory_groups:
            raise UsageError(self._not_alike)
        return counted_events(cell)

    @property
    def _not_alike(self) -> str:
        where = IN_GROUP if self.prices.knob else "outside of memory control groups"
        return (
            f"The prices are of processes {where}, and this round trip was not counted so: a run "
            "that is made after `exact --priced` has both."
        )

    def instruction_ns(self, cell: ExactCell) -> float:
        """What an instruction of the cell costs, warm, with the code that it fetches.

        Which functions the small cache lacks lines of is not known: each instruction has an even
        part of them. Switches and copied bytes are not in it. Raises UsageError.
        """
        events = self.events(cell)
        told = self.one_cpu.parts({name: events.get(name, 0) for name in (INSTRUCTIONS, MISSES)})
        return sum(told.values()) / cell.total


def read_priced(file: Path) -> Priced:
    """The prices of events in a file prices.json. Raises UsageError where there are none."""
    listed = read_object(file, PriceList) if file.exists() else None
    if listed is None or listed.kernel is None:
        raise UsageError(NO_PRICES)
    cpu, kernel = (str(listed.fingerprint.get(name, "unknown")) for name in ("cpu", "kernel"))
    return Priced(MachinePrices(listed), f"{cpu}, {kernel_text(kernel)}")


def priced_run(run: Run) -> Priced:
    """The prices of the machine that has the run's times. Raises UsageError without them."""
    for target in run.targets:
        if target.timed and (target.path / PRICES).exists():
            _refuse_others(read_object(target.path / PRICES, PriceList), target)
            return read_priced(target.path / PRICES)
    raise UsageError(NO_PRICES)


def _refuse_others(listed: PriceList, target: Target) -> None:
    """Raises UsageError where the prices are not those of the target."""
    here = target.environment.model_dump(include={"kernel", "version", "cpu"})
    for name, value in here.items():
        if listed.fingerprint.get(name) != value:
            raise UsageError(
                f"The prices are those of another machine or kernel ({name}: "
                f"{listed.fingerprint.get(name)}): `exact --priced` measures them here."
            )


def counted_events(cell: ExactCell) -> EventCounts:
    """The events that tell a cell's round trip. Raises UsageError where nobody counted them.

    On one CPU they are all that it executes, and on two those of the critical path.
    """
    if cell.broken:
        raise UsageError("The exact cell of this round trip is invalid.")
    if cell.arch != USUAL.name:
        raise UsageError(f"Counts of an emulated {cell.arch} CPU have no prices: it has no times.")
    if not (events := events_of(cell.events, TOLD_TIMES[ROUND_TRIPS[cell.placement]])):
        raise UsageError(NO_CELL)
    return events


def difference(prices: EventPrices, before: EventCounts, after: EventCounts) -> Estimate:
    """How many nanoseconds the second round trip takes longer, by the events in which they differ.

    What one more event costs is as uncertain as its price, and the difference is told as well as
    the round trip of another cell: what both round trips have in common adds nothing.
    """
    more = row(after, prices.names) - row(before, prices.names)
    value = float(more @ prices.values)
    of_prices = float(more @ prices.covariance @ more)
    half = student(prices.freedom) * np.sqrt(of_prices + (prices.spread * value) ** 2)
    return Estimate(value, value - half, value + half, prices.cells)


def pair_difference(pair: ExactPair, priced: Priced) -> Estimate:
    """How much longer the second cell's round trip takes, in nanoseconds. Raises UsageError."""
    name = ROUND_TRIPS[pair.after.placement]
    counts = [dict(priced.events(cell)) for cell in (pair.before, pair.after)]
    if name == ON_ONE_CPU:
        for events, cell in zip(counts, (pair.before, pair.after), strict=True):
            events[INSTRUCTIONS] = usual_instructions(cell)  # of the variants that are compared
        return difference(priced.one_cpu, *counts)
    prices = priced.prices.prices[name]
    found = difference(prices, *map(priced.prices.on_two, counts))
    # The path is itself told by prices: as uncertain as these, times what the path costs.
    path = difference(priced.one_cpu, *counts)
    low, high = path.ends
    factor = prices.price(PATH).value
    half = np.hypot(found.ends[1] - found.value, factor * (high - low) / 2)
    return replace(found, low=found.value - half, high=found.value + half)


def told_time(cell: ExactCell, priced: Priced) -> Estimate:
    """The time of a cell's round trip, in nanoseconds. Raises UsageError."""
    return priced.prices.tell(ROUND_TRIPS[cell.placement], priced.events(cell))


def usual_instructions(cell: ExactCell) -> int:
    """Instructions of a cell's tree without the loops that real processors do not run."""
    return sum(span.instructions for span in cell.tree if span.path[-1] not in USUAL.fills)


def changed_pairs(pairs: Iterable[ExactPair]) -> list[ExactPair]:
    """The round trips whose time a gate tells: those on one CPU that changed."""
    return [
        pair
        for pair in pairs
        if pair.after.placement == ON_ONE.placement and (pair.functions() or pair.more)
    ]


def cells_to_charge(before: Path, after: Path) -> list[Cell]:
    """The changed cells of two exact runs, of kernels that can charge memory. Raises RunError."""
    pairs = exact_pairs(read_exact(read_run(before)), read_exact(read_run(after)), CELL_OF)
    return [
        pair.after.cell
        for pair in changed_pairs(pairs)
        if pair.before.memory_groups and pair.after.memory_groups
    ]


def changed_times(folder: Path, pairs: Iterable[ExactPair]) -> list[str]:
    """What the gate says of time, below its verdict: a line for each changed round trip.

    The most changed ones come first. Where its folder has no prices nothing is said, and where they
    tell nothing one sentence says why.
    """
    changed = changed_pairs(pairs)
    if not (folder / PRICES).exists() or not changed:
        return []
    try:
        priced = read_priced(folder / PRICES)
        charged = charged_pairs(folder / TOLD)
        changed = [charged.get(pair.after.cell, pair) for pair in changed]
        times = [(pair_difference(pair, priced), pair) for pair in changed]
    except SentenceError as error:
        return [f"What that takes is not told. {error}"]
    times.sort(key=lambda each: -abs(each[0].value))
    lines = [
        f"About {with_sign(time)} a round trip of {cell_name(str(usual(pair.after.cell)))} on one "
        f"CPU of this machine, warm{NOT_RESOLVED if time.spans(0) else ''}."
        for time, pair in times[:MOST_TOLD]
    ]
    if len(times) > MOST_TOLD:
        lines.append(f"And {counted(len(times) - MOST_TOLD, 'round trip')} that changed less.")
    if priced.prices.knob:
        has_groups = times[0][1].after.memory_groups
        lines.append(CHARGED if has_groups else UNCHARGED)
    return lines


def charged_pairs(folder: Path) -> dict[Cell, ExactPair]:
    """By its cell without the knob, each round trip that a gate counted again as the prices are."""
    if not folder.exists():
        return {}
    before, after = (read_exact(read_run(folder / name)) for name in GATE_RUNS)
    pairs = exact_pairs(before, after, CELL_OF)
    return {usual(pair.after.cell): pair for pair in pairs}


def usual(cell: Cell) -> Cell:
    return replace(cell, knob="")


def with_sign(time: Estimate) -> str:
    """Nanoseconds with their sign and interval."""
    return ("+" if time.value > 0 else "") + spanned(time, "ns")


def box_times(run: Run, drawn_cells: Sequence[ExactCell], cells: Sequence[ExactCell]) -> BoxTimes:
    """What the boxes of drawn cells say of time: on one CPU, where prices and counts are known.

    An instruction costs what it does in the same round trip as `cells` have it with the prices.
    """
    on_one = [
        cell for cell in drawn_cells if cell.placement == ON_ONE.placement and not cell.broken
    ]
    try:
        priced = priced_run(run)
        ns = {
            cell.cell: priced.instruction_ns(priced.counted_alike(cell, cells)) for cell in on_one
        }
    except UsageError as error:
        return BoxTimes(lack=words("box-times", "untold", why=error))
    told = words("box-times", "told", machine=priced.machine)
    if priced.prices.knob:
        told += words("box-times", "alike")
    return BoxTimes(lambda cell: ns.get(cell.cell, 0.0), told)
