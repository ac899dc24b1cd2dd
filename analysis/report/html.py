# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks as one self-contained page that needs no network; all text is escaped by Jinja."""

import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from analysis import drawing
from analysis.drawing import Drawn
from analysis.report.blocks import Page

TEMPLATES = Path(__file__).parent / "templates"
# Colours of a figure that the page's style sheet decides.
THEMED = {
    drawing.INK: "var(--ink)",
    drawing.FAINT: "var(--faint)",
    drawing.RULE: "var(--rule)",
    drawing.CARD: "var(--card)",
    drawing.COLOURS["unix"]: "var(--unix)",
    drawing.COLOURS["tcp"]: "var(--tcp)",
}
SVG_NOISE = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", re.DOTALL)


def html(page: Page, sortable: bool = True) -> str:
    """`sortable`: with the script that sorts and searches tables, which is all that it does."""
    return _template().render(page=page, sortable=sortable)


@cache  # compiling the template takes longer than filling it in
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(inline=_inline_svg, kind=lambda block: type(block).__name__)
    return environment.get_template("page.html.j2")


def _inline_svg(figure: Drawn) -> Markup:
    """A figure for the page: without prolog, in the page's colours, with ids of its own."""
    svg = SVG_NOISE.sub("", figure.svg).strip()
    for colour, variable in THEMED.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r'\bid="', f'id="{figure.name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{figure.name}-", svg)
    label = Markup('<svg role="img" aria-label="{}" ').format(figure.alt)
    # The text in it was escaped by matplotlib.
    return Markup(svg.replace("<svg ", label, 1))
