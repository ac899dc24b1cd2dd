# SPDX-License-Identifier: GPL-2.0-or-later
"""Do instruments that measured the same thing say the same?

Compared are instruments that watched the same cell run, event for event. Where two counts differ,
`reasons.tsv` says by how much each may be off and why; any other difference is unexplained.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.counts.measures import ELSEWHERE, MACHINE_WIDE, WORKLOAD, is_time, rows_of
from probes.files import read_rows, typed
from probes.transports import forwarded, read_transports

# Two figures agree when they differ by no more than one of these, or when the reason is known.
WITHIN_SHARE = 0.01
WITHIN_PER_MESSAGE = 0.01
WHOLE_MACHINE = ", whole machine"  # after a key: with what ran outside the two processes
LEAST_EVENT = 0.5  # counts are whole; medians of an even number of runs need not be
WINDOWS = ("target", "kernel", *WORKLOAD)
COMPARED_CELL = (*WINDOWS, "transport", "quantity", "key")
# `messages` includes partial calls for a probe; validity compares it. The rest has one source.
INSTRUMENTS = ("kernel", "bpftrace", "bcc", "perf")
NOT_COMPARED = ("messages", "payload_bytes", "lost", "missed", "wakeup_stacks", "program_runs")
PAGE_SIZE = 4096
REASONS = Path(__file__).with_name("reasons.tsv")


def df_pairs(tidy: pd.DataFrame) -> pd.DataFrame:
    """Two instruments on one quantity of one cell, those that disagree first.

    Columns: those of CELL; first and second, the instruments; first_value and second_value, per
    message, in the run where they are furthest apart; apart, as a share of the larger; runs;
    equal, in every run to the event; agree; why they differ, where that is known; unexplained.
    """
    times = filter(is_time, tidy["quantity"].unique())
    rows = tidy[
        tidy["valid"]
        & ~tidy["quantity"].isin([*NOT_COMPARED, *times])
        & tidy["instrument"].isin(INSTRUMENTS)
        # perf follows the third process too, the probes count the two ends.
        & ~((tidy["instrument"] == "perf") & tidy["transport"].isin(forwarded()))
    ]
    runs = _differences(_by_instrument(rows))
    ones, others = (runs[name] / runs["messages"] for name in ("first_value", "second_value"))
    difference, larger = (ones - others).abs(), np.maximum(ones.abs(), others.abs())
    runs = runs.assign(
        first_value=ones,
        second_value=others,
        difference=difference,
        close=(difference <= WITHIN_PER_MESSAGE) | (difference <= WITHIN_SHARE * larger),
        apart=(difference / larger).fillna(0.0),
    ).reset_index(drop=True)
    groups = runs.groupby([*COMPARED_CELL, "first", "second"], sort=False)
    pairs = runs.loc[groups["difference"].idxmax()].reset_index(drop=True)
    unknown = groups["unknown"].any().to_numpy()
    reasons = [dict.fromkeys(filter(None, whys)) for _, whys in groups["why"]]
    pairs = pairs.assign(
        runs=groups.size().to_numpy(),
        equal=~groups["differs"].any().to_numpy(dtype=bool),
        why=["" if known else "; ".join(why) for known, why in zip(unknown, reasons, strict=True)],
        agree=groups["close"].all().to_numpy() | ~unknown,
        unexplained=unknown,
    )
    by = ["agree", "apart", "quantity", "key", "transport"]
    return pairs.sort_values(by, ascending=[True, False, True, True, True], kind="stable")


def _by_instrument(rows: pd.DataFrame) -> pd.DataFrame:
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
    index = [*COMPARED_CELL, "repeat", "cell", "messages"]
    return table.pivot_table("value", index, "instrument", aggfunc="sum")


def _differences(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each run and each two instruments that counted it: first and second, their values,
    whether they differ, why ("" where that is unknown too), and whether it is unknown.
    """
    present = [name for name in INSTRUMENTS if name in table]
    pairs = [
        table[list(names)]
        .dropna()
        .set_axis(["first_value", "second_value"], axis=1)
        .reset_index()
        .assign(first=names[0], second=names[1])
        for names in combinations(present, 2)
    ]
    columns = [*COMPARED_CELL, "messages", "first", "second", "first_value", "second_value"]
    found = [pair for pair in pairs if len(pair)] or [pd.DataFrame(columns=columns)]
    runs = pd.concat(found, ignore_index=True)[columns]
    whys = [
        explain(
            (row.first, row.second),
            row.first_value - row.second_value,
            row.messages,
            (row.quantity, row.key.removesuffix(WHOLE_MACHINE)),
            row._asdict(),
        )
        if abs(row.first_value - row.second_value) >= LEAST_EVENT
        else ""
        for row in rows_of(runs)
    ]
    return runs.assign(
        differs=np.array([why != "" for why in whys], dtype=bool),
        why=np.array([why or "" for why in whys], dtype=object),
        unknown=np.array([why is None for why in whys], dtype=bool),
    ).astype({"first_value": float, "second_value": float, "messages": float})


class Leeway(NamedTuple):
    """How far an instrument's count of a window may be from what happened in it.

    `key` and `only` are empty where they do not matter; `only` names kernels by their series,
    patterns, transports, checks of their paths, or `large`: messages of more than a page.
    """

    instrument: str
    quantity: str
    key: str
    only: str
    least: float
    most: float
    each: float
    why: str

    def holds(self, instrument: str, what: tuple[str, str], cell: Mapping[str, Any]) -> bool:
        quantity, key = what
        if (instrument, quantity) != (self.instrument, self.quantity) or self.key not in ("", key):
            return False
        known = {cell["pattern"], cell["transport"], *read_transports()[cell["transport"]].checks}
        known |= {"large"} if cell["size"] > PAGE_SIZE else set()
        names = self.only.split()
        return not names or any(n in known or cell["kernel"].startswith(f"{n}.") for n in names)


LEEWAYS = tuple(Leeway(**typed(Leeway, row)) for row in read_rows(REASONS))


def explain(
    names: tuple[str, str],
    difference: float,
    messages: int,
    what: tuple[str, str],
    cell: Mapping[str, Any],
) -> str | None:
    """Why the first count is `difference` events above the second; None if nobody knows.

    `cell` has the kernel, the pattern, the transport and the size.
    """
    firsts, seconds = ([r for r in LEEWAYS if r.holds(name, what, cell)] for name in names)
    # The fewest reasons that are enough: one instrument's, the other's, or both.
    for ones, others in ((firsts, []), ([], seconds), (firsts, seconds)):
        low, high = _bounds(ones, messages)
        least, most = _bounds(others, messages)
        if low - most <= difference <= high - least:
            return "; ".join(dict.fromkeys(reason.why for reason in (*ones, *others)))
    return None


def _bounds(reasons: Sequence[Leeway], messages: int) -> tuple[float, float]:
    """Together they allow as much as each of them does."""
    low = min((r.least - r.each * messages for r in reasons), default=0.0)
    high = max((r.most + r.each * messages for r in reasons), default=0.0)
    return low, high
