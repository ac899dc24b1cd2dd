# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that was stored with its probes attached: it counts the plan that it gets later."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners import guest
from runners.cell import Plan
from runners.cli import parse
from runners.guest.store import Cache
from runners.plan import OptionsPlanner
from runners.process import Progress
from runners.run import run_in_guest, waiting_plan
from tests.collected import Collected

SCRIPTS = ("copies", "path")


def plan(*words: str) -> Plan:
    """What a default run's guest does, with fewer scripts and these options."""
    given = parse(["--placements", "same-cpu", "--repeats", "1", *words])
    given.instruments = SCRIPTS
    return OptionsPlanner(given).guest()


def test_what_waits_is_probed_first_and_knows_no_cell() -> None:
    assert [bool(group.scripts) for group in plan().passes] == [True, False]
    waiting = waiting_plan(plan())
    assert waiting == waiting_plan(plan("--sizes", "4K", "--messages", "46"))
    assert waiting != waiting_plan(plan("--transports", "unix"))
    assert waiting is not None
    assert waiting.passes[0].scripts == SCRIPTS
    assert waiting_plan(replace(plan(), passes=plan().passes[1:])) is None


@pytest.mark.guest
def test_each_run_of_a_stored_guest_counts_its_own_plan_exactly(
    machine: guest.Guest, tmp_path: Path
) -> None:
    if not machine.drivers:
        pytest.skip(f"guests are not stored under {machine.accelerator}: they boot in a second")
    for number, size in enumerate((64, 4096)):
        progress = Progress()
        wanted = plan("--sizes", str(size), "--messages", "46")
        folder = tmp_path / str(number)
        folder.mkdir()
        kept = Cache(tmp_path / "cache", progress.say)
        target = run_in_guest(wanted, machine, folder, progress, cache=kept)
        found = Collected(folder / target.entry["folder"])
        assert [cell["error"] for cell in found.cells] == [None] * wanted.runs
        assert {cell["transport"] for cell in found.probed()} == {"unix", "tcp"}
        for cell in found.probed():
            counts = found.counts(cell)
            assert counts["messages sent"] == 46
            assert counts["copy_bytes in"] == counts["copy_bytes out"] == 46 * size
    assert len(list((tmp_path / "cache").glob("guest-*"))) == 1
