# SPDX-License-Identifier: GPL-2.0-or-later
"""Each lab of docs/labs: its points, its variants, its recorded answers, and its commands, run."""

import re
import shlex
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from runners.cli import main, parse
from runners.labs.figures import CountedCell
from runners.labs.grading import KERNEL_RECORDED, unlike
from runners.labs.handed_in import HandedIn, read_folder
from runners.labs.lab import HANDOUT, PREDICTED, labs, read_lab
from runners.process import RUN_SH
from tests.docs.labs import TEACHER, asked, key

FENCE = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
NUMBERS = [*labs()]


@pytest.mark.parametrize("number", NUMBERS)
def test_half_of_ten_points_are_predictions(number: int) -> None:
    lab = read_lab(number)
    questions = lab.questions(lab.variant(TEACHER))
    assert len({question.id for question in questions}) == len(questions)
    for is_predicted in (True, False):
        part = [q.points for q in questions if (q.part == PREDICTED) == is_predicted]
        assert sum(part) == pytest.approx(5)
    assert all(question.hint for question in questions if question.part != PREDICTED)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_variant_has_its_answers(number: int) -> None:
    lab = read_lab(number)
    assert set(asked(lab)) <= set(lab.recorded)
    if lab.recorded:
        assert key(lab) in (lab.folder / "teacher.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", NUMBERS)
def test_two_of_a_class_rarely_share_all_values(number: int) -> None:
    lab = read_lab(number)
    drawn = [lab.variant(f"student{n}") for n in range(300)]
    same = sum(one == other for one, other in combinations(drawn, 2))
    assert same <= 45  # of 44,850 pairs: of a class of 30 less than one pair in two classes


@pytest.mark.parametrize("number", NUMBERS)
def test_a_handout_has_no_word_that_is_drawn_left(number: int, tmp_path: Path) -> None:
    for student in ("ada", "bob", TEACHER):
        folder = tmp_path / student
        words = ["lab", "start", str(number), "--student", student, "--out", str(folder)]
        assert main(words) == 0
        text = (folder / HANDOUT).read_text(encoding="utf-8")
        for word in (*read_lab(number).draws, "LAB"):
            assert not re.search(rf"\b{word}\b", text)
        for command in commands(folder):
            if command.startswith("./runners/run.sh") and " | " not in command and not own(command):
                parse(shlex.split(command.partition(" || ")[0])[1:])


def commands(folder: Path) -> list[str]:
    """The commands of a student's handout, in their order."""
    text = (folder / HANDOUT).read_text(encoding="utf-8")
    return [line for block in FENCE.findall(text) for line in block.splitlines()]


def own(command: str) -> bool:
    """Whether a command needs the probe that the student writes."""
    return re.search(r"\bmine\b|run-proof", command) is not None


def counted(found: HandedIn) -> dict[str, list[CountedCell]]:
    cells: dict[str, list[CountedCell]] = {}
    for run in found.runs:
        for cell in run.cells:
            cells.setdefault(cell.name, []).append(cell)
    return cells


@pytest.mark.emulated
@pytest.mark.parametrize(
    "number", [1, *(pytest.param(number, marks=pytest.mark.matrix) for number in NUMBERS[1:])]
)
def test_the_commands_of_a_lab_give_what_is_recorded(number: int, tmp_path: Path) -> None:
    """By the handout alone: each command does what it says, and no count is of another path."""
    folder, lab = tmp_path / "lab", read_lab(number)
    assert main(["lab", "start", str(number), "--student", TEACHER, "--out", str(folder)]) == 0
    for command in commands(folder):
        if "lab check" not in command and not own(command):
            done = subprocess.run(["bash", "-c", command], cwd=RUN_SH.parents[1], check=False)
            assert done.returncode == 0, command
    found = read_folder(folder)
    cells = counted(found)
    kernels = {cell.kernel for own in cells.values() for cell in own}
    if any(kernel not in str(lab.recorded.get(KERNEL_RECORDED, kernel)) for kernel in kernels):
        pytest.skip("the recorded answers are of another kernel: python -m tests.docs.labs")
    for question in found.questions:
        is_proof = number == 3 and question.cell in ("unix 64", "tcp 64")  # by the own probe
        if question.cell and not question.own and not is_proof:
            assert [unlike(lab, cell) for cell in cells[question.cell]] == [""], question.id
