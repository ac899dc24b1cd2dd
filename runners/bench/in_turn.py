# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a case over both transports in turn, its server and its client bound to CPUs."""

import os
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from runners.guest.cache import Say
from runners.process import RunError
from runners.programs import engine
from runners.programs.program import TRANSPORTS, Case, Program, start_of
from runners.programs.service import Service

PLACEMENTS = {"same-cpu": (0, 0), "cross-cpu": (0, 1)}  # the server, the client
REPEATS, MEASURE_SECONDS = 20, 0.5


@contextmanager
def started_on(number: int) -> Iterator[None]:
    """What this thread starts runs on this CPU alone; the last, where there are fewer.

    Where the scheduler places a pair as it likes, the placement changes from second to second, and
    a round trip by more than the transport does.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(allowed)[min(number, len(allowed) - 1)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def serving(
    program: Program, case: Case, transport: str, placement: str, say: Say
) -> Iterator[Service]:
    """The program's server, bound. Raises RunError."""
    with ExitStack() as stack:
        with started_on(PLACEMENTS[placement][0]):
            running = engine.running(program, case.name, transport, say=say)
            service = stack.enter_context(running)
        yield service


def measure_case(program: Program, case: Case, placement: str, say: Say) -> dict[str, Any]:
    """Run the case over both transports in turn: A B B A. Raises RunError."""
    rows: dict[str, list[dict[str, Any]]] = {"tcp": [], "unix": []}
    with _both(program, case, placement, say) as services:
        for repeat in range(REPEATS):
            order = ("tcp", "unix") if repeat % 2 == 0 else ("unix", "tcp")
            for transport in order:
                with started_on(PLACEMENTS[placement][1]):
                    result = services[transport].drive(case, transport, seconds=MEASURE_SECONDS)
                if result["error"]:
                    raise RunError(f"over {transport}: {result['error']}")
                counters, requests = result["counters"], result["requests"]
                used = counters["user_ns"] + counters["system_ns"]
                rows[transport].append(
                    {
                        "elapsed_us": 1e6 / result["per_second"],
                        "cpu_us": used / 1000 / requests,
                        "requests": requests,
                        "counted": result.get("counted"),
                    }
                )
    return {transport: rows[transport] for transport in rows} | {
        figure: difference(rows, figure) for figure in ("elapsed_us", "cpu_us")
    }


def difference(rows: dict[str, list[dict[str, Any]]], figure: str) -> dict[str, float]:
    """What TCP takes more: the mean over repeats, and its standard error, paired by repeat."""
    pairs = list(zip(rows["tcp"], rows["unix"], strict=True))
    found = [tcp[figure] - unix[figure] for tcp, unix in pairs]
    return {
        "value": round(statistics.mean(found), 4),
        "error": round(statistics.stdev(found) / len(found) ** 0.5, 4),
        "of": round(statistics.mean(tcp[figure] for tcp, _ in pairs), 4),
    }


@contextmanager
def _both(program: Program, case: Case, placement: str, say: Say) -> Iterator[dict[str, Service]]:
    with ExitStack() as stack:
        starts = {name: start_of(program, case, name) for name in TRANSPORTS}
        services: dict[str, Service] = {}
        for transport in TRANSPORTS:
            if transport == "tcp" and starts["tcp"] == starts["unix"]:
                services["tcp"] = services["unix"]
                services["tcp"].drive(case, "tcp", requests=max(case.clients, case.requests // 10))
                continue
            services[transport] = stack.enter_context(
                serving(program, case, transport, placement, say)
            )
        yield services
