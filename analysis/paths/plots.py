# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws call trees: flame graphs, and the journey of a message.

A flame graph is drawn from the top down: what is called lies below its caller, as wide as what it
and all that it calls took, in the colour of its layer.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from operator import or_

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.drawing import CARD, INK, RULE, colour
from analysis.paths.journey import Journey
from analysis.paths.tree import Box, Graph, by_layer, layer_of

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


def flame_plot(graphs: Sequence[Graph], unit: str) -> Figure:
    """Draw one below the other, on one scale, in the colours of their layers."""
    colours = palette(by_layer(graph.spans) for graph in graphs)
    paint: Paint = lambda box: colours.get(layer_of(("", *box.path)).name, REST_COLOUR)  # noqa: E731
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
