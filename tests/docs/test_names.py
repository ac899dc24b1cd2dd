# SPDX-License-Identifier: GPL-2.0-or-later
"""Pages name only what the code has, and functions that a kernel has."""

import re
import tarfile
from pathlib import Path

import pytest

from probes.files import read_rows
from runners.process import REPOSITORY
from tests.docs import reference

PAGES = [
    *sorted((REPOSITORY / "docs").glob("adding-*.md")),
    REPOSITORY / "docs/architecture.md",
    REPOSITORY / "CONTRIBUTING.md",
]
CLAIMS = REPOSITORY / "analysis/claims"
TEXTS = [  # whatever says what a kernel does
    *(
        path
        for place in ("docs", "probes", "runners", "reports/reference")
        for path in (REPOSITORY / place).rglob("*.md")
    ),
    *(REPOSITORY / "docs/site").glob("*.j2"),
    *(REPOSITORY / "analysis/report/templates").glob("*"),
    *CLAIMS.glob("*.toml"),
    REPOSITORY / "analysis/figures.toml",
    REPOSITORY / "README.md",
    REPOSITORY / "docs/course/bank.toml",
]
FUNCTIONS = REPOSITORY / "docs/kernel-functions.tsv"
CALLED = REPOSITORY / reference.TRANSPORTS / reference.ARCHIVE  # with a tree of each path's calls
CODE = {".py", ".c", ".h", ".bt", ".tsv", ".toml", ".sh", ".j2", ".mk"}
PLACES = ("analysis", "packaging", "probes", "runners", "tests")
# `a_name`, `a.Name`, `a_function()`; not a template such as `p50_UNIT`.
NAME = re.compile(r"`(?:\w+\.)*([a-z]\w*_\w+|[A-Z]+_[A-Z_]+|[A-Z]\w*[a-z][A-Z]\w*)(?:\(\))?`")
TEMPLATE = re.compile(r"\w+_UNIT")
FUNCTION = re.compile(r"`([a-z_]+[a-z0-9]*_[a-z0-9_]+)(?:\(\))?`")


@pytest.fixture(scope="module")
def words() -> set[str]:
    files = [path for place in PLACES for path in (REPOSITORY / place).rglob("*")]
    texts = [
        path.read_text(encoding="utf-8")
        for path in files
        if path.suffix in CODE and "build" not in path.parts
        if path != Path(__file__) and path not in TEXTS
    ]
    return set(re.findall(r"\w+", "\n".join(texts)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_page_names_only_what_the_code_has(page: Path, words: set[str]) -> None:
    named = set(NAME.findall(page.read_text(encoding="utf-8")))
    assert [name for name in named - words if not TEMPLATE.fullmatch(name)] == []


@pytest.fixture(scope="module")
def called() -> set[str]:
    """The functions that a kernel called in a stored run."""
    with tarfile.open(CALLED) as archive:
        trees = [member for member in archive if "/tree/" in member.name]
        texts = [file.read().decode() for file in map(archive.extractfile, trees) if file]
    return set(re.findall(r"\w+", "\n".join(texts)))


def test_each_kernel_function_on_a_page_has_its_file(words: set[str], called: set[str]) -> None:
    """A name is our code's, or one of the kernel's, whose file the table has."""
    known = {row["name"] for row in read_rows(FUNCTIONS)}
    named = {
        name: str(page.relative_to(REPOSITORY))
        for page in TEXTS
        for name in FUNCTION.findall(page.read_text(encoding="utf-8"))
    }
    wrong = {name: page for name, page in named.items() if name not in (words - called) | known}
    assert wrong == {}, f"correct the name, or add it to {FUNCTIONS.name}"
    assert known <= named.keys()
