# SPDX-License-Identifier: GPL-2.0-or-later
"""Every transport, pattern and wait on every kernel: valid by the rules of its path, or refused."""

from pathlib import Path

import pytest

from probes.cell import PATTERNS, TRANSPORTS, CellRun
from runners import guest as guests
from runners.exact.cells import impossible, path_of, plan
from runners.exact.count import count, payload_is_followed
from runners.exact.guest import ExactGuest, guest_for
from runners.exact.machine import RefusedError
from runners.store.folders import invoker
from tests.exact.conftest import prepared

pytestmark = [pytest.mark.emulated, pytest.mark.matrix]
SIZES = [1, 64, 4 << 10, 64 << 10]
CANNOT = (
    *("carries at most", "is joined only once", "would lose some", "is always a delayed one"),
    *("waits in its own way", "no descriptor to wait for"),
)


def valid_or_refused(base: ExactGuest, run: CellRun, out: Path) -> None:
    if why := impossible(run.cell):
        assert why.code == "emulator-aes", run
        return
    for name in ("tree", "iteration"):
        (out / name).mkdir(exist_ok=True)
    try:
        line = count(guest_for(invoker().cache, base, path_of(run.cell)), run, out)
    except RefusedError as refused:
        assert any(words in str(refused) for words in CANNOT), refused
        return
    assert line["error"] is None
    assert line["valid"], (str(run.cell), [check for check in line["checks"] if not check["ok"]])
    if payload_is_followed(run.cell):
        assert line.get("payload", {}).get("valid"), (str(run.cell), line.get("payload_error"))


@pytest.mark.parametrize("kernel", guests.SERIES)
@pytest.mark.parametrize("transport", [name for name in TRANSPORTS if name != "shm-spin"])
def test_every_size_conserves_after_few_messages_and_after_many(
    built: None, kernel: str, transport: str, tmp_path: Path
) -> None:
    for messages in (46, 2000):
        for run in plan([transport], SIZES, messages, schedulers=["fifo"]):
            valid_or_refused(prepared(kernel), run, tmp_path)


@pytest.mark.parametrize("transport", [name for name in TRANSPORTS if name != "shm-spin"])
def test_every_pattern_and_wait_conserves(built: None, transport: str, tmp_path: Path) -> None:
    runs = plan([transport], [64], patterns=list(PATTERNS), waits=["block", "epoll"])
    # Of a stream of large messages the sender may be done before the reader begins.
    for run in runs + plan([transport], [64 << 10], schedulers=["fifo"], patterns=["stream"]):
        valid_or_refused(prepared("6.12"), run, tmp_path)
