# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU's monitor (QMP): stores a machine in a file, a migration without a destination."""

import json
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from runners.guest.errors import GuestError

PATIENCE = 60.0  # seconds for an answer
POLL = 0.01
# Without this the stored machine would remember that it had been stopped, and stay so.
RESUME = ("-global", "migration.store-global-state=off")


class Monitor:
    """A connection to QEMU's monitor: `options` and `descriptors` are what QEMU gets of it."""

    def __init__(self, stream: IO[str], theirs: int) -> None:
        self._stream = stream
        self.descriptors: Sequence[int] = (theirs,)
        self.options = (
            *RESUME, "-chardev", f"socket,id=monitor,fd={theirs}",
            "-mon", "chardev=monitor,mode=control",
        )  # fmt: skip

    def save(self, path: Path, *, stop: bool) -> None:
        """Write the machine to `path` once it has stopped, and end it. Raises GuestError.

        We `stop` it, or it stops itself.
        """
        self._command("qmp_capabilities")
        if stop:
            self._command("stop")
        while self._command("query-status")["running"]:
            time.sleep(POLL)
        self._command("migrate", uri=f"file:{path}")
        while (progress := self._command("query-migrate")).get("status") != "completed":
            if progress.get("status") == "failed":
                reason = progress.get("error-desc", "it does not say why")
                raise GuestError(f"QEMU could not store the machine in {path}: {reason}")
            time.sleep(POLL)
        self._command("quit")

    def _command(self, name: str, **arguments: str) -> dict[str, Any]:
        """What the monitor returns: one line of JSON per command and per answer."""
        self._stream.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self._stream.flush()
        while True:
            try:
                line = self._stream.readline()
            except TimeoutError:
                raise GuestError(f"QEMU's monitor did not answer in {PATIENCE:.0f} s") from None
            if not line:
                raise GuestError("QEMU ended while its machine was being stored")
            answer = json.loads(line)
            if "error" in answer:
                raise GuestError(f"QEMU refused {name}: {answer['error']}")
            if "return" in answer:
                return dict(answer["return"])


@contextmanager
def monitored() -> Iterator[Monitor]:
    """A monitor for one QEMU."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PATIENCE)
    with ours, theirs, ours.makefile("rw", encoding="utf-8") as stream:
        yield Monitor(stream, theirs.fileno())
