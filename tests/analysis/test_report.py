# SPDX-License-Identifier: GPL-2.0-or-later
"""What lies in the folder afterwards, and what the page says."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.analyse import Analysis
from analysis.drawing import Drawn
from analysis.report.render import escape, page, table
from analysis.report.report import Report
from analysis.report.sentences import TEMPLATES
from probes.reasons import missing, reason
from runners.process import REPOSITORY
from tests.analysis.make_run import Cell, MadeUp, make_run

HOSTILE = '<img src=x onerror=alert(1)> $x$ [red] | `**"quoted"**` \x1b[31m'
VOID = {"meta", "br", "img", "path", "use", "rect", "hr", "link", "a"}


def report(tmp_path: Path, made: MadeUp | None = None) -> tuple[Path, str]:
    run = make_run(tmp_path, made)
    assert main([str(run), "--quiet"]) == 0
    return run, (run / "report.html").read_text(encoding="utf-8")


def files(run: Path) -> dict[str, bytes]:
    made = [p for p in run.rglob("*") if p.is_file() and "raw" not in p.parts]
    return {str(p.relative_to(run)): p.read_bytes() for p in made}


def test_all_files_are_there_and_the_same_again(tmp_path: Path) -> None:
    run, _ = report(tmp_path)
    figures = {
        f"figures/{name}.{kind}"
        for name in ("ledger", "latency", "switches")
        for kind in ("svg", "png", "csv")
    }
    first = files(run)
    assert set(first) == figures | {
        *("run.json", "report.html", "report.md", "ledger.md", "answer.md", "answer.json"),
        *(f"{name}.csv" for name in ("measurements", "claims", "ledger", "agreement")),
        "measurements.parquet",
    }
    parquet = pd.read_parquet(run / "measurements.parquet")
    assert len(parquet) == len(pd.read_csv(run / "measurements.csv"))
    assert main([str(run), "--quiet"]) == 0
    assert files(run) == first


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


def test_the_page_stands_alone_and_is_well_formed(plain_report: tuple[Path, str]) -> None:
    """Links lead to the run's own files, or to a claim's source."""
    run, text = plain_report
    assert not re.search(r"<script\s|<link|<iframe|@import|\bsrc=|url\((?!#)", text)
    assert text.count("<script") == 1  # explores figures
    links = re.findall(r'href="(?!#|https://)([^"#]+)', text.split("<script")[0])
    assert links and [name for name in links if not (run / name).exists()] == []
    balance = Balance()
    balance.feed(text)
    assert balance.open == []
    assert len(set(balance.ids)) == len(balance.ids)
    anchors = set(re.findall(r'href="#([^"]+)"', text))
    named = set(re.findall(r"report\.html#([\w-]+)", (TEMPLATES / "answer.md.j2").read_text()))
    assert named
    assert anchors | named <= set(balance.ids)


def test_what_comes_from_outside_stays_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = reason("tool-said", tool=HOSTILE, said=HOSTILE)
    lacks = [missing([HOSTILE], why, by=HOSTILE) | {"target": HOSTILE}]
    made = MadeUp(kernel=HOSTILE, cpu=HOSTILE, missing=lacks)
    run, text = report(tmp_path, made)
    answer = (run / "answer.md").read_text(encoding="utf-8")
    assert main([str(run)]) == 0
    for written in (text, answer, capsys.readouterr().out):
        assert "\x1b" not in written
        assert "[red]" in written.replace("\\", "")
    assert "<img src" not in text + answer
    assert "&lt;img src=x onerror" in text


def test_escaped_text_is_the_text_on_the_page() -> None:
    """Markup and table bars have no effect, and nothing that is printable is lost."""
    text = "a|b <i>c</i> **d** `e` [f](g) _h_ snake_case &amp; \\ ~~i~~ #j"
    made = page(str(table(pd.DataFrame({"made up": [text]}))), "made up")
    row = re.search(r"<td[^>]*>(.*?)</td>", made)
    assert row
    parser, words = HTMLParser(), list[str]()
    parser.handle_data = words.append  # type: ignore[assignment]
    parser.feed(row[1])
    parser.close()
    assert "".join(words) == text
    assert "\x1b" not in escape("\x1b[31m")


def test_no_name_in_a_figure_ends_the_element_of_its_data() -> None:
    figure = Drawn("made-up", "", "", "", "<svg ></svg>", explored={"name": "</script><img>"})
    made = page("![made up](figures/made-up.svg)", "made up", [figure])
    assert "explored" in made and "</script><img>" not in made


def test_a_disagreement_comes_with_the_answer(tmp_path: Path) -> None:
    run, text = report(tmp_path, MadeUp(maps={"@switches": {"3,voluntary": 99}}))
    assert text.index("Instruments disagree") < text.index("<table")
    assert "Instruments disagree" in (run / "answer.md").read_text(encoding="utf-8")


def test_missing_is_said_and_an_empty_setting_is_empty_and_not_absent(tmp_path: Path) -> None:
    why = reason("no-function", function="made_up")

    def fail(cell: Cell) -> None:
        if cell["id"] == 1:
            cell["error"], cell["result"] = "a made-up failure", None

    run = make_run(
        tmp_path, MadeUp(guest=False, missing=[missing(["skb_allocs"], why)], change=fail)
    )
    file = run / "raw/host/environment.json"
    settings = {"/empty": "", "/absent": None, "/made/up": "1"}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"settings": settings}))
    assert main([str(run), "--quiet"]) == 0
    text = (run / "report.html").read_text(encoding="utf-8")
    assert text.count(str(why)) >= 2  # in the ledger's row and in the list
    assert "a made-up failure" in text
    cells = re.findall(r"<td[^>]*><code>(/\w[^<]*)</code></td>\s*<td[^>]*>([^<]*)</td>", text)
    assert cells == [("/absent", "absent"), ("/empty", ""), ("/made/up", "1")]


def test_what_was_not_measured_has_a_command_and_a_page(plain: Analysis) -> None:
    ways = {what: (command, page) for what, command, page in Report(plain).unmeasured()}
    assert ways["shared memory"][0].endswith("--transports unix,tcp,shm")
    assert "placed freely" in ways
    assert all((REPOSITORY / "docs" / page).exists() for _, page in ways.values())
