# SPDX-License-Identifier: GPL-2.0-or-later
"""What does SCM_RIGHTS pass on, and does the kernel copy the payload beside it?

unix(7), SCM_RIGHTS. The sender overwrites its buffer after sendmsg(): a receiver that reads the
old contents has a copy.
"""

import os
import socket
from pathlib import Path

from runners.checks import Found

PAYLOAD = 4096


def check() -> Found:
    sent = bytearray(b"f" * PAYLOAD)  # f for first
    near, far = socket.socketpair()
    with near, far, Path("passed").open("w+b", buffering=0) as file:
        file.write(b"made up")
        socket.send_fds(near, [sent], [file.fileno()])
        sent[:] = b"l" * PAYLOAD  # l for later
        received, (got,), _, _ = socket.recv_fds(far, PAYLOAD, 1)
        file.seek(3)
        yield (
            {},
            {
                "same_file": os.path.sameopenfile(file.fileno(), got),
                "another_descriptor": got != file.fileno(),
                "offset_is_shared": os.lseek(got, 0, os.SEEK_CUR) == 3,
                "payload_is_copied": received == b"f" * PAYLOAD,
            },
        )
