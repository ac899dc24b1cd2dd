# SPDX-License-Identifier: GPL-2.0-or-later
"""The report in other languages: no text is missing, and none is said past the catalogues."""

import gettext
import json
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po

from analysis.__main__ import main, said
from analysis.analyse import Analysis
from analysis.counts.quantities import APPS as PROGRAMS
from analysis.languages import FOLDER, SOURCE, available, use
from analysis.languages.__main__ import translated, written
from analysis.languages.texts import all_texts
from analysis.raw.run import read_run
from analysis.report.pages import html, markdown
from runners.apps import APPS
from runners.lanes import REPOSITORY
from runners.plan.factors import PATTERNS, TRANSPORTS, WAITS
from tests.analysis.make_run import MadeUp, make_run

OTHERS = [one for one in available() if one != SOURCE]
# What is put into a text, and markup: a translation has the same.
KEPT = re.compile(r"(\{[^{}]*\}|%\(\w+\)[sd]|%%|</?\w[^>]*>)")
REFERENCE = REPOSITORY / "reports/reference/default"
# Names that no run needs to hold: what claims speak of, what tools and errno say, processes, files.
NAMES = {
    *(*TRANSPORTS, *PATTERNS, *WAITS, *APPS, *PROGRAMS),
    *("abstract-names", "peercred", "permissions", "same-interface", "scm-rights", "stale-file"),
    *("sun-path", "EACCES", "EADDRINUSE", "ENAMETOOLONG", "QEMU", "wrk", "redis-server"),
    *("client", "server", "samples", "cache-misses", "dTLB-load-misses"),
}
# Columns of the tidy table that are names; a key may be a function's.
NAMED = ("lane", "kernel", "rung", "instrument", "transport", "pattern", "placement", "quantity")
REFRESH = "python -m analysis.languages puts new texts into the catalogues; then translate them"
# What has an underscore, a digit or a dot is a name; so is what is cut short.
WORD = re.compile(r"(?<![\w.])[A-Za-z][A-Za-z-]{2,}(?![\w…])")


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

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def gettext(self, message: str) -> str:
        self.asked.add(message)
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
        if not any(self.open):
            self.words.append(" ".join(OPTION.sub("", data).split()))


# An option with what it is given, a path, and what perf answers.
OPTION = re.compile(r"--[a-z-]+(?: [\w,]+)?|\S*/\S+|\w+\.[a-z]\w+|(?:<|&lt;)not supported>")
# Of report.md: code, a source's own words, where links lead, a command that stands alone.
UNSAID = re.compile(rf"`[^`]*`|“[^”]*”|\]\([^)]*\)|^ *python -m .*$|{OPTION.pattern}", re.MULTILINE)
FIGURE = re.compile(r"!\[[^\]]*\]\(([^)]*)\)")
VOID = ("meta", "br", "img", "input", "hr", "link", "col", "wbr")


@pytest.fixture(scope="session", params=["made up", "kept"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up run, and the reference run, which has exact cells too."""
    if request.param == "kept":
        return REFERENCE
    return make_run(tmp_path_factory.mktemp("made"))


def test_every_text_goes_through_a_catalogue(run: Path, texts: Catalog) -> None:
    """In a language that says nothing but values and names, no other word is left.

    And what was asked for stands in the catalogues, unless it is but names.
    """
    wordless = Wordless()
    with use("xx", wordless):
        analysis, figures = said(read_run(run))
        pages = html(analysis, figures), markdown(analysis, figures)
    names = known_names(analysis).union(*(WORD.findall(figure.name) for figure in figures))

    def unnamed(texts: Iterable[str]) -> list[str]:
        return [text for text in texts if not set(WORD.findall(text)) <= names]

    words = Words()
    words.feed(pages[0])
    assert words.open == []
    assert unnamed(words.words) == []
    assert unnamed(UNSAID.sub("", pages[1].replace("\\", "")).splitlines()) == []
    known = {one for text in texts for one in ([text.id] if isinstance(text.id, str) else text.id)}
    assert unnamed(wordless.asked - known) == [], REFRESH


def known_names(analysis: Analysis) -> set[str]:
    """Words that nobody translates: of what was asked for and measured, and of where.

    A layer's name is no such word, nor is a reason why something is missing.
    """
    manifest, tidy = analysis.run.manifest, analysis.tables.tidy
    asked = {key: manifest[key] for key in manifest.keys() - {"missing", "preflight"}}
    places = [(lane.folder, lane.environment) for lane in analysis.run.lanes]
    scripts = [cell.scripts for lane in analysis.run.lanes for cell in lane.cells]
    found = [
        json.dumps([asked, places, scripts]),
        (REPOSITORY / "probes/scripts.tsv").read_text("utf-8"),
    ]
    found += [str(one) for column in NAMED for one in tidy[column].unique()]
    found += [one for one in tidy["key"].unique() if "layer:" not in one]
    found += [one["what"] for one in manifest["missing"]]
    return {word for text in (*found, *NAMES) for word in WORD.findall(text)}


def test_pages_in_other_languages_stand_beside_the_english_one(tmp_path: Path) -> None:
    language = OTHERS[0]
    run = make_run(tmp_path, MadeUp(guest=False, repeats=1))
    assert main([str(run), "--quiet", "--lang", language]) == 0
    english, other = run / "report.html", run / f"report.{language}.html"
    assert f'href="{other.name}"' in english.read_text(encoding="utf-8")
    page = other.read_text(encoding="utf-8")
    assert f'<html lang="{language}">' in page
    assert 'href="report.html"' in page
    for extension in ("", f".{language}"):
        name, folder = f"report{extension}.md", f"figures{extension}"
        linked = FIGURE.findall((run / name).read_text(encoding="utf-8"))
        assert linked
        assert [one for one in linked if not (run / one).is_file()] == []
        assert {one.partition("/")[0] for one in linked} == {folder}
