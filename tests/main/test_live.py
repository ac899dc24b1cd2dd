# SPDX-License-Identifier: GPL-2.0-or-later
"""watch and its live view on a terminal: what is drawn, how it ends, and what is left then."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from analysis.predict.live import HEADS
from runners.process import REPOSITORY
from tests.docs.reference import RUN, unpack
from tests.main.threads import answered, talking
from tests.processes import living, repeating, wait_for

pytestmark = [pytest.mark.root, pytest.mark.slow]
ROWS, COLUMNS, FEWER_ROWS, FEWER_COLUMNS = 24, 90, 10, 60
WAYS_TO_DRAW = re.compile(r"\x1b\[[HKJ]")
SIZES = ("COLUMNS", "LINES")  # they would stand for the terminal's own size
ENDS = ["\x03", signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]


class Terminal:
    """`watch` on a terminal of its own, beside two that talk."""

    def __init__(self, prices: Path, *words: str) -> None:
        self.word, self.drawn = uuid.uuid4().hex, ""
        self._ours, theirs = pty.openpty()
        self.resize(ROWS, COLUMNS)
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        sized = {name: text for name, text in os.environ.items() if name not in SIZES}
        self.process = subprocess.Popen(
            ["./runners/run.sh", "watch", *words, "--prices", str(prices)],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=REPOSITORY, start_new_session=True,
            env=sized | {"PATHCOST_TEST": self.word},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.set_blocking(self._ours, False)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def screen(self) -> list[str]:
        """The lines that are drawn by now."""
        try:
            while read := os.read(self._ours, 1 << 16):
                self.drawn += read.decode()
        except BlockingIOError:
            pass
        return WAYS_TO_DRAW.sub("", self.drawn.split("\x1b[H")[-1]).split("\r\n")

    def shows(self, text: str) -> bool:
        return any(text in line for line in self.screen()) or self.process.poll() is not None

    @property
    def is_as_before(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@contextmanager
def beside_a_pair(prices: Path, *words: str) -> Iterator[Terminal]:
    """`watch` of a pair that talks; ROWS of COLUMNS."""
    unpack(REPOSITORY / RUN, prices)
    with talking() as pair:
        port = str(pair[1].getsockname()[1])
        terminal = Terminal(prices, *words, "--port", port)
        try:
            with repeating(lambda: answered(*pair, b"ping"), 0.005):
                yield terminal
        finally:
            terminal.close()


def test_it_fits_the_terminal_and_is_drawn_again(tmp_path: Path) -> None:
    with beside_a_pair(tmp_path / "prices") as terminal:
        assert wait_for(lambda: terminal.shows("limit"))
        wide = terminal.screen()
        (heads,) = (line for line in wide if line.startswith("pair "))
        assert re.split(r" {2,}", heads) == list(HEADS)
        assert len(wide) <= ROWS
        assert max(map(len, wide)) <= COLUMNS
        terminal.resize(FEWER_ROWS, FEWER_COLUMNS)
        assert wait_for(lambda: len(terminal.screen()) <= FEWER_ROWS)
        assert wait_for(lambda: max(map(len, terminal.screen())) <= FEWER_COLUMNS)
        assert terminal.shows("127.0.0.1")
        terminal.type("q")
        assert terminal.process.wait(60) == 0
        assert terminal.is_as_before


@pytest.mark.parametrize("how", ENDS, ids=repr)
def test_whatever_ends_the_live_view_leaves_nothing(
    how: str | signal.Signals, tmp_path: Path
) -> None:
    with beside_a_pair(tmp_path / "prices") as terminal:
        assert wait_for(lambda: terminal.shows("limit"))
        assert living(terminal.word, "pairs.py")
        if isinstance(how, str):
            terminal.type(how)
        else:
            terminal.process.send_signal(how)
        terminal.process.wait(60)
        assert wait_for(lambda: not living(terminal.word))
        assert how == signal.SIGKILL or terminal.is_as_before


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_a_watch_leaves_nothing(how: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "above/out"
    with beside_a_pair(tmp_path / "prices", "60", "--out", str(out)) as terminal:
        assert wait_for(lambda: living(terminal.word, "pairs.py"))
        terminal.process.send_signal(how)
        terminal.process.wait(60)
        assert wait_for(lambda: not living(terminal.word))
        assert not out.exists()
