# SPDX-License-Identifier: GPL-2.0-or-later
"""Points for a student's folder, and what a class's folders have that they should not share."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from probes.messages import shown
from runners.labs.figures import CountedCell
from runners.labs.handed_in import HandedIn, read_folder
from runners.labs.lab import BY_RUN, PREDICTED, Answer, Lab, Question, Truth, truth_of
from runners.process import RunError, UsageError

LEAST_SHARED = 4  # predictions that are the same by more than chance
KERNEL_RECORDED = ("", "kernel")  # of a lab's recording: the version of the kernel that was counted

# How far two builds of the workload move a figure without any other call. A buffer lies in another
# page of its slab: kfree() and __check_object_size() then take six instructions more in a round
# trip (seen). And it is chance in which phase of the kernel's clocks the usual round trip is: 32
# between two that are common in one run (seen). What a lesion saves is of two round trips.
MOVED = {"instructions": 40, "steps": 40, "rest": 40, "saved": 80, "share": 1}


@dataclass(frozen=True)
class Mark:
    """What an answer is worth; `why` says why it is not worth all its points."""

    question: Question
    given: Answer | None
    truth: Truth
    share: float
    why: str = ""

    @property
    def points(self) -> float:
        """To a tenth, as the tables show them: their sums are what a reader adds up."""
        return round(self.share * self.question.points, 1)

    @property
    def is_full(self) -> bool:
        return self.points == self.question.points


@dataclass
class Grade:
    """A folder's marks and notes; `found` is None where the folder cannot be read."""

    folder: Path
    found: HandedIn | None
    marks: list[Mark] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def student(self) -> str:
        return self.found.student if self.found else self.folder.name

    def points(self, *parts: str) -> float:
        """The points of these parts, or of all."""
        marks = (m for m in self.marks if not parts or m.question.part in parts)
        return round(sum(mark.points for mark in marks), 1)


def grade(folder: Path) -> Grade:
    """Grade one folder by itself."""
    try:
        found = read_folder(folder)
    except UsageError as error:
        return Grade(folder, None, notes=[str(error)])
    marks = [mark(found, question) for question in found.questions]
    return Grade(folder, found, marks, [*found.faults, *_notes(found)])


def mark(found: HandedIn, question: Question) -> Mark:
    """What an answer is worth."""
    given, truths = found.answers[question.id], _truths(found, question)
    if not truths:
        return Mark(question, given, "", 0, _no_run(found, question))
    if given is None:
        return Mark(question, given, truths[0], 0, "no answer")
    if question.part == PREDICTED:
        if why := _not_before(found):
            return Mark(question, given, truths[0], 0, why)
        return Mark(question, given, truths[0], question.nearness(given, truths[0]))
    for truth in truths:
        if question.nearness(given, truth) == 1:
            return Mark(question, given, truth, 1)
    return Mark(question, given, truths[0], 0, question.hint)


def _truths(found: HandedIn, question: Question) -> list[Truth]:
    """What is right: a word, a recorded figure for a prediction, else what the runs here show."""
    if question.accept or (question.part == PREDICTED and not question.own):
        return [recorded(found.lab, question)]
    values = _shown(found, question.cell, question.figure)
    if question.minus:
        less = _shown(found, question.minus, question.figure)
        return [int(more) - int(fewer) for more, fewer in product(values, less)]
    return values


def _shown(found: HandedIn, name: str, figure: str) -> list[Truth]:
    """A figure of the runs here that are as recorded, each value once."""
    cells = [cell for cell in _counted(found, name) if not unlike(found.lab, cell)]
    values = dict.fromkeys(cell.figure(figure) for cell in cells)
    return [value for value in values if value is not None]


def _no_run(found: HandedIn, question: Question) -> str:
    """Why no run here shows an answer."""
    for name in filter(None, (question.cell, question.minus)):
        cells = _counted(found, name)
        if not cells:
            return f"no run here counts {name}"
        if all(unlike(found.lab, cell) for cell in cells):
            return f"the run of {name} here is not as it is recorded"
    return f"no run here has {question.figure} of {question.cell}"


