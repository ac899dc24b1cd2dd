# SPDX-License-Identifier: GPL-2.0-or-later
"""One measurement at a time, as two at once would spoil both.

The lock is a flock(2) on the root folder of tracefs, which only root can open and of which a kernel
has one: so it also holds between containers. A kernel without tracefs, or a container that may not
mount it, has a file of its own, and there is no lock between such containers. Every process that
measures inherits the descriptor, so the lock is free when the last of them has ended.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.host.scripts import TRACEFS
from runners.process import RunError
from runners.workspace import ROOT

VARIABLE = "PATHCOST_LOCK"  # in the environment of who inherits it: the descriptor's number
HOLDER = "holder"
FREE_SECONDS = 10  # a killed run's probes take a moment to go


@contextmanager
def measuring(place: Path = TRACEFS, notes: Path = ROOT) -> Iterator[None]:
    """Hold the lock. Raises RunError, naming the holder, where another run has it."""
    notes.mkdir(mode=0o711, exist_ok=True)
    holder = notes / HOLDER
    if (place / "events").is_dir():
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    else:
        descriptor = os.open(holder, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        _take(descriptor, holder)
        holder.write_text(str(os.getpid()), encoding="ascii")
        os.environ[VARIABLE] = str(descriptor)
        yield
    finally:
        if os.environ.pop(VARIABLE, ""):
            holder.write_text("", encoding="ascii")
        os.close(descriptor)


def _take(descriptor: int, holder: Path) -> None:
    deadline = time.monotonic() + FREE_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = _who(holder)
            if who != DYING or time.monotonic() > deadline:
                raise RunError(
                    f"another run is measuring on this machine ({who}), and two at once would "
                    "spoil both: wait until it has ended."
                ) from None
            time.sleep(0.05)


DYING = "its first process has died, and another has not ended yet"


def _who(holder: Path) -> str:
    try:
        pid = int(holder.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return "in another container"
    try:
        started = Path(f"/proc/{pid}").stat().st_mtime
    except OSError:
        return DYING
    return f"process {pid}, for {max(0, int((time.time() - started) // 60))} min"


def inherited() -> tuple[int, ...]:
    """The lock's descriptor, for the processes that we start; nothing where there is no lock."""
    return tuple(int(number) for number in os.environ.get(VARIABLE, "").split())
