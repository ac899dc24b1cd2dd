# SPDX-License-Identifier: GPL-2.0-or-later
"""The test bank as a page: docs/course/bank.toml, and docs/kernel-functions.tsv for the sources."""

import re
import tomllib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from probes.files import read_rows

DOCS = Path(__file__).resolve().parents[1]
BANK = DOCS / "course/bank.toml"
NAMED = re.compile(r"`([a-z_0-9]+_[a-z_0-9]+)`")


def read_bank() -> list[dict[str, str]]:
    """The questions, each with `sources`: where a kernel has the functions of the answer."""
    files = {row["name"]: row["file"] for row in read_rows(DOCS / "kernel-functions.tsv")}
    questions: list[dict[str, str]] = tomllib.loads(BANK.read_text(encoding="utf-8"))["question"]
    for question in questions:
        names = dict.fromkeys(NAMED.findall(question["answer"]))
        known = [f"`{name}` ({files[name]})" for name in names if name in files]
        question["sources"] = ", ".join(known)
    return questions


def write_bank(course: Path, student: bool) -> None:
    """Write bank.md in the tree's `course`, and let its front page name this page."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined,
        trim_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    lessons = {path.name[:2]: path.name for path in (DOCS / "lessons").glob("[0-9]*.md")}
    page = templates.get_template("bank.md.j2").render(
        questions=read_bank(), lessons=lessons, student=student
    )
    (course / "bank.md").write_text(page, encoding="utf-8")
    front = course / "README.md"
    text = front.read_text(encoding="utf-8").replace(f"({BANK.name})", "(bank.md)")
    front.write_text(text, encoding="utf-8")
