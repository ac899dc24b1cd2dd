# SPDX-License-Identifier: GPL-2.0-or-later
"""The emulator's count of a window against the guest's own clock."""

from __future__ import annotations

import pytest

from runners.exact.cells import plan
from runners.exact.decode.checks import checks
from runners.exact.decode.iterations import IterationShape, ReplayedWindow
from runners.exact.decode.replay import CallTree, Counts

COST = 72  # nanoseconds, of a clock reading


@pytest.mark.parametrize(
    ("counted", "nanoseconds", "agrees"),
    [
        (8_940_851, 8_940_751, True),  # with the two readings
        (8_940_851, 8_940_600, False),  # something else ran in between
        (8_940_751, 8_940_851, False),  # the clock went on, and nothing ran
        (210_995_962, 210_996_055, True),  # 6.12, whose clock is fast by a millionth
        (210_995_962, 210_996_955, False),
    ],
)
def test_a_window_agrees_with_the_guests_clock(
    counted: int, nanoseconds: int, agrees: bool
) -> None:
    (cell,) = plan(("shm",), (64,), schedulings=("fifo",))
    steady = IterationShape(Counts(), [0], 1, 0, 0, ())
    window = ReplayedWindow(CallTree(), counted=counted, shapes=[steady])
    result = {"window_ns": nanoseconds, "clock_cost_ns": COST, "client": {}, "server": None}
    found = {name: holds for name, holds, _ in checks(cell, window, result)}
    assert found["the window agrees with the guest's clock"] == agrees
