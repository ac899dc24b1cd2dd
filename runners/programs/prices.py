# SPDX-License-Identifier: GPL-2.0-or-later
"""What messages cost on this machine: the C workload measures it once, without probes.

The prices are kept in the cache, one file for all that need some. analysis/predict/prices.py reads
those of messages over Unix sockets and TCP, analysis/times/events.py those of events, which come
from cells over neither.
"""

import json
import os
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from probes.contract import PRICES, PRICES_FORMAT
from probes.messages import PROGRAM
from probes.transports import PAIR
from runners.guest.store import read_json, write_json
from runners.host.environment import cpu_model, in_memory_group
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
# Requests a second → how many in a repeat: one client sends when it is due, after so long a pause.
# Times after long pauses scatter by half and drift, so a repeat is short, and the two transports of
# one pause follow each other.
PACED = {10_000: 100, 1000: 20, 100: 6, 10: 2}
TAKES, EVENTS_TAKE = 35, 4  # seconds, as seen on two cores
# Of cells that tell what events cost (docs/time-explained.md). Two that differ in one thing have
# the price of that: paths of different length, with and without a switch, with more bytes.
EVENT_TRANSPORTS = ("pipe", "udp")
EVENT_SIZES = {SMALL: 1600, 4096: 1600, 32768: 500}  # → messages
WITHOUT_KERNEL = "shm"  # between its system calls only


