# SPDX-License-Identifier: GPL-2.0-or-later
"""A student's folder: what `lab start` makes, and reading what comes back, of which nothing runs.

lab.json       the lab, the student, the variant; and the predictions once they are sealed
handout.md     the handout, with the student's own values
answers.toml   what the student fills in
…/run.json     a run's folder, directly below: made by the commands of the handout
"""

import datetime
import hashlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probes.contract import MANIFEST, SERIES
from probes.files import read_toml
from probes.messages import PROGRAM, shown
from runners.labs.figures import LESIONS, FoundRun, read_json, read_own, read_run
from runners.labs.lab import (
    BY_RUN,
    HANDOUT,
    PREDICTED,
    STUDENT,
    Answer,
    Lab,
    Question,
    answer_of,
    fill,
    read_lab,
)
from runners.process import UsageError

LAB_FILE, ANSWERS = "lab.json", "answers.toml"
LAB_FORMAT = 1
MOST_RUNS = 40


class FolderError(UsageError):
    """A folder is no student's folder of a lab."""


@dataclass
class HandedIn:
    """A student's folder. `faults` are what is wrong with it, a sentence each."""

    folder: Path
    lab: Lab
    student: str
    variant: Mapping[str, str]
    questions: list[Question]
    answers: Mapping[str, Answer | None]
    sealed: Mapping[str, Any] | None
    runs: list[FoundRun] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def predictions(self) -> dict[str, Answer]:
        """The predictions that are written down."""
        asked = [question.id for question in self.questions if question.part == PREDICTED]
        return {name: given for name in asked if (given := self.answers[name]) is not None}

    @property
    def is_complete(self) -> bool:
        """Whether every prediction is written down."""
        return len(self.predictions) == sum(q.part == PREDICTED for q in self.questions)

    @property
    def first_run(self) -> str:
        """When the first run began; empty where there is none."""
        return min((run.started for run in self.runs), default="")


def files_of(lab: Lab, student: str, folder: Path) -> dict[str, str]:
    """The files of a new folder: name → text."""
    variant = lab.variant(student)
    begun = {"format": LAB_FORMAT, "lab": lab.number, "student": student, "variant": variant}
    handout = (lab.folder / HANDOUT).read_text(encoding="utf-8")
    words = {**variant, "LAB": shlex.quote(str(folder))}
    return {
        LAB_FILE: json.dumps(begun | {"sealed": None}, indent=1) + "\n",
        HANDOUT: fill(handout, words),
        ANSWERS: template(lab, student, folder),
    }


def template(lab: Lab, student: str, folder: Path) -> str:
    """The file of answers, to be filled in."""
    lines = [f"# Lab {lab.number}, {lab.title}, of {student}. Numbers and words in quotes."]
    for part in (PREDICTED, BY_RUN):
        lines += ["", f"[{part}]"]
        if part == PREDICTED:
            lines.append(f"# Before you run anything. Then: {PROGRAM} lab check {folder}")
        for question in lab.questions(lab.variant(student)):
            if question.part == part:
                lines += ["", f"# {question.points:g} of 10 points: {question.ask}"]
                if question.scale:
                    lines.append(f"# One of: {', '.join(sorted(question.scale))}")
                lines.append(f'{question.id} = ""')
    return "\n".join(lines) + "\n"


def read_folder(folder: Path) -> HandedIn:
    """Read a student's folder. Raises FolderError where it is none."""
    path = folder / LAB_FILE
    try:
        begun = read_json(path, folder)
    except FileNotFoundError:
        raise FolderError(f"{folder} is no folder of lab start: it has no {LAB_FILE}.") from None
    except OSError as error:
        raise FolderError(f"{path} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise FolderError(f"{path} cannot be read ({error}).") from None
    form = begun.get("format") if isinstance(begun, dict) else None
    if form != LAB_FORMAT or not STUDENT.fullmatch(str(begun.get("student"))):
        raise FolderError(f"{path} is none that lab start has made: start the lab again.")
    lab, student = read_lab(begun.get("lab")), str(begun["student"])
    variant = lab.variant(student)
    questions = lab.questions(variant)
    sealed = begun.get("sealed")
    found = HandedIn(
        folder,
        lab,
        student,
        variant,
        questions,
        _answers(folder / ANSWERS, questions),
        sealed if isinstance(sealed, dict) else None,
    )
    if begun.get("variant") != variant:
        found.faults.append(f"tampered with: the values of {LAB_FILE} are not those of {student}")
    _read_runs(found)
    _check_seal(found)
    return found


def _answers(path: Path, questions: list[Question]) -> dict[str, Answer | None]:
    """Question → what is written down. Raises FolderError."""
    if path.is_symlink():
        raise FolderError(f"{path} is a link: hand in the file itself.")
    try:
        given = read_toml(path)
    except UsageError as error:
        raise FolderError(str(error)) from None
    parts = {part: given.get(part) for part in (PREDICTED, BY_RUN)}
    if not all(isinstance(part, dict) for part in parts.values()):
        lines = " and ".join(f"[{part}]" for part in parts)
        raise FolderError(f"{path} lacks the lines {lines}: take them from the template.")
    return {q.id: answer_of((parts[q.part] or {}).get(q.id)) for q in questions}


def _read_runs(found: HandedIn) -> None:
    """Read every run; one that cannot be read is a fault."""
    for place in list(_places(found))[:MOST_RUNS]:
        try:
            found.runs.append(read_run(place))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            name = place.relative_to(found.folder)
            found.faults.append(f"the run {shown(str(name))} cannot be read ({why})")


def _places(found: HandedIn) -> Iterator[Path]:
    """The folders of runs below a student's, and of the two of a gate. A link is a fault."""
    for entry in sorted(os.scandir(found.folder), key=lambda entry: entry.name):
        if entry.is_symlink():
            found.faults.append(f"tampered with: {shown(entry.name)} is a link")
        elif entry.is_dir(follow_symlinks=False):
            path = Path(entry.path)
            steps = sorted(path.iterdir()) if (path / SERIES).exists() else []
            for place in (path, *steps):
                left = any((place / name).exists() for name in (MANIFEST, LESIONS))
                if left and not place.is_symlink():
                    yield place


def seal(found: HandedIn) -> None:
    """Keep the predictions as they are now. Raises OSError."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    sealed: dict[str, Any] = {"time": now, "predictions": found.predictions}
    sealed["digest"] = _digest(found.student, sealed)
    begun = json.loads(read_own(found.folder / LAB_FILE, found.folder)) | {"sealed": sealed}
    new = found.folder / f".{LAB_FILE}"
    new.write_text(json.dumps(begun, indent=1) + "\n", encoding="utf-8")
    new.replace(found.folder / LAB_FILE)
    found.sealed = sealed


def _digest(student: str, sealed: Mapping[str, Any]) -> str:
    words = json.dumps([student, sealed.get("time"), sealed.get("predictions")], sort_keys=True)
    return hashlib.sha256(words.encode()).hexdigest()


def _check_seal(found: HandedIn) -> None:
    if not found.sealed:
        return
    if found.sealed.get("digest") != _digest(found.student, found.sealed):
        found.faults.append("tampered with: the sealed predictions are not as lab check left them")
    elif found.sealed.get("predictions") != found.predictions:
        found.faults.append("tampered with: the predictions are not those that were sealed")
