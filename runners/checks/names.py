# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks of addresses: paths, abstract names, and what is at a path."""

import os
import socket
from pathlib import Path
from typing import Any

from runners.checks.calls import (
    PAYLOAD_BYTES,
    Facts,
    bind_again,
    bind_bytes,
    connect_to,
    listen_at,
    outcome,
    stream,
)

STALE = Path("stale")
LONGEST_PATH = 200


def name(length: int) -> bytes:
    """An abstract name of `length` bytes with the leading NUL, which no other check has."""
    return f"\0{os.getpid()}".encode().ljust(length, b"a")


def abstract_names() -> Facts:
    """Does an abstract name have a file, and how long may it be? Do trailing NULs count?"""
    with stream() as short, stream() as long, stream() as server, stream() as another:
        facts: dict[str, object] = {
            "bind_108_bytes": outcome(bind_bytes, short, name(108)),
            "bind_109_bytes": outcome(bind_bytes, long, name(109)),
        }
        server.bind(name(40))
        server.listen(8)
        facts["file_exists"] = Path(name(40)[1:].decode()).exists()
        for fact, address in (("", name(40)), ("_with_one_more_nul", name(40) + b"\0")):
            with stream() as client:
                facts[f"connect{fact}"] = outcome(client.connect, address)
        facts["trailing_nul_is_another_name"] = outcome(another.bind, name(40) + b"\0") == "ok"
    near, far = socket.socketpair()
    with near, far:
        facts["unnamed_has_a_name"] = bool(near.getsockname() or near.getpeername())
    yield {}, facts


def socket_file() -> Facts:
    """What does bind() put into the file system, and is a message in it?"""
    path = Path("file")
    facts: dict[str, object] = {"file_before_bind": path.exists()}
    with listen_at(str(path)) as server, connect_to(str(path)) as client:
        facts["is_a_socket"] = path.is_socket()
        client.sendall(b"x" * PAYLOAD_BYTES)
        facts["bytes_in_file"] = path.stat().st_size
        facts["bytes_in_socket"] = len(server.accept()[0].recv(PAYLOAD_BYTES))
    path.unlink()
    yield {}, facts


def bind_after_unlink() -> str:
    STALE.unlink()
    again = bind_again(str(STALE))
    STALE.unlink()
    return again


def stale_file() -> Facts:
    """What happens at a socket file without a listener, and what does unlink() before bind() do?"""
    path = str(STALE)
    listen_at(path).close()
    facts = {
        "file_stays_after_close": STALE.exists(),
        "bind_again": bind_again(path),
        "bind_again_with_SO_REUSEADDR": bind_again(path, reuse=True),
        "connect": outcome(connect_to, path),
        "bind_after_unlink": bind_after_unlink(),
        "takes_clients_away": False,  # no server has any
    }
    yield {"server": "gone"}, facts
    # Does a newcomer that unlinks and binds get the clients of a live server?
    with listen_at(path):
        unlinked = bind_after_unlink()
        with listen_at(path) as newcomer, connect_to(path) as client:
            client.sendall(b"x")
            newcomer.setblocking(False)
            served = outcome(newcomer.accept) == "ok"
    yield {"server": "alive"}, {"bind_after_unlink": unlinked, "takes_clients_away": served}


def bind_path(length: int) -> str:
    """The outcome of binding to a relative path of `length` bytes, with no NUL after them."""
    with stream() as made:
        bound = outcome(bind_bytes, made, b"p" * length)
    Path("p" * length).unlink(missing_ok=True)
    return bound


def fits_structure(length: int) -> bool:
    """Python knows sun_path's size, and refuses, without an errno, what leaves no NUL in it."""
    with stream() as made:
        try:
            made.connect("p" * length)
        except OSError as error:
            return error.errno is not None
    return True


def sun_path() -> Facts:
    """How long may a socket's path be, and what does bind() return for a longer one?"""
    bound = {length: bind_path(length) for length in range(1, LONGEST_PATH + 1)}
    facts: dict[str, Any] = {"bind_109_bytes": bound[109]}
    facts["longest_path_bytes"] = max(length for length in bound if bound[length] == "ok")
    facts["sun_path_bytes"] = next(length for length in bound if not fits_structure(length))
    yield {}, facts
