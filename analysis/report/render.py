# SPDX-License-Identifier: GPL-2.0-or-later
"""Jinja templates → Markdown, and Markdown with figures → a page that needs no network.

Whatever a template fills in is escaped by `escape`, in this one place.
"""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

import pandas as pd
from jinja2 import Environment
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from analysis import drawing, wording
from analysis.claims.verdict import (
    by_source,
    by_verdict,
    kind_text,
    more_text,
    steadiness,
    tally,
)
from analysis.drawing import Drawn
from analysis.paths.cells import scheduling_text
from analysis.report.sentences import templates

PICTURE = re.compile(r'<p><img src="figures/([\w.-]+)\.svg" alt="[^"]*" ?/?></p>')
NUMERIC = re.compile(rf"[(+<{wording.MINUS}]?\d|{wording.DASH}$|$")
MOST_NARROW = 4  # columns of a table that a narrow screen shows as it is
LONGEST_FIGURE = 40  # characters, with its interval; what is longer is a sentence
LONGEST_WORD = 24  # of a cell in it, in characters
SPAN = re.compile(rf"\([\d{wording.MINUS}][^()]*\)")  # an interval, which stays on one line
UNBROKEN = {
    ord(" "): "\N{NO-BREAK SPACE}",
    ord(wording.DASH): f"\N{WORD JOINER}{wording.DASH}\N{WORD JOINER}",
}
# Between a figure and its unit, and between the ends of a range, a line does not break.
WITHIN = re.compile(
    rf"(?<=\d) (?=(?:µs|ns|ms|s|%|B|KiB|MiB)(?!\w))|(?<=\d){wording.DASH}(?={wording.MINUS}?\d)"
)
PLAIN = re.compile(r"[\w./:+=,@* -]+")  # can stand between backticks as it is
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
    r"|font-family: [^;]*; | transform=.rotate\(-0 [^)]*\).",
    re.DOTALL,
)
TAG, FINE = re.compile(r"<[^>]+>"), re.compile(r"(?<=\.\d\d)\d+")  # finer than any screen


