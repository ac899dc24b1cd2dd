# SPDX-License-Identifier: GPL-2.0-or-later
"""tools/reroute.c: a program's TCP connections become Unix sockets, and it does not notice."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runners.process import REPOSITORY, free_port
from runners.programs.place import TOOLS_FOLDER, answers
from tests.build import make
from tests.processes import wait_for

# Two listening sockets at one port, four processes that block in accept(), each echoes; what accept
# says of the client is what the connection says.
FORKS = """
import os, socket, sys
port = int(sys.argv[1])
four = socket.create_server(("127.0.0.1", port), backlog=1)
six = socket.create_server(("::1", port), family=socket.AF_INET6, backlog=1)
for listener in (four, six, four, six):
    if os.fork() == 0:
        break
while True:
    connection, address = listener.accept()
    peer = connection.getpeername()
    assert address == peer and address[1] != port, (address, peer, port)
    assert connection.getsockname()[1] == port
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    while data := connection.recv(64):
        connection.sendall(data)
    connection.close()
"""
# A process for each connection: it sends signals while the next connection is accepted.
FORK_EACH = """
import os, signal, socket, sys, time
for number, react in ((signal.SIGCHLD, signal.SIG_IGN), (signal.SIGUSR1, lambda *_: None)):
    signal.signal(number, react)
    signal.siginterrupt(number, False)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection, _ = listener.accept()
    if os.fork() == 0:
        while data := connection.recv(64):
            connection.sendall(data)
        for _ in range(20):
            os.kill(os.getppid(), signal.SIGUSR1)
            time.sleep(1e-5)
        os._exit(0)
    connection.close()
"""
# A port that is in use, and an address that is not this machine's, are told as TCP tells them; each
# family has a listener, which sees clients of its own; and one that is closed is in nobody's way.
BINDS = """
import errno, os, socket, sys
port = int(sys.argv[1])
def bound(family, host, *options):
    made = socket.socket(family)
    for option in ((socket.SOL_SOCKET, socket.SO_REUSEADDR), *options):
        made.setsockopt(*option, 1)
    return made, made.bind((host, port))
def refused(*what):
    try:
        bound(*what)
    except OSError as error:
        return errno.errorcode[error.errno]
share = socket.SOL_SOCKET, socket.SO_REUSEPORT
only = socket.IPPROTO_IPV6, socket.IPV6_V6ONLY
bound(socket.AF_INET, "127.0.0.1")[0].close()
four, _ = bound(socket.AF_INET, "0.0.0.0", share)
four.listen()
found = (
    refused(socket.AF_INET, "127.0.0.1"),
    refused(socket.AF_INET, "0.0.0.0", share),
    refused(socket.AF_INET6, "::"),
    refused(socket.AF_INET, "192.0.2.1"),
    refused(socket.AF_INET6, "::", only),
)
assert found == ("EADDRINUSE", None, "EADDRINUSE", "EADDRNOTAVAIL", None), found
six, _ = bound(socket.AF_INET6, "::", only, share)
six.listen()
for listener in (four, six):
    if os.fork() == 0:
        break
while True:
    connection, address = listener.accept()
    if connection.recv(64):  # not who only looks whether it listens
        connection.sendall(address[0].encode())
    connection.close()
"""
SEEN = """
import socket, sys
for host in ("127.0.0.1", "::1"):
    with socket.create_connection((host, int(sys.argv[1])), 10) as connection:
        connection.sendall(b"who am I?")
        assert connection.recv(64).decode() == host
"""
# A connection to each address, all at once: more than wait in the queue.
BLOCKING = """
import socket, sys
port = int(sys.argv[1])
for host in ("127.0.0.1", "::1", "localhost") * 2:
    with socket.create_connection((host, port), 10) as connection:
        assert connection.family in (socket.AF_INET, socket.AF_INET6)
        assert connection.getpeername()[1] == port
        assert connection.getsockname()[1] != port
        connection.sendall(b"hello")
        assert connection.recv(64) == b"hello"
others = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(2)]
"""
# One connection after the other.
AGAIN = """
import socket, sys
for _ in range(500):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as connection:
        connection.sendall(b"hello")
        assert connection.recv(64) == b"hello"
