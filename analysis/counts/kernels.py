# SPDX-License-Identifier: GPL-2.0-or-later
"""The same cells on several kernels: what a message costs on each, and which functions changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd

from analysis.counts.ledger import (
    FIRST_TRANSPORTS,
    Entry,
    Row,
    all_conditions,
    build_ledgers,
    order,
    version,
)
from analysis.counts.measures import round_trips
from analysis.counts.quantities import MEASURES, Measure
from analysis.raw.run import Missing, Run

TARGET = "guest"  # kernels are compared in guests: the host is one machine with one kernel


@dataclass(frozen=True)
class KernelTable:
    """The ledger of one set of conditions with a column for each transport and kernel."""

    pattern: str
    size: int
    placement: str
    columns: tuple[tuple[str, str], ...]  # transport, kernel
    rows: tuple[tuple[Row, tuple[Entry | None, ...]], ...]


@dataclass(frozen=True)
class FunctionChange:
    """Functions hit on one kernel and not on the next one that ran, for one transport."""

    transport: str
    older: str
    newer: str
    appeared: tuple[str, ...]
    vanished: tuple[str, ...]


@dataclass(frozen=True)
class Kernels:
    """All kernels of a run side by side; empty where there is only one."""

    tables: tuple[KernelTable, ...] = ()
    changes: tuple[FunctionChange, ...] = ()


def compare_kernels(
    run: Run, figures: pd.DataFrame, tidy: pd.DataFrame, missing: Iterable[Missing]
) -> Kernels:
    """Tables of every conditions, by `measures.over_repeats`; functions of the first conditions."""
    kernels = sorted(
        {target.kernel for target in run.targets if target.kind == TARGET}, key=version
    )
    figures = figures[figures["target"] == TARGET]
    if len(kernels) < 2 or figures.empty:
        return Kernels()
    missing = tuple(missing)
    tables = tuple(
        _table(figures, conditions, kernels, missing) for conditions in all_conditions(figures)
    )
    return Kernels(tables, _changes(tidy[tidy["target"] == TARGET], kernels))


def _table(
    figures: pd.DataFrame,
    conditions: tuple[str, int, str],
    kernels: list[str],
    missing: tuple[Missing, ...],
) -> KernelTable:
    pattern, size, placement = conditions
    same = (figures["pattern"] == pattern) & (figures["size"] == size)
    here = figures[same & (figures["placement"] == placement)]
    transports = sorted({str(t) for t in here["transport"]}, key=_transport_order)
    columns = tuple((transport, kernel) for transport in transports for kernel in kernels)
    found: dict[tuple[str, str], Row] = {}
    for kernel in kernels:
        for ledger in build_ledgers(here[here["kernel"] == kernel], missing):
            found |= {(row.measure.id, kernel): row for row in ledger.once()}
    rows = []
    for measure in MEASURES:
        mine = {kernel: row for kernel in kernels if (row := found.get((measure.id, kernel)))}
        if any(row.lines for row in mine.values()):
            entries = tuple(_entry(mine.get(k), placement, transport) for transport, k in columns)
            rows.append((_any_row(measure, mine), entries))
    return KernelTable(pattern, size, placement, columns, tuple(rows))


def _transport_order(transport: str) -> tuple[int, str]:
    return order(transport, FIRST_TRANSPORTS)


def _any_row(measure: Measure, rows: dict[str, Row]) -> Row:
    return next((row for row in rows.values() if row.lines), Row(measure, ()))


def _entry(row: Row | None, placement: str, transport: str) -> Entry | None:
    """The best source's figure; None where this kernel did not measure it."""
    for line in row.lines if row else ():
        if entry := line.entries.get((placement, transport)):
            return entry
    return None


def _changes(tidy: pd.DataFrame, kernels: list[str]) -> tuple[FunctionChange, ...]:
    rows = tidy[tidy["valid"] & (tidy["instrument"] == "ftrace")]
    rows = rows[rows["value"] >= round_trips(rows)]
    if rows.empty:
        return ()
    pattern, size, placement = all_conditions(rows)[0]
    same = (rows["pattern"] == pattern) & (rows["size"] == size)
    rows = rows[same & (rows["placement"] == placement)]
    changes = []
    for transport in sorted({str(t) for t in rows["transport"]}, key=_transport_order):
        hit = {
            kernel: {str(key) for key in group["key"]}
            for kernel, group in rows[rows["transport"] == transport].groupby("kernel")
        }
        traced = [kernel for kernel in kernels if kernel in hit]
        for older, newer in pairwise(traced):
            changes.append(
                FunctionChange(
                    transport,
                    older,
                    newer,
                    tuple(sorted(hit[newer] - hit[older])),
                    tuple(sorted(hit[older] - hit[newer])),
                )
            )
    return tuple(changes)
