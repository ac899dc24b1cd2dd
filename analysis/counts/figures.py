# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of counts: what each shows, its caption, and where its numbers are from.

Each is drawn from a table with the columns panel, label, transport, value, low and high.
"""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.counts.ledger import Ledger, Row, in_reading_order
from analysis.counts.measures import MEASURE_BY_ID, best_source, rows_of, source_of
from analysis.drawing import FAINT, MARKERS, Drawn, axes_row, colour, drawn, not_drawn, words
from analysis.wording import listed, number, place_title, size_text
from runners.cell import ROUND_TRIP_PATTERNS

COMPARED = (
    "payload_copies",
    "skb_allocs",
    "skb_clones",
    "segments_data",
    "segments_ack",
    "lo_packets",
    "softirqs",
)
SCHEDULED = ("wakeups", "switches")  # of a round trip, where the pattern has one
SWITCH_KINDS = {
    "switches_voluntary": "voluntary: went to sleep",
    "switches_involuntary": "involuntary: was preempted",
}
POINT_COLUMNS = ["panel", "label", "transport", "value", "low", "high"]


def draw_counts(ledger: Ledger, measured: pd.DataFrame) -> tuple[Drawn, ...]:
    """The figures of a ledger, in the order of the report; of many transports the first few."""
    conditions = f"{ledger.pattern}, {size_text(ledger.size)}"
    narrow = ledger.narrow()
    if narrow is not ledger:
        conditions = f"{conditions}, {listed(narrow.transports)}: the others are in the full ledger"
        measured = measured[measured["transport"].isin(narrow.transports)]
    return _ledger(narrow, conditions), _switches(narrow, measured, conditions)


def _points(ledger: Ledger, row: Row) -> list[tuple[str, str, float, float, float]]:
    """Conditions, transport, value and range of a row's valid figures."""
    return [
        (*column, entry.value, *entry.ends)
        for column in ledger.columns
        if (entry := row.entries.get(column)) and entry.valid
    ]


def _ledger(ledger: Ledger, conditions: str) -> Drawn:
    end = "" if ledger.pattern in ROUND_TRIP_PATTERNS else "_per_message"
    measures = [*COMPARED, *(f"{name}{end}" for name in SCHEDULED)]
    points = {row: found for row in map(ledger.row, measures) if (found := _points(ledger, row))}
    alike = [row for row in points if len({tuple(map(number, p[2:])) for p in points[row]}) < 2]
    note = ""
    if 0 < len(alike) < len(points):
        each = [f"{row.measure.words} ({number(points.pop(row)[0][2])})" for row in alike]
        note = words("ledger", "note", each=listed(each))
    per = {"round trip": " per round trip"}
    rows = [
        (place, f"{row.measure.words}{per.get(row.measure.per, '')} ({row.target})", *figure)
        for row, found in points.items()
        for place, *figure in found
    ]
    if not rows:
        return not_drawn("ledger")
    table = pd.DataFrame(rows, columns=POINT_COLUMNS)
    table = table.iloc[table["panel"].map(ledger.conditions.index).argsort(kind="stable")]
    sources = listed(list(dict.fromkeys(row.source for row in points)))
    return drawn(
        "ledger",
        ledger_plot,
        table,
        data=table,
        conditions=conditions,
        note=note,
        sources=sources,
        number=len(points),
    )


def _switches(ledger: Ledger, measured: pd.DataFrame, conditions: str) -> Drawn:
    cells = (measured["pattern"] == ledger.pattern) & (measured["size"] == ledger.size)
    rows = measured[
        cells & measured["measure"].isin(list(SWITCH_KINDS)) & measured["valid"].astype(bool)
    ]
    if rows.empty:
        return not_drawn("switches")
    best = best_source(rows, MEASURE_BY_ID["switches"])
    best = in_reading_order(best.sort_values(["repeat", "value"]))
    best = best.iloc[best["measure"].map(list(SWITCH_KINDS).index).argsort(kind="stable")]
    table = best.assign(
        panel=best["measure"].map(SWITCH_KINDS),
        label=best["conditions"],
        low=best["value"],
        high=best["value"],
    )[POINT_COLUMNS]
    return drawn(
        "switches", switches_plot, table, data=table, conditions=conditions, source=source_of(best)
    )


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
