# SPDX-License-Identifier: GPL-2.0-or-later
"""No figure of a page is typed by hand: it is filled from what is stored, or a constant."""

from pathlib import Path

import pytest

from runners.process import REPOSITORY
from tests.docs import figures

TABLE = figures.read_table()


@pytest.mark.parametrize("page", figures.PAGES, ids=figures.name_of)
def test_the_figures_of_a_page_are_of_stored_runs(page: Path) -> None:
    again = f"then {figures.REFRESH}"
    assert figures.filled(page, TABLE) == page.read_text(encoding="utf-8"), again
    assert list(figures.typed(page, TABLE)) == [], (
        f"say in {figures.TABLE.name} where from, {again}"
    )


def test_each_constant_is_in_its_page() -> None:
    texts = {figures.name_of(page): page.read_text(encoding="utf-8") for page in figures.PAGES}
    texts[figures.EVERY] = "\n".join(texts.values())
    gone = [
        (name, words)
        for name, own in TABLE.items()
        for words in own.get("constant", ())
        if not figures.pattern(words).search(texts[name])
    ]
    assert gone == []


@pytest.mark.parametrize(
    "sentence",
    [
        "takes 4.8 µs",
        "4 to 6 ms",
        "TCP takes 19,835",
        "22 of 24 lay inside",
        "0.49, 0.51",
        "9 % more",
    ],
)
def test_a_number_with_a_unit_is_a_figure(sentence: str) -> None:
    assert figures.FIGURE.search(sentence)


@pytest.mark.parametrize("sentence", ["Linux 6.12 and 5.10", "64 KiB", "Ubuntu 24.04", "lesson 10"])
def test_a_release_and_a_size_are_none(sentence: str) -> None:
    assert not figures.FIGURE.search(sentence)


def test_a_figure_that_somebody_types_is_found() -> None:
    page = REPOSITORY / "docs/lessons/04-why-tcp-receives-in-the-sender.md"
    assert len(list(figures.typed(page, {figures.EVERY: {"constant": {}}}))) > 2


def test_lessons_that_read_one_run_have_its_figures() -> None:
    """Lesson 4 reads the run that lesson 1 makes: their transcripts are written together."""
    assert figures.tree("01", "ksys_write", 1) == figures.tree("04", "ksys_write")
