# SPDX-License-Identifier: GPL-2.0-or-later
"""The two methods that an article ran in BenchmarkDotNet, in C: one thread sends, then receives.

As written, they compare two messages over Unix sockets with one message over TCP; corrected, they
compare one with one. They need no package.
"""

from itertools import product
from pathlib import Path

from runners.collect.workload import private_directory
from runners.programs.client import run_whole
from runners.programs.probes import TRANSPORTS, Probes, Records, Say, rounds

PROGRAM = Path(__file__).parent / "build/benchmark"
VARIANTS = ("written", "corrected")
SIZES = (1024, 4096, 8192, 16384)
CALLS = 10_000
TAKES = 20


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    return ""


def run(say: Say, probes: Probes | None = None) -> Records:
    """Yield a record per measurement, interleaved A B B A."""
    cases = list(product(SIZES, VARIANTS, TRANSPORTS))
    with private_directory() as directory:
        end = {"unix": str(directory / "benchmark"), "tcp": "-"}
        for repeat, (size, variant, transport), watch in rounds(cases, probes):
            say(f"dotnet {transport} {variant} {size} B, repeat {repeat}")
            record = {"program": "dotnet", "variant": variant, "clients": 1,
                      "transport": transport, "size": size, "repeat": repeat}  # fmt: skip
            argv = [str(PROGRAM), transport, end[transport], variant, str(size), str(CALLS)]
            yield record | run_whole(argv, None, watch)
