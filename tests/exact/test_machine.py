# SPDX-License-Identifier: GPL-2.0-or-later
"""Real boots: counts repeat, instruction by instruction, and conserve; failures are sentences."""

import subprocess
import sys
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from probes.cell import CellRun
from runners.exact import guest, machine
from runners.exact.cells import iterations_of, order
from runners.exact.count import follow_payload, measure
from runners.exact.digest import describe, tree_lines
from runners.exact.guest import BOOTS, ExactGuest, ready_guest
from runners.exact.machine import EmulatedMachine
from runners.guest.image import strip_elf
from runners.guest.qemu import HangError
from runners.guest.store import Cache
from runners.process import RunError
from tests.exact.conftest import cell_run
from tests.processes import running

BUSY = (sys.executable, "-c", "while True: pass")


def conserved(guest: ExactGuest, run: CellRun) -> tuple[set[str], str]:
    """The tasks of the steady iteration, and its call tree."""
    window, result, _ = measure(guest, run)
    described = describe(run.cell, window, result, guest.knob)
    assert described["valid"], described["checks"]
    assert window.iterations == iterations_of(run.cell) - 1
    assert window.total.steps.total() == window.counted
    assert result["client"]["sent_messages"] == iterations_of(run.cell)
    tasks = {window.tree.path(node)[0] for node in window.steady.counts.steps}
    return tasks, "".join(tree_lines(window.tree, window.steady.counts))


@pytest.mark.emulated
@pytest.mark.parametrize(
    ("transport", "scheduler"),
    [*product(("unix", "tcp"), ("fifo", "other")), ("udp", "fifo"), ("shm", "fifo")],
)
def test_a_cell_conserves(exact_guest: ExactGuest, transport: str, scheduler: str) -> None:
    # Both processes do the same work, and nobody else does any of theirs in the steady round trip.
    tasks, _ = conserved(exact_guest, cell_run(transport, sched=scheduler))
    assert tasks == {"client", "server"}


@pytest.mark.emulated
def test_a_cell_of_another_pattern_or_wait_conserves(exact_guest: ExactGuest) -> None:
    for changes in ({"pattern": "stream"}, {"pattern": "connect"}, {"wait": "epoll"}):
        conserved(exact_guest, cell_run(**changes))


@pytest.mark.emulated
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_cell_on_two_cpus_conserves_and_repeats(
    two_cpu_guest: ExactGuest, transport: str
) -> None:
    run = cell_run(transport, "cross-cpu")
    tasks, steady = conserved(two_cpu_guest, run)
    assert tasks == {"client", "server", "swapper/0", "swapper/1"}
    assert conserved(two_cpu_guest, run) == (tasks, steady)


@pytest.mark.emulated
@pytest.mark.parametrize("fresh", [False, pytest.param(True, marks=pytest.mark.matrix)])
def test_fresh_boots_and_the_stored_machine_are_identical_whatever_else_runs(
    exact_guest: ExactGuest, fresh: bool
) -> None:
    run = cell_run("tcp", sched="other")
    with running(*BUSY), running(*BUSY):
        records = {measure(exact_guest, run, fresh=fresh)[2] for _ in range(2)}
    records.add(measure(exact_guest, run)[2])
    assert len(records) == 1


@pytest.mark.emulated
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_payload_copied_in_and_out_is_messages_times_size(
    exact_guest: ExactGuest, transport: str
) -> None:
    payload = follow_payload(exact_guest, cell_run(transport))
    assert payload.copied["in"] == payload.copied["out"] == 46 * 64
    assert payload.copiers.total() == payload.copied.total()
    # Each copied byte is loaded once and stored once, beside all else.
    for traffic in (payload.loaded, payload.stored):
        assert all(traffic[name] >= size for name, size in payload.copiers.items())
        assert traffic.total() > 10 * payload.copied.total()


@pytest.mark.emulated
def test_a_kernel_that_does_not_boot_and_what_the_workload_refuses_are_sentences(
    exact_guest: ExactGuest, tmp_path: Path
) -> None:
    broken = replace(exact_guest.machine, knobs="init=/absent rdinit=/absent")
    with pytest.raises(RunError, match="panicked") as caught:
        machine.boot(broken, order(cell_run()), tmp_path, exact_guest.plugin)
    assert caught.value.console
    *setup, workload = order(cell_run())
    steps = [*setup, (*workload, "--transport", "pipe", "--pattern", "connect")]
    stored = (tmp_path, exact_guest.plugin, exact_guest.stored)
    with pytest.raises(machine.RefusedError, match="connects many times, and pipe is"):
        machine.boot(exact_guest.machine, steps, *stored)


@pytest.mark.slow
def test_a_bare_program_runs_and_does_not_know_where_it_was_built(tmp_path: Path) -> None:
    programs = set()
    for name in ("here", "somewhere-else"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "a.c").write_text("int main(void) { return 42; }\n")
        subprocess.run(["gcc", "-g", "-O2", "-static", "-o", "a", "a.c"], cwd=folder, check=True)
        program = folder / "a"
        program.write_bytes(strip_elf(program.read_bytes()))
        assert subprocess.run([program], check=False).returncode == 42
        programs.add(program.read_bytes())
    assert len(programs) == 1


@pytest.mark.parametrize(("cpus", "boots"), [(2, list(BOOTS[:3])), (1, [""])])
def test_a_boot_of_two_cpus_that_hangs_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: int, boots: list[str]
) -> None:
    tried: list[str] = []

    def boot(_: Cache, made: EmulatedMachine) -> str:
        tried.append(made.knobs)
        if len(tried) < 3:
            raise HangError("the guest's kernel hangs")
        return "ready"

    monkeypatch.setattr(guest, "_ready", boot)
    monkeypatch.setattr(EmulatedMachine, "recipe", lambda made: {"knobs": made.knobs})
    nothing = cast(Any, SimpleNamespace())
    with suppress(HangError) if cpus == 1 else nullcontext():
        ready_guest(Cache(tmp_path, print), EmulatedMachine(nothing, nothing, cpus=cpus))
    assert tried == boots
