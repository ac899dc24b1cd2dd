# SPDX-License-Identifier: GPL-2.0-or-later
"""Ratios over several runs: as wide as the runs differ."""

from pathlib import Path

import numpy as np
import pytest

from analysis.diff.pool import between_runs
from analysis.main import main
from analysis.statistics import Estimate
from tests.analysis.make_run import MadeUp, make_run

ALIKE = [Estimate(value, value - 0.1, value + 0.1, 12) for value in (1.50, 1.52, 1.48)]
APART = [Estimate(value, value - 0.01, value + 0.01, 12) for value in (1.2, 1.5, 1.8)]


def test_runs_that_differ_by_more_than_their_intervals_give_a_wide_one() -> None:
    alike, apart = between_runs(ALIKE), between_runs(APART)
    assert alike
    assert apart
    assert not alike.spans(1.3)
    assert apart.spans(1.3)
    assert apart.value == pytest.approx(np.exp(np.mean(np.log([1.2, 1.5, 1.8]))), rel=0.01)


def test_two_runs_are_pooled_and_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for name, factor in (("first", 2), ("second", 3)):
        (tmp_path / name).mkdir()

        def rtt(transport: str, _: str, repeat: int, factor: int = factor) -> int:
            return (1000 + repeat) * (factor if transport == "tcp" else 1)

        runs.append(str(make_run(tmp_path / name, MadeUp(rtt=rtt, repeats=6, guest=False))))
    assert main(["--pool", *runs]) == 0
    said = capsys.readouterr().out
    assert "2.00 (2.00 to 2.00)" in said
    assert "3.00 (3.00 to 3.00)" in said
    assert main(["--pool", runs[0], runs[0]]) == 2
