# SPDX-License-Identifier: GPL-2.0-or-later
"""What cannot run, or goes wrong on a machine: one sentence, a status, and nothing left."""

import resource
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import captured

from .workload import Ended, run

# which of them cannot hold a message of 1 MiB while nobody reads
BOUNDED = ["unix", "unix-abstract", "unix-pair", "tcp", "tcp-nagle", "pipe", "fifo", "shm"]


def check_failed(ended: Ended, status: int, sentence: str, private: Path) -> None:
    assert (ended.status, ended.stdout) == (status, "")
    assert ended.stderr.startswith("pathcost-workload: ") and ended.stderr.count("\n") == 1
    assert sentence in ended.stderr
    assert list(private.iterdir()) == []


# options after `--transport unix --dir PRIVATE --messages 46`, and a word of the sentence
BAD = {
    "unknown transport": (["--transport", "pigeon"], 'unknown --transport "pigeon"'),
    "size 0": (["--size", "0"], "--size must be a whole number from 1 to 1073741824"),
    "odd messages": (["--messages", "23"], "must be multiples of 2"),
    "rate of another pattern": (["--rate", "5"], "pattern pingpong has no --rate"),
    "slower than its time": (
        ["--pattern", "paced", "--rate", "1", "--messages", "160"],
        "--timeout is 60",
    ),
    "CPU not there": (["--cpus", "1023"], "may not run on CPU 1023"),
    "spinning on one CPU": (["--wait", "spin"], "two sides that spin need a CPU each"),
    "spinning under SCHED_FIFO": (
        ["--wait", "spin", "--placement", "cross-cpu", "--sched", "fifo"],
        "spin",  # where there is one CPU, that is the reason
    ),
    "descriptor over TCP": (
        ["--transport", "tcp", "--also", "descriptor"],
        "--also descriptor is for unix sockets, not for tcp",
    ),
    "peek where a pattern connects": (
        ["--pattern", "connect", "--also", "peek"],
        "--also peek needs two processes, one connection",
    ),
    "no such directory": (
        ["--dir", "/nonexistent/dir"],
        "--dir /nonexistent/dir: No such file or directory",
    ),
    "directory of everybody": (["--dir", "/tmp"], "is not private"),
    "gate not open": (["--gate", "999"], "descriptor 999: Bad file descriptor"),
    "control without answers": (["--control", "1"], "numbers from 3 on"),
    "samples over a file": (["--samples", "/dev/null"], "/dev/null: File exists"),
    "unknown option": (["--speed", "11"], "unknown option --speed"),
    "value missing": (["--size"], "--size needs a value"),
}


@pytest.mark.parametrize("case", BAD)
def test_refused(sanitized: Path, private: Path, case: str) -> None:
    options, sentence = BAD[case]
    good = ["--transport", "unix", "--dir", private, "--messages", 46]
    check_failed(run(sanitized, *good, *options), 2, sentence, private)


def test_socket_path_up_to_the_limit(program: Path, tmp_path: Path) -> None:
    """It may fill sun_path to its last byte."""
    room = 107 - len("/socket") - len(str(tmp_path)) - 1
    for more, status in ((0, 0), (1, 2)):
        directory = tmp_path / ("d" * (room + more))
        directory.mkdir(mode=0o700)
        ended = run(program, "--transport", "unix", "--messages", 46, "--dir", directory)
        assert ended.status == status, ended.stderr
        assert list(directory.iterdir()) == []
    assert "choose a --dir of at most 100 bytes" in ended.stderr


@pytest.mark.parametrize(
    ("where", "status", "sentence"),
    [
        ("&-", 2, "descriptor 1: Bad file descriptor"),  # else the peer would get the result
        ("/dev/full", 1, "write the result: No space left on device"),
    ],
)
def test_stdout_that_takes_nothing(
    program: Path, private: Path, where: str, status: int, sentence: str
) -> None:
    script = f'"$0" --transport unix --dir "$1" --samples "$1/samples" >{where}'
    argv = ["sh", "-c", script, str(program), str(private)]
    ended = captured(argv)
    check_failed(Ended(ended.returncode, ended.stdout, ended.stderr), status, sentence, private)


def limit(what: int, most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (most, most))


@pytest.mark.slow
@pytest.mark.parametrize("most", range(5, 40, 3))
def test_no_descriptor_left(program: Path, private: Path, most: int) -> None:
    """Wherever it happens: in one of the two, and only that one speaks."""
    options = ["--transport", "unix", "--pattern", "clients", "--clients", 64]
    options += ["--messages", 1280, "--warmup", 0, "--dir", private]
    ended = run(program, *options, before=limit(resource.RLIMIT_NOFILE, most))
    check_failed(ended, 1, "Too many open files", private)


def test_no_memory_left(program: Path, private: Path) -> None:
    options = ["--transport", "tcp", "--size", 64 << 20, "--messages", 80, "--dir", private]
    ended = run(program, *options, before=limit(resource.RLIMIT_AS, 32 << 20))
    check_failed(ended, 1, "mmap of 67108864 bytes: Cannot allocate", private)


@pytest.mark.slow
@pytest.mark.parametrize("transport", BOUNDED)
def test_full_with_one_thread(sanitized: Path, private: Path, transport: str) -> None:
    """One thread that waits for room would wait for itself."""
    options = ["--transport", transport, "--pattern", "selfloop", "--size", 16 << 20]
    options += ["--messages", 4, "--warmup", 0, "--dir", private]
    ended = run(sanitized, *options)
    check_failed(ended, 2, f"{transport} holds 0 messages of 16777216 bytes", private)


@pytest.mark.slow
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
        assert "Address already in use" in ended.stderr
        client.connect(str(path))
