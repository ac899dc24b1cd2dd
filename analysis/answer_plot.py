# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer as one figure, to be pasted into slides: large type, its conditions in it."""

from itertools import groupby

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.answer import Answer, title_of, title_text
from analysis.drawing import FAINT, INK, Drawn, colour, drawn, not_drawn
from analysis.wording import amount, capital

TITLE = "The answer on one slide"


def draw_answer(answer: Answer) -> Drawn:
    """Times by conditions, and instructions where exact mode counted them."""
    if not answer.placed:
        return not_drawn("answer", TITLE, "no times of two transports")
    rows = [
        (placed.conditions, name, figure.value, figure.low, figure.high)
        for placed in answer.placed
        for name, figure in zip(answer.names, placed.iteration[:2], strict=True)
    ]
    table = pd.DataFrame(rows, columns=["conditions", "transport", "ns", "low_ns", "high_ns"])
    alt = "; ".join(
        f"{title_of(conditions)}: "
        + ", ".join(f"{name} {amount(ns, 'ns')}" for _, name, ns, *_ in some)
        for conditions, some in groupby(rows, lambda row: row[0])
    )
    caption = (
        f"Medians of a {answer.iteration} with their 95 % intervals, and instructions a message. "
        "Paste it with the lines below its bars: a time means nothing without its machine."
    )
    return drawn("answer", TITLE, caption, alt, _plot, answer, data=table)


def _plot(answer: Answer) -> Figure:
    counted = answer.count("instructions")
    figure = Figure(figsize=(12.8, 6.4), layout="constrained")
    ratios = {"width_ratios": [2, 1] if counted else [1]}
    axes = figure.subplots(1, 2 if counted else 1, squeeze=False, gridspec_kw=ratios)[0]
    _times(axes[0], answer)
    where = [f"{title_text(answer)}; {answer.ways}; times: {answer.host}"]
    if counted:
        names = list(answer.names)
        values = [counted.value(name) for name in names]
        axes[1].bar(names, values, color=[colour(name, names) for name in names], width=0.6)
        for place, value in enumerate(values):
            axes[1].text(place, value, f"{value:,.0f}", ha="center", va="bottom", fontsize=18)
        axes[1].set_title("Instructions a message", fontsize=18)
        axes[1].tick_params(axis="x", labelsize=18)
        axes[1].set_yticks([])
        axes[1].grid(visible=False)
        axes[1].spines["left"].set_visible(False)
        axes[1].margins(y=0.12)
        where.append(f"instructions: {counted.counter}")
    figure.supxlabel("\n".join(where), fontsize=12, color=FAINT)
    return figure


def _times(ax: Axes, answer: Answer) -> None:
    names = list(answer.names)
    for row, placed in enumerate(answer.placed):
        pair = zip(names, placed.iteration[:2], strict=True)
        for number, (name, figure) in enumerate(pair):
            place = row + (number - 0.5) * 0.4
            ax.barh(place, figure.value / 1000, 0.36, color=colour(name, names))
            end = figure.value
            if figure.low is not None and figure.high is not None:
                ax.hlines(place, figure.low / 1000, figure.high / 1000, color=INK, linewidth=2)
                end = max(end, figure.high)
            ax.annotate(
                f"{name} {amount(figure.value, 'ns')}", (end / 1000, place), (8, 0),
                textcoords="offset points", va="center", fontsize=16,
            )  # fmt: skip
    labels = [capital(title_of(placed.conditions)).replace(", ", ",\n") for placed in answer.placed]
    ax.set_yticks(range(len(labels)), labels, fontsize=16)
    ax.invert_yaxis()
    ax.margins(x=0.3)
    ax.set_xlim(left=0)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="x", labelsize=13)
    ax.set_title(f"{capital(answer.iteration)}, µs (median, 95 % interval)", fontsize=18)
