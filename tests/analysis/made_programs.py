# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up lines of raw/host/programs.jsonl, and a made-up run that has them.

Each maker writes the line of one program for a transport and a repeat; `more` are other fields, or
other values of these.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from analysis.analyse import Analysis, analyse
from analysis.claims.verdict import Judged
from analysis.raw.run import read_run
from tests.analysis.make_run import MadeUp, make_run

Line = dict[str, Any]
Maker = Callable[..., Line]


def line(names: tuple[str, str], transport: str, repeat: int, **fields: Any) -> Line:
    """Of a program and its variant."""
    plain = {"program": names[0], "variant": names[1], "transport": transport, "repeat": repeat}
    return {"clients": 1, "error": None, **plain, **fields}


def redis(transport: str, repeat: int, **more: Any) -> Line:
    """17 requests in 17 ms over TCP, in 8.5 over a Unix socket."""
    took = 17_000_000 if transport == "tcp" else 8_500_000
    figures = {"requests": 17, "window_ns": took, "server_calls": 17, "server_usec": 34,
               "counted": 17, "time_wait": [3, 20], "clients": 20}  # fmt: skip
    return line(("redis", "new"), transport, repeat, **figures | more)


def both(of: Maker = redis, repeats: int = 6, **more: Any) -> list[Line]:
    """A line for each transport in each repeat."""
    return [of(name, repeat, **more) for repeat in range(repeats) for name in ("unix", "tcp")]


def write_lines(folder: Path, lines: Iterable[Line], made: MadeUp | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    run = make_run(folder, made)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (run / "raw/host/programs.jsonl").write_text(text)
    return run


def analysed(folder: Path, lines: Iterable[Line]) -> Analysis:
    return analyse(read_run(write_lines(folder, lines)))


def verdict(analysis: Analysis, claim: str) -> Judged:
    return next(verdict for verdict in analysis.verdicts if verdict.claim.id == claim)


def round_trips(transport: str, repeat: int, **more: Any) -> Line:
    """1,000 round trips of 64 B in Python: 50 µs over TCP, 20 over a Unix socket."""
    took, cpu = 50_000 if transport == "tcp" else 20_000, {"user_us": 4000, "system_us": 6000}
    figures = {
        "loop": "asyncio", "size": 64, "window_ns": 1000 * took, "messages": 2000, "sent": 64_000,
        "received": 64_000, "client": cpu, "server": cpu, "iterations_ns": [took, 2 * took],
    }  # fmt: skip
    return line(("asyncio", "pingpong"), transport, repeat, **figures | more)


def calls(transport: str, repeat: int, **more: Any) -> Line:
    """17 calls of a method, whose message takes 1.1 µs over a Unix socket and 2.2 over TCP."""
    took = 2200 if transport == "tcp" else 1100
    figures = {"size": 1024, "calls": 17, "messages": 17, "sent": 17_408, "received": 17_408,
               "message_ns": [took, 3 * took]}  # fmt: skip
    return line(("dotnet", "written"), transport, repeat, **figures | more)


def counters(**counts: int) -> dict[str, int]:
    times = {"user_ns": 4_000_000, "system_ns": 6_000_000}
    return {"out": 0, "data": 0, "voluntary": 300, "involuntary": 100, **times, **counts}


def echoes(transport: str, repeat: int, program: str = "go", **more: Any) -> Line:
    """1,000 lines there and back in 40 ms over a Unix socket, in 5 over TCP."""
    counted = counters(machine=999)
    if transport == "tcp":
        counted = counters(machine=999, out=60, data=50, voluntary=30, involuntary=10)
    took = 40_000_000 if transport == "unix" else 5_000_000
    figures = {"size": 10, "sent": 1000, "echoed": 1000, "window_ns": took, "runtime": "made up",
               "counters": counted}  # fmt: skip
    return line((program, "echo"), transport, repeat, **figures | more)


def pings(transport: str, repeat: int, **more: Any) -> Line:
    """1,000 requests in 200 ms over a Unix socket, in 300 over TCP; 3,000 switches."""
    took = 200 if transport == "unix" else 300
    figures = {
        "log": True, "clients": 100, "requests": 1000, "answered": 1000,
        "window_ns": took * 1_000_000, "counters": counters(machine=3000),
        "iterations_ns": dict.fromkeys(("mean", "p50", "p99"), took * 1000),
    }  # fmt: skip
    return line(("gin", "keep"), transport, repeat, **figures | more)


def requests_in_fastcgi(transport: str, repeat: int, **more: Any) -> Line:
    return line(("gin", "fastcgi"), transport, repeat, asked=23, **more)


def watched(lost: int = 0, calls_missed: int | None = 0) -> dict[str, Any]:
    """17 requests, each a read and a write on either side, and the server's epoll_wait."""
    return {
        "counts": {
            "counts": {
                "switches": {"voluntary": 51, "involuntary": 0},
                "syscalls": {"read": 34, "write": 34, "other": 17},
                "messages": {"sent": 34, "received": 34},
            },
            "syscount": {"syscalls": {"read": 34, "write": 34, "epoll_wait": 17}},
            "stacks": {"wakeup_causes": {"sock_def_readable": 34, "unix_write_space": 17}},
        },
        "lost": {"counts": 0, "syscount": 0, "stacks": lost},
        **{"missed": 5, "calls_missed": calls_missed},
    }
