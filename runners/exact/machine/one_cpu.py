# SPDX-License-Identifier: GPL-2.0-or-later
"""One CPU of the host for each QEMU, so that its two threads take turns.

A processor that has just halted is idle before QEMU has taken its last instructions into account.
If QEMU's main loop looks at it in between, on another CPU, it takes the time from an old clock and
skips too far (accel/tcg/icount-common.c, icount_start_warp_timer). And it interrupts a processor
that runs at another instruction each time, where QEMU then cuts a block of code in two. On one CPU
the main loop runs when the processor waits. Measured, each time 40 runs of one cell, with a load of
two: records of TCP under the default scheduler on one processor that differ 4 without and 0 with
it; on two processors, which idle in each round trip, 1 and 2: there it is no cure.
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
    """What this thread starts meanwhile has one CPU: the one that fewest others were given."""
    allowed = os.sched_getaffinity(0)
    with _lock:
        cpu = min(sorted(allowed), key=lambda one: _taken[one])
        _taken[cpu] += 1
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        with _lock:
            _taken[cpu] -= 1
