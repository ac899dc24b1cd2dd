# SPDX-License-Identifier: GPL-2.0-or-later
"""The ledger on the first screen: each figure computed again from the source that its row names."""

from __future__ import annotations

from collections.abc import Iterator

from tests.audit.printed import DASH, parse
from tests.audit.screen import CALLS, HIT, MEASURES, TITLES, Screen, Source, counts, spread

# How exact mode's targets are named.
SCHEDULERS = {"SCHED_FIFO": "exact-fifo", "default scheduler": "exact-other"}


def wrong(screen: Screen) -> Iterator[str]:
    """The ledger's table: median and range over repeats, of the source that a row names."""
    head, _, *rows = screen.ledger
    for row in rows:
        label, *_, origin = row
        measure = _measure(label)
        if not measure:
            yield f"a row of the ledger that nobody checks: {label}"
            continue
        source = _source(origin)
        probed = "with probes attached" in label
        if probed and not source.probed:
            yield f"{label}: {origin} has no probes"
        for column, text in zip(head, row, strict=True):
            where, comma, transport = column.rpartition(", ")
            if comma:
                conditions = TITLES.get(where, where)
                values = counts(screen, measure, transport).get(source, {}).get(conditions, [])
                yield from _entry(f"{measure}, {column}, {origin}", text, values)


def _measure(label: str) -> str:
    """The measure that a row's label begins with; the rest says what disturbs the source."""
    name = label.removeprefix("another source: ")
    known = (measure for measure in (*MEASURES, HIT, CALLS) if name.startswith(measure))
    return max(known, key=len, default="")


def _entry(what: str, text: str, values: list[float]) -> Iterator[str]:
    if text == DASH or not values:
        if text != DASH or values:
            yield f"{what}: printed {text}, computed {values or 'nothing'}"
        return
    figure, _, ends = text.rstrip(")").partition(" (")
    low, _, high = (ends or figure).partition(DASH)
    printed = (figure, low, high or low)
    for one, value in zip(printed, spread(values), strict=True):
        if not parse(one).fits(value):
            yield f"{what}: printed {text}, computed {value:.6g}"


def _source(text: str) -> Source:
    """`kernel counters, no probe attached · host · 6.18`."""
    name, target, kernel = text.split(" · ")
    target = SCHEDULERS.get(target, target)
    if name.startswith("kernel counters"):
        return Source("kernel", target, kernel, "no probe" not in name)
    return Source(name, target, kernel, not name.startswith(("exact", "workload")))
