# SPDX-License-Identifier: GPL-2.0-or-later
"""A private view of tracefs: nothing is mounted for the rest of the machine.

bpftrace and the function tracer need tracefs at /sys/kernel/tracing. Where it is not mounted
we mount it in a mount namespace of our own (mount_namespaces(7)), which ends with our last process.
"""

from __future__ import annotations

import ctypes
import os
import subprocess

from runners.collect.scripts import TRACEFS
from runners.errors import RunError

CLONE_NEWNS = 0x00020000
# File system type → where the tools look for it, and a file that is there once it is mounted.
WANTED = (
    ("tracefs", TRACEFS, "events"),
    ("securityfs", TRACEFS.parent / "security", "lsm"),
)


def private_mounts() -> None:
    """Enter a mount namespace of our own, with what tracing needs. Raises RunError, needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise RunError(
            f"no private mount namespace ({reason}): in a container, run it with --privileged."
        )
    _mount("--make-rslave", "/")
    for kind, where, sign in WANTED:
        if where.is_dir() and not (where / sign).exists():
            _mount("-t", kind, kind, str(where))


def _mount(*arguments: str) -> None:
    # Of a kernel without tracefs or securityfs, the preflight says more.
    subprocess.run(["mount", *arguments], capture_output=True, check=False)
