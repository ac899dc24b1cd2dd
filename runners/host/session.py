# SPDX-License-Identifier: GPL-2.0-or-later
"""What all parts of a verb share: options, user, progress; how set-up and the analysis start."""

import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Generic

from probes import contract
from probes.contract import Status
from probes.messages import CLONE, PROGRAM
from probes.reasons import reason
from runners.host import preflight
from runners.host.root import Root
from runners.host.unprivileged import Unprivileged
from runners.options import Verb_co
from runners.process import Progress, RunError, last_line
from runners.store.folders import Invoker, Scratch, invoker, scratch
from runners.store.locks import hold

# Why no probe can be attached, and what to do about it.
NEED_ROOT = f"probes need root: sudo {PROGRAM}"
NEED_RIGHTS = "root has no rights here: start the container with --privileged --pid=host"
LOUD = (b"installing: ", b"making ")  # of setup.sh, before it does so
COMPLAINT_LINES = 6  # of a program that failed: what a compiler said last


@dataclass
class Session(Generic[Verb_co]):
    """One call of run.sh. `root` is None where nobody was root.

    `unprobed` says why no probe can be attached here; it is empty until that was tried.
    """

    options: Verb_co
    invoker: Invoker = field(default_factory=invoker)
    progress: Progress = field(default_factory=Progress)
    root: Root | None = field(default_factory=Root.from_environment)
    unprobed: str = ""

    @cached_property
    def starter(self) -> Root | Unprivileged:
        """Who starts set-up, preflight and collector: root's process, or we ourselves."""
        return self.root or Unprivileged(self.invoker)

    def need_root(self) -> Root:
        """Raises RunError."""
        if self.root is None:
            verb = self.options.verb
            raise RunError(
                f"probes need root: run it as sudo {PROGRAM} {verb} "
                "(the workload will not be root)."
            )
        return self.root

    def tell_of_times(self) -> None:
        """Say that times are none, where they are none."""
        if not preflight.cpu().ok:
            self.progress.note(f"{reason('emulated-cpu')}.")

    def try_mounts(self) -> None:
        """Mount what tracing needs. Where that is refused, `unprobed` says why."""
        if self.root is None:
            self.unprobed = NEED_ROOT if os.geteuid() else NEED_RIGHTS
            return
        try:
            self.root.mounts()
        except RunError as error:
            self.unprobed = str(error).rstrip(".")

    @contextmanager
    def scratch(self) -> Iterator[Scratch]:
        """Temporary folders, and a cache that nobody clears meanwhile; what dead runs left goes."""
        with suppress(OSError):  # what cannot be locked cannot be cleared either
            hold(self.invoker.cache.resolve(), self.progress.say)
        with scratch(self.progress.note) as folders:
            yield folders

    def note_removed(self, name: str) -> None:
        """Name a thing that a dead run had left."""
        self.progress.note(f"removed what a killed run had left: {name}")

    def set_up(self, *arguments: str) -> None:
        """Run setup.sh, and make its environment's packages ours. Raises RunError."""
        words = [*arguments]
        if self.unprobed:
            words.insert(0, "--unprobed")
        if self.options.no_install:
            words.insert(0, "--no-install")
        if CLONE:  # a package's libraries are the distribution's
            need_libraries(self.invoker.cache)
        line = b""
        with tempfile.TemporaryFile() as complaints:
            program = self.starter.start("setup", words, complaints.fileno())
            for line in program.stdout:
                tell = self.progress.note if line.startswith(LOUD) else self.progress.say
                tell(line.decode(errors="replace").strip())
            status, _ = program.wait()
            complaints.seek(0)
            complaint = complaints.read().decode(errors="replace").strip().splitlines()
        if status != 0:
            for earlier in complaint[-COMPLAINT_LINES:-1]:
                self.progress.note(earlier)
            raise RunError(why_set_up_failed(complaint[-1] if complaint else ""))
        for sentence in complaint:
            if sentence.startswith("pathcost: "):
                self.progress.note(sentence.removeprefix("pathcost: "))
        environment = Path(os.fsdecode(line.rstrip(b"\n")))  # which this Python has made
        need_libraries(environment)
        for packages in environment.glob("lib/python*/site-packages"):
            if str(packages) not in sys.path:
                sys.path.insert(1, str(packages))  # after our own
        # Of what is imported from here on, also where a checkout is not ours to write to. The
        # distribution has compiled its own.
        if environment != Path("/usr"):
            sys.pycache_prefix = str(self.invoker.cache / "bytecode")
            sys.dont_write_bytecode = False
        fonts = self.invoker.cache  # in an image that is read only, it is too
        if not os.access(fonts, os.W_OK):
            # A name in /tmp that others can guess, they could make first, with settings of theirs.
            fonts = Path(tempfile.mkdtemp(prefix="pathcost-"))  # in the scratch folder
        os.environ |= {
            "MPLBACKEND": "agg",  # whatever the user's is
            "MPLCONFIGDIR": str(fonts / "matplotlib-fonts"),
            "OPENBLAS_NUM_THREADS": "1",  # no table of ours is worth a thread
        }

    def set_up_step(self, *arguments: str, name: str = "set-up") -> None:
        """A set-up that is a step of its own. Raises RunError."""
        with self.progress.step(name):
            self.set_up(*arguments)

    def need_loopback(self) -> None:
        """Raises RunError."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            try:
                datagrams.connect(("127.0.0.1", 9))
            except OSError as error:
                raise RunError(f"127.0.0.1: {error.strerror}: ip link set lo up") from None

    def preflight(self) -> list[preflight.Check]:
        """What this kernel allows: what root's process finds, or we ourselves. Raises RunError."""
        self.need_loopback()
        with tempfile.TemporaryFile() as complaints:
            program = self.starter.start("preflight", stderr=complaints.fileno())
            listed = program.stdout.read()
            if program.wait()[0] != 0:
                raise RunError(last_line(complaints) or "the preflight failed.")
        return [preflight.Check(**check) for check in json.loads(listed)]

    def report(self, run: Path) -> int:
        """Make the report of a run that is whole: the exit status. Raises RunError."""
        from analysis.__main__ import show_stored

        again = f"measured, but not analysed; for its report: {PROGRAM} report {run}"
        try:
            show_stored([run], self.options.show)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; {again}") from None
        except RunError as error:
            if (run / contract.REPORT).exists():  # which says what failed
                raise
            raise RunError(f"{str(error).rstrip('.')}; {again}.") from error
        return Status.DONE


def why_set_up_failed(last: str) -> str:
    """The sentence for a set-up that failed, from the last line of its complaints.

    A set-up that a signal ended has written none, or the line is of a program that it ran.
    """
    if not last:
        return "set-up failed, and did not say why."
    if last.startswith("pathcost: "):
        return last.removeprefix("pathcost: ")
    return f"set-up failed: {last}"


def need_libraries(folder: Path) -> None:
    """Libraries can be loaded from this folder, or from where it will be. Raises RunError."""
    there = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    with suppress(OSError):
        if os.statvfs(there).f_flag & os.ST_NOEXEC:
            raise RunError(
                f"{folder} is mounted noexec, so no library can be loaded from it: "
                "name another cache with PATHCOST_CACHE."
            )
