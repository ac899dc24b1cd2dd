# SPDX-License-Identifier: GPL-2.0-or-later
"""What all figures share: colours and style, a picture of each in two forms, and its caption.

Colours of ink, rules and background are marked with hex codes that nothing else uses, so that the
report can swap them for its own: the figures then follow its dark mode and its print style.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib import rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLE: Any = rc_params_from_file(
    Path(__file__).with_suffix(".mplstyle"), use_default_template=False
)
INK, FAINT, RULE, CARD = (
    STYLE[name] for name in ("text.color", "axes.edgecolor", "grid.color", "axes.facecolor")
)
# Okabe and Ito; told apart by colour-blind readers, and by marker where points are drawn.
COLOURS = {"unix": "#0072b2", "tcp": "#d55e00"}
OTHERS = ("#009e73", "#cc79a7", "#e69f00", "#8c6bb1", "#56b4e9")
MARKERS = ("o", "s", "D", "^", "v", "P")
WORDS = tomllib.loads(Path(__file__).with_name("figures.toml").read_text(encoding="utf-8"))
PNG_DPI = 192  # twice what a screen has
LEAST_PANEL = 1.5  # inches: the width of one of several axes beside each other


def colour(transport: str, transports: list[str]) -> str:
    others = [name for name in transports if name not in COLOURS]
    return COLOURS.get(transport) or OTHERS[others.index(transport) % len(OTHERS)]


def axes_row(panels: int, width: float, height: float, **shared: Any) -> tuple[Figure, list[Axes]]:
    """Axes beside each other, with room for each: of no width they could not be laid out."""
    figure = Figure(figsize=(max(width, LEAST_PANEL * panels), height), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False, **shared)
    return figure, list(axes[0])


@dataclass(frozen=True)
class Drawn:
    """A figure, or why there is none (`svg` empty). `data`: the table that it was drawn from.

    `explored`: what report.js draws in its place, so that a reader can point, zoom and switch.
    """

    name: str
    title: str
    caption: str
    alt: str
    svg: str = ""
    png: bytes = b""
    data: pd.DataFrame | None = None
    explored: Mapping[str, Any] | None = None


def words(figure: str, part: str, **values: object) -> str:
    """A text of figures.toml."""
    return str(WORDS[figure][part].format(**values))


def rendered(plot: Callable[..., Any], *what: Any) -> tuple[str, bytes]:
    """A plot as SVG and PNG, the same bytes for the same data."""
    with mpl.rc_context(STYLE):
        figure = plot(*what)
        svg, png = BytesIO(), BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.set_layout_engine("none")  # it is laid out; doing it again takes as long as drawing
        figure.savefig(png, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return svg.getvalue().decode(), png.getvalue()


def drawn(
    name: str,
    plot: Callable[..., Any],
    *what: Any,
    entry: str = "",
    caption: str = "caption",
    data: pd.DataFrame | None = None,
    explored: Mapping[str, Any] | None = None,
    **values: Any,
) -> Drawn:
    """A figure, with the words of its entry in figures.toml."""
    title, text, alt = (words(entry or name, part, **values) for part in ("title", caption, "alt"))
    return Drawn(name, title, text, alt, *rendered(plot, *what), data, explored)


def not_drawn(name: str, **values: object) -> Drawn:
    title, lacks = (words(name, part, **values) for part in ("title", "lacks"))
    return Drawn(name, title, f"Not drawn: this run has {lacks}.", "")
