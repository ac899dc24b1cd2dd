# SPDX-License-Identifier: GPL-2.0-or-later
"""Every notebook of the lessons runs, and prints what is stored in it."""

from __future__ import annotations

import difflib
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from runners.process import REPOSITORY
from tests.docs import notebooks, reference

LESSONS = REPOSITORY / "docs/lessons"
PARTS = ("**Question.**", "**Predict.**", "## Explain", "## Break it", "## Exercise", "Answer")


def test_there_are_three() -> None:
    assert len(notebooks.PAGES) == 3


@pytest.fixture(scope="module")
def tree(reference_run: Path) -> Path:
    """The tree, of which a notebook reads only the reference run."""
    return reference_run.parents[2]


@pytest.mark.parametrize("page", notebooks.PAGES, ids=lambda page: page.stem)
@pytest.mark.slow
def test_a_notebook_prints_what_it_shows(page: Path, tree: Path) -> None:
    kept, now = nbformat.read(page, as_version=4), notebooks.executed(page, tree)
    wrong = [
        line
        for old, new in zip(notebooks.shown(kept), notebooks.shown(now), strict=True)
        for line in difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=1)
    ]
    assert not wrong, "\n".join(wrong) + f"\n\nis this meant? {reference.REFRESH}"


@pytest.mark.parametrize("page", notebooks.PAGES, ids=lambda page: page.stem)
def test_a_notebook_teaches_in_the_lessons_form(page: Path) -> None:
    book = nbformat.read(page, as_version=4)
    text = "\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
    assert [part for part in PARTS if part not in text] == []
    assert page.name in (LESSONS / "README.md").read_text(encoding="utf-8")
    assert page.with_suffix(".md").exists()  # the lesson that it belongs to


@pytest.mark.slow
def test_a_cell_that_fails_fails_the_notebook(tmp_path: Path) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    page = tmp_path / "page.ipynb"
    page.write_text(nbformat.writes(book))
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        notebooks.executed(page, tmp_path)


@pytest.mark.slow
def test_a_refreshed_notebook_holds(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(source) for source in ("print(6 * 7)", "6 * 7")]
    page = tmp_path / "page.ipynb"
    page.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)))
    notebooks.refresh(page, tmp_path)
    assert notebooks.shown(nbformat.read(page, as_version=4)) == ["42\n", "42\n"]
