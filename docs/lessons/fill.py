# SPDX-License-Identifier: GPL-2.0-or-later
"""Fill a connection that nobody reads, then read until its writer may write again."""

import select
import socket


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        writer = socket.create_connection(listener.getsockname())
        writer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return writer, listener.accept()[0]


def fill(writer: socket.socket, size: int) -> tuple[int, int]:
    """Write messages until the kernel takes no more; return the calls and the bytes it took."""
    calls, taken = 0, 0
    writer.setblocking(False)
    try:
        while True:
            taken += writer.send(bytes(size))
            calls += 1
    except BlockingIOError:
        return calls, taken


def drain(writer: socket.socket, reader: socket.socket, size: int) -> int:
    """Read until poll() says that the writer may write; return the bytes read."""
    read = 0
    while not select.select([], [writer], [], 0)[1]:
        read += len(reader.recv(size))
    return read


for family, connect in (("unix", socket.socketpair), ("tcp", tcp_pair)):
    for size in (64, 4096, 65536):
        writer, reader = connect()
        calls, taken = fill(writer, size)
        read = drain(writer, reader, size)
        print(
            f"{family:4} {size:6,} B: full after {calls:6,} writes with {taken:9,} B;"
            f" room again after {read:9,} B are read"
        )
        writer.close()
        reader.close()
