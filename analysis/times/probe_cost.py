# SPDX-License-Identifier: GPL-2.0-or-later
"""What probes cost: each probed cell beside its unprobed control."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from analysis.counts.ledger import in_reading_order, order, ordered
from analysis.counts.measures import CELL, HARDWARE, PROBES, round_trips
from analysis.statistics import Estimate, mean
from analysis.times.timing import Times
from probes.cell import ROUND_TRIP_PATTERNS

ATTACHED = ("instruments", "scripts")


def probe_costs(
    tidy: pd.DataFrame,
    probes: Mapping[tuple[str, int], tuple[str, str]],
    folders: Mapping[tuple[str, str], str],
    timings: Iterable[Times],
) -> pd.DataFrame:
    """Each probed cell beside its unprobed control, one instrument alone first; times on the host.

    `probes` says what was attached, instruments and scripts, by (folder, cell), `folders` the
    folder of (target, kernel). Columns: those of CELL and ATTACHED; rtt and switches, _without and
    _with: Estimates over repeats (rtt: rtt_without of `timings`, rtt_with the trimmed mean, lowest,
    highest; switches: median, lowest, highest), or None; added, nanoseconds a message; resolved,
    whether the range with probes and the interval without lie apart; events, for each message by
    instrument (runs of BPF programs by the kernel's statistics; perf has no program: what it
    counted); added_per_event.
    """
    rows = tidy[tidy["valid"] & tidy["pattern"].isin(ROUND_TRIP_PATTERNS)]
    cells = zip(rows["target"], rows["kernel"], rows["cell"], strict=True)
    attached = [probes[folders[target, kernel], cell] for target, kernel, cell in cells]
    rows = rows.assign(**{name: [pair[i] for pair in attached] for i, name in enumerate(ATTACHED)})
    key = [*CELL, *ATTACHED]
    # p50, which the tail of a busy machine does not move.
    p50 = rows[(rows["quantity"] == "rtt_ns") & (rows["key"] == "p50")]
    # The kernel's own count, both kinds.
    switches = rows[(rows["quantity"] == "switches") & (rows["instrument"] == "kernel")]
    switches = switches.assign(value=switches["value"] / round_trips(switches))
    switches = switches.groupby([*key, "repeat", "cell"])["value"].sum().reset_index()
    costs = pd.DataFrame(
        {
            "rtt": _over_repeats(p50.groupby(key)["value"], lambda ns: mean(ns.to_numpy()).value),
            "switches": _over_repeats(switches.groupby(key)["value"], "median"),
        }
    ).reset_index()
    events = _events(rows, key)
    counted = [events.get(cell) for cell in costs[key].itertuples(index=False, name=None)]
    costs["events"] = pd.Series(counted, dtype=object)
    control = costs["instruments"].eq("") & costs["scripts"].eq("")
    known = {(t.pattern, t.size, t.conditions, "host", t.kernel, t.transport): t for t in timings}
    controls = costs.loc[control, list(CELL)].itertuples(index=False, name=None)
    times = [found.p50 if (found := known.get(cell[:6])) else None for cell in controls]
    costs.loc[control, "rtt"] = pd.Series(times, costs.index[control], object)
    costs = (
        costs[~control]
        .merge(
            costs.loc[control, [*CELL, "rtt", "switches"]],
            "left",
            list(CELL),
            suffixes=("_with", "_without"),
        )
        .astype(object)
    )
    costs = costs.where(costs.notna(), None)
    pairs = list(zip(costs["rtt_with"], costs["rtt_without"], strict=True))
    added = [(a.value - b.value) / 2 if a and b else None for a, b in pairs]  # two messages
    costs["resolved"] = [bool(a and b and _apart(a, b)) for a, b in pairs]
    each = [
        more / sum(seen.values())
        if seen and any(seen.values()) and resolved and more and more > 0
        else None
        for more, resolved, seen in zip(added, costs["resolved"], costs["events"], strict=True)
    ]
    costs["added"] = pd.Series(added, dtype=object)
    costs["added_per_event"] = pd.Series(each, dtype=object)
    costs = in_reading_order(costs)
    names = [each.split(", ") for each in costs["instruments"]]
    return ordered(
        costs,
        zip(
            costs["target"],
            costs["kernel"],
            costs["pattern"],
            costs["size"],
            map(len, names),
            (order(first[0], PROBES) for first in names),
            costs["scripts"],
            strict=True,
        ),
    )


def _apart(one: Estimate, other: Estimate) -> bool:
    return one.ends[0] > other.ends[1] or one.ends[1] < other.ends[0]


def _over_repeats(groups: Any, middle: Any) -> "pd.Series[Any]":
    table = groups.agg([middle, "min", "max", "size"])
    return pd.Series([Estimate(*row) for row in table.itertuples(index=False)], table.index, object)


def _events(rows: pd.DataFrame, key: list[str]) -> dict[Any, dict[Any, float]]:
    """Events per message of each instrument's programs, over all repeats."""
    by = [*key, "instrument"]
    runs = rows[rows["quantity"] == "program_runs"]
    perf = rows[(rows["instrument"] == "perf") & (rows["unit"] == "count")]
    perf = perf[~perf["quantity"].isin(HARDWARE)]
    # A cell has a row for each of perf's counters, and its messages once.
    messages = pd.concat([runs, perf.drop_duplicates([*key, "cell"])]).groupby(by)["messages"].sum()
    events = pd.concat([runs, perf]).groupby(by)["value"].sum() / messages
    groups = events.reset_index("instrument").groupby(level=key)
    return {cell: dict(each.to_numpy().tolist()) for cell, each in groups}
