# SPDX-License-Identifier: GPL-2.0-or-later
"""How QEMU stores a machine: it writes the state to a program that packs it, by its monitor."""

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from runners.process import RunError, command

MONITOR_SECONDS = 60.0
MONITOR_POLL = 0.01
UNLIMITED = 1 << 50  # bytes a second
# A machine that goes on announces its network cards, even none, five times in the first second, by
# timers of the host's clock. They interrupt an emulated processor at another instruction each time.
# With an announcement each 7 ms, 7 of 12 records of two CPUs were alike; without any, 120 of 120.
SILENT = "-global", "migration.announce-rounds=0"


@dataclass(frozen=True)
class Snapshot:
    """Write the machine to `file` when it has printed `line`; we `stop` it, or it stops itself.

    `packer` is the command that packs what it reads.
    """

    line: str
    file: Path
    stop: bool
    packer: Sequence[str]

    @contextmanager
    def packing(self) -> Iterator[int]:
        """Yield a descriptor: what is written to it goes into the file, packed. Raises RunError."""
        argv, pipe = command(self.packer), subprocess.PIPE
        with (
            self.file.open("wb") as file,
            subprocess.Popen(argv, stdin=pipe, stdout=file, stderr=pipe) as packer,
        ):
            assert packer.stdin is not None
            failure = None
            try:
                yield packer.stdin.fileno()
            except RunError as error:
                failure = error
                packer.kill()  # QEMU, which is still there, has the pipe open
            _, complaints = packer.communicate()
        if packer.returncode > 0:  # on a full disk QEMU fails after it
            why = complaints.decode(errors="replace").strip()
            raise RunError(f"cannot pack a stored machine: {why}")
        if failure:
            raise failure


class QemuMonitor:
    """A connection to QEMU's monitor (QMP), which can store the machine in a file.

    That is a migration to a program that packs what it reads.
    """

    def __init__(self, stack: ExitStack) -> None:
        self._ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
        self._ours.settimeout(MONITOR_SECONDS)
        self._answers: IO[str] = stack.enter_context(self._ours.makefile("r", encoding="utf-8"))
        self.theirs = theirs.fileno()
        self.options = (
            # Else the stored machine would remember that it had been stopped, and stay so.
            "-global",
            "migration.store-global-state=off",
            "-chardev",
            f"socket,id=monitor,fd={self.theirs}",
            "-mon",
            "chardev=monitor,mode=control",
        )

    def save(self, snapshot: Snapshot) -> None:
        """Write the machine to a file once it has stopped, and end it. Raises RunError."""
        self._command("qmp_capabilities")
        if snapshot.stop:
            self._command("stop")
        while self._command("query-status")["running"]:
            time.sleep(MONITOR_POLL)
        # Nobody waits for a network: without a limit of our own it writes 128 MiB a second.
        self._command("migrate-set-parameters", {"max-bandwidth": UNLIMITED})
        with snapshot.packing() as descriptor:
            self._command("getfd", {"fdname": "packer"}, [descriptor])
            self._command("migrate", {"uri": "fd:packer"})
            while (progress := self._command("query-migrate")).get("status") != "completed":
                if progress.get("status") == "failed":
                    why = progress.get("error-desc")
                    raise RunError(f"QEMU could not store the machine in {snapshot.file}: {why}")
                time.sleep(MONITOR_POLL)
            self._command("quit")

    def _command(
        self,
        name: str,
        arguments: Mapping[str, str | int] = MappingProxyType({}),
        descriptors: Sequence[int] = (),
    ) -> dict[str, Any]:
        """What the monitor returns: one line of JSON per command and per answer.

        QEMU gets copies of the `descriptors` with the command.
        """
        order = json.dumps({"execute": name, "arguments": dict(arguments)}) + "\n"
        socket.send_fds(self._ours, [order.encode()], descriptors)
        for line in self._answers:
            answer = json.loads(line)
            if "error" in answer:
                raise RunError(f"QEMU refused {name}: {answer['error']}")
            if "return" in answer:
                return dict(answer["return"])
        raise RunError("QEMU ended while its machine was being stored")
