# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of counts. Each function draws one from tables that are already made."""

from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.drawing import FAINT, MARKERS, axes_row, colour
from analysis.wording import place_title


class Point(NamedTuple):
    """A figure of one transport, with its spread over repeats."""

    transport: str
    label: str
    value: float
    low: float
    high: float


class Panel(NamedTuple):
    """One set of axes: a title and what is in it."""

    title: str
    points: tuple[Point, ...]


def points_table(panels: tuple[Panel, ...]) -> pd.DataFrame:
    """A row for each point: what panels are drawn from."""
    rows = [
        (panel.title, p.label, p.transport, p.value, p.low, p.high)
        for panel in panels
        for p in panel.points
    ]
    return pd.DataFrame(rows, columns=["panel", "label", "transport", "value", "low", "high"])


def _transports(panels: tuple[Panel, ...]) -> list[str]:
    return list(dict.fromkeys(point.transport for panel in panels for point in panel.points))


def _legend(figure: Figure, transports: list[str]) -> None:
    handles = [
        Line2D([], [], linestyle="", marker=MARKERS[i % len(MARKERS)], markersize=8,
               color=colour(name, transports), label=name)
        for i, name in enumerate(transports)
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))


def ledger_plot(panels: tuple[Panel, ...], unit: str) -> Figure:
    """A dumbbell for each measure: read the distance between the two marks, not their place."""
    labels = list(dict.fromkeys(p.label for panel in panels for p in panel.points))
    transports = _transports(panels)
    figure, axes = axes_row(len(panels), 9, 1.3 + 0.62 * len(labels), sharey=True, sharex=True)
    for ax, panel in zip(axes, panels, strict=True):
        ax.set_title(place_title(panel.title))
        for label in labels:
            values = [p.value for p in panel.points if p.label == label]
            if values:
                row = labels.index(label)
                ax.hlines(row, min(values), max(values), color=FAINT, linewidth=1.5)
        for point in panel.points:
            number = transports.index(point.transport)
            ax.plot(point.value, labels.index(point.label), MARKERS[number % len(MARKERS)],
                    color=colour(point.transport, transports), ms=9 - 2 * number)  # fmt: skip
        ax.set_xlabel(unit)
        ax.grid(axis="y", visible=False)
        ax.set_xlim(left=min(0, ax.get_xlim()[0]))
    # Above its row: beside the axes, labels would be all that a phone shows.
    for row, label in enumerate(labels):
        axes[0].text(0.02, row - 0.3, label, transform=axes[0].get_yaxis_transform(), va="bottom")
    axes[0].set_yticks([])
    axes[0].set_ylim(len(labels) - 0.6, -0.9)
    _legend(figure, transports)
    return figure


def switches_plot(panels: tuple[Panel, ...]) -> Figure:
    """Each dot is one repeat. Two groups in a column are two conditions."""
    transports = _transports(panels)
    figure, axes = axes_row(len(panels), 9, 3.6, sharey=True)
    for ax, panel in zip(axes, panels, strict=True):
        ax.set_title(panel.title)
        columns = list(dict.fromkeys((p.label, p.transport) for p in panel.points))
        for x, (label, transport) in enumerate(columns):
            values = [p.value for p in panel.points if (p.label, p.transport) == (label, transport)]
            half = (len(values) - 1) / 2  # places side by side around x, in the order of repeats
            places = [x + 0.2 * (i - half) / max(half, 0.5) for i in range(len(values))]
            ax.plot(places, values, MARKERS[transports.index(transport)],
                    color=colour(transport, transports), alpha=0.75, markersize=6)  # fmt: skip
        ax.set_xticks(
            range(len(columns)),
            [f"{place_title(label)}\n{transport}" for label, transport in columns],
        )
        ax.set_xlim(-0.6, len(columns) - 0.4)
        ax.set_ylim(bottom=min(-0.1, ax.get_ylim()[0]))
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel("switches per round trip")
    _legend(figure, transports)
    return figure


def functions_plot(panels: tuple[Panel, ...]) -> Figure:
    """Bars with their numbers: how many functions, how many calls."""
    transports = _transports(panels)
    figure, axes = axes_row(len(panels), 9, 3.2)
    for ax, panel in zip(axes, panels, strict=True):
        ax.set_title(panel.title)
        labels = list(dict.fromkeys(p.label for p in panel.points))
        for point in panel.points:
            number = transports.index(point.transport)
            row = labels.index(point.label) + (number - (len(transports) - 1) / 2) * 0.36
            bar = ax.barh(row, point.value, 0.32, color=colour(point.transport, transports))
            whole = point.value >= 100 or point.value == int(point.value)
            ax.bar_label(bar, labels=[f"{point.value:,.{0 if whole else 1}f}"], padding=4)
        ax.set_yticks(range(len(labels)), list(map(place_title, labels)))
        ax.invert_yaxis()
        ax.margins(x=0.12)
        ax.grid(axis="y", visible=False)
    _legend(figure, transports)
    return figure
