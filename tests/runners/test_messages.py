# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest's failure on the terminal: one sentence, and below it the console, line by line."""

from __future__ import annotations

from typing import NoReturn

import pytest

from runners.exact.gate import cannot_tell
from runners.process import UNTOLD, RunError, run_main

LINES = ("[    0.1] starting", "[    0.2] a bell \a")


def fail() -> NoReturn:
    with cannot_tell():
        raise RunError("the guest's kernel hangs", LINES)


def test_the_console_is_shown_below_the_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_main(fail) == UNTOLD
    assert capfd.readouterr().err.splitlines() == [
        "pathcost: the guest's kernel hangs",
        "  | [    0.1] starting",
        "  | [    0.2] a bell \\x07",
    ]
