# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws the journey of a message: a target for each transport, on one scale."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.drawing import INK, RULE, colour
from analysis.exact.iteration import Slice
from analysis.exact.journey import Journey
from analysis.functions import flame

ROW = 0.22  # inches
WORD_ROWS = 3
ABOVE = 1.1 + 0.8 * WORD_ROWS  # rows for the marks and their words
SIGNS = {"copy": "v", "wake-up": "*", "switch": "X"}


def journey_plot(found: Sequence[Journey], colours: dict[str, str]) -> Figure:
    """Time runs to the right, calls go down."""
    widest = max(journey.total for journey in found)
    depths = [
        max(box.depth for box in journey.boxes if _seen(box, widest)) + 1 for journey in found
    ]
    heights = [ABOVE + 1 + depth for depth in depths]
    unit = "instructions since the sender's system call"
    figure, axes = flame.stacked(heights, 1.5 + ROW * sum(heights), widest, unit)
    transports = [journey.transport for journey in found]
    for ax, journey, depth in zip(axes, found, depths, strict=True):
        ax.set_title(journey.title, color=colour(journey.transport, transports))
        stages = [(stage.name, stage.start, stage.width, -1) for stage in journey.stages]
        flame.boxes(ax, stages, widest, [RULE] * len(stages), INK)
        seen = [box for box in journey.boxes if _seen(box, widest)]
        placed = [(box.name, box.start, box.width, box.depth) for box in seen]
        flame.boxes(ax, placed, widest, [colours.get(box.name, flame.REST_COLOUR) for box in seen])
        _marks(ax, journey, widest)
        ax.set_ylim(depth, -1 - ABOVE)
    shown = {box.name for journey in found for box in journey.boxes if _seen(box, widest)}
    shown.add(flame.REST)
    flame.legend(figure, {name: fill for name, fill in colours.items() if name in shown})
    return figure


def _seen(box: Slice, widest: int) -> bool:
    return box.width >= flame.LEAST_SHARE * widest


def _marks(ax: Axes, journey: Journey, widest: int) -> None:
    """A sign for each; its words once for those that follow each other, where there is room."""
    rows = [-1.0] * WORD_ROWS  # where the words of each end
    last = ""
    for mark in sorted(journey.marks, key=lambda mark: mark.at):
        ax.plot(mark.at, -1.35, SIGNS.get(mark.kind, "P"), color=INK, markersize=6, clip_on=False)
        if mark.words == last:
            continue
        wide = len(mark.words) * flame.CHARACTER * widest
        left = min(mark.at, widest - wide)
        row = next((n for n, end in enumerate(rows) if end <= left), WORD_ROWS - 1)
        ax.text(left, -1.8 - 0.8 * row, mark.words, fontsize=10, color=INK, va="bottom")
        last, rows[row] = mark.words, left + wide
