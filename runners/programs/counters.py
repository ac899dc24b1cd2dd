# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what the kernel counts by itself, for the machine and for the processes of an experiment.

No probe is needed. TCP's counters (/proc/net/snmp, /proc/net/netstat) and the machine's context
switches (/proc/stat) include the work of other programs.
"""

import os
import resource
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from probes.bcc.people import stat_fields, switches

PROC = Path("/proc")
GONE = (FileNotFoundError, ProcessLookupError)
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Counters:
    """The counts at a moment."""

    totals: dict[str, int]
    threads: dict[str, tuple[int, int]]  # thread → its voluntary and involuntary switches


def read(pids: Iterable[int]) -> Counters:
    """Read the counts of these processes, with the CPU time of their children that have ended, and
    of our children that have ended.
    """
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    totals = {
        "out": _tcp("net/snmp", "Tcp", "OutSegs"),
        "data": _tcp("net/netstat", "TcpExt", "TCPOrigDataSent"),
        "machine": int((PROC / "stat").read_text().partition("\nctxt ")[2].split(maxsplit=1)[0]),
        "user_ns": round(usage.ru_utime * 1e9),
        "system_ns": round(usage.ru_stime * 1e9),
    }
    threads = {"ended": (usage.ru_nvcsw, usage.ru_nivcsw)}
    for pid in pids:
        with suppress(*GONE):  # what it used is its parent's by then
            _add_process(pid, totals, threads)
    return Counters(totals, threads)


def _add_process(pid: int, totals: dict[str, int], threads: dict[str, tuple[int, int]]) -> None:
    fields = stat_fields(pid)
    totals["user_ns"] += (int(fields[11]) + int(fields[13])) * TICK_NS
    totals["system_ns"] += (int(fields[12]) + int(fields[14])) * TICK_NS
    for task in (PROC / f"{pid}/task").iterdir():
        with suppress(*GONE):  # the thread has ended
            threads[task.name] = switches(task)


def between(before: Counters, after: Counters) -> dict[str, int]:
    """The counts between two moments.

    `out` are segments sent, `data` segments with payload, not sent again, and `machine` the
    machine's context switches. For all processes together: `user_ns` and `system_ns`, to the clock
    tick; `voluntary` and `involuntary` switches of the threads that are alive at the end.
    """
    found = {name: after.totals[name] - value for name, value in before.totals.items()}
    for i, name in enumerate(("voluntary", "involuntary")):
        was = {task: counts[i] for task, counts in before.threads.items()}
        now = {task: counts[i] for task, counts in after.threads.items()}
        found[name] = sum(count - was.get(task, 0) for task, count in now.items())
    return found


def _tcp(file: str, group: str, name: str) -> int:
    """A counter from a table of two lines: names, and below them values."""
    lines = (PROC / file).read_text().splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith(f"{group}:"))
    return int(values[names.index(name)])
