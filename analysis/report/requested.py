# SPDX-License-Identifier: GPL-2.0-or-later
"""What a run was told to measure beside the comparison on the first screen.

That compares two transports, in one pattern, by messages of one size. Options can name more:
cells, instruments, kernels, programs. The tables here hold what these gave.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from analysis.analyse import Analysis
from analysis.counts.ledger import (
    MOST_TOGETHER,
    Ledger,
    Row,
    all_conditions,
    in_conditions,
    order,
)
from analysis.counts.measures import MEASURE_BY_ID, MEASURES, Measure, Workload, estimate_of
from analysis.machine import kernel_text
from analysis.paths.cells import ExactCell
from analysis.raw.run import Missing, Run
from analysis.report.answer import Answer
from analysis.report.frames import measure_name
from analysis.statistics import Estimate
from analysis.times.timing import Times
from analysis.wording import (
    ABSENT,
    added,
    amount,
    conditions_text,
    number,
    size_text,
    title_of,
)
from probes.cell import ONE_WAY
from probes.scripts import read_scripts
from probes.transports import PAIR

USUAL_INSTRUMENTS = ["headline"]
UNTIMED = "No times: this run has no valid cell of the host without probes."


class Requested:
    """What options named and the first screen's comparison leaves out."""

    def __init__(self, analysis: Analysis, answer: Answer | None) -> None:
        self.analysis = analysis
        self.named = instruments_of(analysis.run)
        counts = answer.counts if answer else ()
        self.compared = {count.measure for count in counts if len(count.figures) > 1}
        self.times = list(_other_times(analysis, answer))
        self.counts = list(self._counts())
        self.untimed = UNTIMED if analysis.run.targets and not analysis.timings else ""

    def _counts(self) -> Iterator[tuple[Ledger, list[Row]]]:
        """Each ledger's rows of what was named, less what the comparison says already."""
        ledgers = self.analysis.ledgers
        compared = len(ledgers) == 1 and len(ledgers[0].transports) == 2 and not self.named
        for ledger in ledgers:
            rows = self._rows(ledger)
            if compared:
                rows = [row for row in rows if self._is_left_out(row)]
            if rows:
                yield ledger, rows

    def _is_left_out(self, row: Row) -> bool:
        """Whether the comparison lacks a valid figure: one transport alone has it."""
        valid = any(entry.valid for entry in row.entries.values())
        return valid and row.measure.id not in self.compared

    def _rows(self, ledger: Ledger) -> list[Row]:
        """Without named instruments the headlines; else all, first what these count."""
        by_kernel = set(self.analysis.kernels["measure"])  # these have a table for all kernels
        rows = [
            row
            for row in ledger.rows
            if row.entries and not row.measure.again
            if not (row.target == "guest" and row.measure.id in by_kernel)
        ]
        if not self.named:
            return [row for row in rows if row.measure.headline and not row.measure.detail]
        own = quantities_of(self.named)
        return sorted(rows, key=lambda row: row.measure.quantity not in own)

    @property
    def lacks(self) -> list[Missing]:
        """What is missing; what a usual instrument cannot count on this machine is on the page
        alone, unless the user named instruments or a guest has it.
        """
        usual = usual_quantities()
        return [
            lack
            for lack in self.analysis.tables.missing
            if self.named or lack.guest_has or not usual.issuperset(lack.quantities or [lack.what])
        ]

    @property
    def kernels(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """The counts of several guests' kernels: conditions in words, rows of `df_kernels`."""
        found = self.analysis.kernels
        for conditions in all_conditions(found):
            yield conditions_text(Workload(*conditions)), in_conditions(found, conditions)


def instruments_of(run: Run) -> list[str]:
    """The instruments that the run's user named; empty where it took the usual ones."""
    named = run.manifest.options.get("instruments")
    if not isinstance(named, list) or named == USUAL_INSTRUMENTS:
        return []
    return [str(name) for name in named]


def quantities_of(instruments: Sequence[str]) -> set[str]:
    """The quantities that these instruments and scripts count."""
    return {
        quantity
        for name, script in read_scripts().items()
        if {name, script.instrument} & {*instruments} or "all" in instruments
        for quantity in script.quantities
    }


def usual_quantities() -> set[str]:
    """The quantities that a run counts, on some target, without named instruments."""
    scripts = [script for script in read_scripts().values() if script.headline]
    return {quantity for script in scripts for quantity in script.quantities}


def _other_times(analysis: Analysis, answer: Answer | None) -> Iterator[Times]:
    """The times of requested cells that the comparison does not hold."""
    cells = {
        (ledger.pattern, ledger.size, *column)
        for ledger in analysis.ledgers
        for column in ledger.columns
    }
    compared = set()
    if answer and len(answer.transports) > 1:
        compared = {
            (answer.pattern, answer.size, placed.conditions, transport)
            for placed in answer.times
            for transport in answer.transports
        }
    for times in analysis.timings:
        cell = (times.pattern, times.size, times.conditions, times.transport)
        if cell in cells and cell not in compared:
            yield times


class FigureRow(NamedTuple):
    """A row of a table in the terminal: a name, and a figure in each column."""

    name: str
    figures: dict[str, str]


def text_times(found: Sequence[Times]) -> Iterator[FigureRow]:
    """A row for each set of conditions: each transport's median, one way its rate."""
    rows: dict[str, dict[str, str]] = {}
    for times in found:
        name = f"{times.iteration}: {conditions_text(times)}"
        if times.pattern in ONE_WAY:
            name = f"messages a second: {conditions_text(times)}"
            figure = number(times.messages_per_s.value) if times.messages_per_s else ABSENT
        else:
            figure = amount(times.p50.value, "ns") if times.p50 else ABSENT
        rows.setdefault(name, {})[times.transport] = figure
    yield from (FigureRow(name, figures) for name, figures in rows.items())


def text_counts(ledger: Ledger, rows: Sequence[Row]) -> Iterator[FigureRow]:
    """A row for each measure, and for each set of conditions where these differ."""
    for row in rows:
        by_place: dict[str, dict[str, str]] = {}
        for column in ledger.columns:
            if entry := row.entries.get(column):
                conditions, transport = column
                by_place.setdefault(conditions, {})[transport] = _figure(row.measure, entry)
        name, (first, *others) = measure_name(row.measure), by_place.values()
        if list(by_place) == ledger.conditions and all(other == first for other in others):
            yield FigureRow(name, first)
            continue
        for conditions, figures in by_place.items():
            yield FigureRow(f"{name}, {title_of(conditions)}", figures)


def text_kernels(rows: pd.DataFrame, named: Sequence[str]) -> Iterator[FigureRow]:
    """A row for each headline; with named instruments for each measure, first what these count.

    A column is a transport on a kernel; where these are many, a kernel, and each transport has rows
    of its own.
    """
    names, own = _kernel_names(rows["kernel"].unique()), quantities_of(named)
    several = rows["transport"].nunique()
    apart = several > 1 and several * len(names) > MOST_TOGETHER
    figures: dict[tuple[Measure, str], dict[str, str]] = {}
    for row in rows.sort_values("transport", key=_in_order, kind="stable").to_dict("records"):
        measure, transport = MEASURE_BY_ID[row["measure"]], row["transport"]
        if named or (measure.headline and not measure.detail):
            kernel, name = names[row["kernel"]], measure_name(measure)
            name, column = (
                (f"{name}, {transport}", kernel) if apart else (name, f"{transport} {kernel}")
            )
            cells = figures.setdefault((measure, name), {})
            cells[column] = _figure(measure, estimate_of(row))

    def in_order(found: tuple[Measure, str]) -> tuple[bool, int]:
        return found[0].quantity not in own, MEASURES.index(found[0])

    for measure, name in sorted(figures, key=in_order):
        yield FigureRow(name, figures[measure, name])


def text_exact(cells: Sequence[ExactCell]) -> Iterator[FigureRow]:
    """A row for each of exact mode's conditions; the ledgers have one kernel, and no knob.

    A column is a transport, on a kernel where there are several.
    """
    names = _kernel_names(dict.fromkeys(cell.kernel for cell in cells))
    if len(names) < 2 and not any(cell.knob for cell in cells):
        return
    rows: dict[str, dict[str, str]] = {}
    for cell in cells:
        where = title_of(str(replace(cell.conditions, knob="")))
        knob = f" · {cell.knob.name}" if cell.knob else ""
        name = f"{cell.pattern} · {size_text(cell.size)} · {where}{knob}"
        figures = rows.setdefault(name, {})
        column = f"{cell.transport} {names[cell.kernel]}" if len(names) > 1 else cell.transport
        figures[column] = number(cell.of_message) + ("" if cell.valid else " invalid")
    yield from (FigureRow(name, figures) for name, figures in rows.items())


def _kernel_names(releases: Iterable[str]) -> dict[str, str]:
    """Release → `6.1.0`, or the release itself where two kernels would have one name."""
    short = {release: kernel_text(release).removeprefix("Linux ") for release in releases}
    names = list(short.values())
    return {release: name if names.count(name) == 1 else release for release, name in short.items()}


def _in_order(transports: "pd.Series[str]") -> "pd.Series[int]":
    return transports.map(lambda name: order(name, PAIR)[0])


def text_programs(analysis: Analysis) -> Iterator[FigureRow]:
    """A row for each real program: how long a request takes, and how much longer over TCP."""
    for group in analysis.survivals:
        for side in group.programs:
            figures = {
                "unix": amount(side.ns.first.value, "ns"),
                "tcp": amount(side.ns.second.value, "ns"),
                "tcp takes longer by": added(side.ns.added, "ns"),
            }
            yield FigureRow(f"{group.unit}: {conditions_text(side)}", figures)


def _figure(measure: Measure, entry: Estimate) -> str:
    text = amount(entry.value, measure.unit)
    return text if entry.valid else f"{text} invalid"


def columns_of(rows: Sequence[FigureRow]) -> list[str]:
    """The columns of these rows: a Unix socket and TCP first, others as they come."""
    names = dict.fromkeys(name for row in rows for name in row.figures)
    return sorted(names, key=lambda name: order(name, PAIR)[0])
