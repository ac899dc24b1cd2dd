# SPDX-License-Identifier: GPL-2.0-or-later
"""Instruments that are processes of their own (bpftrace, bcc)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from runners.collect.instrument import AttachError, Context, Instrument, Losses, Ran, Window
from runners.collect.programs import Program, Programs
from runners.collect.scripts import Script
from runners.plan.model import CellRun
from runners.process import command, stop

ATTACH_SECONDS = 90
DETACH_SECONDS = 60
AGAIN_SECONDS = 2

Kind = TypeVar("Kind", bound="Child")


class Child:
    """One process: `start`, `wait_attached`, `ask_to_finish`, `finish`; `stop` on the way out.

    Its maps go to `output`, all else that it says to `words`. A kind of it says how it is started,
    how it shows that it is attached, and what in its words is a complaint; `file` is its name in
    sentences.
    """

    stdin = subprocess.DEVNULL

    def __init__(self, name: str, file: str, output: Path, words: Path) -> None:
        self.name = name
        self.file = file
        self.output = output
        self.words = words
        self._process: subprocess.Popen[bytes] | None = None
        self._programs: Programs | None = None
        self._ended_early = False

    def argv(self) -> list[str]:
        """Raises AttachError where this kernel lacks what it needs."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def is_attached(self) -> bool:
        raise NotImplementedError

    def check_attached(self) -> None:
        """It says that it is attached: is that so? Raises AttachError."""

    def lacks(self) -> list[tuple[str, str]]:
        """What it says, once attached, that this kernel cannot give it, and why."""
        return []

    def start(self) -> None:
        """Raises AttachError as `argv` does."""
        argv = self.argv()
        with self.words.open("wb") as words:
            self._process = subprocess.Popen(
                command(argv),
                stdin=self.stdin,
                stdout=words,
                stderr=words,
                env=os.environ | self.environment(),
                start_new_session=True,
            )

    def wait_attached(self) -> None:
        """Return when every probe is attached; raises AttachError."""
        assert self._process is not None
        deadline = time.monotonic() + ATTACH_SECONDS
        while not self.is_attached():
            if self._process.poll() is not None:
                raise AttachError(f"{self.file} could not be attached: {self.last_complaint()}")
            if time.monotonic() > deadline:
                raise AttachError(f"{self.file} was not attached in {ATTACH_SECONDS} s.")
            time.sleep(0.02)
        self.check_attached()
        self._programs = Programs(self._process.pid)

    def freeze(self) -> None:
        """Stop the process; its programs go on counting.

        A look at a map from user space, as bpftrace takes one ten times a second, keeps every BPF
        program off that CPU until it is over (bpf_disable_instrumentation), and it can be
        preempted by the workload: that loses events. It would cost the workload time as well.
        """
        assert self._process is not None
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def counted(self) -> list[Program]:
        """What its programs have counted so far."""
        return self._programs.read() if self._programs else []

    def ask_to_finish(self) -> None:
        """Let it begin to detach, so that several do so side by side."""
        assert self._process is not None
        self._ended_early = self._process.poll() is not None
        self._process.send_signal(signal.SIGINT)
        self._process.send_signal(signal.SIGCONT)

    def finish(self) -> None:
        """Wait until it has detached and printed its maps; raises AttachError if it had died."""
        assert self._process is not None
        if self._ended_early:
            raise AttachError(f"{self.file} ended early: {self.last_complaint()}")
        deadline = time.monotonic() + DETACH_SECONDS
        while (status := self._wait(AGAIN_SECONDS)) is None:
            if time.monotonic() > deadline:
                raise AttachError(f"{self.file} did not end in {DETACH_SECONDS} s.")
            if self._waits_for_events():
                self._process.send_signal(signal.SIGINT)
        if status != 0:
            raise AttachError(f"{self.file} failed at its end: {self.last_complaint()}")

    def _wait(self, seconds: float) -> int | None:
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _waits_for_events(self) -> bool:
        """Whether it still sleeps in its loop, and so has not heard us.

        bpftrace 0.17 leaves its loop only where a signal interrupts epoll_wait(2). One that comes
        when the call has timed out already, and bpftrace waits for a CPU, is lost.
        """
        assert self._process is not None
        try:
            where = Path(f"/proc/{self._process.pid}/wchan").read_text(encoding="ascii")
        except OSError:
            return False
        return "epoll" in where or "ep_poll" in where

    def stop(self) -> None:
        """End it, whatever its state."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            stop(self._process, 2)

    def said(self) -> str:
        """All that it has said until now."""
        return self.words.read_text(encoding="utf-8", errors="replace")

    def last_complaint(self) -> str:
        lines = [line for line in self.said().splitlines() if "ERROR" in line]
        return lines[-1].strip() if lines else "it gave no reason."


class Tracer(Child):
    """A process with one script."""

    def __init__(self, rows: Sequence[Script], workload: str, out: Path) -> None:
        name = rows[0].name
        super().__init__(
            name, Path(rows[0].file).name, out / f"{name}.json", out / f"{name}.stderr"
        )
        self.quantities = rows[0].quantities
        self._rows = rows
        self._workload = workload


class Tracers(Instrument, Generic[Kind]):
    """Several children, attached and detached side by side."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.all: list[Kind] = []
        self.attached: list[Kind] = []
        self._before: list[list[Program]] = []

    def freeze(self) -> None:
        for one in self.attached:
            one.freeze()

    def before(self, run: CellRun) -> Window:
        self._before = [one.counted() for one in self.attached]
        return Window()

    def after(self, run: CellRun) -> Losses:
        missed: dict[str, int | None] = {}
        calls: dict[str, int | None] = {}
        ran = Ran()
        for one, before in zip(self.attached, self._before, strict=True):
            for first, last in zip(before, one.counted(), strict=True):
                ran += Ran(last.runs - first.runs, last.ns - first.ns)
                grown = _sum(last.missed, first.missed and -first.missed)
                for script in self.scripts_of(one, first.name):
                    missed[script] = _sum(missed.get(script, 0), grown)
                    if first.on_path:
                        calls[script] = _sum(calls.get(script, 0), grown)
        return Losses(0, missed, calls, ran)

    def scripts_of(self, tracer: Kind, program: str) -> list[str]:
        """The scripts that a program of this tracer belongs to."""
        return [tracer.name]

    def ask_to_finish(self) -> None:
        for one in self.attached:
            one.ask_to_finish()

    def stop(self) -> None:
        for one in self.all:
            one.stop()


def _sum(*counts: int | None) -> int | None:
    """None where one of them is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


class SingleTracers(Tracers[Tracer]):
    """Tracers of one script each."""

    tracer: type[Tracer]

    def __init__(self, scripts: Sequence[Sequence[Script]], context: Context) -> None:
        super().__init__(context)
        folder = context.folder(self.name)
        self.all = [self.tracer(rows, context.workload, folder) for rows in scripts]

    def attach(self) -> None:
        self.attached = [one for one in self.all if self._try(one, one.start)]

    def wait(self) -> list[str]:
        self.attached = [one for one in self.attached if self._try(one, one.wait_attached)]
        for one in self.attached:
            for what, why in one.lacks():
                self.context.miss(what, why)
        self.freeze()
        return [one.name for one in self.attached]

    def finish(self) -> None:
        for one in self.attached:
            self._try(one, one.finish)

    def _try(self, tracer: Tracer, step: Callable[[], None]) -> bool:
        """Do a step of a tracer; False, with its quantities recorded as missing, if it fails."""
        try:
            step()
        except AttachError as error:
            self.context.miss(", ".join(tracer.quantities), str(error))
            return False
        return True
