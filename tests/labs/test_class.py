# SPDX-License-Identifier: GPL-2.0-or-later
"""A class of thirty: every planted mistake, copy and trick is found, and nobody else is accused."""

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from runners.cli import main
from runners.labs.grading import Grade, compare, grade
from runners.labs.handed_in import ANSWERS, LAB_FILE, read_folder, seal
from runners.labs.lab import PREDICTED, Answer, read_lab
from runners.process import UsageError
from tests.labs.made import add_run, cells_of, done, record_made_up, started, write_answers

PLANTED: dict[str, Answer] = {
    "unix_total": 15000,
    "unix_rest": "",
    "unix_steps": "4,221",
    "tcp_total": 29022.5,
    "tcp_steps": -1,
    "function2": "many",
    "knob": 15434,
    "parting": "vfs_write",
    "waker": "sock_def_readable",
    "receiver": "read",
}
OTHER = "Linux version 6.12.1-made-up"


@pytest.fixture(scope="module", autouse=True)
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A recording whose call paths a made-up run can have."""
    made = tmp_path_factory.mktemp("recording")
    record_made_up(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runners.labs.lab.RECORDED", made)
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Thirty folders: 14 without a fault, and 16 with one each."""
    above = tmp_path_factory.mktemp("class")
    made = {name: done(above, name) for name in [f"good{n}" for n in range(14)]}
    for question, wrong in PLANTED.items():
        made[question] = done(above, question, {question: wrong})
    for name in ("copy1", "copy2"):  # of good0's folder, and of good1's run
        made[name] = done(above, name)
    shutil.rmtree(made["copy1"])
    shutil.copytree(made["good0"], made["copy1"])
    [run] = made["good1"].glob("run-*")
    shutil.copytree(run, made["copy2"] / "run-of-another")
    made["tampered"] = started(above, "tampered")
    write_answers(made["tampered"])
    seal(read_folder(made["tampered"]))
    add_run(made["tampered"], cells_of(read_folder(made["tampered"])), change=1000)
    made["empty"] = above / "empty"
    made["empty"].mkdir()
    made["kernel"] = started(above, "kernel")
    write_answers(made["kernel"])
    seal(read_folder(made["kernel"]))
    add_run(made["kernel"], cells_of(read_folder(made["kernel"])), kernel=OTHER)
    made["late"] = started(above, "late")
    write_answers(made["late"])
    add_run(made["late"], cells_of(read_folder(made["late"])), began="2025")
    seal(read_folder(made["late"]))
    return made


@pytest.fixture(scope="module")
def grades(folders: dict[str, Path]) -> dict[str, Grade]:
    graded = {name: grade(folder) for name, folder in folders.items()}
    compare([*graded.values()])
    return graded


def test_thirty_folders(folders: dict[str, Path]) -> None:
    assert len(folders) == 30


def test_who_did_all_has_all_that_is_measured_and_no_note(grades: dict[str, Grade]) -> None:
    for n in range(2, 14):
        each = grades[f"good{n}"]
        assert (each.points("measured"), each.notes) == (5.0, [])
        assert 2 < each.points(PREDICTED) < 5


@pytest.mark.parametrize("question", PLANTED)
def test_a_planted_mistake_costs_its_question(grades: dict[str, Grade], question: str) -> None:
    wrong = [mark for mark in grades[question].marks if not mark.is_full]
    assert [m.question.id for m in wrong if m.question.part != PREDICTED] == [question]


def test_copies_are_told_from_each_side(grades: dict[str, Grade]) -> None:
    for name, other, what in (
        ("copy1", "good0", "a run"),
        ("good0", "copy1", "all predictions"),
        ("copy2", "good1", "a run"),
        ("good1", "copy2", "a run"),
    ):
        assert any(
            note.startswith(f"copied: {what} ") and note.endswith(f"/{other}")
            for note in grades[name].notes
        )


def test_tricks_are_told(grades: dict[str, Grade]) -> None:
    assert any(note.startswith("not as recorded: a run has") for note in grades["tampered"].notes)
    assert grades["tampered"].points("measured") == 1.5  # names of functions alone
    assert any(OTHER in note for note in grades["kernel"].notes)
    assert grades["kernel"].points("measured") == 1.5  # names of functions alone
    assert grades["empty"].found is None
    assert grades["late"].points(PREDICTED) == 0


