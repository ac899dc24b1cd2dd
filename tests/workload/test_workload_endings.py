# SPDX-License-Identifier: GPL-2.0-or-later
"""However a cell ends, no process, no socket and no half-written file is left."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.processes import is_gone

from .conftest import Fault
from .workload import TRANSPORTS, InWindow, run


def caught(program: Path, private: Path, transport: str, *more: object) -> InWindow:
    where = ["--placement", "free"] if transport == "shm-spin" else []
    return InWindow(
        program, "--transport", transport, "--dir", private, "--warmup", 6, *where, *more
    )


# Who gets which signal → the status, what is said, and what the gate still gets: it must not stay
# open. A client dies by its signal, as a shell expects (130, 143); after SIGKILL nothing can be
# cleaned up, so nothing may need it.
ENDS = {
    ("server", signal.SIGKILL): (1, "the server was killed by signal 9 (Killed)", b"0"),
    ("client", signal.SIGKILL): (-signal.SIGKILL, "", b""),
    ("client", signal.SIGINT): (-signal.SIGINT, "", b"0"),
    ("client", signal.SIGTERM): (-signal.SIGTERM, "", b"0"),
    ("client", signal.SIGHUP): (-signal.SIGHUP, "", b"0"),
}


def check_end(running: InWindow, private: Path, status: int, words: str, gate: bytes) -> None:
    ended = running.end()
    assert (ended.status, ended.stdout) == (status, "")
    assert ended.stderr == (f"pathcost-workload: {words}\n" if words else "")
    assert running.rest_of_gate() == gate
    assert is_gone(running.server)
    assert list(private.iterdir()) == []


@pytest.mark.parametrize("end", ENDS, ids=str)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.usefixtures("need")
def test_signal(
    sanitized: Path, private: Path, transport: str, end: tuple[str, signal.Signals]
) -> None:
    running = caught(sanitized, private, transport)
    os.kill(running.server if end[0] == "server" else running.process.pid, end[1])
    check_end(running, private, *ENDS[end])


def test_an_outsiders_datagram_is_noticed(program: Path, private: Path) -> None:
    """It takes the place of one of ours, and all counts agree."""
    options = ["--transport", "unix-dgram", "--pattern", "writers", "--placement", "same-cpu"]
    running = InWindow(program, *options, messages=400_000)
    names = Path(f"/proc/{running.server}/net/unix").read_text().split()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as outsider:
        for name in (name for name in names if name.startswith("@pathcost-")):
            outsider.sendto(bytes(64), name.replace("@", "\0"))
    check_end(running, private, 1, "another process has sent a message too", b"0")


def test_server_stopped_is_a_timeout(program: Path, private: Path) -> None:
    running = caught(program, private, "unix", "--timeout", 1, "--placement", "free")
    os.kill(running.server, signal.SIGSTOP)
    check_end(running, private, 1, "timed out after 1 s while measuring", b"0")


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
