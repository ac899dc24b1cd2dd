# SPDX-License-Identifier: GPL-2.0-or-later
"""What all parts of a run share: options, user, progress, and how set-up and analysis start."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from runners.guest.cache import hold
from runners.host import preflight
from runners.host.root import OwnProgram, Root, RootProgram
from runners.host.workload import MAKE_AGAIN
from runners.options import Options
from runners.process import (
    ANSWER_SECONDS,
    REPOSITORY,
    WORKLOAD,
    Progress,
    RunError,
    attempt,
    command,
    last_line,
)
from runners.store import Invoker, Scratch, invoker, scratch

COMPLAINT_LINES = 6  # of a program that failed: what a compiler said last
NEEDS_ROOT = "probes need root: run it as sudo ./runners/run.sh (the workload will not be root)."


@dataclass
class Session:
    """One call of run.sh. `root` is None where nobody was root."""

    options: Options
    invoker: Invoker = field(default_factory=invoker)
    progress: Progress = field(default_factory=Progress)
    root: Root | None = field(default_factory=Root.found)
    early: subprocess.Popen[bytes] | None = None  # an analysis that waits for its run to be whole

    def need_root(self) -> Root:
        """Raises RunError."""
        if self.root is None:
            raise RunError(NEEDS_ROOT)
        return self.root

    @contextmanager
    def scratch(self) -> Iterator[Scratch]:
        """Temporary folders, and a cache that nobody clears meanwhile; what dead runs left goes."""
        with suppress(OSError):  # what cannot be locked cannot be cleared either
            hold(self.invoker.cache.resolve(), self.progress.say)
        with scratch(self.note_removed) as folders:
            yield folders

    def note_removed(self, name: str) -> None:
        """Name a thing that a dead run had left."""
        self.progress.note(f"removed what a killed run had left: {name}")

    def set_up(self, *arguments: str) -> Path:
        """Run setup.sh; the Python of the analysis, whose environment is its last line.

        Raises RunError.
        """
        options = [] if self.options.install else ["--no-install"]
        line = b""
        with tempfile.TemporaryFile() as complaints:
            program = self._set_up([*options, *arguments], complaints)
            for line in program.stdout:
                self.progress.say(line.decode(errors="replace").strip())
            status, _ = program.wait()
            complaints.seek(0)
            complaint = complaints.read().decode(errors="replace").strip().splitlines()
        if status != 0:
            for earlier in complaint[-COMPLAINT_LINES:-1]:
                self.progress.note(earlier)
            raise RunError((complaint or ["set-up failed."])[-1].removeprefix("pathcost: "))
        for sentence in complaint:
            if sentence.startswith("pathcost: "):
                self.progress.note(sentence.removeprefix("pathcost: "))
        return Path(os.fsdecode(line.rstrip(b"\n")), "bin/python")

    def _set_up(self, words: Sequence[str], complaints: IO[bytes]) -> OwnProgram | RootProgram:
        if self.root:
            return self.root.start("setup", words, complaints.fileno())
        process = subprocess.Popen(
            command([str(REPOSITORY / "runners/setup.sh"), *words]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            start_new_session=True,
            env=os.environ | {"PATHCOST_CACHE": str(self.invoker.cache)},
        )
        return OwnProgram(process)

    def preflight(self) -> list[preflight.Check]:
        """What this kernel allows: what root's process finds, or we ourselves. Raises RunError."""
        if self.root is None:
            return preflight.checks()
        with tempfile.TemporaryFile() as complaints:
            program = self.root.start("preflight", stderr=complaints.fileno())
            said = program.stdout.read()
            if program.wait()[0] != 0:
                raise RunError(last_line(complaints) or "the preflight failed.")
        return [preflight.Check(**check) for check in json.loads(said)]

    def list_workload(self) -> str:
        """What the workload prints of what is possible here: as root's process starts it.

        Raises RunError.
        """
        if self.root is None:
            said = attempt([WORKLOAD, "--list"], timeout=ANSWER_SECONDS).stdout
        else:
            program = self.root.start("list")
            said = program.stdout.read().decode(errors="replace")
            program.wait()
        if not said:
            raise RunError(f"the workload says nothing for {ANSWER_SECONDS} s: {MAKE_AGAIN}")
        return said

    def report_of(self, destination: Path) -> list[str]:
        """The analysis' arguments for the report of a run."""
        return [str(destination), *([self.options.shown] if self.options.shown else [])]

    def analyse(self, python: Path, *arguments: str) -> int:
        """Run `python -m analysis` to its end: its status. It hears no signal of the terminal.

        Raises RunError where another signal ended it.
        """
        early, self.early = self.early, None
        waits = early is not None and early.poll() is None
        process = early if early and waits else self._start_analysis(python, *arguments)
        try:
            # Only the one that has waited since its first answer reads it.
            with suppress(BrokenPipeError):
                process.communicate(b"whole\n")
            status = process.wait()
        except BaseException:
            process.kill()
            raise
        if status < 0:
            raise RunError(f"the analysis was ended by {signal.Signals(-status).name}.")
        return status

    def first_answer(self, python: Path, so_far: Path, *arguments: str) -> IO[str]:
        """Start the analysis on an unfinished run's folder: where it will write what the times say.

        `analyse` with the same arguments then lets it go on to the report.
        """
        reader, writer = os.pipe()
        early = ("--first-answer", str(so_far), "--answer-to", str(writer))
        self.early = self._start_analysis(python, *arguments, *early, descriptors=(writer,))
        os.close(writer)
        return os.fdopen(reader, encoding="utf-8")

    def _start_analysis(
        self, python: Path, *arguments: str, descriptors: Sequence[int] = ()
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command([str(python), "-B", "-m", "analysis", *arguments]),
            cwd=REPOSITORY,
            env=os.environ | {"MPLCONFIGDIR": str(self.invoker.cache / "matplotlib")},
            stdin=subprocess.PIPE,
            pass_fds=descriptors,
            process_group=0,
        )
