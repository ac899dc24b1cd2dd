# SPDX-License-Identifier: GPL-2.0-or-later
"""The call tree of a round trip, by the kernel's function_graph tracer.

It is a tracefs instance of our own where the kernel can do that (from 6.12 on fgraph has several
users). An older kernel has one graph trace for the whole machine, which is used only where the
kernel is ours alone. An interrupt or softirq that runs on top of a process is in that process's
stack, at the place where it ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from probes.reasons import reason
from runners.collect.ftrace import FunctionTracer, remove_instance
from runners.collect.instrument import AttachError
from runners.collect.scripts import TRACEFS

# The task of each line; and no times, which mean nothing on an emulated CPU and elsewhere include
# the tracer's own cost.
OPTIONS = {"funcgraph-proc": "1", "funcgraph-duration": "0", "funcgraph-overhead": "0"}


class GraphTracer(FunctionTracer):
    """function_graph over very short cells."""

    tracer = "function_graph"
    buffer_kb = 4096
    options: Mapping[str, str] = OPTIONS
    suffix = ".graph"

    def switch_on(self) -> None:
        try:
            super().switch_on()
        except OSError:
            remove_instance(self.folder)
            self.folder = TRACEFS
            self._check_alone()
            self.follow_us()
            super().switch_on()

    def _check_alone(self) -> None:
        """Raises AttachError where the machine's trace is not ours alone, or has no such tracer."""
        tracers = (TRACEFS / "available_tracers").read_text(encoding="ascii").split()
        if self.tracer not in tracers:
            raise AttachError(reason("no-tracer", tracer=self.tracer))
        if not self.own_kernel:
            raise AttachError(reason("shared-tracer", tracer=self.tracer))

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
