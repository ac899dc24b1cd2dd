# SPDX-License-Identifier: GPL-2.0-or-later
"""Does an abstract name have a file, and how long may it be? Do trailing NULs count?

unix(7), "Abstract sockets": the name is all bytes that the address length covers, from a NUL on.
"""

import os
from pathlib import Path

from runners.checks import Found, bind_bytes, outcome, stream


def name(length: int) -> bytes:
    """An abstract name of `length` bytes with the leading NUL."""
    # With the process id, so that two checks at the same time use two names.
    return f"\0{os.getpid()}".encode().ljust(length, b"a")


def check() -> Found:
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
    yield {}, facts
