# SPDX-License-Identifier: GPL-2.0-or-later
"""The call tree of a round trip, by the kernel's function_graph tracer.

In a tracefs instance of our own where the kernel can do that (fgraph of several users, from 6.12
on); before, in the machine's one trace, and then only in a kernel that is ours alone. What an
interrupt or a softirq runs on a process's back stands inside the process's stack, where it ran.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from runners.collect.ftrace import PREFIX, lost_events, remove_instance
from runners.collect.instrument import AttachError, Context, Instrument, Losses, Window
from runners.collect.scripts import TRACEFS, Script
from runners.plan.model import CellRun

TRACER = "function_graph"
BUFFER_KB = 4096
# Which task, and no times: an emulated CPU's are none, and the tracer's own cost is in all others.
OPTIONS = {"funcgraph-proc": "1", "funcgraph-duration": "0", "funcgraph-overhead": "0"}


class Tree(Instrument):
    """function_graph over a pass of very short cells."""

    name = "ftrace"

    def __init__(self, scripts: Sequence[Sequence[Script]], context: Context) -> None:
        ((self._script, *_),) = scripts
        self._context = context
        self._folder = context.out / self.name
        self._folder.mkdir(exist_ok=True)
        self._trace = TRACEFS / "instances" / f"{PREFIX}{os.getpid()}"
        self._gate = -1

    def attach(self) -> None:
        try:
            self._set_up()
        except (AttachError, OSError) as error:
            self._clear()
            self._context.miss("call tree of a round trip (ftrace tree)", str(error))

    def _set_up(self) -> None:
        self._trace.mkdir()
        self._only_us()
        try:
            self._set("current_tracer", TRACER)
        except OSError:
            remove_instance(self._trace)
            self._trace = TRACEFS
            self._check_alone()
            self._only_us()
            self._set("current_tracer", TRACER)
        for option, value in OPTIONS.items():
            if (self._trace / "options" / option).exists():
                self._set(f"options/{option}", value)
        self._set("trace", "")
        self._gate = os.open(self._trace / "tracing_on", os.O_WRONLY)

    def _only_us(self) -> None:
        """Before the tracer is switched on, which would otherwise follow the whole machine."""
        self._set("tracing_on", "0")
        self._set("buffer_size_kb", str(BUFFER_KB))
        self._set("options/function-fork", "1")
        self._set("set_ftrace_pid", str(os.getpid()))

    def _check_alone(self) -> None:
        """Raises AttachError where the machine's own trace is not ours, or has no such tracer."""
        tracers = (TRACEFS / "available_tracers").read_text(encoding="ascii").split()
        if TRACER not in tracers:
            raise AttachError("this kernel has no function_graph tracer.")
        if not self._context.own_kernel:
            raise AttachError(
                "this kernel has one function_graph trace for the whole machine, which is not ours."
            )

    def wait(self) -> list[str]:
        return [self._script.name] if self._gate >= 0 else []

    def before(self, run: CellRun) -> Window:
        return Window(("--gate", str(self._gate)), (self._gate,)) if self._gate >= 0 else Window()

    def after(self, run: CellRun) -> Losses:
        if self._gate < 0:
            return Losses()
        self._set("tracing_on", "0")
        text = (self._trace / "trace").read_text(encoding="ascii", errors="replace")
        (self._folder / f"{run.id}.graph").write_text(text, encoding="ascii")
        lost = lost_events(self._trace)
        self._set("trace", "")
        return Losses(lost)

    def stop(self) -> None:
        if self._gate >= 0:
            self._clear()

    def _clear(self) -> None:
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1
        if self._trace != TRACEFS:
            remove_instance(self._trace)
        elif self._context.own_kernel:
            self._set("current_tracer", "nop")
            self._set("set_ftrace_pid", "")
            self._set("tracing_on", "1")

    def _set(self, name: str, value: str) -> None:
        (self._trace / name).write_text(value + "\n", encoding="ascii")
