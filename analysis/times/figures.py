# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of times: what each shows, its caption, and where its numbers are from."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from analysis.counts.ledger import FIRST_PLACEMENTS, MOST_TOGETHER, Ledger, order
from analysis.drawing import CARD, COLOURS, FAINT, INK, Drawn, colour, drawn, not_drawn, words
from analysis.times.parts import REST, STACK_OF, Parts, lacking, uneven
from analysis.times.timing import ITERATION, ROUND_TRIP, Iterations, Times
from analysis.wording import amount, listed, place, place_title, size_text
from probes.transports import PAIR, read_transports

QUANTILES = 300
FAMILIES = tuple(dict.fromkeys(one.family for one in read_transports().values() if one.family))
DASHES = ("--", "-.", (0, (5, 1, 1, 1, 1, 1)), ":", (0, (9, 2)))
STEP_UP, STEP_DOWN = "#8a9096", "#009e73"
PARTS = ["placement", "transport", "than", "bytes", "part", "ns", "low_ns", "high_ns", "repeats"]
Plots = list[tuple[str, Axes, dict[str, tuple[str, Any]]]]


def draw_times(
    ledger: Ledger, timings: Sequence[Times], parts: Sequence[Parts], iterations: Iterations
) -> tuple[Drawn, ...]:
    """The figures of a ledger's pattern and size, in the order of the report."""
    same = [times for times in timings if times.pattern == ledger.pattern]
    kernels = sorted({times.kernel for times in same})
    source = f"Numbers: the workload's clock, no probe attached · host · {listed(kernels)}."
    # The placements that the run was started for.
    requested = {conditions for conditions, _ in ledger.columns}
    shown = [p for p in parts if p.size == ledger.size and p.transport in PAIR]
    return (
        _latency(ledger, requested, iterations, same, source),
        _waterfall(shown, source),
        _sizes([times for times in same if times.conditions in requested], source),
    )


def _latency(
    ledger: Ledger,
    requested: set[str],
    iterations: Iterations,
    timings: Sequence[Times],
    source: str,
) -> Drawn:
    iteration = ITERATION.get(ledger.pattern, ROUND_TRIP)
    pattern, size = ledger.pattern, ledger.size
    cells = {key[2:]: repeats for key, repeats in iterations.items() if key[:2] == (pattern, size)}
    if not cells:
        return not_drawn("latency", iteration=iteration)
    many = len({transport for _, transport in cells}) > MOST_TOGETHER
    share = np.linspace(0, 100, QUANTILES)
    points = pd.concat(
        pd.DataFrame(
            {
                "panel": conditions,
                "transport": name,
                "line": line,
                "us": np.percentile(times, share) / 1000,
                "percent": share,
            }
        )
        for (conditions, name), repeats in sorted(cells.items(), key=lambda cell: _order(*cell[0]))
        if not many or conditions in requested
        for line, times in enumerate([np.concatenate(repeats)] if many else repeats)
    )
    marked = [] if many else [times for times in timings if times.size == size]
    return drawn(
        "latency",
        cdf_plot,
        points,
        marked,
        data=points,
        caption="many" if many else "caption",
        iteration=iteration,
        cell=f"{pattern}, {size_text(size)}",
        source=source,
    )


def _order(conditions: str, transport: str) -> tuple[object, ...]:
    return order(conditions, FIRST_PLACEMENTS), order(transport, PAIR)


def _sizes(timings: Sequence[Times], source: str) -> Drawn:
    table = pd.DataFrame(
        [
            (
                times.conditions,
                times.transport,
                times.size,
                p50.value,
                p50.low,
                p50.high,
                p50.repeats,
            )
            for times in timings
            if (p50 := times.p50)
        ],
        columns=["conditions", "transport", "bytes", "p50_ns", "low_ns", "high_ns", "repeats"],
    )
    if table["bytes"].nunique() < 2:
        return not_drawn("sizes")
    many = table["transport"].nunique() > MOST_TOGETHER
    axis = f"p50 of a {timings[0].iteration}"
    grey = words("sizes", "grey") if many else ""
    return drawn(
        "sizes", sizes_plot, table, f"{axis}, µs", data=table, axis=axis, grey=grey, source=source
    )


