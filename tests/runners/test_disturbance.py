# SPDX-License-Identifier: GPL-2.0-or-later
"""A cell that really ran says what else its CPUs did."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from analysis.raw.cells import Cell, Disturbance
from analysis.times.disturbed import MOST_TAKEN, shares_of
from runners.cell import CellRun, Plan
from runners.cli import parse
from runners.host import disturbance
from runners.host.workload import Execution, run_cell
from runners.plan import HOST, cells
from runners.process import WORKLOAD
from tests.build import make


@pytest.fixture(scope="module")
def built() -> Path:
    make(WORKLOAD.parents[1], "all")
    return WORKLOAD


def collected(workload: Path, placement: str, messages: int = 10_000) -> dict[str, Any]:
    asked = ["--transports", "unix", "--placements", placement, "--messages", str(messages)]
    (cell,) = cells(parse(asked), HOST)
    return run_cell(Execution(str(workload)), Plan(()), CellRun(1, cell, 0), None, [])


@pytest.mark.parametrize("placement", ["same-cpu", "cross-cpu", "free"])
def test_a_cell_carries_what_its_cpus_did(built: Path, placement: str) -> None:
    record = collected(built, placement)
    found, result = Disturbance.model_validate(record["disturbance"]), record["result"]
    measured = set(range(os.cpu_count() or 1)) if placement == "free" else set(result["cpus"])
    assert set(map(int, found.cpus)) == measured
    assert result["window_ns"] < found.wall_ns
    own = sum(result[end]["schedstat"]["run_ns"] for end in ("client", "server"))
    assert own < found.own_ns
    for cpu in found.cpus.values():
        assert cpu.idle_ns + cpu.steal_ns <= found.wall_ns + 3 * found.step_ns
        assert cpu.interrupts is None or cpu.interrupts > 0


@contextmanager
def busy(cpus: set[int]) -> Iterator[None]:
    """Four processes that never sleep on each of these CPUs."""
    processes = [multiprocessing.Process(target=_spin, args=(cpu,)) for cpu in [*cpus] * 4]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _spin(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    while True:
        pass


def test_interrupts_that_are_hidden_are_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers put an empty file in the place of /proc/interrupts."""
    monkeypatch.setattr(disturbance, "INTERRUPTS", Path(os.devnull))
    found = disturbance.disturbance(disturbance.Moment.now(), [0])
    assert found["cpus"]["0"]["interrupts"] is None


def test_a_neighbour_on_the_same_cpu_is_seen(built: Path) -> None:
    cpus = set(collected(built, "same-cpu")["result"]["cpus"])
    with busy(cpus):
        record = collected(built, "same-cpu", messages=40_000)
    found = Disturbance.model_validate(record["disturbance"])
    shares = shares_of(Cell.model_construct(disturbance=found))
    assert shares is not None
    assert shares.taken > MOST_TAKEN
