# SPDX-License-Identifier: GPL-2.0-or-later
"""Blocks as Markdown, for a terminal, a diff or a forge."""

import re
from collections.abc import Iterator
from html import unescape
from textwrap import indent

from markupsafe import Markup, escape

from analysis.drawing import Drawn
from analysis.report import blocks
from analysis.report.blocks import Blocks, Page, Table

TAG = re.compile(r"(<[^>]*>)")
# What begins and what ends an element's text. Elements that are not named leave their text alone.
AROUND = {
    "<strong": ("**", "**"),
    "<q": ("“", "”"),
    "<small": (" (", ")"),
}
LINK = re.compile(r'<a href="([^#].*)">')  # anchors are the page's


def markdown(page: Page) -> str:
    blocks: Blocks = (*page.alerts, *page.sentences, *page.sections)
    return "\n\n".join((f"# {text(page.title)}", *_written(blocks))) + "\n"


def text(said: str) -> str:
    """Text on one line; bars, HTML and line ends in data must not become structure."""
    written, ends = "", list[str]()
    for part in TAG.split(str(escape(said))):
        if part.startswith("</"):
            written += ends.pop()
        elif part == "<br>":
            written += " "
        elif part.endswith("/>"):
            continue
        elif part.startswith("<"):
            link = LINK.fullmatch(part)
            known = next((v for k, v in AROUND.items() if part.startswith(k)), ("", ""))
            start, end = ("[", f"]({link[1]})") if link else known
            written += start
            ends.append(end)
        else:
            written += _escaped(unescape(part))
    return written.strip(" ")  # wider blanks indent a call tree


def _escaped(data: str) -> str:
    safe = data.replace("&", "&amp;").replace("<", "&lt;").replace("\n", " ")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", safe)


def _written(given: Blocks) -> Iterator[str]:
    for block in given:
        inner: Blocks = ()
        match block:
            case str(said):
                yield text(said)
            case Drawn():
                yield from _figure(block)
            case blocks.Text("heading", said):
                yield f"### {text(said)}"
            case blocks.Text("pre", said):
                yield _literal(said)
            case blocks.Text(_, said):
                yield text(said)
            case blocks.Items(texts):
                yield "\n".join(f"- {text(item)}" for item in texts)
            case blocks.SideBySide(parts):
                for caption, said in parts:
                    yield f"{text(caption)}:"
                    yield _literal(said)
            case Table():
                yield f"**{text(block.caption)}**"
                yield "\n".join(_table(block))
            case blocks.Group("alert", summary, inner):
                yield text(summary)
            case blocks.Group(_, summary, inner):
                yield f"**{text(summary).replace('**', '')}**"
            case blocks.Cards(cards):
                for card in cards:
                    bars = [f"{bar.name} {bar.text}" for bar in card.bars]
                    words = filter(None, (card.note, card.figure, *bars, *card.lines))
                    yield f"**{text(card.title)}**: {text(Markup('; ').join(words))}"
                    yield from _written(card.blocks)
            case blocks.Article(_, verdict, statement, inner):
                yield f"### {verdict}: {text(statement)}"
            case blocks.Section(_, title, inner) if title:
                yield f"## {text(title)}"
            case blocks.Section(_, _, inner):
                pass
        yield from _written(inner)


def _literal(said: str) -> str:
    return indent(said, "    ", lambda _: True)


def _figure(figure: Drawn) -> Iterator[str]:
    file = f"figures/{figure.name}"
    if figure.svg:
        yield f"![{text(figure.alt)}]({file}.svg)"
    data = f" Data: [{text(figure.name)}.csv]({file}.csv)." if figure.data is not None else ""
    yield f"**{text(figure.title)}.** {text(figure.caption)}{data}"


def _table(table: Table) -> Iterator[str]:
    heads = [
        text(f"{column.group}, {column.head}" if column.group else column.head)
        for column in table.columns
    ]
    yield _line(heads)
    yield _line(["---:" if "n" in column.kind.split() else "---" for column in table.columns])
    for _, cells in table.lines():
        texts = [part for cell, _ in cells for part in (text(cell.text), *[""] * (cell.span - 1))]
        yield _line(texts + [""] * (len(heads) - len(texts)))


def _line(texts: list[str]) -> str:
    return f"| {' | '.join(texts)} |"
