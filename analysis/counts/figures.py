# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of counts: what each shows, its caption, and where its numbers are from."""

from collections.abc import Iterator

import pandas as pd

from analysis.counts import plots
from analysis.counts.ledger import (
    FIRST_TRANSPORTS,
    MOST_TOGETHER,
    Ledger,
    Line,
    Row,
    order,
    placement_order,
)
from analysis.counts.measures import best_source
from analysis.counts.plots import Panel, Point
from analysis.counts.quantities import MEASURE_BY_ID
from analysis.drawing import Drawn, drawn, not_drawn
from analysis.wording import counted, listed, size_text, source_text

PER_MESSAGE = (
    "payload_copies", "skb_allocs", "skb_clones", "segments_data", "segments_ack", "lo_packets",
    "softirqs", "wakeups_per_message", "switches_per_message",
)  # fmt: skip
KINDS = {
    "switches_voluntary": "voluntary: went to sleep",
    "switches_involuntary": "involuntary: was preempted",
}
FUNCTIONS = {
    "functions_hit": "different functions",
    "function_calls": "calls of them a message",
}


def draw_counts(ledger: Ledger, measured: pd.DataFrame) -> tuple[Drawn, ...]:
    """The figures of a ledger, in the order of the report; of many transports the first few."""
    conditions = f"{ledger.pattern}, {size_text(ledger.size)}"
    all_of_them, ledger = ledger, ledger.narrow(MOST_TOGETHER)
    if ledger is not all_of_them:
        conditions = f"{conditions}, {listed(ledger.transports)}: the others are in the full ledger"
        measured = measured[measured["transport"].isin(ledger.transports)]
    return (
        _ledger(ledger, conditions),
        _switches(ledger, measured, conditions),
        _functions(ledger, conditions),
    )


def _from(lines: list[Line]) -> str:
    sources = [source_text(one.instrument, one.target, one.kernel, one.probed) for one in lines]
    return f"Numbers: {listed(list(dict.fromkeys(sources)))}."


def _best(rows: list[Row]) -> list[tuple[Row, Line]]:
    """Rows with their best line, where that has a valid figure."""
    return [
        (row, row.lines[0])
        for row in rows
        if row.lines and any(entry.valid for entry in row.lines[0].entries.values())
    ]


def _points(
    lines: list[tuple[str, Line]], placement: str, transports: list[str]
) -> Iterator[Point]:
    for label, line in lines:
        for (where, transport), e in sorted(
            line.entries.items(), key=lambda kv: order(kv[0][1], FIRST_TRANSPORTS)
        ):
            if where == placement and transport in transports and e.valid:
                yield Point(transport, label, e.value, e.low, e.high)


def _ledger(ledger: Ledger, conditions: str) -> Drawn:
    title = "What one message costs, in counts"
    best = _best([ledger.row(name) for name in PER_MESSAGE])
    labelled = [(row.measure.words, line) for row, line in best]
    places = list(dict.fromkeys(placement for placement, _ in ledger.columns))
    panels = tuple(
        Panel(place, points)
        for place in places
        if (points := tuple(_points(labelled, place, ledger.transports)))
    )
    if not panels:
        return not_drawn("ledger", title, "no valid counts")
    caption = (
        "Read the line between the two marks: its length is the difference between the transports "
        f"({conditions}; copies are per payload byte, all else per message; median over repeats). "
        "Where the marks lie on each other, the transports cost the same."
    )
    alt = f"Dot plot of {counted(len(best), 'count')} per message for each transport, by placement."
    return drawn(
        "ledger",
        title,
        f"{caption} {_from([line for _, line in best])}",
        alt,
        plots.ledger_plot,
        panels,
        "per message",
        data=plots.points_table(panels),
    )


def _switches(ledger: Ledger, measured: pd.DataFrame, conditions: str) -> Drawn:
    title = "Context switches of a round trip, repeat by repeat"
    here = (measured["pattern"] == ledger.pattern) & (measured["size"] == ledger.size)
    rows = measured[here & measured["measure"].isin(list(KINDS)) & measured["valid"].astype(bool)]
    if rows.empty:
        return not_drawn("switches", title, "no valid count of switches")
    best = best_source(rows, MEASURE_BY_ID["switches"])
    panels = tuple(
        Panel(words, tuple(_repeats(best[best["measure"] == kind])))
        for kind, words in KINDS.items()
    )
    first = best.iloc[0]
    source = source_text(
        first["instrument"], first["target"], first["kernel"], bool(first["probed"])
    )
    caption = (
        f"Each mark is one repeat ({conditions}), both processes together. Marks of a column that "
        f"form two groups tell of two conditions; their median would hide it. Numbers: {source}."
    )
    alt = "Strip plot of voluntary and involuntary context switches per round trip, by placement."
    return drawn(
        "switches",
        title,
        caption,
        alt,
        plots.switches_plot,
        panels,
        data=plots.points_table(panels),
    )


def _repeats(rows: pd.DataFrame) -> Iterator[Point]:
    found = [(str(r.placement), str(r.transport), int(str(r.repeat)), float(str(r.value)))
             for r in rows.itertuples()]  # fmt: skip
    found.sort(key=lambda one: (placement_order(one[0]), order(one[1], FIRST_TRANSPORTS), one[2:]))
    for placement, transport, _, value in found:
        yield Point(transport, placement, value, value, value)


def _functions(ledger: Ledger, conditions: str) -> Drawn:
    title = "Kernel functions behind a message"
    best = _best([ledger.row("functions_hit"), ledger.row("function_calls")])
    if not best:
        return not_drawn("functions", title, "no function trace")
    places = list(dict.fromkeys(placement for placement, _ in ledger.columns))
    panels = []
    for row, line in best:
        points = tuple(
            point
            for place in places
            for point in _points([(place, line)], place, ledger.transports)
        )
        panels.append(Panel(FUNCTIONS[row.measure.id], points))
    caption = (
        "Left, how many different kernel functions ran at least once a round trip; right, how "
        f"often they were called for one message ({conditions}). More calls make a longer path, "
        "which is not the same as more time."
    )
    alt = "Bars: kernel functions hit and their calls per message, by transport and placement."
    return drawn(
        "functions",
        title,
        f"{caption} {_from([line for _, line in best])}",
        alt,
        plots.functions_plot,
        tuple(panels),
        data=plots.points_table(tuple(panels)),
    )
