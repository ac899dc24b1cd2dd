# SPDX-License-Identifier: GPL-2.0-or-later
"""bpftrace scripts: one process each, which prints its maps as JSON when it ends."""

from __future__ import annotations

import re
import subprocess
from functools import cache

from runners.collect.instrument import AttachError
from runners.collect.scripts import choose
from runners.collect.tracer import Tracer, Tracers

# bpftrace prints this when every probe is attached and this variable is set: its own tests use it.
NOTIFY = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"
# What it only warns about: an attach point that does not exist, of several (0.23) or alone (0.17).
SKIPPED = re.compile(r"could not attach probe (\S+?),? skipping|tracepoint not found: (\S+)")


@cache
def checking() -> list[str]:
    """The option by which bpftrace reports a map that is full; from 0.19 on it always does."""
    usage = subprocess.run(["bpftrace", "--help"], capture_output=True, text=True, check=False)
    return ["-k"] if "(except read functions)" in usage.stdout + usage.stderr else []


class BpftraceTracer(Tracer):
    """One bpftrace with one script."""

    def argv(self) -> list[str]:
        script, parameters = choose(self._rows, self._workload)
        options = [*checking(), "-f", "json", "-o", str(self.output)]
        return ["bpftrace", *options, str(script.path), *parameters]

    def environment(self) -> dict[str, str]:
        return {NOTIFY: "1"}

    def is_attached(self) -> bool:
        return NOTIFY in self.said()

    def check_attached(self) -> None:
        """Without one of its probes a script counts too little, which would pass for a zero."""
        if skipped := SKIPPED.findall(self.said()):
            names = dict.fromkeys(name for pair in skipped for name in pair if name)
            raise AttachError(f"{self.file}: this kernel has no {', '.join(names)}.")


class Bpftrace(Tracers):
    """The bpftrace scripts of a pass."""

    name = "bpftrace"
    tracer = BpftraceTracer
