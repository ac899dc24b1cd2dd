# SPDX-License-Identifier: GPL-2.0-or-later
"""Tools that count function calls of two processes, each used as its manual page shows.

A tool starts with the ids of the processes, and shows in its own way that it is attached. When it
ends, it returns the number of calls that it counted over all functions.
"""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from probes.bcc import frame, headers
from runners.host import merge
from runners.host.bpftrace import NOTIFY
from runners.host.ftrace import remove_instance
from runners.host.scripts import TRACEFS, Script, parts, read_scripts
from runners.process import command, stop

SECONDS = 120
KPROBES = TRACEFS / "kprobe_events"
GROUP = "pathcost"
BPFTRACE = ("bpftrace", "-f", "json")


class CountingTool:
    """The base of all tools, which attaches nothing. `how` is the command that a user types."""

    name = "nothing"
    how = ""
    by_marker = False  # it finds the processes by the workload's markers: attach it first

    def __init__(self, functions: Sequence[str], pids: Sequence[int], workload: str) -> None:
        self.functions = list(functions)
        self.pids = ",".join(map(str, pids))
        self.workload = workload
        self._room = tempfile.TemporaryDirectory(prefix="pathcost-cost-")  # as long as we live
        self.out = Path(self._room.name)

    def start(self) -> None:
        """Attach the tool; returns when it is attached."""

    def finish(self) -> int | None:
        """End the tool. Returns the number of calls that it counted."""
        return None


