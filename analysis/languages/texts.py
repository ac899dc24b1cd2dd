# SPDX-License-Identifier: GPL-2.0-or-later
"""Every text that a report can say: in Python, in templates, in tables, and in the claims."""

import csv
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_file

ANALYSIS = Path(__file__).parents[1]
REPOSITORY = ANALYSIS.parent
# Functions that say a text, and which of their arguments it is.
KEYWORDS = {"say": None, "say_many": (1, 2), "to_say": None}
TEMPLATE_KEYWORDS = {"_": None, "gettext": None, "ngettext": (1, 2), "say": None}
# Columns of tables that are read by people.
TABLES = {
    "counts/measures.tsv": ("words", "per", "unit"),
    "counts/reasons.tsv": ("why",),
    "counts/twins.tsv": ("why",),
}
# Stands in probes/functions.tsv where a layer does, and is none.
NO_LAYER = {"caller"}
# What a reader sees of a source and of a claim. A quote stays in its own language.
SOURCE_TEXTS = ("description", "conditions")
CLAIM_TEXTS = ("statement", "reading", "mechanism", "conditions")
# What a run says of a knob, before its value is put in.
KNOB_TEXTS = ("what", "one")

Found = Iterator[tuple[str | tuple[str, ...], list[str]]]


def all_texts() -> Catalog:
    """Each once, with the files that it stands in, in the order of the files."""
    catalogue = Catalog(project="pathcost", charset="utf-8", fuzzy=False)
    for folder, pattern, read in (
        (ANALYSIS, "**/*.py", _python),
        (ANALYSIS / "report/templates", "*.j2", _template),
        (ANALYSIS, "**/*.tsv", _table),
        (ANALYSIS / "claims", "*.toml", _claims),
        (REPOSITORY / "probes", "functions.tsv", _layers),
        (REPOSITORY / "runners/exact", "knobs.toml", _knobs),
    ):
        for path in sorted(folder.glob(pattern)):
            _add(catalogue, path, read)
    return catalogue


def _add(catalogue: Catalog, path: Path, read: Callable[[Path], Found]) -> None:
    name = str(path.relative_to(REPOSITORY))
    for message, comments in read(path):
        catalogue.add(message, locations=[(name, 0)], auto_comments=comments)


def _python(path: Path) -> Found:
    yield from _marked("python", path, KEYWORDS, {})


def _template(path: Path) -> Found:
    options = {"trimmed": "true", "newstyle_gettext": "true", "trim_blocks": "true"}
    yield from _marked("jinja2", path, TEMPLATE_KEYWORDS, options)


def _marked(method: str, path: Path, keywords: dict[str, Any], options: dict[str, str]) -> Found:
    found = extract_from_file(
        method, path, keywords=keywords, comment_tags=["For translators:"], options=options
    )
    for _, message, comments, _ in found:
        yield message, comments


def _table(path: Path) -> Found:
    columns = TABLES.get(str(path.relative_to(ANALYSIS)), ())
    for row in _rows(path):
        yield from ((row[column], []) for column in columns if row[column])


def _layers(path: Path) -> Found:
    yield from ((layer, []) for layer in sorted({row["layer"] for row in _rows(path)} - NO_LAYER))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        yield from csv.DictReader((line for line in file if line[0] != "#"), delimiter="\t")


def _claims(path: Path) -> Found:
    file = tomllib.loads(path.read_text(encoding="utf-8"))
    yield from _values(file.get("source", {}), SOURCE_TEXTS)
    for claim in file.get("claim", []):
        yield from _values(claim, CLAIM_TEXTS)
        yield from _rule(claim["rule"])


def _rule(rule: dict[str, Any]) -> Found:
    """What a rule says in words: why there is none, stated numbers, facts that a check finds."""
    yield from _values(rule, ("why",))
    for stated in rule.get("stated", []):
        yield from _values(stated, ("what",))
    yield from ((key.replace("_", " "), []) for key in rule.get("facts", {}))


def _knobs(path: Path) -> Found:
    for knob in tomllib.loads(path.read_text(encoding="utf-8")).values():
        yield from _values(knob, KNOB_TEXTS)


def _values(table: dict[str, Any], keys: Iterable[str]) -> Found:
    yield from ((table[key], []) for key in keys if table.get(key))
