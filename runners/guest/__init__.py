# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a command under a kernel of your choice: a Debian 13 guest in QEMU, kept in a cache.

    guest = prepare(cache, "6.12", say)
    guest.run(input_tar, out, ["python3", "work.py"], timeout=60, on_line=print)

It needs neither root nor KVM, and changes nothing outside the cache.
"""

from runners.guest.boot import Guest, GuestResult
from runners.guest.errors import CommandError, GuestError, NotCachedError, UnknownKernelError
from runners.guest.kernels import SERIES, check_name
from runners.guest.preparation import prepare

__all__ = [
    "SERIES",
    "CommandError",
    "Guest",
    "GuestError",
    "GuestResult",
    "NotCachedError",
    "UnknownKernelError",
    "check_name",
    "prepare",
]
