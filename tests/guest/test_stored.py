# SPDX-License-Identifier: GPL-2.0-or-later
"""What a guest that is stored with its probes attached knows; tests/main resumes one."""

from __future__ import annotations

from dataclasses import replace

from runners.cell import Plan
from runners.cli import parse
from runners.plan import Planner
from runners.run import waiting_plan

SCRIPTS = ("copies", "path")


def plan(*words: str) -> Plan:
    """What a default run's guest does, with fewer scripts and these options."""
    given = parse(["--placements", "same-cpu", "--repeats", "1", *words])
    given.instruments = SCRIPTS
    return Planner(given).guest()


def test_what_waits_is_probed_first_and_knows_no_cell() -> None:
    assert [bool(group.scripts) for group in plan().passes] == [True, False]
    waiting = waiting_plan(plan())
    assert waiting == waiting_plan(plan("--sizes", "4K", "--messages", "46"))
    assert waiting != waiting_plan(plan("--transports", "unix"))
    assert waiting is not None
    assert waiting.passes[0].scripts == SCRIPTS
    assert waiting_plan(replace(plan(), passes=plan().passes[1:])) is None
