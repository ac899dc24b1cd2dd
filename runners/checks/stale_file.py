# SPDX-License-Identifier: GPL-2.0-or-later
"""What happens at a socket file without a listener, and what does unlink() before bind() do?

One condition is a server that has gone, the other a server that is alive.
unix(7): the file stays after close(); bind(2): EADDRINUSE.
"""

from pathlib import Path

from runners.checks import Found, bind_again, connect_to, listen_at, outcome

STALE = Path("stale")


def bind_after_unlink() -> str:
    STALE.unlink()
    said = bind_again(str(STALE))
    STALE.unlink()
    return said


def check() -> Found:
    path = str(STALE)
    listen_at(path).close()
    yield (
        {"server": "gone"},
        {
            "file_stays_after_close": STALE.exists(),
            "bind_again": bind_again(path),
            "bind_again_with_SO_REUSEADDR": bind_again(path, reuse=True),
            "connect": outcome(connect_to, path),
            "bind_after_unlink": bind_after_unlink(),
            "takes_clients_away": False,  # no server has any
        },
    )
    # Does a newcomer that unlinks and binds get the clients of a live server?
    with listen_at(path):
        unlinked = bind_after_unlink()
        with listen_at(path) as newcomer, connect_to(path) as client:
            client.sendall(b"x")
            newcomer.setblocking(False)
            served = outcome(newcomer.accept) == "ok"
    yield {"server": "alive"}, {"bind_after_unlink": unlinked, "takes_clients_away": served}
