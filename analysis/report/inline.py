# SPDX-License-Identifier: GPL-2.0-or-later
"""Text within blocks, and how figures are written in it.

The elements strong, small, code, q, br, abbr, span and a are for both writers: see AROUND in
markdown.py.
"""

from collections.abc import Iterable

from markupsafe import Markup

from analysis.conditions import Workload
from analysis.counts.quantities import Measure
from analysis.report.blocks import Cell
from analysis.statistics import Estimate
from analysis.wording import MINUS, NOT_MEASURED, amount, place_title, size_text, spread

INVALID = Markup(' <abbr title="invalid: used in no verdict">invalid</abbr>')


def say(text: str, *values: object) -> Markup:
    """Fill values, which are escaped, into the braces of `text`, which may have elements."""
    return Markup(text).format(*values)


def joined(texts: Iterable[str], joint: str = ", ") -> Markup:
    return Markup(joint).join(texts)


def code(name: str) -> Markup:
    return say("<code>{}</code>", name)


def faint(text: str) -> Markup:
    return say('<span class="faint">{}</span>', text)


def hidden(text: str) -> Markup:
    """For a screen reader, where the eye sees it by the place."""
    return say('<span class="hidden">{}</span>', text)


def above(text: str, below: str) -> str:
    """`text`, and smaller below it what it is to be read with."""
    return say("{}<small>{}</small>", text, below) if below else text


def conditions_text(cells: Workload, joint: str = " · ") -> str:
    title = place_title(cells.conditions)
    return joint.join((cells.pattern, size_text(cells.size), title[:1].lower() + title[1:]))


def spanned(figure: Estimate | None, unit: str = "", mark: str = "") -> str:
    """A figure above its range, or the sign that nobody measured it."""
    if figure is None:
        return NOT_MEASURED
    text = amount(figure.value, unit)
    below = ""
    if figure.low is not None and figure.high is not None:
        below = spread(figure.low, figure.high, unit)
    return above(say("{}{}", text, mark) if mark else text, below)


def entry_cell(measure: Measure, entry: Estimate | None) -> str | Cell:
    """A figure of the ledger, marked where it is invalid."""
    if entry is None or entry.valid:
        return spanned(entry, measure.unit)
    return Cell(spanned(entry, measure.unit, INVALID), "invalid")


def optional(value: float | None, unit: str = "") -> str:
    return NOT_MEASURED if value is None else amount(value, unit)


def measured(
    measure: Measure, entries: Iterable[Estimate | None], name: str = ""
) -> list[str | Cell]:
    """A measure's figures behind its own name or behind another one."""
    per = say(" {}", faint("per round trip")) if measure.per == "round trip" else ""
    figures = (entry_cell(measure, entry) for entry in entries)
    return [name or say("{}{}", measure.words, per), *figures]


def signed(figure: float) -> str:
    """`+1,265`, and a half where there is one."""
    return f"{figure:+,.1f}".removesuffix(".0").replace("-", MINUS)
