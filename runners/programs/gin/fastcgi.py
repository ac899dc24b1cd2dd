# SPDX-License-Identifier: GPL-2.0-or-later
"""Sends a FastCGI request as nginx does for `fastcgi_pass`, and finds the answer's protocol.

Source: the FastCGI Specification 1.0, sections 3.3 (records), 3.4 (name-value pairs) and 5.1
(BEGIN_REQUEST).
"""

from __future__ import annotations

import socket
import struct

VERSION, RESPONDER, REQUEST_ID = 1, 1, 1
BEGIN_REQUEST, END_REQUEST, PARAMS, STDIN, STDOUT, STDERR = 1, 3, 4, 5, 6, 7
PARAMETERS = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "/ping",
    "REQUEST_URI": "/ping",
    "SERVER_PROTOCOL": "HTTP/1.1",
}


def request() -> bytes:
    """GET /ping."""
    pairs = b"".join(
        bytes((len(name), len(value))) + name.encode() + value.encode()
        for name, value in PARAMETERS.items()
    )
    return b"".join(
        (
            _record(BEGIN_REQUEST, struct.pack(">HB5x", RESPONDER, 0)),
            *(_record(PARAMS, pairs), _record(PARAMS, b"")),
            _record(STDIN, b""),
        )
    )


def ask(where: str | tuple[str, int], patience: float) -> str:
    """Send a request. The kind of the answer: `fastcgi`, `http`, something `else`, or `nothing`.

    Raises OSError.
    """
    family = socket.AF_UNIX if isinstance(where, str) else socket.AF_INET
    with socket.socket(family) as connection:
        connection.settimeout(patience)
        connection.connect(where)
        connection.sendall(request())
        connection.shutdown(socket.SHUT_WR)  # a server that reads lines would wait for a line feed
        try:
            answer = connection.recv(64)
        except (ConnectionResetError, TimeoutError):
            answer = b""
    if answer[:1] == bytes((VERSION,)) and answer[1] in (END_REQUEST, STDOUT, STDERR):
        return "fastcgi"
    if answer.startswith(b"HTTP/"):
        return "http"
    return "else" if answer else "nothing"


def _record(kind: int, content: bytes) -> bytes:
    return struct.pack(">BBHHBx", VERSION, kind, REQUEST_ID, len(content), 0) + content
