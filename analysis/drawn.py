# SPDX-License-Identifier: GPL-2.0-or-later
"""A figure with all that stands around it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis import plots


@dataclass(frozen=True)
class Drawn:
    """A figure, or why there is none (`svg` empty). `data`: the table that it was drawn from."""

    name: str
    title: str
    caption: str
    alt: str
    svg: str = ""
    png: bytes = b""
    data: pd.DataFrame | None = None


def drawn(
    name: str,
    title: str,
    caption: str,
    alt: str,
    plot: Callable[..., Any],
    *what: Any,
    data: pd.DataFrame | None = None,
) -> Drawn:
    svg, png = plots.draw(plot, *what)
    return Drawn(name, title, caption, alt, svg, png, data)


def not_drawn(name: str, title: str, lacks: str) -> Drawn:
    return Drawn(name, title, f"Not drawn: this run has {lacks}.", "")
