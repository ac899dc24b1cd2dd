# SPDX-License-Identifier: GPL-2.0-or-later
"""The student's edition of the course: docs/build.sh --student sets Sphinx's tag `student`.

What a student is to find out is found by a page's structure, so no page marks it: what a command
of a transcript printed, the sections of SOLVED, and each answer. A browser shows them folded, and
print leaves them out (static/course.css), but has lines to write on below the sections of WRITTEN.
"""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

STUDENT = "student"
COURSE = ("docs/lessons/", "docs/labs/", "docs/course/")
SLIDES = "docs/course/slides/"  # docs/build.sh slides shows them
SOLVED = {"Read", "Explain"}
WRITTEN = {"Predict", "Exercise"}
ANSWER = "<details><summary>Answer</summary>"
PROMPT = "$ "
FOLD = '<details class="fold"><summary>{}</summary>'


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_css_file("course.css")
    app.connect("config-inited", _name)
    app.connect("doctree-read", _fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def is_teachers(page: str) -> bool:
    """Whether a page, by its path with or without a suffix, is for teachers alone."""
    return page.startswith(COURSE) and Path(page).stem == "teacher"


def left_out(app: Sphinx, page: str) -> bool:
    """Whether the edition has no such page."""
    return page.startswith(SLIDES) or (app.tags.has(STUDENT) and is_teachers(page))


def _name(app: Sphinx, config: Config) -> None:
    if app.tags.has(STUDENT):
        config.html_title = f"{config.project}, the student's edition"


def _fold(app: Sphinx, page: nodes.document) -> None:
    if not app.tags.has(STUDENT) or not app.env.docname.startswith(COURSE):
        return
    for part in list(page.findall(nodes.section)):
        title = part.next_node(nodes.title)
        name = title.astext() if title else ""
        if name in WRITTEN:
            part["classes"].append("written")
        if name in SOLVED:
            part["classes"].append("fold")
            part[1:] = _folded("Open this after your run", part[1:])
    for block in list(page.findall(nodes.literal_block)):
        if block.get("language") == "console":
            _fold_transcript(block)
    for mark in list(page.findall(nodes.raw)):
        if mark.astext().strip() == ANSWER:
            mark.replace_self(nodes.raw("", FOLD.format("Answer"), format="html"))


def _fold_transcript(block: nodes.literal_block) -> None:
    """Show the commands alone, and below them the transcript, folded."""
    lines = block.astext().splitlines()
    commands = "\n".join(line for line in lines if line.startswith(PROMPT))
    if len(lines) > commands.count("\n") + 1:
        shown = nodes.literal_block(commands, commands, language="console")
        block.replace_self([shown, *_folded("What it printed here", [block.deepcopy()])])


def _folded(summary: str, parts: list[nodes.Node]) -> list[nodes.Node]:
    before = nodes.raw("", FOLD.format(summary), format="html")
    return [before, *parts, nodes.raw("", "</details>", format="html")]
