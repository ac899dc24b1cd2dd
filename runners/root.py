# SPDX-License-Identifier: GPL-2.0-or-later
"""What the user's process asks of root's (runners.monitor): the lock, and programs as root."""

import itertools
import json
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from runners.lock import VARIABLE
from runners.process import RunError

CHANNEL = "PATHCOST_MONITOR"  # in the environment of the user's process: the descriptor's number
LARGEST = 1 << 16  # bytes of a message
GONE = "root's process has ended, so nothing more can be measured."


@dataclass
class OwnProgram:
    """The same of a program that we have started ourselves."""

    process: subprocess.Popen[bytes]

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def wait(self) -> tuple[int, None]:
        """Its status."""
        return self.process.wait(), None


@dataclass
class RootProgram:
    """A program that root's process has started: what it prints, and what it is told."""

    root: "Root"
    number: int
    stdin: IO[bytes]
    stdout: IO[bytes]

    def wait(self) -> tuple[int, Path | None]:
        """Its status, and the folder with its results, which is ours by now. Raises RunError."""
        self.stdin.close()
        self.stdout.close()
        answer = self.root.answer(self.number)
        return answer["status"], Path(answer["out"]) if answer["out"] else None


class Root:
    """The channel to root's process."""

    def __init__(self, descriptor: int) -> None:
        self._channel = socket.socket(fileno=descriptor)
        self._channel.set_inheritable(False)
        self._numbers = itertools.count(1)
        self._answers: dict[int, list[dict[str, Any]]] = {}

    @classmethod
    def found(cls) -> "Root | None":
        """Root's process, where one has started us."""
        number = os.environ.pop(CHANNEL, "")
        return cls(int(number)) if number else None

    def close(self) -> None:
        """Let root's process end what it still runs for us."""
        self._channel.close()

    def mounts(self) -> None:
        """Mount what tracing needs, for root's programs. Raises RunError."""
        self._ask("mounts")

    def lock(self) -> list[str]:
        """Take the lock until the end; what dead runs had left and is removed. Raises RunError."""
        removed: list[str] = self._ask("lock")["removed"]
        return removed

    def start(
        self, name: str, words: Sequence[str] = (), stderr: int = subprocess.DEVNULL
    ) -> RootProgram:
        """Start a program of runners.monitor.PROGRAMS. Raises RunError."""
        (stdin, told), (heard, stdout) = os.pipe(), os.pipe()
        errors = os.open(os.devnull, os.O_WRONLY) if stderr == subprocess.DEVNULL else stderr
        try:
            number = self._ask(name, words, (stdin, stdout, errors))["number"]
        finally:
            for descriptor in {stdin, stdout, errors} - {stderr}:
                os.close(descriptor)
        return RootProgram(self, number, os.fdopen(told, "wb"), os.fdopen(heard, "rb"))

    def _ask(
        self, what: str, words: Sequence[str] = (), descriptors: Sequence[int] = ()
    ) -> dict[str, Any]:
        number = next(self._numbers)
        request = {"number": number, "what": what, "words": list(words)}
        try:
            socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
        except OSError as error:
            raise RunError(GONE) from error
        return self.answer(number)

    def answer(self, number: int) -> dict[str, Any]:
        """The next answer to this request. Raises RunError."""
        while not self._answers.get(number):
            message, descriptors, _, _ = socket.recv_fds(self._channel, LARGEST, 1)
            if not message:
                raise RunError(GONE)
            self._keep(descriptors)
            said = json.loads(message)
            self._answers.setdefault(said["number"], []).append(said)
        found = self._answers[number].pop(0)
        if "error" in found:
            raise RunError(found["error"])
        return found

    @staticmethod
    def _keep(descriptors: Sequence[int]) -> None:
        """Keep the lock, which ends with the last process that measures."""
        for descriptor in descriptors:
            if VARIABLE in os.environ:
                os.close(descriptor)
            else:
                os.environ[VARIABLE] = str(descriptor)
