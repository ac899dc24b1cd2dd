# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer decides where its interval allows it, and says so where it does not."""

import numpy as np
import pytest

from analysis.analyse import Analysis
from analysis.answer import PLACES, Answer, Pair, Placed
from analysis.report.blocks import Cards
from analysis.report.sections.answer import first_screen
from runners.cli import parse

FIRST = np.full(6, 10_000.0)
REACHED = {"unix": 90_000.0, "tcp": 60_000.0}


def placed(conditions: str, *more: float) -> Placed:
    """Six repeats in which the second transport takes so many nanoseconds more."""
    pair = Pair.of(FIRST, FIRST + np.resize(np.array(more), 6))
    return Placed(conditions, pair, pair, 2, REACHED)


def answer(*found: Placed) -> Answer:
    return Answer("pingpong", 64, ("unix", "tcp"), "round trip", found, (), "host 9.9")


@pytest.mark.parametrize(
    ("found", "decision"),
    [
        (
            (placed("same-cpu", 5000), placed("cross-cpu", 20_000)),
            "On this machine TCP adds 5.00 µs (5.00 to 5.00) to a round trip on one CPU and "
            "20.0 µs (20.0 to 20.0) across two CPUs.",
        ),
        (
            (placed("same-cpu", -1000),),
            "On this machine TCP saves 1.00 µs (1.00 to 1.00) of a round trip on one CPU.",
        ),
        ((), ""),
    ],
)
def test_a_decision_names_who_pays_how_much_and_where(
    found: tuple[Placed, ...], decision: str
) -> None:
    assert answer(*found).decision == decision


def test_an_interval_that_holds_nothing_decides_nothing() -> None:
    said = answer(placed("same-cpu", 5000), placed("cross-cpu", -9000, 9500)).decision
    assert said.startswith("On this machine TCP adds 5.00 µs (5.00 to 5.00) to a round trip on one")
    assert " and makes no difference that this run can tell across two CPUs (" in said


def test_one_percent_is_of_the_largest_difference_that_is_left_open() -> None:
    sure, open_ = placed("same-cpu", 5000).large, placed("cross-cpu", -9000, 9500).large
    assert (sure.value, sure.low) == (500_000, 500_000)
    assert open_.value > 100 * 9000
    assert open_.low is None


def test_a_rate_that_no_connection_reached_is_marked() -> None:
    shares = placed("same-cpu", 5000).shares
    assert [share.beyond for share in shares] == [False, False, True]
    assert shares[1].cpu_share.value == pytest.approx(5000e-9 * 2 * 10_000)


def test_a_card_without_times_has_the_command_for_them(plain: Analysis) -> None:
    (cards,) = (block for block in first_screen(plain, {}) if isinstance(block, Cards))
    one, two, never, matters = cards.cards
    assert [bar.name for bar in one.bars] == ["unix", "tcp"]
    assert two.figure and not never.figure
    assert f"./runners/run.sh {PLACES[2].option}" in str(never.lines)
    parse(PLACES[2].option.split())
    assert matters.title == "Does it matter?"
