# SPDX-License-Identifier: GPL-2.0-or-later
"""Only one run measures at a time, and a dead one does not block the next."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from runners import lock
from runners.errors import RunError

HOLDER = """
import sys, time
from runners import lock
lock.NAME = "\\0" + sys.argv[1]
with lock.measuring():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> subprocess.Popen[str]:
    # A name of the test's own: a run may be measuring on this machine.
    name = f"pathcost-test-{os.getpid()}"
    monkeypatch.setattr(lock, "NAME", f"\0{name}")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, name],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_each_other_run_is_told_who_measures(holder: subprocess.Popen[str]) -> None:
    try:
        for _ in range(5):
            with pytest.raises(RunError, match=f"process {holder.pid}"), lock.measuring():
                pass
    finally:
        holder.kill()
        holder.wait()


def test_a_holder_that_answers_nobody_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to a full queue would block for ever."""
    monkeypatch.setattr(lock, "NAME", f"\0pathcost-test-full-{os.getpid()}")

    def overdue(*_: object) -> None:
        raise AssertionError("it waits for the holder")  # no OSError: that is an answer

    with (
        socket.socket(socket.AF_UNIX) as held,
        socket.socket(socket.AF_UNIX) as first,
        socket.socket(socket.AF_UNIX) as second,
    ):
        held.bind(lock.NAME)
        held.listen(0)
        first.connect(lock.NAME)
        second.setblocking(False)
        with pytest.raises(BlockingIOError):
            second.connect(lock.NAME)
        before = signal.signal(signal.SIGALRM, overdue)
        signal.alarm(10)
        try:
            with pytest.raises(RunError, match="which does not answer"), lock.measuring():
                pass
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)


def test_a_killed_run_frees_the_lock(holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with lock.measuring():
        pass
