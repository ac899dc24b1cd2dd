# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws the journey of a message: a target for each transport, on one scale."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.drawing import CARD, INK, RULE, colour
from analysis.exact.iteration import Slice
from analysis.exact.journey import Journey
from analysis.functions.flame import DARK, LEAST_SHARE, REST, REST_COLOUR, legend, stacked

ROW = 0.22  # inches
WORD_ROWS = 3
ABOVE = 1.1 + 0.8 * WORD_ROWS  # rows for the marks and their words
CHARACTER = 0.0066  # of the figure's width, as drawn in the small type
SIGNS = {"copy": "v", "wake-up": "*", "switch": "X"}


def journey_plot(found: Sequence[Journey], colours: dict[str, str]) -> Figure:
    """Time runs to the right, calls go down."""
    widest = max(journey.total for journey in found)
    depths = [
        max(box.depth for box in journey.boxes if _seen(box, widest)) + 1 for journey in found
    ]
    heights = [ABOVE + 1 + depth for depth in depths]
    unit = "instructions since the sender's system call"
    figure, axes = stacked(heights, 1.5 + ROW * sum(heights), widest, unit)
    transports = [journey.transport for journey in found]
    for ax, journey, depth in zip(axes, found, depths, strict=True):
        ax.set_title(journey.title, color=colour(journey.transport, transports))
        for stage in journey.stages:
            _bar(ax, stage, stage.name, -1, RULE, widest, INK)
        for box in journey.boxes:
            if _seen(box, widest):
                fill = colours.get(box.name, REST_COLOUR)
                _bar(ax, box, box.name, box.depth, fill, widest, DARK)
        _marks(ax, journey, widest)
        ax.set_ylim(depth, -1 - ABOVE)
    shown = {box.name for journey in found for box in journey.boxes if _seen(box, widest)}
    legend(figure, {name: fill for name, fill in colours.items() if name in shown or name == REST})
    return figure


def _seen(box: Slice, widest: int) -> bool:
    return box.width >= LEAST_SHARE * widest


def _bar(ax: Axes, box: Slice, name: str, row: int, fill: str, widest: int, ink: str) -> None:
    ax.broken_barh([(box.start, box.width)], (row, 0.92), color=fill, edgecolor=CARD, linewidth=0.4)
    room = int(box.width / widest / CHARACTER)
    text = name if room >= len(name) else f"{name[: room - 1]}…" if room >= 4 else ""
    if text:
        ax.text(
            box.start, row + 0.48, f" {text}", va="center", fontsize=10, color=ink, clip_on=True
        )


def _marks(ax: Axes, journey: Journey, widest: int) -> None:
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
