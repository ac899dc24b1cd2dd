# SPDX-License-Identifier: GPL-2.0-or-later
"""Do two instruments that measured the same thing say the same?

Compared are instruments that watched the same cell run (a probe and the kernel's own counters), and
probing instruments that cannot run together (bpftrace and ftrace) over runs of the same cell.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.measures import REGIME
from analysis.quantities import ELSEWHERE, MACHINE_WIDE

Values = npt.NDArray[np.float64]

# Two figures agree when they differ by no more than one of these. ftrace opens and closes its
# window for both processes at once, so that either can be inside a call at an edge.
WITHIN_SHARE = 0.01
WITHIN_PER_MESSAGE = 0.01
FTRACE_EDGES = 2.0  # calls, over a whole window
CELL = ("lane", "kernel", *REGIME, "transport", "quantity", "key")
# `messages` includes partial calls for a probe; soundness compares it. The rest has one source.
INSTRUMENTS = ("kernel", "bpftrace", "ftrace")
PROBES = ("bpftrace", "ftrace")
NOT_COMPARED = ("messages", "payload_bytes", "lost")


@dataclass(frozen=True)
class Comparison:
    """Two instruments on one quantity of one cell, per message."""

    quantity: str
    key: str
    transport: str
    pattern: str
    size: int
    placement: str
    lane: str
    kernel: str
    first: str
    second: str
    first_value: float
    second_value: float
    runs: int
    together: bool  # in the same cell runs; else in different runs of the same cell
    equal: bool
    agree: bool

    @property
    def apart(self) -> float:
        """How far they are apart, as a share of the larger."""
        larger = max(abs(self.first_value), abs(self.second_value))
        return abs(self.first_value - self.second_value) / larger if larger else 0.0


def compare(tidy: pd.DataFrame) -> tuple[Comparison, ...]:
    """All comparisons that sound cells allow, those that disagree first."""
    rows = tidy[tidy["sound"] & ~tidy["quantity"].isin(NOT_COMPARED)]
    rows = rows.assign(per_message=rows["value"] / rows["messages"])
    found = [*_same_run(rows), *_same_cell(rows)]
    return tuple(
        sorted(
            found, key=lambda c: (c.agree, not c.together, -c.apart, c.quantity, c.key, c.transport)
        )
    )


def _same_run(rows: pd.DataFrame) -> Iterator[Comparison]:
    """Instruments in one cell run; a machine-wide counter is compared with all that a probe saw."""
    own = ~rows["key"].str.endswith(ELSEWHERE)
    wide = rows["quantity"].isin(MACHINE_WIDE)
    rows = rows[own | wide].assign(key=rows["key"].str.removesuffix(ELSEWHERE))
    table = rows.pivot_table(
        index=[*CELL, "repeat", "cell"], columns="instrument", values="per_message", aggfunc="sum"
    )
    yield from _pairs(table, [name for name in INSTRUMENTS if name in table.columns], True)


def _same_cell(rows: pd.DataFrame) -> Iterator[Comparison]:
    """bpftrace and ftrace watch different runs of a cell: compare their medians over repeats."""
    rows = rows[rows["instrument"].isin(PROBES)]
    table = rows.pivot_table(
        index=list(CELL), columns="instrument", values="per_message", aggfunc="median"
    )
    if not set(PROBES) <= set(table.columns):
        return
    watched, traced = (
        table.groupby(level=level)[name].transform("count") > 0
        for name, level in (
            ("bpftrace", ["lane", "kernel", "quantity", "key"]),
            ("ftrace", ["lane", "kernel", *REGIME, "transport", "quantity"]),
        )
    )
    edges = FTRACE_EDGES / float(rows[rows["instrument"] == "ftrace"]["messages"].min())
    # A function that an instrument watched and did not see called was called 0 times.
    yield from _pairs(table[watched & traced].fillna(0.0), list(PROBES), False, edges)


def _pairs(
    table: pd.DataFrame, instruments: list[str], together: bool, edges: float = 0.0
) -> Iterator[Comparison]:
    for first, second in combinations(instruments, 2):
        both = table[[first, second]].dropna()
        for cell, runs in both.groupby(level=list(CELL), sort=True):
            named = dict(zip(CELL, cell, strict=True)) | {"together": together}
            ones, others = runs[first].to_numpy(), runs[second].to_numpy()
            yield _comparison(ones, others, first, second, edges, named)


def _comparison(
    ones: Values, others: Values, first: str, second: str, edges: float, cell: dict[str, Any]
) -> Comparison:
    """The run in which the two are furthest apart speaks for all."""
    difference = np.abs(ones - others)
    larger = np.maximum(np.abs(ones), np.abs(others))
    near = max(WITHIN_PER_MESSAGE, edges)
    close = (difference <= near) | (difference <= WITHIN_SHARE * larger)
    worst = int(difference.argmax())
    return Comparison(
        first=first,
        second=second,
        first_value=float(ones[worst]),
        second_value=float(others[worst]),
        runs=len(ones),
        equal=bool((difference == 0).all()),
        agree=bool(close.all()),
        **cell,
    )
