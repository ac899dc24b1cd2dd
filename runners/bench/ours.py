# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs our own workload for the statistic that a peer prints."""

from __future__ import annotations

import array
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from runners.bench.peers import Load
from runners.bench.process import Where, client
from runners.collect.workload import private_directory

PROGRAM = Path(__file__).resolve().parents[1] / "workload/build/pathcost-workload"


def measure(
    transport: str, where: Where, load: Load, statistic: str, prefix: Sequence[str] = ()
) -> float:
    """Median or mean of a round trip in ns. A mean needs no clock reading in each round trip."""
    with private_directory(None) as directory:
        samples = directory / "samples"
        argv = [*prefix, str(PROGRAM), "--transport", transport, "--dir", str(directory)]
        argv += ["--size", str(load.size), "--messages", str(2 * load.round_trips)]
        argv += ["--placement", where.placement, "--cpus", f"{where.client},{where.server}"]
        if statistic == "p50":
            argv += ["--samples", str(samples)]
        # Its own option pins it: both of its processes must be able to get to their CPUs.
        result = json.loads(client(argv, None, 0))
        if statistic == "p50":
            return float(statistics.median(array.array("I", samples.read_bytes())))
    return float(result["window_ns"] / result["round_trips"])
