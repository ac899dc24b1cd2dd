# SPDX-License-Identifier: GPL-2.0-or-later
"""How long may a socket's path be, and what does bind() return for a longer one?

bind() gets addresses longer than struct sockaddr_un, as a careless program could pass: the only
way to try more than the structure holds. unix(7), "Pathname sockets"; net/unix/af_unix.c,
unix_validate_addr().
"""

from pathlib import Path

from runners.checks import Found, bind_bytes, outcome, stream

LONGEST = 200


def bind_path(length: int) -> str:
    """The outcome of binding to a relative path of `length` bytes, with no NUL after them."""
    with stream() as made:
        said = outcome(bind_bytes, made, b"p" * length)
    Path("p" * length).unlink(missing_ok=True)
    return said


def structure_bytes() -> int:
    """sizeof(sun_path): Python was compiled with it, and refuses a path without room for a NUL."""
    with stream() as made:
        length = 1
        while True:
            try:
                made.connect("p" * length)
            except OSError as error:
                if error.errno is None:
                    return length
            length += 1


def check() -> Found:
    said = {length: bind_path(length) for length in range(1, LONGEST + 1)}
    yield (
        {},
        {
            "bind_109_bytes": said[109],
            "longest_path_bytes": max(length for length in said if said[length] == "ok"),
            "sun_path_bytes": structure_bytes(),
        },
    )
