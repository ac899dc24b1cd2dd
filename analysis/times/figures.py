# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of times: what each shows, its caption, and where its numbers are from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.counts.ledger import FIRST_PLACEMENTS, FIRST_TRANSPORTS, MOST_TOGETHER, Ledger, order
from analysis.drawing import CARD, COLOURS, FAINT, INK, Drawn, colour, drawn, not_drawn
from analysis.statistics import Values
from analysis.times.modes import ITERATIONS
from analysis.times.timing import ITERATION, ROUND_TRIP, Iterations, Times
from analysis.times.waterfall import REST, STACK_OF, Parts, lacking, uneven
from analysis.wording import amount, listed, place, place_title, size_text
from probes.transports import read_transports

QUANTILES = 300
FAMILIES = tuple(dict.fromkeys(one.family for one in read_transports().values() if one.family))
GREY = " Grey: unix and tcp, to compare with."
ALL_SIZES = "--target host --sizes 1,64,1K,4K,16K,64K,256K,1M"
STYLES = ("--", "-.", (0, (5, 1, 1, 1, 1, 1)), ":", (0, (9, 2)))
LABEL_APART = 0.062  # of the axes' height
LABEL = 28  # points, of two lines
STEP_UP, STEP_DOWN = "#8a9096", "#009e73"
PARTS = ["placement", "transport", "than", "bytes", "part", "ns", "low_ns", "high_ns", "repeats"]


class Curve(NamedTuple):
    """A line of one transport; `low` and `high` are a band around it."""

    x: Values
    y: Values
    low: Values | None = None
    high: Values | None = None


class Label(NamedTuple):
    """A transport's median and modes on the axis, and in words below it."""

    transport: str
    median: float
    modes: tuple[float, ...]
    text: str


Curves = Mapping[tuple[str, str], Sequence[Curve]]  # conditions and transport → its lines


def draw_times(
    ledger: Ledger,
    timings: Sequence[Times],
    parts: Sequence[Parts],
    iterations: Iterations,
) -> tuple[Drawn, ...]:
    """The figures of a ledger's pattern and size, in the order of the report."""
    pattern, size = ledger.pattern, ledger.size
    same = [times for times in timings if times.pattern == pattern]
    kernels = sorted({latency.kernel for times in same for latency in times.latencies})
    source = f"Numbers: the workload's clock, no probe attached · host · {listed(kernels)}."
    # The placements that the run was started for.
    requested = {conditions for conditions, _ in ledger.columns}
    shown = [p for p in parts if p.size == size and p.transport in FIRST_TRANSPORTS]
    return (
        _latency(ledger, requested, iterations, same, source),
        _waterfall(shown, source),
        _sizes([times for times in same if times.conditions in requested], source),
    )


def _latency(
    ledger: Ledger, requested: set[str], iterations: Iterations, timings: Sequence[Times],
    source: str,
) -> Drawn:  # fmt: skip
    title = f"How long a {ITERATION.get(ledger.pattern, ROUND_TRIP)} takes"
    pattern, size = ledger.pattern, ledger.size
    cells = {key[2:]: repeats for key, repeats in iterations.items() if key[:2] == (pattern, size)}
    keys = sorted(
        cells, key=lambda k: (order(k[0], FIRST_PLACEMENTS), order(k[1], FIRST_TRANSPORTS))
    )
    if not cells:
        return not_drawn("latency", title, "no valid, unprobed cell of the host")
    many = len({transport for _, transport in cells}) > MOST_TOGETHER
    share = np.linspace(0, 100, QUANTILES)
    curves = {
        key: [
            Curve(np.percentile(times, share) / 1000, share)
            for times in ([np.concatenate(cells[key])] if many else cells[key])
        ]
        for key in keys
        if not many or key[0] in requested
    }
    labels: dict[str, list[Label]] = {}
    if not many:
        labels = {t.conditions: list(_labels(t)) for t in timings if t.size == size}
    lines, agree = "repeat", " Lines of one colour that lie on each other: repeats agree."
    if many:
        lines, agree = "transport, its repeats together", ""
    caption = (
        f"Each line is one {lines} ({pattern}, {size_text(size)}): the share of iterations that "
        f"took no longer than x.{agree} A step: two kinds of iteration. A dot is the median, a "
        f"stroke a mode.{GREY if many else ''} The slowest are beyond the right end: the table has "
        f"p99. {source}"
    )
    alt = "Cumulative distribution of iteration times, for each transport and placement."
    points = [
        pd.DataFrame(
            {"panel": conditions, "transport": name, "line": line, "us": c.x, "percent": c.y}
        )
        for (conditions, name), lines_ in curves.items()
        for line, c in enumerate(lines_)
    ]
    return drawn("latency", title, caption, alt, cdf_plot, curves, labels, data=pd.concat(points))


