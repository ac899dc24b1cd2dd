# SPDX-License-Identifier: GPL-2.0-or-later
"""The test bank as a page: docs/course/bank.toml, and docs/kernel-functions.tsv for the sources."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from probes.files import read_rows

DOCS = Path(__file__).resolve().parents[1]
BANK = DOCS / "course/bank.toml"
NAMED = re.compile(r"`([a-z_0-9]+_[a-z_0-9]+)`")


def read_bank() -> list[dict[str, Any]]:
    """The questions, each with `sources`: where a kernel has the functions of the answer.

    And with `after`: a link to what is read before.
    """
    files = {row["name"]: row["file"] for row in read_rows(DOCS / "kernel-functions.tsv")}
    questions: list[dict[str, Any]] = tomllib.loads(BANK.read_text(encoding="utf-8"))["question"]
    for question in questions:
        names = dict.fromkeys(NAMED.findall(question["answer"]))
        known = [f"`{name}` ({files[name]})" for name in names if name in files]
        question["sources"] = ", ".join(known)
        question["after"] = page_before(question)
    return questions


def page_before(question: Mapping[str, Any]) -> str:
    """A link to the lesson or the lab that a question follows."""
    if "lab" in question:
        kind, number = "lab", question["lab"]
        [page] = DOCS.glob(f"labs/{number}-*/handout.md")
    else:
        kind, number = "lesson", question["lesson"]
        [page] = DOCS.glob(f"lessons/{number:02}-*.md")
    return f"[{kind} {number}](../{page.relative_to(DOCS)})"


def write_bank(course: Path, student: bool) -> None:
    """Write bank.md in the tree's `course`, and let its front page name this page."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined,
        trim_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    page = templates.get_template("bank.md.j2").render(questions=read_bank(), student=student)
    (course / "bank.md").write_text(page, encoding="utf-8")
    front = course / "README.md"
    text = front.read_text(encoding="utf-8").replace(f"({BANK.name})", "(bank.md)")
    front.write_text(text, encoding="utf-8")