def escape(value: object) -> Markup:
    """Text for Markdown and HTML: neither markup nor a terminal's escapes in it have effect."""
    if isinstance(value, Markup):
        return value
    text = "".join(
        c if c.isprintable() else " " if c.isspace() else repr(c)[1:-1] for c in str(value)
    )
    text = re.sub(r"([\\`*\[\]|~#]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", text)
    return Markup(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def code(text: str) -> Markup:
    """Text as code, where nothing in it could end that."""
    return Markup(f"`{text}`") if PLAIN.fullmatch(text) else escape(text)


def link(text: str, url: str) -> Markup:
    """A link; what could end its address is encoded."""
    safe = re.sub(r"[\s()<>\\\"]", lambda found: f"%{ord(found[0]):02X}", url)
    return Markup(f"[{escape(text)}]({safe})")


def preformatted(text: str) -> Markup:
    """Lines as they are, but for a terminal's escapes."""
    lines = (
        "".join(c if c.isprintable() else repr(c)[1:-1] for c in line) for line in text.splitlines()
    )
    return Markup("<pre>{}</pre>").format("\n".join(lines))


def slug(text: str) -> Markup:
    """Text as an anchor's name."""
    return Markup(re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-"))


def table(rows: pd.DataFrame, caption: str = "") -> Markup:
    """A frame as a table in Markdown; a column of figures stands to the right."""
    if rows.empty:
        return Markup("")
    cells: list[list[Markup]] = [
        [escape(wording.cell(value)) for value in row]
        for row in rows.itertuples(index=False, name=None)
    ]
    figures = [
        all(NUMERIC.match(cell) and len(cell) < LONGEST_FIGURE for cell in column)
        for column in zip(*cells, strict=True)
    ]
    rule = ["---:" if figure and place else "---" for place, figure in enumerate(figures)]
    # Of several levels `One CPU, unix`.
    levels = (name if isinstance(name, tuple) else (name,) for name in rows.columns)
    heads = [escape(", ".join(filter(None, map(str, level)))) for level in levels]
    every: list[list[Any]] = [heads, rule, *cells]
    lines = "\n".join(f"| {' | '.join(line)} |" for line in every)
    return Markup(f"**{escape(caption)}**\n\n{lines}" if caption else lines)


@cache
def environment() -> Environment:
    """The templates of Markdown and of pages."""
    made = templates(escape, autoescape=True)
    tools = (by_verdict, by_source, tally, kind_text, more_text, steadiness, scheduling_text)
    made.globals |= {tool.__name__: tool for tool in tools}
    made.globals |= {"table": table, "link": link, "preformatted": preformatted}
    made.filters |= {tool.__name__: tool for tool in tools} | {"code": code, "slug": slug}
    return made


def render(template: str, **context: Any) -> str:
    """A template as Markdown, with at most one empty line between its blocks."""
    text = environment().get_template(template).render(**context)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def page(text: str, title: str, figures: Iterable[Drawn] = ()) -> str:
    """Markdown as one self-contained page, with figures in place of their pictures."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = parser.parse(text)
    contents = [_anchored(*pair) for pair in pairwise(tokens) if pair[0].type == "heading_open"]
    _label_cells(tokens)
    for part in (part for token in tokens for part in token.children or ()):
        if part.type == "text":
            part.content = WITHIN.sub(lambda gap: gap[0].translate(UNBROKEN), part.content)
    body = parser.renderer.render(tokens, parser.options, {})
    body = PICTURE.sub(partial(_figure, {figure.name: figure for figure in figures}), body)
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            contents=list(filter(None, contents)),
            body=Markup(body),
        )
    )


def _label_cells(tokens: Sequence[Token]) -> None:
    """Give each cell of a wide table its column's name: a narrow screen shows rows as lists."""
    table, heads, place = Token("table_open", "table", 1), list[str](), 0
    for token, text in pairwise(tokens):
        match token.type:
            case "table_open":
                table, heads = token, []
            case "tr_open":
                place = 0
            case "th_open":
                heads.append(_plain(text))
                if len(heads) > MOST_NARROW:
                    table.attrs["class"] = "wide"
            case "td_open":
                token.attrs["data-head"] = heads[place]
                place += 1
                if max(map(len, _plain(text).split()), default=0) > LONGEST_WORD:
                    table.attrs.setdefault("class", "long")
                for part in text.children or ():
                    part.content = SPAN.sub(lambda span: span[0].translate(UNBROKEN), part.content)


def _plain(text: Token) -> str:
    """The words of a heading or cell, without markup."""
    return "".join(part.content for part in text.children or () if part.type != "html_inline")


def _anchored(heading: Token, text: Token) -> tuple[str, str] | None:
    """Give a heading its anchor; return that and its words, if the list of contents has it."""
    words = _plain(text)
    heading.attrs["id"] = name = slug(words)
    return (name, words) if heading.tag == "h2" else None


def _figure(figures: dict[str, Drawn], found: re.Match[str]) -> str:
    drawn, data = figures[found[1]], ""
    if drawn.explored:
        # Nothing in it can end the element.
        written = json.dumps(drawn.explored, ensure_ascii=False, separators=(",", ":"))
        data = written.replace("<", "\\u003c")
        data = f'<script type="application/json" class="explored">{data}</script>'
    plot = f'<div class="plot">{_inline_svg(drawn)}</div>'
    return f'<figure id="figure-{slug(drawn.name)}">{plot}{data}</figure>'


def _inline_svg(figure: Drawn) -> str:
    """A figure for the page: without prolog, in the page's colours, with ids of its own."""
    svg = TAG.sub(lambda tag: FINE.sub("", tag[0]), SVG_NOISE.sub("", figure.svg).strip())
    for colour, variable in THEMED.items():
        svg = svg.replace(colour, variable)
    svg = re.sub(r'\bid="', f'id="{figure.name}-', svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{figure.name}-", svg)
    label = Markup('<svg role="img" aria-label="{}" ').format(figure.alt)
    return svg.replace("<svg ", label, 1)  # the text in it was escaped by matplotlib
