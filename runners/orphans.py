# SPDX-License-Identifier: GPL-2.0-or-later
"""What loses its parent below us becomes our child, and does not outlive us.

A program's keepers (programs/tools/keep.c) see to that. But what runs as the same user can kill
them, and us too: so root's process, which that user cannot kill, does as we do.
"""

import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SET_SUBREAPER, GET_SUBREAPER = 36, 37
ENDING_SECONDS, ORPHANS_POLL = 5.0, 0.02
C_LIBRARY = ctypes.CDLL(None)


def adopts() -> bool:
    """Whether orphans below us become our children."""
    answer = ctypes.c_int()
    C_LIBRARY.prctl(GET_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


def adopt(wanted: bool) -> None:
    """Have orphans below us become our children from now on, or those of the next above us."""
    C_LIBRARY.prctl(SET_SUBREAPER, int(wanted), 0, 0, 0)


def children() -> set[int]:
    """Our children, also those that have ended and wait to be seen."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it has ended
            # proc_pid_stat(5): after the name, which may be any bytes, come state and ppid.
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            if int(fields[1]) == os.getpid():
                found.add(int(entry.name))
    return found


def end_orphans(spared: Collection[int] = ()) -> None:
    """Kill our children but those spared, and what becomes our child by that.

    We cannot kill a program of another user's, and do not wait long for it.
    """
    last = time.monotonic() + ENDING_SECONDS
    while (orphans := children().difference(spared)) and time.monotonic() < last:
        for pid in orphans:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(ORPHANS_POLL)


@contextmanager
def ending_orphans() -> Iterator[None]:
    """Whatever the block starts ends with it, but what the caller already had."""
    before, adopted = children(), adopts()
    adopt(True)
    try:
        yield
    finally:
        end_orphans(before)
        adopt(adopted)
