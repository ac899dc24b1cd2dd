# SPDX-License-Identifier: GPL-2.0-or-later
"""Small programs that answer a yes-or-no question about this kernel; and steps that several share.

`python3 -m runners.checks sun-path DIRECTORY` runs the check of sun_path.py in an empty directory,
and prints what it finds. A check yields a condition (empty: none) and the facts under it.
"""

import ctypes
import os
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

Found = Iterator[tuple[dict[str, str], dict[str, Any]]]
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.strerrorname_np.restype = ctypes.c_char_p


class CheckError(Exception):
    """The check cannot run here; the message is one sentence."""


class NeedsRootError(CheckError):
    """The check has to be root."""


def name_of(error: int) -> str:
    """`ok` for 0, otherwise the name of errno. Python's own table has ENOTSUP for EOPNOTSUPP."""
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


def listen_at(path: str) -> socket.socket:
    """A listening socket at `path`."""
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
        if reuse:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return outcome(made.bind, address)


def bind_bytes(made: socket.socket, path: bytes) -> None:
    """bind() to a path of any length, as a careless program could: Python refuses long ones."""
    address = struct.pack("H", socket.AF_UNIX) + path
    if LIBC.bind(made.fileno(), address, len(address)) != 0:
        raise OSError(ctypes.get_errno(), "bind")


def in_child(work: Callable[[], int | None]) -> int:
    """The process id of a child that does this work, and ends with the number that it returns."""
    child = os.fork()
    if child == 0:
        status: int | None = 255  # if it raises an error
        try:
            status = work()
        finally:
            os._exit(status or 0)
    return child