class Priced(NamedTuple):
    """What is measured."""

    transport: str
    pattern: str
    size: int
    placement: str
    messages: int
    cold: bool = False
    rate: int = 0  # of pattern paced: requests a second

    def run(self) -> tuple[dict[str, Any], "array[int]"]:
        """Run it once: the workload's result, and each iteration's ns. Raises RunError."""
        with private_directory() as folder:
            samples = Path(folder) / "samples"
            options: dict[str, Any] = {
                **self.names,
                "messages": self.messages,
                "warmup": 2 if self.rate else max(20, self.messages // 6 // 2 * 2),
                "dir": folder,
                "samples": samples,
            }
            words = [f"--{name}={value}" for name, value in options.items()]
            if self.cold:
                words.append("--cold")
            if self.rate:
                words.append("--clients=1")
            done = attempt([WORKLOAD, *words])
            if done.returncode != 0:
                raise RunError(f"the prices cannot be measured: {last_words(done.stderr)}")
            return json.loads(done.stdout), read_nanoseconds(samples)

    def figures(self) -> dict[str, float]:
        """Run it once: µs of an iteration, and CPU time of both sides. Raises RunError."""
        result, times = self.run()
        rounds = result["round_trips"]
        return {
            "iteration_us": round(result["window_ns"] / 1000 / rounds, 4),
            "median_us": median(times) / 1000,
            "client_cpu_us": cpu_us(result["client"]) / rounds,
            "server_cpu_us": cpu_us(result["server"]) / rounds,
        }

    @property
    def names(self) -> dict[str, Any]:
        """What its prices are called by, and the workload's options."""
        names = {
            "transport": self.transport,
            "pattern": self.pattern,
            "size": self.size,
            "placement": self.placement,
        }
        return names | {"rate": self.rate} if self.rate else names


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
    """What a prediction for programs needs."""
    for transport in PAIR:
        for size, messages in SIZES.items():
            yield Priced(transport, "pingpong", size, "same-cpu", messages)
            yield Priced(transport, "pingpong", size, "cross-cpu", messages)
            if size <= FITS:
                yield Priced(transport, ALONE, size, "same-cpu", messages)
        for placement in ("same-cpu", "cross-cpu"):
            yield Priced(transport, "connect", SMALL, placement, CONNECTIONS)
        for pattern, messages in COLD_MESSAGES.items():
            yield Priced(transport, pattern, SMALL, "same-cpu", messages, cold=True)
    for placement in ("same-cpu", "cross-cpu"):
        for rate, requests in PACED.items():
            for transport in PAIR:
                yield Priced(transport, "paced", SMALL, placement, 2 * requests, rate=rate)


def event_cells() -> Iterator[Priced]:
    """What the prices of events come from: nothing over a Unix socket, nor over TCP."""
    for placement in ("same-cpu", "cross-cpu"):
        for transport in EVENT_TRANSPORTS:
            for size, messages in EVENT_SIZES.items():
                yield Priced(transport, "pingpong", size, placement, messages)
                if placement == "same-cpu":
                    yield Priced(transport, ALONE, size, placement, messages)
        yield Priced(WITHOUT_KERNEL, "pingpong", SMALL, placement, EVENT_SIZES[SMALL])


MEMORY_GROUP = "cgroup-memory"  # a knob of exact mode
# What prices were measured with, where a word of the fingerprint differs.
OTHER = {
    "kernel": "another kernel",
    "version": "another build of the kernel",
    "cpu": "another CPU",
    "cpus": "another number of CPUs",
    "workload": "another build of the workload",
    "list": "another version of pathcost",
    "knob": "processes whose memory is charged otherwise (to a control group, or to none)",
}


def fingerprint() -> dict[str, Any]:
    """What the prices depend on: they are measured again where any of it changes."""
    uname = os.uname()
    return {
        "kernel": uname.release,
        "version": uname.version,
        "cpu": cpu_model(),
        "cpus": len(os.sched_getaffinity(0)),
        "workload": WORKLOAD.stat().st_size if WORKLOAD.exists() else 0,
        "list": [PRICES_FORMAT, PRICE_REPEATS, *SIZES, *PACED.values()],
        # With which events are counted, so that the emulated machine charges memory as this one.
        "knob": MEMORY_GROUP if in_memory_group() else "",
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
    return complete(cache, list(cells()), say, TAKES)


def of_events(cache: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """A list that has what the prices of events come from. Raises RunError."""
    return complete(cache, list(event_cells()), say, EVENTS_TAKE)


def keep_events(
    cache: Path, listed: dict[str, Any], kernel: str, events: Mapping[Any, dict[str, Any]]
) -> None:
    """Keep the events of cells of the list, by their names, which this kernel counted.

    Raises RunError where a cell has none.
    """
    for wanted in event_cells():
        names = tuple(wanted.names.values())
        if names not in events:
            raise RunError(f"the events of {wanted.transport}, {wanted.pattern} were not counted.")
        for cell in listed["cells"]:
            if not cell["cold"] and wanted.names.items() <= cell.items():
                cell["events"] = events[names]
    write_json(cache / PRICES, listed | {"kernel": kernel})


def complete(
    cache: Path, wanted: Sequence[Priced], say: Callable[[str], None], seconds: int
) -> dict[str, Any]:
    """The kept list, with the wanted cells that it lacked: these are measured now, and kept.

    Raises RunError.
    """
    listed = kept(cache) or empty_list()
    if lacking := [cell for cell in wanted if not has(listed, cell)]:
        say(f"measuring what messages cost on this machine, once: about {seconds} s")
        listed["cells"] += measured(lacking)
        with suppress(OSError):  # without a cache they are measured each time
            cache.mkdir(parents=True, exist_ok=True)
            write_json(cache / PRICES, listed)
    return listed


def empty_list() -> dict[str, Any]:
    """A list of this machine without a cell."""
    now = round(time.time())
    return {"format": PRICES_FORMAT, "measured": now, "cells": [], "fingerprint": fingerprint()}


def kept(cache: Path) -> dict[str, Any] | None:
    """The list of this machine as it is, if the cache has it."""
    listed: dict[str, Any] | None = read_json(cache / PRICES)
    return listed if listed and listed["fingerprint"] == fingerprint() else None


def kept_for_programs(cache: Path) -> dict[str, Any] | None:
    """The kept list, if it has what a prediction for programs needs."""
    listed = kept(cache)
    return listed if listed and all(has(listed, cell) for cell in cells()) else None


def kept_for_events(cache: Path) -> tuple[dict[str, Any] | None, str]:
    """The kept list's cells with counted events, or why those that are kept are not to be used.

    Neither where nobody has counted events.
    """
    listed: dict[str, Any] | None = read_json(cache / PRICES)
    if not listed or not listed.get("kernel"):
        return None, ""
    now = fingerprint()
    was = {"knob": ""} | listed["fingerprint"]
    if other := [name for name in now if was.get(name) != now[name]]:
        words = " and ".join(OTHER[name] for name in other)
        return None, (
            f"the prices of events that are kept are of {words}: "
            f"{PROGRAM} exact --priced finds new ones."
        )
    counted = [cell for cell in listed["cells"] if cell.get("events")]
    return listed | {"cells": counted}, ""


def knob_of(listed: Mapping[str, Any] | None) -> str:
    """The knob of exact mode for round trips that this list is to tell; empty without a list."""
    return str(listed["fingerprint"].get("knob", "")) if listed else ""


def has(listed: dict[str, Any], wanted: Priced) -> bool:
    names = wanted.names | {"cold": wanted.cold}
    return any(names.items() <= cell.items() for cell in listed["cells"])


def for_report(cache: Path) -> dict[str, Any]:
    """What a report needs, timed now: a small round trip's prices on one CPU, hot and cold (3 s),
    and those of events where these were counted (3 s). Raises RunError.

    Kept times will not do: a virtual machine may run a third slower for an hour, and a price of
    another hour than the run's times is then wrong by as much. What events were counted holds.
    """
    messages = COLD_MESSAGES["pingpong"]
    cold_path = [
        Priced(transport, "pingpong", SMALL, "same-cpu", messages, cold)
        for cold in (False, True)
        for transport in PAIR
    ]
    listed = kept(cache) or empty_list()
    counted = [cell for cell in listed["cells"] if cell.get("events")]
    if not counted:
        return empty_list() | {"cells": measured(cold_path)}
    found = measured([*cold_path, *event_cells()])
    for cell in found:
        for other in counted:
            if names_of(cell) == names_of(other):
                cell["events"] = other["events"]
    keep_quicker(cache, listed, found)
    return empty_list() | {"cells": found, "kernel": listed["kernel"]}


def keep_quicker(cache: Path, listed: dict[str, Any], found: Sequence[dict[str, Any]]) -> None:
    """Keep a cell's times of events that were found now, where its kept ones are longer.

    A price is what an event costs while nothing else slows the machine down.
    """
    quicker = {
        names_of(cell): cell
        for cell in found
        for other in listed["cells"]
        if cell.get("events")
        and names_of(cell) == names_of(other)
        and min(cell["median_us"]) < min(other["median_us"])
    }
    cells = [quicker.get(names_of(cell), cell) for cell in listed["cells"]]
    with suppress(OSError):
        write_json(cache / PRICES, listed | {"cells": cells})


def names_of(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which cell of a list this is."""
    return (*(cell[name] for name in ("transport", "pattern", "size", "placement")), cell["cold"])


def measured(wanted: Sequence[Priced]) -> list[dict[str, Any]]:
    """Run each cell, interleaved: an entry with a list of each figure. Raises RunError."""
    listed = {cell: cell.names | {"cold": cell.cold} for cell in wanted}
    for _, cell in interleaved(wanted, PRICE_REPEATS):
        for name, value in cell.figures().items():
            listed[cell].setdefault(name, []).append(value)
    return list(listed.values())
