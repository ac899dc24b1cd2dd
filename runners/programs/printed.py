# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user's program prints: any bytes, and any number of them, of which the last are kept."""

import math
import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from runners.process import OVERDUE, stop

MOST_BYTES = 16 << 20  # of one stream: enough for figures, and little of a machine's memory
READ_BYTES = 1 << 16  # as many as a pipe usually holds
LARGEST_PIPE = 1 << 20  # an ordinary user's, pipe(7)


def attempt_theirs(
    argv: Sequence[str], seconds: float, **options: Any
) -> subprocess.CompletedProcess[str]:
    """As runners.process.attempt: run a program of a user's, without input, to its end."""
    with (
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        ) as process,
        closing(Printed(process)) as printed,
    ):
        try:
            if not printed.rest(seconds):
                why = f"it did not end within {seconds:g} s"
                return subprocess.CompletedProcess(argv, OVERDUE, "", why)
        finally:
            stop(process)
        status, out, said = process.wait(), printed.out.text(), printed.err.text()
    return subprocess.CompletedProcess(argv, status, out, said)


class Tail:
    """The last bytes of a stream. `cut`: whether it had more."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._bytes = bytearray()
        self.cut = False

    def add(self, data: bytes) -> None:
        """Keep what comes next."""
        self._bytes += data
        if len(self._bytes) > 2 * self._most:  # seldom, as what is kept moves then
            self._shorten()

    def line(self) -> str:
        """Take the first line; empty where none is complete."""
        end = self._bytes.find(b"\n") + 1
        line = self._bytes[:end].decode(errors="replace")
        del self._bytes[:end]
        return line

    def text(self) -> str:
        """All that is kept."""
        self._shorten()
        return self._bytes.decode(errors="replace")

    def _shorten(self) -> None:
        self.cut |= len(self._bytes) > self._most
        del self._bytes[: -self._most]


class Printed:
    """Reads a program's stdout and stderr, which are pipes, as it prints."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout and process.stderr
        self.out, self.err = Tail(), Tail()
        self._pid, self._stdout = process.pid, process.stdout.fileno()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ, self.out)
        self._selector.register(process.stderr.fileno(), selectors.EVENT_READ, self.err)

    def close(self) -> None:
        """Read no more."""
        self._selector.close()

    def line(self) -> str:
        """The next line of stdout; empty at its end."""
        while not (line := self.out.line()) and self._is_open():
            self._read(None)
        return line

    def rest(self, seconds: float = math.inf) -> bool:
        """Read until the program has ended: False where that takes longer.

        A daemon that it leaves may hold its streams open: what it had printed by then counts.
        """
        deadline = time.monotonic() + seconds
        ended = os.pidfd_open(self._pid)
        self._selector.register(ended, selectors.EVENT_READ)
        try:
            while ended in self._selector.get_map():
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._read(None if math.isinf(left) else left)
        finally:
            os.close(ended)
        self._read(0, LARGEST_PIPE)
        return True

    def _is_open(self) -> bool:
        return self._stdout in self._selector.get_map()

    def _read(self, seconds: float | None, most: int = READ_BYTES) -> None:
        """Wait for the next bytes, or the program's end."""
        for key, _ in self._selector.select(seconds):
            data = os.read(key.fd, most) if key.data else b""
            if data:
                key.data.add(data)
            else:
                self._selector.unregister(key.fd)
