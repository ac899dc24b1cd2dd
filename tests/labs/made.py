# SPDX-License-Identifier: GPL-2.0-or-later
"""Students' folders as a class would hand them in, made of the recorded answers, without a boot.

A made-up run has call trees of one line for each figure that the lab asks for.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from runners.cli import main
from runners.labs.figures import PATHS, CountedCell, read_tree
from runners.labs.grading import KERNEL_RECORDED
from runners.labs.handed_in import ANSWERS, HandedIn, read_folder, seal
from runners.labs.lab import BY_RUN, PREDICTED, Answer, Lab, Question, Truth, read_lab

NUMBERS = count(1)


def started(above: Path, student: str, lab: int = 1) -> Path:
    """A new folder of `lab start`."""
    folder = above / student
    assert main(["lab", "start", str(lab), "--student", student, "--out", str(folder)]) == 0
    return folder


def truth(lab: Lab, question: Question) -> Truth:
    if question.accept:
        return question.accept[0]
    return lab.recorded[question.cell, question.figure]


def write_answers(folder: Path, changed: Mapping[str, Answer] | None = None) -> None:
    """All answers right, but for these; predictions are off, for each student otherwise."""
    found, rows = read_folder(folder), {PREDICTED: "", BY_RUN: ""}
    for question in found.questions:
        answer: Answer = truth(found.lab, question)
        if question.part == PREDICTED and isinstance(answer, int):
            answer = round(answer * 1.1) + len(found.student) + sum(found.student.encode())
        answer = (changed or {}).get(question.id, answer)
        rows[question.part] += f"{question.id} = {json.dumps(answer)}\n"
    text = "".join(f"[{part}]\n{lines}\n" for part, lines in rows.items())
    (folder / ANSWERS).write_text(text, encoding="utf-8")


def tree(figures: Mapping[str, Truth], change: int = 0, called: int = 1) -> str:
    """A call tree that has these figures of lab 1; every function stands for itself."""
    values = {what: value for what, value in figures.items() if isinstance(value, int)}
    own = {w.split()[1]: n for w, n in values.items() if w.startswith("instructions ")}
    whole = own.pop("do_syscall_64") + change
    written = 0
    for what, share in values.items():
        if what.startswith("share "):  # of ksys_write
            part = own.setdefault(what.split()[1], share * 10)
            written = round(100 * part / share)
    rest = values.get("rest do_syscall_64 ksys_write ksys_read", 0)
    rows = [
        ("do_syscall_64", 0, rest),
        ("do_syscall_64;ksys_read", 0, whole - rest - written),
        ("do_syscall_64;ksys_write", values.get("steps ksys_write", 0), written),
        *((name, 0, instructions) for name, instructions in own.items()),
    ]
    rows += [(f"f{n}", 0, 0) for n in range(values.get("functions", 0) - len(rows))]
    lines = [f"{path}\t{called}\t{steps}\t{number}\n" for path, steps, number in rows]
    return "path\tcalls\tsteps\tinstructions\n" + "".join(lines)


def recorded_of(lab: Lab, name: str) -> dict[str, Truth]:
    """Every recorded figure of a cell."""
    return {figure: value for (cell, figure), value in lab.recorded.items() if cell == name}


def record_made_up(above: Path) -> None:
    """Write lab 1's recording to `above`, its cells' call paths those of a made-up tree."""
    lab, head = read_lab(1), "cell\tfigure\tvalue\n"
    rows = []
    for (cell, figure), value in lab.recorded.items():
        if figure == PATHS:
            spans = tuple(read_tree(tree(recorded_of(lab, cell))))
            value = CountedCell(cell, "", spans).figure(PATHS) or ""
        rows.append(f"{cell}\t{figure}\t{value}\n")
    (above / "1.tsv").write_text(head + "".join(rows), encoding="utf-8")


def add_run(
    folder: Path,
    names: Iterable[str],
    kernel: str = "",
    change: int = 0,
    called: int = 1,
    began: str = "2027",
) -> Path:
    """A run of these cells, as exact mode leaves it; `change` is added to its instructions."""
    found = read_folder(folder)
    number = next(NUMBERS)
    run = folder / f"run-{number}"
    target = run / "raw/exact-made-up"
    (target / "tree").mkdir(parents=True)
    manifest = {"started": f"{began}-01-01T00:00:00+00:00", "seconds_by_step": {"count": number}}
    (run / "run.json").write_text(json.dumps(manifest))
    version = kernel or str(found.lab.recorded[KERNEL_RECORDED])
    (target / "environment.json").write_text(json.dumps({"version": version}))
    cells = []
    for identity, name in enumerate(names, 1):
        transport, size, *knob = name.split()
        cell: dict[str, Any] = {"id": identity, "transport": transport, "size": int(size)}
        cell |= {"error": None, "sched": "fifo", "pattern": "pingpong", "placement": "same-cpu"}
        cell["knob"] = {"name": knob[0]} if knob else None
        cells.append(json.dumps(cell))
        figures = recorded_of(found.lab, name)
        (target / "tree" / f"{identity}.tsv").write_text(tree(figures, change, called))
    (target / "cells.jsonl").write_text("\n".join(cells) + "\n")
    return run


def cells_of(found: HandedIn) -> list[str]:
    return sorted({question.cell for question in found.questions if question.cell})


def done(above: Path, student: str, changed: Mapping[str, Answer] | None = None) -> Path:
    """A folder that is sealed, counted and filled in."""
    folder = started(above, student)
    write_answers(folder, changed)
    seal(read_folder(folder))
    add_run(folder, cells_of(read_folder(folder)))
    return folder
