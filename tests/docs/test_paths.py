# SPDX-License-Identifier: GPL-2.0-or-later
"""Every file that a page links to or names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runners.process import REPOSITORY
from tests.docs.test_commands import PAGES

LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"`((?:runners|probes|analysis|tests|docs|reports)/[\w./*-]+)`")
# What the reader writes or a command makes.
OPEN = re.compile(r"NAME|FAMILY|/build/|reports/lesson")


def missing(page: Path, text: str) -> list[str]:
    """Links and names of files that are not there."""
    links = [link.partition("#")[0] for link in LINK.findall(text) if ":" not in link]
    names = [name for name in NAME.findall(text) if not OPEN.search(name)]
    dead = [link for link in links if not (page.parent / link).exists()]
    return dead + [name for name in names if not any(REPOSITORY.glob(name))]


@pytest.mark.parametrize(
    "page",
    [*PAGES, REPOSITORY / "CHANGELOG.md"],
    ids=lambda page: str(page.relative_to(REPOSITORY)),
)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.name == "CHANGELOG.md":  # which names what went
        text = "".join(link[0] for link in re.finditer(r"\]\([^)\s]+\)", text))
    assert missing(page, text) == []


def test_what_is_not_there_is_seen() -> None:
    text = "[a](nowhere.md) [b](#here) [c](https://x.org) `runners/no.py` `tests/NAME.py` `probes/`"
    assert missing(REPOSITORY / "docs/README.md", text) == ["nowhere.md", "runners/no.py"]
