# SPDX-License-Identifier: GPL-2.0-or-later
"""The other programs: how each is started, and what it prints.

Every one is used for one message at a time over loopback, blocking, with TCP_NODELAY where there is
TCP, and as its own manual says otherwise. A peer that prints only a mean is compared by its mean.
lmbench's lat_tcp and lat_udp are left out: their servers listen on every interface of the machine,
and detach from who started them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.bench.process import Server, Where, client
from runners.errors import RunError

MICROSECOND = 1000.0


@dataclass(frozen=True)
class Load:
    """How much a run does: peers take a number of round trips, or whole seconds."""

    size: int
    round_trips: int
    seconds: int = 1


@dataclass(frozen=True)
class Peer:
    """One program over one transport. `size` is what it always sends, 0 where it can be told."""

    name: str
    transport: str  # our name of it
    statistic: str  # what it prints: p50 or mean
    package: str
    programs: tuple[str, ...]
    client: Callable[[Load, int], Sequence[str]]
    answer: str  # a pattern whose one group is a number
    server: Callable[[int], Sequence[str]] | None = None
    size: int = 0
    least_size: int = 1
    levels: int = 0  # where it forks its own server: this many forks down
    cut: float = 0.0  # microseconds that its figure has lost on average
    port: str = "tcp"  # the kind of port that its server opens

    @property
    def title(self) -> str:
        return f"{self.name} {self.transport}"

    def missing(self) -> list[str]:
        """Programs that are not there."""
        return [one for one in self.programs if find(one) is None]

    def measure(self, where: Where, load: Load, prefix: Sequence[str] = ()) -> float:
        """One run; its p50 or mean, in ns for a round trip."""
        if self.server is None:
            argv = [*prefix, *_found(self.client(load, 0))]
            text = client(argv, where, self.levels)
        else:
            serve = self.server
            with Server(lambda port: [*prefix, *_found(serve(port))], where, self.port) as one:
                text = client([*prefix, *_found(self.client(load, one.port))], where, 0)
        return self.parse(text)

    def parse(self, text: str) -> float:
        """The answer in ns. Raises RunError where the program did not print one."""
        found = re.search(self.answer, text)
        if not found or not float(found[1]) > 0:
            said = text.strip().splitlines()[-1:] or ["nothing"]
            raise RunError(f"{self.title} printed no figure; its last words: {said[0]}")
        return (float(found[1]) + self.cut) * MICROSECOND


def find(program: str) -> str | None:
    """Where it is; Debian keeps lmbench's programs outside PATH."""
    aside = os.pathsep.join(map(str, Path("/usr/lib/lmbench/bin").glob("*")))
    return shutil.which(program) or shutil.which(program, path=aside)


def _found(argv: Sequence[str]) -> list[str]:
    return [find(argv[0]) or argv[0], *argv[1:]]


def _sockperf(transport: str) -> Peer:
    kind = ["--tcp"] if transport == "tcp" else []

    def address(port: int) -> list[str]:
        return [*kind, "-i", "127.0.0.1", "-p", str(port)]

    def ask(load: Load, port: int) -> list[str]:
        more = ["-m", str(load.size), "-t", str(load.seconds), "--full-rtt"]
        return ["sockperf", "ping-pong", *address(port), *more]

    return Peer(
        "sockperf",
        transport,
        "p50",
        "sockperf",
        ("sockperf",),
        ask,
        r"percentile 50\.000 = +([\d.]+)",
        server=lambda port: ["sockperf", "server", *address(port)],
        least_size=14,
        port=transport,
    )


def _netperf(transport: str) -> Peer:
    """It cuts its p50 to whole microseconds, so half of one is added: 14 was from 14 to 15."""

    def ask(load: Load, port: int) -> list[str]:
        test = ["-H", "127.0.0.1", "-p", str(port), "-P", "0", "-l", str(load.seconds)]
        message = ["-r", f"{load.size},{load.size}", "-o", "P50_LATENCY"]
        nodelay = ["-D"] if transport == "tcp" else []
        return ["netperf", *test, "-t", f"{transport.upper()}_RR", "--", *message, *nodelay]

    return Peer(
        "netperf",
        transport,
        "p50",
        "netperf",
        ("netperf", "netserver"),
        ask,
        r"(?m)^(\d+)$",
        server=lambda port: ["netserver", "-D", "-L", "127.0.0.1", "-p", str(port)],
        cut=0.5,
    )


def _lmbench(program: str, transport: str, size: int) -> Peer:
    def ask(load: Load, port: int) -> list[str]:
        length = [] if size else ["-m", str(load.size)]
        # It measures for a tenth of a second, five times, and prints the median.
        brief = ["env", "ENOUGH=100000", find(program) or program]
        return [*brief, "-W", "200000", "-N", "5", *length]

    return Peer(
        "lmbench",
        transport,
        "mean",
        "lmbench",
        (program,),
        ask,
        r"latency: ([\d.]+) microseconds",
        size=size,
        levels=2,
    )


def _perf_bench() -> Peer:
    return Peer(
        "perf bench",
        "pipe",
        "mean",
        "linux-perf",
        ("perf",),
        lambda load, port: ["perf", "bench", "sched", "pipe", "-l", str(load.round_trips)],
        r"([\d.]+) usecs/op",
        size=4,
        levels=1,
    )


PEERS = (
    _sockperf("tcp"),
    _sockperf("udp"),
    _netperf("tcp"),
    _netperf("udp"),
    _perf_bench(),
    _lmbench("lat_pipe", "pipe", 1),
    _lmbench("lat_unix", "unix-pair", 0),
)
NAMES = tuple(dict.fromkeys(peer.name for peer in PEERS))
