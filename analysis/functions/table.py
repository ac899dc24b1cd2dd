# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernel functions a message calls, by transport, as ftrace counted them."""

from dataclasses import dataclass

import pandas as pd

from analysis.counts.ledger import FIRST_TRANSPORTS, all_conditions, order
from analysis.counts.measures import round_trips

TOP = 24
# A function belongs to a path when it is called at least once a round trip.
FirstCalls = tuple[float, ...]


@dataclass(frozen=True)
class FunctionTable:
    """Functions of one set of conditions on one kernel."""

    pattern: str
    size: int
    placement: str
    target: str
    kernel: str
    transports: tuple[str, ...]
    # Name, calls a message by transport, the most called first: of the first table all of them.
    top: tuple[tuple[str, FirstCalls], ...]
    shared: int  # hit on every transport
    only: dict[str, tuple[str, ...]]  # transport → functions hit on it alone


def function_tables(tidy: pd.DataFrame) -> tuple[FunctionTable, ...]:
    """One table for each kernel and conditions that ftrace watched, valid runs only."""
    rows = tidy[tidy["valid"] & (tidy["instrument"] == "ftrace")]
    rows = rows.assign(
        per_message=rows["value"] / rows["messages"], hit=rows["value"] >= round_trips(rows)
    )
    tables: list[FunctionTable] = []
    for (target, kernel), group in rows.groupby(["target", "kernel"], sort=True):
        for pattern, size, placement in all_conditions(group):
            same = (group["pattern"] == pattern) & (group["size"] == size)
            found = group[same & (group["placement"] == placement)]
            most = TOP if tables else None
            tables.append(_table(found, most, pattern, size, placement, str(target), str(kernel)))
    return tuple(tables)


def _table(
    rows: pd.DataFrame,
    top: int | None,
    pattern: str,
    size: int,
    placement: str,
    target: str,
    kernel: str,
) -> FunctionTable:
    names = sorted({str(t) for t in rows["transport"]}, key=lambda t: order(t, FIRST_TRANSPORTS))
    calls = rows.pivot_table(
        index="key", columns="transport", values="per_message", aggfunc="median", fill_value=0.0
    )[names]
    hit = rows[rows["hit"]]
    on = {name: set(hit[hit["transport"] == name]["key"].astype(str)) for name in names}
    most = calls.assign(most=calls.max(axis=1)).reset_index()
    most = most.sort_values(["most", "key"], ascending=[False, True])[:top]
    called = tuple(
        (str(row["key"]), tuple(float(row[name]) for name in names)) for _, row in most.iterrows()
    )
    only = {
        name: tuple(sorted(on[name].difference(*(on[other] for other in names if other != name))))
        for name in names
    }
    shared = len(set.intersection(*on.values())) if len(names) > 1 else 0
    return FunctionTable(
        pattern, size, placement, target, kernel, tuple(names), called, shared, only
    )
