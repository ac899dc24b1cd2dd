# SPDX-License-Identifier: GPL-2.0-or-later
"""What messages cost on this machine: the C workload measures it once, without probes.

The prices are kept in the cache. analysis/predict/prices.py reads them.
"""

import json
import os
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from probes.contract import PRICES, PRICES_FORMAT
from probes.transports import PAIR
from runners.guest.store import read_json, write_json
from runners.host.environment import cpu_model
from runners.host.session import Session
from runners.host.workload import private_directory
from runners.options import Options
from runners.process import WORKLOAD, RunError, attempt, last_words
from runners.programs.experiments import interleaved

PRICE_REPEATS = 9
SIZES = {64: 6000, 1024: 6000, 8192: 4000, 65536: 1000, 1 << 20: 60}  # → messages
ALONE = "selfecho"  # one process holds both ends: no switch, no wake-up
FITS = 65536  # bytes that a socket holds while nobody reads
CONNECTIONS = 600
COLD_MESSAGES = {"pingpong": 1600, ALONE: 1600, "connect": CONNECTIONS}  # → messages
SMALL = 64  # bytes
SAMPLES = "samples.u32"  # beside the socket
TAKES = 20  # seconds, as seen on two cores


class Priced(NamedTuple):
    """What is measured over either transport."""

    pattern: str
    size: int
    placement: str
    messages: int
    cold: bool = False

    def figures(self, transport: str) -> dict[str, float]:
        """Run it once: µs of an iteration (mean and median), and CPU time of both sides.

        Raises RunError.
        """
        options: dict[str, Any] = {
            **self.options(transport),
            "messages": self.messages,
            "warmup": max(20, self.messages // 6 // 2 * 2),
        }
        with private_directory() as folder:
            options |= {"dir": folder, "samples": folder / SAMPLES}
            words = [f"--{name}={value}" for name, value in options.items()]
            if self.cold:
                words.append("--cold")
            done = attempt([WORKLOAD, *words])
            if done.returncode != 0:
                raise RunError(f"the prices cannot be measured: {last_words(done.stderr)}")
            iterations = read_nanoseconds(folder / SAMPLES)
        result = json.loads(done.stdout)
        rounds = result["round_trips"]
        return {
            "iteration_us": round(result["window_ns"] / 1000 / rounds, 4),
            "median_us": median(iterations) / 1000,
            "client_cpu_us": cpu_us(result["client"]) / rounds,
            "server_cpu_us": cpu_us(result["server"]) / rounds,
        }

    def options(self, transport: str) -> dict[str, Any]:
        """The workload's options, by which its prices are found again."""
        return {
            "transport": transport,
            "pattern": self.pattern,
            "size": self.size,
            "placement": self.placement,
        }


def read_nanoseconds(samples: Path) -> "array[int]":
    """Each iteration's time, as the workload writes it: little-endian."""
    times = array("I", samples.read_bytes())
    if sys.byteorder == "big":
        times.byteswap()
    return times


def cpu_us(side: dict[str, Any] | None) -> float:
    """CPU time of a side; a single thread has no server."""
    if side is None:
        return 0.0
    usage = side["rusage"]
    return float(usage["user_us"] + usage["system_us"])


def cells() -> Iterator[Priced]:
    """What a price list has."""
    for size, messages in SIZES.items():
        yield Priced("pingpong", size, "same-cpu", messages)
        yield Priced("pingpong", size, "cross-cpu", messages)
        if size <= FITS:
            yield Priced(ALONE, size, "same-cpu", messages)
    for placement in ("same-cpu", "cross-cpu"):
        yield Priced("connect", SMALL, placement, CONNECTIONS)
    for pattern, messages in COLD_MESSAGES.items():
        yield Priced(pattern, SMALL, "same-cpu", messages, cold=True)


def fingerprint() -> dict[str, Any]:
    """What the prices depend on: they are measured again where any of it changes."""
    uname = os.uname()
    return {
        "kernel": uname.release,
        "version": uname.version,
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "workload": WORKLOAD.stat().st_size if WORKLOAD.exists() else 0,
        "list": [PRICES_FORMAT, PRICE_REPEATS, *SIZES],
    }


def set_up(session: Session[Options], given: Path | None, *words: str) -> dict[str, Any]:
    """Set up; the prices as the file that a prediction reads, unless they are `given` by a run.

    Those are read now, so that a folder without prices is told before anything is measured. Raises
    RunError.
    """
    session.set_up_step(*words)
    if given:
        from analysis.predict.prices import read_prices

        read_prices(given)
        return {}
    with session.progress.step("prices"):
        return {PRICES: prices(session.invoker.cache, session.progress.note)}


def prices(cache: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """The list, from the cache or measured now. Raises RunError."""
    if (listed := kept(cache)) is None:
        say(f"measuring what messages cost on this machine, once: about {TAKES} s")
        listed = measured(cells()) | {"fingerprint": fingerprint()}
        with suppress(OSError):  # without a cache they are measured each time
            cache.mkdir(parents=True, exist_ok=True)
            write_json(cache / PRICES, listed)
    return listed


def kept(cache: Path) -> dict[str, Any] | None:
    """The list of this machine as it is, if the cache has it."""
    listed: dict[str, Any] | None = read_json(cache / PRICES)
    return listed if listed and listed["fingerprint"] == fingerprint() else None


def of_cold_path(cache: Path) -> dict[str, Any]:
    """A small round trip's prices on one CPU, hot and cold: kept ones, or measured now (3 s).

    A report needs no more to decide for a request that does other work. Raises RunError.
    """
    messages = COLD_MESSAGES["pingpong"]
    wanted = [Priced("pingpong", SMALL, "same-cpu", messages, cold) for cold in (False, True)]
    listed = kept(cache) or measured(wanted) | {"fingerprint": fingerprint()}
    options = [wanted[0].options(transport) for transport in PAIR]
    cells = [
        cell for cell in listed["cells"] if any(given.items() <= cell.items() for given in options)
    ]
    return listed | {"cells": cells}


def measured(wanted: Iterable[Priced]) -> dict[str, Any]:
    """Run each cell over both transports, interleaved. Raises RunError.

    An entry has a list of each figure, with a value for each repeat.
    """
    listed: dict[tuple[str, Priced], dict[str, Any]] = {}
    began = time.time()
    for _, (cell, transport) in interleaved(list(product(wanted, PAIR)), PRICE_REPEATS):
        without_figures = cell.options(transport) | {"cold": cell.cold}
        entry = listed.setdefault((transport, cell), without_figures)
        for name, value in cell.figures(transport).items():
            entry.setdefault(name, []).append(value)
    return {"format": PRICES_FORMAT, "measured": round(began), "cells": list(listed.values())}
