# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps CPUs busy, for a comparison without the cost of waking an idle CPU.

Across CPUs, most of a round trip is the way out of idle. On a virtual machine that way leads
through the hypervisor, and differs by a tenth and more from run to run. A thread of the SCHED_IDLE
policy (sched(7)) keeps a CPU busy and gives way to any other thread that wakes up there.
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
    """Run one spinning process of the idle policy on each of `cpus` until the block ends."""
    with contextlib.ExitStack() as stack:
        for cpu in sorted(set(cpus)):
            argv = command([sys.executable, "-I", "-c", SPIN, str(cpu)])
            spinner = stack.enter_context(subprocess.Popen(argv, stdin=subprocess.DEVNULL))
            stack.callback(spinner.kill)
        yield
