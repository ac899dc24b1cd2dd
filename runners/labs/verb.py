# SPDX-License-Identifier: GPL-2.0-or-later
"""The verb `lab`: start a lab, check what is done, grade the folders of a class."""

from collections.abc import Callable, Mapping
from pathlib import Path

from probes.contract import Status
from probes.messages import PROGRAM, failure, shown
from runners.labs import forms
from runners.labs.grading import Grade, compare, grade, mark
from runners.labs.handed_in import HandedIn, files_of, read_folder, seal
from runners.labs.lab import BY_RUN, PREDICTED, STUDENT, read_lab
from runners.options import LabOptions
from runners.process import RunError, UsageError
from runners.store.folders import publish, scratch

SHOWN: Mapping[str | None, Callable[[list[Grade]], str]] = {
    None: forms.table,
    "csv": forms.table_csv,
    "ktap": forms.ktap,
}


def lab(options: LabOptions) -> int:
    """Start, check or grade: the exit status. Raises UsageError, RunError."""
    action, *rest = options.words
    if action not in ACTIONS:
        raise UsageError(f"unknown word {shown(action)}: lab does {', '.join(ACTIONS)}.")
    if options.student and action != "start":
        raise UsageError(f"--student has no effect on lab {action}: lab.json names the student.")
    if options.show and action != "grade":
        raise UsageError(f"--{options.show} has no effect: it needs lab grade.")
    if options.out and action == "check":
        raise UsageError("--out has no effect on lab check, which writes beside the answers.")
    try:
        return ACTIONS[action](rest, options)
    except OSError as error:
        raise RunError(failure(error)) from error


def start(words: list[str], options: LabOptions) -> int:
    """Make a student's folder, whole or not at all."""
    if len(words) != 1:
        raise UsageError(f"lab start takes one number: {PROGRAM} lab start 1 --student ID.")
    started, student = read_lab(words[0]), options.student
    if not student or not STUDENT.fullmatch(student):
        raise UsageError(
            f"--student {shown(student or '')} is no ID: 1 to 64 letters, digits and _ . @ + -, "
            "of which a letter, digit or _ comes first."
        )
    folder = options.out or Path(f"lab-{started.number}-{student}")
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is there already: name another folder with --out.")
    above = folder.absolute().parent
    if not above.is_dir():
        raise UsageError(f"{folder} cannot be made, as {above} is not a folder.")
    with scratch() as temporary:
        made = temporary.folder(above, f".{folder.name}")
        for name, text in files_of(started, student, folder).items():
            (made / name).write_text(text, encoding="utf-8")
        publish(made)
        made.rename(folder)
    print(f"{folder}: read handout.md, and predict in answers.toml before you run anything.")
    return Status.DONE


def check(words: list[str], options: LabOptions) -> int:
    """Seal the predictions once all are there, and say which answers hold."""
    if len(words) != 1:
        raise UsageError(f"lab check takes one folder: {PROGRAM} lab check FOLDER.")
    found = read_folder(Path(words[0]))
    if not found.sealed and found.is_complete:
        seal(found)
        late = ", after the first run: they have no points" if found.runs else ""
        print(f"The predictions are sealed{late}.")
    elif not found.sealed:
        print("The predictions are not complete: once they are, lab check seals them.")
    for fault in found.faults:
        print(f"{fault}.")
    return Status.FAILED if _say_what_holds(found) or found.faults else Status.DONE


def _say_what_holds(found: HandedIn) -> int:
    """Print a line for each answer that was measured; how many do not hold."""
    marks = [mark(found, question) for question in found.questions if question.part == BY_RUN]
    for each in marks:
        said = "holds" if each.is_full else f"does not hold: {each.why}"
        print(f"{each.question.id}: {said}")
    missing = sum(q.part == PREDICTED for q in found.questions) - len(found.predictions)
    return missing + sum(not each.is_full for each in marks)


def grade_class(words: list[str], options: LabOptions) -> int:
    """Grade the folders of a class; where one cannot be read, that is its note, and status 1."""
    if not words:
        raise UsageError(f"lab grade takes folders: {PROGRAM} lab grade lab-1-*.")
    folders = [Path(word) for word in dict.fromkeys(words)]
    if absent := next((path for path in folders if not path.is_dir()), None):
        raise UsageError(f"{absent} is no folder: name those that lab start has made.")
    out = options.out
    if out and (out.exists() or out.is_symlink()):
        raise UsageError(f"--out {out} is there already: name a new folder.")
    grades = [grade(path) for path in folders]
    compare(grades)
    if out:
        _write(out, grades)
    print(SHOWN[options.show](grades), end="")
    return Status.DONE if all(each.found for each in grades) else Status.FAILED


def _write(out: Path, grades: list[Grade]) -> None:
    """All forms: of the class, and for each folder what its grading service reads."""
    with scratch() as temporary:
        made = temporary.folder(out.absolute().parent, f".{out.name}")
        (made / "grades.csv").write_text(forms.table_csv(grades), encoding="utf-8")
        (made / "answers.csv").write_text(forms.answers_csv(grades), encoding="utf-8")
        (made / "grades.ktap").write_text(forms.ktap(grades), encoding="utf-8")
        for number, each in enumerate(grades, 1):
            name = each.student if STUDENT.fullmatch(each.student) else "unknown"
            own = made / f"{number:02}-{name}"
            own.mkdir()
            result, results = forms.classroom50(each), forms.gradescope(each)
            (own / "result.json").write_text(forms.written(result), encoding="utf-8")
            (own / "results.json").write_text(forms.written(results), encoding="utf-8")
        publish(made)
        made.rename(out)


ACTIONS: Mapping[str, Callable[[list[str], LabOptions], int]] = {
    "start": start,
    "check": check,
    "grade": grade_class,
}
