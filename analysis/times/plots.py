# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of times. Each function draws one from curves and bars that are already made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.drawing import CARD, COLOURS, FAINT, INK, colour
from analysis.wording import place_title, size_text

STYLES = ("--", "-.", (0, (5, 1, 1, 1, 1, 1)), ":", (0, (9, 2)))
LABEL_APART = 0.062  # of the axes' height
LABEL = 28  # points, of two lines
STEP_UP, STEP_DOWN = "#8a9096", "#009e73"


@dataclass(frozen=True)
class Curve:
    """A line of one transport; `low` and `high` are a band around it, or empty."""

    transport: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


class Label(NamedTuple):
    """A transport's median and modes on the axis, and in words below it."""

    transport: str
    median: float
    modes: tuple[float, ...]
    text: str


@dataclass(frozen=True)
class Multiple:
    """One of several small plots. `beside` is drawn in grey, to compare with."""

    title: str
    curves: tuple[Curve, ...]
    beside: tuple[Curve, ...] = ()
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True)
class Bar:
    """A floating bar from one level to the next, with its text and the ends of its interval."""

    label: str
    start: float
    end: float
    text: str
    low: float | None
    high: float | None


def _small_multiples(
    rows: Sequence[Sequence[Multiple]], heights: tuple[float, float], faint: float, **line: Any
) -> tuple[Figure, Any, list[dict[str, tuple[str, Any]]]]:
    """Draw every curve. `heights`: of the only row, and of each of several.

    Returns the axes too, and for each row transport → colour and dashes; unix and tcp always have
    the same.
    """
    height = heights[len(rows) > 1] * len(rows) + 0.5
    figure = Figure(figsize=(9, height), layout="constrained")
    grid = figure.subplots(len(rows), max(map(len, rows)), squeeze=False, sharex=True, sharey=True)
    looks = []
    for axes, row in zip(grid, rows, strict=True):
        names = list(dict.fromkeys(c.transport for multiple in row for c in multiple.curves))
        others = [name for name in names if name not in COLOURS]
        look: dict[str, tuple[str, Any]] = {
            name: (colour(name, others), STYLES[others.index(name) % len(STYLES)])
            if name in others
            else (COLOURS[name], "-")
            for name in names
        }
        looks.append(look)
        for ax, multiple in zip(axes, row, strict=False):
            ax.set_title(place_title(multiple.title))
            ax.set_xscale("log")
            for curve in multiple.beside:
                ax.plot(curve.x, curve.y, linewidth=0.9, color=FAINT, alpha=faint)
            for curve in multiple.curves:
                ink, dashes = look[curve.transport]
                ax.plot(curve.x, curve.y, color=ink, linestyle=dashes, **line)
                if curve.low:
                    ax.fill_between(
                        curve.x, curve.low, curve.high, color=ink, alpha=0.18, linewidth=0
                    )
    return figure, grid, looks


def cdf_plot(rows: Sequence[Sequence[Multiple]], axis: str) -> Figure:
    """Share of iterations of at most x. A row for each group, a column for all conditions."""
    figure, grid, looks = _small_multiples(rows, (3.1, 2.3), 0.6, linewidth=1.3, alpha=0.8)
    for axes, row, look in zip(grid, rows, looks, strict=True):
        axes[0].set_ylabel("share of iterations, %")
        for ax, multiple in zip(axes, row, strict=False):
            _label(ax, multiple, {name: ink for name, (ink, _) in look.items()})
        handles = [
            Line2D([], [], color=ink, linestyle=dashes, linewidth=2, label=name)
            for name, (ink, dashes) in look.items()
        ]
        if len(rows) == 1:
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
        else:
            axes[-1].legend(
                handles=handles, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9.5
            )
    _plain_log(grid[0][0], [c.x for row in rows for multiple in row for c in multiple.curves])
    for ax in grid[-1]:
        ax.set_xlabel(axis)
    if most := max(len(multiple.labels) for row in rows for multiple in row):
        width, height = figure.get_size_inches()
        below = most * LABEL / 72
        figure.set_size_inches(width, height + below)
        share = below / (height + below)
        figure.set_layout_engine("constrained", rect=(0, share, 1, 1 - share))
    return figure


