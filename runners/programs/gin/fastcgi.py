# SPDX-License-Identifier: GPL-2.0-or-later
"""`fastcgi.py unix PATH|tcp PORT REQUESTS`: asks for /ping as nginx does for `fastcgi_pass`.

Prints one JSON object: `asked`, the number of requests, and `answers`, protocol → how many.
"""

import json
import socket
import struct
import sys
from collections import Counter

CONNECTION_SECONDS = 60
# The FastCGI Specification 1.0: sections 3.3 (records), 3.4 (name-value pairs) and 5.1.
BEGIN_REQUEST, END_REQUEST, PARAMS, STDIN, STDOUT, STDERR = 1, 3, 4, 5, 6, 7
PARAMETERS = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "/ping",
    "REQUEST_URI": "/ping",
    "SERVER_PROTOCOL": "HTTP/1.1",
}


def record(kind: int, content: bytes = b"") -> bytes:
    """A record of version 1, for the request 1."""
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


PAIRS = b"".join(
    bytes((len(name), len(value))) + f"{name}{value}".encode() for name, value in PARAMETERS.items()
)
START = record(BEGIN_REQUEST, struct.pack(">HB5x", 1, 0))  # for a responder
REQUEST = START + record(PARAMS, PAIRS) + record(PARAMS) + record(STDIN)


def ask(address: str | tuple[str, int]) -> str:
    """Send the request: the answer is `fastcgi`, `http`, something `else`, or `nothing`."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as connection:
        connection.settimeout(CONNECTION_SECONDS)
        connection.connect(address)
        connection.sendall(REQUEST)
        connection.shutdown(socket.SHUT_WR)  # a server that reads lines would wait for a line feed
        try:
            answer = connection.recv(64)
        except (ConnectionResetError, TimeoutError):
            answer = b""
    if answer[:1] == b"\1" and answer[1] in (END_REQUEST, STDOUT, STDERR):
        return "fastcgi"
    if answer.startswith(b"HTTP/"):
        return "http"
    return "else" if answer else "nothing"


transport, end, requests = sys.argv[1:]
target = end if transport == "unix" else ("127.0.0.1", int(end))
answers = Counter(ask(target) for _ in range(int(requests)))
print(json.dumps({"asked": int(requests), "answers": answers}))
