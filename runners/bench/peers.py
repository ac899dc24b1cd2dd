# SPDX-License-Identifier: GPL-2.0-or-later
"""The other programs, and ours beside them: how to start each, and how to read its output.

Each sends one message at a time over loopback, blocking, and with TCP_NODELAY over TCP; otherwise
it runs as in its manual. A peer that prints only a mean is compared by the mean. lmbench's
lat_tcp and lat_udp are missing: their servers listen on every interface of the machine, and detach
from the process that started them.
"""

import array
import json
import os
import re
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runners.bench.process import Where, client, server_on_free_port
from runners.host.workload import private_directory
from runners.process import WORKLOAD, RunError

MICROSECOND = 1000.0


@dataclass(frozen=True)
class Load:
    """The amount of work in a run: peers take a number of round trips, or whole seconds."""

    size: int
    round_trips: int
    seconds: int = 1


@dataclass(frozen=True)
class Peer:
    """One program over one transport. `size` is the size that it always sends, 0 for any size."""

    name: str
    transport: str  # as we call it
    statistic: str  # the statistic that it prints: p50 or mean
    package: str
    programs: tuple[str, ...]
    client: Callable[[Load, int], Sequence[str]]
    answer: str  # a pattern whose one group is the number in its output
    server: Callable[[int], Sequence[str]] | None = None
    size: int = 0
    least_size: int = 1
    levels: int = 0  # its own server is this many forks down
    cut: float = 0.0  # microseconds that its rounding takes away on average
    port: str = "tcp"  # the kind of port that its server opens

    @property
    def title(self) -> str:
        return f"{self.name} {self.transport}"

    def missing(self) -> list[str]:
        """Its programs that are not installed."""
        return [program for program in self.programs if find(program) is None]

    def measure(self, where: Where, load: Load, prefix: Sequence[str] = ()) -> float:
        """Run it once; median or mean of a round trip in ns."""
        if self.server is None:
            return self.parse(client([*prefix, *_found(self.client(load, 0))], where, self.levels))
        serve = self.server
        start = server_on_free_port(lambda port: [*prefix, *_found(serve(port))], where, self.port)
        with start as (_, port):
            return self.parse(client([*prefix, *_found(self.client(load, port))], where, 0))

    def parse(self, text: str) -> float:
        """The printed figure in ns. Raises RunError where the program printed none."""
        found = re.search(self.answer, text)
        if not found or not float(found[1]) > 0:
            last = text.strip().splitlines()[-1:] or ["nothing"]
            raise RunError(f"{self.title} printed no figure; its last words: {last[0]}")
        return (float(found[1]) + self.cut) * MICROSECOND


def measure_ours(peer: Peer, where: Where, load: Load, prefix: Sequence[str] = ()) -> float:
    """Run our workload for the statistic that `peer` prints; median or mean of a round trip in ns.

    A mean needs no clock reading in each round trip.
    """
    with private_directory(None) as directory:
        samples = directory / "samples"
        argv = [*prefix, str(WORKLOAD), "--transport", peer.transport, "--dir", str(directory)]
        argv += ["--size", str(load.size), "--messages", str(2 * load.round_trips)]
        argv += ["--placement", where.placement, "--cpus", f"{where.client},{where.server}"]
        if peer.statistic == "p50":
            argv += ["--samples", str(samples)]
        # Its own option pins it: both of its processes must be able to get to their CPUs.
        result = json.loads(client(argv, None, 0))
        if peer.statistic == "p50":
            return float(statistics.median(array.array("I", samples.read_bytes())))
    return float(result["window_ns"] / result["round_trips"])


def find(program: str) -> str | None:
    """The program's path; Debian keeps lmbench's programs outside PATH."""
    aside = os.pathsep.join(map(str, Path("/usr/lib/lmbench/bin").glob("*")))
    return shutil.which(program) or shutil.which(program, path=aside)


def _found(argv: Sequence[str]) -> list[str]:
    return [find(argv[0]) or argv[0], *argv[1:]]


def _sockperf(transport: str) -> Peer:
    kind = ["--tcp"] if transport == "tcp" else []

    def argv(action: str, port: int) -> list[str]:
        return ["sockperf", action, *kind, "-i", "127.0.0.1", "-p", str(port)]

    def client_argv(load: Load, port: int) -> list[str]:
        more = ["-m", str(load.size), "-t", str(load.seconds), "--full-rtt"]
        return [*argv("ping-pong", port), *more]

    return Peer(
        "sockperf", transport, "p50", "sockperf", ("sockperf",),
        client_argv, r"percentile 50\.000 = +([\d.]+)",
        server=lambda port: argv("server", port), least_size=14, port=transport,
    )  # fmt: skip


def _netperf(transport: str) -> Peer:
    """netperf cuts its p50 to whole microseconds, so add half of one: 14 means 14 to 15."""

    def client_argv(load: Load, port: int) -> list[str]:
        test = ["-H", "127.0.0.1", "-p", str(port), "-P", "0", "-l", str(load.seconds)]
        message = ["-r", f"{load.size},{load.size}", "-o", "P50_LATENCY"]
        nodelay = ["-D"] if transport == "tcp" else []
        return ["netperf", *test, "-t", f"{transport.upper()}_RR", "--", *message, *nodelay]

    return Peer(
        "netperf", transport, "p50", "netperf", ("netperf", "netserver"),
        client_argv, r"(?m)^(\d+)$",
        server=lambda port: ["netserver", "-D", "-L", "127.0.0.1", "-p", str(port)], cut=0.5,
    )  # fmt: skip


def _lmbench(program: str, transport: str, size: int) -> Peer:
    def client_argv(load: Load, port: int) -> list[str]:
        length = [] if size else ["-m", str(load.size)]
        # It measures for a tenth of a second, five times, and prints the median.
        brief = ["env", "ENOUGH=100000", find(program) or program]
        return [*brief, "-W", "200000", "-N", "5", *length]

    return Peer(
        "lmbench", transport, "mean", "lmbench", (program,),
        client_argv, r"latency: ([\d.]+) microseconds", size=size, levels=2,
    )  # fmt: skip


PEERS = (
    *(_sockperf("tcp"), _sockperf("udp"), _netperf("tcp"), _netperf("udp")),
    Peer(
        "perf bench", "pipe", "mean", "linux-perf", ("perf",),
        lambda load, port: ["perf", "bench", "sched", "pipe", "-l", str(load.round_trips)],
        r"([\d.]+) usecs/op", size=4, levels=1,
    ),
    *(_lmbench("lat_pipe", "pipe", 1), _lmbench("lat_unix", "unix-pair", 0)),
)  # fmt: skip
NAMES = tuple(dict.fromkeys(peer.name for peer in PEERS))
