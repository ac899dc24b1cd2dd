# SPDX-License-Identifier: GPL-2.0-or-later
"""Ways to move bytes through a socket, beside send(2) and recv(2)."""

import ctypes
import mmap
import os
import socket
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress

SETUP, ENTER, SQES = 425, 426, 0x10000000  # of io_uring
SEND, RECEIVE, SEND_ZERO_COPY = 26, 27, 47
SO_ZEROCOPY, MSG_ZEROCOPY = 60, 0x4000000
LIBC = ctypes.CDLL(None, use_errno=True)
Moves = Callable[[socket.socket, bytes], int]


def called(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def by_ring(operation: int) -> Moves:
    """One submission to an io_uring of its own, and its result."""

    def move(sock: socket.socket, data: bytes) -> int:
        params = ctypes.create_string_buffer(120)
        ring = called(LIBC.syscall(SETUP, 1, params))
        tail, array = struct.unpack_from("I", params, 44)[0], struct.unpack_from("I", params, 64)[0]
        done = struct.unpack_from("I", params, 100)[0]
        buffer = ctypes.create_string_buffer(data, len(data))
        with mmap.mmap(ring, 4096) as rings, mmap.mmap(ring, 4096, offset=SQES) as entries:
            at, size = ctypes.addressof(buffer), len(data)
            struct.pack_into("BBHiQQI", entries, 0, operation, 0, 0, sock.fileno(), 0, at, size)
            struct.pack_into("I", rings, array, 0)
            struct.pack_into("I", rings, tail, 1)
            called(LIBC.syscall(ENTER, ring, 1, 1, 1, None, 0))
            result: int = struct.unpack_from("i", rings, done + 8)[0]
        os.close(ring)
        return result

    return move


def by_mmsg(call: str) -> Moves:
    """sendmmsg(2) or recvmmsg(2), of two messages that are half of it each."""

    def move(sock: socket.socket, data: bytes) -> int:
        buffer, half = ctypes.create_string_buffer(data, len(data)), len(data) // 2
        at = ctypes.addressof(buffer)
        parts = ctypes.create_string_buffer(struct.pack("QQQQ", at, half, at + half, half))
        heads = ctypes.create_string_buffer(
            b"".join(struct.pack("QQQQQQQQ", 0, 0, ctypes.addressof(parts) + 16 * n, 1, 0, 0, 0, 0)
                     for n in range(2))
        )  # fmt: skip
        called(getattr(LIBC, call)(sock.fileno(), heads, 2, socket.MSG_WAITALL, None))
        return sum(struct.unpack_from("I", heads, 64 * n + 56)[0] for n in range(2))

    return move


def by_file(sock: socket.socket, data: bytes) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return os.sendfile(sock.fileno(), file.fileno(), 0, len(data))


def by_zero_copy(sock: socket.socket, data: bytes) -> int:
    with suppress(OSError):  # a Unix socket has no such option, and copies
        sock.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
    return sock.send(data, MSG_ZEROCOPY)


def by_vector(sock: socket.socket, data: bytes) -> int:
    return os.readv(sock.fileno(), [bytearray(len(data) // 2), bytearray(len(data) // 2)])


ZERO_COPY_RING = by_ring(SEND_ZERO_COPY)
# Name → who sends, who receives, and the calls that the kernel counts for one of each
WAYS: dict[str, tuple[Moves, Moves, int]] = {
    "sendmmsg, recvmmsg": (by_mmsg("sendmmsg"), by_mmsg("recvmmsg"), 2),
    "sendfile, readv": (by_file, by_vector, 1),
    "MSG_ZEROCOPY": (by_zero_copy, by_vector, 1),
    # Last: the end of a ring interrupts what its thread waits for.
    "io_uring": (by_ring(SEND), by_ring(RECEIVE), 1),
    "io_uring, zero copy": (ZERO_COPY_RING, by_ring(RECEIVE), 1),
}
