# SPDX-License-Identifier: GPL-2.0-or-later
"""Grades as a table, as CSV, as KTAP, for Classroom 50 and for Gradescope."""

import csv
import datetime
import json
import os
from collections.abc import Iterator, Sequence
from io import StringIO
from typing import Any

from runners.labs.grading import Grade
from runners.labs.lab import BY_RUN, PREDICTED

TENTHS = 10  # Classroom 50 takes whole numbers only
MOST = 10  # points of a lab
# classroom50/result/v1: what its runner gives an autograder (in its environment), and else.
IDENTITY = {
    "classroom": ("CLASSROOM", "pathcost"),
    "assignment": ("ASSIGNMENT", "lab-{lab}"),
    "assignment_type": ("ASSIGNMENT_TYPE", "individual"),
    "owner": ("OWNER", "{student}"),
    "submission": ("SUBMISSION_TAG", "submit/{now}"),
    "commit": ("COMMIT_URL", "none"),
    "release": ("RELEASE_URL", "none"),
    "review": ("REVIEW_URL", "none"),
}


def table(grades: Sequence[Grade]) -> str:
    """For a terminal: a line for each folder, its notes below it."""
    width = max(len(each.student) for each in grades)
    lines = [f"{'student':{width}}  predicted  measured  points"]
    for each in grades:
        points = each.points(PREDICTED), each.points(BY_RUN), each.points()
        lines.append("{:{}}  {:9.1f}  {:8.1f}  {:6.1f}".format(each.student, width, *points))
        lines += [f"{'':{width}}  {note}" for note in each.notes]
    return "\n".join(lines) + "\n"


def table_csv(grades: Sequence[Grade]) -> str:
    """A line for each folder."""
    text = StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["student", "folder", "lab", "predicted", "measured", "points", "notes"])
    for each in grades:
        lab = each.found.lab.number if each.found else ""
        points = each.points(PREDICTED), each.points(BY_RUN), each.points()
        words = each.student, str(each.folder), "; ".join(each.notes)
        student, folder, notes = (_harmless(word) for word in words)
        out.writerow([student, folder, lab, *points, notes])
    return text.getvalue()


def answers_csv(grades: Sequence[Grade]) -> str:
    """A line for each answer, with the recorded one: for the teacher."""
    text = StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["student", "question", "part", "given", "answer", "points", "of", "why"])
    for each in grades:
        for mark in each.marks:
            row = [each.student, mark.question.id, mark.question.part, mark.given, mark.truth]
            row += [mark.points, mark.question.points, mark.why]
            out.writerow([_harmless(word) if isinstance(word, str) else word for word in row])
    return text.getvalue()


def _harmless(word: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{word}" if word[:1] in ("=", "+", "-", "@", "\t", "\r") else word


def ktap(grades: Sequence[Grade]) -> str:
    """KTAP version 1: a test for each folder, its questions below it."""
    lines = ["KTAP version 1", f"1..{len(grades)}"]
    for number, each in enumerate(grades, 1):
        lines += [f"  {line}" for line in _questions(each)]
        is_full = bool(each.marks) and not each.notes and all(mark.is_full for mark in each.marks)
        said = f"{_result(is_full)} {number} {each.student}: {each.points():g} of {MOST}"
        lines += [said, *(f"# {note}" for note in each.notes)]
    return "\n".join(lines) + "\n"


def _questions(each: Grade) -> Iterator[str]:
    yield "KTAP version 1"
    yield f"1..{len(each.marks)}"
    for number, mark in enumerate(each.marks, 1):
        points = f"{mark.points:g} of {mark.question.points:g}"
        yield f"{_result(mark.is_full)} {number} {mark.question.id}: {points}"


def _result(is_full: bool) -> str:
    return "ok" if is_full else "not ok"


def classroom50(each: Grade) -> dict[str, Any]:
    """result.json of Classroom 50 (classroom50/result/v1): points in tenths."""
    now = datetime.datetime.now(datetime.UTC)
    lab = each.found.lab.number if each.found else 0
    words = {"lab": lab, "student": each.student, "now": f"{now:%Y-%m-%dT%H-%M-%SZ}"}
    identity = {
        name: os.environ.get(variable) or usual.format(**words)
        for name, (variable, usual) in IDENTITY.items()
    }
    tests = [
        {
            "test-name": mark.question.id,
            "passed": mark.is_full,
            "score": round(TENTHS * mark.points),
            "max-score": round(TENTHS * mark.question.points),
            "message": mark.why,
        }
        for mark in each.marks
    ]
    return {
        "schema": "classroom50/result/v1",
        **identity,
        "datetime": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "score": round(TENTHS * each.points()),
        "max-score": TENTHS * MOST,
        "tests": tests,
    }


def gradescope(each: Grade) -> dict[str, Any]:
    """results.json of Gradescope: why points are missing, and never the answer."""
    tests = [
        {
            "name": mark.question.id,
            "score": mark.points,
            "max_score": mark.question.points,
            "output": mark.why,
        }
        for mark in each.marks
    ]
    return {"score": each.points(), "output": "\n".join(each.notes), "tests": tests}


def written(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
