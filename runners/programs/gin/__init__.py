# SPDX-License-Identifier: GPL-2.0-or-later
"""Gin's /ping over HTTP, with 100 connections of oha: kept open, or a new one for each request.

The article's load generator is wrk, which cannot use a Unix socket; oha can. The server is the
article's, with its request log (to a file in a private directory) and without; one process of each
kind listens on both transports. The number of requests takes about a second, not the article's 30.
Nothing is pinned: oha and the server share the machine. In the article nginx speaks to the server
by `fastcgi_pass`, so the server also gets requests in FastCGI.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

from runners.collect.workload import private_directory
from runners.ports import free_port
from runners.process import User
from runners.programs.client import SECONDS, run_whole
from runners.programs.gin import fastcgi
from runners.programs.probes import Probes, Watch, rounds
from runners.programs.server import serving

BUILD = Path(__file__).parent / "build"
OHA, SERVER = BUILD / "oha", BUILD / "server"
CONNECTIONS = 100
# Connections → number of requests, and oha's option for them.
REQUESTS = {"keep": 20_000, "new": 10_000}
WORDS: dict[str, tuple[str, ...]] = {"keep": (), "new": ("--disable-keepalive",)}
LOGS = ("log", "quiet")
TRANSPORTS = ("unix", "tcp")
REPEATS = 6
FASTCGI_REQUESTS = 23
TAKES = 50


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    built = OHA.exists() and SERVER.exists()
    return "" if built else "its programs are not built (runners/setup.sh --gin)"


def run(
    user: User | None, say: Callable[[str], None], probes: Probes | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a record per measurement, interleaved A B B A. Raises RunError."""
    with private_directory(user) as directory, ExitStack() as stack:
        servers = {}
        for log in LOGS:
            ends = {"unix": str(directory / log), "tcp": str(free_port())}
            argv = [str(SERVER), log, ends["tcp"], ends["unix"]]
            output = stack.enter_context((directory / f"{log}.out").open("wb"))
            up = serving("the Gin server", argv, user, ends, output)
            servers[log] = (stack.enter_context(up), ends)
        cases = list(product(LOGS, REQUESTS, TRANSPORTS))
        for log, _, transport in cases:  # the first requests of a server are slow
            _measure(*servers[log], "keep", transport, user)
        for repeat, (log, connections, transport), watch in rounds(cases, REPEATS, probes):
            say(f"gin {transport} {connections} {log}, repeat {repeat}")
            yield {
                **{"program": "gin", "variant": connections, "log": log == "log"},
                **{"clients": CONNECTIONS, "transport": transport, "repeat": repeat},
                **_measure(*servers[log], connections, transport, user, watch),
            }
        for repeat, transport in product(range(REPEATS), TRANSPORTS):
            yield {
                **{"program": "gin", "variant": "fastcgi", "clients": 1, "transport": transport},
                **{"repeat": repeat, **_ask_in_fastcgi(servers["quiet"][1], transport)},
            }


def _measure(
    server: int,
    ends: Mapping[str, str],
    connections: str,
    transport: str,
    user: User | None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    requests = REQUESTS[connections]
    way = ("--unix-socket", ends["unix"]) if transport == "unix" else ()
    port = ends["tcp"] if transport == "tcp" else "80"  # which nobody connects to
    argv = [
        str(OHA), "--no-tui", "--output-format", "json", "--no-color", "-c", str(CONNECTIONS),
        "-n", str(requests), *WORDS[connections], *way, f"http://127.0.0.1:{port}/ping",
    ]  # fmt: skip
    found = run_whole(argv, user, server, watch)
    if found["error"]:
        return found
    summary, iterations = found["summary"], found["latencyPercentiles"]
    return {
        "requests": requests,
        "answered": found["statusCodeDistribution"].get("200", 0),
        "window_ns": round(summary["total"] * 1e9),
        "iterations_ns": {
            "mean": round(summary["average"] * 1e9),
            **{key: round(iterations[key] * 1e9) for key in ("p50", "p99")},
        },
        **{key: found[key] for key in ("counters", "probed") if key in found},
        "error": None,
    }


def _ask_in_fastcgi(ends: Mapping[str, str], transport: str) -> dict[str, Any]:
    where = ends["unix"] if transport == "unix" else ("127.0.0.1", int(ends["tcp"]))
    answers = Counter(fastcgi.ask(where, SECONDS) for _ in range(FASTCGI_REQUESTS))
    return {"asked": FASTCGI_REQUESTS, "answers": dict(answers), "error": None}
