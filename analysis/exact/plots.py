# SPDX-License-Identifier: GPL-2.0-or-later
"""Figures of exact mode: layers, flame graph, kernels. Each draws what it is given."""

from matplotlib.figure import Figure

from analysis.drawing import CARD, COLOURS, FAINT, INK, MARKERS
from analysis.exact.cells import Comparison, inclusive
from analysis.functions import flame
from analysis.functions.flame import REST

UNIT = "instructions a round trip"


def layers_plot(comparisons: tuple[Comparison, ...]) -> Figure:
    """One bar for each transport, as long as its round trip, parted by layer."""
    titled = [(comparison.title, cell) for comparison in comparisons for cell in comparison.cells]
    # The flame graph's: a layer has one colour.
    colours = flame.palette(cell.layers() for cell in comparisons[0].cells)
    figure = Figure(figsize=(9, 1.6 + 0.42 * len(titled)), layout="constrained")
    ax = figure.subplots()
    labels = []
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
    ax.set_yticks(range(len(labels)), labels, fontsize=9.5)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.1)
    ax.set_xlim(left=0)
    ax.set_xlabel("instructions a round trip")
    ax.xaxis.set_major_formatter("{x:,.0f}")
    flame.legend(figure, colours)
    return figure


def graphs(comparison: Comparison) -> list[flame.Graph]:
    """A flame graph for each transport; the two tasks' equal paths are one."""
    titled = [(f"{cell.transport}: {cell.total:,} {UNIT}", cell) for cell in comparison.cells]
    return [flame.Graph(title, inclusive(cell.nodes)) for title, cell in titled]


def flame_plot(comparison: Comparison) -> Figure:
    """The flame graphs on one scale."""
    return flame.flame_plot(graphs(comparison), UNIT)


def kernels_plot(lines: dict[tuple[str, str], dict[str, int]]) -> Figure:
    """Instructions a round trip by kernel: a line for each transport and scheduling."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    ax = figure.subplots()
    kernels = list(dict.fromkeys(kernel for line in lines.values() for kernel in line))
    schedulings = list(dict.fromkeys(words for _, words in lines))
    highest = {
        (transport, kernel): max(other.get(kernel, 0) for (t, _), other in lines.items()
                                 if t == transport)
        for (transport, _), values in lines.items() for kernel in values
    }  # fmt: skip
    for number, ((transport, words), values) in enumerate(lines.items()):
        places = [kernels.index(kernel) for kernel in values]
        style = "-" if words == schedulings[0] else "--"
        ax.plot(places, list(values.values()), style, marker=MARKERS[number % len(MARKERS)],
                color=COLOURS.get(transport, FAINT), label=f"{transport}, {words}")  # fmt: skip
        for place, (kernel, value) in zip(places, values.items(), strict=True):
            # Of a transport's two lines the upper one has its figure above it, wherever they cross.
            above = 7 if value == highest[transport, kernel] else -13
            ax.annotate(f"{value:,}", (place, value), textcoords="offset points", xytext=(0, above),
                        ha="center", fontsize=9.5, color=INK)  # fmt: skip
    ax.set_xticks(range(len(kernels)), kernels)
    ax.set_ylim(bottom=0)
    ax.margins(x=0.1, y=0.15)
    ax.set_ylabel("instructions a round trip")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    figure.legend(loc="outside upper left", ncols=2)
    return figure
