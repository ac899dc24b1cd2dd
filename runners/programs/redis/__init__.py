# SPDX-License-Identifier: GPL-2.0-or-later
"""INCR on redis-server, with a new or a kept connection per request, by 1 client and by 20.

The server comes from Debian's redis-tools, whose single program acts as redis-server under that
name; the package starts no service. It listens on a loopback port and on a socket in a private
directory, stores nothing on disk, and ends with the run. One client sends 1/200 of the article's
million requests, twenty clients 1/2000 of its ten million.
"""

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from runners.collect.workload import private_directory
from runners.ports import free_port
from runners.programs.client import SECONDS, run_whole, serving
from runners.programs.probes import TRANSPORTS, Probes, Records, Say, Watch, rounds

PROGRAM = "redis-check-rdb"  # redis-server, where it is called by that name
CLIENT = Path(__file__).parent / "build/incr"
# Clients → requests of each.
CLIENTS = {1: 5000, 20: 250}
CONNECTIONS = ("new", "keep")
TAKES = 25
SOCKSTAT = Path("/proc/net/sockstat")


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    return "" if shutil.which(PROGRAM) else "there is no redis here (apt-get install redis-tools)"


def run(say: Say, probes: Probes | None = None) -> Records:
    """Yield a record per measurement, interleaved A B B A. Raises RunError."""
    cases = list(product(CLIENTS, CONNECTIONS, TRANSPORTS))
    with private_directory() as directory, _server(directory) as (server, ends):
        for repeat, (clients, connection, transport), watch in rounds(cases, probes):
            say(f"redis {transport} {connection} {clients} clients, repeat {repeat}")
            record = {"program": "redis", "variant": connection, "clients": clients,
                      "transport": transport, "repeat": repeat}  # fmt: skip
            yield record | _measure(server, ends, transport, connection, clients, watch)


def _measure(
    server: int,
    ends: dict[str, str],
    transport: str,
    connection: str,
    clients: int,
    watch: Watch | None,
) -> dict[str, Any]:
    _ask(ends, "config", "resetstat")
    _ask(ends, "set", "foo", "0")
    before = _time_wait()
    argv = [str(CLIENT), transport, ends[transport], connection, str(clients)]
    argv += [str(CLIENTS[clients])] + ([] if watch else ["address"])  # not a request's calls
    result = run_whole(argv, server, watch)
    if result["error"]:
        return result
    stats = _ask(ends, "info", "commandstats")
    found = re.search(r"cmdstat_incr:calls=(\d+),usec=(\d+)", stats)
    calls, microseconds = (int(n) for n in found.groups()) if found else (0, 0)
    return result | {
        "server_calls": calls,
        "server_usec": microseconds,
        "counted": int(_ask(ends, "get", "foo").strip() or 0),
        "time_wait": [before, _time_wait()],
    }


@contextmanager
def _server(directory: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Start a redis-server. Its process id, and its ends (transport → path or port)."""
    name = directory / "redis-server"
    name.symlink_to(shutil.which(PROGRAM) or PROGRAM)
    ends = {"unix": str(directory / "redis"), "tcp": str(free_port())}
    options = {
        **{"port": ends["tcp"], "bind": "127.0.0.1", "unixsocket": ends["unix"]},
        **{"save": "", "appendonly": "no", "daemonize": "no", "dir": str(directory)},
    }
    argv = [word for key, value in options.items() for word in (f"--{key}", value)]
    with serving("redis-server", [str(name), *argv], ends) as server:
        yield server, ends


def _ask(ends: dict[str, str], *words: str) -> str:
    """Send one command over the Unix socket, in redis' protocol. Returns the answer as text."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        connection.connect(ends["unix"])
        parts = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        connection.sendall(f"*{len(words)}\r\n{parts}".encode())
        answer = connection.makefile("rb")
        first = answer.readline().decode()
        return answer.read(int(first[1:])).decode() if first.startswith("$") else first[1:]


def _time_wait() -> int | None:
    """The number of connections in TIME_WAIT on this machine, from /proc/net/sockstat."""
    found = re.search(r"^TCP:.* tw (\d+)", SOCKSTAT.read_text(), re.MULTILINE)
    return int(found[1]) if found else None
