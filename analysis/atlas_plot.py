# SPDX-License-Identifier: GPL-2.0-or-later
"""The figure of the atlas: what a message costs over each transport, at each size."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from analysis.atlas import COLUMNS, Atlas
from analysis.drawing import COLOURS, INK, MARKERS, OTHERS, Drawn, axes_row, drawn, not_drawn
from analysis.wording import amount, capital, listed, place, size_text

PANELS = ("instructions", "cpu", "p50")
TITLE = "Every transport"


class Mark(NamedTuple):
    panel: str
    transport: str
    size: int
    value: float


def draw_atlas(atlases: Sequence[Atlas]) -> Drawn:
    """Instructions, CPU time and the median round trip; the fastest transport comes first."""
    words = {column.id: column for column in COLUMNS}
    marks = [
        Mark(name, entry.transport, atlas.size, entry.figures[name])
        for name in PANELS
        for atlas in atlases
        for entry in atlas.entries
        if name in entry.figures
    ]
    panels = [name for name in PANELS if any(mark.panel == name for mark in marks)]
    if not panels:
        return not_drawn("atlas", TITLE, "no counts of instructions, and no times")
    sizes = listed([size_text(atlas.size) for atlas in atlases])
    caption = (
        f"Each mark is one transport, for a message of {sizes} ({place(atlases[0].conditions)}): "
        f"{listed([words[name].words for name in panels])}. The scale is logarithmic. The order is "
        f"that of the last panel, at {size_text(atlases[0].size)}."
    )
    alt = "Dot plot: a row for each transport, a panel for each cost, a colour for each size."
    data = pd.DataFrame(marks)
    titles = {name: (words[name].words, words[name].unit) for name in panels}
    return drawn("atlas", TITLE, caption, alt, atlas_plot, marks, titles, data=data)


def order(marks: Sequence[Mark], panels: Sequence[str]) -> list[str]:
    """Transports by the last panel's values at the smallest size; those without one come last."""
    smallest = min(mark.size for mark in marks)
    known: dict[str, tuple[int, float]] = {}
    for place_, panel in enumerate(reversed(panels)):
        for mark in marks:
            if mark.panel == panel and mark.size == smallest:
                known.setdefault(mark.transport, (place_, mark.value))
    rest = dict.fromkeys(mark.transport for mark in marks)
    return [*sorted(known, key=known.__getitem__), *(name for name in rest if name not in known)]


def atlas_plot(marks: Sequence[Mark], titles: dict[str, tuple[str, str]]) -> Figure:
    names = order(marks, list(titles))
    sizes = sorted({mark.size for mark in marks})
    figure, axes = axes_row(len(titles), 10, 1.4 + 0.3 * len(names), sharey=True)
    for ax, (panel, (words, unit)) in zip(axes, titles.items(), strict=True):
        ax.set_title(capital(words))
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        for number, size in enumerate(sizes):
            found = [mark for mark in marks if (mark.panel, mark.size) == (panel, size)]
            ax.plot(
                [mark.value for mark in found], [names.index(mark.transport) for mark in found],
                MARKERS[number % len(MARKERS)], color=OTHERS[number % len(OTHERS)], ms=7,
                label=size_text(size), linestyle="",
            )  # fmt: skip
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _, unit=unit: _tick(value, unit)))
        ax.xaxis.set_minor_formatter(NullFormatter())
    axes[0].set_yticks(range(len(names)), names)
    for label, name in zip(axes[0].get_yticklabels(), names, strict=True):
        label.set_color(COLOURS.get(name, INK))
    axes[0].invert_yaxis()
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=len(labels))
    return figure


def _tick(value: float, unit: str) -> str:
    text = amount(value, unit) if unit else f"{value:,.0f}"
    return text.replace(".00 ", " ").replace(".0 ", " ")  # 5 µs: the next tick is near
