# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's asyncio streams, and uvloop beside it: ping-pong and stream over one connection.

Debian's python3, and uvloop where its package is installed. One server for each event loop and
transport; each measurement is a connection and a client process of its own. Nothing is pinned, as
in the article. Messages are far fewer than its minute's worth.
"""

from contextlib import ExitStack
from itertools import product
from pathlib import Path

from runners.collect.workload import private_directory
from runners.ports import free_port
from runners.process import attempt
from runners.programs.client import run_counted, serving
from runners.programs.probes import TRANSPORTS, Probes, Records, Say, rounds

PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's uvloop
PROGRAM = Path(__file__).parent / "streams.py"
LOOPS = ("asyncio", "uvloop")
# Pattern → size → messages.
MESSAGES = {
    "pingpong": {64: 2000, 1024: 2000, 8192: 2000},
    "stream": {64: 20000, 4096: 20000, 65536: 4000},
}
TAKES = 55


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    return "" if Path(PYTHON).exists() else "there is no python3 here (apt-get install python3)"


def loops() -> list[str]:
    """The event loops that are installed."""
    there = attempt([PYTHON, "-I", "-c", "import uvloop"]).returncode == 0
    return [loop for loop in LOOPS if loop != "uvloop" or there]


def run(say: Say, probes: Probes | None = None) -> Records:
    """Yield a record per measurement, interleaved A B B A. Raises RunError."""
    cases = [(p, size, n) for p, sizes in MESSAGES.items() for size, n in sizes.items()]
    with private_directory() as directory, ExitStack() as stack:
        servers = {}
        for loop, transport in product(loops(), TRANSPORTS):
            end = str(directory / loop) if transport == "unix" else str(free_port())
            argv = _argv(loop, "server", transport, end)
            up = serving(f"the {loop} server", argv, {transport: end})
            servers[loop, transport] = (stack.enter_context(up), end)
        todo = list(product(servers, cases))
        for repeat, ((loop, transport), case), watch in rounds(todo, probes):
            (pattern, size, messages), (server, end) = case, servers[loop, transport]
            say(f"{loop} {transport} {pattern} {size} B, repeat {repeat}")
            record = {"program": "asyncio", "variant": pattern, "loop": loop, "clients": 1,
                      "transport": transport, "size": size, "repeat": repeat}  # fmt: skip
            argv = [*_argv(loop, "client", transport, end), pattern, str(size), str(messages)]
            yield record | run_counted(argv, server, watch)


def _argv(loop: str, role: str, transport: str, end: str) -> list[str]:
    return [PYTHON, "-P", str(PROGRAM), loop, role, transport, end]
