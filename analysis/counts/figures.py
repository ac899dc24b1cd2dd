# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of counts: what each shows, its caption, and where its numbers are from.

Each is drawn from a table with the columns panel, label, transport, value, low and high.
"""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.counts.ledger import Ledger, Line, Row, in_reading_order
from analysis.counts.measures import (
    MEASURE_BY_ID,
    ROUND_TRIP_PATTERNS,
    best_source,
    rows_of,
    source_of,
)
from analysis.drawing import FAINT, MARKERS, Drawn, axes_row, colour, drawn, not_drawn
from analysis.wording import counted, listed, number, place_title, size_text

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
COLUMNS = ["panel", "label", "transport", "value", "low", "high"]
Best = list[tuple[Row, Line]]  # rows with their best source


def draw_counts(ledger: Ledger, measured: pd.DataFrame) -> tuple[Drawn, ...]:
    """The figures of a ledger, in the order of the report; of many transports the first few."""
    conditions = f"{ledger.pattern}, {size_text(ledger.size)}"
    narrow = ledger.narrow()
    if narrow is not ledger:
        conditions = f"{conditions}, {listed(narrow.transports)}: the others are in the full ledger"
        measured = measured[measured["transport"].isin(narrow.transports)]
    return (
        _ledger(narrow, conditions),
        _switches(narrow, measured, conditions),
        _functions(narrow, conditions),
    )


def _best(ledger: Ledger, measures: Sequence[str]) -> Best:
    """The rows of these measures whose best source has a valid figure."""
    rows = [row for row in map(ledger.row, measures) if row.lines]
    return [
        (row, row.lines[0]) for row in rows if any(e.valid for e in row.lines[0].entries.values())
    ]


def _points(ledger: Ledger, line: Line) -> list[tuple[str, str, float, float, float]]:
    """Conditions, transport, value and range of a source's valid figures."""
    return [
        (*column, entry.value, *entry.ends)
        for column in ledger.columns
        if (entry := line.entries.get(column)) and entry.valid
    ]


def _from(best: Best) -> str:
    return f"Numbers: {listed(list(dict.fromkeys(line.source for _, line in best)))}."


def _ledger(ledger: Ledger, conditions: str) -> Drawn:
    title = "What one message costs, in counts"
    end = "" if ledger.pattern in ROUND_TRIP_PATTERNS else "_per_message"
    best = _best(ledger, [*COMPARED, *(f"{name}{end}" for name in SCHEDULED)])
    figures = {
        row.measure.id: {tuple(map(number, point[2:])) for point in _points(ledger, line)}
        for row, line in best
    }
    alike = [pair for pair in best if len(figures[pair[0].measure.id]) < 2]
    differing = [pair for pair in best if pair not in alike]
    note = ""
    if alike and differing:
        best = differing
        each = [
            f"{row.measure.words} ({number(next(iter(line.entries.values())).value)})"
            for row, line in alike
        ]
        note = f"Not drawn, since they are the same for all: {listed(each)}."
    per = {"round trip": " per round trip"}
    rows = [
        (place, f"{row.measure.words}{per.get(row.measure.per, '')} ({line.target})", *figure)
        for row, line in best
        for place, *figure in _points(ledger, line)
    ]
    if not rows:
        return not_drawn("ledger", title, "no valid counts")
    table = pd.DataFrame(rows, columns=COLUMNS)
    table = table.iloc[table["panel"].map(ledger.conditions.index).argsort(kind="stable")]
    caption = (
        "Read the line between the two marks: its length is the difference between the transports "
        f"({conditions}; copies are per payload byte, all else per message unless noted; median "
        f"over repeats). {note} {_from(best)}"
    )
    alt = f"Dot plot of {counted(len(best), 'count')} per message for each transport, by placement."
    return drawn("ledger", title, caption, alt, ledger_plot, table, data=table)


def _switches(ledger: Ledger, measured: pd.DataFrame, conditions: str) -> Drawn:
    title = "Context switches of a round trip, repeat by repeat"
    cells = (measured["pattern"] == ledger.pattern) & (measured["size"] == ledger.size)
    rows = measured[cells & measured["measure"].isin(list(KINDS)) & measured["valid"].astype(bool)]
    if rows.empty:
        return not_drawn("switches", title, "no valid count of switches")
    best = best_source(rows, MEASURE_BY_ID["switches"])
    best = in_reading_order(best.sort_values(["repeat", "value"]))
    best = best.iloc[best["measure"].map(list(KINDS).index).argsort(kind="stable")]
    table = best.assign(
        panel=best["measure"].map(KINDS), label=best["conditions"], low=best["value"],
        high=best["value"],
    )[COLUMNS]  # fmt: skip
    caption = (
        f"Each mark is one repeat ({conditions}), both processes together. Two groups of marks in "
        f"a column are two kinds of repeat, which a median would hide. Numbers: "
        f"{source_of(best)}."
    )
    alt = "Strip plot of voluntary and involuntary context switches per round trip, by placement."
    return drawn("switches", title, caption, alt, switches_plot, table, data=table)


