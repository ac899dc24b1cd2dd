# SPDX-License-Identifier: GPL-2.0-or-later
"""What a message costs on this machine over a Unix socket and over TCP: a short list of prices.

The C workload measures them once, without probes; they are kept in the cache, and measured again
where the kernel or the CPU has changed. analysis/predict/ reads them.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

from runners.guest.store import read_json, write_json
from runners.host.environment import cpu_model
from runners.host.workload import private_directory
from runners.process import WORKLOAD, RunError, attempt, last_words
from runners.programs.experiments import interleaved

FORMAT = 2
REPEATS = 9
TRANSPORTS = ("unix", "tcp")
SIZES = {64: 6000, 1024: 6000, 8192: 4000, 65536: 1000, 1 << 20: 60}  # → messages
ALONE = "selfecho"  # one process holds both ends: no switch, no wake-up
FITS = 65536  # bytes that a socket holds while nobody reads
CONNECTIONS = 600
COLD = {"pingpong": 1600, ALONE: 1600, "connect": CONNECTIONS}  # → messages
TAKES = 20  # seconds, as seen on two cores


def cells() -> Iterator[tuple[str, int, str, int, bool]]:
    """Pattern, size, placement, number of messages, and whether it is cold, of each cell."""
    for size, messages in SIZES.items():
        yield "pingpong", size, "same-cpu", messages, False
        yield "pingpong", size, "cross-cpu", messages, False
        if size <= FITS:
            yield ALONE, size, "same-cpu", messages, False
    for placement in ("same-cpu", "cross-cpu"):
        yield "connect", 64, placement, CONNECTIONS, False
    for pattern, messages in COLD.items():
        yield pattern, 64, "same-cpu", messages, True


def fingerprint() -> dict[str, Any]:
    """What the prices depend on: they are measured again where any of it changes."""
    uname = os.uname()
    return {
        "kernel": uname.release,
        "version": uname.version,
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "workload": WORKLOAD.stat().st_size if WORKLOAD.exists() else 0,
        "list": [FORMAT, REPEATS, *SIZES],
    }


def prices(cache: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The list, from the cache or measured now. Raises RunError."""
    kept, wanted = cache / "prices.json", fingerprint()
    listed: dict[str, Any] | None = read_json(kept)
    if listed is None or listed["fingerprint"] != wanted:
        say(f"measuring what messages cost on this machine, once: about {TAKES} s")
        listed = measured() | {"fingerprint": wanted}
        with suppress(OSError):  # without a cache they are measured each time
            cache.mkdir(parents=True, exist_ok=True)
            write_json(kept, listed)
    return listed


def measured() -> dict[str, Any]:
    """Run each cell over both transports, interleaved. Raises RunError."""
    figures: dict[tuple[Any, ...], dict[str, Any]] = {}
    began = time.time()
    for _, (cell, transport) in interleaved(list(product(cells(), TRANSPORTS)), REPEATS):
        pattern, size, placement, messages, cold = cell
        named = {"transport": transport, "pattern": pattern, "size": size, "placement": placement}
        entry = figures.setdefault((transport, *cell), named | {"cold": cold})
        for name, value in _run(named, messages, cold).items():
            entry.setdefault(name, []).append(value)
    return {"format": FORMAT, "measured": round(began), "cells": list(figures.values())}


def _run(named: dict[str, Any], messages: int, cold: bool) -> dict[str, float]:
    options = {**named, "messages": messages, "warmup": max(20, messages // 6 // 2 * 2)}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    words += ["--cold"] if cold else []
    with private_directory() as folder:
        done = attempt([WORKLOAD, "--dir", folder, *words])
    if done.returncode != 0:
        raise RunError(f"the prices cannot be measured: {last_words(done.stderr)}")
    result = json.loads(done.stdout)
    rounds = result["round_trips"]
    return {
        "iteration_us": round(result["window_ns"] / 1000 / rounds, 4),
        **{f"{side}_cpu_us": _cpu(result[side]) / rounds for side in ("client", "server")},
    }


def _cpu(process: dict[str, Any] | None) -> float:
    return process["rusage"]["user_us"] + process["rusage"]["system_us"] if process else 0.0
