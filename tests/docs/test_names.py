# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages that tell how to change the code name only what the code has."""

import re
from pathlib import Path

import pytest

from runners.process import REPOSITORY

PAGES = [
    *sorted((REPOSITORY / "docs").glob("adding-*.md")),
    REPOSITORY / "docs/architecture.md",
    REPOSITORY / "CONTRIBUTING.md",
]
CODE = {".py", ".c", ".h", ".bt", ".tsv", ".toml", ".sh", ".j2", ".mk"}
PLACES = ("analysis", "packaging", "probes", "runners", "tests")
# `a_name`, `a.Name`, `a_function()`; not a template such as `p50_UNIT`.
NAME = re.compile(r"`(?:\w+\.)*([a-z]\w*_\w+|[A-Z]+_[A-Z_]+|[A-Z]\w*[a-z][A-Z]\w*)(?:\(\))?`")
TEMPLATE = re.compile(r"\w+_UNIT")


@pytest.fixture(scope="module")
def words() -> set[str]:
    files = [path for place in PLACES for path in (REPOSITORY / place).rglob("*")]
    texts = [
        path.read_text(encoding="utf-8")
        for path in files
        if path.suffix in CODE and "build" not in path.parts and path != Path(__file__)
    ]
    return set(re.findall(r"\w+", "\n".join(texts)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_page_names_only_what_the_code_has(page: Path, words: set[str]) -> None:
    named = set(NAME.findall(page.read_text(encoding="utf-8")))
    assert [name for name in named - words if not TEMPLATE.fullmatch(name)] == []
