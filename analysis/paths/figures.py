# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of call trees: flame graphs, and the journey of a message; what report.js draws of them.

A flame graph is drawn from the top down: what is called lies below its caller, as wide as what it
and all that it calls took, in the colour of its layer.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from operator import attrgetter, or_
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.counts.ledger import MOST_TOGETHER
from analysis.drawing import CARD, INK, RULE, Drawn, colour, drawn, not_drawn
from analysis.paths.cells import DEFAULT, Comparison, ExactCell
from analysis.paths.functions import Profile
from analysis.paths.journey import Journey, journeys, table
from analysis.paths.tree import Box, Graph, by_layer, layer_of
from analysis.wording import counted, listed, size_text
from probes.transports import read_transports

MOST_DRAWN = 4  # transports in one figure of call stacks
# Where an identifier of a kernel is defined and used. A run does not record source files.
SOURCE = "https://elixir.bootlin.com/linux/v{}/A/ident/"
RELEASE = re.compile(r"\d+\.\d+(\.[1-9]\d*)?")
UNIT = "instructions a round trip"
# Neither the transports' blue nor their orange; neighbours in the figures differ in lightness, too.
PALETTE = (
    "#8ccfb4", "#cc79a7", "#f0e442", "#009e73", "#b5a6d6", "#c2b280", "#9ac24d", "#e5b8c9",
    "#a98bc4", "#5fb3b3",
)  # fmt: skip
REST, REST_COLOUR = "all other layers", "#c8ccd0"
LEAST_SHARE = 0.002  # of the widest graph: thinner boxes cannot be seen
CHARACTER = 0.0066  # of the figure's width, as drawn in the small type
ROW = 0.19  # inches; of a flame graph
JOURNEY_ROW = 0.22
TALL = 0.93  # of a row: a box
WIDE = 12.5  # inches
DARK = "#101214"  # on the layers' colours, whatever the page's theme
WORD_ROWS = 3
ABOVE = 1.1 + 0.8 * WORD_ROWS  # rows for a journey's marks and their words
SIGNS = {"copy": "v", "wake-up": "*", "switch": "X"}

Paint = Callable[[Box], str]  # the colour of a box


def palette(layers: Iterable[Counter[str]]) -> dict[str, str]:
    """Return a colour for each of the most expensive layers; all other layers share a colour."""
    most = reduce(or_, layers, Counter[str]())
    named = [name for name, _ in most.most_common(len(PALETTE))]
    return dict(zip(named, PALETTE, strict=False)) | {REST: REST_COLOUR}


