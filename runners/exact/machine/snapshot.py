# SPDX-License-Identifier: GPL-2.0-or-later
"""Stores the state of a machine whose kernel has become quiet, so that it boots only once.

The guest stops its own machine at a fixed instruction, through QEMU's pvpanic device. QEMU then
writes memory and devices to a file (a migration without a destination). A machine resumed from the
file executes the same instructions as a machine that was never stopped.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from pathlib import Path

from runners.exact.machine.boot import DONE, READY, EmulatedMachine, failure, run_qemu
from runners.guest import GuestError

TRIES = 6
# The first program prints the first line on the console, after some 8 s on a quiet machine.
SILENCE = 120.0
PATIENCE = 60.0  # for an answer of QEMU's
# Without this the stored machine would remember that it had been stopped, and stay so.
RESUME = ("-global", "migration.store-global-state=off")


def store(machine: EmulatedMachine, state: Path) -> None:
    """Boot until the kernel is quiet, and write the machine to `state`. Raises GuestError.

    The resumed guest itself finds out whether its clock stood still meanwhile; if not, try again.
    """
    for _ in range(TRIES):
        _store_once(machine, state)
        ended = run_qemu(machine, ["-incoming", f"file:{state}"])
        if DONE in ended.lines:
            return
    raise failure(ended)


def _store_once(machine: EmulatedMachine, state: Path) -> None:
    ours, theirs = socket.socketpair()
    stored = False

    def on_line(line: str) -> None:
        nonlocal stored
        if line == READY:
            monitor.save(state)
            stored = True

    with ours, theirs, contextlib.closing(Monitor(ours)) as monitor:
        chardev = f"socket,id=monitor,fd={theirs.fileno()}"
        options = ["-action", "panic=pause", *RESUME, "-chardev", chardev]
        options += ["-mon", "chardev=monitor,mode=control"]
        descriptors = [theirs.fileno()]
        ended = run_qemu(
            machine, options, descriptors=descriptors, on_line=on_line, quiet_timeout=SILENCE
        )
    if not stored:
        raise failure(ended)


class Monitor:
    """QEMU's monitor (QMP): one line of JSON per command and per answer."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE)
        self._stream = connection.makefile("rw", encoding="utf-8")

    def close(self) -> None:
        self._stream.close()

    def save(self, path: Path) -> None:
        """Wait until the machine has stopped, write it to `path`, and end it. Raises GuestError."""
        self._command("qmp_capabilities")
        while self._command("query-status")["running"]:
            time.sleep(0.01)
        self._command("migrate", uri=f"file:{path}")
        while (progress := self._command("query-migrate")).get("status") != "completed":
            if progress.get("status") == "failed":
                reason = progress.get("error-desc", "it does not say why")
                raise GuestError(f"QEMU could not store the machine in {path}: {reason}")
            time.sleep(0.01)
        self._command("quit")

    def _command(self, name: str, **arguments: str) -> dict[str, object]:
        self._stream.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self._stream.flush()
        while True:
            answer = self._read()
            if "error" in answer:
                raise GuestError(f"QEMU refused {name}: {answer['error']}")
            if "return" in answer:
                result = answer["return"]
                return result if isinstance(result, dict) else {}

    def _read(self) -> dict[str, object]:
        try:
            line = self._stream.readline()
        except TimeoutError:
            raise GuestError(f"QEMU's monitor did not answer in {PATIENCE:.0f} s") from None
        if not line:
            raise GuestError("QEMU ended while its machine was being stored")
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer
