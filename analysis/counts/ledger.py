# SPDX-License-Identifier: GPL-2.0-or-later
"""The ledger: measure by transport, every source side by side."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from analysis.counts.measures import (
    SOURCE,
    WORKLOAD,
    disturbance,
    estimate_of,
    groups,
    source_rank,
)
from analysis.counts.quantities import MEASURES, Measure
from analysis.raw.run import Missing
from analysis.statistics import Estimate
from analysis.wording import source_text
from runners.cell import Conditions

Column = tuple[str, str]  # conditions, transport
GUEST = "--target guest has them"  # function probes
MOST_TOGETHER = 4  # transports that one screen or one plot holds
FIRST_PATTERNS = ("pingpong",)
FIRST_TRANSPORTS = ("unix", "tcp")
FIRST_PLACEMENTS = ("same-cpu", "cross-cpu", "free")


class Line(NamedTuple):
    """One source's figures for a row."""

    instrument: str
    target: str
    kernel: str
    probe_level: str
    probed: bool
    entries: dict[Column, Estimate]

    @property
    def disturbance(self) -> tuple[int, int]:
        return disturbance(self.target, self.probed)

    @property
    def source(self) -> str:
        return source_text(self.instrument, self.target, self.kernel, self.probed)


@dataclass(frozen=True)
class Row:
    """One measure: its sources, best first; or why there is none."""

    measure: Measure
    lines: tuple[Line, ...]
    why_missing: str = ""
    failed: bool = False  # missing although the user requested it

    def best(self) -> tuple[Line, ...]:
        """The best source, and the best one of another instrument beside it."""
        others = (line for line in self.lines if line.instrument != self.lines[0].instrument)
        return (*self.lines[:1], *tuple(others)[:1])

    def disturbed(self, line: Line) -> str:
        """What disturbs a source more than the best one, where the scheduler decides the figure."""
        if not self.measure.scheduler or line.disturbance <= self.lines[0].disturbance:
            return ""
        guest, probed = line.disturbance
        words = ("in a guest" if guest else "", "with probes attached" if probed else "")
        return ", ".join(filter(None, words))


@dataclass(frozen=True)
class Ledger:
    """All rows of one pattern and message size."""

    pattern: str
    size: int
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def headline(self) -> tuple[Row, ...]:
        """The first screen: what was measured, and what was requested and failed."""
        return tuple(row for row in self.rows if row.measure.headline and (row.lines or row.failed))

    def once(self) -> tuple[Row, ...]:
        """All rows but those that say another's figure again."""
        return tuple(row for row in self.rows if not row.measure.again)

    @property
    def transports(self) -> list[str]:
        return list(dict.fromkeys(transport for _, transport in self.columns))

    @property
    def conditions(self) -> list[str]:
        return list(dict.fromkeys(where for where, _ in self.columns))

    def narrow(self, most: int) -> "Ledger":
        """The first two transports only, where there are more than `most`."""
        if len(self.transports) <= most:
            return self
        first = self.transports[:2]
        return replace(self, columns=tuple(column for column in self.columns if column[1] in first))

    def pages(self, most: int) -> list["Ledger"]:
        """The ledger in parts of at most `most` columns, a placement's transports together."""
        pages: list[list[Column]] = [[]]
        for where in self.conditions:
            some = [column for column in self.columns if column[0] == where]
            if pages[-1] and len(pages[-1]) + len(some) > most:
                pages.append([])
            pages[-1] += some
        return [replace(self, columns=tuple(page)) for page in pages]

    def row(self, measure: str) -> Row:
        return next(row for row in self.rows if row.measure.id == measure)


def build_ledgers(figures: pd.DataFrame, missing: Iterable[Missing]) -> tuple[Ledger, ...]:
    """One ledger for each pattern and size, from `measures.over_repeats`."""
    missing = tuple(missing)
    ledgers = [
        _ledger(pattern, size, group, missing)
        for (pattern, size), group in groups(figures, "pattern", "size")
    ]
    return tuple(sorted(ledgers, key=lambda part: (order(part.pattern, FIRST_PATTERNS), part.size)))


def _ledger(pattern: str, size: int, group: pd.DataFrame, missing: tuple[Missing, ...]) -> Ledger:
    pairs = set(zip(group["conditions"], group["transport"], strict=True))
    columns = sorted(pairs, key=lambda c: (*conditions_order(c[0]), *transport_order(c[1])))
    rows = tuple(_row(measure, group, missing) for measure in MEASURES if measure.ledger)
    return Ledger(pattern, size, tuple(columns), rows)


def conditions_order(conditions: str) -> tuple[object, ...]:
    """A sort key: one CPU before two, and the usual way before what is not as usual."""
    parsed = Conditions.parse(conditions)
    unusual = parsed.unusual
    return (*order(parsed.placement, FIRST_PLACEMENTS), len(unusual), *unusual)


def order(name: str, first: tuple[str, ...]) -> tuple[int, str]:
    """A sort key: the names in `first` in their order, then all others by name."""
    return (first.index(name) if name in first else len(first), name)


def transport_order(name: str) -> tuple[int, str]:
    return order(name, FIRST_TRANSPORTS)


def _row(measure: Measure, group: pd.DataFrame, missing: tuple[Missing, ...]) -> Row:
    figures = group[group["measure"] == measure.id]
    if figures.empty:
        failed = any(lack.requested for lack in _about(measure, missing))
        return Row(measure, (), why_missing(measure, missing), failed)
    lines = [_line(source) for _, source in groups(figures, *SOURCE)]
    lines.sort(key=lambda line: version(line.kernel), reverse=True)
    return Row(measure, tuple(sorted(lines, key=lambda line: _line_order(measure, line))))


def _line(source: pd.DataFrame) -> Line:
    rows = source.to_dict("records")
    entries = {(row["conditions"], row["transport"]): estimate_of(row) for row in rows}
    return Line(**{name: rows[0][name] for name in SOURCE}, entries=entries)


def _line_order(measure: Measure, line: Line) -> tuple[int, ...]:
    """Valid figures first, then the better source; among equal sources, the fuller line first.

    Lines come sorted by kernel, so the newest kernel comes first among equal lines.
    """
    valid = any(entry.valid for entry in line.entries.values())
    rank, fills = source_rank(measure, line), -len(line.entries)
    if measure.scheduler:
        return (int(not valid), *rank, fills)
    return (int(not valid), *rank[:2], fills, *rank[2:])


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


def in_no_row(missing: Iterable[Missing]) -> dict[str, list[str]]:
    """Reason → what is missing although somebody wanted it, and has no row to show the reason."""
    shown = {measure.quantity for measure in MEASURES if measure.ledger}
    found: dict[str, list[str]] = {}
    for lack in missing:
        if lack.requested and shown.isdisjoint(lack.quantities):
            found.setdefault(lack.why, []).append(lack.what)
    return found


def _about(measure: Measure, missing: tuple[Missing, ...]) -> list[Missing]:
    return [lack for lack in missing if measure.quantity in lack.quantities]


def all_conditions(figures: pd.DataFrame) -> list[tuple[str, int, str]]:
    """The conditions that a table of figures holds, in reading order."""
    found = set(zip(*(figures[name] for name in WORKLOAD), strict=True))
    return sorted(found, key=lambda c: (order(c[0], FIRST_PATTERNS), c[1], conditions_order(c[2])))


def in_conditions(rows: pd.DataFrame, conditions: tuple[str, int, str]) -> pd.DataFrame:
    """The rows of one element of `all_conditions`."""
    return rows[(rows[list(WORKLOAD)] == list(conditions)).all(axis=1)]
