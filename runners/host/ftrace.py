# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's own tracers: every function that the workload's processes enter, and the call tree.

The trace is a tracefs instance of our own (Documentation/trace/ftrace.rst, "Instances"), so nobody
else's tracing is touched. `function-fork` makes the tracer follow our children. The workload opens
and closes `tracing_on` at the edges of its window, through a descriptor that it inherits. So the
window is the client's for both processes: the server's first read was entered before it, and the
tails of the two writes to `tracing_on` are in it.
"""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from probes.reasons import missing, reason
from runners.cell import CellRun
from runners.host.instrument import AttachError, Context, Instrument, Losses, WindowOptions
from runners.host.scripts import TRACEFS, Script

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

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir()
            self.follow_us()
            self.switch_on()
            for name, value in self.options.items():
                if (self.folder / "options" / name).exists():
                    self.set(f"options/{name}", value)
            self.set("trace", "")
            self.gate = os.open(self.folder / "tracing_on", os.O_WRONLY)
        except (OSError, AttachError) as error:
            self.__exit__()
            if isinstance(error, AttachError):
                raise
            raise AttachError(reason("tracer-refused", tracer=self.tracer, error=error)) from error
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


class GraphTracer(FunctionTracer):
    """The call tree of a round trip, over very short cells.

    From 6.12 on function_graph runs in an instance. An older kernel has one graph trace for the
    whole machine, which is used only where the kernel is ours alone. An interrupt or softirq that
    runs on top of a process is in that process's stack, at the place where it ran.
    """

    tracer = "function_graph"
    buffer_kb = 4096
    # The task of each line; and no times, which mean nothing on an emulated CPU and elsewhere
    # include the tracer's own cost.
    options: Mapping[str, str] = {
        "funcgraph-proc": "1",
        "funcgraph-duration": "0",
        "funcgraph-overhead": "0",
    }
    suffix = ".graph"

    def switch_on(self) -> None:
        try:
            super().switch_on()
        except OSError:
            remove_instance(self.folder)
            self.folder = TRACEFS
            tracers = (TRACEFS / "available_tracers").read_text(encoding="ascii").split()
            if self.tracer not in tracers:
                raise AttachError(reason("no-tracer", tracer=self.tracer)) from None
            if not self.own_kernel:
                raise AttachError(reason("shared-tracer", tracer=self.tracer)) from None
            self.follow_us()
            super().switch_on()

    def remove(self) -> None:
        if self.folder != TRACEFS:
            super().remove()
        elif self.own_kernel:
            self.set("current_tracer", "nop")
            self.set("set_ftrace_pid", "")
            self.set("tracing_on", "1")

    def write(self, out: Path) -> None:
        """The trace as tracefs prints it."""
        out.write_bytes((self.folder / "trace").read_bytes())


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
