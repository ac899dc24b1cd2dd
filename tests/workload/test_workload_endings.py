# SPDX-License-Identifier: GPL-2.0-or-later
"""However a cell ends, no process, no socket and no half-written file is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Fault
from .workload import TRANSPORTS, InWindow, is_gone, run


@pytest.fixture(autouse=True)
def _possible(request: pytest.FixtureRequest, need: Callable[[str], None]) -> None:
    if "transport" in request.fixturenames:
        need(request.getfixturevalue("transport"))


def caught(program: Path, private: Path, transport: str, *more: object) -> InWindow:
    where = ["--placement", "free"] if transport == "shm-spin" else []
    return InWindow(
        program, "--transport", transport, "--dir", private, "--warmup", 6, *where, *more
    )


def check_nothing_left(running: InWindow, private: Path) -> None:
    assert is_gone(running.server)
    assert list(private.iterdir()) == []


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_server_killed(sanitized: Path, private: Path, transport: str) -> None:
    running = caught(sanitized, private, transport)
    os.kill(running.server, signal.SIGKILL)
    ended = running.end()
    assert ended.status == 1
    assert ended.stdout == ""
    assert ended.stderr == "pathcost-workload: the server was killed by signal 9 (Killed)\n"
    assert running.rest_of_gate() == b"0", "the gate must not stay open"
    check_nothing_left(running, private)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_signal(program: Path, private: Path, transport: str, number: signal.Signals) -> None:
    running = caught(program, private, transport)
    running.process.send_signal(number)
    ended = running.end()
    assert ended.status == -number, "dies by the signal, as a shell expects (130, 143)"
    assert ended.stdout == ended.stderr == ""
    assert running.rest_of_gate() == b"0"
    check_nothing_left(running, private)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_client_killed(program: Path, private: Path, transport: str) -> None:
    """Nothing can be cleaned up after SIGKILL, so nothing may need it."""
    running = caught(program, private, transport)
    running.process.kill()
    ended = running.end()
    assert ended.stdout == ended.stderr == ""
    assert running.rest_of_gate() == b""
    check_nothing_left(running, private)


def test_server_stopped_is_a_timeout(program: Path, private: Path) -> None:
    running = caught(program, private, "unix", "--timeout", 1, "--placement", "free")
    os.kill(running.server, signal.SIGSTOP)
    ended = running.end()
    assert ended.status == 1
    assert ended.stdout == ""
    assert ended.stderr == "pathcost-workload: timed out after 1 s while measuring\n"
    assert running.rest_of_gate() == b"0"
    check_nothing_left(running, private)


FAULTS = {
    "token": "an unknown process is at the other end of the transport: its token is wrong",
    "payload": "are not those that the peer sent in the window",
    "payload --verify": "message 0 is not what the peer sent",
    "count": "1280 bytes were sent, 20 and 1281 received",
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("transport", ["unix", "tcp", "udp", "pipe"])
def test_fault_is_found(
    sanitized: Path, private: Path, fault: Fault, transport: str, name: str
) -> None:
    """Each check can fail."""
    arguments = ["--transport", transport, "--messages", 40, "--dir", private]
    kind, *more = name.split()
    ended = run(sanitized, *arguments, "--placement", "free", *more, environment=fault(kind))
    assert (ended.status, ended.stdout) == (1, "")
    assert FAULTS[name] in ended.stderr and ended.stderr.count("\n") == 1
    assert list(private.iterdir()) == []
