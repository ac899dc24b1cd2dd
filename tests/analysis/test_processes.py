# SPDX-License-Identifier: GPL-2.0-or-later
"""Work in a second process comes back, and is done here where that process cannot."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil

from analysis.drawing import in_process


def test_a_child_that_dies_leaves_the_work_to_us() -> None:
    ours = os.getpid()

    def work() -> int:
        if os.getpid() != ours:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    assert in_process(work)() == ours


# Says who the child is, and is killed before it reads the child's result, which fills the pipe.
PARENT = """
import os, sys, time
from analysis.drawing import in_process
def work():
    os.write(1, b"%d\\n" % os.getpid())
    return bytes(1 << 20)
in_process(work)
time.sleep(600)
"""


def test_a_child_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        try:
            assert psutil.wait_procs([child], timeout=20)[0]
        finally:
            with suppress(psutil.NoSuchProcess):
                child.kill()
