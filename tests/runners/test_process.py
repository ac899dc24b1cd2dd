# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs that we start: their last words are the user's, and each has an end."""

import tempfile

import pytest

from runners.process import OVERDUE, attempt, last_line, last_words, stopping
from runners.run import Exact, in_thread


def test_a_signal_before_a_program_could_answer_it_is_no_sentence() -> None:
    with tempfile.TemporaryFile() as complaints:
        complaints.write(b"Traceback (most recent call last):\n  ...\nKeyboardInterrupt\n")
        assert last_line(complaints) == ""
        complaints.write(b"pathcost: it failed.\n")
        assert last_line(complaints) == "it failed."


def test_a_program_that_hangs_is_ended_and_named() -> None:
    done = attempt(["sleep", "60"], timeout=0.2)
    assert (done.returncode, last_words(done.stderr)) == (OVERDUE, "sleep did not end within 0.2 s")


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