def _functions(ledger: Ledger, conditions: str) -> Drawn:
    title = "Kernel functions behind a message"
    best = _best(ledger, list(FUNCTIONS))
    if not best:
        return not_drawn("functions", title, "no function trace")
    rows = [
        (FUNCTIONS[row.measure.id], *point) for row, line in best for point in _points(ledger, line)
    ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    caption = (
        "Left: how many different kernel functions run at least once a round trip. Right: how "
        f"often they are called for one message ({conditions}). More calls are a longer "
        f"path, which need not take more time. {_from(best)}"
    )
    alt = "Bars: kernel functions hit and their calls per message, by transport and placement."
    return drawn("functions", title, caption, alt, functions_plot, table, data=table)


def _panels(
    table: pd.DataFrame, height: float, **shared: bool
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]], dict[str, tuple[str, str]]]:
    """Axes for each panel with its rows; and a legend: transport → marker and colour."""
    names = list(dict.fromkeys(table["transport"]))
    looks = {
        name: (MARKERS[place % len(MARKERS)], colour(name, names))
        for place, name in enumerate(names)
    }
    groups = list(table.groupby("panel", sort=False))
    figure, axes = axes_row(len(groups), 9, height, **shared)
    for ax, (title, _) in zip(axes, groups, strict=True):
        ax.set_title(place_title(str(title)))
    handles = [
        Line2D([], [], linestyle="", marker=marker, markersize=8, color=ink, label=name)
        for name, (marker, ink) in looks.items()
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return figure, [(ax, rows) for ax, (_, rows) in zip(axes, groups, strict=True)], looks


def ledger_plot(table: pd.DataFrame) -> Figure:
    """A dumbbell for each measure: read the distance between the two marks, not their place."""
    labels = list(dict.fromkeys(table["label"]))
    figure, panels, looks = _panels(table, 1.3 + 0.62 * len(labels), sharey=True, sharex=True)
    for ax, rows in panels:
        for label, values in rows.groupby("label")["value"]:
            row = labels.index(str(label))
            ax.hlines(row, values.min(), values.max(), color=FAINT, linewidth=1.5)
        for point in rows_of(rows):
            marker, ink = looks[str(point.transport)]
            size = 9 - 2 * list(looks).index(str(point.transport))
            ax.plot(point.value, labels.index(str(point.label)), marker, color=ink, ms=size)
        ax.set_xlabel("per message unless noted")
        ax.grid(axis="y", visible=False)
        ax.set_xlim(left=min(0, ax.get_xlim()[0]))
    # Above its row: beside the axes, labels would be all that a phone shows.
    first = panels[0][0]
    for row, label in enumerate(labels):
        first.text(0.02, row - 0.3, label, transform=first.get_yaxis_transform(), va="bottom")
    first.set_yticks([])
    first.set_ylim(len(labels) - 0.6, -0.9)
    return figure


def switches_plot(table: pd.DataFrame) -> Figure:
    """Each dot is one repeat. Two groups in a column are two conditions."""
    figure, panels, looks = _panels(table, 3.6, sharey=True)
    for ax, rows in panels:
        columns = []
        for x, (column, group) in enumerate(rows.groupby(["label", "transport"], sort=False)):
            label, transport = map(str, column)
            columns.append(f"{place_title(label)}\n{transport}")
            half = (len(group) - 1) / 2  # places side by side around x, in the order of repeats
            places = [x + 0.2 * (i - half) / max(half, 0.5) for i in range(len(group))]
            marker, ink = looks[transport]
            ax.plot(places, group["value"], marker, color=ink, alpha=0.75, markersize=6)
        ax.set_xticks(range(len(columns)), columns)
        ax.set_xlim(-0.6, len(columns) - 0.4)
        ax.set_ylim(bottom=min(-0.1, ax.get_ylim()[0]))
        ax.grid(axis="x", visible=False)
    panels[0][0].set_ylabel("switches per round trip")
    return figure


def functions_plot(table: pd.DataFrame) -> Figure:
    """Bars with their numbers: how many functions, how many calls."""
    figure, panels, looks = _panels(table, 3.2)
    for ax, rows in panels:
        labels = list(dict.fromkeys(rows["label"]))
        for point in rows_of(rows):
            place = list(looks).index(str(point.transport))
            row = labels.index(point.label) + (place - (len(looks) - 1) / 2) * 0.36
            bar = ax.barh(row, point.value, 0.32, color=looks[str(point.transport)][1])
            fraction = point.value < 100 and point.value != int(point.value)
            ax.bar_label(bar, labels=[f"{point.value:,.{int(fraction)}f}"], padding=4)
        ax.set_yticks(range(len(labels)), list(map(place_title, labels)))
        ax.invert_yaxis()
        ax.margins(x=0.12)
        ax.grid(axis="y", visible=False)
    return figure