def test_every_form_has_every_folder(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "grades"
    words = ["lab", "grade", *map(str, folders.values())]
    assert main([*words, "--out", str(out)]) == 1  # the empty one
    table = capsys.readouterr().out
    assert "tampered with" in table.partition("\ntampered ")[2].partition("\nempty ")[0]
    with (out / "grades.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["folder"] for row in rows] == [str(folder) for folder in folders.values()]
    ktap = (out / "grades.ktap").read_text()
    assert ktap.startswith("KTAP version 1\n1..30\n")
    assert len([line for line in ktap.splitlines() if line[:3] in ("ok ", "not")]) == 30
    for row, own in zip(rows, sorted(out.glob("[0-9]*")), strict=True):
        result = json.loads((own / "result.json").read_text())
        results = json.loads((own / "results.json").read_text())
        assert result["score"] == round(10 * float(row["points"])) <= result["max-score"] == 100
        assert sum(test["score"] for test in result["tests"]) == result["score"]
        assert results["score"] == pytest.approx(sum(t["score"] for t in results["tests"]))


def test_classroom50_takes_our_result(grades: dict[str, Grade]) -> None:
    """The fields of classroom50/result/v1, and no other at the top."""
    from runners.labs.forms import classroom50

    result = classroom50(grades["good2"])
    assert set(result) == {
        *("schema", "classroom", "assignment", "assignment_type", "owner", "submission"),
        *("commit", "release", "review", "datetime", "score", "max-score", "tests"),
    }
    assert result["submission"].startswith("submit/")
    for test in result["tests"]:
        assert {type(test["score"]), type(test["max-score"])} == {int}
        assert 0 <= test["score"] <= test["max-score"]


def test_nothing_outside_the_folder_is_read(tmp_path: Path) -> None:
    folder = done(tmp_path, "links")
    [run] = folder.glob("run-*")
    run.rename(tmp_path / "elsewhere")
    run.symlink_to(tmp_path / "elsewhere")
    each = grade(folder)
    assert any("is a link" in note for note in each.notes)
    assert each.points("measured") == 1.5
    (folder / ANSWERS).rename(tmp_path / ANSWERS)
    (folder / ANSWERS).symlink_to(tmp_path / ANSWERS)
    assert grade(folder).found is None


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (LAB_FILE, "{"),
        (LAB_FILE, "[" * 100_000),
        (LAB_FILE, '{"format": 1, "lab": 99, "student": "a"}'),
        (LAB_FILE, '{"format": 1, "lab": 1, "student": "\\u001b[31m"}'),
        (ANSWERS, "[prediction"),
        (ANSWERS, ""),
        (ANSWERS, "x" * (2 << 20)),
    ],
)
def test_a_broken_folder_is_one_sentence(
    file: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = started(tmp_path, "broken")
    (folder / file).write_text(text)
    with pytest.raises(UsageError) as caught:
        main(["lab", "check", str(folder)])
    assert str(caught.value).isprintable()
    capsys.readouterr()
    assert main(["lab", "grade", str(folder)]) == 1  # a class goes on without it
    assert str(caught.value) in capsys.readouterr().out


@pytest.mark.parametrize(
    "answer", ["9" * 400, '"1e999"', "nan", "-inf", "[1]", '"\\u001b"', "true"]
)
def test_an_odd_answer_is_none(answer: str, tmp_path: Path) -> None:
    folder = done(tmp_path, "odd")
    text = (folder / ANSWERS).read_text()
    odd = re.sub(r"(?m)^(unix_total|parting) = .*", lambda row: f"{row[1]} = {answer}", text)
    (folder / ANSWERS).write_text(odd)
    wrong = {mark.question.id for mark in grade(folder).marks if not mark.points}
    assert {"unix_total", "parting"} <= wrong


@pytest.mark.parametrize(
    ("run", "answers", "wrong"),
    [
        ((6, 1), {"unix_total": 6, "tcp_total": 6, "knob": 6}, set()),
        ((6, 1), {}, {"unix_total", "tcp_total", "knob"}),  # as recorded, and not of this run
        ((0, 1), {"unix_total": 6, "tcp_total": 6, "knob": 6}, {"unix_total", "tcp_total", "knob"}),
        ((0, 1), {"unix_steps": 12}, {"unix_steps"}),  # of the next size
        ((1000, 1), {"unix_total": 1000}, {"unix_total", "unix_rest", "unix_steps"}),
        ((0, 2), {}, {"unix_total", "unix_rest", "unix_steps"}),  # every function called twice
    ],
)
def test_a_digit_is_of_a_run_that_is_recorded_but_for_its_phase(
    run: tuple[int, int], answers: dict[str, int], wrong: set[str], tmp_path: Path
) -> None:
    folder = started(tmp_path, "phase")
    found = read_folder(folder)
    recorded = {q.id: found.lab.recorded.get((q.cell, q.figure), 0) for q in found.questions}
    write_answers(folder, {name: int(recorded[name]) + more for name, more in answers.items()})
    seal(read_folder(folder))
    change, called = run
    add_run(folder, cells_of(found), change=change, called=called)
    marks = [mark for mark in grade(folder).marks if mark.question.part != PREDICTED]
    assert wrong <= {mark.question.id for mark in marks if not mark.is_full}
    assert wrong or all(mark.is_full for mark in marks)


def test_a_broken_run_is_a_note(tmp_path: Path) -> None:
    folder = started(tmp_path, "lesions")
    (folder / "run").mkdir()
    head = "transport,size,kernel,placement,knob,function,gives,outcome,saved\n"
    (folder / "run/lesions.csv").write_text(f"{head}unix,64,6.12,same-cpu,,kfree,0,arrives,many\n")
    assert any("cannot be read (invalid literal" in note for note in grade(folder).notes)


def test_sealed_predictions_do_not_change(tmp_path: Path) -> None:
    folder = done(tmp_path, "changer")
    write_answers(folder, {"unix": 1})
    assert any("not those that were sealed" in note for note in grade(folder).notes)


def test_the_values_are_the_students_own(tmp_path: Path) -> None:
    folder = started(tmp_path, "ada")
    begun = json.loads((folder / LAB_FILE).read_text())
    begun["variant"] = read_lab(1).variant("bob")
    (folder / LAB_FILE).write_text(json.dumps(begun))
    assert any("not those of ada" in note for note in grade(folder).notes)


def test_check_gives_a_hint_and_not_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = done(tmp_path, "checker", {"unix_total": 1})
    capsys.readouterr()
    assert main(["lab", "check", str(folder)]) == 1
    said = capsys.readouterr().out
    found = read_folder(folder)
    question = next(q for q in found.questions if q.id == "unix_total")
    assert f"unix_total: does not hold: {question.hint}" in said
    assert said.count("holds") == 9
    assert str(found.lab.recorded[question.cell, question.figure]) not in said
