# SPDX-License-Identifier: GPL-2.0-or-later
"""Gives each QEMU one CPU of the host, so that its two threads take turns.

An emulated processor that halts becomes idle before QEMU has counted its last instructions. If
QEMU's main loop, on another CPU, looks at it in between, it reads an old clock and skips too far
(accel/tcg/icount-common.c, icount_start_warp_timer). It also interrupts a running processor at a
different instruction each time, where QEMU then cuts a block of code in two. On one CPU the main
loop runs while the processor waits. Measured in 40 runs of each cell, with a load of two: for TCP
under the default scheduler, 4 records differed without this and 0 with it. With two emulated
processors, which idle in each round trip, 1 differed without and 2 with it: there it is no cure.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Iterator

_lock = threading.Lock()
_taken: Counter[int] = Counter()


@contextlib.contextmanager
def on_one_cpu() -> Iterator[None]:
    """What this thread starts meanwhile runs on one CPU: that with the fewest QEMUs so far."""
    allowed = os.sched_getaffinity(0)
    with _lock:
        cpu = min(sorted(allowed), key=_taken.__getitem__)
        _taken[cpu] += 1
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        with _lock:
            _taken[cpu] -= 1
