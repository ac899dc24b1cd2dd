# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands in for root's process (runners.host.root) where there is none.

It starts the same programs as ourselves. They then attach no probes, and measure all the same.
"""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from runners.host.root import ROOT_COMMANDS
from runners.process import REPOSITORY, command
from runners.store.folders import Invoker
from runners.store.locks import measuring, refuse_beside_root

NOT_TRACEFS = Path("/nonexistent")  # which only root can open: the lock is a file instead


@dataclass
class OwnProgram:
    """A program that we have started ourselves: what it prints, and what it is told."""

    process: subprocess.Popen[bytes]
    out: Path
    stdin: IO[bytes]
    stdout: IO[bytes]

    def wait(self) -> tuple[int, Path | None]:
        """Return its status, and the folder with its results if it has left one."""
        self.stdin.close()
        self.stdout.close()
        return self.process.wait(), self.out if self.out.is_dir() else None


@dataclass
class Unprivileged:
    """Starts programs as ourselves. It has the methods of Root that a run needs."""

    invoker: Invoker
    held: ExitStack = field(default_factory=ExitStack)

    def lock(self) -> list[str]:
        """Take this user's lock until our process ends. Nothing of dead runs is root's here.

        A measuring run of root's is seen; root's run does not see ours, since no user may hold
        others up. Raises RunError.
        """
        refuse_beside_root()
        self.invoker.cache.mkdir(parents=True, exist_ok=True)
        self.held.enter_context(measuring(NOT_TRACEFS, self.invoker.cache / "measuring"))
        return []

    def start(
        self, name: str, words: Sequence[str] = (), stderr: int = subprocess.DEVNULL
    ) -> OwnProgram:
        """Start one of ROOT_COMMANDS."""
        # Only the collector makes it, in a run's own temporary folder.
        out = Path(tempfile.gettempdir(), f"{name}-{secrets.token_hex(4)}")
        program = ROOT_COMMANDS[name]
        process = subprocess.Popen(
            command([*program.argv(self.invoker, out), *program.take(name, words)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=REPOSITORY,
            env=os.environ
            | {"PATHCOST_CACHE": str(self.invoker.cache), "TMPDIR": tempfile.gettempdir()},
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        return OwnProgram(process, out, process.stdin, process.stdout)
