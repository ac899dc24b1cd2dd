# SPDX-License-Identifier: GPL-2.0-or-later
"""What lies in the folder afterwards, and what the report says."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from analysis.analyse import Analysis, analyse
from analysis.main import main
from analysis.raw.run import read_run
from analysis.report.blocks import Group, Table, Text
from analysis.report.sections.run import environment, reproduce
from analysis.report.sections.unasked import QUESTIONS, Question
from probes.reasons import missing, reason
from runners.cli import parse
from tests.analysis.make_run import Cell, MadeUp, make_run

HOSTILE = "<script>alert('made up')</script> $x$ [red] | \"quoted\""
VOID = {"meta", "br", "img", "path", "use", "rect", "hr", "link"}


def report(tmp_path: Path, made: MadeUp | None = None, status: int = 0) -> tuple[Path, str]:
    run = make_run(tmp_path, made)
    assert main([str(run), "--quiet"]) == status
    return run, (run / "report.html").read_text(encoding="utf-8")


def files(run: Path) -> dict[str, bytes]:
    made = [p for p in run.rglob("*") if p.is_file() and "raw" not in p.parts]
    return {str(p.relative_to(run)): p.read_bytes() for p in made}


def test_all_files_are_there(plain_report: tuple[Path, str]) -> None:
    run, _ = plain_report
    figures = {
        f"figures/{name}.{kind}"
        for name in ("answer", "ledger", "latency", "switches", "functions")
        for kind in ("svg", "png", "csv")
    }
    tables = {"measurements.parquet", "measurements.csv", "claims.csv"}
    assert set(files(run)) == {"run.json", "report.html", "report.md", *tables, *figures}
    parquet = pd.read_parquet(run / "measurements.parquet")
    assert len(parquet) == len(pd.read_csv(run / "measurements.csv"))


def test_the_same_bytes_again(tmp_path: Path) -> None:
    run, _ = report(tmp_path)
    first = files(run)
    assert main([str(run), "--quiet"]) == 0
    assert files(run) == first


def test_an_empty_setting_is_empty_and_not_absent(tmp_path: Path) -> None:
    run = make_run(tmp_path, MadeUp(guest=False))
    file = run / "raw/host/environment.json"
    settings = {"/empty": "", "/absent": None, "/made/up": "1"}
    text = json.dumps(json.loads(file.read_text()) | {"settings": settings})
    file.write_text(text, encoding="utf-8")
    blocks = environment(analyse(read_run(run)), {})
    groups = [block for block in blocks if isinstance(block, Group)]
    (table,) = (block for group in groups for block in group.blocks if isinstance(block, Table))
    values = [row.cells[1] for row in table.rows]
    assert values == ["absent", "", "1"]


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        (["--out", "reports/reference/default"], "reports/reference/default"),
        (["--sizes", "64", "--out=../elsewhere"], "../elsewhere"),
        ([], "reports/made-up-run"),
    ],
)
def test_the_command_for_another_report_names_the_run_s_folder(
    options: list[str], folder: str, tmp_path: Path
) -> None:
    run = make_run(tmp_path, MadeUp(guest=False))
    written = json.loads((run / "run.json").read_text(encoding="utf-8"))
    text = json.dumps(written | {"command": ["./runners/run.sh", *options]})
    (run / "run.json").write_text(text, encoding="utf-8")
    blocks = list(reproduce(analyse(read_run(run)), {}))
    assert Text("pre", f"python -m analysis {folder}") in blocks


def test_page_stands_alone(plain_report: tuple[Path, str]) -> None:
    _, page = plain_report
    assert not re.search(r"<script\s|<link|@import|\bsrc=|url\((?!#)", page)
    assert page.count("<script") == 1  # sorts and searches tables, explores figures
    assert not re.search(r'href="(?!#|raw/|figures/|https://)', page)  # to follow, not to load
    assert 'lang="en"' in page
    assert "prefers-color-scheme: dark" in page


class Balance(HTMLParser):
    """Every element that opens closes, in order, and no id is there twice."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self.open.pop() == tag


def test_page_is_well_formed(plain_report: tuple[Path, str]) -> None:
    _, page = plain_report
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert len(set(balance.ids)) == len(balance.ids)


def test_hostile_strings_stay_text(tmp_path: Path) -> None:
    why = reason("tool-said", tool=HOSTILE, said=HOSTILE)
    lacks = [missing([HOSTILE], why, by=HOSTILE) | {"target": HOSTILE}]
    run, page = report(tmp_path, MadeUp(kernel=HOSTILE, cpu=HOSTILE, missing=lacks))
    assert HOSTILE.partition(">")[0] + ">alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "<script" not in (run / "report.md").read_text(encoding="utf-8")


def test_hostile_strings_in_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(make_run(tmp_path, MadeUp(kernel="[red]made up[/]")))
    for shown in ([], ["--full"]):
        assert main([run, *shown]) == 0
        said = capsys.readouterr().out
        assert "[red]made up[/]" in said
        assert "\x1b" not in said


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.words)
def test_the_command_for_a_question_is_one(question: Question, plain: Analysis) -> None:
    assert not question.asked(plain)
    words = question.command.removeprefix("sudo ").split()
    assert words[0] == "./runners/run.sh"
    parse(words[1:])


def test_answer_comes_from_the_data(plain_report: tuple[Path, str]) -> None:
    _, page = plain_report
    assert (
        "With messages of 10 B the kernel copies each payload byte 7.00 times over a Unix socket "
        "and TCP alike, runs 2 different functions a round trip over a Unix socket and 4 over TCP "
        "and makes 4.00 function calls a message over a Unix socket and 5.50 over TCP ("
    ) in page
    assert "on one CPU 111 µs over a Unix socket and 222 µs over TCP" in page


def test_disagreement_comes_before_the_answer(tmp_path: Path) -> None:
    _, page = report(tmp_path, MadeUp(maps={"@switches": {"3,voluntary": 99}}))
    assert page.index("Instruments disagree") < page.index("<h1>")


def test_invalid_cells_are_marked_and_explained(tmp_path: Path) -> None:
    run, page = report(tmp_path, MadeUp(stderr="Lost 5 events\n"))
    assert '<abbr title="invalid: used in no verdict">' in page
    assert "bpftrace copies, others lost 5 events" in page
    assert "bpftrace copies, others lost 5 events" in (run / "report.md").read_text(
        encoding="utf-8"
    )


def test_missing_is_said(tmp_path: Path) -> None:
    why = reason("no-function", function="made_up")
    lacks = [missing(["skb_allocs"], why)]

    def fail(cell: Cell) -> None:
        if cell["id"] == 1:
            cell["error"], cell["result"] = "a made-up failure", None

    _, page = report(tmp_path, MadeUp(guest=False, missing=lacks, change=fail))
    assert page.count(str(why)) >= 2  # in the ledger's row and in the list
    assert "a made-up failure" in page
    assert "Not drawn: this run has no function trace." in page


def test_a_run_without_any_valid_cell_has_a_report_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(cell: Cell) -> None:
        cell["error"], cell["result"] = "a made-up failure", None

    _, page = report(tmp_path, MadeUp(change=fail), status=1)
    assert "This run holds no figures" in page
