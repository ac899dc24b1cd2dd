# SPDX-License-Identifier: GPL-2.0-or-later
"""The file systems that tracing needs, mounted for a run alone."""

import ctypes
import os

from runners.host.scripts import TRACEFS
from runners.process import RunError, attempt

CLONE_NEWNS = 0x00020000
# File system type → where the tools look for it, and a file that is there once it is mounted.
MOUNTS = (("tracefs", TRACEFS, "events"), ("securityfs", TRACEFS.parent / "security", "lsm"))


def private() -> None:
    """Mount what tracing needs where it is not mounted, in a mount namespace of our own.

    Nothing is mounted for the rest of the machine: the namespace (mount_namespaces(7)) ends with
    our last process. Raises RunError, needs root.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise RunError(
            f"no private mount namespace ({reason}): in a container, run it with --privileged."
        )
    attempt(["mount", "--make-rslave", "/"])
    for kind, where, sign in MOUNTS:
        if where.is_dir() and not (where / sign).exists():
            # Of a kernel without tracefs or securityfs, the preflight says more.
            attempt(["mount", "-t", kind, kind, where])
