# SPDX-License-Identifier: GPL-2.0-or-later
"""Real boots: counts repeat, instruction by instruction, conserve, and failures are sentences."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from runners.exact.cells import ExactCell, plan
from runners.exact.count import measure
from runners.exact.decode.digest import describe, steady_lines
from runners.exact.machine import boot as booting
from runners.exact.machine import snapshot
from runners.exact.machine.guest import ExactGuest
from runners.process import RunError

pytestmark = pytest.mark.emulated
BOOTS = int(os.environ.get("PATHCOST_EXACT_BOOTS", "2"))
# A prime number of round trips, and more warm-up than there are surprises.
CELL = ExactCell(7, "unix", 64, "fifo", messages=46, warmup=400)


@contextmanager
def two_busy_processes() -> Iterator[None]:
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


@pytest.mark.parametrize(
    ("transport", "scheduling"),
    [
        *product(("unix", "tcp"), ("fifo", "other")),
        ("pipe", "fifo"),
        ("udp", "fifo"),
        ("shm", "fifo"),
    ],
)
def test_a_cell_conserves(exact_guest: ExactGuest, transport: str, scheduling: str) -> None:
    cell = replace(CELL, transport=transport, scheduling=scheduling)
    # Both processes do the same work, and nobody else does any of theirs in the steady round trip.
    assert _conserved(exact_guest, cell)[0] == {"client", "server"}


@pytest.mark.parametrize(
    ("pattern", "wait"), [("stream", "block"), ("connect", "block"), ("pingpong", "epoll")]
)
def test_a_cell_of_another_pattern_or_wait_conserves(
    exact_guest: ExactGuest, pattern: str, wait: str
) -> None:
    (cell,) = plan(["unix"], [64], 46, schedulings=["fifo"], patterns=[pattern], waits=[wait])
    _conserved(exact_guest, cell)


def test_what_the_workload_refuses_is_refused_in_its_words(exact_guest: ExactGuest) -> None:
    with pytest.raises(booting.RefusedError, match="connects many times, and pipe is joined"):
        measure(exact_guest, replace(CELL, transport="pipe", pattern="connect"))


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_cell_on_two_cpus_conserves_and_repeats(
    two_cpu_guest: ExactGuest, transport: str
) -> None:
    cell = replace(CELL, transport=transport, placement="cross-cpu")
    tasks, steady = _conserved(two_cpu_guest, cell)
    assert tasks == {"client", "server", "swapper/0", "swapper/1"}
    assert _conserved(two_cpu_guest, cell) == (tasks, steady)


def _conserved(guest: ExactGuest, cell: ExactCell) -> tuple[set[str], str]:
    """The tasks of the steady iteration, and its call tree."""
    window, result, _ = measure(guest, cell)
    described = describe(cell, window, result)
    assert described["valid"], described["checks"]
    assert window.iterations == cell.iterations - 1
    assert window.total.steps.total() == window.counted
    assert result["client"]["sent_messages"] == cell.iterations
    tasks = {window.tree.path(node)[0] for node in window.steady.counts.steps}
    return tasks, "".join(steady_lines(window))


@pytest.mark.parametrize(
    ("transport", "scheduling"),
    [pytest.param("unix", "fifo", marks=pytest.mark.matrix), ("tcp", "other")],
)
def test_fresh_boots_and_the_stored_machine_are_identical_whatever_else_runs(
    exact_guest: ExactGuest, transport: str, scheduling: str
) -> None:
    cell = replace(CELL, transport=transport, scheduling=scheduling)
    with two_busy_processes():
        records = {measure(exact_guest, cell, fresh=True)[2] for _ in range(BOOTS)}
    records.add(measure(exact_guest, cell)[2])
    assert len(records) == 1


def test_a_kernel_that_does_not_boot_is_a_sentence_with_its_console(
    exact_guest: ExactGuest, tmp_path: Path
) -> None:
    machine = replace(exact_guest.machine, knobs="init=/absent rdinit=/absent")
    with pytest.raises(RunError) as caught:
        booting.boot(machine, CELL.order, tmp_path, exact_guest.plugin)
    assert "panicked" in str(caught.value)
    assert caught.value.console


def test_a_kernel_that_says_nothing_is_not_waited_for(
    exact_guest: ExactGuest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "SILENCE", 0.2)  # it boots, but not as fast as that
    with pytest.raises(RunError, match="printed nothing in 0 s"):
        snapshot.store(exact_guest.machine, tmp_path / "state")
    assert not (tmp_path / "state").exists()


@pytest.mark.root
def test_a_full_disk_while_the_machine_is_stored_is_a_sentence(
    exact_guest: ExactGuest, small_disk: Path
) -> None:
    (small_disk / "filler").write_bytes(bytes(100 << 20))
    with pytest.raises(RunError, match=r"could not store the machine .*No space left on device"):
        snapshot.store(exact_guest.machine, small_disk / "state")


def test_a_recorder_for_another_plugin_api_is_a_sentence(
    exact_guest: ExactGuest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "newer.c"
    source.write_text(
        "int qemu_plugin_version = 99;\nint qemu_plugin_install(void) { return 0; }\n"
    )
    newer = tmp_path / "newer.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", newer, source], check=True)
    monkeypatch.setattr(booting, "PLUGIN", newer)
    said = "QEMU does not take the recorder: .*API version 99.*only up to version"
    with pytest.raises(RunError, match=said):
        booting.boot(exact_guest.machine, CELL.order, tmp_path, {}, exact_guest.stored)


def test_a_workload_that_fails_in_the_guest_is_its_own_sentence(
    exact_guest: ExactGuest, tmp_path: Path
) -> None:
    *setup, workload = CELL.order
    order = [*setup, (*workload, "--transport", "pigeon")]
    with pytest.raises(RunError, match="unknown transport"):
        booting.boot(exact_guest.machine, order, tmp_path, exact_guest.plugin, exact_guest.stored)


def test_a_recorder_that_cannot_write_is_a_sentence(exact_guest: ExactGuest) -> None:
    with pytest.raises(RunError, match="cannot write /dev/full/trace"):
        out = Path("/dev/full")
        booting.boot(exact_guest.machine, CELL.order, out, exact_guest.plugin, exact_guest.stored)
