# SPDX-License-Identifier: GPL-2.0-or-later
"""Every transport, pattern and wait on every kernel: valid by the rules of its path, or refused."""

from __future__ import annotations

from functools import cache

import pytest

from runners import guest as guests
from runners.cell import PATTERNS, TRANSPORTS
from runners.exact.cells import ExactCell, plan
from runners.exact.count import count, payload_is_followed
from runners.exact.knobs import NOTHING
from runners.exact.machine.guest import ExactGuest, prepare_guest
from runners.exact.machine.knob_guest import guest_with_knob
from runners.process import RunError
from runners.store import invoker

pytestmark = [pytest.mark.emulated, pytest.mark.matrix]
SIZES = [1, 64, 4 << 10, 64 << 10]
SPINS = "shm-spin"
CANNOT = (
    *("carries at most", "is joined only once", "would lose some", "is always a delayed one"),
    *("waits in its own way", "no descriptor to wait for"),
)


@cache
def prepared(kernel: str) -> ExactGuest:
    try:
        return prepare_guest(invoker().cache, kernel, lambda _: None)
    except RunError as error:
        pytest.skip(str(error))


def valid_or_refused(base: ExactGuest, cell: ExactCell) -> None:
    if cell.impossible:
        assert cell.impossible.code == "emulator-aes", cell
        return
    needs = (cell.path.modules, cell.path.programs)
    around = (base, NOTHING, lambda _: None, None, *needs)
    guest, knob = guest_with_knob(invoker().cache, *around)
    line, _, _, refused = count(guest, ExactCell(**{**vars(cell), "knob": knob}))
    if refused:
        assert any(words in refused for words in CANNOT), refused
        return
    assert line["error"] is None
    assert line["valid"], (str(cell), [check for check in line["checks"] if not check["ok"]])
    if payload_is_followed(cell):
        assert line.get("payload", {}).get("valid"), (str(cell), line.get("payload_error"))


@pytest.mark.parametrize("kernel", guests.SERIES)
@pytest.mark.parametrize("transport", [name for name in TRANSPORTS if name != SPINS])
def test_every_size_conserves_after_few_messages_and_after_many(
    built: None, kernel: str, transport: str
) -> None:
    for messages in (46, 2000):
        for cell in plan([transport], SIZES, messages, schedulings=["fifo"]):
            valid_or_refused(prepared(kernel), cell)


@pytest.mark.parametrize("transport", [name for name in TRANSPORTS if name != SPINS])
def test_every_pattern_and_wait_conserves(built: None, transport: str) -> None:
    for cell in plan([transport], [64], patterns=list(PATTERNS), waits=["block", "epoll"]):
        valid_or_refused(prepared("6.12"), cell)


@pytest.mark.parametrize("transport", ["unix", "tcp", "pipe"])
def test_a_stream_of_large_messages_conserves(built: None, transport: str) -> None:
    """The sender may be done before the reader begins."""
    (cell,) = plan([transport], [64 << 10], schedulings=["fifo"], patterns=["stream"])
    valid_or_refused(prepared("6.12"), cell)