"""
# As nginx does, it registers its socket before it connects; and takes it out again.
EPOLL = """
import select, socket, sys
connection = socket.socket()
connection.setblocking(False)
epoll = select.epoll()
epoll.register(connection, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
connection.connect_ex(("127.0.0.1", int(sys.argv[1])))
assert epoll.poll(10) == [(connection.fileno(), select.EPOLLOUT)]
epoll.modify(connection, select.EPOLLIN)
connection.send(b"hello")
assert epoll.poll(10) == [(connection.fileno(), select.EPOLLIN)]
assert connection.recv(64) == b"hello"
epoll.unregister(connection)
"""
# Options read back what was set, also before connect(2); what TCP refuses fails; kTLS is not there.
OPTIONS = """
import errno, socket, sys
from socket import IPPROTO_IP, IPPROTO_TCP
connection = socket.socket()
assert connection.getsockopt(IPPROTO_TCP, socket.TCP_NODELAY) == 0
connection.setsockopt(IPPROTO_TCP, socket.TCP_NODELAY, 1)
connection.connect(("127.0.0.1", int(sys.argv[1])))
assert connection.getsockopt(IPPROTO_TCP, socket.TCP_NODELAY) != 0
connection.setsockopt(IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1234)
assert connection.getsockopt(IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1234
connection.setsockopt(IPPROTO_IP, socket.IP_TOS, 16)
assert connection.getsockopt(IPPROTO_IP, socket.IP_TOS) == 16
name = connection.getsockopt(IPPROTO_TCP, socket.TCP_CONGESTION, 16)
assert name.rstrip(b"\\0").isalnum(), name
assert connection.getsockopt(IPPROTO_TCP, socket.TCP_INFO, 104)[0] == 1
for option, value, error in (
    (socket.TCP_CONGESTION, b"no such", "ENOENT"), (socket.TCP_USER_TIMEOUT, -1, "EINVAL"),
    (99, 1, "ENOPROTOOPT"), (31, b"tls", "ENOENT"),
):
    try:
        connection.setsockopt(IPPROTO_TCP, option, value)
    except OSError as raised:
        assert errno.errorcode[raised.errno] == error, (option, raised)
    else:
        raise AssertionError(option)
connection.sendall(b"hello")
assert connection.recv(64) == b"hello"
"""
ZEROCOPY = """
import socket, sys
connection = socket.socket()
connection.setsockopt(socket.SOL_SOCKET, 60, 1)
connection.connect(("127.0.0.1", int(sys.argv[1])))
"""
# seccomp(2): SECCOMP_SET_MODE_FILTER with SECCOMP_FILTER_FLAG_NEW_LISTENER.
LISTENER = "import ctypes; ctypes.CDLL(None).syscall(317, 1, 8, None)"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    make(REPOSITORY / "runners/programs/tools")


def words(mode: str, port: int, folder: Path, role: str, program: str) -> list[str]:
    command = [sys.executable, "-c", program, str(port)]
    return [str(TOOLS_FOLDER / "reroute"), mode, str(port), str(folder / "socket"), role, *command]


def ends(mode: str, folder: Path, port: int) -> list[str]:
    """Where a server may listen."""
    return [*map(str, folder.glob("socket*"))] if mode == "unix" else [str(port)]


@contextmanager
def serving(mode: str, folder: Path, program: str = FORKS) -> Iterator[int]:
    """The server's port; it listens there, or at the socket instead of it."""
    port = free_port()
    server = subprocess.Popen(words(mode, port, folder, "server", program), process_group=0)
    try:
        assert wait_for(lambda: any(map(answers, ends(mode, folder, port))), 10)
        yield port
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def run(mode: str, port: int, folder: Path, program: str) -> tuple[int, str]:
    argv = words(mode, port, folder, "client", program)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    return done.returncode, done.stderr


@pytest.mark.parametrize("mode", ["tcp", "unix"])
def test_a_client_does_not_notice(mode: str, tmp_path: Path) -> None:
    with serving(mode, tmp_path) as port, socket.socket() as outside:
        for program in (BLOCKING, EPOLL):
            assert run(mode, port, tmp_path, program) == (0, "")
        assert (outside.connect_ex(("127.0.0.1", port)) == 0) == (mode == "tcp")


@pytest.mark.parametrize("mode", ["tcp", "unix"])
def test_options_are_tcps(mode: str, tmp_path: Path) -> None:
    with serving(mode, tmp_path) as port:
        assert run(mode, port, tmp_path, OPTIONS) == (0, "")


@pytest.mark.parametrize("mode", ["tcp", "unix"])
def test_a_port_is_bound_as_over_tcp(mode: str, tmp_path: Path) -> None:
    with serving(mode, tmp_path, BINDS) as port:
        assert run(mode, port, tmp_path, SEEN) == (0, "")


@pytest.mark.parametrize("mode", ["tcp", "unix"])
def test_a_signal_loses_no_connection(mode: str, tmp_path: Path) -> None:
    with serving(mode, tmp_path, FORK_EACH) as port:
        assert run(mode, port, tmp_path, AGAIN) == (0, "")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (ZEROCOPY, "without a copy"),
        (LISTENER, "listener"),
        ("", "has not used the port"),
        ("import sys; sys.exit(3)", ""),
    ],
)
def test_what_cannot_be_rerouted_is_told(program: str, reason: str, tmp_path: Path) -> None:
    with serving("unix", tmp_path) as port:
        status, sentence = run("unix", port, tmp_path, program)
    assert (status, bool(sentence)) == ((1, True) if reason else (3, False))
    assert reason in sentence
