# SPDX-License-Identifier: GPL-2.0-or-later
"""Progress on stderr: the step, how far it is, and its seconds so far."""

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

# Without a terminal no line can change: each step prints a line, and a sign of life now and then.
SIGN_OF_LIFE_SECONDS = 15.0
BAR = 20  # characters


class Progress:
    """Prints to stderr: one line that changes on a terminal, plain lines elsewhere.

    Threads may each be in a step of their own.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._terminal = sys.stderr.isatty()
        self._width = shutil.get_terminal_size().columns
        self._lock = threading.Lock()
        self._steps: dict[int, tuple[str, str, float]] = {}  # by thread: name, text, began

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A named piece of work; `seconds` keeps how long it took."""
        done, thread, began = threading.Event(), threading.get_ident(), time.monotonic()
        self._steps[thread] = name, "", began
        ticker = threading.Thread(target=self._tick, args=(done, thread), daemon=True)
        ticker.start()
        try:
            yield
        finally:
            done.set()
            ticker.join()
            del self._steps[thread]
            spent = time.monotonic() - began
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 2)
            self._line(f"{name}: {spent:.1f} s", final=True)

    def say(self, text: str) -> None:
        """Set what this thread's step is doing now."""
        thread = threading.get_ident()
        if thread in self._steps:
            name, _, began = self._steps[thread]
            self._steps[thread] = name, text, began

    def count(self, done: int, total: int, text: str) -> None:
        """Set what the step is doing and how far it is; a terminal also gets a bar."""
        bar = f"[{'#' * (BAR * done // total):<{BAR}}] " if self._terminal else ""
        self.say(f"{bar}{done}/{total} {text}")

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._line(text, final=True)

    def _tick(self, done: threading.Event, thread: int) -> None:
        spoke = time.monotonic()
        while not done.wait(0.5):
            now = time.monotonic()
            name, text, began = self._steps[thread]
            line = f"{name}: {text} ({now - began:.0f} s)"
            if self._terminal and thread == max(self._steps, key=self._began):
                self._line(line, final=False)
            elif not self._terminal and now - spoke >= SIGN_OF_LIFE_SECONDS:
                spoke = now
                self._line(line, final=True)

    def _began(self, thread: int) -> float:
        return self._steps[thread][2]

    def _line(self, text: str, *, final: bool) -> None:
        with self._lock:
            if self._terminal:
                line = text + "\n" if final else text[: self._width - 1]
                sys.stderr.write(f"\r\x1b[K{line}")
            elif final:
                sys.stderr.write(text + "\n")
            sys.stderr.flush()
