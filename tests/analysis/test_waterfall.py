# SPDX-License-Identifier: GPL-2.0-or-later
"""A message's time taken apart: steps that add up, gaps that are shared out, cells that lack."""

from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.times import words
from analysis.times.waterfall import CELLS, PATH, SLEEP, SWITCH, WAKEUP, Decomposition
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import Cell, MadeUp, make_run

EXTRA = (("selfecho", "same-cpu", "block"), ("pingpong", "cross-cpu", "spin"))
# Nanoseconds of an iteration, which is two messages.
ITERATIONS = {
    "unix": {"selfecho": 2_000, "same-cpu": 6_000, "cross-cpu": 20_000, "spin": 4_000},
    "tcp": {"selfecho": 8_000, "same-cpu": 14_000, "cross-cpu": 40_000, "spin": 10_000},
}


def rtt(transport: str, placement: str, repeat: int) -> int:
    """Every repeat is as much slower for all: that is no difference between cells."""
    return ITERATIONS[transport][placement] + 40 * repeat


def made(**more: Any) -> MadeUp:
    return MadeUp(rtt=rtt, extra=EXTRA, repeats=7, guest=False, **more)


def one_way(cell: Cell) -> None:
    """Every message of selfecho is acknowledged by a segment of its own."""
    if cell["pattern"] == "selfecho" and cell["transport"] == "tcp":
        snmp = cell["result"]["proc"]["/proc/net/snmp"]
        sent = cell["messages"]
        assert f" {1000 + sent} " in snmp[1]
        snmp[1] = snmp[1].replace(f" {1000 + sent} ", f" {1000 + 2 * sent} ")


def decomposed(analysed: Analyse, what: MadeUp) -> Decomposition:
    (one,) = analysed(what).parts
    return one


def test_steps_add_up_to_every_level(analysed: Analyse) -> None:
    for waterfall in decomposed(analysed, made()).waterfalls:
        level = 0.0
        for name in CELLS:
            level += waterfall.steps[name].value
            assert level == waterfall.levels[name].value


def test_units_are_messages(analysed: Analyse) -> None:
    """A round trip is two; 60 ns are the middle repeat's."""
    unix = decomposed(analysed, made()).waterfalls[0]
    steps = {name: part.value for name, part in unix.steps.items()}
    assert steps == {PATH: 1_060, SWITCH: 2_000, WAKEUP: 7_000, SLEEP: -8_000}
    assert unix.missing == ()


def test_what_all_cells_of_a_repeat_share_cancels(analysed: Analyse) -> None:
    """Repeats are drawn whole: their drift widens the levels and not the differences."""
    unix = decomposed(analysed, made()).waterfalls[0]
    assert (unix.steps[WAKEUP].low, unix.steps[WAKEUP].high) == (7_000, 7_000)
    low, high = unix.levels[WAKEUP].low, unix.levels[WAKEUP].high
    assert low is not None
    assert high is not None
    assert low < unix.levels[WAKEUP].value < high


def test_the_gap_is_shared_out(analysed: Analyse) -> None:
    (gap,) = decomposed(analysed, made()).gaps
    assert gap.total.value == 10_000
    parts = {name: part.value for name, part in gap.parts.items()}
    assert parts == {PATH: 3_000, SWITCH: 1_000, WAKEUP: 6_000}
    assert sum(parts.values()) == gap.total.value
    assert {name: part.value for name, part in gap.shares.items()} == {
        PATH: pytest.approx(0.3), SWITCH: pytest.approx(0.1), WAKEUP: pytest.approx(0.6)
    }  # fmt: skip
    assert words.gap_text(gap, 10) == (
        "Of the 10.0 µs (10.0 to 10.0) that a message of 10 B takes longer over TCP than over a "
        "Unix socket across two CPUs, 3.00 µs (3.00 to 3.00), 30 %, is stack, 1.00 µs (1.00 to "
        "1.00), 10 %, is the switch and 6.00 µs (6.00 to 6.00), 60 %, is wake-up and idle exit "
        "(median of 7 repeats; in brackets 95 % intervals)."
    )


def test_acks_that_travel_alone_are_no_stack(analysed: Analyse) -> None:
    """Then the path alone is not ping-pong's: stack and switch are told together."""
    one = decomposed(analysed, made(change=one_way))
    (gap,) = one.gaps
    parts = {name: part.value for name, part in gap.parts.items()}
    assert parts == {SWITCH: 4_000, WAKEUP: 6_000}
    assert "is stack and switch" in words.gap_text(gap, 10)
    assert "selfecho sends 2.00 segments a message and ping-pong 1.00" in words.uneven(
        one.waterfalls[1]
    )


def test_missing_cells_are_said_with_the_command(tmp_path: Path) -> None:
    run = make_run(tmp_path, MadeUp(rtt=rtt, guest=False))
    assert main([str(run), "--quiet"]) == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "unix has no selfecho same-cpu or pingpong cross-cpu+spin of 10 B" in page
    assert "--patterns pingpong,selfecho --wait block,spin" in page


def test_extra_cells_are_in_no_ledger_and_no_verdict(analysed: Analyse) -> None:
    analysis = analysed(made())
    assert [(one.pattern, one.size) for one in analysis.ledgers] == [("pingpong", 10)]
    assert {placement for placement, _ in analysis.ledgers[0].columns} == {"same-cpu", "cross-cpu"}
    conditions = [one.words() for verdict in analysis.verdicts for one in verdict.evidence]
    assert conditions
    assert not any("spin" in words or "selfecho" in words for words in conditions)


def test_a_difference_that_may_be_none_is_said_to_be_unsure(analysed: Analyse) -> None:
    """TCP is slower across CPUs in four of seven repeats, and faster in three."""

    def either(transport: str, placement: str, repeat: int) -> int:
        drift = 900 * (repeat - 3) if placement == "cross-cpu" and transport == "tcp" else 0
        return ITERATIONS["unix"][placement] + 100 * (transport == "tcp") + drift

    what = MadeUp(rtt=either, extra=EXTRA, repeats=7, guest=False)
    (gap,) = decomposed(analysed, what).gaps
    text = words.gap_text(gap, 10)
    assert text.endswith("Whether there is such a difference at all, this run cannot tell.")
    assert "%," not in text  # and no shares of it
