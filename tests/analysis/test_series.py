# SPDX-License-Identifier: GPL-2.0-or-later
"""A series of commits: a row for each, judged as a whole, and short enough for a mail."""

import json
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import judge_series
from analysis.diff.series import MAIL_LINES, MAIL_WIDTH
from probes.contract import BEYOND, SERIES, UNTOLD, WITHIN
from tests.exact.test_analysis import TCP, write_run

LEAF = [*TCP][-1]  # the path whose instructions a commit changes
BROKEN = "net/unix/af_unix.c:7:1: error: no such thing"


def write_series(folder: Path, more: list[int | None]) -> Path:
    """A base, and for each further commit what it adds to TCP's round trip; None: no kernel."""
    steps, total = [{"commit": "0000000", "subject": "base", "folder": "base", "why": ""}], 0
    write_run(folder / "base")
    for number, added in enumerate(more, 1):
        name = "" if added is None else f"{number:03}"
        if added is not None:
            total += added
            calls, own, *repeats = TCP[LEAF]
            write_run(folder / name, tcp={**TCP, LEAF: (calls, own + total, *repeats)})
        why = BROKEN if added is None else ""
        words = {"commit": f"{number:07}", "subject": f"change {number}"}
        steps.append(words | {"folder": name, "why": why})
    made = {"command": "run.sh gate --against base..", "compiler": "gcc 12", "qemu": "10.0"}
    described = made | {"config": "minimal.config", "steps": steps}
    (folder / SERIES).write_text(json.dumps(described))
    return folder


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        ([0, 0], WITHIN, "PASS"),
        ([0, 8, 0], BEYOND, "FAIL"),
        ([8, -8], WITHIN, "Meanwhile beyond it: 0000001"),
        ([0, None, 0], UNTOLD, "1 commit cannot be told"),
        ([None, 8], BEYOND, "FAIL"),
    ],
)
def test_the_whole_series_is_judged_and_each_commit_shown(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[int | None],
    status: int,
    says: str,
) -> None:
    assert judge_series(write_series(tmp_path, more), None, "0") == status
    said = capsys.readouterr().out
    assert says in said
    rows = {line.split()[0]: line for line in said.splitlines() if line.startswith("0")}
    assert [*rows] == [f"{number:07}" for number in range(1, len(more) + 1)]
    for row, added in zip(rows.values(), more, strict=True):
        assert row.split()[-1] == ("thing" if added is None else f"{added:+}" if added else "0")


def test_the_tables_have_each_commit_and_the_whole(tmp_path: Path) -> None:
    judge_series(write_series(tmp_path, [8, None, -3]), "quiet", "0")
    table = pd.read_csv(tmp_path / "series.csv", dtype={"commit": str})
    tcp = table[table["cell"] == "tcp pingpong 64 B"].set_index("commit")["difference"]
    assert dict(tcp) == {"0000001": 8, "0000003": -3, "all": 5}
    assert [*table[table["status"] == "unknown"]["why"]] == [BROKEN]
    functions = pd.read_csv(tmp_path / "functions-by-commit.csv", dtype={"commit": str})
    assert [*functions["commit"]] == ["0000001", "0000003"]


@pytest.mark.parametrize("number", [2, 14])
def test_a_mail_is_short_and_names_what_changed(tmp_path: Path, number: int) -> None:
    more: list[int | None] = [0] * number
    more[number // 2] = 8
    judge_series(write_series(tmp_path, more), "quiet", "0")
    lines = (tmp_path / "mail.txt").read_text().splitlines()
    assert len(lines) <= MAIL_LINES
    assert max(map(len, lines)) <= MAIL_WIDTH
    assert any(line.startswith(f"{number // 2 + 1:07}") and line.endswith("+8") for line in lines)


def test_a_series_of_which_no_commit_builds_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge_series(write_series(tmp_path, [None, None]), None, "0") == UNTOLD
    assert f"no commit of the series can be told: {BROKEN}." in capsys.readouterr().err
