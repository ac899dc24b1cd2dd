# SPDX-License-Identifier: GPL-2.0-or-later
"""The report in other languages: one catalogue each, NAME.po, of texts that stand in the code in
English. Numbers, names of functions and what a kernel or a tool said are the same in all of them.

Texts are looked up while a report is made, so what is made under `use("ru")` is Russian.
`python -m analysis.languages` finds all texts, and updates the catalogues.
"""

import gettext
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from pathlib import Path
from typing import Any

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

FOLDER = Path(__file__).parent
SOURCE = "en"  # what the code itself is written in
_used: ContextVar[tuple[str, gettext.NullTranslations]] = ContextVar(
    "language", default=(SOURCE, gettext.NullTranslations())
)


def available() -> tuple[str, ...]:
    """`en` and whatever has a catalogue."""
    return (SOURCE, *sorted(path.stem for path in FOLDER.glob("*.po")))


def used() -> str:
    return _used.get()[0]


@contextmanager
def use(language: str, catalogue: gettext.NullTranslations | None = None) -> Iterator[None]:
    """Say everything inside in `language`, one of `available()`, or out of this catalogue."""
    token = _used.set((language, catalogue or _catalogue(language)))
    try:
        yield
    finally:
        _used.reset(token)


def say(text: str, **values: Any) -> str:
    """The text in the language in use, with `values` put where it names them: `{name}`.

    Without values nothing is put in, so braces may stand for themselves. Nothing is said of an
    empty text, under which a catalogue has its header.
    """
    said = _used.get()[1].gettext(text) if text else ""
    return said.format(**values) if values else said


def say_many(one: str, many: str, count: int, **values: Any) -> str:
    """The same by number: `count` decides which form, and is a value itself."""
    return form(one, many, count).format(count=count, **values)


def form(one: str, many: str, count: int) -> str:
    """The form of a text for so many, nothing put in yet."""
    return _used.get()[1].ngettext(one, many, count)


def to_say(text: str) -> str:
    """Marks a text that is said later, by `say(CONSTANT)`, so that catalogues have it."""
    return text


def _catalogue(language: str) -> gettext.NullTranslations:
    if language == SOURCE:
        return gettext.NullTranslations()
    compiled = BytesIO()
    with (FOLDER / f"{language}.po").open("rb") as source:
        write_mo(compiled, read_po(source, locale=language))
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)