def unlike(lab: Lab, cell: CountedCell) -> str:
    """How a run's cell differs from the recorded one by more than a phase; empty where not so."""
    for (name, figure), wanted in lab.recorded.items():
        if name == cell.name:
            value = cell.figure(figure)
            is_left_out = value is None and cell.lesions  # a student has some of all lesions
            if not is_left_out and not _is_phase(figure, value, wanted):
                return f"{value} for {figure} of {name}"
    return ""


def _is_phase(figure: str, value: Truth | None, wanted: Truth) -> bool:
    """Whether a phase can make one of these values of a figure the other."""
    if not isinstance(value, int) or not isinstance(wanted, int):
        return value == wanted
    return abs(value - wanted) <= MOVED.get(figure.partition(" ")[0], 0)


def recorded(lab: Lab, question: Question) -> Truth:
    """The answer to a question as it is recorded. Raises RunError where it is not."""
    if question.accept:
        return truth_of(question.accept[0])
    value = _looked_up(lab, question.cell, question.figure)
    if not question.minus:
        return value
    return int(value) - int(_looked_up(lab, question.minus, question.figure))


def _looked_up(lab: Lab, cell: str, figure: str) -> Truth:
    if (cell, figure) not in lab.recorded:
        again = f"python -m tests.docs.labs {lab.number}"
        raise RunError(
            f"lab {lab.number} has no recorded {figure} of {cell}: record it with {again}."
        )
    return lab.recorded[cell, figure]


def _not_before(found: HandedIn) -> str:
    """Why predictions are none; empty where they are."""
    if not found.sealed:
        return "the predictions are not sealed"
    if found.first_run and str(found.sealed.get("time")) > found.first_run:
        return "the predictions were sealed after the first run"
    return ""


def _counted(found: HandedIn, name: str) -> list[CountedCell]:
    """The cells of this name in all runs, of the kernel that is recorded."""
    return [
        cell
        for run in found.runs
        for cell in run.cells
        if cell.name == name and _is_recorded(found.lab, cell.kernel)
    ]


def _is_recorded(lab: Lab, kernel: str) -> bool:
    """Whether the recording is of this kernel; of a lab without one any kernel will do."""
    return kernel in str(lab.recorded.get(KERNEL_RECORDED, kernel))


def _notes(found: HandedIn) -> Iterator[str]:
    """What a teacher should know of the runs: another kernel, and figures that none counts."""
    kernels = {cell.kernel for run in found.runs for cell in run.cells}
    for kernel in sorted(kernel for kernel in kernels if not _is_recorded(found.lab, kernel)):
        yield f"counted on another kernel than is recorded: {shown(kernel)}"
    graded = [q for q in found.questions if q.part == BY_RUN and not q.own]
    for name in dict.fromkeys(name for q in graded for name in (q.cell, q.minus) if name):
        for cell in _counted(found, name):
            if what := unlike(found.lab, cell):
                yield f"not as recorded: a run has {what}; another build, or tampered with"


def compare(grades: Sequence[Grade]) -> None:
    """Note what the folders of a class share: a student, a run, predictions."""
    marks: dict[tuple[str, str], list[Grade]] = defaultdict(list)
    for each in grades:
        found = each.found
        if found is None:
            continue
        lab = str(found.lab.number)
        marks["the student", f"{lab} {found.student}"].append(each)
        for run in filter(lambda run: run.mark, found.runs):
            marks["a run", run.mark].append(each)
        if len(found.predictions) >= LEAST_SHARED:
            predictions = f"{lab} {sorted(found.predictions.items())}"
            marks["all predictions", predictions].append(each)
    for (what, _), sharing in marks.items():
        for each in sharing:
            others = sorted({str(other.folder) for other in sharing} - {str(each.folder)})
            note = f"copied: {what} also in {', '.join(others)}"
            if others and note not in each.notes:
                each.notes.append(note)