def _waterfall(parts: Sequence[Parts], source: str) -> Drawn:
    divided = [part for part in parts if "rest" in part.figures]
    alone = [part for part in parts if not part.than]
    why = [text for part in alone for text in (uneven(part), lacking(part)) if text]
    if not divided:
        none = not_drawn("waterfall")
        return replace(none, caption=" ".join([none.caption, *why]))
    cells = "; ".join(f"{place(where)}, the stack is {stack}" for where, stack in STACK_OF.items())
    table = pd.DataFrame(
        [
            (p.placement, p.transport, p.than, p.size, name, e.value, e.low, e.high, e.repeats)
            for p in parts
            for name, e in p.figures.items()
        ],
        columns=PARTS,
    )
    shorter = any(e.value < 0 for part in divided for e in part.figures.values())
    return drawn(
        "waterfall",
        waterfall_plot,
        divided,
        green=words("waterfall", "green") if shorter else "",
        data=table,
        size=size_text(divided[0].size),
        cells=cells,
        why=" ".join([*why, source]),
        names=listed(list(dict.fromkeys(part.transport for part in divided))),
    )


def _small_multiples(
    points: pd.DataFrame, axis: tuple[str, str], heights: tuple[float, float], **line: Any
) -> tuple[Figure, Plots]:
    """A column for each panel; a row for each family of transports, or one for all.

    `points` has the columns panel, transport, line, x, y and perhaps low and high. Many transports
    have unix and tcp in grey in each plot, to compare with. Returns, for each plot in its order,
    its panel and axes, and its transports with colour and dashes; unix and tcp always have the
    same. `heights`: of the only row, and of each of several.
    """
    panels = sorted(set(points["panel"]), key=lambda name: order(name, FIRST_PLACEMENTS))
    names = sorted(set(points["transport"]), key=lambda name: order(name, PAIR))
    many = len(names) > MOST_TOGETHER
    rows: dict[str, list[str]] = {}
    for name in names:
        family = read_transports()[name].family or "others"
        rows.setdefault(family if many else "", []).append(name)
    families = sorted(rows, key=lambda family: order(family, FAMILIES))
    figure = Figure(figsize=(9, heights[len(rows) > 1] * len(rows) + 0.5), layout="constrained")
    grid = figure.subplots(len(rows), len(panels), squeeze=False, sharex=True, sharey=True)
    for ax in grid[-1]:
        ax.set_xlabel(axis[0])
    plots = []
    for axes, family in zip(grid, families, strict=True):
        others = [name for name in rows[family] if name not in COLOURS]
        dashed: dict[str, Any] = dict(zip(others, cycle(DASHES), strict=False))
        looks = {name: (colour(name, others), dashed.get(name, "-")) for name in rows[family]}
        axes[0].set_ylabel(axis[1])
        for ax, panel in zip(axes, panels, strict=True):
            ax.set_title(place_title(f"{panel} · {family}" if family else panel))
            ax.set_xscale("log")
            greys = dict.fromkeys(PAIR if many else (), (FAINT, "-"))
            for name, (ink, dashes) in (greys | looks).items():
                own = points[(points["panel"] == panel) & (points["transport"] == name)]
                look = line if name in looks else {"linewidth": 0.9, "alpha": 0.6}
                for _, curve in own.groupby("line"):
                    ax.plot(curve["x"], curve["y"], color=ink, linestyle=dashes, **look)
                    if "low" in curve and name in looks:
                        ax.fill_between(
                            curve["x"],
                            curve["low"],
                            curve["high"],
                            color=ink,
                            alpha=0.18,
                            linewidth=0,
                        )
            plots.append((panel, ax, looks))
        handles = [
            Line2D([], [], color=ink, linestyle=dashes, linewidth=2, label=name)
            for name, (ink, dashes) in looks.items()
        ]
        if many:
            axes[-1].legend(
                handles=handles, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9.5
            )
        else:
            figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    return figure, plots


