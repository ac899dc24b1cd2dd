# SPDX-License-Identifier: GPL-2.0-or-later
"""reports/reference/labs: the answers to the questions of docs/labs, of every variant.

Those of a student called `teacher` stand in the lab's teacher.md.

    python -m tests.docs.labs [N …]                # count the variants of these labs, or of all
    python -m tests.docs.labs N --from FOLDER      # take the runs below a folder instead
"""

import argparse
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

from runners.guest.kernels import DEFAULT
from runners.labs.figures import PATHS, CountedCell, lesions_of, read_run
from runners.labs.grading import KERNEL_RECORDED, recorded
from runners.labs.lab import BY_RUN, RECORDED, Lab, Truth, fill, labs, read_lab
from runners.process import REPOSITORY, RUN_SH

HEAD = """\
# The answers to the questions of docs/labs, of every variant: python -m tests.docs.labs
cell\tfigure\tvalue
"""
TEACHER = "teacher"
BLOCK = re.compile(r"^```text\n.*?^```", re.DOTALL | re.MULTILINE)


def asked(lab: Lab) -> Iterator[tuple[str, str]]:
    """Cell and figure of every question of some variant, and the call paths of what is counted."""
    for row in lab.data["questions"]:
        cells = [] if row.get("own") else [row.get("cell"), row.get("minus")]
        for wanted in filter(None, cells):
            both = f"{wanted}\t{row['figure']}"
            words = [word for word in lab.draws if re.search(rf"\b{word}\b", both)]
            for values in product(*(lab.draws[word] for word in words)):
                cell, _, figure = fill(both, dict(zip(words, values, strict=True))).partition("\t")
                yield cell, figure
                if row["part"] == BY_RUN and not lab.data.get("stored"):  # lesions have no tree
                    yield cell, PATHS


def answers(lab: Lab, cells: Iterable[CountedCell]) -> dict[tuple[str, str], Truth]:
    """The answer to each of these. Raises ValueError where no run has it, or runs differ."""
    found: dict[tuple[str, str], Truth] = {}
    cells = list(cells)
    for name, figure in sorted(set(asked(lab))):
        values = {cell.figure(figure) for cell in cells if cell.name == name} - {None}
        if len(values) != 1:
            raise ValueError(f"lab {lab.number}: {figure} of {name} is {values or 'in no run'}")
        found[name, figure] = values.pop() or 0
    kernels = {cell.kernel for cell in cells}
    # A lesion has the release alone, which is a part of the other cells' version.
    found[KERNEL_RECORDED] = max(kernels, key=len)
    if strange := [kernel for kernel in kernels if kernel not in str(found[KERNEL_RECORDED])]:
        raise ValueError(f"lab {lab.number}: runs of several kernels: {strange}")
    return found


def count(lab: Lab, folder: Path) -> None:
    """Run the lab's commands; each leaves a folder below `folder`."""
    for number, command in enumerate(lab.data["record"]):
        words = [*shlex.split(command), "--out", str(folder / str(number)), "--quiet"]
        subprocess.run([RUN_SH, *words], check=True)


def record(lab: Lab, folder: Path) -> None:
    """Write the lab's table of answers, from the runs below `folder` and from stored lesions."""
    runs = [read_run(path.parent) for path in sorted(folder.glob("**/run.json"))]
    cells = [cell for run in runs for cell in run.cells]
    if stored := lab.data.get("stored"):
        every = lesions_of(REPOSITORY / stored)
        cells += (cell for cell in every if cell.kernel.startswith(f"{DEFAULT}."))
    found = answers(lab, cells)
    lines = [f"{cell}\t{figure}\t{value}\n" for (cell, figure), value in found.items()]
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{lab.number}.tsv").write_text(HEAD + "".join(lines), encoding="utf-8")
    notes = lab.folder / "teacher.md"
    text = notes.read_text(encoding="utf-8")
    notes.write_text(BLOCK.sub(lambda _: f"```text\n{key(read_lab(lab.number))}```", text))


def key(lab: Lab) -> str:
    """The answers of the variant that the teacher's notes show."""
    questions = lab.questions(lab.variant(TEACHER))
    shown = [question for question in questions if not question.own]
    return "".join(f"{question.id:14}{recorded(lab, question)}\n" for question in shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", nargs="*", type=int, default=[*labs()])
    parser.add_argument("--from", dest="runs", type=Path)
    given = parser.parse_args()
    for lab in map(read_lab, given.number):
        if not set(asked(lab)):
            continue  # all of it is the student's own
        if given.runs:
            record(lab, given.runs)
        else:
            with tempfile.TemporaryDirectory() as folder:
                count(lab, Path(folder))
                record(lab, Path(folder))


if __name__ == "__main__":
    main()
