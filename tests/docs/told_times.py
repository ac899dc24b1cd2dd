# SPDX-License-Identifier: GPL-2.0-or-later
"""The picture of docs/choosing.md: what events tell of each transport's time, and what it took.

    python -m tests.docs.told_times    # draw it again from the newest run of judged.tsv

tests/docs/time_explained.py makes the rows.
"""

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter

from analysis.drawing import FAINT, INK, OTHERS, axes_row, rendered
from analysis.wording import MINUS, size_text
from runners.process import REPOSITORY
from tests.docs.time_explained import UNEXPLAINED

ROWS = REPOSITORY / "reports/reference/time-explained/judged.tsv"
PICTURE = ROWS.with_name("told.svg")
REFRESH = "python -m tests.docs.told_times"
ONE_CPU = "one CPU"
TOLD, OFF = "#8fb8d9", OTHERS[2]
TICKS = (1, 2, 3, 5)  # of each power of ten


def rows() -> pd.DataFrame:
    """The newest run's cells on one CPU."""
    table = pd.read_csv(ROWS, sep="\t")
    return table.query(f"run == {table['run'].max()} and time == {ONE_CPU!r}")


def plot(table: pd.DataFrame) -> Figure:
    """A panel for each size, a row for each transport: the told time's interval, the measured."""
    order = table.groupby("transport")["measured_ns"].min().sort_values(ascending=False).index
    places = {name: at for at, name in enumerate(order)}
    sizes = sorted(table["size"].unique())
    figure, axes = axes_row(len(sizes), 11, 1.2 + 0.25 * len(order), sharey=True)
    for ax, size in zip(axes, sizes, strict=True):
        draw(ax, table[table["size"] == size], places)
        ax.set_title(size_text(size))
    priced = set(table.loc[table["prices"], "transport"])
    axes[0].set_yticks(
        range(len(order)), [f"{name}*" if name in priced else name for name in order]
    )
    axes[len(sizes) // 2].set_xlabel("µs a round trip on one CPU, logarithmic")
    more = f"measured; told more than {100 * UNEXPLAINED:.0f} % too long (+) or too short ({MINUS})"
    handles: list[Artist] = [
        Patch(facecolor=TOLD, alpha=0.6, label="told, with its interval"),
        Line2D([], [], color=INK, marker="o", linestyle="", label="measured"),
        Line2D([], [], color=OFF, marker="o", linestyle="", label=more),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=10)
    return figure


def draw(ax: Axes, table: pd.DataFrame, places: dict[str, int]) -> None:
    for row in table.to_dict("records"):
        at, off = places[row["transport"]], abs(row["error"]) > UNEXPLAINED
        colour = OFF if off else INK
        low, told, high, measured = (
            ns / 1000 for ns in (row["low_ns"], row["told_ns"], row["high_ns"], row["measured_ns"])
        )
        ax.barh(at, high - low, 0.55, left=low, color=TOLD, alpha=0.6)
        ax.vlines(told, at - 0.28, at + 0.28, color=INK, linewidth=1)
        ax.plot(measured, at, "o", color=colour, markersize=5)
        if off:
            ax.annotate(
                f"{100 * row['error']:+.0f} %".replace("-", MINUS),
                (max(high, measured), at),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=8,
                color=INK,
            )
    ax.set_xscale("log")
    ends = table[["low_ns", "high_ns", "measured_ns"]].to_numpy() / 1000
    ax.set_xlim(0.9 * ends.min(), 1.35 * ends.max())
    ax.xaxis.set_major_locator(LogLocator(subs=TICKS))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.grid(axis="y", color=FAINT, alpha=0.25)


def picture() -> str:
    svg, _ = rendered(plot, rows())
    return svg


def main() -> None:
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
