# SPDX-License-Identifier: GPL-2.0-or-later
"""Gin's /ping over HTTP, by 100 connections: kept open, or a new one for each request.

The article's load generator is wrk, which cannot use a Unix socket; tools/request can. The server
is the article's, with its request log (to a file in a private directory) and without; one process
of each kind listens on both transports. The number of requests takes about a second, not the
article's 30. Nothing is pinned: client and server share the machine. In the article nginx speaks to
the server by `fastcgi_pass`, so the server also gets requests in FastCGI.
"""

import socket
import struct
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

from runners.collect.workload import private_directory
from runners.ports import free_port
from runners.programs.client import SECONDS, lack_of, run_whole, serving
from runners.programs.probes import TRANSPORTS, Probes, Records, Say, Watch, rounds
from runners.programs.program import HERE

BUILD = Path(__file__).parent / "build"
SERVER = BUILD / "server"
CLIENT = HERE / "tools/build/request"
PING = "GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
CONNECTIONS = 100
# Connections → number of requests.
REQUESTS = {"keep": 20_000, "new": 10_000}
LOGS = ("log", "quiet")
FASTCGI_REQUESTS = 23
TAKES = 50
# The FastCGI Specification 1.0: sections 3.3 (records), 3.4 (name-value pairs) and 5.1.
VERSION, RESPONDER, REQUEST_ID = 1, 1, 1
BEGIN_REQUEST, END_REQUEST, PARAMS, STDIN, STDOUT, STDERR = 1, 3, 4, 5, 6, 7
PARAMETERS = {
    "REQUEST_METHOD": "GET",
    "SCRIPT_NAME": "/ping",
    "REQUEST_URI": "/ping",
    "SERVER_PROTOCOL": "HTTP/1.1",
}


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    return lack_of("gin", CLIENT, SERVER)


def run(say: Say, probes: Probes | None = None) -> Records:
    """Yield a record per measurement, interleaved A B B A. Raises RunError."""
    with private_directory() as directory, ExitStack() as stack:
        servers = {}
        for log in LOGS:
            ends = {"unix": str(directory / log), "tcp": str(free_port())}
            argv = [str(SERVER), log, ends["tcp"], ends["unix"]]
            output = stack.enter_context((directory / f"{log}.out").open("wb"))
            up = serving("the Gin server", argv, ends, output)
            servers[log] = (stack.enter_context(up), ends)
        cases = list(product(LOGS, REQUESTS, TRANSPORTS))
        for log, _, transport in cases:  # the first requests of a server are slow
            _measure(*servers[log], "keep", transport)
        for repeat, (log, connections, transport), watch in rounds(cases, probes):
            say(f"gin {transport} {connections} {log}, repeat {repeat}")
            yield {
                **{"program": "gin", "variant": connections, "log": log == "log"},
                **{"clients": CONNECTIONS, "transport": transport, "repeat": repeat},
                **_measure(*servers[log], connections, transport, watch),
            }
        _, ends = servers["quiet"]
        where: dict[str, Any] = {"unix": ends["unix"], "tcp": ("127.0.0.1", int(ends["tcp"]))}
        for repeat, transport, _ in rounds(TRANSPORTS, None):
            asked = range(FASTCGI_REQUESTS)
            answers = Counter(ask_in_fastcgi(where[transport], SECONDS) for _ in asked)
            yield {
                **{"program": "gin", "variant": "fastcgi", "clients": 1, "transport": transport},
                **{"repeat": repeat, "asked": len(asked), "answers": dict(answers), "error": None},
            }


def _measure(
    server: int,
    ends: Mapping[str, str],
    connections: str,
    transport: str,
    watch: Watch | None = None,
) -> dict[str, Any]:
    argv = [
        str(CLIENT), transport, ends[transport], str(CONNECTIONS), str(REQUESTS[connections]),
        connections, "1", "http", PING,
    ]  # fmt: skip
    found = run_whole(argv, server, watch)
    if found["error"]:
        return found
    times = {key: found.pop(f"{key}_ns") for key in ("mean", "p50", "p99")}
    return {**found, "answered": found["requests"], "iterations_ns": times}


def ask_in_fastcgi(where: str | tuple[str, int], patience: float) -> str:
    """Send GET /ping as nginx does for `fastcgi_pass`.

    Returns the kind of the answer: `fastcgi`, `http`, something `else`, or `nothing`. Raises
    OSError.
    """
    pairs = b"".join(
        bytes((len(name), len(value))) + name.encode() + value.encode()
        for name, value in PARAMETERS.items()
    )
    records = (
        (BEGIN_REQUEST, struct.pack(">HB5x", RESPONDER, 0)),
        *((PARAMS, pairs), (PARAMS, b""), (STDIN, b"")),
    )
    with socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET) as connection:
        connection.settimeout(patience)
        connection.connect(where)
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
