# SPDX-License-Identifier: GPL-2.0-or-later
"""`keeper.py PROGRAM [ARGUMENT …]`: runs a server, and ends it with all that it has started.

The server ends when our input ends, that is, when the runner stops it or dies; when we are told to
end; or by itself, which ends us with its status. It first gets SIGTERM, so that it can remove what
outlives a process (PostgreSQL's shared memory); what is left after PATIENCE gets SIGKILL. Whatever
it starts stays below us, because we are a subreaper (prctl(2)). If it succeeds at once and leaves a
daemon, the daemon is the server.
"""

import ctypes
import os
import select
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 5.0  # seconds
MOST_LOG_BYTES = 64 << 20  # of what the server prints
LOOK_SECONDS = 0.5  # so often we look how much that is
ENDING_POLL = 0.02


def descendants(pid: int) -> list[int]:
    """The processes that `pid` has started, and theirs, as /proc has them now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended
                # proc_pid_stat(5): after the name, which may be any bytes, come state and ppid.
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    pids, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        pids += below
        todo += below
    return pids


def shorten(log: int) -> None:
    """Empty a file, where it has too much: to who appends to it, it begins anew."""
    status = os.fstat(log)
    if stat.S_ISREG(status.st_mode) and status.st_size > MOST_LOG_BYTES:
        os.ftruncate(log, 0)


def alive() -> list[int]:
    """What is below us and lives."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return descendants(os.getpid())


def end_daemon() -> None:
    """Tell all that is below us to end, and wait for it."""
    for pid in alive():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    last = time.monotonic() + PATIENCE
    while alive() and time.monotonic() < last:
        time.sleep(ENDING_POLL)


def main(argv: list[str]) -> int:
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("this kernel has no subreaper (prctl(2))")
    woken, wake = os.pipe()
    signal.signal(signal.SIGTERM, lambda *_: os.write(wake, b"."))
    server = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *argv], stdin=subprocess.DEVNULL
    )
    ended = os.pidfd_open(server.pid)
    while not (ready := select.select([sys.stdin, woken, ended], [], [], LOOK_SECONDS)[0]):
        shorten(sys.stdout.fileno())
    if ready == [ended] and server.wait() == 0:
        while alive() and not select.select([sys.stdin, woken], [], [], LOOK_SECONDS)[0]:
            shorten(sys.stdout.fileno())
        end_daemon()
    server.terminate()
    select.select([ended], [], [], PATIENCE)
    while below := descendants(os.getpid()):
        for pid in below:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            ended_pid, status = os.wait()
            if ended_pid == server.pid:
                server.returncode = os.waitstatus_to_exitcode(status)
    status = server.returncode or 0
    return status if status >= 0 else 128 - status  # as a shell says it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
