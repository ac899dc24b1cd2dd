# SPDX-License-Identifier: GPL-2.0-or-later
"""One measurement at a time, as two at once would spoil both.

The lock is an abstract Unix socket (unix(7)): the kernel frees the name when its owner dies,
however it dies, and SO_PEERCRED tells a second run who holds it.
"""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.errors import RunError

NAME = "\0pathcost-is-measuring"
MOST_REFUSED = 128
CREDENTIALS = struct.Struct("iII")


@contextmanager
def measuring() -> Iterator[None]:
    """Hold the lock. Raises RunError, naming the holder, where another run has it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(NAME)
        except OSError as error:
            raise RunError(
                f"another run is measuring on this machine ({_holder()}), and two at once would "
                "spoil both: wait until it has ended."
            ) from error
        # No connection is ever accepted: refused runs stay in the queue, which must not fill up.
        lock.listen(MOST_REFUSED)
        yield


def _holder() -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.setblocking(False)
        try:
            peer.connect(NAME)
        except OSError:
            return "which does not answer"
        raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid = CREDENTIALS.unpack(raw)[0]
    try:
        started = Path(f"/proc/{pid}").stat().st_mtime
    except OSError:
        return f"process {pid}"
    return f"process {pid}, for {max(0, int((time.time() - started) // 60))} min"
