# SPDX-License-Identifier: GPL-2.0-or-later
"""Every notebook of the lessons runs, and prints what is stored in it."""

import difflib
from pathlib import Path

import nbformat
import pytest

from tests.docs import notebooks, reference


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