class Command(CountingTool):
    """A tool that is a process, attached when it prints `ready`.

    It prints numbers of calls, which `pattern` finds.
    """

    ready = pattern = ""
    process: subprocess.Popen[bytes]

    def environment(self) -> dict[str, str]:
        return {}

    def argv(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        with (self.out / "said").open("wb") as said:
            self.process = subprocess.Popen(
                command(self.argv()), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                env=os.environ | self.environment(), start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + SECONDS
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                stop(self.process)
                raise RuntimeError(f"{self.name} was not attached: {self.said()[-500:]}")
            time.sleep(0.05)

    def said(self) -> str:
        return (self.out / "said").read_text(errors="replace")

    def is_ready(self) -> bool:
        return self.ready in self.said()

    def finish(self) -> int | None:
        stop(self.process, 60, signal.SIGINT)
        return self.counted()

    def counted(self) -> int:
        return sum(map(int, re.findall(self.pattern, self.said(), re.MULTILINE)))


class OurBcc(Command):
    name = "pathcost, BCC"
    how = "probes/bcc/calls.py -p A,B F…"
    ready = frame.READY
    pattern = r"^\w+\t(\d+)$"

    def argv(self) -> list[str]:
        return ["python3", "-B", "-m", "probes.bcc.calls", "-p", self.pids, *self.functions]


class Bpftrace(Command):
    """bpftrace with a script, whose maps are counts."""

    ready = NOTIFY

    def environment(self) -> dict[str, str]:
        return {NOTIFY: "1"}

    def counted(self) -> int:
        records = [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]
        return sum(
            count
            for record in records
            if record["type"] == "map"
            for entries in record["data"].values()
            for count in entries.values()
        )


class OurBpftrace(Bpftrace):
    name, by_marker = "pathcost, bpftrace", True
    how = "probes/bpftrace/path.bt WORKLOAD, merged as in a run, with these functions"

    def argv(self) -> list[str]:
        (script,) = read_scripts()["path"]
        blocks = merge.parse(script.path.read_text(encoding="utf-8"), [self.workload])
        wanted = [
            block
            for block in blocks
            if not block.probe.startswith("kprobe:")
            or block.probe.partition(":")[2] in self.functions
        ]
        text = self.out / "path.bt"
        text.write_text(merge.merge([("path", wanted)]))
        return [*BPFTRACE, str(text)]


class OurScript(Bpftrace):
    """One script of probes/bpftrace/ alone, as a learner runs it."""

    by_marker = True
    script: Script

    def argv(self) -> list[str]:
        return [*BPFTRACE, str(self.script.path), *self.script.all_parameters(self.workload)]


class OneLiner(Bpftrace):
    name = "bpftrace one-liner"
    how = "bpftrace -e 'kprobe:F, … /pid == A || pid == B/ { @[func] = count(); }'"
    kind = "kprobe"

    def argv(self) -> list[str]:
        probes = ", ".join(f"{self.kind}:{name}" for name in self.functions)
        mine = " || ".join(f"pid == {pid}" for pid in self.pids.split(","))
        return [*BPFTRACE, "-e", f"{probes} /{mine}/ {{ @[func] = count(); }}"]


class FentryOneLiner(OneLiner):
    """What a kprobe costs beside fentry, which our BCC tool uses: the same program by fentry."""

    name = "bpftrace one-liner, fentry"
    how = "the same with fentry:F"
    kind = "fentry"


class Funccount(Command):
    """Its -p takes one process, so it counts all processes, which is less work."""

    name = "BCC's funccount"
    how = "funccount -r '^(F|…)$'"
    ready = "Tracing "
    pattern = r"^b?'?\w+'? +(\d+)$"

    def environment(self) -> dict[str, str]:
        headers.write(self.out)
        include = self.out / "include/uapi/linux/ptrace.h"
        include.write_text("#include <linux/types.h>\n")
        return {"BCC_KERNEL_SOURCE": str(self.out), "PYTHONUNBUFFERED": "1"}

    def argv(self) -> list[str]:
        return ["funccount-bpfcc", "-r", f"^({'|'.join(self.functions)})$"]


class PerfProbes(Command):
    """perf with dynamic events, which `perf probe --add F` would make."""

    def start(self) -> None:
        _change_kprobes(f"p:{GROUP}/{name} {name}" for name in self.functions)
        super().start()

    def finish(self) -> int | None:
        found = super().finish()
        _change_kprobes(f"-:{GROUP}/{name}" for name in self.functions)
        return found

    @property
    def events(self) -> str:
        return ",".join(f"{GROUP}:{name}" for name in self.functions)

    def is_ready(self) -> bool:
        """perf prints nothing: it is ready when all its events are open and it sleeps."""
        process = Path(f"/proc/{self.process.pid}")
        try:
            links = [str(link.readlink()) for link in (process / "fd").iterdir()]
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        opened = sum("perf_event" in link for link in links)
        return opened >= 2 * len(self.functions) and state == "S"


class PerfStat(PerfProbes):
    name = "perf stat"
    how = "perf stat -e probe:F,… -p A,B"
    pattern = rf"^(\d+),,{GROUP}:"

    def argv(self) -> list[str]:
        return ["perf", "stat", "-x,", "-e", self.events, "-p", self.pids]


class PerfTrace(PerfProbes):
    name = "perf trace"
    how = "perf trace -e probe:F,… -p A,B"

    def argv(self) -> list[str]:
        return ["perf", "trace", "-e", self.events, "-p", self.pids, "-o", str(self.out / "trace")]

    def counted(self) -> int:
        lines = (self.out / "trace").read_text(errors="replace").splitlines()
        return sum(f"{GROUP}:" in line for line in lines)


class Ftrace(CountingTool):
    name = "ftrace"
    how = "set_ftrace_filter F…, set_ftrace_pid A B, the function tracer"

    def start(self) -> None:
        self.instance = TRACEFS / "instances" / f"pathcost-{os.getpid()}"
        self.instance.mkdir()
        self._set("buffer_size_kb", "16384")
        self._set("set_ftrace_filter", "\n".join(self.functions))
        self._set("set_ftrace_pid", self.pids.replace(",", " "))
        self._set("current_tracer", "function")

    def finish(self) -> int | None:
        self._set("tracing_on", "0")
        with (self.instance / "trace").open(errors="replace") as lines:
            found = sum(not line.startswith("#") for line in lines)
        remove_instance(self.instance)
        return found

    def _set(self, name: str, value: str) -> None:
        (self.instance / name).write_text(value + "\n", encoding="ascii")


TOOLS: tuple[type[CountingTool], ...] = (
    OurBcc, OurBpftrace, OneLiner, FentryOneLiner, Funccount, PerfStat, PerfTrace, Ftrace,
)  # fmt: skip


def each_script(kernel: str) -> tuple[type[CountingTool], ...]:
    """A tool for each bpftrace script, in the variant for this series of kernels."""
    chosen = [
        next((row for row in rows if kernel in row.kernels), rows[0])
        for script in read_scripts().values()
        for rows in parts(script, ("unix", "tcp"))[:1]
        if rows[0].instrument == "bpftrace"
    ]
    return tuple(
        type(row.name, (OurScript,), {"name": row.name, "how": row.file, "script": row})
        for row in chosen
    )


def _change_kprobes(lines: Iterable[str]) -> None:
    """Append one line at a time: see Documentation/trace/kprobetrace.rst."""
    descriptor = os.open(KPROBES, os.O_WRONLY | os.O_APPEND)
    try:
        for line in lines:
            os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)
