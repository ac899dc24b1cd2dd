# SPDX-License-Identifier: GPL-2.0-or-later
"""What all parts of a run share: options, user, progress, and how set-up and analysis start."""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from runners.errors import RunError
from runners.invoker import Invoker, invoker
from runners.options import Options
from runners.process import attempt, command
from runners.progress import Progress
from runners.targets import REPOSITORY

COMPILER_LINES = 6  # of a complaint: what a compiler said last


@dataclass
class Session:
    """One call of run.sh."""

    options: Options
    invoker: Invoker = field(default_factory=invoker)
    progress: Progress = field(default_factory=Progress)

    def set_up(self, *arguments: str) -> Path:
        """Run setup.sh; the Python of the analysis, whose environment is its last line.

        Raises RunError.
        """
        options = [] if self.options.install else ["--no-install"]
        process = subprocess.Popen(
            command([str(REPOSITORY / "runners/setup.sh"), *options, *arguments]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"PATHCOST_CACHE": str(self.invoker.cache)},
        )
        assert process.stdout is not None
        line = ""
        try:
            for line in process.stdout:
                self.progress.say(line.strip())
            complaint = process.communicate()[1].strip().splitlines()
        finally:
            process.kill()
        if process.returncode != 0:
            for earlier in complaint[-COMPILER_LINES:-1]:
                self.progress.note(earlier)
            raise RunError((complaint or ["set-up failed."])[-1].removeprefix("pathcost: "))
        for sentence in complaint:
            if sentence.startswith("pathcost: "):
                self.progress.note(sentence.removeprefix("pathcost: "))
        return Path(line.rstrip("\n"), "bin/python")

    def analyse(self, python: Path, *arguments: str) -> int:
        """Run `python -m analysis` as the invoking user, as it needs no root; its exit status."""
        who = self.invoker
        settings = {"HOME": str(who.home), "MPLCONFIGDIR": str(who.cache / "matplotlib")}
        status = subprocess.run(
            command([str(python), "-B", "-m", "analysis", *arguments], who.drop),
            cwd=REPOSITORY,
            env=os.environ | settings,
            check=False,
        ).returncode
        # Set-up compares sizes: a package that was damaged otherwise shows when it is imported.
        imports = [python, "-B", "-c", "import analysis.__main__"]
        if status != 0 and attempt(imports, who.drop, cwd=REPOSITORY).returncode != 0:
            environment = python.parent.parent
            attempt(["rm", "-f", environment / "complete"], who.drop)
            self.progress.note(f"{environment} is damaged: the next run makes it anew")
        return status
