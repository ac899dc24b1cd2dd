# SPDX-License-Identifier: GPL-2.0-or-later
"""The comparison of tools: from what the guest printed to the table."""

from __future__ import annotations

from runners.bench import compare_instruments as cost
from runners.bench.tools import TOOLS, CountingTool, OneLiner, OurBcc, PerfStat

MESSAGES = 100


def found(name: str, window: int, number: int, counted: int | None = None) -> cost.Found:
    return {
        "tool": name,
        "transport": "unix",
        "window": window,
        "counted": counted,
        "round": number,
    }


FOUND = [
    *(found(CountingTool.name, 1000 * MESSAGES, 0), found(CountingTool.name, 2000 * MESSAGES, 1)),
    *(found(OurBcc.name, 1050 * MESSAGES, 0, 80), found(OurBcc.name, 2060 * MESSAGES, 1, 80)),
    *(found(OneLiner.name, 1200 * MESSAGES, 0, 80), found(OneLiner.name, 2240 * MESSAGES, 1, 81)),
    {"tool": PerfStat.name, "transport": "unix", "error": "no such event", "round": 0},
]


def test_a_tool_is_compared_with_its_own_rounds_bare_cell() -> None:
    assert cost.added(FOUND, OurBcc.name, "unix", MESSAGES) == [50, 60]
    assert cost.added(FOUND, OneLiner.name, "unix", MESSAGES) == [200, 240]


def test_the_table_says_what_was_counted_and_what_could_not_be_attached() -> None:
    rows = {
        line.split(" | ")[0].strip("| "): line
        for line in cost.table(FOUND, MESSAGES, TOOLS).split("\n")
    }
    assert "| 55 (50 to 60) | - | 80 |" in rows[OurBcc.name]
    assert "| 80; 81 |" in rows[OneLiner.name]
    assert "| - | - | not attached |" in rows[PerfStat.name]
