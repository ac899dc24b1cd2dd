# SPDX-License-Identifier: GPL-2.0-or-later
"""Flame graphs, of instructions (exact mode) and of samples (perf).

Drawn from the top down: what is called lies below its caller, as wide as what it and all that it
calls took, in the colour of its layer.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.drawing import CARD
from analysis.functions.layers import layer_of

# Neither the transports' blue nor their orange; neighbours in the figures differ in lightness, too.
PALETTE = (
    "#8ccfb4", "#cc79a7", "#f0e442", "#009e73", "#b5a6d6", "#c2b280", "#9ac24d", "#e5b8c9",
    "#a98bc4", "#5fb3b3",
)  # fmt: skip
REST, REST_COLOUR = "all other layers", "#c8ccd0"
LEAST_SHARE = 0.002  # of the widest flame graph: thinner frames cannot be seen
CHARACTER = 0.0066  # of the figure's width, as drawn in the small type
ROW = 0.19  # inches
TALL = 0.93  # of a row: a box
WIDE = 12.5  # inches
DARK = "#101214"  # on the layers' colours, whatever the page's theme

Path = tuple[str, ...]  # from the outermost function in, without the task


class FlameFrame(NamedTuple):
    """A rectangle, in what is counted and in rows."""

    name: str
    layer: str
    start: int
    width: int
    depth: int
    path: Path


Paint = Callable[[FlameFrame], str]  # the colour of a frame


@dataclass(frozen=True)
class Graph:
    """One flame graph: its title, and the cost of each path with all that it calls."""

    title: str
    sums: Mapping[Path, int]

    @property
    def total(self) -> int:
        return sum(width for path, width in self.sums.items() if len(path) == 1)

    @cached_property
    def frames(self) -> tuple[FlameFrame, ...]:
        below: dict[Path, list[Path]] = {}
        for path in self.sums:
            below.setdefault(path[:-1], []).append(path)

        def place(parent: Path, start: int) -> Iterator[FlameFrame]:
            for path in sorted(below.get(parent, ())):
                layer = layer_of(("", *path)).name
                yield FlameFrame(path[-1], layer, start, self.sums[path], len(path) - 1, path)
                yield from place(path, start)
                start += self.sums[path]

        return tuple(place((), 0))

    def layers(self) -> Counter[str]:
        """What each layer took itself."""
        found: Counter[str] = Counter()
        for path, width in self.sums.items():
            found[layer_of(("", *path)).name] += width
            if len(path) > 1:
                found[layer_of(("", *path[:-1])).name] -= width
        return found

    def seen(self, widest: int) -> list[FlameFrame]:
        return [frame for frame in self.frames if frame.width >= LEAST_SHARE * widest]


def inclusive(own: Mapping[Path, int]) -> Counter[Path]:
    """What each path and all below it took, of what each took itself."""
    sums: Counter[Path] = Counter()
    for path, count in own.items():
        for depth in range(1, len(path) + 1):
            sums[path[:depth]] += count
    return sums


def palette(drawn: Iterable[Counter[str]]) -> dict[str, str]:
    """A colour for each of the most expensive layers; all other layers share a colour."""
    most = reduce(or_, drawn, Counter[str]())
    named = [name for name, _ in most.most_common(len(PALETTE))]
    return dict(zip(named, PALETTE, strict=False)) | {REST: REST_COLOUR}


def legend(figure: Figure, colours: dict[str, str]) -> None:
    handles = [Patch(facecolor=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=10)


def flame_plot(graphs: Sequence[Graph], unit: str) -> Figure:
    """One below the other, on one scale, in the colours of their layers."""
    colours = palette(graph.layers() for graph in graphs)
    by_layer = [lambda frame: colours.get(frame.layer, REST_COLOUR)] * len(graphs)
    figure = painted(graphs, unit, by_layer)
    legend(figure, colours)
    return figure


def painted(graphs: Sequence[Graph], unit: str, paints: Sequence[Paint]) -> Figure:
    """Flame graphs, each in colours of the caller's choice, without a legend."""
    widest = max(graph.total for graph in graphs)
    depths = [max(frame.depth for frame in graph.seen(widest)) + 1 for graph in graphs]
    height = 1.4 + ROW * sum(depths) + 0.3 * len(depths)
    figure, axes = stacked(depths, height, widest, unit)
    for ax, graph, depth, paint in zip(axes, graphs, depths, paints, strict=True):
        ax.set_title(graph.title)
        frames = graph.seen(widest)
        placed = [(frame.name, frame.start, frame.width, frame.depth) for frame in frames]
        boxes(ax, placed, widest, list(map(paint, frames)))
        ax.set_ylim(depth, 0)
    return figure


def boxes(
    ax: Axes, placed: Sequence[tuple[str, int, int, int]], widest: int, fills: Sequence[str],
    ink: str = DARK,
) -> None:  # fmt: skip
    """Boxes of a name, a start, a width and a row. One collection is half the SVG of many."""
    corners = [
        ((x, y), (x, y + TALL), (x + wide, y + TALL), (x + wide, y)) for _, x, wide, y in placed
    ]
    drawn = PolyCollection(corners, facecolors=fills, edgecolors=CARD, linewidths=0.4)
    drawn.set_clip_on(False)
    ax.add_collection(drawn)
    for name, x, wide, y in placed:
        if text := _fitting(name, wide / widest):
            ax.text(x, y + TALL / 2, f" {text}", va="center", fontsize=10, color=ink, clip_on=True)


def stacked(
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


def _fitting(name: str, share: float) -> str:
    room = int(share / CHARACTER) - 1
    if room >= len(name):
        return name
    return f"{name[: room - 1]}…" if room >= 5 else ""