def _labels(times: Times) -> Iterator[Label]:
    """Of each transport; modes where there are several."""
    for latency in times.latencies:
        if latency.p50:
            text = f"{latency.transport}: median {amount(latency.p50.value, 'ns')}"
            several = latency.modality and latency.modality.several()
            modes = several[1].modes if several else ()
            if several:
                of = "" if several[0] == ITERATIONS else f"; {several[0]}:"
                each = [f"{amount(m.at, 'ns')} {m.share * 100:.0f} %" for m in modes]
                text += f"{of}\n  modes {', '.join(each)}"
            places = tuple(mode.at / 1000 for mode in modes)
            yield Label(latency.transport, latency.p50.value / 1000, places, text)


def _sizes(timings: Sequence[Times], source: str) -> Drawn:
    title = "The median by message size"
    table = pd.DataFrame(
        [
            (times.conditions, latency.transport, times.size, p50.value, p50.low, p50.high,
             p50.repeats)
            for times in timings
            for latency in times.latencies
            if (p50 := latency.p50)
        ],
        columns=["conditions", "transport", "bytes", "p50_ns", "low_ns", "high_ns", "repeats"],
    )  # fmt: skip
    if table["bytes"].nunique() < 2:
        return not_drawn("sizes", title, f"one message size; {ALL_SIZES} gives the whole range")
    curves: dict[tuple[str, str], list[Curve]] = {}
    for (conditions, name), rows in table.sort_values("bytes").groupby(["conditions", "transport"]):
        ns = rows[["p50_ns", "low_ns", "high_ns"]].astype(float) / 1000
        ns = ns.T.fillna(ns["p50_ns"]).T  # no interval, no band
        curves[str(conditions), str(name)] = [Curve(rows["bytes"].to_numpy(), *ns.to_numpy().T)]
    many = table["transport"].nunique() > MOST_TOGETHER
    axis = f"p50 of a {timings[0].iteration}"
    caption = (
        f"{axis} against the payload, both logarithmic; the band is the 95 % interval of the mean "
        "over repeats. Flat: what a message costs whatever it carries. Rising along a diagonal: "
        "the bytes are what costs. A line that ends early: the transport carries no larger "
        f"message, see what is missing.{GREY if many else ''} {source}"
    )
    alt = f"{axis} by message size for each transport, by placement."
    return drawn("sizes", title, caption, alt, sizes_plot, curves, f"{axis}, µs", data=table)


def _waterfall(parts: Sequence[Parts], source: str) -> Drawn:
    title = "What the time of a message is made of"
    divided = [part for part in parts if part.stack and part.rest]
    alone = [part for part in parts if not part.than]
    why = [text for part in alone for text in (uneven(part), lacking(part)) if text]
    if not divided:
        none = not_drawn("waterfall", title, "not the cells for it")
        return replace(none, caption=" ".join([none.caption, *why]))
    cells = "; ".join(
        f"{place(conditions)}, the stack is {words}" for conditions, words in STACK_OF.items()
    )
    caption = (
        f"What a message of {size_text(divided[0].size)} takes, by cells that differ in one "
        f"thing: {cells}; below it, what the usual pair takes longer. A bar begins where the "
        "one above ends; a green one shortens the time. The difference has an axis of its own. "
        f"Black: 95 % interval, where there are repeats enough. {' '.join([*why, source])}"
    )
    table = pd.DataFrame(
        [
            (p.placement, p.transport, p.than, p.size, name, e.value, e.low, e.high, e.repeats)
            for p in parts
            for name, e in (("total", p.total), ("stack", p.stack), ("rest", p.rest))
            if e
        ],
        columns=PARTS,
    )
    names = listed(list(dict.fromkeys(part.transport for part in divided)))
    alt = f"Stack, and switching or sleeping, of a message's time for {names}."
    return drawn("waterfall", title, caption, alt, waterfall_plot, divided, data=table)


