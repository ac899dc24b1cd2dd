# SPDX-License-Identifier: GPL-2.0-or-later
"""The report in other languages: no text is missing, and none is said past the catalogues."""

import gettext
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po

from analysis.__main__ import main, said
from analysis.languages import FOLDER, SOURCE, available, use
from analysis.languages.__main__ import translated, written
from analysis.languages.texts import all_texts
from analysis.raw.run import read_run
from analysis.report.pages import html, markdown
from runners.apps import APPS
from runners.lanes import REPOSITORY
from runners.options import PATTERNS, TRANSPORTS, WAITS
from tests.analysis.make_run import make_run

OTHERS = [one for one in available() if one != SOURCE]
# What is put into a text, and markup: a translation has the same.
KEPT = re.compile(r"(\{[^{}]*\}|%\(\w+\)[sd]|%%|</?\w[^>]*>)")
REFERENCE = REPOSITORY / "reports/reference/default"
# Names that no run needs to hold: what claims speak of, what tools and errno say, kinds of layers.
NAMES = {
    *(TRANSPORTS + PATTERNS + WAITS + tuple(APPS)),
    *("runners", "claims", "apps", "transports", "socket", "QEMU", "wrk", "cells", "jsonl", "echo"),
    *("abstract-names", "peercred", "permissions", "same-interface", "scm-rights", "stale-file"),
    *("sun-path", "EACCES", "EADDRINUSE", "ENAMETOOLONG", "helpers", "unclassified", "log"),
    "keep",
}
REFRESH = "python -m analysis.languages puts new texts into the catalogues; then translate them"
WORD = re.compile(r"[A-Za-z]{3,}(?!\w*…)")  # a name that is cut short is none


@pytest.fixture(scope="session")
def texts() -> Catalog:
    return all_texts()


def stored(language: str) -> Catalog:
    with (FOLDER / f"{language}.po").open("rb") as file:
        return read_po(file, locale=language)


@pytest.mark.parametrize("language", OTHERS)
def test_each_catalogue_has_every_text_and_no_other(language: str, texts: Catalog) -> None:
    found, wanted = ({m.id for m in c if m.id} for c in (stored(language), texts))
    assert (wanted - found, found - wanted) == (set(), set()), REFRESH


@pytest.mark.parametrize("language", OTHERS)
def test_each_text_is_translated(language: str) -> None:
    catalogue = stored(language)
    assert [m.id for m in catalogue if m.id and not translated(m.string)] == [], REFRESH
    assert [m.id for m in catalogue if m.id and m.fuzzy] == []


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_puts_in_the_same_values_and_markup(language: str) -> None:
    wrong = [message.id for message in stored(language) if message.id and not _same(message)]
    assert wrong == []


def _same(message: Message) -> bool:
    """Each form of a plural has what one of the two English forms has."""
    ids = message.id if isinstance(message.id, tuple | list) else [message.id]
    said = message.string if isinstance(message.string, tuple | list) else [message.string]
    allowed = [sorted(KEPT.findall(one)) for one in ids]
    return all(sorted(KEPT.findall(one or "")) in allowed for one in said)


@pytest.mark.parametrize("language", OTHERS)
def test_a_catalogue_is_as_its_command_writes_it(language: str) -> None:
    assert written(stored(language)) == (FOLDER / f"{language}.po").read_bytes(), REFRESH


class Wordless(gettext.NullTranslations):
    """Says nothing of a text but what is put into it: words that are left went past `say`."""

    def gettext(self, message: str) -> str:
        return " ".join(KEPT.findall(message)) or "¤"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


class Words(HTMLParser):
    """Words of a page that are neither code nor a name, nor in a language of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[bool] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in VOID:
            return
        own = tag in ("code", "style", "script", "title") or given.get("translate") == "no"
        self.open.append(own or ("lang" in given and tag != "html"))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self.open:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if not any(self.open) and WORD.search(data):
            self.words.append(" ".join(data.split()))


# Of report.md: code, a source's own words, links, a command that stands alone.
UNSAID = re.compile(r"`[^`]*`|“[^”]*”|!?\[[^\]]*\]\([^)]*\)|^ *python -m .*$", re.MULTILINE)
VOID = ("meta", "br", "img", "input", "hr", "link", "col", "wbr")


@pytest.fixture(scope="session", params=["made up", "kept"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up run, and the reference run, which has exact cells too."""
    if request.param == "kept":
        return REFERENCE
    return make_run(tmp_path_factory.mktemp("made"))


def test_every_text_goes_through_a_catalogue(run: Path) -> None:
    """In a language that says nothing but values and names, no other word is left."""
    with use("xx", Wordless()):
        analysis, figures = said(read_run(run))
        pages = html(analysis, figures), markdown(analysis, figures)
    names = known_names(run).union(*(WORD.findall(figure.name) for figure in figures))
    words = Words()
    words.feed(pages[0])
    assert words.open == []
    for texts in (words.words, UNSAID.sub("", pages[1].replace("\\", "")).splitlines()):
        assert [text for text in texts if not set(WORD.findall(text)) <= names] == []


def known_names(run: Path) -> set[str]:
    """Words that nobody translates: of what was asked for and recorded, and of the tables."""
    asked = json.loads((run / "run.json").read_text(encoding="utf-8"))
    said = [json.dumps({key: asked[key] for key in asked.keys() - {"missing", "preflight"}})]
    said += [path.read_text("utf-8", "replace") for path in run.glob("raw/**/*") if path.is_file()]
    said += [path.read_text(encoding="utf-8") for path in (REPOSITORY / "probes").glob("*.tsv")]
    return {word for text in (*said, *NAMES) for word in WORD.findall(text)}


def test_pages_in_other_languages_stand_beside_the_english_one(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert main([str(run), "--quiet", "--lang", OTHERS[0]]) == 0
    english, other = (run / "report.html"), (run / f"report.{OTHERS[0]}.html")
    assert f'href="{other.name}"' in english.read_text(encoding="utf-8")
    page = other.read_text(encoding="utf-8")
    assert f'<html lang="{OTHERS[0]}">' in page
    assert 'href="report.html"' in page
    assert (run / f"report.{OTHERS[0]}.md").exists()
