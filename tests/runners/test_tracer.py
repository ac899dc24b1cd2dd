# SPDX-License-Identifier: GPL-2.0-or-later
"""A tracer that does not end, or died: its quantities are missing, and the run goes on."""

import os
from pathlib import Path

import pytest

from probes.reasons import ReasonError
from runners.host import instrument

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


def test_one_that_ignores_its_end_is_ended_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instrument, "DETACH_SECONDS", 0.2)
    child = Shell(DEAF, tmp_path)
    child.start()
    child.wait_attached()
    child.ask_to_finish()
    with pytest.raises(ReasonError, match=r"made-up\.bt did not end in"):
        child.finish()
    child.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_one_that_lost_the_signal_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instrument, "AGAIN_SECONDS", 0.2)
    child = Shell(f"exec python3 -c '{HARD_OF_HEARING}'", tmp_path)
    child.start()
    child.wait_attached()
    child.ask_to_finish()
    child.finish()
