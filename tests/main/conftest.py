# SPDX-License-Identifier: GPL-2.0-or-later
"""Starting run.sh as a user does, and finding whatever it left on the machine."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runners import mounts
from runners.host import ftrace
from runners.invoker import invoker
from runners.lock import HOLDER
from runners.process import REPOSITORY
from runners.workspace import ROOT

PATIENCE = 120


def wait_for(what: str, seen: Callable[[], bool]) -> None:
    """Poll until `seen`; fails after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while not seen():
        assert time.monotonic() < deadline, f"no {what} in {PATIENCE} s"
        time.sleep(0.05)


@dataclass
class RunSh:
    """A started run.sh. Its descendants are known by a word in their environment."""

    out: Path
    process: subprocess.Popen[str]
    word: str
    seen: list[int] = field(default_factory=list)

    def descendants(self, name: str = "") -> list[int]:
        """Living processes that this run started, by a word of their command line."""
        found = []
        for proc in Path("/proc").glob("[0-9]*"):
            try:
                ours = self.word.encode() in (proc / "environ").read_bytes()
                line = os.fsdecode((proc / "cmdline").read_bytes())
            except OSError:
                continue
            if ours and line and name in line and int(proc.name) != self.process.pid:
                found.append(int(proc.name))
        return found

    def wait_until_running(self, program: str) -> None:
        wait_for(
            program, lambda: bool(self.descendants(program)) or self.process.poll() is not None
        )
        assert self.process.poll() is None, self.process.communicate()

    def finish(self) -> tuple[int, str, str]:
        """Status, stdout, stderr."""
        output, complaint = self.process.communicate(timeout=2 * PATIENCE)
        return self.process.returncode, output, complaint

    def left_behind(self) -> list[str]:
        """Processes, temporary folders, tracing and half reports of this run."""
        found = [f"process {pid}" for pid in self.descendants()]
        found += map(str, Path("/tmp").glob("run.pathcost-*"))
        found += [str(path) for path in ROOT.glob("*") if path.name != HOLDER]
        found += map(str, ftrace.stale())
        found += map(str, self.out.parent.glob(f".{self.out.name}*"))
        return found


@pytest.fixture
def run_sh(tmp_path: Path) -> Iterator[Callable[..., RunSh]]:
    """Start run.sh with `--out` in a fresh folder."""
    mounts.private()  # to see what is left in tracefs
    started: list[RunSh] = []

    def start(*arguments: str, out: Path = tmp_path) -> RunSh:
        word = f"PATHCOST_TEST={uuid.uuid4()}"
        out = out / f"run{len(started)}"
        process = subprocess.Popen(
            [REPOSITORY / "runners/run.sh", "--out", out, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | dict([word.split("=")]) | {"PATHCOST_CACHE": str(invoker().cache)},
        )
        started.append(RunSh(out, process, word))
        return started[-1]

    yield start
    for run in started:
        run.process.kill()
        run.process.wait()