def legend(figure: Figure, colours: dict[str, str]) -> None:
    handles = [Patch(facecolor=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=10)


def flame_plot(graphs: Sequence[Graph], unit: str, colours: dict[str, str]) -> Figure:
    """Draw one below the other, on one scale, in the colours of their layers."""
    paint: Paint = lambda box: colours.get(layer_of(("", *box.path)), REST_COLOUR)  # noqa: E731
    figure = painted(graphs, unit, [paint] * len(graphs))
    legend(figure, colours)
    return figure


def painted(graphs: Sequence[Graph], unit: str, paints: Sequence[Paint]) -> Figure:
    """Flame graphs, each in colours of the caller's choice, without a legend."""
    widest = max(graph.total for graph in graphs)
    shown = [_seen(graph.boxes, widest) for graph in graphs]
    depths = [max(box.depth for box in boxes) + 1 for boxes in shown]
    height = 1.4 + ROW * sum(depths) + 0.3 * len(depths)
    figure, axes = _stacked(depths, height, widest, unit)
    for ax, graph, boxes, depth, paint in zip(axes, graphs, shown, depths, paints, strict=True):
        ax.set_title(graph.title)
        _draw(ax, boxes, widest, list(map(paint, boxes)))
        ax.set_ylim(depth, 0)
    return figure


def _seen(boxes: Iterable[Box], widest: int) -> list[Box]:
    return [box for box in boxes if box.width >= LEAST_SHARE * widest]


def _draw(
    ax: Axes, boxes: Sequence[Box], widest: int, fills: Sequence[str], ink: str = DARK
) -> None:
    """One collection is half the SVG of many."""
    corners = [
        ((x, y), (x, y + TALL), (x + wide, y + TALL), (x + wide, y)) for _, y, x, wide, _ in boxes
    ]
    collection = PolyCollection(corners, facecolors=fills, edgecolors=CARD, linewidths=0.4)
    collection.set_clip_on(False)
    ax.add_collection(collection)
    for name, y, x, wide, _ in boxes:
        if text := _fitting(name, wide / widest):
            ax.text(x, y + TALL / 2, f" {text}", va="center", fontsize=10, color=ink, clip_on=True)


def _fitting(name: str, share: float) -> str:
    room = int(share / CHARACTER) - 1
    if room >= len(name):
        return name
    return f"{name[: room - 1]}…" if room >= 5 else ""


def _stacked(
    rows: Sequence[float], height: float, widest: int, unit: str
) -> tuple[Figure, list[Axes]]:
    """Axes of so many rows each, one below the other, on one scale from 0 to `widest`."""
    figure = Figure(figsize=(WIDE, height), layout="constrained")
    ratios = {"height_ratios": rows}
    grid = figure.subplots(len(rows), 1, sharex=True, squeeze=False, gridspec_kw=ratios)
    axes = list(grid[:, 0])
    for ax in axes:
        ax.set_yticks([])
        ax.grid(visible=False)
        ax.spines["left"].set_visible(False)
    axes[-1].set_xlim(0, widest)
    axes[-1].set_xlabel(unit)
    axes[-1].xaxis.set_major_formatter("{x:,.0f}")
    return figure, axes


def journey_plot(journeys: Sequence[Journey], colours: dict[str, str]) -> Figure:
    """Time runs to the right, calls go down; a journey for each transport, on one scale."""
    widest = max(journey.total for journey in journeys)
    shown = [_seen((layer.box for layer in journey.boxes), widest) for journey in journeys]
    depths = [max(box.depth for box in boxes) + 1 for boxes in shown]
    heights = [ABOVE + 1 + depth for depth in depths]
    unit = "instructions since the sender's system call"
    figure, axes = _stacked(heights, 1.5 + JOURNEY_ROW * sum(heights), widest, unit)
    transports = [journey.transport for journey in journeys]
    for ax, journey, boxes, depth in zip(axes, journeys, shown, depths, strict=True):
        ax.set_title(journey.title, color=colour(journey.transport, transports))
        stages = [stage._replace(depth=-1) for stage in journey.stages]
        _draw(ax, stages, widest, [RULE] * len(stages), INK)
        _draw(ax, boxes, widest, [colours.get(box.name, REST_COLOUR) for box in boxes])
        _draw_marks(ax, journey, widest)
        ax.set_ylim(depth, -1 - ABOVE)
    names = {REST, *(box.name for boxes in shown for box in boxes)}
    legend(figure, {name: fill for name, fill in colours.items() if name in names})
    return figure


def _draw_marks(ax: Axes, journey: Journey, widest: int) -> None:
    """A sign for each; its words once for those that follow each other, where there is room."""
    rows = [-1.0] * WORD_ROWS  # where the words of each end
    last = ""
    for mark in sorted(journey.marks, key=lambda mark: mark.at):
        ax.plot(mark.at, -1.35, SIGNS.get(mark.kind, "P"), color=INK, markersize=6, clip_on=False)
        if mark.words == last:
            continue
        wide = len(mark.words) * CHARACTER * widest
        left = min(mark.at, widest - wide)
        row = next((n for n, end in enumerate(rows) if end <= left), WORD_ROWS - 1)
        ax.text(left, -1.8 - 0.8 * row, mark.words, fontsize=10, color=INK, va="bottom")
        last, rows[row] = mark.words, left + wide


def explored(
    unit: str, colours: dict[str, str], views: dict[str, list[dict[str, Any]]], kernel: str
) -> dict[str, Any]:
    """Return what explore.js draws: graphs by the title of their view, of which it shows one."""
    release = RELEASE.match(kernel)
    source = SOURCE.format(release[0]) if release else ""
    return {"unit": unit, "colours": colours, "rest": REST, "source": source, "views": views}


def explored_journey(journey: Journey) -> dict[str, Any]:
    """Return a box: words, layer, depth, start, width, own, copies, function."""
    return {
        "title": journey.title,
        "transport": journey.transport,
        "total": journey.total,
        "stages": [(stage.name, stage.start, stage.width) for stage in journey.stages],
        "marks": [(mark.kind, mark.words, mark.at) for mark in journey.marks],
        "boxes": [
            (b.name, b.name, b.depth, b.start, b.width, layer.own, layer.copies, layer.function)
            for layer in journey.boxes
            for b in (layer.box,)
        ],
    }


def explored_graph(graph: Graph) -> dict[str, Any]:
    """Boxes of functions, of which nobody knows who copies."""
    return {
        "title": graph.title,
        "transport": graph.title.partition(":")[0],
        "total": graph.total,
        "stages": [],
        "marks": [],
        "boxes": [
            (name, layer_of(("", *path)), depth, start, width, graph.own[path], 0, name)
            for name, depth, start, width, path in graph.boxes
        ],
    }


def draw_exact(comparisons: tuple[Comparison, ...]) -> tuple[Drawn, ...]:
    """Return the figures of the first kernel, size and pattern."""
    if not comparisons:
        return ()
    first = comparisons[0]
    few = list(map(one_of_each_family, alike_first(comparisons)))
    words = (first.kernel, first.pattern, first.unusual, size_text(first.size))
    place = ", ".join(filter(None, words))
    return _journey(few, place), _flame(few, place)


def alike_first(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return those of the first kernel, size and pattern, the usual one first."""
    shared = attrgetter("kernel", "size", "pattern", "unusual")
    return sorted((c for c in comparisons if shared(c) == shared(comparisons[0])), key=usual_first)


def one_of_each_family(comparison: Comparison) -> Comparison:
    """Return it with the cells that are drawn: of too many the first of each family.

    A family's name is the letters with which its transports' names begin: unix, tcp, uring.
    """
    if len(comparison.cells) <= MOST_DRAWN:
        return comparison
    order = list(read_transports())
    families: dict[str, ExactCell] = {}
    for cell in sorted(comparison.cells, key=lambda cell: order.index(cell.transport)):
        families.setdefault(re.split(r"[^a-z]", cell.transport)[0], cell)
    return replace(comparison, cells=tuple(families.values())[:MOST_DRAWN])


def usual_first(comparison: Comparison) -> tuple[bool, bool]:
    """Return a sort key: one CPU and the default scheduler are what most people have."""
    return comparison.placement != "same-cpu", comparison.sched != DEFAULT


def _journey(comparisons: Sequence[Comparison], place: str) -> Drawn:
    title = "The journey of one message"
    views = [(c, made) for c in comparisons if (made := journeys(c, comparisons))]
    if not views:
        lacks = "no round trip in its order (made before that was kept)"
        return not_drawn("journey", title, lacks)
    comparison, shown = views[0]
    costs = [f"{message.total:,} over {message.transport}" for message in shown]
    softirqs = (
        f" Over {message.transport} {sum(message.softirq.values()) / message.total:.0%} of them "
        f"lie in the receive softirq, which runs in {listed(list(message.softirq))}."
        for message in shown
        if message.softirq
    )
    caption = (
        "The client's message, from its system call to the server's return from its own, in the "
        f"most frequent round trip ({place}, {comparison.title}): {listed(costs)} instructions. "
        "The answer takes another path, so the mean of a message is another number."
        f"{''.join(softirqs)} A box lies below the layer that called it and is as wide as its "
        "instructions. The grey row says who is in which system call. Signs mark where payload is "
        "copied, a sleeper is woken, and the CPU switches."
    )
    alt = "; ".join(
        f"{message.transport}: " + ", ".join(f"{name} {n:,}" for name, n in message.by_stage())
        for message in shown
    )
    colours = palette(cell.layers() for cell in comparison.cells)
    graphs = {c.title: list(map(explored_journey, made)) for c, made in views}
    return drawn(
        "journey", title, caption, alt, journey_plot, shown, colours, data=table(shown),
        explored=explored("instructions", colours, graphs, comparison.kernel),
    )  # fmt: skip


def _flame(comparisons: Sequence[Comparison], place: str) -> Drawn:
    views = {
        c.title: [
            Graph(f"{cell.transport}: {cell.total:,} {UNIT} ({cell.frequency})", cell.tree)
            for cell in c.cells
        ]
        for c in comparisons
    }
    caption = (
        f"{place}, {comparisons[0].title}. A function lies below its caller and is as wide as its "
        "instructions; equal paths of the two processes are one box."
    )
    title, kernel = "Every instruction of a round trip", comparisons[0].kernel
    return _graphs("exact-flame", title, caption, UNIT, views, kernel)


def _graphs(
    name: str, title: str, caption: str, unit: str, views: dict[str, list[Graph]], kernel: str
) -> Drawn:
    """Flame graphs of the first view; explore.js can show the others."""
    shown = next(iter(views.values()))
    colours = palette(by_layer(graph.spans) for graph in shown)
    graphs = {words: list(map(explored_graph, graphs)) for words, graphs in views.items()}
    return drawn(
        name, title, caption, "A flame graph for each transport.", flame_plot, shown, unit, colours,
        explored=explored(unit.split()[0], colours, graphs, kernel),
    )  # fmt: skip


def draw_profiles(profiles: tuple[Profile, ...]) -> tuple[Drawn, ...]:
    """A figure for all conditions of the first kernel: the host, where perf watched cells there."""
    if not profiles:
        return ()
    shared = attrgetter("target", "kernel", "pattern", "size")
    first = [profile for profile in profiles if shared(profile) == shared(profiles[0])]
    by_placement = groupby(first, attrgetter("conditions"))
    return tuple(_profile(conditions, list(some)) for conditions, some in by_placement)


def _profile(conditions: str, profiles: list[Profile]) -> Drawn:
    shown = [
        Graph(f"{p.transport}: {counted(p.samples, 'sample')}", p.spans)
        for p in profiles[:MOST_TOGETHER]
    ]
    first = profiles[0]
    emulated = " The CPU is emulated: widths are no times." if first.emulated else ""
    caption = (
        f"{first.where}. Samples of both processes by a clock (perf record, cpu-clock). All of "
        "user space is one frame. Where interrupts are off the clock waits: such code is charged "
        f"to the function that lets them in again, as _raw_spin_unlock_irqrestore.{emulated}"
    )
    title = f"Where the time on the CPU goes, {conditions}"
    name = f"profile-{conditions.replace('+', '-')}"
    return _graphs(name, title, caption, "samples", {conditions: shown}, first.kernel)
