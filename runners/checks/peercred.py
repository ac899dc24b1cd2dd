# SPDX-License-Identifier: GPL-2.0-or-later
"""Does SO_PEERCRED name the process that connected, or the process that writes?

unix(7): the credentials are those at connect() or socketpair(). One condition is a peer that
connected itself, the other a child that inherited the connection.
"""

import os
import socket
import struct
from functools import partial

from runners.checks import Found, connect_to, in_child, listen_at

NUMBER = struct.Struct("i")
CREDENTIALS = struct.Struct("iII")


def connect_and_write(inherited: bool) -> None:
    """Connect, and write the process id; or let a child write its own."""
    client = connect_to("peer")

    def write() -> None:
        client.sendall(NUMBER.pack(os.getpid()))

    if inherited:
        os.waitpid(in_child(write), 0)
    else:
        write()


def check() -> Found:
    with listen_at("peer") as server:
        for inherited in (False, True):
            child = in_child(partial(connect_and_write, inherited))
            served, _ = server.accept()
            with served:
                (writer,) = NUMBER.unpack(served.recv(NUMBER.size, socket.MSG_WAITALL))
                raw = served.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
            named, uid, _ = CREDENTIALS.unpack(raw)
            os.waitpid(child, 0)
            yield (
                {"connection": "inherited" if inherited else "own"},
                {
                    "names_the_writer": named == writer,
                    "names_who_connected": named == child,
                    "uid_is_right": uid == os.getuid(),
                },
            )
