# SPDX-License-Identifier: GPL-2.0-or-later
"""Exact mode counts beside the guests: an end of either is an end of both."""

from collections.abc import Iterator

import pytest

from runners.guest.qemu import stopping
from runners.run import Exact, in_thread

LONG = 60.0  # seconds: nobody waits for it, unless the test fails


@pytest.fixture(autouse=True)
def _started_anew() -> Iterator[None]:
    yield
    stopping.clear()


def test_an_interruption_stops_what_runs_in_thread() -> None:
    told: list[bool] = []

    def work() -> Exact:
        told.append(stopping.wait(LONG))
        return [], []

    with pytest.raises(KeyboardInterrupt), in_thread(work):
        raise KeyboardInterrupt
    assert told == [True]
