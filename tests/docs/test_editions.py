# SPDX-License-Identifier: GPL-2.0-or-later
"""The student's edition of the course has folded what a student is to find out."""

import re
from pathlib import Path

import pytest

from tests.processes import captured

LESSON = """# A lesson

## Predict

How many? [Hints](teacher.md)

## Run

```console exact
$ count --all
43 bytes
```

## Read

There are 44.

## Exercise

Which?

<details><summary>Answer</summary>

All 45.
</details>
"""
PAGES = {
    "index.md": "# Index\n\n```{toctree}\n:glob:\n\ndocs/lessons/*\n```\n",
    "docs/lessons/lesson.md": LESSON,
    "docs/lessons/teacher.md": "# For the teacher\n",
}
FOLDED = re.compile(r'<details class="fold">.*?</details>', re.DOTALL)
FOUND_OUT = ("43 bytes", "There are 44.", "All 45.")


def built(repository: Path, folder: Path, pages: dict[str, str], *edition: str) -> str:
    """The lesson's page in an edition of these pages alone."""
    site, tree = folder / "site", folder / "tree"
    (tree / "published").mkdir(parents=True)
    for name, text in pages.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
    done = captured([repository / "docs/build.sh", *edition, site, tree])
    assert done.returncode == 0, done.stderr
    page = (site / "docs/lessons/lesson.html").read_text(encoding="utf-8")
    return re.sub(r"</?span[^>]*>", "", page)


@pytest.mark.slow
def test_a_students_page_folds_what_is_to_be_found_out(repository: Path, tmp_path: Path) -> None:
    pages = {name: text for name, text in PAGES.items() if "teacher" not in name}
    page = built(repository, tmp_path, pages, "--student")
    shown = FOLDED.sub("", page)
    assert [text for text in FOUND_OUT if text in shown] == []
    assert [text for text in FOUND_OUT if text not in page] == []
    assert "$ count --all" in shown
    assert "teacher.html" not in page


@pytest.mark.slow
def test_a_teachers_page_shows_it(repository: Path, tmp_path: Path) -> None:
    shown = FOLDED.sub("", built(repository, tmp_path, PAGES))
    assert [text for text in FOUND_OUT if text not in shown] == []
    assert "teacher.html" in shown
