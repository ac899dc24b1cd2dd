# SPDX-License-Identifier: GPL-2.0-or-later
"""Stores the state of a machine whose kernel has become quiet, so that it boots only once.

The guest stops its own machine at a fixed instruction, through QEMU's pvpanic device. QEMU then
writes memory and devices to a file. A machine resumed from the file executes the same instructions
as a machine that was never stopped.
"""

from pathlib import Path

from runners.exact.machine.boot import (
    DONE,
    IDLE_SECONDS,
    READY,
    SECONDS,
    EmulatedMachine,
    failure,
    run_qemu,
)
from runners.guest.qemu import Limits, Snapshot

TRIES = 6
# The first program prints the first line on the console, after some 8 s on a quiet machine and 40 s
# on a busy one. A boot of two CPUs may hang (guest.BOOTS): then QEMU does nothing, as `watch` sees.
# After either limit the guest's last words tell a slow machine, which then has neither.
SILENCE = 120.0
WORK = 15.0  # seconds of processor time: Debian's kernels take 6 to 8 on a crowded host


def store(machine: EmulatedMachine, state: Path, work: float | None = WORK) -> None:
    """Boot until the kernel is quiet, and write the machine to `state`. Raises RunError.

    Raises HangError where it says nothing in `work` seconds of processor time, or in SILENCE.

    The resumed guest itself finds out whether its clock stood still meanwhile; if not, try again.
    """
    for _ in range(TRIES):
        _store_once(machine, state, work)
        ended = run_qemu(machine, ["-incoming", f"file:{state}"])
        if DONE in ended.lines:
            return
    raise failure(ended)


def _store_once(machine: EmulatedMachine, state: Path, work: float | None) -> None:
    limits = Limits(SECONDS, SILENCE if work else None, IDLE_SECONDS, work)
    snapshot = Snapshot(READY, state, stop=False)
    ended = run_qemu(machine, ["-action", "panic=pause"], limits=limits, snapshot=snapshot)
    if not ended.stored:
        raise failure(ended)
