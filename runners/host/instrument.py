# SPDX-License-Identifier: GPL-2.0-or-later
"""Instruments: attached once for a pass, and told of each cell.

The order of calls: `attach`, `wait`, for each cell `before` and `after`, `ask_to_finish`, `finish`;
`stop` on every way out. bpftrace, BCC's tools and perf are processes (`Child`). BCC's tools run
with the distribution's Python, which has BCC.
"""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from probes.bcc.frame import MISSING_PREFIX, READY
from probes.bcc.people import wchan
from probes.bpf import Program, Programs
from probes.cell import CellRun
from probes.reasons import ReasonError, missing, reason
from probes.scripts import PROBES, Script
from runners.process import Patience, command, stop
from runners.store.locks import inherited


@dataclass(frozen=True)
class Context:
    """What an instrument knows of the run: all its transports, a folder for files, the pass.

    `miss` takes an entry of probes.reasons.missing for what cannot be counted.
    """

    workload: str
    transports: frozenset[str]
    out: Path
    number: int
    miss: Callable[[dict[str, Any]], None]

    def folder(self, instrument: str) -> Path:
        """The instrument's folder for this pass."""
        folder = self.out / instrument / str(self.number)
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@dataclass(frozen=True)
class WindowOptions:
    """How the workload switches an instrument on and off: options, and descriptors it inherits."""

    options: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True)
class Losses:
    """What an instrument lost in one cell.

    `missed`: script → events for which its programs were not run; None where nobody knows. Most
    events of the scheduler have nothing to do with the cell; those of `calls_missed` do
    (Program.on_path). `ran`: `runs` and `ns` of its BPF programs; None without any.
    """

    lost: int = 0
    missed: dict[str, int | None] = field(default_factory=dict)
    calls_missed: dict[str, int | None] = field(default_factory=dict)
    ran: dict[str, int] | None = None


class Instrument:
    """Does nothing. `quantities`: script → what it counts. `scripts` are those attached."""

    name = ""

    def __init__(self, scripts: Sequence[Script], context: Context) -> None:
        self.context = context
        self.scripts: list[str] = []
        self.quantities = {script.name: script.quantities for script in scripts}

    def attempt(self, step: Callable[[], None], quantities: Mapping[str, Sequence[str]]) -> bool:
        """Do a step. False where it fails; then these quantities are missing."""
        try:
            step()
        except ReasonError as error:
            self.miss(quantities, error)
            return False
        return True

    def miss(self, quantities: Mapping[str, Sequence[str]], error: ReasonError) -> None:
        """Report what scripts would have counted as missing."""
        for script, names in quantities.items():
            for why in error.reasons:
                self.context.miss(missing(names, why, by=f"{self.name} {script}"))

    def blind(self, script: str) -> Container[str]:
        """Transports whose messages a script that is attached does not see on this kernel."""
        return ()

    def attach(self) -> None:
        """Begin to attach, so that several instruments do so side by side."""

    def wait(self) -> list[str]:
        """Wait for it. Returns the scripts that are attached, and reports the others as missing."""
        return []

    def before(self, run: CellRun) -> WindowOptions:
        """A cell is about to run."""
        return WindowOptions()

    def after(self, run: CellRun) -> Losses:
        """The cell has run, or failed."""
        return Losses()

    def ask_to_finish(self) -> None:
        """Begin to detach, so that several do so side by side."""

    def finish(self) -> None:
        """Wait until detached and everything is written."""

    def stop(self) -> None:
        """End it, in whatever state it is."""


ATTACH_SECONDS = 90
DETACH_SECONDS = 60
AGAIN_SECONDS = 2

AnyChild = TypeVar("AnyChild", bound="Child")


