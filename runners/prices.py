# SPDX-License-Identifier: GPL-2.0-or-later
"""What a message costs on this machine over a Unix socket and over TCP: a short list of prices.

The C workload measures them once, without probes; they are kept in the cache, and measured again
where the kernel or the CPU has changed. analysis/predict/ reads them.
"""

import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from runners.errors import RunError
from runners.paths import WORKLOAD
from runners.process import command

FORMAT = 1
REPEATS = 5
TRANSPORTS = ("unix", "tcp")
SIZES = {64: 6000, 1024: 6000, 8192: 4000, 65536: 1000, 1 << 20: 60}  # → messages
ALONE = "selfecho"  # one process holds both ends: no switch, no wake-up
FITS = 65536  # bytes that a socket holds while nobody reads
CONNECTIONS = 600
TAKES = 25  # seconds, as seen on two cores


def cells() -> Iterator[dict[str, Any]]:
    """Pattern, size, placement and number of messages of each cell."""
    for size, messages in SIZES.items():
        for placement in ("same-cpu", "cross-cpu"):
            yield {
                "pattern": "pingpong",
                "size": size,
                "placement": placement,
                "messages": messages,
            }
        if size <= FITS:
            yield {"pattern": ALONE, "size": size, "placement": "same-cpu", "messages": messages}
    for placement in ("same-cpu", "cross-cpu"):
        yield {"pattern": "connect", "size": 64, "placement": placement, "messages": CONNECTIONS}


def fingerprint() -> dict[str, Any]:
    """What the prices depend on: they are measured again where any of it changes."""
    model = ""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")
    uname = os.uname()
    return {
        "kernel": uname.release,
        "version": uname.version,
        "cpu": model or platform.processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "workload": WORKLOAD.stat().st_size if WORKLOAD.exists() else 0,
        "list": [FORMAT, REPEATS, *SIZES],
    }


def prices(cache: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The list, from the cache or measured now. Raises RunError."""
    kept = cache / "prices.json"
    wanted = fingerprint()
    with suppress(OSError, ValueError, KeyError, TypeError):
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if found["fingerprint"] == wanted:
            return found
    say(f"measuring what messages cost on this machine, once: about {TAKES} s")
    found = measured() | {"fingerprint": wanted}
    with suppress(OSError):  # without a cache they are measured each time
        cache.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        unfinished.rename(kept)
    return found


def measured() -> dict[str, Any]:
    """Run each cell over both transports, interleaved. Raises RunError."""
    figures: dict[tuple[str, ...], dict[str, Any]] = {}
    began = time.time()
    for repeat in range(REPEATS):
        for cell in cells():
            for transport in TRANSPORTS if repeat % 2 == 0 else TRANSPORTS[::-1]:
                key = (transport, cell["pattern"], str(cell["size"]), cell["placement"])
                entry = figures.setdefault(
                    key,
                    {
                        "transport": transport,
                        **{name: cell[name] for name in ("pattern", "size", "placement")},
                        **{"iteration_us": [], "client_cpu_us": [], "server_cpu_us": []},
                    },
                )
                for name, value in _run(transport, cell).items():
                    entry[name].append(value)
    return {"format": FORMAT, "measured": round(began), "cells": list(figures.values())}


def _run(transport: str, cell: dict[str, Any]) -> dict[str, float]:
    options = {"transport": transport, **cell, "warmup": max(20, cell["messages"] // 6 // 2 * 2)}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    with tempfile.TemporaryDirectory(prefix="pathcost-prices-") as folder:
        done = subprocess.run(
            command([str(WORKLOAD), "--dir", folder, *words]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise RunError(f"the prices cannot be measured: {said.removeprefix('pathcost: ')}")
    result = json.loads(done.stdout)
    rounds = result["round_trips"]
    return {
        "iteration_us": round(result["window_ns"] / 1000 / rounds, 4),
        **{f"{side}_cpu_us": _cpu(result[side]) / rounds for side in ("client", "server")},
    }


def _cpu(process: dict[str, Any] | None) -> float:
    return process["rusage"]["user_us"] + process["rusage"]["system_us"] if process else 0.0
