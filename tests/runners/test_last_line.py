# SPDX-License-Identifier: GPL-2.0-or-later
"""What our programs said last is what the user reads."""

import tempfile

from runners.process import last_line


def test_a_signal_before_a_program_could_answer_it_is_no_sentence() -> None:
    with tempfile.TemporaryFile() as complaints:
        complaints.write(b"Traceback (most recent call last):\n  ...\nKeyboardInterrupt\n")
        assert last_line(complaints) == ""
        complaints.write(b"pathcost: it failed.\n")
        assert last_line(complaints) == "it failed."