def _small_multiples(
    curves: Curves, axis: tuple[str, str], heights: tuple[float, float], faint: float, **line: Any
) -> tuple[Figure, list[tuple[str, Axes, dict[str, tuple[str, Any]]]]]:
    """A column for each of the conditions; a row for each family of transports, or one for all.

    Many transports have unix and tcp in grey in each plot, to compare with. Returns, for each plot
    in its order, its conditions and axes, and its transports with colour and dashes; unix and tcp
    always have the same. `heights`: of the only row, and of each of several.
    """
    places = sorted(
        {conditions for conditions, _ in curves}, key=lambda name: order(name, FIRST_PLACEMENTS)
    )
    names = sorted({name for _, name in curves}, key=lambda name: order(name, FIRST_TRANSPORTS))
    many = len(names) > MOST_TOGETHER
    rows: dict[str, list[str]] = {}
    for name in names:
        family = read_transports()[name].family or "others"
        rows.setdefault(family if many else "", []).append(name)
    families = sorted(rows, key=lambda family: order(family, FAMILIES))
    figure = Figure(figsize=(9, heights[len(rows) > 1] * len(rows) + 0.5), layout="constrained")
    grid = figure.subplots(len(rows), len(places), squeeze=False, sharex=True, sharey=True)
    for ax in grid[-1]:
        ax.set_xlabel(axis[0])
    plots = []
    for axes, family in zip(grid, families, strict=True):
        others = [name for name in rows[family] if name not in COLOURS]
        looks = {
            name: (COLOURS[name], "-")
            if name in COLOURS
            else (colour(name, others), STYLES[others.index(name) % len(STYLES)])
            for name in rows[family]
        }
        axes[0].set_ylabel(axis[1])
        for ax, conditions in zip(axes, places, strict=True):
            ax.set_title(place_title(f"{conditions} · {family}" if family else conditions))
            ax.set_xscale("log")
            for name in FIRST_TRANSPORTS if many else ():
                for curve in curves.get((conditions, name), ()) if name not in looks else ():
                    ax.plot(curve.x, curve.y, linewidth=0.9, color=FAINT, alpha=faint)
            for name, (ink, dashes) in looks.items():
                for curve in curves.get((conditions, name), ()):
                    ax.plot(curve.x, curve.y, color=ink, linestyle=dashes, **line)
                    if curve.low is not None and curve.high is not None:
                        ax.fill_between(
                            curve.x, curve.low, curve.high, color=ink, alpha=0.18, linewidth=0
                        )
            plots.append((conditions, ax, looks))
    return figure, plots


def cdf_plot(curves: Curves, labels: Mapping[str, Sequence[Label]]) -> Figure:
    """Share of iterations of at most x."""
    axis = "time, µs (log scale)", "share of iterations, %"
    figure, plots = _small_multiples(curves, axis, (3.1, 2.3), 0.6, linewidth=1.3, alpha=0.8)
    rows = {id(looks): looks for _, _, looks in plots}
    for conditions, ax, looks in plots:
        for row, label in enumerate(labels.get(conditions, ())):
            _label(ax, row, label, looks[label.transport][0])
        handles = [
            Line2D([], [], color=ink, linestyle=dashes, linewidth=2, label=name)
            for name, (ink, dashes) in looks.items()
        ]
        if len(rows) > 1 and conditions == plots[-1][0]:
            ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1, 0.5), fontsize=9.5)
    if len(rows) == 1:
        figure.legend(handles=handles, loc="outside upper left", ncols=len(handles))
    _plain_log(plots[0][1], [curve.x for lines in curves.values() for curve in lines])
    if most := max((len(own) for own in labels.values()), default=0):
        width, height = figure.get_size_inches()
        below = most * LABEL / 72
        figure.set_size_inches(width, height + below)
        share = below / (height + below)
        figure.set_layout_engine("constrained", rect=(0, share, 1, 1 - share))
    return figure


def _label(ax: Axes, row: int, label: Label, ink: str) -> None:
    """A ring at the median, a stroke at each mode, and the figures below the axis."""
    ax.plot(label.median, 50, "o", color=ink, markeredgecolor=CARD, markersize=9, zorder=5)
    ax.plot(label.modes, [-3] * len(label.modes), "|", color=ink, markersize=9, markeredgewidth=2)
    figures = ax.annotate(
        label.text, (0, 0), xycoords="axes fraction", xytext=(0, -40 - LABEL * row),
        textcoords="offset points", fontsize=9.5, va="top", color=ink,
    )  # fmt: skip
    figures.set_in_layout(False)


