# SPDX-License-Identifier: GPL-2.0-or-later
"""python -m analysis.languages: find all texts, put new ones into each catalogue, say what lacks.

A text that nothing says any more leaves the catalogues. One that is new, or changed, has no
translation until somebody writes one: the report shows it in English, and a test fails.
"""

import sys
from collections.abc import Sequence
from io import BytesIO

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from analysis.languages import FOLDER, SOURCE, available
from analysis.languages.texts import all_texts

WIDTH = 100
# Keys of a header that say who and when, which git knows.
UNKEPT = tuple(
    f'"{key}'.encode()
    for key in ("Project-", "Report-", "POT-", "PO-", "Last-", "Language-Team", "Generated-By")
)


def main() -> int:
    found = all_texts()
    for language in available():
        if language != SOURCE:
            catalogue = updated(language, found)
            (FOLDER / f"{language}.po").write_bytes(written(catalogue))
            lacking = sum(not translated(message.string) for message in catalogue if message.id)
            print(f"{language}: {len(catalogue)} texts, {lacking} without a translation")
    return 0


def updated(language: str, found: Catalog) -> Catalog:
    """The stored catalogue with exactly the texts that there are now."""
    with (FOLDER / f"{language}.po").open("rb") as source:
        catalogue = read_po(source, locale=language)
    catalogue.update(found, no_fuzzy_matching=True)
    catalogue.obsolete.clear()
    return catalogue


def written(catalogue: Catalog) -> bytes:
    """Without dates and line numbers: a catalogue changes when a text does."""
    out = BytesIO()
    write_po(out, catalogue, width=WIDTH, include_lineno=False)
    lines = out.getvalue().splitlines(keepends=True)
    return b"".join(line for line in lines if not line.startswith(UNKEPT))


def translated(string: str | Sequence[str] | None) -> bool:
    return bool(string) if isinstance(string, str | None) else all(string)


if __name__ == "__main__":
    sys.exit(main())
