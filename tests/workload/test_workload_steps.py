# SPDX-License-Identifier: GPL-2.0-or-later
"""What the window holds in user space: each side single-stepped from marker to marker."""

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

from tests.processes import captured

from .workload import ALONE, PATIENCE, TRANSPORTS

MOST = 40  # instructions for each message between two system calls
ITERATIONS = 23
JUMPS = 512 * 1024 // 64  # of --cold's code: one in each cache line
# Shared memory is kept up in user space, which the kernel does for all the others: the rings, the
# copies, the futex. Stepped over, so that what is counted is the loop, as with the others.
RINGS = {"shm": ["shared_read", "shared_write"], "shm-spin": ["spin_read", "spin_write"]}

FORWARDER = {"tcp-proxy": {"FORWARDER": "1"}}


@pytest.fixture(scope="session")
def stepper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if platform.machine() != "x86_64":
        pytest.skip("the stepper knows only x86-64's system call instruction")
    source = Path(__file__).with_name("step.c")
    out = tmp_path_factory.mktemp("step") / "step"
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", out, source], check=True)
    return out


def addresses(program: Path) -> dict[str, str]:
    ended = captured(["nm", program], check=True)
    return {name: where for where, name in re.findall(r"^(\w+) \w (\w+)$", ended.stdout, re.M)}


def steps(
    stepper: Path, program: Path, private: Path, transport: str, role: int, *chosen: str
) -> list[int]:
    """User-space instructions from each system call of the window to the next."""
    where = addresses(program)
    argv = [str(stepper), str(role), where["window_begin"], where["window_end"], str(program)]
    options = ["--transport", transport, "--dir", str(private), "--placement", "free"]
    options += ["--messages", str(2 * ITERATIONS), *chosen]
    over = " ".join(where[name] for name in RINGS.get(transport, []))
    ended = captured(
        [*argv, *options],
        timeout=PATIENCE,
        check=True,
        env={**os.environ, "STEP_OVER": over, **FORWARDER.get(transport, {})},
    )
    return [int(line) for line in ended.stdout.split()]


@pytest.mark.parametrize("role", [0, 1], ids=["client", "server"])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.usefixtures("need")
def test_instructions(
    stepper: Path, program: Path, private: Path, transport: str, role: int
) -> None:
    check(steps(stepper, program, private, transport, role), transport)


@pytest.mark.parametrize("pattern", ALONE)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.usefixtures("need")
def test_instructions_of_one_thread(
    stepper: Path, program: Path, private: Path, transport: str, pattern: str
) -> None:
    counts = steps(stepper, program, private, transport, 0, "--pattern", pattern)
    check(counts, transport)
    # A message is one write and one read; into a full buffer it is tried to be written once more.
    calls = 3 if pattern == "full" else 2
    if transport not in RINGS:
        assert len(counts) == calls * 2 * ITERATIONS + 1


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_cold_runs_its_code_before_each_receive_and_nowhere_else(
    stepper: Path, program: Path, private: Path, transport: str
) -> None:
    counts = steps(stepper, program, private, transport, 0, "--cold")
    before_receive, before_send = counts[1:-1:2], counts[2:-1:2]
    assert (len(before_receive), len(before_send)) == (ITERATIONS, ITERATIONS - 1)
    assert min(before_receive) >= JUMPS
    assert max(before_send) <= MOST


def check(counts: list[int], transport: str) -> None:
    if transport in RINGS:
        # Their system calls lie in what is stepped over: how many there are says nothing.
        assert sum(counts) <= 2 * ITERATIONS * MOST
        return
    # A server whose client is slow may find a note of zero copy still missing, and look again.
    assert len(counts) >= 2 * ITERATIONS + 1
    # Before the first and after the last lie the marker and the clock.
    assert max(counts[1:-1]) <= MOST
