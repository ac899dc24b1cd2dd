# SPDX-License-Identifier: GPL-2.0-or-later
"""`fastcgi.py unix PATH|tcp PORT REQUESTS`: asks for /ping as nginx does for `fastcgi_pass`.

Prints one JSON object: `asked`, the number of requests, and `answers`, protocol → how many.
"""

import json
import socket
import struct
import sys
from collections import Counter

SECONDS = 60
# The FastCGI Specification 1.0: sections 3.3 (records), 3.4 (name-value pairs) and 5.1.
VERSION, RESPONDER, REQUEST_ID = 1, 1, 1
BEGIN_REQUEST, END_REQUEST, PARAMS, STDIN, STDOUT, STDERR = 1, 3, 4, 5, 6, 7
PARAMETERS = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "/ping",
    "REQUEST_URI": "/ping",
    "SERVER_PROTOCOL": "HTTP/1.1",
}


def ask(address: str | tuple[str, int]) -> str:
    """Send the request: the answer is `fastcgi`, `http`, something `else`, or `nothing`."""
    pairs = b"".join(
        bytes((len(name), len(value))) + name.encode() + value.encode()
        for name, value in PARAMETERS.items()
    )
    start = struct.pack(">HB5x", RESPONDER, 0)
    records = ((BEGIN_REQUEST, start), (PARAMS, pairs), (PARAMS, b""), (STDIN, b""))
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as connection:
        connection.settimeout(SECONDS)
        connection.connect(address)
        connection.sendall(
            b"".join(
                struct.pack(">BBHHBx", VERSION, kind, REQUEST_ID, len(content), 0) + content
                for kind, content in records
            )
        )
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


def main(transport: str, end: str, requests: str) -> None:
    address = end if transport == "unix" else ("127.0.0.1", int(end))
    answers = Counter(ask(address) for _ in range(int(requests)))
    print(json.dumps({"asked": int(requests), "answers": answers}))


if __name__ == "__main__":
    main(*sys.argv[1:])
