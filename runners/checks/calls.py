# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls on sockets that the checks share."""

import ctypes
import os
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

Facts = Iterator[tuple[dict[str, str], dict[str, Any]]]
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.strerrorname_np.restype = ctypes.c_char_p
NOBODY = 65534
PAYLOAD_BYTES = 4096
SOCKET_FAMILIES = {"tcp": socket.AF_INET, "unix": socket.AF_UNIX}


def name_of(error: int) -> str:
    """`ok` for 0, otherwise the name of errno: Python's own table has ENOTSUP for EOPNOTSUPP."""
    return str(LIBC.strerrorname_np(error).decode()) if error else "ok"


def outcome(call: Callable[..., object], *arguments: object) -> str:
    """`ok` if a system call succeeds, otherwise the name of errno."""
    try:
        call(*arguments)
    except OSError as error:
        return name_of(error.errno or 0)
    return "ok"


def stream(family: socket.AddressFamily = socket.AF_UNIX) -> socket.socket:
    return socket.socket(family, socket.SOCK_STREAM)


def listener(family: socket.AddressFamily, backlog: int) -> socket.socket:
    """A server at an address that nothing else has; nobody accepts."""
    made = stream(family)
    made.bind(("127.0.0.1", 0) if family == socket.AF_INET else f"listener-{backlog}")
    made.listen(backlog)
    return made


def listen_at(path: str) -> socket.socket:
    made = stream()
    made.bind(path)
    made.listen(8)
    return made


def connect_to(path: str) -> socket.socket:
    made = stream()
    made.connect(path)
    return made


def bind_again(address: str | tuple[str, int], *, reuse: bool = False) -> str:
    """The outcome of binding a new socket to an address that was used before."""
    with stream(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        return outcome(made.bind, address)


def bind_bytes(made: socket.socket, path: bytes) -> None:
    """bind() to a path of any length, as a careless program could: Python refuses long ones."""
    address = struct.pack("H", socket.AF_UNIX) + path
    if LIBC.bind(made.fileno(), address, len(address)) != 0:
        raise OSError(ctypes.get_errno(), "bind")


def in_child(work: Callable[[], int | None]) -> int:
    """A child that does this work, and ends with the number that it returns; 255 if it fails."""
    if child := os.fork():
        return child
    status: int | None = 255
    try:
        status = work()
    finally:
        os._exit(status or 0)


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
