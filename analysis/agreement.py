"""Do two instruments that measured the same thing say the same?

Compared are instruments that watched the same cell run (a probe and the kernel's own counters), and
probing instruments that cannot run together (bpftrace and ftrace) over runs of the same cell.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import pandas as pd

from analysis.measures import REGIME
from analysis.quantities import ELSEWHERE, MACHINE_WIDE

# Two figures agree when they differ by no more than either of these.
WITHIN_SHARE = 0.01
WITHIN_PER_MESSAGE = 0.01
CELL = ("lane", "kernel", *REGIME, "transport", "quantity", "key")
# `messages` includes partial calls for a probe; soundness compares it. The rest has one source.
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
    return tuple(sorted(found, key=lambda c: (c.agree, -c.apart, c.quantity, c.key, c.transport)))


def _same_run(rows: pd.DataFrame) -> Iterator[Comparison]:
    """Instruments in one cell run; a machine-wide counter is compared with all that a probe saw."""
    own = ~rows["key"].str.endswith(ELSEWHERE)
    wide = rows["quantity"].isin(MACHINE_WIDE)
    rows = rows[own | wide].assign(key=rows["key"].str.removesuffix(ELSEWHERE))
    wanted = ["kernel", "bpftrace", "ftrace"]
    by = [*CELL, "repeat", "cell"]
    table = rows.pivot_table(index=by, columns="instrument", values="per_message", aggfunc="sum")
    yield from _pairs(table, [name for name in wanted if name in table.columns])


def _same_cell(rows: pd.DataFrame) -> Iterator[Comparison]:
    """bpftrace and ftrace watch different runs of a cell: compare their medians over repeats."""
    rows = rows[rows["instrument"].isin(["bpftrace", "ftrace"])]
    table = rows.pivot_table(
        index=list(CELL), columns="instrument", values="per_message", aggfunc="median"
    )
    if not {"bpftrace", "ftrace"} <= set(table.columns):
        return
    watched = table.groupby(level=["lane", "kernel", "quantity", "key"])["bpftrace"].transform("any")
    traced = table.groupby(level=["lane", "kernel", *REGIME, "transport"])["ftrace"].transform("any")
    # A function that an instrument watched and did not see called was called 0 times.
    yield from _pairs(table[watched & traced].fillna(0.0), ["bpftrace", "ftrace"])


def _pairs(table: pd.DataFrame, instruments: list[str]) -> Iterator[Comparison]:
    for first, second in combinations(instruments, 2):
        both = table[[first, second]].dropna()
        for cell, runs in both.groupby(level=list(CELL), sort=True):
            lane, kernel, pattern, size, placement, transport, quantity, key = map(str, cell)
            yield _comparison(
                runs, first, second,
                quantity=quantity, key=key, transport=transport, pattern=pattern, size=int(size),
                placement=placement, lane=lane, kernel=kernel,
            )  # fmt: skip


def _comparison(
    runs: pd.DataFrame, first: str, second: str, **cell: str | int
) -> Comparison:
    """The run in which the two are furthest apart decides."""
    difference = (runs[first] - runs[second]).abs()
    share = difference / runs[[first, second]].abs().max(axis=1)
    worst = difference.idxmax()
    agree = (difference <= WITHIN_PER_MESSAGE) | (share <= WITHIN_SHARE)
    return Comparison(
        first=first,
        second=second,
        first_value=float(runs.loc[worst, first]),
        second_value=float(runs.loc[worst, second]),
        runs=len(runs),
        equal=bool((difference == 0).all()),
        agree=bool(agree.all()),
        **cell,  # type: ignore[arg-type]
    )
