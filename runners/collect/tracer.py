# SPDX-License-Identifier: GPL-2.0-or-later
"""Instruments that are processes of their own, one for each script (bpftrace, bcc)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from runners.collect.children import command, stop
from runners.collect.instrument import AttachError, Context, Instrument, Losses, Window
from runners.collect.plan import CellRun
from runners.collect.scripts import Script

ATTACH_SECONDS = 90
DETACH_SECONDS = 60


def missed(pid: int) -> int | None:
    """Events that the process's programs were not run for, by the kernel's count.

    An event inside another program on the same CPU (an interrupt's, mostly) runs none. The kernel
    counts those for each program, from 5.12 on; before, or with no program, None: nobody knows.
    """
    counts: dict[str, int] = {}
    for file in Path(f"/proc/{pid}/fdinfo").glob("*"):
        try:
            lines = file.read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        if "recursion_misses" in fields:
            counts[fields["prog_id"].strip()] = int(fields["recursion_misses"])
    return sum(counts.values()) if counts else None


class Tracer:
    """One process: `start`, `wait_attached`, `ask_to_finish`, `finish`; `stop` on the way out.

    Its maps go to `output`, all else that it says to `words`. A kind of tracer says how it is
    started, how it shows that it is attached, and what in its words is a complaint.
    """

    def __init__(self, rows: Sequence[Script], workload: str, out: Path) -> None:
        self.name = rows[0].name
        self.quantities = rows[0].quantities
        self.file = Path(rows[0].file).name
        self.output = out / f"{self.name}.json"
        self.words = out / f"{self.name}.stderr"
        self._rows = rows
        self._workload = workload
        self._process: subprocess.Popen[bytes] | None = None
        self._ended_early = False

    def argv(self) -> list[str]:
        """Raises AttachError where this kernel lacks what the script needs."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def is_attached(self) -> bool:
        raise NotImplementedError

    def check_attached(self) -> None:
        """It says that it is attached: is that so? Raises AttachError."""

    def start(self) -> None:
        """Raises AttachError as `argv` does."""
        argv = self.argv()
        with self.words.open("wb") as words:
            self._process = subprocess.Popen(
                command(argv),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                env=os.environ | self.environment(),
                start_new_session=True,
            )

    def wait_attached(self) -> None:
        """Return when every probe of the script is attached; raises AttachError."""
        assert self._process is not None
        deadline = time.monotonic() + ATTACH_SECONDS
        while not self.is_attached():
            if self._process.poll() is not None:
                raise AttachError(f"{self.file} could not be attached: {self.last_complaint()}")
            if time.monotonic() > deadline:
                raise AttachError(f"{self.file} was not attached in {ATTACH_SECONDS} s.")
            time.sleep(0.02)
        self.check_attached()

    def missed(self) -> int | None:
        """Events missed so far: see `missed`."""
        assert self._process is not None
        return missed(self._process.pid)

    def ask_to_finish(self) -> None:
        """Let it begin to detach, so that several do so side by side."""
        assert self._process is not None
        self._ended_early = self._process.poll() is not None
        self._process.send_signal(signal.SIGINT)

    def finish(self) -> None:
        """Wait until it has detached and printed its maps; raises AttachError if it had died."""
        assert self._process is not None
        if self._ended_early:
            raise AttachError(f"{self.file} ended early: {self.last_complaint()}")
        try:
            status = self._process.wait(DETACH_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise AttachError(f"{self.file} did not end in {DETACH_SECONDS} s.") from error
        if status != 0:
            raise AttachError(f"{self.file} failed at its end: {self.last_complaint()}")

    def stop(self) -> None:
        """End it, whatever its state."""
        if self._process is not None:
            stop(self._process, 2)

    def said(self) -> str:
        """All that it has said until now."""
        return self.words.read_text(encoding="utf-8", errors="replace")

    def last_complaint(self) -> str:
        lines = [line for line in self.said().splitlines() if "ERROR" in line]
        return lines[-1].strip() if lines else "it gave no reason."


class Tracers(Instrument):
    """Several tracers of one kind, attached and detached side by side."""

    tracer: type[Tracer]

    def __init__(self, scripts: Sequence[Sequence[Script]], context: Context) -> None:
        folder = context.folder(self.name)
        self._context = context
        self._all = [self.tracer(rows, context.workload, folder) for rows in scripts]
        self._attached: list[Tracer] = []
        self._missed: dict[str, int | None] = {}

    def attach(self) -> None:
        self._attached = [one for one in self._all if self._try(one, one.start)]

    def wait(self) -> list[str]:
        self._attached = [one for one in self._attached if self._try(one, one.wait_attached)]
        return [one.name for one in self._attached]

    def before(self, run: CellRun) -> Window:
        self._missed = {one.name: one.missed() for one in self._attached}
        return Window()

    def after(self, run: CellRun) -> Losses:
        grown: dict[str, int | None] = {}
        for one in self._attached:
            first, last = self._missed[one.name], one.missed()
            grown[one.name] = None if first is None or last is None else last - first
        return Losses(0, grown)

    def ask_to_finish(self) -> None:
        for one in self._attached:
            one.ask_to_finish()

    def finish(self) -> None:
        for one in self._attached:
            self._try(one, one.finish)

    def stop(self) -> None:
        for one in self._all:
            one.stop()

    def _try(self, tracer: Tracer, step: Callable[[], None]) -> bool:
        """Do a step of a tracer; False, with its quantities recorded as missing, if it fails."""
        try:
            step()
        except AttachError as error:
            self._context.miss(", ".join(tracer.quantities), str(error))
            return False
        return True
