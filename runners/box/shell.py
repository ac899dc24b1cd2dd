# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs commands as a student would type them, each with a deadline, and keeps their output."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from runners.errors import RunError
from runners.process import command, stop

# For a command without a boot or a measurement: it takes seconds, even on an emulated CPU.
SHORT_MINUTES = 10.0
ERASE = "\x1b[K"
PROGRESS = f"{ERASE}Progress: "  # without a terminal, Vagrant prints a line for each change


class HungError(RunError):
    """A command was ended because its time was over."""


class Shell:
    """Runs lines in `folder`; the transcript gets each with its output and its seconds.

    `enter` are the words before a command that reaches the machine.
    """

    def __init__(
        self, folder: Path, env: dict[str, str], transcript: TextIO, enter: Sequence[str] = ()
    ) -> None:
        self._folder = folder
        self._env = env
        self._transcript = transcript
        self._enter = tuple(enter)

    def say(self, text: str) -> None:
        """Print a line, and write it to the transcript."""
        print(text, flush=True)
        self._transcript.write(text + "\n")
        self._transcript.flush()

    def run(self, line: str, minutes: float = SHORT_MINUTES) -> None:
        """Run a line of bash. Raises RunError if it fails, HungError after `minutes`."""
        self.say(f"$ {line}")
        began = time.monotonic()
        process = subprocess.Popen(
            command([*self._enter, "bash", "-o", "pipefail", "-c", line]),
            cwd=self._folder, env=self._env, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,  # so that its children can be ended with it
        )  # fmt: skip
        late = threading.Event()

        def end_it() -> None:
            late.set()
            _end(process)

        timer = threading.Timer(minutes * 60, end_it)
        timer.start()
        last = ""
        try:
            assert process.stdout is not None
            for printed in process.stdout:
                if PROGRESS not in printed:
                    self.say(last := printed.rstrip().removeprefix(ERASE))
            process.wait()
        finally:
            timer.cancel()
            timer.join()
            if process.poll() is None:
                _end(process)
        self.say(f"# {time.monotonic() - began:.0f} s\n")
        if late.is_set():
            said = f'its last line was "{last.strip()}"' if last else "it printed nothing"
            raise HungError(f"'{line}' hangs: it has not ended after {minutes:g} min, and {said}")
        if process.returncode != 0:
            raise RunError(f"the box does not pass: '{line}' ended with {process.returncode}")


def _end(process: subprocess.Popen[str]) -> None:
    """End the command and all its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    stop(process)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
