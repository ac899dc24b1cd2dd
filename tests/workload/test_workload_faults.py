# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong on a machine: each time one sentence, a status, and nothing left."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from .workload import Ended, run

pytestmark = pytest.mark.slow
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
# which of them cannot hold a message of 1 MiB while nobody reads
BOUNDED = ["unix", "unix-abstract", "unix-pair", "tcp", "tcp-nagle", "pipe", "fifo", "shm"]
FEW_PORTS = 10


def check_failed(ended: Ended, status: int, sentence: str, private: Path) -> None:
    assert (ended.status, ended.stdout) == (status, "")
    assert ended.stderr.startswith("pathcost-workload: ") and ended.stderr.count("\n") == 1
    assert sentence in ended.stderr
    assert list(private.iterdir()) == []


def few_ports() -> None:
    """A network of its own, with a loopback and ten local ports."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    settings = Path("/proc/sys/net/ipv4")
    (settings / "ip_local_port_range").write_text(f"61000 {61000 + FEW_PORTS - 1}")
    (settings / "tcp_tw_reuse").write_text("0")


@pytest.mark.root
def test_ports_exhausted(program: Path, private: Path) -> None:
    options = ["--transport", "tcp", "--pattern", "connect", "--warmup", 0]
    options += ["--dir", private, "--messages"]
    enough = run(program, *options, 2, before=few_ports)
    assert enough.result["round_trips"] == 1
    ended = run(program, *options, 4 * FEW_PORTS, before=few_ports)
    check_failed(ended, 1, "no local port is left for another connection", private)


def limit(what: int, most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (most, most))


@pytest.mark.parametrize("most", range(5, 40, 3))
def test_no_descriptor_left(program: Path, private: Path, most: int) -> None:
    """Wherever it happens: in one of the two, and only that one speaks."""
    options = ["--transport", "unix", "--pattern", "clients", "--clients", 64]
    options += ["--messages", 1280, "--warmup", 0, "--dir", private]
    ended = run(program, *options, before=limit(resource.RLIMIT_NOFILE, most))
    check_failed(ended, 1, "Too many open files", private)


@pytest.mark.parametrize("pattern", ["pingpong", "clients"])
def test_no_memory_left(program: Path, private: Path, pattern: str) -> None:
    options = ["--transport", "tcp", "--size", 64 << 20, "--messages", 80, "--warmup", 0]
    options += ["--pattern", pattern, "--dir", private]
    ended = run(program, *options, before=limit(resource.RLIMIT_AS, 32 << 20))
    check_failed(ended, 1, "mmap of a message buffer of 67108864 bytes: Cannot allocate", private)


def test_no_thread_left(program: Path, private: Path) -> None:
    options = ["--transport", "tcp", "--pattern", "clients", "--clients", 400, "--warmup", 0]
    options += ["--messages", 1600, "--dir", private]
    ended = run(program, *options, before=limit(resource.RLIMIT_AS, 32 << 20))
    check_failed(ended, 1, "start a thread for each client", private)


@pytest.mark.parametrize("transport", BOUNDED)
def test_full_with_one_thread(sanitized: Path, private: Path, transport: str) -> None:
    """One thread that waits for room would wait for itself."""
    options = ["--transport", transport, "--pattern", "selfloop", "--size", 16 << 20]
    options += ["--messages", 4, "--warmup", 0, "--dir", private]
    ended = run(sanitized, *options)
    check_failed(ended, 2, f"{transport} does not hold a message of 16777216 bytes", private)


@pytest.mark.parametrize("transport", [*BOUNDED, "unix-dgram", "unix-seqpacket", "udp", "mq"])
def test_full_with_many_in_flight(sanitized: Path, private: Path, transport: str) -> None:
    """Both sides would wait for room that only the other can make."""
    options = ["--transport", transport, "--pattern", "pipeline", "--in-flight", 65536]
    options += ["--size", 8192, "--messages", 4, "--warmup", 0, "--dir", private]
    ended = run(sanitized, *options)
    check_failed(ended, 2, f"{transport} holds ", private)
    held = int(ended.stderr.split(f"{transport} holds ")[1].split()[0])
    assert 0 < held < 65536


def test_live_servers_path_is_left_alone(program: Path, private: Path) -> None:
    """Not only is the file still there: who listens at it can still be reached."""
    path = private / "socket"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(path))
        server.listen()
        ended = run(program, "--transport", "unix", "--messages", 46, "--dir", private)
        assert (ended.status, ended.stdout) == (2, "")
        assert "exists already" in ended.stderr
        client.connect(str(path))


def test_somebodys_fifo_is_left_alone(program: Path, private: Path) -> None:
    path = private / "fifo"
    os.mkfifo(path)
    ended = run(program, "--transport", "fifo", "--messages", 46, "--dir", private)
    assert (ended.status, ended.stdout) == (2, "")
    assert "exists already" in ended.stderr
    assert path.is_fifo()
