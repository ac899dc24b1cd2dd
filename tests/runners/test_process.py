# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that we start: their last words are the user's, and each has an end.

Where a tracer has none, or died, its quantities are missing, and the run goes on.
"""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from probes.messages import exit_status
from probes.reasons import ReasonError
from runners.host import instrument
from runners.process import OVERDUE, attempt, last_line, last_words, stopping
from runners.run import Exact, in_thread
from tests.processes import captured


def test_a_signal_before_a_program_could_answer_it_is_no_sentence() -> None:
    with tempfile.TemporaryFile() as complaints:
        complaints.write(b"Traceback (most recent call last):\n  ...\nKeyboardInterrupt\n")
        assert last_line(complaints) == ""
        complaints.write(b"pathcost: it failed.\n")
        assert last_line(complaints) == "it failed."


def test_a_program_that_hangs_is_ended_and_named() -> None:
    done = attempt(["sleep", "60"], timeout=0.2)
    assert (done.returncode, last_words(done.stderr)) == (OVERDUE, "sleep did not end within 0.2 s")


SIGNALLED = """
import os, sys
from pathlib import Path
from runners.process import folders, run_main
number, place, early = sys.argv[1:]
folders.append(Path(place))
signal = lambda: os.kill(os.getpid(), int(number))
if early:  # run.sh blocks it until here
    signal()
sys.exit(run_main(signal))
"""


@pytest.mark.parametrize("early", ["early", ""])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_signal_at_any_time_is_a_sentence(
    how: signal.Signals, early: str, tmp_path: Path
) -> None:
    (tmp_path / "run.json").touch()
    block = f"--block-signal={how.name.removeprefix('SIG')}"
    words = ["env", block, sys.executable, "-c", SIGNALLED, str(how.value), str(tmp_path), early]
    done = captured(words)
    told = "nothing was kept." if early else f"what was measured is in {tmp_path}."
    assert (done.returncode, done.stderr) == (130, f"pathcost: interrupted; {told}\n")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("can't start new thread"), ImportError("no\nmap")]
)
def test_what_a_limit_refuses_is_a_sentence(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        raise error

    assert exit_status(work) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_an_interruption_stops_what_runs_in_thread() -> None:
    """Exact mode counts beside the guests: an end of either is an end of both."""
    stopped: list[bool] = []

    def work() -> Exact:
        stopped.append(stopping.wait(60))
        return [], []

    try:
        with pytest.raises(KeyboardInterrupt), in_thread(work):
            raise KeyboardInterrupt
    finally:
        stopping.clear()
    assert stopped == [True]


DEAF = 'trap "" INT; echo ready; while :; do sleep 0.1; done'
# As bpftrace 0.17 does where a signal comes while it waits for a CPU: it waits for events still.
HARD_OF_HEARING = """
import select, signal, sys
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
print("ready", flush=True)
poll = select.epoll()
while len(heard) < 2:
    poll.poll(0.1)
"""


class Shell(instrument.Child):
    """A shell in the place of a tracer."""

    def __init__(self, script: str, folder: Path) -> None:
        super().__init__("made-up", "made-up.bt", folder / "maps", folder / "words")
        self._script = script

    def argv(self) -> list[str]:
        return ["sh", "-c", self._script]

    def is_attached(self) -> bool:
        return "ready" in self.printed()

    @property
    def pid(self) -> int:
        return self.process.pid


def asked_to_finish(script: str, folder: Path) -> Shell:
    child = Shell(script, folder)
    child.start()
    child.wait_attached()
    child.ask_to_finish()
    return child


def test_one_that_ignores_its_end_is_ended_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instrument, "DETACH_SECONDS", 0.2)
    child = asked_to_finish(DEAF, tmp_path)
    with pytest.raises(ReasonError, match=r"made-up\.bt did not end in"):
        child.finish()
    child.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_one_that_works_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As compiling takes minutes on an emulated CPU; one that sleeps as long has had its time."""
    monkeypatch.setattr(instrument, "ATTACH_SECONDS", 0.2)
    work = 'import time\nwhile time.process_time() < 1: pass\nprint("ready")'
    child = Shell(f"exec python3 -c '{work}'", tmp_path)
    child.start()
    child.wait_attached()
    child.stop()
    child = Shell("sleep 9", tmp_path)
    child.start()
    with pytest.raises(ReasonError, match="was not attached in"):
        child.wait_attached()
    child.stop()


def test_one_that_lost_the_signal_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instrument, "AGAIN_SECONDS", 0.2)
    asked_to_finish(f"exec python3 -c '{HARD_OF_HEARING}'", tmp_path).finish()
