# SPDX-License-Identifier: GPL-2.0-or-later
"""Several runs together: as wide as the runs differ, and a claim that flips in one of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis.make_run import HOST, MadeUp, make_run

Switches = Callable[[str, str, int], tuple[int, int]]


def as_claimed(transport: str, placement: str, repeat: int) -> tuple[int, int]:
    return (4, 0) if transport == "tcp" else (1, 1)


def otherwise(transport: str, placement: str, repeat: int) -> tuple[int, int]:
    return 9, 0


@pytest.mark.parametrize("second", [as_claimed, otherwise])
def test_a_second_run_that_says_otherwise_makes_it_conditional(
    second: Switches, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        str(make_run(tmp_path / name, MadeUp(switches=switches, guest=False)))
        for name, switches in (("a", as_claimed), ("b", second))
    ]
    assert main(["--pool", *runs]) == 0
    said = capsys.readouterr().out.replace(f"{tmp_path}/", "")
    differs = (
        "  context-switches: CONDITIONAL, run: holds for a/made-up-run, does not hold for "
        "b/made-up-run\n    a/made-up-run  CONFIRMED\n    b/made-up-run  REFUTED\n"
    )
    assert (differs in said) == (second is otherwise)
    assert ("context-switches" in said) == (second is otherwise)


def test_runs_are_pooled_and_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for name, factor in (("first", 2), ("second", 3), ("third", 4.5), ("other kernel", 9)):
        (tmp_path / name).mkdir()

        def rtt(transport: str, _: str, repeat: int, factor: float = factor) -> int:
            return int((1000 + 2 * repeat) * (factor if transport == "tcp" else 1))

        kernel = "7.7.0-made-up" if name == "other kernel" else HOST
        made = MadeUp(rtt=rtt, repeats=6, guest=False, kernel=kernel)
        runs.append(str(make_run(tmp_path / name, made)))
    assert main(["--pool", *runs]) == 0
    printed = capsys.readouterr().out
    assert "2.00" in printed
    # Logarithms lie 0.405 apart: t(0.975; 2) is 4.30, times 0.405, by √3, and times √(4/3).
    assert "3.00 (1.10\N{EN DASH}8.21)  mean of the runs" in printed
    assert "0.40\N{EN DASH}22.5  another run" in printed
    assert main(["--pool", runs[0], runs[0]]) == 2
