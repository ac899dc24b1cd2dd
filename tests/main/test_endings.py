# SPDX-License-Identifier: GPL-2.0-or-later
"""run.sh interrupted anywhere leaves nothing; what SIGKILL leaves, the next run clears."""

import contextlib
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.main.conftest import RunSh
from tests.processes import wait_for

pytestmark = pytest.mark.guest
Start = Callable[..., RunSh]
# Enough messages for the moment of the signal to lie in the middle.
LONG = ("--messages", "400000")
SOME = ("--messages", "20000", "--repeats", "2", "--transports", "unix")
HOST = ("--target", "host")
GUEST = ("--target", "guest")
MATRIX = pytest.mark.matrix
# A run's arguments, and the program that runs when the signal comes.
WORKLOAD = pytest.param((*HOST, *LONG), "pathcost-workload", id="host-workload")
BPFTRACE = pytest.param((*HOST, *LONG), "bpftrace", id="host-bpftrace", marks=MATRIX)
EMULATED = pytest.param(GUEST, "qemu-system-x86_64", id="guest")
# Probes on a program are attached after its timed runs.
REDIS = pytest.param(
    ("--claims", "redis-documentation", "--program", "redis", *HOST), "bcc/syscount.py",
    id="redis", marks=MATRIX,
)  # fmt: skip


def exact(*marks: pytest.MarkDecorator) -> Any:
    return pytest.param(("exact",), "qemu-system-x86_64", id="exact", marks=marks)


@pytest.mark.parametrize(("arguments", "program"), [WORKLOAD, EMULATED, exact(), BPFTRACE])
# One handler takes both.
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=MATRIX)])
def test_an_interrupted_run_leaves_nothing(
    run_sh: Start, arguments: tuple[str, ...], program: str, how: signal.Signals
) -> None:
    run = run_sh(*arguments)
    run.wait_until_running(program)
    run.process.send_signal(how)
    status, output, complaint = run.finish()
    assert status == 130
    assert complaint.splitlines()[-1] == "pathcost: interrupted; nothing was kept."
    assert "Traceback" not in complaint
    assert output == ""
    assert run.left_behind() == []
    assert not run.out.exists()


@pytest.mark.parametrize(
    ("arguments", "program"), [WORKLOAD, EMULATED, BPFTRACE, exact(MATRIX), REDIS]
)
def test_what_sigkill_leaves_is_cleared_by_the_next_run(
    run_sh: Start, arguments: tuple[str, ...], program: str
) -> None:
    killed = run_sh(*arguments)
    killed.wait_until_running(program)
    killed.process.kill()
    assert wait_for(lambda: not killed.descendants())
    assert killed.left_behind(), "a killed run cannot clear up"
    following = run_sh(*HOST, "--messages", "46", "--repeats", "1")
    status, _, complaint = following.finish()
    assert status == 0, complaint
    assert "removed what a killed run had left" in complaint
    assert killed.left_behind() == []


def test_a_second_run_is_told_that_the_first_is_measuring(run_sh: Start) -> None:
    first = run_sh(*HOST, *LONG)
    first.wait_until_running("pathcost-workload")
    status, output, complaint = run_sh(*HOST).finish()
    assert status == 1
    assert f"another run is measuring on this machine (process {first.process.pid}" in complaint
    assert complaint.count("\n") == 1
    assert output == ""
    assert first.process.poll() is None, "the first goes on"
    first.process.send_signal(signal.SIGINT)
    assert first.finish()[0] == 130


def test_a_disk_that_fills_up_ends_in_one_sentence(run_sh: Start, small_disk: Path) -> None:
    run = run_sh(*HOST, *SOME, out=small_disk)
    run.wait_until_running("pathcost-workload")
    with (small_disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(1 << 20))
    status, output, complaint = run.finish()
    assert status == 1
    assert "No space left on device" in complaint.splitlines()[-1]
    assert "Traceback" not in complaint
    assert output == ""
    assert [entry.name for entry in small_disk.iterdir()] == ["filler"]
    assert run.left_behind() == []
