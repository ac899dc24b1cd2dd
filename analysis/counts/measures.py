# SPDX-License-Identifier: GPL-2.0-or-later
"""From totals over a window to what a reader asks for: per message, per round trip, per byte."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from analysis.counts.quantities import (
    ELSEWHERE,
    MEASURE_BY_ID,
    MEASURES,
    ROUND_TRIP_PATTERNS,
    TIMES,
    Measure,
)
from analysis.wording import listed

# The conditions of a figure, and where it comes from.
CONDITIONS = ("pattern", "size", "placement")
SOURCE = ("instrument", "target", "kernel", "probe_level", "probed")
# Of probes on one probe level: whose figure stands first. perf's window is one for both processes.
PROBES = ("bpftrace", "bcc", "perf", "ftrace")
# `calls:FUNCTION` asks for a kernel function's calls a message, `calls:ONE+OTHER` for their sum.
CALLS = "calls:"
RUN_OF_CELL = (*CONDITIONS, "transport", "repeat", "cell", *SOURCE, "messages", "valid")


def measure_of(name: str) -> Measure | None:
    """The measure of that name; of calls of functions, one made for it."""
    if not name.startswith(CALLS):
        return MEASURE_BY_ID.get(name)
    functions = tuple(name.removeprefix(CALLS).split("+"))
    words = f"calls of {listed(list(functions))}"
    return Measure(name, words, "function_calls", "message", functions) if all(functions) else None


def measure_all(tidy: pd.DataFrame, asked: Iterable[str] = ()) -> pd.DataFrame:
    """One row for each measure, cell run and instrument; `asked` names calls of functions.

    Columns: `measure`, `value` and those of RUN_OF_CELL.
    """
    runs = tidy.groupby(list(RUN_OF_CELL), sort=True)
    tidy = tidy.assign(run=runs.ngroup())  # one number for all of RUN_OF_CELL: grouped by it often
    by_quantity = {str(quantity): rows for quantity, rows in tidy.groupby("quantity")}
    measured = (one for one in MEASURES if one.quantity in by_quantity)
    frames = [_measure(by_quantity, measure) for measure in measured]
    calls = (
        one for name in sorted(set(asked)) if name.startswith(CALLS) and (one := measure_of(name))
    )
    frames += [_calls(tidy, measure) for measure in calls]
    kept = [frame for frame in frames if not frame.empty]
    if not kept:
        return pd.DataFrame(columns=["measure", *RUN_OF_CELL, "value"])
    return pd.concat(kept, ignore_index=True)


def _measure(by_quantity: dict[str, pd.DataFrame], measure: Measure) -> pd.DataFrame:
    rows = by_quantity[measure.quantity]
    if measure.keys:
        rows = rows[rows["key"].isin(measure.keys)]
    else:
        rows = rows[~rows["key"].str.endswith(ELSEWHERE)]
    if measure.instrument:
        rows = rows[rows["instrument"] == measure.instrument]
    if measure.quantity in TIMES:
        rows = rows[~rows["probed"].astype(bool)]
    if measure.per == "round trip" or measure.hit:
        rows = rows[rows["pattern"].isin(ROUND_TRIP_PATTERNS)]
    if measure.hit:
        rows = rows[rows["value"] >= round_trips(rows)]
    sums = rows.groupby("run")["value"].agg(["sum", "count"])
    totals = rows.drop_duplicates("run").set_index("run").loc[sums.index, list(RUN_OF_CELL)]
    totals = totals.join(sums).reset_index(drop=True)
    if measure.keys:
        totals = totals[totals["count"] == len(measure.keys)]
    if measure.over:
        totals = _over(totals, by_quantity.get(measure.over, rows.iloc[:0]))
    counted = "count" if measure.hit == "number" else "sum"
    return totals.assign(
        measure=measure.id, value=totals[counted] / _divisor(totals, measure)
    ).drop(columns=["sum", "count"])


def _calls(tidy: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Calls of functions that the instrument watched: 0 in a cell that did not call one of them.

    Whoever lists what was called leaves out what was not, so a function counts as watched where the
    same instrument saw it on the same kernel at all, in whatever cell.
    """
    rows = tidy[tidy["quantity"] == measure.quantity]
    found = []
    for _, traced in rows.groupby(["instrument", "target", "kernel"], sort=True):
        if set(measure.keys) <= set(traced["key"]):
            value = traced["value"].where(traced["key"].isin(measure.keys), 0.0)
            found.append(
                traced.assign(value=value).groupby(list(RUN_OF_CELL), sort=True)["value"].sum()
            )
    if not found:
        return pd.DataFrame()
    totals: pd.DataFrame = pd.concat(found).reset_index()
    return totals.assign(measure=measure.id, value=totals["value"] / totals["messages"])


def _over(totals: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Divided by what the same instrument counted of another quantity in the same run."""
    by = list(RUN_OF_CELL)
    others = rows.groupby(by, sort=True)["value"].sum().rename("other").reset_index()
    both = totals.merge(others[others["other"] > 0], on=by)
    return both.assign(sum=both["sum"] / both["other"]).drop(columns="other")


def round_trips(rows: pd.DataFrame) -> "pd.Series[float]":
    """A round trip is two messages."""
    return rows["messages"] / 2


def _divisor(rows: pd.DataFrame, measure: Measure) -> Any:
    if measure.per == "round trip":
        return round_trips(rows)
    if measure.per == "payload byte":
        return rows["messages"] * rows["size"]
    return rows["messages"] if measure.per == "message" else 1


def over_repeats(measured: pd.DataFrame) -> pd.DataFrame:
    """Median, lowest and highest over repeats; valid repeats only, where there is one.

    Columns: `measure`, the conditions, `transport`, the source, `value`, `low`, `high`, `repeats`,
    `valid`.
    """
    by = ["measure", *CONDITIONS, "transport", *SOURCE]
    any_valid = measured.groupby(by)["valid"].transform("any")
    used = measured[measured["valid"] | ~any_valid.astype(bool)]
    return (
        used.groupby(by, sort=True)
        .agg(
            value=("value", "median"),
            low=("value", "min"),
            high=("value", "max"),
            repeats=("value", "size"),
            valid=("valid", "all"),
        )
        .reset_index()
    )


def source_rank(measure: Measure, row: Any) -> tuple[int, ...]:
    """How good a source is for a measure; lower is better.

    Counts: the strongest probes first, then the kernel's own counters. What a probe changes by
    being there (switches, times) is taken from undisturbed runs of the host first.
    """
    probe = row.instrument not in ("kernel", "workload")
    by = PROBES.index(row.instrument) if row.instrument in PROBES else len(PROBES)
    probe_level = ("function", "tracepoint", "counters").index(row.probe_level)
    host = 0 if row.target == "host" else 1
    if measure.undisturbed:
        return (int(row.probed), host, int(probe), probe_level, by)
    return (int(not probe), probe_level if probe else 0, int(row.probed), host, by)


def best_source(rows: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """The rows of one measure and conditions that come from the best source."""
    groups = [group for _, group in rows.groupby(list(SOURCE), sort=True)]
    return min(groups, key=lambda group: source_rank(measure, group.iloc[0]))
