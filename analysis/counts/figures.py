# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of counts: what each shows, its caption, and where its numbers are from."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import pandas as pd
from matplotlib.figure import Figure

from analysis.counts import plots
from analysis.counts.ledger import (
    MOST_TOGETHER,
    Ledger,
    Line,
    Row,
    conditions_order,
    transport_order,
)
from analysis.counts.measures import best_source, source_of
from analysis.counts.plots import Panel, Point
from analysis.counts.quantities import MEASURE_BY_ID, ROUND_TRIP_PATTERNS
from analysis.drawing import Drawn, drawn, not_drawn
from analysis.wording import counted, listed, number, size_text

COMPARED = (
    "payload_copies", "skb_allocs", "skb_clones", "segments_data", "segments_ack", "lo_packets",
    "softirqs",
)  # fmt: skip
SCHEDULED = ("wakeups", "switches")  # of a round trip, where the pattern has one
KINDS = {
    "switches_voluntary": "voluntary: went to sleep",
    "switches_involuntary": "involuntary: was preempted",
}
FUNCTIONS = {
    "functions_hit": "different functions, per round trip",
    "function_calls": "their calls, per message",
}


Panels = tuple[Panel, ...]
Plot = Callable[[Panels], Figure]


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


def _from(best: list[tuple[Row, Line]]) -> str:
    return f"Numbers: {listed(list(dict.fromkeys(line.source for _, line in best)))}."


def _best(rows: list[Row]) -> list[tuple[Row, Line]]:
    """Rows with their best line, where that has a valid figure."""
    return [
        (row, row.lines[0])
        for row in rows
        if row.lines and any(entry.valid for entry in row.lines[0].entries.values())
    ]


def _points(
    lines: list[tuple[str, Line]], conditions: str, transports: list[str]
) -> Iterator[Point]:
    for label, line in lines:
        entries = sorted(line.entries.items(), key=lambda item: transport_order(item[0][1]))
        for (where, transport), e in entries:
            if where == conditions and transport in transports and e.valid:
                yield Point(transport, label, e.value, *e.ends)


def _differing(
    best: list[tuple[Row, Line]], transports: list[str]
) -> tuple[list[tuple[Row, Line]], str]:
    """The rows in which transports differ, and a sentence on the others; all, if none does."""

    def same(line: Line) -> bool:
        found = [(e.value, *e.ends) for (_, t), e in line.entries.items() if t in transports]
        return len({tuple(map(number, figures)) for figures in found}) < 2

    alike = [f"{row.measure.words} ({number(value)})" for row, line in best if same(line)
             for value in [next(iter(line.entries.values())).value]]  # fmt: skip
    differing = [(row, line) for row, line in best if not same(line)]
    if not differing or not alike:
        return best, ""
    return differing, f"Not drawn, since they are the same for all: {listed(alike)}."


def _ledger(ledger: Ledger, conditions: str) -> Drawn:
    title = "What one message costs, in counts"
    end = "" if ledger.pattern in ROUND_TRIP_PATTERNS else "_per_message"
    best = _best(
        [ledger.row(name) for name in (*COMPARED, *(f"{name}{end}" for name in SCHEDULED))]
    )
    best, alike = _differing(best, ledger.transports)
    pers = {"round trip": " per round trip"}
    words = [f"{row.measure.words}{pers.get(row.measure.per, '')}" for row, _ in best]
    labelled = [
        (f"{said} ({line.target})", line) for said, (_, line) in zip(words, best, strict=True)
    ]
    panels = tuple(
        Panel(place, points)
        for place in ledger.conditions
        if (points := tuple(_points(labelled, place, ledger.transports)))
    )
    if not panels:
        return not_drawn("ledger", title, "no valid counts")
    caption = (
        "Read the line between the two marks: its length is the difference between the transports "
        f"({conditions}; copies are per payload byte, all else per message unless noted; median "
        f"over repeats). {alike}"
    )
    alt = f"Dot plot of {counted(len(best), 'count')} per message for each transport, by placement."
    plot = partial(plots.ledger_plot, unit="per message unless noted")
    return _drawn("ledger", title, f"{caption} {_from(best)}", alt, plot, panels)


def _drawn(name: str, title: str, caption: str, alt: str, plot: Plot, panels: Panels) -> Drawn:
    data = plots.points_table(panels)
    return drawn(name, title, caption, alt, plot, panels, data=data)


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
    caption = (
        f"Each mark is one repeat ({conditions}), both processes together. Two groups of marks in "
        f"a column are two kinds of repeat, which a median would hide. Numbers: "
        f"{source_of(best)}."
    )
    alt = "Strip plot of voluntary and involuntary context switches per round trip, by placement."
    return _drawn("switches", title, caption, alt, plots.switches_plot, panels)


def _repeats(rows: pd.DataFrame) -> Iterator[Point]:
    columns = (rows[name] for name in ("conditions", "transport", "repeat", "value"))
    found = sorted(
        zip(*columns, strict=True),
        key=lambda row: (conditions_order(row[0]), transport_order(row[1]), row[2:]),
    )
    for conditions, transport, _, value in found:
        yield Point(transport, conditions, value, value, value)


def _functions(ledger: Ledger, conditions: str) -> Drawn:
    title = "Kernel functions behind a message"
    best = _best([ledger.row("functions_hit"), ledger.row("function_calls")])
    if not best:
        return not_drawn("functions", title, "no function trace")
    panels = []
    for row, line in best:
        points = (_points([(place, line)], place, ledger.transports) for place in ledger.conditions)
        panels.append(Panel(FUNCTIONS[row.measure.id], tuple(chain.from_iterable(points))))
    caption = (
        "Left: how many different kernel functions run at least once a round trip. Right: how "
        f"often they are called for one message ({conditions}). More calls are a longer "
        "path, which need not take more time."
    )
    alt = "Bars: kernel functions hit and their calls per message, by transport and placement."
    caption, panels_drawn = f"{caption} {_from(best)}", tuple(panels)
    return _drawn("functions", title, caption, alt, plots.functions_plot, panels_drawn)
