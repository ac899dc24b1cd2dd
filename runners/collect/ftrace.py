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
from collections.abc import Sequence
from pathlib import Path

from runners.collect.instrument import AttachError, Context, Instrument, Losses, Window
from runners.collect.scripts import TRACEFS, Script
from runners.plan.model import CellRun

PREFIX = "pathcost-"
BUFFER_KB = 16384
ENTRY = re.compile(rb": (\S+)$")


class FunctionTracer:
    """A context: inside it `gate` is the descriptor to give to the workload."""

    def __init__(self) -> None:
        self._instance = TRACEFS / "instances" / f"{PREFIX}{os.getpid()}"
        self.gate = -1

    def __enter__(self) -> FunctionTracer:
        try:
            self._instance.mkdir()
        except OSError as error:
            raise AttachError(f"no tracefs instance can be made: {error.strerror}.") from error
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
            raise AttachError(f"the function tracer cannot be set up: {error}.") from error
        return self

    def __exit__(self, *_: object) -> None:
        if self.gate >= 0:
            os.close(self.gate)
            self.gate = -1
        remove_instance(self._instance)

    def take(self, out: Path) -> int:
        """Write `function<TAB>calls` of the window to `out`; how many events were lost."""
        self._set("tracing_on", "0")
        calls: Counter[bytes] = Counter()
        with (self._instance / "trace").open("rb") as lines:
            for line in lines:
                if found := ENTRY.search(line.rstrip()):
                    calls[found[1]] += 1
        lost = lost_events(self._instance)
        self._set("trace", "")
        rows = [f"{name.decode()}\t{count}\n" for name, count in sorted(calls.items())]
        out.write_text("".join(rows), encoding="ascii")
        return lost

    def _set(self, name: str, value: str) -> None:
        (self._instance / name).write_text(value + "\n", encoding="ascii")


class Functions(Instrument):
    """The function tracer over a pass."""

    name = "ftrace"

    def __init__(self, scripts: Sequence[Sequence[Script]], context: Context) -> None:
        ((self._script, *_),) = scripts
        self._context = context
        self._tracer = FunctionTracer()
        self._out = context.out / self.name
        self._out.mkdir(exist_ok=True)

    def attach(self) -> None:
        try:
            self._tracer.__enter__()
        except AttachError as error:
            self._context.miss("function_calls of every function", str(error))

    def wait(self) -> list[str]:
        return [self._script.name] if self._tracer.gate >= 0 else []

    def before(self, run: CellRun) -> Window:
        gate = self._tracer.gate
        return Window(("--gate", str(gate)), (gate,)) if gate >= 0 else Window()

    def after(self, run: CellRun) -> Losses:
        if self._tracer.gate < 0:
            return Losses()
        return Losses(self._tracer.take(self._out / f"{run.id}.tsv"))

    def stop(self) -> None:
        self._tracer.__exit__()


def lost_events(instance: Path) -> int:
    """Events of a trace that are not in it, on all CPUs."""
    return sum(_lost(stats) for stats in instance.glob("per_cpu/cpu*/stats"))


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
