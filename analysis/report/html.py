# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks as one self-contained page that needs no network; all text is escaped by Jinja."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

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
# The page's style sheet names the font; nothing refers to a group.
SVG_NOISE = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|(?<=<g) id=\"[^\"]*\""
    r"|font-family: [^;]*; | transform=.rotate\(-0 [^)]*\).", re.DOTALL,
)  # fmt: skip
TAG, FINE = re.compile(r"<[^>]+>"), re.compile(r"(?<=\.\d\d)\d+")  # finer than any screen


def html(page: Page, sortable: bool = True) -> str:
    """`sortable`: with the scripts that sort tables and explore figures."""
    return _template().render(page=page, sortable=sortable, ids=_Ids())


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
    environment.filters.update(
        inline=_inline_svg, data=_data, kind=lambda block: type(block).__name__
    )
    return environment.get_template("blocks.html.j2")


class _Ids:
    """A page's ids for headings: of their words, and none twice."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def __call__(self, text: str) -> str:
        words = re.sub(r"[^a-z0-9]+", "-", Markup(text).striptags().lower()).strip("-")
        self._times[words] += 1
        return f"at-{words}" + (f"-{n}" if (n := self._times[words]) > 1 else "")


def _data(explored: Mapping[str, Any]) -> Markup:
    """JSON in a script element, which nothing in it can end."""
    written = json.dumps(explored, ensure_ascii=False, separators=(",", ":"))
    return Markup(written.replace("<", "\\u003c"))


def _inline_svg(figure: Drawn) -> Markup:
    """A figure for the page: without prolog, in the page's colours, with ids of its own."""
    svg = TAG.sub(lambda tag: FINE.sub("", tag[0]), SVG_NOISE.sub("", figure.svg).strip())
    for colour, variable in THEMED.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r'\bid="', f'id="{figure.name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{figure.name}-", svg)
    label = Markup('<svg role="img" aria-label="{}" ').format(figure.alt)
    # The text in it was escaped by matplotlib.
    return Markup(svg.replace("<svg ", label, 1))
