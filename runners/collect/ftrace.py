# SPDX-License-Identifier: GPL-2.0-or-later
"""Every kernel function that the workload's processes enter, by the kernel's own function tracer.

A tracefs instance of our own (Documentation/trace/ftrace.rst, "Instances"), so that nobody else's
tracing is touched. `function-fork` makes the tracer follow our children; the workload opens and
closes `tracing_on` itself at the edges of its window, through a descriptor that it inherits. The
window is thus the client's for both processes: the server's first read has been entered before, and
the tails of the two writes to `tracing_on` are in it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

TRACEFS = Path("/sys/kernel/tracing")
PREFIX = "pathcost-"
BUFFER_KB = 16384
ENTRY = re.compile(rb": (\S+)$")


class FtraceError(Exception):
    """The function tracer cannot be used; the message is one sentence that says why."""


class FunctionTracer:
    """A context: inside it `gate` is the descriptor to give to the workload."""

    def __init__(self) -> None:
        self._instance = TRACEFS / "instances" / f"{PREFIX}{os.getpid()}"
        self.gate = -1

    def __enter__(self) -> FunctionTracer:
        try:
            self._instance.mkdir()
        except OSError as error:
            raise FtraceError(f"no tracefs instance can be made: {error.strerror}.") from error
        try:
            self._set("tracing_on", "0")
            self._set("buffer_size_kb", str(BUFFER_KB))
            self._set("options/function-fork", "1")
            self._set("options/print-parent", "0")
            self._set("set_ftrace_pid", str(os.getpid()))
            self._set("current_tracer", "function")
            self.gate = os.open(self._instance / "tracing_on", os.O_WRONLY)
        except OSError as error:
            self.__exit__()
            raise FtraceError(f"the function tracer cannot be set up: {error}.") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self.gate >= 0:
            os.close(self.gate)
        remove_instance(self._instance)

    def take(self, out: Path) -> int:
        """Write `function<TAB>calls` of the window to `out`; how many events were lost."""
        self._set("tracing_on", "0")
        calls: Counter[bytes] = Counter()
        with (self._instance / "trace").open("rb") as lines:
            for line in lines:
                if found := ENTRY.search(line.rstrip()):
                    calls[found[1]] += 1
        lost = sum(_lost(stats) for stats in self._instance.glob("per_cpu/cpu*/stats"))
        self._set("trace", "")
        rows = [f"{name.decode()}\t{count}\n" for name, count in sorted(calls.items())]
        out.write_text("".join(rows), encoding="ascii")
        return lost

    def _set(self, name: str, value: str) -> None:
        (self._instance / name).write_text(value + "\n", encoding="ascii")


def _lost(stats: Path) -> int:
    """Events overwritten or dropped on one CPU (kernel/trace/trace.c, tracing_stats_read)."""
    fields = dict(line.split(": ") for line in stats.read_text().splitlines() if ": " in line)
    return int(fields["overrun"]) + int(fields["dropped events"])


def remove_instance(instance: Path) -> None:
    """Stop and remove a tracefs instance; nothing where it is gone already."""
    if instance.exists():
        (instance / "current_tracer").write_text("nop\n", encoding="ascii")
        instance.rmdir()


def stale() -> list[Path]:
    """Instances whose owner is dead."""
    return [
        instance
        for instance in (TRACEFS / "instances").glob(f"{PREFIX}*")
        if not Path("/proc", instance.name.removeprefix(PREFIX)).exists()
    ]


def remove_stale() -> list[str]:
    """Remove instances whose owner is dead; their names."""
    found = stale()
    for instance in found:
        remove_instance(instance)
    return [instance.name for instance in found]
