# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks by flock(2): of the cache, of what is made once, and of the one run that may measure.

The kernel frees a lock when the last process that has its descriptor ends, however it ends.
"""

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from probes.callsite import TRACEFS
from probes.files import open_folder
from runners.process import ROOT, RunError, stopping

LOCK_VARIABLE = "PATHCOST_LOCK"  # in the environment of who inherits it: the descriptor's number
HOLDER = "holder"
INSTANCES = "instances"  # the folder of tracefs that is locked
FREE_SECONDS = 10  # a killed run's probes take a moment to go
WAIT_SECONDS = 1800  # for what another start makes: two programs' LONGEST_SECONDS
POLL = 0.05  # seconds
MEASURED = "another run is measuring on this machine"

_held: dict[Path, int] = {}


def hold(folder: Path, say: Callable[[str], None] = lambda _: None, *, alone: bool = False) -> None:
    """Keep others from clearing this cache until our process ends. Where it lacks, it is made.

    To clear it, be `alone`. Raises RunError, OSError.
    """
    if folder in _held:
        return
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = open_lock(folder / "in-use")
    if alone:
        lock(descriptor, f"another run uses the cache {folder}: wait for its end.")
    else:
        lock(descriptor, f"waiting: somebody clears {folder}", say, fcntl.LOCK_SH)
    _held[folder] = descriptor


def open_lock(path: Path) -> int:
    """Open a file to lock, which no other user can open and so hold. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO would wait for a reader
    descriptor = os.open(path, flags, 0o600)
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        os.fchmod(descriptor, 0o600)
    return descriptor


def lock(
    descriptor: int, taken: str, say: Callable[[str], None] | None = None, how: int = fcntl.LOCK_EX
) -> None:
    """Lock an open file. Where it is `taken`, say so and wait for WAIT_SECONDS.

    Raises RunError, which names the holder: after that, or at once with nobody to tell.
    """
    deadline = time.monotonic() + (WAIT_SECONDS if say else 0)
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return
        who = holder_of(descriptor)
        if say is None:
            raise RunError(f"{taken.rstrip('.')} ({who})." if who else taken)
        if time.monotonic() > deadline:
            raise RunError(
                f"after {WAIT_SECONDS / 60:.0f} minutes still {taken} ({who or 'it is not seen'}): "
                "end that process, and try again."
            )
        say(f"{taken} ({who})" if who else taken)
        if stopping.wait(POLL):
            raise KeyboardInterrupt


def holder_of(descriptor: int) -> str:
    """The process that has locked an open file: `process 12 (sleep) of user 1000`.

    It is empty for a process of another container, which this one does not see.
    """
    status = os.fstat(descriptor)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    try:
        listed = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return ""
    held = rf"^\d+: FLOCK .* (\d+) {device}:{status.st_ino} "  # a line with -> waits for it
    match = re.search(held, listed, re.MULTILINE)
    if match is None:
        return ""
    process = Path("/proc", match[1])
    try:
        name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
        return f"process {match[1]} ({name}) of user {process.stat().st_uid}"
    except OSError:
        return f"a child of process {match[1]}, which has ended"


@contextmanager
def measuring(place: Path = TRACEFS, notes: Path = ROOT) -> Iterator[None]:
    """Hold the lock of the one run that may measure. Raises RunError, naming who has it.

    It is a flock(2) on a folder of tracefs, of which a kernel has one: so it also holds between
    containers; without tracefs, on a file. The folder is one that others cannot open where the root
    of tracefs is open to all, as with mode=755. Every process that measures inherits the
    descriptor, so the lock is free when the last of them has ended.
    """
    notes.mkdir(mode=0o711, exist_ok=True)
    holder = notes / HOLDER
    if (place / INSTANCES).is_dir():
        descriptor = open_folder(place / INSTANCES)
    else:
        descriptor = open_lock(holder)
    try:
        deadline = time.monotonic() + FREE_SECONDS
        while not _taken(descriptor, holder, deadline):
            time.sleep(POLL)
        holder.write_text(str(os.getpid()), encoding="ascii")
        os.environ[LOCK_VARIABLE] = str(descriptor)
        yield
    finally:
        if os.environ.pop(LOCK_VARIABLE, ""):
            holder.write_text("", encoding="ascii")
        os.close(descriptor)


def _taken(descriptor: int, holder: Path, deadline: float) -> bool:
    """Take the lock. False where its first process has died, and another has not ended yet."""
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    pid = holder.read_text(encoding="ascii") if holder.exists() else ""
    if pid and not Path("/proc", pid).exists() and time.monotonic() < deadline:
        return False
    name = holder_of(descriptor) or (f"process {pid}" if pid else "in another container")
    raise measured_by(name)


def measured_by(name: str) -> RunError:
    """The error of a run that would spoil another's figures."""
    return RunError(
        f"{MEASURED} ({name}), and two at once would spoil both: wait until it has ended."
    )


def refuse_beside_root() -> None:
    """Raise RunError where a run of root's is measuring.

    Who is not root reads who holds root's lock, and cannot take it.
    """
    try:
        pid = (ROOT / HOLDER).read_text(encoding="ascii")
    except OSError:
        return  # no run of root's was here
    if pid and Path("/proc", pid).exists():
        raise measured_by(f"process {pid}")


def inherited() -> tuple[int, ...]:
    """The lock's descriptor, for the processes that we start; nothing where there is no lock."""
    return tuple(int(number) for number in os.environ.get(LOCK_VARIABLE, "").split())
