# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes wrong on a machine: each time one sentence, a status, and nothing left."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from .workload import Ended, run

pytestmark = pytest.mark.slow
# which of them cannot hold a message of 1 MiB while nobody reads
BOUNDED = ["unix", "unix-abstract", "unix-pair", "tcp", "tcp-nagle", "pipe", "fifo", "shm"]


def check_failed(ended: Ended, status: int, sentence: str, private: Path) -> None:
    assert (ended.status, ended.stdout) == (status, "")
    assert ended.stderr.startswith("pathcost-workload: ") and ended.stderr.count("\n") == 1
    assert sentence in ended.stderr
    assert list(private.iterdir()) == []


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
