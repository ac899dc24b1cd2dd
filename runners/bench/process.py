# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts a peer pinned and in a session of its own, and ends all its processes; keeps CPUs busy."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.process import RunError, command, free_port

PATIENCE = 60.0  # s, for a run of a second or two
Process = subprocess.Popen[str]
SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while True:
    pass
"""


@dataclass(frozen=True)
class Where:
    """The CPUs of the two sides."""

    placement: str
    client: int
    server: int


@contextlib.contextmanager
def _started(argv: Sequence[str], cpu: int | None, output: int) -> Iterator[Process]:
    """A session whose processes all end with the block."""
    pinned = argv if cpu is None else ["taskset", "-c", str(cpu), *argv]
    process = subprocess.Popen(
        command(pinned), stdin=subprocess.DEVNULL, stdout=output,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def client(argv: Sequence[str], where: Where | None, levels: int) -> str:
    """Run a client; its output. Without `where` it pins itself.

    With `levels` it forks its own server, that many forks down, which is moved to its own CPU.
    """
    with _started(argv, where.client if where else None, subprocess.PIPE) as process:
        if where and levels and where.server != where.client:
            _move(process, argv[0], levels, where.server)
        try:
            text, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise RunError(f"{argv[0]} did not end within {PATIENCE:.0f} s.") from error
    if process.returncode != 0:
        last = text.strip().splitlines()[-1:] or ["nothing"]
        raise RunError(f"{argv[0]} failed (status {process.returncode}): {last[0]}")
    return text


@contextlib.contextmanager
def server_on_free_port(
    argv: Callable[[int], Sequence[str]], where: Where, kind: str
) -> Iterator[tuple[Process, int]]:
    """Run a peer's server until the block ends; its process and its port of the loopback."""
    port = free_port(socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    command = argv(port)
    with _started(command, where.server, subprocess.DEVNULL) as process:
        deadline = time.monotonic() + PATIENCE
        # To the server a connection would be a client, so ask the kernel.
        while not _is_open(port, kind):
            if process.poll() is not None:
                raise RunError(f"{command[0]} ended at once (status {process.returncode}).")
            if time.monotonic() > deadline:
                raise RunError(f"{command[0]} did not open its port within {PATIENCE:.0f} s.")
            time.sleep(0.01)
        yield process, port


def _is_open(port: int, kind: str) -> bool:
    """Whether a socket has this local port; the table shows addresses as `0100007F:2B67`."""
    lines = Path(f"/proc/net/{kind}").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") for line in lines)


def _move(process: Process, name: str, levels: int, cpu: int) -> None:
    """Pin the process that is `levels` forks below ours; so far it shares its parent's CPU."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        below = [process.pid]
        for _ in range(levels):
            below = [int(child) for parent in below for child in _children(parent)]
        if len(below) == 1:
            os.sched_setaffinity(below[0], {cpu})
            return
        time.sleep(0.002)
    raise RunError(f"{name} forked no server that could be pinned.")


def _children(parent: int) -> list[str]:
    with contextlib.suppress(OSError):  # it has ended
        return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return []


def cpu_seconds(run: Callable[[], object]) -> tuple[float, float]:
    """What the processes that `run` starts and waits for spend in user space and in the kernel."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


@contextlib.contextmanager
def kept_awake(cpus: Iterable[int]) -> Iterator[None]:
    """Run one spinning process of the idle policy on each of `cpus` until the block ends.

    Across CPUs, most of a round trip is the way out of idle. On a virtual machine that way leads
    through the hypervisor, and differs by a tenth and more from run to run. A thread of the
    SCHED_IDLE policy (sched(7)) keeps a CPU busy and gives way to any other thread that wakes up
    there.
    """
    with contextlib.ExitStack() as stack:
        for cpu in sorted(set(cpus)):
            argv = command([sys.executable, "-I", "-c", SPIN, str(cpu)])
            spinner = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.DEVNULL))
            stack.callback(spinner.kill)
        yield
