# SPDX-License-Identifier: GPL-2.0-or-later
"""The ledger: measure by transport, each by its best source."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.counts import measures
from analysis.counts.measures import WORKLOAD, Measure, groups, rows_of
from analysis.raw.run import Missing
from analysis.statistics import Estimate
from analysis.wording import number, title_of
from probes.cell import Conditions
from probes.transports import PAIR

Column = tuple[str, str]  # conditions, transport
GUEST = "--target guest has them"  # function probes
MOST_TOGETHER = 4  # transports that one screen or one plot holds
OTHER_SWITCHES = 0.05  # of those without probes: more is another way to run
FIRST_PATTERNS = ("pingpong",)
FIRST_PLACEMENTS = ("same-cpu", "cross-cpu", "free")


@dataclass(frozen=True, eq=False)
class Row:
    """One measure by its best source; or why there is none."""

    measure: Measure
    entries: dict[Column, Estimate]
    instrument: str = ""
    target: str = ""
    kernel: str = ""
    source: str = ""  # all of these in words
    probed: str = ""  # how probes change the switches of its cells; empty where they do not
    why_missing: str = ""
    failed: bool = False  # missing although the user requested it


@dataclass(frozen=True)
class Ledger:
    """All rows of one pattern and message size."""

    pattern: str
    size: int
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def headline(self) -> tuple[Row, ...]:
        """The first screen: what was measured, and what was requested and failed."""
        return tuple(r for r in self.rows if r.measure.headline and (r.entries or r.failed))

    @property
    def transports(self) -> list[str]:
        return list(dict.fromkeys(transport for _, transport in self.columns))

    @property
    def conditions(self) -> list[str]:
        return list(dict.fromkeys(place for place, _ in self.columns))

    def narrow(self) -> "Ledger":
        """The first two transports only, where there are more than MOST_TOGETHER."""
        if len(self.transports) <= MOST_TOGETHER:
            return self
        first = self.transports[:2]
        return replace(self, columns=tuple(column for column in self.columns if column[1] in first))

    def row(self, measure: str) -> Row:
        return next(row for row in self.rows if row.measure.id == measure)


def best_first(figures: pd.DataFrame, *within: str) -> pd.DataFrame:
    """Figures of `measures.over_repeats`, of each measure the best source's first.

    The new column `place` numbers the sources of each measure in each group of `within`. Valid
    figures come first, then the better source; among equal ones the source with more figures, then
    the newer kernel.
    """
    by = [*within, "measure", *measures.SOURCE]
    sources = figures.groupby(by)["valid"].agg(any_valid="any", fills="size").reset_index()
    sources = ordered(sources, map(_source_order, rows_of(sources)))
    sources = sources[by].assign(place=range(len(sources)))
    return figures.merge(sources, on=by).sort_values("place", kind="stable")


def _source_order(row: Any) -> tuple[Any, ...]:
    measure = measures.measure_of(row.measure)
    assert measure
    rank, fills = measures.source_rank(measure, row), -row.fills
    newest = tuple(-number for number in version(row.kernel))
    if measure.scheduler:
        return (not row.any_valid, *rank, fills, newest)
    return (not row.any_valid, *rank[:2], fills, *rank[2:], newest)


def build_ledgers(figures: pd.DataFrame, missing: Iterable[Missing]) -> tuple[Ledger, ...]:
    """One ledger for each pattern and size, from `measures.over_repeats`."""
    missing, figures = tuple(missing), best_first(figures, "pattern", "size")
    ledgers = [
        _ledger(pattern, size, group, missing)
        for (pattern, size), group in groups(figures, "pattern", "size")
    ]
    return tuple(sorted(ledgers, key=lambda part: (order(part.pattern, FIRST_PATTERNS), part.size)))


def _ledger(pattern: str, size: int, group: pd.DataFrame, missing: tuple[Missing, ...]) -> Ledger:
    pairs = set(zip(group["conditions"], group["transport"], strict=True))
    columns = sorted(pairs, key=lambda c: (*conditions_order(c[0]), *transport_order(c[1])))
    rows = tuple(_row(measure, group, missing) for measure in measures.MEASURES if measure.ledger)
    return Ledger(pattern, size, tuple(columns), rows)


def _row(measure: Measure, group: pd.DataFrame, missing: tuple[Missing, ...]) -> Row:
    rows = group[group["measure"] == measure.id]
    if rows.empty:
        failed = any(lack.requested for lack in _about(measure, missing))
        return Row(measure, {}, why_missing=why_missing(measure, missing), failed=failed)
    best = rows[rows["place"] == rows["place"].iloc[0]]
    entries = {
        (row["conditions"], row["transport"]): measures.estimate_of(row)
        for row in best.to_dict("records")
    }
    names = ("instrument", "target", "kernel")
    place = {name: best.iloc[0][name] for name in names}
    probed = _probed(group, best) if measure.scheduler else ""
    return Row(measure, entries, source=measures.source_of(best), probed=probed, **place)


def _probed(group: pd.DataFrame, best: pd.DataFrame) -> str:
    """How often the probed cells of these figures switch, beside unprobed ones, where that differs:
    `3.93 switches, 2.91 unprobed (unix, one CPU)`.
    """
    own = group[(group["measure"] == "switches") & (group["instrument"] == "kernel")]
    own = own.merge(best[["target", "kernel"]].drop_duplicates(), on=["target", "kernel"])
    table = own.pivot_table("value", ["conditions", "transport"], "probed")
    if not best["probed"].all() or len(table.columns) < 2:
        return ""
    cells = set(zip(best["conditions"], best["transport"], strict=True))
    table = table[[cell in cells for cell in table.index]].dropna()
    differs = table[(table[True] / table[False] - 1).abs() > OTHER_SWITCHES]
    return "; ".join(
        f"{number(row[True])} switches, {number(row[False])} unprobed ({name}, {title_of(where)})"
        for (where, name), row in zip(differs.index, differs.to_dict("records"), strict=True)
    )


def df_kernels(figures: pd.DataFrame) -> pd.DataFrame:
    """The best source's figure of each measure on each guest's kernel, in reading order.

    Columns: those of `measures.over_repeats`; empty for one kernel. The host is one machine with
    one kernel, so kernels are compared in guests.
    """
    listed = [measure.id for measure in measures.MEASURES if measure.ledger and not measure.again]
    rows = figures[(figures["target"] == "guest") & figures["measure"].isin(listed)]
    if rows["kernel"].nunique() < 2:
        return rows.iloc[:0]
    cell = [*WORKLOAD, "kernel", "measure", "transport"]
    best = best_first(rows, *WORKLOAD).drop_duplicates(cell)
    keys = ((listed.index(row.measure), version(row.kernel)) for row in rows_of(best))
    return in_reading_order(ordered(best, keys))


def conditions_order(conditions: str) -> tuple[object, ...]:
    """A sort key: one CPU before two, and the usual way before what is not as usual."""
    parsed = Conditions.parse(conditions)
    unusual = parsed.unusual
    return (*order(parsed.placement, FIRST_PLACEMENTS), len(unusual), *unusual)


def order(name: str, first: tuple[str, ...]) -> tuple[int, str]:
    """A sort key: the names in `first` in their order, then all others by name."""
    return (first.index(name) if name in first else len(first), name)


def transport_order(name: str) -> tuple[int, str]:
    return order(name, PAIR)


def version(kernel: str) -> tuple[int, ...]:
    """A sort key: 5.10 before 6.1 before 6.12."""
    return tuple(int(number) for number in re.findall(r"\d+", kernel)[:3])


def why_missing(measure: Measure, missing: tuple[Missing, ...]) -> str:
    """The reason that the run itself gives, where its manifest names the quantity."""
    about = _about(measure, missing)
    failed = [lack for lack in about if lack.requested]  # of more weight than what nobody wanted
    reasons = [lack.why.rstrip(".") for lack in failed or about]
    if failed and all(lack.guest_has for lack in failed):
        return f"{reasons[0]} ({GUEST})"
    return "; ".join(dict.fromkeys(reasons)) or "not measured in this run"


def _about(measure: Measure, missing: tuple[Missing, ...]) -> list[Missing]:
    return [lack for lack in missing if measure.quantity in lack.quantities]


def in_reading_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows by pattern, size, conditions and transport as everywhere; else in their order."""
    cells = zip(*(rows[name] for name in (*WORKLOAD, "transport")), strict=True)
    keys = ((*_workload_order(*cell), transport_order(name)) for *cell, name in cells)
    return ordered(rows, keys)


def ordered(rows: pd.DataFrame, keys: Iterable[Any]) -> pd.DataFrame:
    """Rows by a key for each, which need be no column's value."""
    by = list(keys)
    return rows.iloc[sorted(range(len(by)), key=by.__getitem__)]


def _workload_order(pattern: str, size: int, conditions: str) -> tuple[Any, ...]:
    return order(pattern, FIRST_PATTERNS), size, conditions_order(conditions)


def all_conditions(figures: pd.DataFrame) -> list[tuple[str, int, str]]:
    """The conditions that a table of figures holds, in reading order."""
    cells = set(zip(*(figures[name] for name in WORKLOAD), strict=True))
    return sorted(cells, key=lambda cell: _workload_order(*cell))


def in_conditions(rows: pd.DataFrame, conditions: tuple[str, int, str]) -> pd.DataFrame:
    """The rows of one element of `all_conditions`."""
    return rows[(rows[list(WORKLOAD)] == list(conditions)).all(axis=1)]
