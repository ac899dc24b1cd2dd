# SPDX-License-Identifier: GPL-2.0-or-later
"""The course's slides, and its site that runs Python in a browser."""

import json
import re
import shutil
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from docs.site import slides
from tests.processes import captured

DECKS = sorted(slides.DECKS.glob("*.md"))
PICTURE = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")


def test_each_slide_has_notes_and_its_pictures(tmp_path: Path) -> None:
    (tmp_path / "package/dist").mkdir(parents=True)
    out = tmp_path / "out"
    slides.build(out, tmp_path / "package")
    assert len(DECKS) == 6
    for deck in DECKS:
        page = (out / f"{deck.stem}.html").read_text(encoding="utf-8")
        count = deck.read_text(encoding="utf-8").count(slides.DIVIDER) + 1
        assert page.count("<section") == page.count("\nNote:\n") == count
        assert [name for name in PICTURE.findall(page) if not (out / name).is_file()] == []


@pytest.mark.matrix
@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm is installed")
def test_the_site_for_a_browser_has_all_that_its_python_loads(
    repository: Path, tmp_path: Path
) -> None:
    built = captured([repository / "docs/build.sh", "browser", tmp_path])
    assert built.returncode == 0, built.stderr
    folder = tmp_path / "static/pyodide"
    packages = json.loads((folder / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    # Its loader looks each up by the name that pip would use: prompt-toolkit for prompt_toolkit.
    needed = {
        canonicalize_name(name) for package in packages.values() for name in package["depends"]
    }
    assert {"micropip", "ipython", *needed} <= packages.keys()
    assert [name for name in packages if not (folder / packages[name]["file_name"]).exists()] == []
    assert list((tmp_path / "files/run").glob("*.folded")) != []
