# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of times. Each function draws one from curves and bars that are already made."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.drawing import COLOURS, FAINT, INK, OTHERS
from analysis.wording import size_text

STYLES = ("--", "-.", (0, (5, 1, 1, 1, 1, 1)), ":", (0, (9, 2)))
LABEL_APART = 0.055  # of the axes' height
STEP_UP, STEP_DOWN = "#8a9096", "#009e73"


@dataclass(frozen=True)
class Curve:
    """A line of one transport; `low` and `high` are a band around it, or empty."""

    transport: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Multiple:
    """One of several small plots. `beside` is drawn in grey, to compare with."""

    title: str
    curves: tuple[Curve, ...]
    beside: tuple[Curve, ...] = ()


@dataclass(frozen=True)
class Bar:
    """A floating bar from one level to the next, with its text and the ends of its interval."""

    label: str
    start: float
    end: float
    text: str
    low: float | None
    high: float | None


def looks(transports: Iterable[str]) -> dict[str, tuple[str, Any]]:
    """Transport → colour and dashes; unix and tcp always have the same."""
    others = [name for name in transports if name not in COLOURS]
    styles: dict[str, tuple[str, Any]] = {
        name: (OTHERS[n % len(OTHERS)], STYLES[n % len(STYLES)]) for n, name in enumerate(others)
    }
    usual: dict[str, tuple[str, Any]] = {name: (colour, "-") for name, colour in COLOURS.items()}
    return usual | styles


def _grid(rows: Sequence[Sequence[Multiple]], height: float) -> tuple[Figure, list[list[Axes]]]:
    columns = max(map(len, rows))
    figure = Figure(figsize=(9, height * len(rows) + 0.5), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False, sharex=True, sharey=True)
    return figure, [list(row) for row in axes]


def cdf_plot(rows: Sequence[Sequence[Multiple]], axis: str) -> Figure:
    """Share of iterations of at most x. A row for each group, a column for each placement."""
    figure, grid = _grid(rows, 3.1 if len(rows) == 1 else 2.3)
    every = [one for row in rows for multiple in row for one in multiple.curves]
    for axes, row in zip(grid, rows, strict=True):
        style = looks(dict.fromkeys(c.transport for multiple in row for c in multiple.curves))
        for ax, multiple in zip(axes, row, strict=False):
            ax.set_title(multiple.title)
            for one in multiple.beside:
                ax.plot(one.x, one.y, linewidth=0.9, color=FAINT, alpha=0.6)
            for one in multiple.curves:
                colour, dashes = style[one.transport]
                ax.plot(one.x, one.y, linewidth=1.3, alpha=0.8, color=colour, linestyle=dashes)
            ax.set_xscale("log")
        axes[0].set_ylabel("share of iterations, %")
        there = dict.fromkeys(c.transport for multiple in row for c in multiple.curves)
        handles = [
            Line2D([], [], color=style[name][0], linestyle=style[name][1], linewidth=2, label=name)
            for name in there
        ]
        if len(rows) == 1:
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
        else:
            axes[-1].legend(handles=handles, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    _plain_log(grid[0][0], [one.x for one in every])
    for ax in grid[-1]:
        ax.set_xlabel(axis)
    return figure


def _plain_log(ax: Axes, lines: list[tuple[float, ...]]) -> None:
    """Plain numbers at 1, 2 and 5 of every decade, as far as most of each line goes."""
    low = min(float(np.percentile(line, 0.5)) for line in lines) / 1.2
    high = max(float(np.percentile(line, 95)) for line in lines) * 1.5
    ticks = _ticks(low, high)
    ax.set_xlim(low, high)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)


