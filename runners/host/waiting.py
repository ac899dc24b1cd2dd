# SPDX-License-Identifier: GPL-2.0-or-later
"""How a collector in a guest waits for its plan, so that its machine can be stored meanwhile.

What takes long under emulation and is equal in each run comes first: probes are attached for the
transports that a run names. Then the collector prints WAITING, and reads the disk that its init
names at byte PLAN_START until a plan is there. The other half is runners/guest/stored.py.
"""

import mmap
import os
import time
from pathlib import Path

from probes.cell import Cell, CellRun, Pass, Plan
from probes.contract import PLAN_START, WAITING

DISK = "PATHCOST_DISK"  # the variable that names the disk
DISK_BLOCK, LARGEST_PLAN = 4096, 4 << 20  # bytes
PLAN_POLL = 0.02  # seconds


def waiting_plan(plan: Plan) -> Plan | None:
    """What a stored guest knows of a plan: the first scripts, if any, and all transports."""
    scripts = plan.passes[0].scripts
    names = sorted({cell.transport for cell in plan.cells})
    cells = [Cell(transport=name, pattern="", size=0, placement="") for name in names]
    runs = tuple(CellRun(0, cell, 0) for cell in cells)
    return Plan((Pass(scripts, runs),)) if scripts else None


def wait_for_plan() -> str:
    """The text of the plan, for which the guest waits. Raises OSError.

    No page of the disk may be in memory when the machine is stored: so O_DIRECT.
    """
    blank_free_memory()
    print(WAITING, flush=True)
    descriptor = os.open(os.environ[DISK], os.O_RDONLY | os.O_DIRECT)
    try:
        while not _read(descriptor, DISK_BLOCK):
            time.sleep(PLAN_POLL)
        return _read(descriptor, LARGEST_PLAN)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int) -> str:
    with mmap.mmap(-1, size) as memory:  # on a page, as O_DIRECT needs it
        os.preadv(descriptor, [memory], PLAN_START)
        return memory[:].rstrip(b"\0").decode()


def blank_free_memory() -> None:
    """Drop what was read from disks, and fill free memory with zeros, which QEMU leaves out."""
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    free = int(text.partition("MemFree:")[2].split()[0]) << 10
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, free * 9 // 10 // DISK_BLOCK * DISK_BLOCK, flags=flags).close()
