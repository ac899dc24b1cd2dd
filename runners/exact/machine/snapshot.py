# SPDX-License-Identifier: GPL-2.0-or-later
"""Stores the state of a machine whose kernel has become quiet, so that it boots only once.

The guest stops its own machine at a fixed instruction, through QEMU's pvpanic device. QEMU then
writes memory and devices to a file (a migration without a destination). A machine resumed from the
file executes the same instructions as a machine that was never stopped.
"""

import json
import socket
import time
from pathlib import Path
from typing import IO, Any

from runners.exact.machine.boot import DONE, READY, EmulatedMachine, failure, run_qemu
from runners.guest import GuestError

TRIES = 6
# The first program prints the first line on the console, after some 8 s on a quiet machine and 40 s
# on a busy one. A boot of two CPUs may hang (guest.BOOTS): then QEMU does nothing, as `watch` sees.
# After either limit the guest's last words tell a slow machine, which then has neither.
SILENCE = 120.0
WORK = 15.0  # seconds of processor time: Debian's kernels take 6 to 8 on a crowded host
PATIENCE = 60.0  # for an answer of QEMU's
# Without this the stored machine would remember that it had been stopped, and stay so.
RESUME = ("-global", "migration.store-global-state=off")


def store(machine: EmulatedMachine, state: Path, work: float | None = WORK) -> None:
    """Boot until the kernel is quiet, and write the machine to `state`. Raises GuestError.

    Raises HangError where it says nothing in `work` seconds of processor time, or in SILENCE.

    The resumed guest itself finds out whether its clock stood still meanwhile; if not, try again.
    """
    for _ in range(TRIES):
        _store_once(machine, state, work)
        ended = run_qemu(machine, ["-incoming", f"file:{state}"])
        if DONE in ended.lines:
            return
    raise failure(ended)


def _store_once(machine: EmulatedMachine, state: Path, work: float | None) -> None:
    ours, theirs = socket.socketpair()
    stored = False

    def on_line(line: str) -> None:
        nonlocal stored
        if line == READY:
            _save(monitor, state)
            stored = True

    ours.settimeout(PATIENCE)
    with ours, theirs, ours.makefile("rw", encoding="utf-8") as monitor:
        chardev = f"socket,id=monitor,fd={theirs.fileno()}"
        options = ["-action", "panic=pause", *RESUME, "-chardev", chardev]
        options += ["-mon", "chardev=monitor,mode=control"]
        ended = run_qemu(
            *(machine, options), descriptors=[theirs.fileno()],
            on_line=on_line, quiet_timeout=SILENCE if work else None, work_timeout=work,
        )  # fmt: skip
    if not stored:
        raise failure(ended)


def _save(monitor: IO[str], path: Path) -> None:
    """Wait until the machine has stopped, write it to `path`, and end it. Raises GuestError."""
    _command(monitor, "qmp_capabilities")
    while _command(monitor, "query-status")["running"]:
        time.sleep(0.01)
    _command(monitor, "migrate", uri=f"file:{path}")
    while (progress := _command(monitor, "query-migrate")).get("status") != "completed":
        if progress.get("status") == "failed":
            reason = progress.get("error-desc", "it does not say why")
            raise GuestError(f"QEMU could not store the machine in {path}: {reason}")
        time.sleep(0.01)
    _command(monitor, "quit")


def _command(monitor: IO[str], name: str, **arguments: str) -> dict[str, Any]:
    """What QEMU's monitor (QMP) returns: one line of JSON per command and per answer."""
    monitor.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
    monitor.flush()
    while True:
        try:
            line = monitor.readline()
        except TimeoutError:
            raise GuestError(f"QEMU's monitor did not answer in {PATIENCE:.0f} s") from None
        if not line:
            raise GuestError("QEMU ended while its machine was being stored")
        answer = json.loads(line)
        if "error" in answer:
            raise GuestError(f"QEMU refused {name}: {answer['error']}")
        if "return" in answer:
            return dict(answer["return"])
