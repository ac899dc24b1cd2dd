# SPDX-License-Identifier: GPL-2.0-or-later
"""Do instruments that measured the same thing say the same?

Compared are instruments that watched the same cell run, event for event; and probing instruments
that cannot run together (bpftrace and ftrace) over runs of the same cell. Where two counts differ,
`reasons.tsv` says by how much each may be off and why; a difference that it does not cover is
unexplained, and is shown as that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.conditions import KernelKey, KernelWorkload
from analysis.counts.ledger import transport_order
from analysis.counts.measures import WORKLOAD, groups
from analysis.counts.quantities import ELSEWHERE, MACHINE_WIDE, TIMES
from analysis.counts.reasons import explain
from analysis.wording import listed
from probes.transports import forwarded

# Two figures agree when they differ by no more than one of these, or when the reason is known.
WITHIN_SHARE = 0.01
WITHIN_PER_MESSAGE = 0.01
WHOLE_MACHINE = ", whole machine"  # after a key: with what ran outside the two processes
LEAST_EVENT = 0.5  # counts are whole; medians of an even number of runs need not be
CELL = ("target", "kernel", *WORKLOAD, "transport", "quantity", "key")
# `messages` includes partial calls for a probe; validity compares it. The rest has one source.
INSTRUMENTS = ("kernel", "bpftrace", "bcc", "perf", "ftrace")
APART = ("bpftrace", "ftrace")
NOT_COMPARED = (
    *("messages", "payload_bytes", "lost", "missed", "wakeup_stacks"),
    *("program_runs", "program_ns"),
)


@dataclass(frozen=True)
class Compared(KernelWorkload):
    """Two instruments on one quantity of one cell, per message."""

    quantity: str
    key: str
    transport: str
    first: str
    second: str
    first_value: float
    second_value: float
    runs: int
    together: bool  # in the same cell runs; else in different runs of the same cell
    equal: bool
    why: str  # why they differ, where that is known
    agree: bool

    @property
    def apart(self) -> float:
        """How far they are apart, as a share of the larger."""
        larger = max(abs(self.first_value), abs(self.second_value))
        return abs(self.first_value - self.second_value) / larger if larger else 0.0

    @property
    def unexplained(self) -> bool:
        return not (self.equal or self.why)


class QuantityCounts(NamedTuple):
    """What each instrument counted over one window: in the run where the instruments differ most,
    and of several such runs in the one that most of them watched."""

    by: dict[str, int]
    equal: bool
    why: tuple[str, ...]
    unexplained: bool


@dataclass(frozen=True)
class Agreement(KernelWorkload):
    """Quantity by instrument, for each transport of one set of conditions on one kernel."""

    messages: int
    instruments: dict[str, tuple[str, ...]]  # transport → its columns
    rows: tuple[tuple[str, str, dict[str, QuantityCounts]], ...]  # quantity, key, by transport

    @staticmethod
    def remarks(by: dict[str, QuantityCounts]) -> list[tuple[str, str]]:
        """(of which transports, why they differ); an empty reason is one that nobody knows."""
        found: dict[str, list[str]] = {}
        for transport, counts in by.items():
            for why in (*(("",) if counts.unexplained else ()), *counts.why):
                found.setdefault(why, []).append(transport)
        return [(listed(names), why) for why, names in found.items()]

    @property
    def figures(self) -> list[QuantityCounts]:
        return [counts for _, _, by in self.rows for counts in by.values()]


def compare(tidy: pd.DataFrame) -> tuple[Compared, ...]:
    """All comparisons that valid cells allow, those that disagree first."""
    rows = _comparable(tidy)
    found = [*_pairs(_together(rows), INSTRUMENTS, together=True), *_apart(rows)]
    found.sort(key=lambda p: (p.agree, not p.together, -p.apart, p.quantity, p.key, p.transport))
    return tuple(found)


def agreements(tidy: pd.DataFrame) -> tuple[Agreement, ...]:
    """For each kernel and conditions: the quantities that two instruments counted in one run."""
    table = _together(_comparable(tidy))
    table = table[table.notna().sum(axis=1) > 1]
    if table.empty:
        return ()
    cells = groups(table, "target", "kernel", *WORKLOAD)
    return tuple(_agreement((*key[2:], *key[:2]), group) for key, group in cells)


def _comparable(tidy: pd.DataFrame) -> pd.DataFrame:
    return tidy[
        tidy["valid"]
        & ~tidy["quantity"].isin(NOT_COMPARED)
        & tidy["instrument"].isin(INSTRUMENTS)
        & ~tidy["quantity"].isin(TIMES)
        # perf follows the third process too, the probes count the two ends.
        & ~((tidy["instrument"] == "perf") & tidy["transport"].isin(forwarded()))
    ]


def _together(rows: pd.DataFrame) -> pd.DataFrame:
    """Counts by instrument in one cell run.

    Where probes tell what ran elsewhere, a counter of the whole machine is compared with all that
    they saw, in a row of its own; perf, which sees the two processes' contexts, with the rest.
    """
    elsewhere = rows["key"].str.endswith(ELSEWHERE)
    rows = rows.assign(key=rows["key"].str.removesuffix(ELSEWHERE))
    # A probe on tcp_transmit_skb sees a segment each time; the kernel counts it apart when it is
    # sent again.
    again = rows["quantity"].eq("segments") & rows["key"].eq("again")
    rows.loc[again, "key"] = "data"
    counted = pd.Series(list(zip(rows["quantity"], rows["key"], strict=True)), rows.index)
    split = rows["quantity"].isin(MACHINE_WIDE) & counted.isin(counted[elsewhere])
    kernel, perf = (rows["instrument"] == name for name in ("kernel", "perf"))
    whole = rows[split & ~perf]
    own = rows[~elsewhere & ~(split & kernel)]
    table = pd.concat([own, whole.assign(key=whole["key"] + WHOLE_MACHINE)])
    index = [*CELL, "repeat", "cell", "messages"]
    return table.pivot_table("value", index, "instrument", aggfunc="sum")


def _apart(rows: pd.DataFrame) -> Iterator[Compared]:
    """bpftrace and ftrace watch different runs of a cell: compare their medians over repeats."""
    rows = rows[rows["instrument"].isin(APART)]
    traced_messages = rows[rows["instrument"] == "ftrace"]["messages"]
    if traced_messages.empty:
        return
    rows = rows.assign(value=rows["value"] / rows["messages"])
    table = rows.pivot_table("value", list(CELL), "instrument", aggfunc="median")
    if not set(APART) <= set(table.columns):
        return
    watched, counted, traced = (
        table.groupby(level=level)[name].transform("count") > 0
        for name, level in (
            ("bpftrace", ["target", "kernel", "quantity", "key"]),
            ("bpftrace", ["target", "kernel", *WORKLOAD, "transport", "quantity"]),
            ("ftrace", ["target", "kernel", *WORKLOAD, "transport", "quantity"]),
        )
    )
    # A function that an instrument watched and did not see called was called 0 times. Both are
    # taken as counts, whole ones, of the tracer's short window, in which its edges weigh.
    few = int(traced_messages.min())
    table = table[watched & counted & traced].fillna(0.0).mul(few).round()
    table = table.assign(repeat=0, cell=0, messages=few)
    table = table.set_index(["repeat", "cell", "messages"], append=True)
    yield from _pairs(table, APART, together=False)


def _pairs(
    table: pd.DataFrame, instruments: tuple[str, ...], *, together: bool
) -> Iterator[Compared]:
    present = [name for name in instruments if name in table.columns]
    for names in combinations(present, 2):
        for cell, runs in groups(table[list(names)].dropna(), *CELL):
            yield _pair(runs, names, dict(zip(CELL, cell, strict=True)), together)


def _pair(
    runs: pd.DataFrame, names: tuple[str, str], cell: dict[str, Any], together: bool
) -> Compared:
    """The run in which the two are furthest apart, per message, speaks for all."""
    messages = runs.index.get_level_values("messages").to_numpy()
    ones, others = (runs[name].to_numpy() / messages for name in names)
    difference = np.abs(ones - others)
    larger = np.maximum(np.abs(ones), np.abs(others))
    close = (difference <= WITHIN_PER_MESSAGE) | (difference <= WITHIN_SHARE * larger)
    whys = _whys(runs, names, cell)
    worst = int(difference.argmax())
    return Compared(
        first=names[0],
        second=names[1],
        first_value=float(ones[worst]),
        second_value=float(others[worst]),
        runs=len(runs),
        together=together,
        equal=bool((difference < LEAST_EVENT / messages).all()),
        why="" if None in whys else "; ".join(dict.fromkeys(filter(None, whys))),
        agree=bool(close.all()) or None not in whys,
        **cell,
    )


def _whys(runs: pd.DataFrame, names: tuple[str, str], cell: dict[str, Any]) -> list[str | None]:
    """For each run in which the two differ why they do; None where nobody knows."""
    whys: list[str | None] = []
    for index, first, second in runs[list(names)].itertuples():
        difference = float(first - second)
        if abs(difference) >= LEAST_EVENT:
            messages = int(index[-1])
            what = (cell["quantity"], cell["key"].removesuffix(WHOLE_MACHINE))
            whys.append(explain(names, difference, messages, what, cell))
    return whys


def _agreement(conditions: KernelKey, group: pd.DataFrame) -> Agreement:
    rows: dict[tuple[str, str], dict[str, QuantityCounts]] = {}
    for cell, runs in groups(group, *CELL):
        named = dict(zip(CELL, cell, strict=True))
        counts = _counts(runs[_present(runs)], named)
        rows.setdefault((named["quantity"], named["key"]), {})[named["transport"]] = counts
    transports = {name: _present(runs) for (name,), runs in groups(group, "transport")}
    return Agreement(
        *conditions,
        messages=int(group.index.get_level_values("messages").max()),
        instruments={
            name: tuple(transports[name]) for name in sorted(transports, key=transport_order)
        },
        rows=tuple((*what, by) for what, by in sorted(rows.items())),
    )


def _present(runs: pd.DataFrame) -> list[str]:
    return [name for name in INSTRUMENTS if name in runs and runs[name].notna().any()]


def _counts(runs: pd.DataFrame, cell: dict[str, Any]) -> QuantityCounts:
    spread = (runs.max(axis=1) - runs.min(axis=1)).to_numpy()
    counted = runs.notna().sum(axis=1).to_numpy()
    # Where runs differ equally, take the run that most instruments watched.
    worst = runs.iloc[max(range(len(runs)), key=lambda at: (spread[at], counted[at]))]
    whys = [
        why
        for first, second in combinations(runs.columns, 2)
        for why in _whys(runs[[first, second]].dropna(), (str(first), str(second)), cell)
    ]
    return QuantityCounts(
        by={str(name): round(float(value)) for name, value in worst.items() if value == value},
        equal=not whys,
        why=tuple(dict.fromkeys(why for why in whys if why)),
        unexplained=None in whys,
    )
