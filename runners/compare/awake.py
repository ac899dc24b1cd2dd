# SPDX-License-Identifier: GPL-2.0-or-later
"""CPUs that never idle, for a comparison in which waking an idle CPU has no part.

Across CPUs most of a round trip is the way out of idle, which on a virtual machine leads through
the hypervisor and differs by a tenth and more from run to run. A thread of the SCHED_IDLE policy
(sched(7)) on each CPU keeps it busy and gives way to whatever else wakes up there.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterable, Iterator

from runners.process import command

SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while True:
    pass
"""


@contextlib.contextmanager
def kept_awake(cpus: Iterable[int]) -> Iterator[None]:
    """One spinning process of the idle policy on each of `cpus`; gone at the end."""
    with contextlib.ExitStack() as stack:
        for cpu in sorted(set(cpus)):
            argv = command([sys.executable, "-I", "-c", SPIN, str(cpu)])
            spinner = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.DEVNULL))
            stack.callback(spinner.kill)
        yield
