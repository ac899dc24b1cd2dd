# SPDX-License-Identifier: GPL-2.0-or-later
"""`watch` without SECONDS on a terminal: a screen of pairs that is drawn again, as top(1) does.

It draws over itself, without another screen of the terminal, and changes nothing of the terminal
but that keys come at once and without an echo: who kills it finds a shell that can go on.
"""

import json
import os
import select
import shutil
import signal
import sys
import tempfile
import termios
import tty
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from probes.contract import PRICES, Status
from probes.messages import PROGRAM
from runners.host.root import Root, RootProgram
from runners.host.session import Session
from runners.options import WatchOptions
from runners.process import RunError, last_line
from runners.programs.prices import set_up

EVERY_S, KEPT_LOOKS = 2.0, 5  # a screen is of the last looks: 10 s
LONGEST_S = 3600 * 24 * 7
TO_BEGIN, CLEAR_LINE, CLEAR_REST = "\x1b[H", "\x1b[K", "\x1b[J"
BYTES_AT_ONCE = 1 << 16


def is_live(options: WatchOptions) -> bool:
    """Whether somebody looks at a terminal, and wants no file."""
    wants_files = options.show or options.out
    return not wants_files and sys.stdout.isatty() and sys.stdin.isatty()


def watch_live(options: WatchOptions) -> int:
    """Show until q or a signal: the exit status. Raises RunError."""
    session = Session(options)
    root = session.need_root()
    session.tell_of_times()
    stored = set_up(session, options.prices, "--watch")
    root.mounts()
    with tempfile.TemporaryFile() as complaints, counting(root, options, complaints) as program:
        # While the probes are compiled.
        from analysis.predict.prices import Prices, read_prices
        from analysis.raw.programs import PriceList

        if options.prices:
            prices = read_prices(options.prices)
        else:
            prices = Prices(PriceList.model_validate_json(json.dumps(stored[PRICES])).cells)
        only = {"pids": list(options.pid), "ports": list(options.port)}
        with keys_at_once():
            ended = Screen(program, prices, only).run()
        if ended:
            why = last_line(complaints).removeprefix("ERROR: ") or "the probes have ended"
            raise RunError(f"this kernel's connections cannot be watched: {why}")
    print(f"\nTo store it, with a page: sudo {PROGRAM} watch SECONDS")
    return Status.DONE


@contextmanager
def counting(root: Root, options: WatchOptions, complaints: Any) -> Iterator[RootProgram]:
    """Root's program that counts, until the block ends."""
    words = [f"{LONGEST_S}", f"{options.limit:g}", f"{EVERY_S:g}"]
    program = root.start("pairs", words, stderr=complaints.fileno())
    try:
        yield program
    finally:
        with suppress(RunError, OSError):
            program.wait()


@contextmanager
def keys_at_once() -> Iterator[None]:
    """Have keys at once and unseen, also after Ctrl-Z; the terminal is as before in the end."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def restore() -> None:
        with suppress(termios.error, OSError):  # the terminal may be gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    def pause(*_: object) -> None:
        restore()
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(termios.error, OSError):
            tty.setcbreak(terminal)

    earlier = signal.signal(signal.SIGTSTP, pause)
    tty.setcbreak(terminal)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, earlier)
        restore()


class Screen:
    """What was counted so far, and how it is drawn."""

    def __init__(self, program: RootProgram, prices: Any, only: dict[str, Any]) -> None:
        self._program, self._prices, self._only = program, prices, only
        self._looks: deque[dict[str, Any]] = deque(maxlen=KEPT_LOOKS)
        self._size: tuple[int, int] | None = None

    def run(self) -> bool:
        """Draw until q, or until the terminal is gone; whether the probes ended before."""
        counts, keys, line = self._program.stdout.fileno(), sys.stdin.fileno(), b""
        print("attaching probes …", flush=True)
        while True:
            ready, _, _ = select.select([counts, keys], [], [], EVERY_S / 4)
            if keys in ready and self._ends(keys):
                return False
            if counts in ready:
                if not (read := os.read(counts, BYTES_AT_ONCE)):
                    return True
                *whole, line = (line + read).split(b"\n")
                for each in whole:
                    self._looks.append(json.loads(each))
                if whole:
                    self._draw()
            elif self._looks and shutil.get_terminal_size() != self._size:
                self._draw()

    def _ends(self, keys: int) -> bool:
        """Whether q was typed, or the terminal has ended."""
        try:
            typed = os.read(keys, 64)
        except OSError:
            return True
        return not typed or b"q" in typed.lower()

    def _draw(self) -> None:
        from analysis.predict.live import screen, since

        self._size = shutil.get_terminal_size()
        earlier = self._looks[0] if len(self._looks) > 1 else None
        seen = since(earlier, self._looks[-1]) | {"only": self._only}
        columns, rows = self._size
        lines = screen(seen, self._prices, columns, rows - 1)
        text = "".join(f"{line}{CLEAR_LINE}\n" for line in lines)
        first = "" if len(self._looks) > 1 else CLEAR_REST
        print(f"{TO_BEGIN}{first}{text}{CLEAR_REST}", end="", flush=True)