def _label(ax: Axes, multiple: Multiple, inks: Mapping[str, str]) -> None:
    """A ring at each median, a stroke at each mode, and the figures below the axis."""
    for row, (name, median, modes, text) in enumerate(multiple.labels):
        ax.plot(median, 50, "o", color=inks[name], markeredgecolor=CARD, markersize=9, zorder=5)
        ax.plot(modes, [-3] * len(modes), "|", color=inks[name], markersize=9, markeredgewidth=2)
        figures = ax.annotate(
            text, (0, 0), xycoords="axes fraction", xytext=(0, -40 - LABEL * row),
            textcoords="offset points", fontsize=9.5, va="top", color=inks[name],
        )  # fmt: skip
        figures.set_in_layout(False)


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
    figure, grid, looks = _small_multiples(
        rows, (3.6, 2.7), 0.7, marker=".", markersize=4, linewidth=1.4
    )
    every = [c for row in rows for multiple in row for c in (*multiple.curves, *multiple.beside)]
    sizes = sorted({x for curve in every for x in curve.x})
    values = [v for curve in every for v in (*curve.y, *curve.low, *curve.high)]
    low, high = min(values) / 1.3, max(values) * 1.3
    ticks = _ticks(low, high)
    for axes, row, look in zip(grid, rows, looks, strict=True):
        for ax, multiple in zip(axes, row, strict=False):
            ax.set_yscale("log")
            # Room at the right for the names.
            ax.set_xlim(sizes[0] / 1.5, sizes[-1] * (sizes[-1] / sizes[0]) ** 0.36 * 2.5)
            ax.set_ylim(low, high)
            ax.set_xticks(sizes, [size_text(int(size)) for size in sizes], rotation=40, ha="right",
                          rotation_mode="anchor", fontsize=9.5)  # fmt: skip
            ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.set_xticks([], minor=True)
            ax.set_yticks([], minor=True)
            named = [(curve, look[curve.transport][0]) for curve in multiple.curves]
            _name_lines(ax, [*named, *((curve, FAINT) for curve in multiple.beside)])
        axes[0].set_ylabel(axis)
    return figure


def _name_lines(ax: Axes, named: list[tuple[Curve, str]]) -> None:
    """The names in a column at the right, each tied to its line's end, none on another."""
    low, high = np.log(ax.get_ylim())
    column = 2.5 * max((curve.x[-1] for curve, _ in named), default=1)
    heights = [float((np.log(curve.y[-1]) - low) / (high - low)) for curve, _ in named]
    ends = sorted(zip(heights, named, strict=True), key=lambda end: end[0])
    places = _apart([height for height, _ in ends])
    for place, (_, (curve, ink)) in zip(places, ends, strict=True):
        ax.annotate(
            curve.transport, (curve.x[-1], curve.y[-1]),
            xytext=(column, np.exp(low + place * (high - low))), color=ink, fontsize=9.5,
            va="center", arrowprops={"arrowstyle": "-", "color": ink, "linewidth": 0.5,
                                     "shrinkA": 0, "shrinkB": 1},
        )  # fmt: skip


def _apart(places: list[float]) -> list[float]:
    """Ascending places, at least LABEL_APART from each other, moved as a group and little."""
    clusters: list[list[float]] = []
    for place in places:
        clusters.append([place])
        while clusters[1:] and _spread(clusters[-1])[0] < _spread(clusters[-2])[-1] + LABEL_APART:
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    return [place for cluster in clusters for place in _spread(cluster)]


def _spread(cluster: list[float]) -> list[float]:
    """As many places about the mean of these, LABEL_APART from each other."""
    first = sum(cluster) / len(cluster) - LABEL_APART * (len(cluster) - 1) / 2
    return [first + n * LABEL_APART for n in range(len(cluster))]


@dataclass(frozen=True)
class Panel:
    """Bars of one transport, or of a difference, which has an axis of its own."""

    title: str
    transport: str
    bars: tuple[Bar, ...]


def waterfall_plot(rows: Sequence[Sequence[Panel]]) -> Figure:
    """Bars that begin where the one above ends. A row for each placement, differences last."""
    figure = Figure(figsize=(9, 1.6 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), max(map(len, rows)), squeeze=False)
    for axes, panels in zip(grid, rows, strict=True):
        ends = [(_furthest(panel), panel.transport) for panel in panels]
        shared = max((end for end, transport in ends if transport), default=0)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        for ax, panel, (own, transport) in zip(axes, panels, ends, strict=False):
            _draw_bars(ax, panel)
            ax.set_xlim(right=(shared if transport else own) * 1.5)
        for ax in axes[1 : len(panels)]:
            ax.tick_params(labelleft=False)
    for ax in grid[-1]:
        ax.set_xlabel("µs a message")
    return figure


def _furthest(panel: Panel) -> float:
    return max(max(bar.start, bar.end, bar.high or 0) for bar in panel.bars)


def _draw_bars(ax: Axes, panel: Panel) -> None:
    ax.set_title(panel.title)
    for row, (before, bar) in enumerate(zip((None, *panel.bars), panel.bars, strict=False)):
        fill = STEP_DOWN if bar.end < bar.start else COLOURS.get(panel.transport, STEP_UP)
        ax.barh(row, bar.end - bar.start, 0.55, left=bar.start, color=fill)
        if bar.low is not None and bar.high is not None:
            ax.hlines(row, bar.low, bar.high, color=INK, linewidth=1.2)
        if before:
            ax.vlines(bar.start, row - 1, row, color=FAINT, linewidth=0.7)
        edge = max(bar.start, bar.end, bar.high or 0)
        ax.annotate(bar.text, (edge, row), xytext=(5, 0), textcoords="offset points",
                    va="center", fontsize=9)  # fmt: skip
    ax.set_yticks(range(len(panel.bars)), [bar.label for bar in panel.bars])
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
