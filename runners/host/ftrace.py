# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's function tracer: every function that the workload's processes enter.

The trace is a tracefs instance of our own, so nobody else's tracing is touched. The workload opens
and closes `tracing_on` at the edges of its window, through a descriptor that it inherits. So the
window is the client's for both processes: the server's first read was entered before it, and the
tails of the two writes are in it.
"""

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from probes.callsite import TRACEFS
from probes.cell import CellRun
from probes.reasons import ReasonError, reason
from probes.scripts import Script
from runners.host.instrument import Context, Instrument, Losses, WindowOptions

PREFIX = "pathcost-"
BUFFER_KB = 16384
ENTRY = re.compile(rb": (\S+)$")


class FtraceInstrument(Instrument):
    """The function tracer over a pass."""

    name = "ftrace"

    def __init__(self, scripts: Sequence[Script], context: Context) -> None:
        super().__init__(scripts, context)
        self._gate = -1
        self._out = context.out / self.name
        self._out.mkdir(exist_ok=True)

    def attach(self) -> None:
        try:
            self._gate = switch_on()
        except OSError as error:
            why = reason("tracer-refused", tracer="function", error=error)
            self.miss(self.quantities, ReasonError(why))

    def wait(self) -> list[str]:
        return list(self.quantities) if self._gate >= 0 else []

    def before(self, run: CellRun) -> WindowOptions:
        if self._gate < 0:
            return WindowOptions()
        return WindowOptions(("--gate", str(self._gate)), (self._gate,))

    def after(self, run: CellRun) -> Losses:
        """Write a line `function<TAB>calls` for each function that was called in the window."""
        if self._gate < 0:
            return Losses()
        _set("tracing_on", "0")
        with (instance() / "trace").open("rb") as lines:
            entries = map(ENTRY.search, map(bytes.rstrip, lines))
            calls = Counter(entry[1].decode() for entry in entries if entry)
        rows = [f"{name}\t{count}\n" for name, count in sorted(calls.items())]
        (self._out / f"{run.id}.tsv").write_text("".join(rows), encoding="ascii")
        lost = sum(_lost(stats) for stats in instance().glob("per_cpu/cpu*/stats"))
        _set("trace", "")
        return Losses(lost)

    def stop(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1
            remove_instance(instance())


def instance() -> Path:
    """The folder of this process's own trace."""
    return TRACEFS / "instances" / f"{PREFIX}{os.getpid()}"


def switch_on() -> int:
    """Trace this process and its children. Return the descriptor that opens and closes the gate.

    Raises OSError, and leaves nothing behind then.
    """
    try:
        instance().mkdir()
        # The tracer must know whom to follow before it starts, else it follows everybody.
        _set("tracing_on", "0")
        _set("buffer_size_kb", str(BUFFER_KB))
        _set("options/function-fork", "1")
        _set("set_ftrace_pid", str(os.getpid()))
        _set("current_tracer", "function")
        _set("options/print-parent", "0")
        _set("trace", "")
        return os.open(instance() / "tracing_on", os.O_WRONLY)
    except OSError:
        remove_instance(instance())
        raise


def _set(name: str, value: str) -> None:
    (instance() / name).write_text(value + "\n", encoding="ascii")


def _lost(stats: Path) -> int:
    """Events overwritten or dropped on one CPU (kernel/trace/trace.c, tracing_stats_read)."""
    fields = dict(line.split(": ") for line in stats.read_text().splitlines() if ": " in line)
    return int(fields["overrun"]) + int(fields["dropped events"])


def remove_instance(folder: Path) -> None:
    """Stop and remove a tracefs instance, if it is there."""
    if folder.exists():
        (folder / "current_tracer").write_text("nop\n", encoding="ascii")
        folder.rmdir()


def stale() -> list[Path]:
    """Instances whose owner is dead."""
    ours = (TRACEFS / "instances").glob(f"{PREFIX}*")
    return [path for path in ours if not Path("/proc", path.name.removeprefix(PREFIX)).exists()]


def remove_stale() -> list[str]:
    """Remove instances whose owner is dead; return their names."""
    folders = stale()
    for folder in folders:
        remove_instance(folder)
    return [folder.name for folder in folders]
