# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of a plan: interleaved, with probes attached as seldom as that allows."""

from __future__ import annotations

from pathlib import Path

from runners import cells, options
from runners.collect import plan


def order(repeats: int) -> tuple[plan.Pass, ...]:
    todo = cells.cells(options.parse(["--placements", "free"]), cells.GUEST)
    return cells.passes(todo, repeats, ["copies", "path"], ftrace=True)


def test_passes_are_interleaved_a_b_b_a() -> None:
    assert [one.instrument for one in order(4)] == [
        *("", "bpftrace", "", "bpftrace", ""),
        "ftrace",
    ]
    middle = order(2)[1]
    assert [(run.cell.transport, run.repeat) for run in middle.runs] == [
        *(("unix", 0), ("tcp", 0)),
        *(("tcp", 1), ("unix", 1)),
    ]


def test_each_probed_run_has_an_unprobed_twin() -> None:
    runs: dict[str, list[tuple[plan.Cell, int]]] = {"": [], "bpftrace": []}
    for one in order(3)[:-1]:
        runs[one.instrument] += [(run.cell, run.repeat) for run in one.runs]
    assert sorted(map(str, runs[""])) == sorted(map(str, runs["bpftrace"]))


def test_identifiers_are_unique_and_start_at_one() -> None:
    ids = [run.id for one in order(4) for run in one.runs]
    assert sorted(ids) == list(range(1, len(ids) + 1))


def test_large_messages_are_fewer() -> None:
    given = options.parse(["--sizes", "64,1M"])
    small, large = (
        {cell.messages for cell in cells.cells(given, cells.GUEST) if cell.size == size}
        for size in given.sizes
    )
    assert small == {cells.GUEST.messages}
    assert large == {cells.GUEST.bytes >> 20}
    asked = options.parse(["--sizes", "1M", "--messages", "46"])
    assert {cell.messages for cell in cells.cells(asked, cells.GUEST)} == {46}


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    written = plan.Plan("/bin/workload", order(2), (1000, 1000))
    written.dump(tmp_path / "plan.json")
    assert plan.load(tmp_path / "plan.json") == written