class Child:
    """A tracing process. It writes its maps to `output` and prints to `words`.

    `file` is its name in messages. A subclass knows its command.
    """

    stdin = subprocess.DEVNULL
    descriptors: tuple[int, ...] = ()  # that it inherits
    environment: Mapping[str, str] = {}  # beside ours
    quantities: Mapping[str, Sequence[str]] = {}
    process: subprocess.Popen[bytes]  # once it is started
    started = False

    def __init__(self, name: str, file: str, output: Path, words: Path) -> None:
        self.name = name
        self.file = file
        self.output = output
        self.words = words
        self._programs: Programs | None = None
        self._ended_early = False

    def argv(self) -> list[str]:
        """Its command. Raises ReasonError where this kernel lacks what it needs."""
        raise NotImplementedError

    def is_attached(self) -> bool:
        """Whether it says so, as BCC's tools do."""
        return READY in self.printed().splitlines()

    def check_attached(self) -> None:
        """Check that every probe is attached. Raises ReasonError."""

    def scripts_of(self, program: str) -> Sequence[str]:
        """The scripts that one of its BPF programs belongs to."""
        return list(self.quantities)

    def start(self) -> None:
        """Start it. Raises ReasonError."""
        argv = command(self.argv())
        with self.words.open("wb") as words:
            self.process = subprocess.Popen(
                argv,
                stdin=self.stdin,
                stdout=words,
                stderr=words,
                start_new_session=True,
                env={**os.environ, **self.environment},
                pass_fds=(*self.descriptors, *inherited()),
            )
        self.started = True

    def wait_attached(self) -> None:
        """Return when every probe is attached; raises ReasonError."""
        patience = Patience(self.process.pid, ATTACH_SECONDS)
        while not self.is_attached():
            if self.process.poll() is not None:
                raise self.attach_error("not-attached", said=self.last_complaint())
            if patience.is_over():
                raise self.attach_error("slow-to-attach", seconds=round(patience.seconds))
            time.sleep(0.02)
        self.check_attached()
        self._programs = Programs(self.process.pid)

    def freeze(self) -> None:
        """Stop the process; its programs go on counting.

        bpftrace reads its maps ten times a second, which costs time. Meanwhile the kernel runs no
        BPF program on that CPU (bpf_disable_instrumentation), which loses events.
        """
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def counted(self) -> list[Program]:
        """What its programs have counted so far."""
        return self._programs.read() if self._programs else []

    def ask_to_finish(self) -> None:
        """Tell it to detach, and do not wait: several detach side by side."""
        self._ended_early = self.process.poll() is not None
        self.process.send_signal(signal.SIGINT)
        self.process.send_signal(signal.SIGCONT)

    def finish(self) -> None:
        """Wait until it has detached and printed its maps; raises ReasonError if it had died."""
        if self._ended_early:
            raise self.attach_error("ended-early", said=self.last_complaint())
        patience = Patience(self.process.pid, DETACH_SECONDS)
        while self.process.poll() is None:
            if patience.is_over():
                raise self.attach_error("slow-to-end", seconds=round(patience.seconds))
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(AGAIN_SECONDS)
            # bpftrace 0.17 misses a signal outside epoll_wait: does it still sleep in its loop?
            if re.search("e(p_)?poll", wchan(Path("/proc", str(self.process.pid)))):
                self.process.send_signal(signal.SIGINT)
        if self.process.returncode != 0:
            raise self.attach_error("failed-at-end", said=self.last_complaint())

    def attach_error(self, code: str, **values: object) -> ReasonError:
        """The error for this process, by a code of reasons.tsv."""
        return ReasonError(reason(code, tool=self.file, **values))

    def stop(self) -> None:
        """End it, in whatever state it is."""
        if self.started:
            self.process.send_signal(signal.SIGCONT)
            stop(self.process, 2)

    def printed(self) -> str:
        return self.words.read_text(encoding="utf-8", errors="replace")

    def last_complaint(self) -> str:
        lines = [line for line in self.printed().splitlines() if "ERROR" in line]
        return lines[-1].strip() if lines else "it gave no reason"


