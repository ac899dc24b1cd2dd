# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a program's client beside its server, and reads what the kernel counts of both meanwhile.

No probe is needed for these counts. TCP's counters (/proc/net/snmp, /proc/net/netstat) and the
machine's context switches (/proc/stat) include the work of other programs.
"""

import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Timer
from typing import Any, NamedTuple

from probes.bcc.people import stat_fields, switches
from runners.process import RunError, command, last_words
from runners.programs.watch import Watch

SECONDS = 60  # for one measurement
PROC = Path("/proc")
GONE = (FileNotFoundError, ProcessLookupError)
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
Result = dict[str, Any]
# Says "ready", and becomes the client after a line of input.
HELD = ("sh", "-c", 'echo ready && read -r go && exec "$@"', "sh")


class Counters(NamedTuple):
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
            fields = stat_fields(pid)
            totals["user_ns"] += (int(fields[11]) + int(fields[13])) * TICK_NS
            totals["system_ns"] += (int(fields[12]) + int(fields[14])) * TICK_NS
            for task in (PROC / f"{pid}/task").iterdir():
                with suppress(*GONE):  # the thread has ended
                    threads[task.name] = switches(task)
    return Counters(totals, threads)


def _tcp(file: str, group: str, name: str) -> int:
    """A counter from a table of two lines: names, and below them values."""
    lines = (PROC / file).read_text().splitlines()
    names, values = (line.split()[1:] for line in lines if line.startswith(f"{group}:"))
    return int(values[names.index(name)])


def between(before: Counters, after: Counters) -> dict[str, int]:
    """Return the counts between two moments.

    `out` are segments sent, `data` segments with payload, not sent again, and `machine` the
    machine's context switches. For all processes together: `user_ns` and `system_ns`, to the clock
    tick; `voluntary` and `involuntary` switches of the threads that are alive at the end.
    """
    counts = {name: after.totals[name] - value for name, value in before.totals.items()}
    for i, name in enumerate(("voluntary", "involuntary")):
        counts[name] = sum(
            now[i] - before.threads.get(task, (0, 0))[i] for task, now in after.threads.items()
        )
    return counts


def run_beside(
    argv: Sequence[str],
    servers: Callable[[], list[int]],
    parse: Callable[[str], Result] = json.loads,
    cwd: Path | None = None,
    watch: Watch | None = None,
    waits: bool = False,
    wrap: Callable[[Sequence[str]], list[str]] = command,
) -> Result:
    """Run a client, which `wrap` makes a full command of, beside the processes of its server.

    Returns what `parse` makes of its output, with `error` null, or only `error`. The result also
    has the kernel's counts of all these processes as `counters`; with a watch, `probed` has what
    the watch counted. A client that `waits` is counted from its "ready" to its result, any other
    over its entire life, by a watch alone where there is one.
    """
    more: Result = {"error": None}
    whole = watch is None and not waits
    before, text, overdue = read(servers()), "", Event()
    # What `wrap` does comes before the shell, so that it is not counted.
    process = subprocess.Popen(
        wrap(argv if whole or waits else [*HELD, *argv]),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, process_group=0, cwd=cwd,
    )  # fmt: skip
    assert process.stdin and process.stdout

    def end() -> None:
        overdue.set()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its children may hold the output open

    timer = Timer(SECONDS, end)
    timer.start()
    try:
        if whole:
            text = process.stdout.read()
        elif process.stdout.readline() == "ready\n":
            pids = [process.pid, *servers()]
            if watch is not None:
                watch.open(pids)
            before = read(pids)
            print("go", file=process.stdin, flush=True)
            if waits:
                text = process.stdout.readline()
                more["counters"] = between(before, read(pids))
            else:
                text = process.stdout.read()
                # It has closed its output, but what it does until its end also counts.
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            if watch is not None:
                more["probed"] = watch.close()
        complaint = process.communicate()[1]
        if whole:
            more["counters"] = between(before, read(servers()))
        if process.returncode == 0 and text:
            return parse(text) | more
    except RunError as error:
        return {"error": str(error)}
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if overdue.is_set():
        return {"error": f"the client did not end in {SECONDS} s"}
    return {"error": last_words(complaint, "the client failed")}
