# SPDX-License-Identifier: GPL-2.0-or-later
"""Two runs, judged alone and together: the same, and one in which a claim flips."""

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.diff.rejudge import main
from probes.messages import UsageError
from tests.analysis.make_run import MadeUp, make_run

Switches = Callable[[str, str, int], tuple[int, int]]


def as_claimed(transport: str, placement: str, repeat: int) -> tuple[int, int]:
    return (4, 0) if transport == "tcp" else (1, 1)


def otherwise(transport: str, placement: str, repeat: int) -> tuple[int, int]:
    return 9, 0


def again(
    folder: Path, capsys: pytest.CaptureFixture[str], first: Switches, second: Switches
) -> list[str]:
    runs = [
        str(make_run(folder / name, MadeUp(switches=switches, guest=False)))
        for name, switches in (("a", first), ("b", second))
    ]
    main(runs)
    return capsys.readouterr().out.replace(f"{folder}/", "").splitlines()


def test_a_second_run_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = again(tmp_path, capsys, as_claimed, as_claimed)
    counts = next(line for line in said if line.startswith("by counts"))
    claims, same = (int(word) for word in counts.split() if word.isdigit())
    assert claims == same >= 1
    assert not any("context-switches" in line for line in said)


def test_a_second_run_that_says_otherwise_makes_it_conditional(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = again(tmp_path, capsys, as_claimed, otherwise)
    start = said.index(
        "  context-switches: CONDITIONAL, run: holds for a/made-up-run, "
        "does not hold for b/made-up-run"
    )
    assert said[start + 1 : start + 3] == [
        "    a/made-up-run  CONFIRMED",
        "    b/made-up-run  REFUTED",
    ]


def test_one_run_is_none_to_compare(tmp_path: Path) -> None:
    run = str(make_run(tmp_path))
    with pytest.raises(UsageError, match="name two runs"):
        main([run, run])