def _ticks(low: float, high: float) -> list[float]:
    """At 1, 2 and 5 of every decade; over many decades at 1 only."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    leads = (1, 2, 5) if high / low < 300 else (1,)
    ticks = [lead * 10.0**decade for decade in decades for lead in leads]
    return [tick for tick in ticks if low <= tick <= high]


def sizes_plot(rows: Sequence[Sequence[Multiple]], axis: str) -> Figure:
    """p50 by message size, both logarithmic; each line is named at its end."""
    figure, grid = _grid(rows, 3.6 if len(rows) == 1 else 2.7)
    every = [c for row in rows for multiple in row for c in (*multiple.curves, *multiple.beside)]
    sizes = sorted({x for one in every for x in one.x})
    values = [v for one in every for v in (*one.y, *one.low, *one.high)]
    low, high = min(values) / 1.3, max(values) * 1.3
    for axes, row in zip(grid, rows, strict=True):
        style = looks(dict.fromkeys(c.transport for multiple in row for c in multiple.curves))
        for ax, multiple in zip(axes, row, strict=False):
            ax.set_title(multiple.title)
            ax.set_xscale("log")
            ax.set_yscale("log")
            # Room at the right for the names.
            ax.set_xlim(sizes[0] / 1.5, sizes[-1] * (sizes[-1] / sizes[0]) ** 0.36 * 2.5)
            ax.set_ylim(low, high)
            ax.set_xticks(sizes, [size_text(int(size)) for size in sizes], rotation=40, ha="right",
                          rotation_mode="anchor", fontsize=8)  # fmt: skip
            ax.set_xticks([], minor=True)
            ticks = _ticks(low, high)
            ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.set_yticks([], minor=True)
            for one in multiple.beside:
                ax.plot(one.x, one.y, linewidth=0.9, color=FAINT, alpha=0.7)
            for one in multiple.curves:
                colour, dashes = style[one.transport]
                ax.plot(one.x, one.y, marker=".", markersize=4, linewidth=1.4, color=colour,
                        linestyle=dashes)  # fmt: skip
                if one.low:
                    ax.fill_between(one.x, one.low, one.high, color=colour, alpha=0.18, linewidth=0)
            _name_lines(ax, multiple, {name: colour for name, (colour, _) in style.items()})
        axes[0].set_ylabel(axis)
    return figure


def _name_lines(ax: Axes, multiple: Multiple, colours: dict[str, str]) -> None:
    """The names in a column at the right, each tied to its line's end, none on another."""
    low, high = np.log(ax.get_ylim())
    named = [(one, colours[one.transport]) for one in multiple.curves]
    named += [(one, FAINT) for one in multiple.beside]
    column = 2.5 * max((one.x[-1] for one, _ in named), default=1)
    ends = sorted(
        ((float((np.log(one.y[-1]) - low) / (high - low)), one, colour) for one, colour in named),
        key=lambda end: end[0],
    )
    places = _apart([place for place, _, _ in ends])
    for place, (_, one, colour) in zip(places, ends, strict=True):
        ax.annotate(
            one.transport, (one.x[-1], one.y[-1]),
            xytext=(column, np.exp(low + place * (high - low))), color=colour, fontsize=8,
            va="center", arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5,
                                     "shrinkA": 0, "shrinkB": 1},
        )  # fmt: skip


def _apart(places: list[float]) -> list[float]:
    """Ascending places, at least LABEL_APART from each other, moved as a group and little."""
    clusters: list[list[float]] = []
    for place in places:
        clusters.append([place])
        while len(clusters) > 1 and _first(clusters[-1]) < _last(clusters[-2]) + LABEL_APART:
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    return [_first(cluster) + n * LABEL_APART for cluster in clusters for n in range(len(cluster))]


def _first(cluster: list[float]) -> float:
    return sum(cluster) / len(cluster) - LABEL_APART * (len(cluster) - 1) / 2


def _last(cluster: list[float]) -> float:
    return _first(cluster) + LABEL_APART * (len(cluster) - 1)


BESIDE = 3  # waterfalls in a row


def waterfall_plot(panels: dict[str, tuple[Bar, ...]]) -> Figure:
    """Bars that begin where the one above ends: each is what one more difference costs."""
    labels = list(dict.fromkeys(bar.label for bars in panels.values() for bar in bars))
    rows, columns = -(-len(panels) // BESIDE), min(BESIDE, len(panels))
    figure = Figure(figsize=(9, rows * (1.2 + 0.42 * len(labels))), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=True, sharex=True).flat)
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    furthest = max(max(bar.start, bar.end, bar.high or 0) for b in panels.values() for bar in b)
    for ax, (title, bars) in zip(axes, panels.items(), strict=False):
        ax.set_title(title)
        for before, bar in zip((None, *bars), bars, strict=False):
            row = labels.index(bar.label)
            colour = COLOURS.get(title, STEP_UP)
            colour = STEP_DOWN if bar.end < bar.start else colour
            ax.barh(row, bar.end - bar.start, 0.55, left=bar.start, color=colour)
            if bar.low is not None and bar.high is not None:
                ax.hlines(row, bar.low, bar.high, color=INK, linewidth=1.2)
            if before:
                ax.vlines(bar.start, labels.index(before.label), row, color=FAINT, linewidth=0.7)
            edge = max(bar.start, bar.end, bar.high or 0)
            ax.annotate(bar.text, (edge, row), xytext=(5, 0), textcoords="offset points",
                        va="center", fontsize=9)  # fmt: skip
        ax.set_xlim(right=furthest * 1.45)
        ax.set_xlabel("µs a message")
        ax.grid(axis="y", visible=False)
    axes[0].set_yticks(range(len(labels)), labels)
    axes[0].invert_yaxis()
    return figure
