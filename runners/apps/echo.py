# SPDX-License-Identifier: GPL-2.0-or-later
"""An echo server in Go and a client that writes and reads at the same time: go-afecho's experiment.

One connection, 100,000 times "HelloWorld" and a line feed: a fifth of the article's 500,000, after
a warm-up that the article has not. The article's Go client has Nagle's algorithm switched off, its
Java client on; here each runs both ways. Nothing waits for an answer: what is on its way at once is
what the sockets' buffers hold. Nothing is pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from runners.apps.client import run_counted
from runners.apps.probes import Probes, rounds
from runners.apps.server import serving
from runners.collect.workload import private_directory
from runners.ports import free_port
from runners.process import User

SERVER = Path(__file__).parent / "go/build/server"
SIZE = 10  # of HelloWorld: the line feed stands for a boundary, and is not counted
WARMUP, MESSAGES = 20_000, 100_000
REPEATS = 6
# Transport → the client's words for it.
TRANSPORTS = {"unix": ("unix", "nodelay"), "tcp": ("tcp", "nodelay"), "tcp-nagle": ("tcp", "nagle")}


def run(
    app: str,
    client: Sequence[str],
    user: User | None,
    say: Callable[[str], None],
    probes: Probes | None,
) -> Iterator[dict[str, Any]]:
    """One record for each measurement, interleaved A B B A. Raises RunError."""
    with private_directory(user) as directory:
        ends = {"unix": str(directory / "echo"), "tcp": str(free_port())}
        argv = [str(SERVER), ends["tcp"], ends["unix"]]
        with serving("the echo server", argv, user, ends) as server:
            todo = list(TRANSPORTS.items())
            for repeat, (transport, (network, nagle)), watch in rounds(todo, REPEATS, probes):
                say(f"{app} {transport}, repeat {repeat}")
                words = [network, ends[network], nagle, str(WARMUP), str(MESSAGES)]
                yield {
                    **{"app": app, "variant": "echo", "clients": 1, "size": SIZE},
                    **{"transport": transport, "repeat": repeat, "sent": MESSAGES},
                    **run_counted([*client, *words], user, server, watch),
                }