class Tracers(Instrument, Generic[AnyChild]):
    """An instrument of several processes, which attach and detach side by side."""

    def __init__(self, scripts: Sequence[Script], context: Context) -> None:
        super().__init__(scripts, context)
        self.all: list[AnyChild] = []
        self.attached: list[AnyChild] = []
        self._before: list[list[Program]] = []

    def freeze(self) -> None:
        for tracer in self.attached:
            tracer.freeze()

    def before(self, run: CellRun) -> WindowOptions:
        self._before = [tracer.counted() for tracer in self.attached]
        return WindowOptions()

    def after(self, run: CellRun) -> Losses:
        missed: dict[str, int | None] = {}
        calls: dict[str, int | None] = {}
        ran = {"runs": 0, "ns": 0}
        for tracer, program in grown(self.attached, self._before):
            ran["runs"] += program.runs
            ran["ns"] += program.ns
            for script in tracer.scripts_of(program.name):
                missed[script] = total(missed.get(script, 0), program.missed)
                if program.on_path:
                    calls[script] = total(calls.get(script, 0), program.missed)
        return Losses(0, missed, calls, ran)

    def ask_to_finish(self) -> None:
        for tracer in self.attached:
            tracer.ask_to_finish()

    def finish(self) -> None:
        for tracer in self.attached:
            self.attempt(tracer.finish, tracer.quantities)

    def stop(self) -> None:
        for tracer in self.all:
            tracer.stop()


def grown(
    tracers: Sequence[AnyChild], before: Sequence[list[Program]]
) -> Iterator[tuple[AnyChild, Program]]:
    """What each program of each tracer has counted since `before`."""
    for tracer, firsts in zip(tracers, before, strict=True):
        for first, last in zip(firsts, tracer.counted(), strict=True):
            missed = total(last.missed, first.missed and -first.missed)
            yield tracer, Program(first.name, last.runs - first.runs, last.ns - first.ns, missed)


def total(*counts: int | None) -> int | None:
    """The sum; None where one of the counts is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


PYTHON = "/usr/bin/python3"
# The BCC tools that count window by window → number of map entries: for threads and processes that
# end in a window; in stacks.py for stacks of wake-ups, of which a runtime has thousands.
WINDOWED = {"counts": 1024, "syscount": 1024, "stacks": 1 << 15, "turns": 4096}


def lacks(printed: str) -> list[dict[str, Any]]:
    """Entries for what a tool cannot count on this kernel, out of what it printed."""
    lines = printed.splitlines()
    return [
        json.loads(line.removeprefix(MISSING_PREFIX))
        for line in lines
        if line.startswith(MISSING_PREFIX)
    ]


class BccTool(Child):
    """A tool that counts in the workload's windows."""

    def __init__(self, script: Script, context: Context) -> None:
        out = context.folder("bcc") / script.name
        files = out.with_suffix(".json"), out.with_suffix(".stderr")
        super().__init__(script.name, script.file_name, *files)
        self.quantities = {script.name: script.quantities}
        self._workload = context.workload

    def argv(self) -> list[str]:
        tool = PROBES / "bcc" / self.file
        return [PYTHON, "-B", "-s", str(tool), self._workload, "--json", str(self.output)]


class Bcc(Tracers[BccTool]):
    """The BCC tools of a pass."""

    name = "bcc"

    def __init__(self, scripts: Sequence[Script], context: Context) -> None:
        super().__init__(scripts, context)
        self.all = [BccTool(script, context) for script in scripts]

    def attach(self) -> None:
        self.attached = [t for t in self.all if self.attempt(t.start, t.quantities)]

    def wait(self) -> list[str]:
        self.attached = [t for t in self.attached if self.attempt(t.wait_attached, t.quantities)]
        for tool in self.attached:
            for entry in lacks(tool.printed()):
                self.context.miss(entry | {"by": f"{self.name} {tool.name}"})
        self.freeze()
        return [tool.name for tool in self.attached]