def cdf_plot(points: pd.DataFrame, marked: Iterable[Times]) -> Figure:
    """Share of iterations of at most x; of the marked times a ring at the median, and modes."""
    points = points.rename(columns={"us": "x", "percent": "y"})
    axis = "time, µs (log scale)", "share of iterations, %"
    figure, plots = _small_multiples(points, axis, (3.1, 2.3), linewidth=1.3, alpha=0.8)
    places = {panel: (ax, looks) for panel, ax, looks in plots}
    for times in marked:
        ax, looks = places[times.conditions]
        look: dict[str, Any] = {"color": looks[times.transport][0], "markersize": 9}
        if times.p50:
            ax.plot(times.p50.value / 1000, 50, "o", markeredgecolor=CARD, zorder=5, **look)
        several = times.modality and times.modality.several()
        modes = [mode.at / 1000 for mode in several[1].modes] if several else []
        ax.plot(modes, [-3] * len(modes), "|", markeredgewidth=2, **look)
    # As far as most of each line goes.
    ends = points.groupby(["panel", "transport", "line"])["x"]
    plots[0][1].set_xlim(ends.quantile(0.005).min() / 1.2, ends.quantile(0.95).max() * 1.5)
    _plain(plots[0][1].xaxis)
    return figure


def _plain(axis: Any) -> None:
    """Plain numbers at 1, 2 and 5 of every decade; over many decades at 1 only."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,), numticks=99))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(LogLocator(subs=()))


def sizes_plot(table: pd.DataFrame, axis: str) -> Figure:
    """p50 by message size, both logarithmic."""
    ns = table[["p50_ns", "low_ns", "high_ns"]].astype(float) / 1000
    ns = ns.T.fillna(ns["p50_ns"]).T.set_axis(["y", "low", "high"], axis=1)  # no interval, no band
    points = table.assign(panel=table["conditions"], line=0, x=table["bytes"]).join(ns)
    figure, plots = _small_multiples(
        points.sort_values("x"), ("", axis), (3.6, 2.7), marker=".", markersize=4, linewidth=1.4
    )
    sizes = sorted(set(points["x"]))
    for _, ax, _ in plots:
        ax.set_yscale("log")
        ax.set_xticks(
            sizes,
            [size_text(int(size)) for size in sizes],
            rotation=40,
            ha="right",
            rotation_mode="anchor",
            fontsize=9.5,
        )
        ax.set_xticks([], minor=True)
        _plain(ax.yaxis)
    return figure


def waterfall_plot(parts: Sequence[Parts]) -> Figure:
    """Bars that begin where the one above ends. A row for each placement, differences last."""
    rows = [
        [part for part in parts if part.placement == placement]
        for placement in dict.fromkeys(part.placement for part in parts)
    ]
    figure = Figure(figsize=(9, 1.6 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), max(map(len, rows)), squeeze=False)
    for axes, own in zip(grid, rows, strict=True):
        ends = [_draw_bars(axes[i], part, first=not i) for i, part in enumerate(own)]
        shared = max((end for end, part in zip(ends, own, strict=True) if not part.than), default=0)
        for ax in axes[len(own) :]:
            ax.set_axis_off()
        for ax, part, end in zip(axes, own, ends, strict=False):
            ax.set_xlim(right=(end if part.than else shared) * 1.5)
    for ax in grid[-1]:
        ax.set_xlabel("µs a message")
    return figure


def _draw_bars(ax: Axes, part: Parts, *, first: bool) -> float:
    """Draw the stack, and what comes on top of it; return the furthest end."""
    ax.set_title(f"{part.transport} minus {part.than}" if part.than else part.transport)
    start, furthest = 0.0, 0.0
    for row, figure in enumerate((part.figures["stack"], part.figures["rest"])):
        width = figure.value / 1000
        usual = STEP_UP if part.than else COLOURS.get(part.transport, STEP_UP)
        ax.barh(row, width, 0.55, left=start, color=STEP_DOWN if width < 0 else usual)
        edge = max(start, start + width)
        if figure.low is not None and figure.high is not None:
            low, high = start + figure.low / 1000, start + figure.high / 1000
            ax.hlines(row, low, high, color=INK, linewidth=1.2)
            edge = max(edge, high)
        if row:
            ax.vlines(start, row - 1, row, color=FAINT, linewidth=0.7)
        text = amount(figure.value, "ns")
        text = f"({text})" if figure.low is not None and figure.spans(0) else text
        ax.annotate(
            text, (edge, row), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9
        )
        start, furthest = start + width, max(furthest, edge)
    ax.set_yticks(range(2), [f"stack, {place(part.placement)}", REST[part.placement]])
    ax.tick_params(labelleft=first)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    return furthest
