# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors of a guest: one sentence, and the console's last lines if they help."""

from collections.abc import Sequence

CONSOLE_LINES = 15


class GuestError(Exception):
    """There is no guest, or it did not end: `sentence` tells why, `console` has its last lines."""

    def __init__(self, sentence: str, console: Sequence[str] = ()) -> None:
        self.sentence = sentence
        self.console = tuple(console[-CONSOLE_LINES:])
        super().__init__(sentence)

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"  | {line}" for line in self.console)])


class UnknownKernelError(GuestError):
    """Nobody offers this kernel; the sentence lists what is offered."""


class NotCachedError(GuestError):
    """It would have to be fetched and built first, and the caller forbids that."""


class DamagedError(GuestError):
    """An entry of the cache is not as it was built."""


class InUseError(GuestError):
    """Another process uses the cache."""


class LackingError(GuestError):
    """This kernel cannot give what is needed of it."""


class HangError(GuestError):
    """The guest's kernel hangs: its machine does nothing."""


class CommandError(GuestError):
    """The guest worked, but its command failed: `status` and `stderr` are the command's."""

    def __init__(self, status: int, stderr: str, console: Sequence[str] = ()) -> None:
        self.status = status
        self.stderr = stderr
        last = stderr.strip().rsplit("\n", 1)[-1].strip()
        because = f": {last}" if last else " and wrote nothing to its standard error"
        super().__init__(f"the guest's command ended with status {status}{because}", console)
