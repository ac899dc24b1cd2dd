# SPDX-License-Identifier: GPL-2.0-or-later
"""Several kernels, equal cells: what a message costs on each, and which functions changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import pandas as pd

from analysis.conditions import Workload
from analysis.counts.ledger import (
    Row,
    all_conditions,
    build_ledgers,
    in_conditions,
    transport_order,
    version,
)
from analysis.counts.measures import round_trips
from analysis.counts.quantities import MEASURES
from analysis.paths.functions import EXACT_TARGET, called
from analysis.raw.run import Missing, Run
from analysis.statistics import Estimate

TARGET = "guest"  # kernels are compared in guests: the host is one machine with one kernel


@dataclass(frozen=True)
class KernelTable(Workload):
    """The ledger of one set of conditions with a column for each transport and kernel."""

    columns: tuple[tuple[str, str], ...]  # transport, kernel
    rows: tuple[tuple[Row, tuple[Estimate | None, ...]], ...]


class FunctionChange(NamedTuple):
    """Functions hit on one kernel and not on the next one that ran, for one transport."""

    transport: str
    older: str
    newer: str
    appeared: tuple[str, ...]
    vanished: tuple[str, ...]


class Kernels(NamedTuple):
    """All kernels of a run side by side; empty where there is only one."""

    tables: tuple[KernelTable, ...] = ()
    changes: tuple[FunctionChange, ...] = ()


def compare_kernels(
    run: Run, figures: pd.DataFrame, tidy: pd.DataFrame, missing: Iterable[Missing]
) -> Kernels:
    """A table for each set of conditions, from `measures.over_repeats`; functions for the first."""
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
    in_guests = tidy[tidy["target"].isin([TARGET, EXACT_TARGET])]
    return Kernels(tables, _changes(in_guests, kernels))


def _table(
    figures: pd.DataFrame,
    conditions: tuple[str, int, str],
    kernels: list[str],
    missing: tuple[Missing, ...],
) -> KernelTable:
    here = in_conditions(figures, conditions)
    transports = sorted(set(here["transport"]), key=transport_order)
    columns = tuple((transport, kernel) for transport in transports for kernel in kernels)
    found: dict[tuple[str, str], Row] = {}
    for kernel in kernels:
        for ledger in build_ledgers(here[here["kernel"] == kernel], missing):
            found |= {(row.measure.id, kernel): row for row in ledger.once()}
    rows = []
    for measure in MEASURES:
        mine = {kernel: row for kernel in kernels if (row := found.get((measure.id, kernel)))}
        if measured := [row for row in mine.values() if row.lines]:
            entries = (_entry(mine.get(k), conditions[2], transport) for transport, k in columns)
            rows.append((measured[0], tuple(entries)))
    return KernelTable(*conditions, columns, tuple(rows))


def _entry(row: Row | None, conditions: str, transport: str) -> Estimate | None:
    """The best source's figure; None where this kernel did not measure it."""
    entries = (line.entries.get((conditions, transport)) for line in (row.lines if row else ()))
    return next(filter(None, entries), None)


def _changes(tidy: pd.DataFrame, kernels: list[str]) -> tuple[FunctionChange, ...]:
    rows = called(tidy)
    rows = rows[rows["value"] >= round_trips(rows)]
    if rows.empty:
        return ()
    rows = in_conditions(rows, all_conditions(rows)[0])
    changes = []
    for transport in sorted(set(rows["transport"]), key=transport_order):
        traced = rows[rows["transport"] == transport]
        hit = {k: set(traced[traced["kernel"] == k]["key"]) for k in kernels}
        for older, newer in pairwise(kernel for kernel in kernels if hit[kernel]):
            appeared, vanished = hit[newer] - hit[older], hit[older] - hit[newer]
            names = tuple(sorted(appeared)), tuple(sorted(vanished))
            changes.append(FunctionChange(transport, older, newer, *names))
    return tuple(changes)
