# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernel functions a message calls, by transport: as ftrace counted them, or exact mode."""

from dataclasses import dataclass

import pandas as pd

from analysis.conditions import KernelKey, KernelWorkload
from analysis.counts.ledger import all_conditions, in_conditions, transport_order
from analysis.counts.measures import groups, round_trips
from analysis.exact.cells import DEFAULT

TOP = 24
EXACT_TARGET = f"exact-{DEFAULT}"  # guests use the default scheduler


@dataclass(frozen=True)
class FunctionTable(KernelWorkload):
    """Functions of one set of conditions on one kernel."""

    transports: tuple[str, ...]
    # Name, calls a message by transport, the most called first: of the first table all of them.
    top: tuple[tuple[str, tuple[float, ...]], ...]
    shared: int  # hit on every transport
    only: dict[str, tuple[str, ...]]  # transport → functions hit on it alone


def function_tables(tidy: pd.DataFrame) -> tuple[FunctionTable, ...]:
    """One table for each kernel and conditions, valid runs only."""
    rows = called(tidy)
    # A function belongs to a path when it is called at least once a round trip.
    hit = rows["value"] >= round_trips(rows)
    rows = rows.assign(per_message=rows["value"] / rows["messages"], hit=hit)
    tables: list[FunctionTable] = []
    for kernel, group in groups(rows, "target", "kernel"):
        for conditions in all_conditions(group):
            where = (*conditions, *kernel)
            tables.append(_table(in_conditions(group, conditions), TOP if tables else None, where))
    return tuple(tables)


def called(tidy: pd.DataFrame) -> pd.DataFrame:
    """The rows with calls of all functions: ftrace's, else exact mode's of the same kernel."""
    rows = tidy[tidy["valid"] & (tidy["quantity"] == "function_calls")]
    traced = rows[rows["instrument"] == "ftrace"]
    watched = set(traced.loc[traced["target"] == "guest", "kernel"])
    counted = (rows["target"] == EXACT_TARGET) & ~rows["kernel"].isin(watched)
    return pd.concat([traced, rows[counted]])


def _table(rows: pd.DataFrame, top: int | None, where: KernelKey) -> FunctionTable:
    names = sorted(set(rows["transport"]), key=transport_order)
    calls = rows.pivot_table("per_message", "key", "transport", aggfunc="median", fill_value=0.0)[
        names
    ]
    hit = rows[rows["hit"]]
    on = {name: set(hit[hit["transport"] == name]["key"]) for name in names}
    most = calls.assign(most=calls.max(axis=1)).reset_index()
    most = most.sort_values(["most", "key"], ascending=[False, True])[:top]
    called = (
        (name, tuple(values)) for name, *values in most[["key", *names]].itertuples(index=False)
    )
    only = {
        name: tuple(sorted(on[name].difference(*(on[other] for other in names if other != name))))
        for name in names
    }
    shared = len(set.intersection(*on.values())) if len(names) > 1 else 0
    return FunctionTable(
        *where, transports=tuple(names), top=tuple(called), shared=shared, only=only
    )
