# SPDX-License-Identifier: GPL-2.0-or-later
"""A message's time taken apart: parts that add up, no part that cells cannot tell."""

from typing import Any

import pytest

from analysis.times import parts as words
from analysis.times.parts import Parts
from tests.analysis.conftest import Analyse
from tests.analysis.make_run import Cell, MadeUp

WHICH = (("unix", ""), ("tcp", ""), ("tcp", "unix"))
EXTRA = (("selfecho", "same-cpu", "block"), ("pingpong", "cross-cpu", "spin"))
# Nanoseconds of an iteration, which is two messages.
ITERATIONS = {
    "unix": {"selfecho": 2_000, "same-cpu": 6_000, "cross-cpu": 20_000, "spin": 4_000},
    "tcp": {"selfecho": 8_000, "same-cpu": 11_000, "cross-cpu": 40_000, "spin": 10_000},
}


def rtt(transport: str, placement: str, repeat: int) -> int:
    """Every repeat is as much slower for all: that is no difference between cells."""
    return ITERATIONS[transport][placement] + 40 * repeat


def made(**more: Any) -> MadeUp:
    usual: dict[str, Any] = {"rtt": rtt, "extra": EXTRA, "repeats": 7, "guest": False}
    return MadeUp(**usual | more)


def one_way(cell: Cell) -> None:
    """Every message of selfecho is acknowledged by a segment of its own."""
    if cell["pattern"] == "selfecho" and cell["transport"] == "tcp":
        snmp = cell["result"]["proc"]["/proc/net/snmp"]
        sent = cell["messages"]
        assert f" {1000 + sent} " in snmp[1]
        snmp[1] = snmp[1].replace(f" {1000 + sent} ", f" {1000 + 2 * sent} ")


def parts(analysed: Analyse, what: MadeUp) -> dict[tuple[str, str, str], Parts]:
    found = analysed(what).parts
    return {(part.placement, part.transport, part.than): part for part in found}


def values(part: Parts) -> tuple[float, ...]:
    """The total, and the stack and the rest, which add up to it."""
    return tuple(part.figures[name].value for name in ("total", "stack", "rest"))


def test_stack_and_rest_are_those_of_a_message(analysed: Analyse) -> None:
    """A round trip is two messages; 60 ns are the mean repeat's."""
    found = parts(analysed, made())
    assert values(found["same-cpu", "unix", ""]) == (3_060, 1_060, 2_000)
    assert values(found["cross-cpu", "unix", ""]) == (10_060, 2_060, 8_000)


def test_what_is_shown_subtracts_and_is_the_answers(analysed: Analyse) -> None:
    """Where repeats leave the three in other orders, each alone would leave out others."""

    def noisy(transport: str, placement: str, repeat: int) -> int:
        order = {"unix": 5, "tcp": 3}[transport] + (placement == "selfecho")
        return ITERATIONS[transport][placement] + 90 * (order * repeat % 7) ** 2

    analysis = analysed(made(rtt=noisy))
    found = {(p.placement, p.transport, p.than): p for p in analysis.parts}
    unix, tcp, more = (values(found["same-cpu", *of]) for of in WHICH)
    assert more == pytest.approx([b - a for a, b in zip(unix, tcp, strict=True)])
    p50s = [time.p50.value for time in analysis.timings[:2] if time.p50]
    assert [2 * unix[0], 2 * tcp[0]] == pytest.approx(p50s)


def test_across_cpus_nothing_is_taken_from_one_cpu(analysed: Analyse) -> None:
    """Unix switches dearly on one CPU; of what a message costs across CPUs that is no part."""

    def dear(transport: str, placement: str, repeat: int) -> int:
        switch = 20_000 if (transport, placement) == ("unix", "same-cpu") else 0
        return rtt(transport, placement, repeat) + switch

    found = parts(analysed, made(rtt=dear))
    assert values(found["cross-cpu", "tcp", "unix"]) == (10_000, 3_000, 7_000)
    assert values(found["same-cpu", "tcp", "unix"]) == (-7_500, 3_000, -10_500)


def test_acks_that_travel_alone_are_no_stack(analysed: Analyse) -> None:
    """Then the thread's time is not the stack of ping-pong, and the whole is not divided."""
    tcp = parts(analysed, made(change=one_way))["same-cpu", "tcp", ""]
    assert (set(tcp.figures), tcp.segments) == ({"total"}, (2.0, 1.0))
    assert "ACKs travel alone" in words.uneven(tcp)


def test_extra_cells_are_in_no_ledger_and_no_verdict(analysed: Analyse) -> None:
    analysis = analysed(made())
    assert [(ledger.pattern, ledger.size) for ledger in analysis.ledgers] == [("pingpong", 10)]
    assert {where for where, _ in analysis.ledgers[0].columns} == {"same-cpu", "cross-cpu"}
    conditions = [found.words() for verdict in analysis.verdicts for found in verdict.evidence]
    assert conditions
    assert not any("spin" in words or "selfecho" in words for words in conditions)
