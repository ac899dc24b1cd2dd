# SPDX-License-Identifier: GPL-2.0-or-later
"""Input that comes late: a guest waits for it, and is stored while it waits.

The host writes it to the guest's output disk, behind the order. No page of it may be in memory when
the machine is stored, or the guest would read that page for ever: it is read with O_DIRECT.
"""

import mmap
import os
import time
from pathlib import Path

from runners.cell import PLAN_START, WAITING

BLOCK, MOST = 4096, 4 << 20  # bytes
POLL = 0.02  # seconds


def wait_for_input() -> str:
    """What the host wrote, as soon as it is there. Raises OSError."""
    blank_free_memory()
    print(WAITING, flush=True)
    descriptor = os.open(os.environ["PATHCOST_DISK"], os.O_RDONLY | os.O_DIRECT)
    try:
        while not _read(descriptor, BLOCK):
            time.sleep(POLL)
        return _read(descriptor, MOST)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int) -> str:
    with mmap.mmap(-1, size) as memory:  # on a page, as O_DIRECT needs it
        os.preadv(descriptor, [memory], PLAN_START)
        return memory[:].rstrip(b"\0").decode()


def blank_free_memory() -> None:
    """Let go of what was read from disks, and fill free memory with zeros, which QEMU leaves out.

    The kernel clears a page for each process that gets it, so this process gets them all, once.
    """
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    free = int(text.partition("MemFree:")[2].split()[0]) << 10
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, free * 9 // 10 // BLOCK * BLOCK, flags=flags).close()
