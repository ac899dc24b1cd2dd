# SPDX-License-Identifier: GPL-2.0-or-later
"""Do calls that a program makes on a TCP socket do the same on a Unix socket?

TCP_NODELAY, SO_KEEPALIVE; and bind() to the address of a server that ended while a client was
connected, with SO_REUSEADDR as every TCP server sets it. tcp(7), unix(7).
"""

import socket

from runners.checks import Found, bind_again, outcome, stream

OPTIONS = {
    "tcp_nodelay": (socket.IPPROTO_TCP, socket.TCP_NODELAY),
    "keepalive": (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
}
FAMILIES = {"tcp": socket.AF_INET, "unix": socket.AF_UNIX}


def set_option(family: socket.AddressFamily, level: int, option: int) -> str:
    with stream(family) as made:
        return outcome(made.setsockopt, level, option, 1)


def bind_after_close(family: socket.AddressFamily) -> str:
    """Closes a server that has a client, then binds another socket to its address."""
    with stream(family) as client:
        with stream(family) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind("same" if family == socket.AF_UNIX else ("127.0.0.1", 0))
            server.listen(8)
            address = server.getsockname()
            client.connect(address)
            server.accept()[0].close()
        return bind_again(address, reuse=True)


def check() -> Found:
    facts = {
        f"{name}_on_{kind}": set_option(family, *option)
        for name, option in OPTIONS.items()
        for kind, family in FAMILIES.items()
    }
    again = {f"bind_again_on_{kind}": bind_after_close(of) for kind, of in FAMILIES.items()}
    yield {}, facts | again
