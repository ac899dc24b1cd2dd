# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting for what other processes do, and for their end."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SECONDS = 120.0  # until a test gives up; no test asserts how long anything took


def captured(argv: Sequence[object], **given: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with what it printed as text."""
    return subprocess.run([*map(str, argv)], capture_output=True, text=True, **given)


def wait_for(seen: Callable[[], object], seconds: float = SECONDS) -> bool:
    """Poll until `seen`; whether it came within these seconds."""
    deadline = time.monotonic() + seconds
    while not (came := bool(seen())) and time.monotonic() < deadline:
        time.sleep(0.01)
    return came


@contextmanager
def running(*argv: object, **given: Any) -> Iterator[subprocess.Popen[str]]:
    """A program that runs beside the block, and ends with it."""
    with subprocess.Popen([*map(str, argv)], text=True, **given) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def repeating(step: Callable[[], object], pause: float = 0.0) -> Iterator[None]:
    """A thread that does a step again and again while the block runs."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(pause):
            step()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def is_dead(pid: int | str) -> bool:
    """Whether a process has ended; a zombie waits only for somebody else's wait()."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def is_gone(pid: int | str) -> bool:
    """Whether a process ends."""
    return wait_for(lambda: is_dead(pid), 20)


def living(word: str, name: str = "") -> list[int]:
    """Processes with this word in their environment, and `name` in their command line."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = os.fsdecode((proc / "cmdline").read_bytes())
            if line and name in line and word.encode() in (proc / "environ").read_bytes():
                found.append(int(proc.name))
    return found
