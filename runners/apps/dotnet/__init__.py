# SPDX-License-Identifier: GPL-2.0-or-later
"""The two methods that an article gave to BenchmarkDotNet, in C: one thread, send then receive.

As it wrote them, two messages over Unix sockets against one over TCP, and corrected, one against
one. Needs no package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from runners.apps.client import run_whole
from runners.apps.probes import Probes, rounds
from runners.collect.workload import private_directory
from runners.process import User

PROGRAM = Path(__file__).parent / "build/benchmark"
VARIANTS = ("written", "corrected")
TRANSPORTS = ("unix", "tcp")
SIZES = (1024, 4096, 8192, 16384)
CALLS = 10_000
REPEATS = 6
TAKES = 20


def lack() -> str:
    """Why it cannot run here; empty where it can."""
    return ""


def run(
    user: User | None, say: Callable[[str], None], probes: Probes | None = None
) -> Iterator[dict[str, Any]]:
    """One record for each measurement, interleaved A B B A."""
    cases = list(product(SIZES, VARIANTS, TRANSPORTS))
    with private_directory(user) as directory:
        end = {"unix": str(directory / "benchmark"), "tcp": "-"}
        for repeat, (size, variant, transport), watch in rounds(cases, REPEATS, probes):
            say(f"dotnet {transport} {variant} {size} B, repeat {repeat}")
            record = {"app": "dotnet", "variant": variant, "clients": 1,
                      "transport": transport, "size": size, "repeat": repeat}  # fmt: skip
            argv = [str(PROGRAM), transport, end[transport], variant, str(size), str(CALLS)]
            yield record | run_whole(argv, user, None, watch)
