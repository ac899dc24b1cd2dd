# SPDX-License-Identifier: GPL-2.0-or-later
"""The reference run's answer, tables, pages and notebooks are made again, byte for byte."""

import difflib
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from runners.process import REPOSITORY
from tests.docs import notebooks, reference

LINES = 40  # of a file's diff


def differing(kept: dict[str, str], now: dict[str, str]) -> str:
    """A diff of every file that is not as it was, each shortened."""
    diffs = [
        list(difflib.unified_diff(kept[name].splitlines(), now[name].splitlines(),
                                  f"kept/{name}", f"now/{name}", lineterm="", n=0))
        for name in kept
    ]  # fmt: skip
    return "\n".join("\n".join(diff[:LINES]) for diff in diffs if diff)


@pytest.mark.slow
def test_the_analysis_makes_the_reference_run_again(reference_run: Path) -> None:
    kept, now = map(reference.products, (REPOSITORY / reference.RUN, reference_run))
    wrong = differing(kept, now)
    assert not wrong, f"{wrong}\n\nis this meant? Then store it: {reference.REFRESH}"
    # A run without a guest, without exact counts or without times would compare equal as well.
    figures = {path.stem for path in (reference_run / "figures").glob("*.csv")}
    assert {"latency", "ledger"} <= figures
    assert len(list((reference_run / "folded").glob("*.folded"))) == 8


@pytest.mark.slow
@pytest.mark.parametrize(("run", "page", "filled"), reference.TABLES)
def test_a_page_s_tables_are_of_its_stored_run(
    run: Path, page: Path, filled: Callable[[Path], str], tmp_path: Path
) -> None:
    reference.unpack(REPOSITORY / run, tmp_path / "run")
    assert filled(tmp_path / "run") == page.read_text(encoding="utf-8")


def test_the_readme_shows_the_reference_report() -> None:
    assert f"]({reference.PICTURE})" in (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert reference.pictured(REPOSITORY / reference.PICTURE) == reference.digest(
        REPOSITORY / reference.RUN
    ), f"the picture is of an older report: {reference.REFRESH}"


@pytest.mark.parametrize("page", notebooks.PAGES, ids=lambda page: page.stem)
@pytest.mark.slow
def test_a_notebook_prints_what_it_shows(page: Path, reference_run: Path) -> None:
    """Of the tree it reads only the reference run."""
    books = nbformat.read(page, as_version=4), notebooks.executed(page, reference_run.parents[2])
    kept, now = (
        {f"cell {number}": text for number, text in enumerate(notebooks.shown(book))}
        for book in books
    )
    assert kept.keys() == now.keys()
    wrong = differing(kept, now)
    assert not wrong, f"{wrong}\n\nis this meant? {reference.REFRESH}"


@pytest.mark.slow
def test_nothing_of_the_machine_s_own_is_kept(reference_run: Path) -> None:
    """`--run` measures in a temporary copy, and leaves its path nowhere."""
    kept = [path for kind in ("json", "bt", "md") for path in reference_run.rglob(f"*.{kind}")]
    assert kept
    assert [path for path in kept if "/pathcost/reports/" in path.read_text(encoding="utf-8")] == []
