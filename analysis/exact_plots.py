# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of exact mode: layers, flame graph, kernels. Each draws what it is given.

A flame graph is drawn from the top down: what is called lies below its caller, as wide as its
instructions, in the colour of its layer.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.exact import Cell, Comparison, Node, inclusive
from analysis.layers import layer_of
from analysis.plots import CARD, COLOURS, FAINT, INK, MARKERS

# Okabe and Ito's first, then tints of theirs: neighbours in the figures differ in lightness, too.
PALETTE = (
    "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#5b6fd0", "#e8a27c", "#8ccfb4",
    "#b5a6d6", "#c2b280",
)  # fmt: skip
REST, REST_COLOUR = "all other layers", "#c8ccd0"
LEAST_SHARE = 0.002  # of the widest flame graph: thinner frames cannot be seen
CHARACTER = 0.0072  # of the figure's width, as drawn in the small type
ROW = 0.17  # inches
DARK = "#101214"  # on the layers' colours, whatever the page's theme


@dataclass(frozen=True)
class Frame:
    """A rectangle of a flame graph, in instructions and rows."""

    name: str
    layer: str
    start: int
    width: int
    depth: int


def palette(cells: list[Cell]) -> dict[str, str]:
    """A colour for each layer that is among the dearest; the rest shares one."""
    sums: Counter[str] = Counter()
    for cell in cells:
        sums.update(cell.layers())
    named = [name for name, _ in sums.most_common(len(PALETTE))]
    return dict(zip(named, PALETTE, strict=False)) | {REST: REST_COLOUR}


def _legend(figure: Figure, colours: dict[str, str]) -> None:
    handles = [Patch(facecolor=colour, label=name) for name, colour in colours.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=9)


def layers_plot(comparisons: tuple[Comparison, ...]) -> Figure:
    """One bar for each transport, as long as its round trip, parted by layer."""
    cells = [cell for one in comparisons for cell in one.cells]
    colours = palette(cells)
    figure = Figure(figsize=(9, 1.6 + 0.42 * len(cells)), layout="constrained")
    ax = figure.subplots()
    labels = []
    titled = [(one.title, cell) for one in comparisons for cell in one.cells]
    for row, (title, cell) in enumerate(titled):
        left = 0
        layers = cell.layers()
        rest = sum(n for name, n in layers.items() if name not in colours)
        for name, colour in colours.items():
            width = rest if name == REST else layers[name]
            ax.barh(row, width, left=left, color=colour, edgecolor=CARD, linewidth=0.6, height=0.72)
            left += width
        ax.text(left, row, f" {cell.total:,}", va="center", fontsize=9)
        labels.append(f"{cell.transport}\n{title}")
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.1)
    ax.set_xlim(left=0)
    ax.set_xlabel("instructions a round trip")
    _legend(figure, colours)
    return figure


def frames(nodes: tuple[Node, ...]) -> list[Frame]:
    """The tree as rectangles; the two tasks' equal paths are one."""
    sums = inclusive(nodes)
    found: list[Frame] = []

    def place(parent: tuple[str, ...], start: int) -> None:
        for path in sorted(below.get(parent, ())):
            layer = layer_of(("", *path)).name
            found.append(Frame(path[-1], layer, start, sums[path], len(path) - 1))
            place(path, start)
            start += sums[path]

    below: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for path in sums:
        below.setdefault(path[:-1], []).append(path)
    place((), 0)
    return found


def flame_plot(comparison: Comparison) -> Figure:
    """A flame graph for each transport, one below the other, on one scale."""
    colours = palette(list(comparison.cells))
    drawn = [frames(cell.nodes) for cell in comparison.cells]
    widest = max(cell.total for cell in comparison.cells)
    depths = [max(f.depth for f in some if f.width >= LEAST_SHARE * widest) + 1 for some in drawn]
    height = 1.4 + ROW * sum(depths) + 0.3 * len(depths)
    figure = Figure(figsize=(12, height), layout="constrained")
    axes = figure.subplots(
        len(drawn), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": depths}
    )
    for ax, cell, some, depth in zip(axes[:, 0], comparison.cells, drawn, depths, strict=True):
        ax.set_title(f"{cell.transport}: {cell.total:,} instructions a round trip")
        for frame in _seen(some, widest):
            colour = colours.get(frame.layer, REST_COLOUR)
            ax.broken_barh(
                [(frame.start, frame.width)], (frame.depth, 0.94), color=colour, edgecolor=CARD,
                linewidth=0.4,
            )  # fmt: skip
            text = _fitting(frame.name, frame.width / widest)
            if text:
                ax.text(frame.start, frame.depth + 0.5, f" {text}", va="center", fontsize=6.5,
                        color=DARK, clip_on=True)  # fmt: skip
        ax.set_ylim(depth, 0)
        ax.set_yticks([])
        ax.grid(visible=False)
        ax.spines["left"].set_visible(False)
    axes[-1, 0].set_xlim(0, widest)
    axes[-1, 0].set_xlabel("instructions a round trip")
    _legend(figure, colours)
    return figure


def _seen(some: list[Frame], widest: int) -> Iterator[Frame]:
    return (frame for frame in some if frame.width >= LEAST_SHARE * widest)


def _fitting(name: str, share: float) -> str:
    room = int(share / CHARACTER) - 1
    if room >= len(name):
        return name
    return f"{name[: room - 1]}…" if room >= 5 else ""


def kernels_plot(lines: dict[tuple[str, str], dict[str, int]]) -> Figure:
    """Instructions a round trip by kernel: a line for each transport and scheduling."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    ax = figure.subplots()
    kernels = list(dict.fromkeys(kernel for one in lines.values() for kernel in one))
    schedulings = list(dict.fromkeys(words for _, words in lines))
    for number, ((transport, words), values) in enumerate(lines.items()):
        places = [kernels.index(kernel) for kernel in values]
        style, above = ("-", -13) if words == schedulings[0] else ("--", 7)
        ax.plot(places, list(values.values()), style, marker=MARKERS[number % len(MARKERS)],
                color=COLOURS.get(transport, FAINT), label=f"{transport}, {words}")  # fmt: skip
        for place, value in zip(places, values.values(), strict=True):
            ax.annotate(f"{value:,}", (place, value), textcoords="offset points", xytext=(0, above),
                        ha="center", fontsize=8, color=INK)  # fmt: skip
    ax.set_xticks(range(len(kernels)), kernels)
    ax.set_ylim(bottom=0)
    ax.margins(x=0.1, y=0.15)
    ax.set_ylabel("instructions a round trip")
    figure.legend(loc="outside upper left", ncols=2)
    return figure
