# SPDX-License-Identifier: GPL-2.0-or-later
"""The ledger in a terminal, at the widths that terminals have."""

from pathlib import Path

import pytest
from rich.text import Text

from analysis.__main__ import main
from analysis.wording import NOT_MEASURED
from tests.analysis.make_run import make_run


@pytest.mark.parametrize("width", [80, 100, 200])
def test_every_row_keeps_its_name_and_its_figures(
    tmp_path: Path, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([str(run)]) == 0
    lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert [line for line in lines[:-1] if len(line) > width] == []  # the last: the path
    name = next(line for line in lines if line.lstrip().startswith("copies of each payload"))
    assert name.split()[-5:-1] == ["7.00", "7.00", *[NOT_MEASURED] * 2]
    assert not [line for line in lines if "…" in line.lstrip()[1:]]  # nothing is cut off
