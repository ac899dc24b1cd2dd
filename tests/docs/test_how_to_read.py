# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/how-to-read-the-report.md explains what a report has, all of it, and nothing else."""

from __future__ import annotations

import re
from itertools import pairwise

from analysis.report.pages import SECTIONS
from runners.process import REPOSITORY
from tests.docs.reference import RUN

PAGE = (REPOSITORY / "docs/how-to-read-the-report.md").read_text(encoding="utf-8")
REPORT = (REPOSITORY / RUN / "report.md").read_text(encoding="utf-8")
TITLES = [title for _, title, _ in SECTIONS if title]
POSITIONS = {"The heading", "The line below"}  # parts of the first screen without a name of theirs
EMPHASIS = re.compile(r"(?<![*\w])\*([^*\n]+)\*(?!\*)")


def rows(first: str) -> list[str]:
    """The first cells of every table whose first heading is this; several names in one apart."""
    names: list[str] = []
    within = False
    for above, line in pairwise(PAGE.splitlines()):
        within = line.startswith("|") and (within or above.startswith(f"| {first} |"))
        if within and not line.startswith("| ---"):
            names += line.split("|")[1].strip().split("; ")
    return names


def test_sections_are_explained_in_the_order_of_the_report() -> None:
    assert rows("section") == TITLES


def test_each_part_of_the_first_screen_is_explained() -> None:
    top, _, _ = REPORT.partition("\n## ")
    found = re.findall(r"^\*\*(?:([^*]+)\*\*:|([^*]+)\.\*\*)", top, re.MULTILINE)
    shown = [card or figure for card, figure in found]
    assert [name for name in rows("part") if name not in POSITIONS] == shown


def test_marks_and_words_that_are_explained_are_in_a_report() -> None:
    """A mark that the reference report has no cause for is in what writes reports."""
    files = [
        path for path in (REPOSITORY / "analysis").rglob("*.*") if path.suffix in {".py", ".js"}
    ]
    written = "\n".join([REPORT, *(path.read_text(encoding="utf-8") for path in files)]).lower()
    marks = EMPHASIS.findall(PAGE)
    assert len(marks) > 5
    names = [mark.lower().replace(" → ", "-") for mark in marks]
    assert [name for name in names if name not in written] == []
