# SPDX-License-Identifier: GPL-2.0-or-later
"""Ports of the loopback."""

import socket


def free_port(how: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of the loopback that nobody was using a moment ago."""
    with socket.socket(socket.AF_INET, how) as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])