def _plain_log(ax: Axes, lines: Iterable[Values]) -> None:
    """Plain numbers at 1, 2 and 5 of every decade, as far as most of each line goes."""
    ends = [np.percentile(line, [0.5, 95]) for line in lines]
    low, high = min(end[0] for end in ends) / 1.2, max(end[1] for end in ends) * 1.5
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


def sizes_plot(curves: Curves, axis: str) -> Figure:
    """p50 by message size, both logarithmic; each line is named at its end."""
    figure, plots = _small_multiples(
        curves, ("", axis), (3.6, 2.7), 0.7, marker=".", markersize=4, linewidth=1.4
    )
    every = [curve for lines in curves.values() for curve in lines]
    sizes = sorted({x for curve in every for x in curve.x})
    values = np.concatenate([each for c in every for each in (c.y, c.low, c.high)])
    low, high = values.min() / 1.3, values.max() * 1.3
    ticks = _ticks(low, high)
    for conditions, ax, looks in plots:
        ax.set_yscale("log")
        # Space at the right for the names.
        ax.set_xlim(sizes[0] / 1.5, sizes[-1] * (sizes[-1] / sizes[0]) ** 0.36 * 2.5)
        ax.set_ylim(low, high)
        ax.set_xticks(sizes, [size_text(int(size)) for size in sizes], rotation=40, ha="right",
                      rotation_mode="anchor", fontsize=9.5)  # fmt: skip
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_xticks([], minor=True)
        ax.set_yticks([], minor=True)
        shown = {name: ink for name, (ink, _) in looks.items()}
        if len({name for _, name in curves}) > MOST_TOGETHER:
            shown = dict.fromkeys(FIRST_TRANSPORTS, FAINT) | shown
        _name_lines(ax, {name: (curves[conditions, name][0], ink) for name, ink in shown.items()
                         if (conditions, name) in curves})  # fmt: skip
    return figure


def _name_lines(ax: Axes, lines: Mapping[str, tuple[Curve, str]]) -> None:
    """The names in a column at the right, each tied to its line's end, none on another."""
    low, high = np.log(ax.get_ylim())
    column = 2.5 * max((curve.x[-1] for curve, _ in lines.values()), default=1)
    heights = {
        name: float((np.log(c.y[-1]) - low) / (high - low)) for name, (c, _) in lines.items()
    }
    ends = sorted(heights, key=heights.__getitem__)
    places = _apart([heights[name] for name in ends])
    for name, at in zip(ends, places, strict=True):
        curve, ink = lines[name]
        ax.annotate(
            name, (curve.x[-1], curve.y[-1]),
            xytext=(column, np.exp(low + at * (high - low))), color=ink, fontsize=9.5,
            va="center", arrowprops={"arrowstyle": "-", "color": ink, "linewidth": 0.5,
                                     "shrinkA": 0, "shrinkB": 1},
        )  # fmt: skip


def _apart(places: list[float]) -> list[float]:
    """Ascending places, at least LABEL_APART from each other, moved as a group and little."""
    clusters: list[list[float]] = []
    for height in places:
        clusters.append([height])
        while clusters[1:] and _spread(clusters[-1])[0] < _spread(clusters[-2])[-1] + LABEL_APART:
            clusters[-2:] = [clusters[-2] + clusters[-1]]
    return [height for cluster in clusters for height in _spread(cluster)]


def _spread(cluster: list[float]) -> list[float]:
    """As many places about the mean of these, LABEL_APART from each other."""
    first = sum(cluster) / len(cluster) - LABEL_APART * (len(cluster) - 1) / 2
    return [first + n * LABEL_APART for n in range(len(cluster))]


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
    for row, figure in enumerate(filter(None, (part.stack, part.rest))):
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
        ax.annotate(amount(figure.value, "ns"), (edge, row), xytext=(5, 0),
                    textcoords="offset points", va="center", fontsize=9)  # fmt: skip
        start, furthest = start + width, max(furthest, edge)
    ax.set_yticks(range(2), [f"stack, {place(part.placement)}", REST[part.placement]])
    ax.tick_params(labelleft=first)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    return furthest
