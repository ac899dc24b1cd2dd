# SPDX-License-Identifier: GPL-2.0-or-later
"""The experiment of go-afecho: an echo server in Go, and a client that writes and reads at once.

One connection carries "HelloWorld" and a line feed 100,000 times: a fifth of the article's 500,000,
after a warm-up that the article lacks. The article's Go client switches Nagle's algorithm off, its
Java client does not; here each runs both ways. The client waits for no answer, so only the sockets'
buffers limit the data in flight. Nothing is pinned.
"""

from collections.abc import Sequence
from pathlib import Path

from runners.collect.workload import private_directory
from runners.ports import free_port
from runners.programs.client import run_counted, serving
from runners.programs.probes import Probes, Records, Say, rounds

SERVER = Path(__file__).parent / "go/build/server"
SIZE = 10  # of HelloWorld; the line feed marks a boundary, and does not count
WARMUP, MESSAGES = 20_000, 100_000
# Transport → the client's arguments.
TRANSPORTS = {"unix": ("unix", "nodelay"), "tcp": ("tcp", "nodelay"), "tcp-nagle": ("tcp", "nagle")}


def run(program: str, client: Sequence[str], say: Say, probes: Probes | None) -> Records:
    """Yield a record per measurement, interleaved A B B A. Raises RunError."""
    with private_directory() as directory:
        ends = {"unix": str(directory / "echo"), "tcp": str(free_port())}
        argv = [str(SERVER), ends["tcp"], ends["unix"]]
        with serving("the echo server", argv, ends) as server:
            todo = list(TRANSPORTS.items())
            for repeat, (transport, (network, nagle)), watch in rounds(todo, probes):
                say(f"{program} {transport}, repeat {repeat}")
                words = [network, ends[network], nagle, str(WARMUP), str(MESSAGES)]
                yield {
                    **{"program": program, "variant": "echo", "clients": 1, "size": SIZE},
                    **{"transport": transport, "repeat": repeat, "sent": MESSAGES},
                    **run_counted([*client, *words], server, watch),
                }
