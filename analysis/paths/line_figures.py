# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of cache lines: where on a message's way they move, and the lines of each structure."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.drawing import CARD, FAINT, INK, RULE, Drawn, colour, drawn
from analysis.paths.cells import Comparison, ExactCell
from analysis.paths.figures import WIDE, fitting, one_of_each_family
from analysis.paths.journey import message, stages
from analysis.paths.structures import draw_structures
from analysis.paths.tree import Span
from analysis.wording import counted, listed, size_text

# What a line does → its words, sign and colour.
MARKS = {
    "fetch": ("fetched, and read", "v", "#009e73"),
    "unread": ("fetched, nothing of it is read", "x", "#cc79a7"),
    "invalidate": ("the other's copy is invalidated", "|", "#5c6166"),
}
MOST_OBJECTS = 12  # with a row of their own
ALL_OTHERS = "all others"
ROW_HEIGHT, BASE = 0.24, 1.25  # inches
PLACE = re.compile(r"( of CPU \d+)?(\+\d+)?$")  # of a line, behind its object's name
WORKLOAD_STACK, OF_BOTH = "stack of pathcost-worklo", "stack of client or server"


def draw_lines(comparisons: Sequence[Comparison]) -> Iterator[Drawn]:
    """Draw where lines move, and each structure: of the first cells of two CPUs that know it."""
    for comparison in comparisons:
        cells = [c for c in one_of_each_family(comparison).cells if c.moved]
        if ways := {cell.transport: way for cell in cells if (way := message(cell.moved))}:
            yield draw_moves([cell for cell in cells if cell.transport in ways])
        if cells:
            yield from draw_structures(cells)
            return


def draw_moves(cells: Sequence[ExactCell]) -> Drawn:
    """Where on a message's way lines move from one CPU to the other."""
    ways = {cell.transport: message(cell.moved) for cell in cells}
    first = cells[0]
    sums = [
        f"{counted(sum(len(span.moves) for span in way), 'move')} over {transport}"
        for transport, way in ways.items()
    ]
    place = f"{first.kernel}, {size_text(first.size)}"
    return drawn("moves", plot_moves, ways, place=place, sums=listed(sums))


def object_of(line: str) -> str:
    """`runqueues` of `runqueues of CPU 1+64`."""
    name = PLACE.sub("", line)
    return OF_BOTH if name == WORKLOAD_STACK else name


def plot_moves(ways: dict[str, Sequence[Span]]) -> Figure:
    """For each transport a row for each object that moves, and signs where its lines do."""
    shown = {transport: _objects(way) for transport, way in ways.items()}
    heights = [len(names) + 2 for names in shown.values()]
    widest = max(sum(span.instructions for span in way) for way in ways.values())
    figure = Figure(
        figsize=(WIDE, BASE + ROW_HEIGHT * sum(heights) + len(ways)), layout="constrained"
    )
    ratios = {"height_ratios": heights}
    grid = figure.subplots(len(ways), 1, sharex=True, squeeze=False, gridspec_kw=ratios)
    for ax, (transport, way) in zip(grid[:, 0], ways.items(), strict=True):
        names, moved = shown[transport], sum(len(span.moves) for span in way)
        ax.set_title(
            f"{transport}: {counted(moved, 'move')} for one message",
            color=colour(transport, list(ways)),
        )
        _draw_stages(ax, way, widest)
        _draw_moves(ax, way, names)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.4, -2)
    ax.set_xlim(0, widest)
    ax.set_xlabel("instructions of both CPUs since the sender's system call")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    handles = [
        Line2D([], [], marker=sign, color=fill, linestyle="", label=words)
        for words, sign, fill in MARKS.values()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=10)
    return figure


def _objects(way: Sequence[Span]) -> list[str]:
    """The objects that move most, and last the words for all others."""
    counts = Counter(object_of(line) for span in way for _, line in span.moves)
    names = [name for name, _ in counts.most_common(MOST_OBJECTS)]
    return [*names, ALL_OTHERS] if len(counts) > len(names) else names


def _draw_stages(ax: Axes, way: Sequence[Span], widest: int) -> None:
    for stage in stages(way):
        ax.broken_barh([(stage.start, stage.width)], (-1.75, 0.85), color=RULE, ec=CARD, lw=0.6)
        if text := fitting(stage.name, stage.width / widest):
            ax.text(stage.start, -1.33, f" {text}", va="center", fontsize=9, color=INK)
        ax.axvline(stage.start, color=FAINT, linewidth=0.4)


def _draw_moves(ax: Axes, way: Sequence[Span], names: Sequence[str]) -> None:
    starts = accumulate((span.instructions for span in way), initial=0)
    places: dict[str, list[tuple[float, int]]] = {what: [] for what in MARKS}
    for span, start in zip(way, starts, strict=False):
        for number, (what, line) in enumerate(span.moves, 1):
            name = object_of(line)
            row = names.index(name) if name in names else len(names) - 1
            at = start + span.instructions * number / (len(span.moves) + 1)
            places[what].append((at, row))
    for what, points in places.items():
        _, sign, fill = MARKS[what]
        if points:
            ax.plot(*zip(*points, strict=True), sign, color=fill, markersize=5, markeredgewidth=1.4)
