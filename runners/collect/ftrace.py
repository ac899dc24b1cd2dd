# SPDX-License-Identifier: GPL-2.0-or-later
"""Every kernel function that the workload's processes enter, by the kernel's own function tracer.

The trace is a tracefs instance of our own (Documentation/trace/ftrace.rst, "Instances"), so nobody
else's tracing is touched. `function-fork` makes the tracer follow our children. The workload opens
and closes `tracing_on` at the edges of its window, through a descriptor that it inherits. So the
window is the client's for both processes: the server's first read was entered before it, and the
tails of the two writes to `tracing_on` are in it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from probes.reasons import missing, reason
from runners.collect.instrument import AttachError, Context, Instrument, Losses, WindowOptions
from runners.collect.scripts import TRACEFS, Script
from runners.plan.model import CellRun

PREFIX = "pathcost-"
ENTRY = re.compile(rb": (\S+)$")


class FunctionTracer:
    """A context: inside it `gate` is the descriptor to give to the workload, else -1."""

    tracer = "function"
    buffer_kb = 16384
    options: Mapping[str, str] = {"print-parent": "0"}
    suffix = ".tsv"

    def __init__(self, own_kernel: bool = False) -> None:
        self.folder = TRACEFS / "instances" / f"{PREFIX}{os.getpid()}"
        self.own_kernel = own_kernel
        self.gate = -1

    def __enter__(self) -> FunctionTracer:
        try:
            self.folder.mkdir()
            self.follow_us()
            self.switch_on()
            for name, value in self.options.items():
                if (self.folder / "options" / name).exists():
                    self.set(f"options/{name}", value)
            self.set("trace", "")
            self.gate = os.open(self.folder / "tracing_on", os.O_WRONLY)
        except OSError as error:
            self.__exit__()
            raise AttachError(reason("tracer-refused", tracer=self.tracer, error=error)) from error
        except AttachError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.gate >= 0:
            os.close(self.gate)
            self.gate = -1
        self.remove()

    def follow_us(self) -> None:
        """Before the tracer is switched on, which would otherwise follow the whole machine."""
        self.set("tracing_on", "0")
        self.set("buffer_size_kb", str(self.buffer_kb))
        self.set("options/function-fork", "1")
        self.set("set_ftrace_pid", str(os.getpid()))

    def switch_on(self) -> None:
        self.set("current_tracer", self.tracer)

    def remove(self) -> None:
        remove_instance(self.folder)

    def take(self, out: Path) -> int:
        """Write what was traced in the window to `out`. Returns how many events were lost."""
        self.set("tracing_on", "0")
        self.write(out)
        lost = sum(_lost(stats) for stats in self.folder.glob("per_cpu/cpu*/stats"))
        self.set("trace", "")
        return lost

    def write(self, out: Path) -> None:
        """A line `function<TAB>calls` for each function."""
        calls: Counter[bytes] = Counter()
        with (self.folder / "trace").open("rb") as lines:
            for line in lines:
                if found := ENTRY.search(line.rstrip()):
                    calls[found[1]] += 1
        rows = [f"{name.decode()}\t{count}\n" for name, count in sorted(calls.items())]
        out.write_text("".join(rows), encoding="ascii")

    def set(self, name: str, value: str) -> None:
        (self.folder / name).write_text(value + "\n", encoding="ascii")


class FtraceInstrument(Instrument):
    """A tracer of the kernel over a pass."""

    name = "ftrace"

    def __init__(
        self,
        scripts: Sequence[Sequence[Script]],
        context: Context,
        tracer: type[FunctionTracer] = FunctionTracer,
    ) -> None:
        ((self._script, *_),) = scripts
        self._context = context
        self._tracer = tracer(context.own_kernel)
        self._out = context.out / self.name
        self._out.mkdir(exist_ok=True)

    def attach(self) -> None:
        try:
            self._tracer.__enter__()
        except AttachError as error:
            by = f"{self.name} {self._script.name}"
            self._context.miss(missing(self._script.quantities, error.reasons[0], by=by))

    def wait(self) -> list[str]:
        return [self._script.name] if self._tracer.gate >= 0 else []

    def before(self, run: CellRun) -> WindowOptions:
        gate = self._tracer.gate
        return WindowOptions(("--gate", str(gate)), (gate,)) if gate >= 0 else WindowOptions()

    def after(self, run: CellRun) -> Losses:
        if self._tracer.gate < 0:
            return Losses()
        return Losses(self._tracer.take(self._out / f"{run.id}{self._tracer.suffix}"))

    def stop(self) -> None:
        if self._tracer.gate >= 0:
            self._tracer.__exit__()


def _lost(stats: Path) -> int:
    """Events overwritten or dropped on one CPU (kernel/trace/trace.c, tracing_stats_read)."""
    fields = dict(line.split(": ") for line in stats.read_text().splitlines() if ": " in line)
    return int(fields["overrun"]) + int(fields["dropped events"])


def remove_instance(instance: Path) -> None:
    """Stop and remove a tracefs instance, if it is there."""
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
