# SPDX-License-Identifier: GPL-2.0-or-later
"""Ratios over several runs: as wide as the runs differ."""

from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis.make_run import MadeUp, make_run


def test_runs_are_pooled_and_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for name, factor in (("first", 2), ("second", 3), ("third", 4.5)):
        (tmp_path / name).mkdir()

        def rtt(transport: str, _: str, repeat: int, factor: float = factor) -> int:
            return int((1000 + 2 * repeat) * (factor if transport == "tcp" else 1))

        runs.append(str(make_run(tmp_path / name, MadeUp(rtt=rtt, repeats=6, guest=False))))
    assert main(["--pool", *runs]) == 0
    printed = capsys.readouterr().out
    assert "2.00 (2.00 to 2.00)" in printed
    # Logarithms lie 0.405 apart: t(0.975; 2) is 4.30, times 0.405, by √3, and times √(4/3).
    assert "3.00 (1.10 to 8.21)  mean of the runs" in printed
    assert "0.401 to 22.5  another run" in printed or "0.40 to 22.5  another run" in printed
    assert main(["--pool", runs[0], runs[0]]) == 2
